"""Every check that needs a GPU, in at most eight minutes: clocks, peaks, profiles, estimates, idle time, counters.

Needs torch, torchvision and what the package itself requires, with the package installed (`pip install --no-deps .`).
A check that raises, or one of whose conditions does not hold, is recorded as failed, and the others go on; one that
would begin when the time is spent is recorded as skipped. Times are reported; conditions on them are wide, and made on
an accelerator only. After every check the results are written to benchmarks/results/on_gpu_<device>.txt and .json; the
JSON also holds the peaks, all rows and the counters. Ends with 1 if a check failed.

On a CPU the clock is the host's, and what only an accelerator has is skipped. `--small` has tiny models and sizes.

    python benchmarks/on_gpu.py [--seconds 480] [--only profile]
    python benchmarks/on_gpu.py --small --device cpu --out on_cpu
"""
import gc, json, math, os, platform, re, shlex, shutil, signal, subprocess, sys, tempfile, time, traceback, warnings
from datetime import datetime, timezone
from functools import partial
from numbers import Real
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np, torch, torchvision
from fastcore.script import call_parse
from tabulate import tabulate
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.append(str(Path(__file__).resolve().parents[1]))   # last: an installed package is taken before this folder's
from benchmarks.shared.report import arguments, code_now
from fasterbench.base.core import DeviceError, device_name, model_device, resolve_device, synchronize
from fasterbench.base.precision import has_tf32, tf32_on, tf32_switches
from fasterbench.base.settings import float32_precision
from fasterbench.costs import count_costs
from fasterbench.ncu import kernel_bytes, kernel_flops, ncu_command, read_ncu
from fasterbench.records.rows import ceiling_for
from fasterbench.roofline import HardwarePeaks, RooflineAnalyzer, measure_peaks
from fasterbench.base.system import device_clock, time_callable

bf16, f32 = torch.bfloat16, torch.float32
results = Path(__file__).parent/'results'

# What the checks share

class Skipped(Exception): "There is nothing to measure here, and why"

class Bench:
    "The device, the sizes, the time left, the conditions and findings of the check that runs, and what others left"
    def __init__(self, device, small, seconds):
        self.device, self.small, self.end = device, small, time.monotonic() + seconds
        self.on_cpu, self.peaks, self.counted = device.type=='cpu', None, {}
        self.begin()
    def begin(self): self.conditions, self.found = [], {}
    @property
    def left(self): return self.end - time.monotonic() # seconds
    @property
    def roof(self):
        "The measured peaks; where there are none, made-up ones, so that all but the roof is still measured"
        made_up = dict(float32=1e15, bfloat16=1e15)
        return self.peaks or HardwarePeaks(1e15, 1e13, device=self.device, compute_peaks=made_up)
    def holds(self, what, held, measured, expected):
        self.conditions.append(dict(condition=what, held=bool(held), measured=measured, expected=expected))
    def equal(self, what, measured, expected): self.holds(what, measured==expected, measured, expected)
    def timing(self, what, measured, low, high):
        "A condition on times: only on an accelerator at full size, with nobody else on it"
        if not self.on_cpu and not self.small: self.holds(what, low<=measured<=high, measured, f'{low:g} to {high:g}')
    def gpu_only(self, why):
        if self.on_cpu: raise Skipped(f'CPU: {why}')

def percent(part, whole): return 100*part/whole if part and whole else None

# The clock

def busy(b, seconds):
    "A function that keeps the device busy for about `seconds`"
    n = 512 if b.on_cpu else 4096
    a, c = torch.ones(n, n, device=b.device), torch.empty(n, n, device=b.device)
    def one(): torch.mm(a, a, out=c)
    times = max(round(seconds/time_callable(one, b.device, warmup=2, steps=3).median_s), 1)
    def run():
        for _ in range(times): one()
    return run

def by_all_clocks(b, clock, run):
    "Seconds of one run by the package's clock, by the wall clock, and by torch.cuda's own events"
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if b.device.type=='cuda' else []
    synchronize(b.device)
    start, marks = time.perf_counter(), [clock.mark()]
    for e in events[:1]: e.record()
    run()
    for e in events[1:]: e.record()
    marks.append(clock.mark())
    synchronize(b.device)
    wall = time.perf_counter() - start
    return clock.seconds(marks)[1], wall, events[0].elapsed_time(events[1])/1e3 if events else None

def marks_in_a_row(b, clock, n=200):
    "What a mark costs the host, and how far apart marks are with nothing between them"
    for _ in range(2):   # the first time makes the events
        synchronize(b.device)
        start = time.perf_counter()
        marks = [clock.mark() for _ in range(n)]
        host = (time.perf_counter() - start)/n
        gaps = np.diff(clock.seconds(marks))
    b.holds('marks are in order', gaps.min()>=0, float(gaps.min()), 'at least 0 s')
    return dict(mark_us=1e6*host, marks_apart_us=1e6*float(np.median(gaps)), least_apart_us=1e6*float(gaps.min()))

def rising(b, clock):
    "The notebook's cell for CUDA: marks before and behind three products"
    big, marks = torch.randn(256 if b.small else 4096, 256 if b.small else 4096, device=b.device), []
    for _ in range(3): marks.append(clock.mark()); big @ big
    at = clock.seconds([*marks, clock.mark()])
    b.holds('time passes from product to product', all(p<q for p,q in zip(at, at[1:])), at, 'four rising times')

def clocks(b):
    "The package's clock against the wall clock, on work that takes long"
    clock, table = device_clock(b.device), []
    for seconds in (0.005, 0.02) if b.small else (0.01, 0.05, 0.2):
        run = busy(b, seconds)
        got = [by_all_clocks(b, clock, run) for _ in range(5)]
        ratio = median(own/wall for own,wall,_ in got)
        own, wall, events = (None if o[0] is None else 1e3*median(o) for o in zip(*got))
        b.timing(f'the clock against the wall clock over {seconds:g} s', ratio, 0.9, 1.01)
        table.append(dict(clock=type(clock).__name__, clock_ms=own, wall_ms=wall, ratio=ratio, cuda_event_ms=events))
    rising(b, clock)
    return dict(marks_in_a_row(b, clock), table=table)

def devices(b):
    "Devices by name: the notebook's cell for CUDA"
    kind = b.device.type
    expected = None if b.on_cpu else torch.accelerator.current_device_index()
    b.equal('the index where none is given', resolve_device(kind).index, expected)
    absent = 'cuda:99' if b.on_cpu else f'{kind}:99'
    try: said = str(resolve_device(absent))
    except DeviceError as e: said = str(e)
    named = f'device={absent!r} was asked for' in said
    b.holds('a device that is not there is refused', named, said, 'an error that names it')
    return dict(resolved=str(resolve_device(kind)), refused=said)

# The peaks

def measured(b):
    "Peaks, and the seconds that they took"
    size = dict(matmul_size=256, bandwidth_mb=32) if b.on_cpu else dict(matmul_size=2048, bandwidth_mb=512)
    how, start = dict(dtype='float32', wait=0, **size) if b.small else dict(dtype='all'), time.perf_counter()
    return measure_peaks(b.device, hierarchy=True, cache=False, **how), time.perf_counter() - start

of_sheet = 'of the datasheet %'

def ceilings_table(p):
    sheet = p.datasheet()
    return [{'ceiling': k, 'TFLOP/s': v/1e12, 'sustained %': percent(p.sustained.get(k), v),
             'spread %': 100*p.spread.get(k, 0), of_sheet: percent(v, sheet and sheet.compute_peaks.get(k)),
             'kernel': p.kernels.get(k)} for k,v in p.compute_peaks.items()]

def levels_table(p):
    sheet, outermost = p.datasheet(), p.memory_levels[-1]
    return [{'level': o.name, 'GB/s': o.bandwidth/1e9, 'MB': o.size/1e6, 'reported MB': o.reported and o.reported/1e6,
             of_sheet: percent(o.bandwidth, sheet and o is outermost and sheet.peak_bandwidth)}
            for o in p.memory_levels]

def as_in_the_notebook(b, p):
    "The conditions of the notebook's cell for CUDA"
    least = 2*torch.cuda.get_device_properties(b.device).L2_cache_size
    half, single = (p.compute_peaks.get(k, 0.) for k in ('float16', 'float32'))
    b.holds('the ridge lies above 1 FLOP/byte', p.ridge_point>1, p.ridge_point, 'above 1')
    b.equal('TF32 is off', p.tf32_enabled, False)
    b.holds('the working set is beyond the L2', p.working_set>=least, p.working_set, f'at least {least}')
    b.holds('float16 is faster than float32', half>single, [half, single], 'the first is larger')

def as_saved(p):
    "The file that holds the peaks, for `HardwarePeaks.load`"
    with tempfile.TemporaryDirectory() as d: return json.loads(p.save(Path(d)/'peaks.json').read_text(encoding='utf-8'))

def peaks(b):
    "All ceilings of arithmetic and of memory, and how much of the datasheet they are"
    p, seconds = measured(b)
    b.peaks, sheet = p, p.datasheet()
    if b.device.type=='cuda' and not b.small: as_in_the_notebook(b, p)
    table, levels = ceilings_table(p), levels_table(p)
    for r in (*table, *levels):
        if r[of_sheet]: b.timing(f"{r.get('ceiling') or r['level']}, percent of the datasheet", r[of_sheet], 10, 130)
    new = dict(kernels=p.compute_kernels, disturbed=p.disturbed, doubts=p.doubts, before=p.gpu_before)
    return dict(seconds=seconds, peaks=repr(p), datasheet=sheet and sheet.device_name, unsupported=p.unsupported,
        working_set_MB=p.working_set/1e6, bandwidths={k: f'{v/1e9:.1f} GB/s' for k,v in p.bandwidths.items()},
        table=table, levels=levels, raw_peaks=as_saved(p), **new)

def peaks_again(b):
    "A second measurement against the first"
    if b.peaks is None: raise Skipped('the first measurement left no peaks')
    p, seconds = measured(b)
    def rates(o): return o.compute_peaks | {l.name: l.bandwidth for l in o.memory_levels}
    was, now = rates(b.peaks), rates(p)
    table = [{'ceiling': k, 'first, T': was[k]/1e12, 'second, T': now[k]/1e12, 'ratio': now[k]/was[k]}
             for k in was if k in now]
    for r in table: b.timing(f"{r['ceiling']}, second against first", r['ratio'], 0.7, 1.4)
    return dict(seconds=seconds, once_only=sorted({*was} ^ {*now}), unsupported=p.unsupported, table=table)

def copy_rate(b, nbytes, steps):
    "The best byte/s of a copy from one buffer of `nbytes` to another, read and written"
    a, c = (torch.zeros(nbytes//4, device=b.device) for _ in range(2))
    return 2*nbytes/time_callable(lambda: c.copy_(a), b.device, warmup=2, steps=steps).min_s

def tuned_copy(b):
    "The peak bandwidth against one copy, in the size of buffer that suits it best"
    if b.peaks is None: raise Skipped('there are no peaks to compare it with')
    sizes = [2**k for k in ((25, 26) if b.small else (27, 28) if b.on_cpu else (28, 29, 30, 31, 32))]
    rates = {n: copy_rate(b, n, 5 if b.small else 20) for n in sizes}
    ratio = b.peaks.peak_bandwidth/max(rates.values())
    b.timing('the peak against the best copy', ratio, 0.75, 1.5)
    return dict(peak_against_copy=ratio, table=[{'buffer MB': n/1e6, 'copy GB/s': r/1e9} for n,r in rates.items()])

# The models

def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x*cos + torch.cat((-second, first), -1)*sin

class Attention(nn.Module):
    "Causal attention, a key and value head for several query heads"
    def __init__(self, hidden, heads, kv_heads):
        super().__init__()
        self.kv_heads, self.size, self.shared = kv_heads, hidden//heads, heads//kv_heads
        self.q, self.o = (nn.Linear(hidden, hidden, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(hidden, kv_heads*self.size, bias=False) for _ in range(2))
    def forward(self, x, cos, sin):
        q, k, v = (f(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        k, v = (t[:, :, None].expand(-1, -1, self.shared, -1, -1).flatten(1, 2) for t in (k, v))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

class SwiGLU(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate, self.up = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, hidden, bias=False)
    def forward(self, x): return self.down(F.silu(self.gate(x))*self.up(x))

class Block(nn.Module):
    def __init__(self, hidden, heads, kv_heads, inner):
        super().__init__()
        self.norm1, self.norm2 = (nn.RMSNorm(hidden, eps=1e-5) for _ in range(2))
        self.attention, self.mlp = Attention(hidden, heads, kv_heads), SwiGLU(hidden, inner)
    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        return x + self.mlp(self.norm2(x))

class Decoder(nn.Module):
    "A language model of the shape of Llama 3.2 1B; the head is the embedding"
    def __init__(self, layers=16, hidden=2048, heads=32, kv_heads=8, inner=8192, vocabulary=128256, longest=4096):
        super().__init__()
        self.embed, self.norm = nn.Embedding(vocabulary, hidden), nn.RMSNorm(hidden, eps=1e-5)
        self.blocks = nn.ModuleList(Block(hidden, heads, kv_heads, inner) for _ in range(layers))
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.head.weight = self.embed.weight
        size = hidden//heads
        angles = torch.outer(torch.arange(longest).float(), 5e5**-(torch.arange(0, size, 2)/size)).repeat(1, 2)
        self.register_buffer('cos', angles.cos()); self.register_buffer('sin', angles.sin())
    def forward(self, ids):
        x, n = self.embed(ids), ids.shape[1]
        for block in self.blocks: x = block(x, self.cos[:n], self.sin[:n])
        return self.head(self.norm(x))

def decoder_products(tokens, layers=16, hidden=2048, heads=32, kv_heads=8, inner=8192, vocabulary=128256):
    "FLOPs of a decoder's matrix products, from its sizes; masked ones are counted as they are by torch"
    weights = 2*hidden**2 + 2*hidden*hidden*kv_heads//heads + 3*hidden*inner
    return 2*tokens*(layers*weights + hidden*vocabulary) + 4*layers*tokens**2*hidden

class Case(NamedTuple):
    "A model to profile"
    dtype:torch.dtype
    build:object         # returns the model
    sample:object        # returns its input
    batch:int = 1        # images, of which `published` is for one
    published:float|None = None # 10⁹ multiply-adds of an image
    products:int|None = None    # FLOPs in matrix products, worked out
    large:bool = False   # too large to be made on the CPU first

def image_case(name, dtype, batch, side=224):
    published = torchvision.models.get_model_weights(name).DEFAULT.meta['_ops'] if side==224 else None
    build = partial(torchvision.models.get_model, name, weights=None)
    return Case(dtype, build, lambda: torch.randn(batch, 3, side, side), batch, published)

def decoder_case(dtype, tokens, **sizes):
    vocabulary, products = sizes.get('vocabulary', 128256), decoder_products(tokens, **sizes)
    def sample(): return torch.randint(vocabulary, (1, tokens))
    return Case(dtype, partial(Decoder, **sizes), sample, products=products, large=not sizes)

def cases(b):
    "The models, the most telling first"
    if b.small:
        tiny = decoder_case(f32, 32, layers=2, hidden=64, heads=4, kv_heads=2, inner=128, vocabulary=256)
        sizes = dict(image_size=64, patch_size=16, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128)
        vit = partial(torchvision.models.VisionTransformer, **sizes)
        return {'decoder of 2 layers, float32': tiny, 'resnet18, float32': image_case('resnet18', f32, 1, 64),
                'vision transformer of 2 layers, float32': Case(f32, vit, lambda: torch.randn(1, 3, 64, 64))}
    batch, tokens = (1, 64) if b.on_cpu else (64, 2048)
    images = {f"{n}, {str(d).removeprefix('torch.')}": image_case(n, d, batch)
              for d in (bf16, f32) for n in ('resnet50', 'vit_b_16', 'swin_t')}
    return {'decoder of 16 layers, bfloat16': decoder_case(bf16, tokens), **images}

def built(case, device):
    "The model and its input on `device`, in the dtype of the case"
    torch.manual_seed(0)
    with torch.device(device if case.large or device=='meta' else 'cpu'): model = case.build().eval()
    with torch.device(device): sample = case.sample()
    return model.to(device, case.dtype), sample.to(case.dtype) if sample.is_floating_point() else sample

def costs_of(rows): return {r.name: (r.type, r.matmul_flops, r.flops, r.bytes_moved) for r in rows}

def samples_add_up(b, a, said):
    "In every forward: all rows' samples and the time outside of them are the forward's time"
    outside, total = a.totals.outside.samples, a.totals.forward.samples
    sums = [sum(r.samples[i] for r in a.results) + o for i,o in enumerate(outside)]
    gap, least = max(abs(s-t)/t for s,t in zip(sums, total)), min(s for r in a.results for s in r.samples)
    b.holds(f'{said}: rows and the time outside are the forward', gap<1e-9, gap, 'below 1e-9 of it, in each forward')
    b.holds(f'{said}: no row takes less than no time', least>=-2e-6, least, 'at least -2e-6 s')
    b.holds(f'{said}: nor does what is outside of the rows', min(outside)>=-2e-6, min(outside), 'at least -2e-6 s')
    return gap

def held_pct(r): return r.cache_pct if r.above and r.cache_pct is not None else r.utilization_pct

def under_the_roof(a):
    "How the rows stand under the roof"
    top = max((r for r in a.results if r.utilization_pct is not None), key=held_pct, default=None)
    odd = [r.name or '(the model)' for r in a.results if r.impossible]
    return {'roof %': percent(a.totals.roof_time_s, a.totals.mean_s),
        "above the memory's roof": sum(r.above for r in a.results), 'above every roof': len(odd), 'which': odd[:5],
        'highest %': top and held_pct(top), 'of': top and f"{top.name or '(the model)'} ({top.roof})"}

def line(b, a, seconds, said):
    "What one profile says"
    t, forward = a.totals, a.totals.mean_s
    res = {'forward ms': 1e3*forward, 'plain ms': 1e3*t.plain.median_s, 'overhead %': t.overhead_pct,
        'device idle %': t.device_idle_pct, 'launch ms': t.launch and 1e3*t.launch.median_s, 'rows': len(a.results),
        'noisy rows': sum(r.noisy for r in a.results), 'rows %': percent(t.rows_s, forward),
        'outside %': percent(t.remainder_s, forward), 'largest gap': samples_add_up(b, a, said)}
    return res | (under_the_roof(a) if b.peaks else {}) | {'took s': seconds}

def slowest_table(a, top=6):
    def ms(s): return s and 1e3*s
    return [{'slowest rows': r.name or '(the model)', 'type': r.type, 'bound': r.bound, 'util %': r.utilization_pct,
             'roof': r.roof, 'time ms': ms(r.time_s), 'time %': r.time_pct, 'warm ms': ms(r.warm_s),
             'cold ms': ms(r.cold_s)}
            for r in sorted(a.results, key=lambda r: -r.time_s)[:top]]

def raw_rows(a):
    "All rows, without their samples"
    names = '''name type flops bytes_moved matmul_flops calls dtype bound roof utilization_pct cache_pct
        time_s time_pct warm_s cold_s'''.split()
    return dict(columns=names, rows=[[getattr(r, k) for k in names] for r in a.results])

def products_agree(b, a, case, paper):
    "Matrix products against the meta device, against what is published, and against what follows from the sizes"
    done = a.costs.matmul_flops
    b.equal('matrix products as on the meta device', done, paper.costs.matmul_flops)
    if case.products: b.equal('matrix products as worked out', done, case.products)
    if case.published:
        each = done/2e9/case.batch
        b.holds('matrix products as published, 10⁹ multiply-adds', abs(each-case.published)<6e-4, each, case.published)
    unknown = {**a.costs.unknown}
    b.holds('every operation has a cost', not unknown, unknown, 'none without')

def profile(b, name, case):
    "A model profiled without and with `isolate`, and estimated on the meta device"
    paper = RooflineAnalyzer(*built(case, 'meta'), b.roof)
    on_paper, lines = costs_of(paper.estimate()), {}
    a, b.found = RooflineAnalyzer(*built(case, b.device), b.roof), lines
    for said in ('without isolate', 'with isolate'):
        start = time.perf_counter()
        a.profile(isolate=said=='with isolate', **(dict(warmup=1, steps=4) if b.small else {}))
        lines[said] = line(b, a, time.perf_counter() - start, said)
        b.counted[name] = costs_of(a.results), on_paper
    products_agree(b, a, case, paper)
    alone = sum(r.warm_s is not None for r in a.results)
    b.holds('isolate times leaves', alone>0, alone, 'at least one')
    return dict(parameters=sum(p.numel() for p in a.model.parameters()), FLOP=a.costs.flops,
        matmul_FLOP=a.costs.matmul_flops, bytes=a.costs.bytes_moved, module_calls=a.totals.module_calls,
        leaves_alone=alone, peaks='measured' if b.peaks else 'none', slowest=slowest_table(a), raw_rows=raw_rows(a),
        table=[{'': k} | {said: l[k] for said,l in lines.items()} for k in lines['with isolate']])

# Estimates, idle time, what is left as it was, attention

def differences(name, counted, on_paper):
    "Rows whose costs are not the same on paper"
    for k in dict.fromkeys([*counted, *on_paper]):
        if counted.get(k)==on_paper.get(k): continue
        (kind, products, flops, nbytes), (other, p, f, n) = (d.get(k, (None,)*4) for d in (counted, on_paper))
        yield {'model': name, 'row': k or '(the model)', 'type': kind or other, 'matmul FLOPs': products, 'on paper': p,
               'FLOPs': flops, 'FLOPs on paper': f, 'bytes': nbytes, 'bytes on paper': n}

def other_work(d):
    "Does a row on both sides, which has no fused path, differ in its FLOPs, or in its bytes by over a percent?"
    if None in (d['FLOPs'], d['FLOPs on paper']) or d['type']=='MultiheadAttention': return False
    return d['FLOPs']!=d['FLOPs on paper'] or abs(d['bytes'] - d['bytes on paper'])>0.01*d['bytes']

def estimates(b):
    "FLOPs and bytes of every row, as profiled and as estimated on the meta device"
    if not b.counted: raise Skipped('no profile was made')
    found = []
    for name,(counted,on_paper) in b.counted.items():
        rows = [*differences(name, counted, on_paper)]
        b.equal(f'{name}: rows on one side only', sorted(counted.keys() ^ on_paper.keys()), [])
        b.equal(f'{name}: rows whose products differ', [d['row'] for d in rows if d['matmul FLOPs']!=d['on paper']], [])
        b.equal(f'{name}: rows without a fused path that differ in FLOPs, or in bytes by over 1 %',
                [d['row'] for d in rows if other_work(d)], [])
        found += rows
    rows = sum(len(c) for c,_ in b.counted.values())
    return dict(rows=rows, differing=len(found), table=found[:12], raw_differing=found)

def waiting(b, model, sample):
    "A profile of a model for its launch and idle times"
    a = RooflineAnalyzer(model, sample, b.roof)
    a.profile(b.device)
    t = a.totals
    return {'forward ms': 1e3*t.forward.median_s, 'plain ms': 1e3*t.plain.median_s, 'launch ms': 1e3*t.launch.median_s,
            'idle %': t.device_idle_pct, 'overhead %': t.overhead_pct}

def idle(b):
    "Device idle and launch times: tiny kernels, and huge ones"
    b.gpu_only('it waits for no host')
    n = 2048 if b.small else 8192
    with torch.device(b.device):
        small, huge = torch.randn(1, 8), torch.randn(n, n, dtype=bf16)
        products = nn.Sequential(*(nn.Linear(n, n, bias=False, dtype=bf16) for _ in range(8)))
    models = {f'{k} ReLUs of 8 elements': (nn.Sequential(*(nn.ReLU() for _ in range(k))), small) for k in (200, 2000)}
    models[f'8 products of {n}³, bfloat16'] = products, huge
    found = {k: waiting(b, *m) for k,m in models.items()}
    few, _, long = (f['idle %'] for f in found.values())
    b.timing('idle with tiny kernels, percent', few, 30, 100)
    b.timing('idle with huge kernels, percent', long, -15, 15)
    return dict(table=[{'model': k, **f} for k,f in found.items()])

def state(b, model, sample):
    "All that a profile has to leave as it was"
    t, cudnn = torch.random.get_rng_state(), torch.backends.cudnn
    own = [] if b.on_cpu else [torch.get_device_module(b.device).get_rng_state(b.device)]
    return dict(values=[v.clone() for v in (*model.state_dict().values(), sample, t, *own)],
        training=[m.training for m in model.modules()], attributes=[sorted(vars(m)) for m in model.modules()],
        device=str(model_device(model)), threads=torch.get_num_threads(), flags=[torch.get_float32_matmul_precision(),
        cudnn.allow_tf32, cudnn.benchmark, torch.is_grad_enabled(), torch.is_inference_mode_enabled()])

def left_alone(b):
    "A model in training mode, the random state and the flags, before and after a profile"
    with torch.device(b.device):
        model = nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.Dropout(), nn.ReLU(inplace=True))
        sample = torch.randn(2, 8, 16, 16)
    before = state(b, model, sample)
    RooflineAnalyzer(model, sample, b.roof).profile(isolate=True, warmup=1, steps=4)
    after = state(b, model, sample)
    same = [torch.equal(p, q) for p,q in zip(before.pop('values'), after.pop('values'))]
    b.holds('parameters, buffers, the input and random states are as before', all(same), same, 'all equal')
    for k,v in before.items(): b.equal(f'{k} as before', after[k], v)
    return dict(compared=len(same), **{k:v for k,v in after.items() if k in ('device', 'flags', 'threads')})

def tf32(b):
    "A CNN under the program's own switches: its convolutions and its linear layer each have their own ceiling"
    b.gpu_only('it has no TF32')
    if not has_tf32(b.device): raise Skipped('the device has no TF32')
    allowed, said = tf32_switches(), tf32_on(b.device)
    model, sample = built(image_case('resnet18', f32, 8 if b.small else 64), b.device)
    a = RooflineAnalyzer(model, sample)
    r = a.profile(warmup=5, steps=20)
    convs, rates = [o for o in r if o.type=='Conv2d'], r.peaks.compute_peaks
    b.equal('the switches are as before', tf32_switches(), allowed)
    b.equal('the result says which each was', r.about['float32_products'],
        {k: 'tf32' if v else 'float32' for k,v in said._asdict().items()})
    b.equal('convolutions have their ceiling', {ceiling_for(o, r.peaks) for o in convs},
        {rates['tf32' if said.conv else 'float32']})
    b.equal('the linear layer has its own', ceiling_for(r['fc'], r.peaks), rates['tf32' if said.matmul else 'float32'])
    b.holds('no convolution is above every roof', not any(o.impossible for o in convs), [o.impossible for o in convs],
        'none')
    def forward():
        with torch.inference_mode(): model(sample)
    own = time_callable(forward, b.device).median_s
    with float32_precision(tf32=False): without = time_callable(forward, b.device).median_s
    b.timing("the profiled forward, by the program's own", r.totals.plain.median_s/own, 0.9, 1.1)
    return dict(allowed=allowed._asdict(), ceilings=rates, own_ms=1e3*own, without_tf32_ms=1e3*without,
        plain_ms=1e3*r.totals.plain.median_s, forward_ms=1e3*r.totals.mean_s, peaks=repr(r.peaks))

def moved(b):
    "A model that lies on the CPU, profiled on the accelerator with peaks of its own: the notebook's cell for CUDA"
    b.gpu_only('the model is there already')
    model, sample, start = torchvision.models.resnet18(), torch.randn(8, 3, 224, 224), time.perf_counter()
    a = RooflineAnalyzer(model, sample, b.roof if b.small else None)
    rows = a.profile(b.device, warmup=3, steps=10)
    b.equal('the model is on the CPU again', sorted({str(t.device) for t in model.state_dict().values()}), ['cpu'])
    b.equal("the peaks are the accelerator's", torch.device(a.peaks.device).type, b.device.type)
    b.equal('rows', len(rows), 60)
    b.holds('every row takes time', all(r.time_s>0 for r in rows), min(r.time_s for r in rows), 'above 0 s')
    return dict(peaks=repr(a.peaks), **line(b, a, time.perf_counter() - start, 'moved'))

class Scaled(nn.Module):
    "Attention by one kernel"
    def __init__(self, backend, **kw):
        super().__init__()
        self.backend, self.kw = backend, kw
    def forward(self, q, k, v):
        with sdpa_kernel([self.backend]): return F.scaled_dot_product_attention(q, k, v, **self.kw)

def placed(module, device):
    "A module that may have no parameters, with a buffer that says where it is"
    module.register_buffer('home', torch.empty(0))
    return module.to(device)

def attention_line(b, backend, how, heads, length, size, dtype):
    "One kernel of attention: what is counted, over what follows from the sizes"
    kv = heads//4 if how=='grouped' else heads
    q, k, v = (torch.randn(1, n, length, size, device=b.device, dtype=dtype) for n in (heads, kv, kv))
    kw = dict(plain={}, causal=dict(is_causal=True), grouped=dict(enable_gqa=True))[how]
    exact, costs, said = 4*heads*length**2*size, None, ''
    try: costs = count_costs(placed(Scaled(backend, **kw), b.device), (q, k, v))
    except RuntimeError as e: said = f'no kernel: {no_paths(str(e))}'[:60]
    except AssertionError as e: b.holds(f'{backend.name}, {how}: is counted', False, str(e), 'no error')
    if costs: b.equal(f'{backend.name}, {how}: products', costs.matmul_flops, exact)
    if costs: b.equal(f'{backend.name}, {how}: operations without a cost', {**costs.unknown}, {})
    return {'kernel': backend.name, 'how': how, 'FLOPs': costs and costs.flops, 'bytes': costs and costs.bytes_moved,
            'said': said}

def attention(b):
    "The kernels of scaled_dot_product_attention, counted"
    sizes = (4, 64, 64) if b.on_cpu or b.small else (32, 2048, 64)
    kernels = [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]
    hows, dtype = ('plain', 'causal', 'grouped'), f32 if b.on_cpu else bf16
    table = [attention_line(b, k, how, *sizes, dtype) for k in kernels for how in hows]
    there = [r for r in table[:6] if r['how']!='grouped' or r['kernel']=='MATH']   # older versions of torch lack it elsewhere
    lacking = [[r['kernel'], r['how'], r['said']] for r in there if r['FLOPs'] is None]
    b.equal('not counted, of MATH and FLASH_ATTENTION', lacking, [])
    return dict(table=table)

# Captured graphs

class GraphCalls:
    "A context that counts captures and replays of graphs"
    def __init__(self): self.counts = dict(capture_begin=0, replay=0)
    def __enter__(self):
        kind, self.old = torch.cuda.CUDAGraph, {k: getattr(torch.cuda.CUDAGraph, k) for k in self.counts}
        def counting(name, method):
            def call(*args, **kwargs): self.counts[name] += 1; return method(*args, **kwargs)
            return call
        for k,method in self.old.items(): setattr(kind, k, counting(k, method))
        return self.counts
    def __exit__(self, *args):
        for k,method in self.old.items(): setattr(torch.cuda.CUDAGraph, k, method)

class Replays(nn.Module):
    "A module that replays a graph of its own; `again`: and captures it anew in each forward"
    def __init__(self, inner, x, again=False):
        super().__init__()
        self.inner, self.again, self.given, self.graph = inner, again, x.clone(), None
        self.capture()
    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(side): self.inner(self.given)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph): self.out = self.inner(self.given)
    def forward(self, x):
        if self.again: self.capture()
        self.given.copy_(x)
        self.graph.replay()
        return self.out

class Cache:
    "Numbers of earlier calls, at an address that stays"
    def __init__(self, like):
        self.kept = torch.zeros_like(like)
        torch._dynamo.mark_static_address(self.kept)

class Remembers(nn.Module):
    def __init__(self, inner): super().__init__(); self.inner = inner
    def forward(self, x, cache):
        cache.kept.copy_(self.inner(x))
        return cache.kept + x

def many_layers(b, layers=20, n=256):
    "A model whose kernels take less than their launches, and its input"
    torch.manual_seed(0)
    with torch.device(b.device): return nn.Sequential(*(nn.Linear(n, n) for _ in range(layers))).eval(), torch.randn(64, n)

def captured_models(b):
    "How a model is captured: name → the model, its sample, names of its rows (`None`: those of all layers)"
    net, x = many_layers(b)
    def compiled(m): return torch.compile(m, mode='reduce-overhead')
    child = nn.Sequential(many_layers(b, 1)[0], compiled(many_layers(b)[0])).eval()
    graphed = nn.Sequential(many_layers(b, 1)[0], many_layers(b)[0]).eval()
    torch.cuda.make_graphed_callables(graphed[1], (x.clone(),))
    return {'compiled': (compiled(net), x, ['']), 'a compiled child': (child, x, ['0.0', '1']),
        'make_graphed_callables': (graphed, x, ['0.0', '1']), 'a graph of its own': (Replays(many_layers(b)[0], x), x, ['']),
        'captured in each forward': (Replays(many_layers(b)[0], x, again=True), x, None),
        'compiled, with a cache': (compiled(Remembers(many_layers(b)[0]).eval()), (x, Cache(x)), [''])}

def called(model, sample):
    with torch.no_grad(): return model(*(sample if isinstance(sample, tuple) else (sample,))).clone()

def addresses(model): return [t.data_ptr() for t in (*model.parameters(), *model.buffers())]

def captured_line(b, name, model, sample, rows, plain):
    "A profile of one captured model, and what it leaves of the graphs"
    for _ in range(4): before = called(model, sample)
    where = addresses(model)
    with GraphCalls() as during: r = RooflineAnalyzer(model, sample, b.roof).profile(isolate=True)
    with GraphCalls() as later: after = [called(model, sample) for _ in range(3)]
    if rows: b.equal(f'{name}: rows', [o.name for o in r], rows)
    b.holds(f'{name}: every row takes time', all(o.time_s>0 for o in r), [o.time_s for o in r], 'above 0 s')
    b.holds(f'{name}: outputs are as before', all(torch.equal(o, before) for o in after), len(after), 'all equal')
    b.equal(f'{name}: addresses are as before', addresses(model), where)
    b.holds(f'{name}: the profile replays', during['replay']>20, during, 'more than 20 replays')
    if rows:
        b.holds(f'{name}: captures in the profile', during['capture_begin']<=4, during, 'a few at most, not one a forward')
        b.equal(f'{name}: captures after the profile', later['capture_begin'], 0)
        b.equal(f'{name}: replays after the profile', later['replay'], 3)
    own, t = isinstance(model, Replays), r.totals
    b.equal(f'{name}: what is not counted', [*r.unknown], ['CUDAGraph.replay']*own)
    least = sum(o.flops for o in plain)
    if not own or not rows: b.holds(f'{name}: FLOPs', least<=t.flops<=1.1*least, t.flops, f'{least}, or a tenth more')
    return {'captured': name, 'forward µs': 1e6*t.forward.median_s, 'launch µs': t.launch and 1e6*t.launch.median_s,
        'idle %': t.device_idle_pct, 'FLOP': t.flops, 'in the profile': during, 'said': plain.compare(r).answer}

def graphs(b):
    "Captured forwards: rows with the device's time, graphs that a profile leaves whole, idle time before and after"
    b.gpu_only('it has no graphs')
    if b.device.type!='cuda': raise Skipped('the graphs are those of CUDA')
    from torch._dynamo.utils import counters
    counters['inductor'].clear()
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', message='no cost is known for CUDAGraph.replay')
        plain = RooflineAnalyzer(*many_layers(b), b.roof).profile()
        table = [captured_line(b, name, *o, plain) for name,o in captured_models(b).items()]
    b.equal('compiled code that was not captured', counters['inductor']['cudagraph_skips'], 0)
    b.timing('idle in eager code, percent', plain.totals.device_idle_pct, 30, 100)
    b.timing('idle where all is compiled, less that', table[0]['idle %'] - plain.totals.device_idle_pct, -150, -5)
    return dict(eager_us=1e6*plain.totals.forward.median_s, eager_idle=plain.totals.device_idle_pct,
        inductor=dict(counters['inductor']), table=table)

# Kernels of compiled code

class Residual(nn.Module):
    "A residual MLP with a norm: products, and what a compiler makes kernels of"
    def __init__(self, n):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(n), nn.Linear(n, 4*n), nn.Linear(4*n, n)
    def forward(self, x): return x + self.down(F.gelu(self.up(self.norm(x))))

def of_kernels(b, name, model, sample, **how):
    "A profile by kernels beside that of the region: FLOPs, times that add up, modules, and what is above a roof"
    a = RooflineAnalyzer(torch.compile(model, **how), sample, b.roof)
    with torch.no_grad(): before = model(sample)
    region, r = a.profile(), a.profile(kernels=True)
    kernels = [o for o in r if o.parts]
    eager = count_costs(model, sample)
    b.equal(f'{name}: FLOPs', r.flops, eager.flops)
    b.equal(f'{name}: products', r.matmul_flops, eager.matmul_flops)
    b.holds(f'{name}: each kernel has modules', all(o.modules for o in kernels), [o.name for o in kernels if not o.modules], 'none without')
    kind = 'C++' if b.on_cpu else 'Triton'
    b.holds(f'{name}: generated kernels', any(o.type==kind for o in kernels), [o.type for o in kernels], f'some of {kind}')
    with torch.no_grad(): b.holds(f'{name}: outputs are as before', torch.allclose(model(sample), before), '', 'all close')
    in_kernels, whole = sum(o.time_s for o in kernels), sum(o.time_s for o in r)
    b.timing(f'{name}: time in kernels, percent of that in the region', percent(in_kernels, whole), 50, 100)
    b.timing(f'{name}: time by kernels, percent of the region compiled as ever', percent(whole, region.totals.mean_s), 80, 130)
    return {'model': name, 'kernels': len(kernels), 'region ms': 1e3*region.totals.mean_s, 'by kernels ms': 1e3*whole,
        'in kernels %': percent(in_kernels, whole), 'above a roof': [o.name for o in kernels if o.impossible],
        'bytes, boundary': region.bytes_moved, 'bytes, kernels': r.bytes_moved, 'bytes, eager': region.eager_bytes}

def compiled_kernels(b):
    "Inductor's kernels as rows: a residual MLP, also where the user asks for captured graphs, and a ResNet-18"
    n, rows = (64, 32) if b.small else (4096, 8192)
    torch.manual_seed(0)
    with torch.device(b.device): model, x = Residual(n).eval(), torch.randn(rows, n)
    table = [of_kernels(b, 'residual MLP', model, x)]
    if not b.on_cpu: table.append(of_kernels(b, 'residual MLP, captured', model, x, mode='reduce-overhead'))
    if not b.small:
        with torch.device(b.device): images = torchvision.models.resnet18().eval(), torch.randn(64, 3, 224, 224)
        table.append(of_kernels(b, 'resnet18', *images))
    return dict(table=table)

# Training steps

def learner(b, name):
    "A model in training mode on the device, a sample, its loss, and an optimizer in its fused form"
    n, side = (2, 32) if b.small else (64, 224)
    with torch.device(b.device):
        model = torchvision.models.get_model(name).train()
        x, y = torch.randn(n, 3, side, side), torch.randint(1000, (n,))
    return model, x, lambda out: F.cross_entropy(out, y), torch.optim.AdamW(model.parameters(), fused=True)

def step_counts(b, name, model, x, loss, r):
    "Products by phase, over a forward's; what is counted on paper for this device is the same"
    forward, backward = (sum(o.matmul_flops for o in r if o.phase==p) for p in ('forward', 'backward'))
    b.equal(f'{name}: operations without a rule', {**r.unknown}, {})
    b.holds(f'{name}: products of the backward over the forward', 1.9<=backward/forward<=2.6, backward/forward, '1.9 to 2.6')
    paper = RooflineAnalyzer(model, x, b.roof).estimate_step(loss=loss)
    counted = sum(o.matmul_flops for o in paper if o.phase!='optimizer')
    b.equal(f'{name}: products on paper', counted, forward + backward)

def step_memory(b, name, r):
    "What the allocator holds at the ends of the phases, over what is counted"
    held = {p: sum(kinds.values()) for p,kinds in r.memory.live.items()}
    rest = {p: percent(kinds['other'], held[p]) for p,kinds in r.memory.live.items()}
    if not b.on_cpu: b.equal(f'{name}: memory is', r.memory.source, 'measured')
    return {f'MB after the {p}': n/1e6 for p,n in held.items()} | {f'% other after the {p}': o for p,o in rest.items()} | {'MB at the peak': r.memory.peak/1e6}

def training_line(b, name):
    "One step: its phases, its memory, and what it leaves behind"
    model, x, loss, optimizer = learner(b, name)
    before, start = [v.clone() for v in model.state_dict().values()], time.perf_counter()
    r = RooflineAnalyzer(model, x, b.roof).profile_step(loss, optimizer, warmup=2, steps=4 if b.small else 10)
    same = [torch.equal(p, q) for p,q in zip(before, model.state_dict().values())]
    b.holds(f'{name}: parameters and buffers are as before', all(same), same, 'all equal')
    b.equal(f'{name}: states of the optimizer', len(optimizer.state), 0)
    t = r.totals
    for i,whole in enumerate(t.forward.samples):
        parts = sum(o.samples[i] for o in r) + t.outside.samples[i]
        b.holds(f'{name}: rows and the rest are step {i}', abs(parts-whole)<=1e-6*whole, parts, whole)
    step_counts(b, name, model, x, loss, r)
    phases = {f'{o.name} ms': 1e3*o.time_s for o in r.by('phase')}
    return {'model': name, 'step ms': 1e3*t.mean_s, **phases, 'outside ms': 1e3*t.remainder_s, 'marks add %': t.overhead_pct,
            'idle %': t.device_idle_pct, **step_memory(b, name, r), 'seconds': time.perf_counter() - start}

def train(b):
    "Training steps: rows that add up, products, memory, and nothing left behind"
    return dict(table=[training_line(b, name) for name in ('resnet18', 'vit_b_16' if not b.small else 'mobilenet_v3_small')])

# Nsight Compute

class Layer(NamedTuple):
    "A layer whose work Nsight Compute counts"
    dtype:torch.dtype
    build:object         # returns the module
    sizes:list           # of its inputs
    compared:str = ''    # what has to agree: `"FLOPs"`, `"bytes"` or nothing

def layers(small):
    "Ten layers; what they move is beyond the cache, unless they are small"
    n, c, s = (1024, 64, 28) if small else (4096, 256, 56)
    images, matrix, heads = [(32, c, s, s)], [(8*n, n)], [(4, 16, n//2, 64)]*3
    def linear(n): return lambda: nn.Linear(n, n, bias=False)
    def conv(**kw): return lambda: nn.Conv2d(c, c, 3, padding=1, bias=False, **kw)
    return {
        'linear bf16': Layer(bf16, linear(n), [(n, n)], 'FLOPs'),
        'linear float32': Layer(f32, linear(n), [(n, n)], 'FLOPs'),
        'linear, one row, bf16': Layer(bf16, linear(4*n), [(1, 4*n)], 'bytes'),
        '3×3 convolution bf16': Layer(bf16, conv(), images),
        'depthwise float32': Layer(f32, conv(groups=c), images),
        'relu float32': Layer(f32, nn.ReLU, [(16*n, n)], 'bytes'),
        'softmax bf16': Layer(bf16, lambda: nn.Softmax(-1), matrix, 'bytes'),
        'layer norm bf16': Layer(bf16, lambda: nn.LayerNorm(n), matrix, 'bytes'),
        'batch norm float32': Layer(f32, lambda: nn.BatchNorm2d(c), [(64, c, s, s)], 'bytes'),
        'attention bf16': Layer(bf16, lambda: Scaled(SDPBackend.FLASH_ATTENTION), heads)}

def layer_on(layer, device):
    "The module and its inputs on `device`"
    torch.manual_seed(0)
    with torch.device(device):
        module, sample = layer.build().eval(), tuple(torch.randn(*s, dtype=layer.dtype) for s in layer.sizes)
    return placed(module.to(layer.dtype), device), sample

def run_layers(b):
    "What runs under Nsight Compute: every layer once, behind a kernel that marks its beginning"
    for layer in layers(b.small).values():
        module, sample = layer_on(layer, b.device)
        with torch.inference_mode(), float32_precision():
            module(*sample)   # libraries start up, unseen
            synchronize(b.device)
            torch.cuda.profiler.start()
            torch.cuda._sleep(1)
            module(*sample)
            synchronize(b.device)
            torch.cuda.profiler.stop()
        del module, sample
        torch.cuda.empty_cache()

def limited(command, seconds):
    "What a command said, and its exit status; it and all that it started end after `seconds`, and then that is None"
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    p = subprocess.Popen(command, start_new_session=True, **pipes)
    try: return p.communicate(timeout=seconds)[0], p.returncode
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        return f'{p.communicate()[0]}\n== stopped after {seconds:.0f} s', None

def ncu_words(b, program, log):
    "The package's command line; clocks stay as they are, and only what the program asks for is profiled"
    script = str(Path(__file__).resolve())
    again = [sys.executable, script, '--under_ncu', '--device', str(b.device), *['--small']*b.small]
    words = shlex.split(ncu_command(shlex.join(again), output=str(log)))
    return [program, '--clock-control', 'none', '--profile-from-start', 'off', *words[1:]]

not_permitted = r'ERR_NVGPUCTRPERM|[Pp]ermission|Failed to initialize the profiler|LibraryNotLoaded'
one_metric = 'sm__ops_path_tensor_src_bf16_dst_fp32.sum'

def complaints(text):
    "What ncu says in its own name, else the end of what was said"
    lines = [l for l in text.splitlines() if l.startswith('==') and '==PROF==' not in l] or text.splitlines()
    return no_paths(' | '.join(lines[-4:]))[-600:]

def counters(b, program):
    "The launches that Nsight Compute saw, and how it was asked: as the package does, else without a pattern of metrics"
    for how,asked in (('as by ncu_command', None), (f'for {one_metric} instead of a pattern', one_metric)):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder)/'kernels.csv'
            words = [re.sub('regex:[^,]*', asked, w) if asked else w for w in ncu_words(b, program, log)]
            said, status = limited(words, max(min(b.left, 150), 10))
            text = said + (log.read_text(errors='replace') if log.exists() else '')
            if status==0 and '"ID"' in text: return read_ncu(log), how
        if found := re.search(not_permitted, text): raise Skipped(f'ncu is refused ({found[0]}): {complaints(text)}')
        if status is None: break
    raise RuntimeError(f'ncu, asked {how}, ended with {status}: {complaints(text)}')

def by_layer(launches, names):
    "The launches behind each mark"
    groups, left = {}, iter(names)
    for k in launches:
        if 'spin_kernel' in k.name: groups[next(left)] = []
        elif groups: [*groups.values()][-1].append(k)
    return groups

def total(values):
    known = [v for v in values if v is not None]
    return sum(known) if known else None

def counted_line(b, name, layer, kernels):
    "A layer's FLOPs and bytes, by the package and by the counters"
    costs = count_costs(*layer_on(layer, b.device))
    flops, dram, l2 = (total(f(k.metrics) for k in kernels) for f in
                       (kernel_flops, kernel_bytes, partial(kernel_bytes, level='L2')))
    ratios = {'FLOPs': flops and costs.flops and flops/costs.flops, 'bytes': dram and dram/costs.bytes_moved}
    if layer.compared and not b.small:
        ratio = ratios[layer.compared]
        b.holds(f'{name}: {layer.compared}, by ncu over counted', 0.7<=(ratio or 0)<=1.6, ratio, '0.7 to 1.6')
    return {'layer': name, 'kernels': len(kernels), 'time µs': 1e6*(total(k.time_s for k in kernels) or 0),
            'FLOPs': costs.flops, 'by ncu': flops, 'ratio': ratios['FLOPs'],
            'bytes': costs.bytes_moved, 'DRAM': dram, 'DRAM ratio': ratios['bytes'], 'L2': l2}

def raw_kernels(groups):
    def record(k): return dict(k.metrics, kernel=k.name, time_s=k.time_s, missing=k.missing)
    return {n: [*map(record, ks)] for n,ks in groups.items()}

def nsight(b):
    "Nsight Compute's counters against counted FLOPs and bytes, of ten layers"
    b.gpu_only('Nsight Compute counts on GPUs')
    if b.device.type!='cuda' or torch.version.hip: raise Skipped('this is no device of NVIDIA')
    program, todo = shutil.which('ncu'), layers(b.small)
    if program is None: raise Skipped('there is no ncu on the PATH')
    torch.cuda.empty_cache()
    launches, how = counters(b, program)
    groups = by_layer(launches, todo)
    b.equal('layers seen', [*groups], [*todo])
    b.holds('every layer launched a kernel', all(groups.values()), {k:len(v) for k,v in groups.items()}, 'one or more')
    table = [counted_line(b, n, todo[n], ks) for n,ks in groups.items()]
    return dict(ncu=first_line([program, '--version'], -1), asked=how, table=table, raw_kernels=raw_kernels(groups))

# One check after the other

def checks(b):
    "Name → function, the most important first"
    profiles = {f'profile: {n}': partial(profile, name=n, case=c) for n,c in cases(b).items()}
    return {'clocks': clocks, 'peaks': peaks, **profiles, 'device idle and launch': idle,
        'estimate against profile': estimates, 'training steps': train, 'captured graphs': graphs,
        'kernels of compiled code': compiled_kernels, "Nsight Compute's counters": nsight, 'left as it was': left_alone,
        'a CNN in TF32': tf32, 'attention': attention, 'tuned copy': tuned_copy, 'peaks, once more': peaks_again,
        'a model from the CPU': moved, 'devices': devices}

def no_paths(text): return re.sub(r'(?<![\w.:/])/(?:[\w.+@-]+/)+', '', text)

def where(e):
    "The innermost calls"
    return [f'{Path(f.filename).name}:{f.lineno} in {f.name}' for f in traceback.extract_tb(e.__traceback__)[-6:]]

def run_check(b, name, check):
    "The record of one check, whatever happens in it"
    b.begin()
    start, res = time.perf_counter(), dict(check=name, status='ok')
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter('always')
        try:
            if b.left<=0: raise Skipped('no time left')
            res['data'] = check(b)
        except Skipped as e: res.update(status='skipped', reason=str(e))
        except Exception as e:
            res.update(status='failed', error=f'{type(e).__name__}: {e}'[:1000], trace=where(e), data=b.found)
    if not all(c['held'] for c in b.conditions): res['status'] = 'failed'
    gc.collect()
    if b.device.type=='cuda': torch.cuda.empty_cache()
    said = list(dict.fromkeys(f'{w.category.__name__}: {w.message}'[:400] for w in heard))
    return dict(res, seconds=time.perf_counter() - start, conditions=b.conditions, warnings=said)

# The files

def plain(x):
    "`x` as JSON can hold it, without paths of the machine"
    if isinstance(x, dict): return {str(k): plain(v) for k,v in x.items()}
    if isinstance(x, (list, tuple)): return [plain(v) for v in x]
    if x is None or isinstance(x, (bool, int)): return x
    if isinstance(x, Real): return float(x) if math.isfinite(x) else str(x)
    return no_paths(str(x).removeprefix('torch.') if isinstance(x, torch.dtype) else str(x))

def first_line(command, which=0):
    "What a program says, or its last line; `None` where there is no such program"
    said = limited(command, 30)[0].strip().splitlines() if shutil.which(command[0]) else []
    return said[which] if said else None

def nvidia(device):
    "What the driver says of the device"
    p, asked = torch.cuda.get_device_properties(device), 'clocks.sm,clocks.max.sm,clocks.mem,power.limit,power.draw'
    def smi(what):
        return first_line(['nvidia-smi', f'--query-gpu={what}', '--format=csv,noheader', '-i', str(device.index)])
    return dict(driver=smi('driver_version'), cuDNN=torch.backends.cudnn.version(), capability=f'{p.major}.{p.minor}',
        multiprocessors=p.multi_processor_count, memory_GB=p.total_memory/1e9, L2_MB=p.L2_cache_size/1e6,
        **{asked: smi(asked)})

def circumstances(b):
    "Device, driver, date, commit, what was asked, versions"
    now = datetime.now(timezone.utc).isoformat(timespec='seconds')
    res = dict(device=str(b.device), name=device_name(b.device), small=b.small, threads=torch.get_num_threads(),
        date=now, fasterbench=code_now(), asked=arguments(), Python=platform.python_version(), torch=torch.__version__,
        torchvision=torchvision.__version__, numpy=np.__version__, CUDA=torch.version.cuda, HIP=torch.version.hip)
    if b.device.type=='cuda': res.update(nvidia(b.device))
    return {k:v for k,v in res.items() if v is not None}

def cell(v):
    if v is None: return '–'
    if isinstance(v, bool): return 'yes' if v else 'no'
    if isinstance(v, float): return f'{v:.4g}'
    if isinstance(v, dict): return ', '.join(f'{k}: {cell(o)}' for k,o in v.items()) or 'none'
    return (', '.join(map(cell, v)) or 'none') if isinstance(v, list) else str(v)

def pairs(items): return tabulate([(k, cell(v)) for k,v in items], tablefmt='plain', disable_numparse=True)

def as_table(rows):
    return tabulate([{k: cell(v) for k,v in r.items()} for r in rows], headers='keys', disable_numparse=True)

def why(r):
    "What is to be said of a check that is not ok"
    odd = [c for c in r['conditions'] if not c['held']]
    return [r[k] for k in ('reason', 'error') if k in r] + [
        f"does not hold: {c['condition']}: measured {cell(c['measured'])}, expected {cell(c['expected'])}" for c in odd]

def section(r):
    "One check as text"
    shown = {k:v for k,v in r.get('data', {}).items() if not k.startswith('raw_')}
    tables = {k:v for k,v in shown.items() if isinstance(v, list) and v and isinstance(v[0], dict)}
    single = [(k, v) for k,v in shown.items() if k not in tables]
    held = f"{sum(c['held'] for c in r['conditions'])} of {len(r['conditions'])} conditions hold"
    lines = [f"== {r['check']}: {r['status']} ({r['seconds']:.1f} s; {held})", *why(r)]
    lines += [f'   {t}' for t in r.get('trace', [])] + [f'warned: {w}' for w in r['warnings']]
    return '\n\n'.join(['\n'.join(lines), *([pairs(single)] if single else []), *map(as_table, tables.values())])

def overview(records):
    rows = [(r['check'], r['status'], f"{r['seconds']:.1f}", '; '.join(why(r))[:90]) for r in records]
    align = ['left', 'left', 'right', 'left']
    return tabulate(rows, headers=['check', 'status', 's', ''], disable_numparse=True, colalign=align)

def write(prefix, about, records):
    "Both files, from what there is so far"
    records = plain(records)
    data = json.dumps(dict(about, checks=records), indent=1, ensure_ascii=False, allow_nan=False)
    data = re.sub(r'\[[^\[\]{}]*\]', lambda m: ' '.join(m[0].split()), data)   # a list on one line
    prefix.with_name(prefix.name+'.json').write_text(data+'\n', encoding='utf-8')
    text = '\n\n'.join([pairs(about.items()), overview(records), *map(section, records)])
    prefix.with_name(prefix.name+'.txt').write_text(text+'\n', encoding='utf-8')

@call_parse
def main(
    seconds:float=480, # for all checks; one that would begin later is skipped
    small:bool=False,  # tiny models and sizes
    device:str='',     # cpu, cuda, …; without: the accelerator that torch finds, else the CPU
    out:str='',        # files without their ends; without: on_gpu_<device> in benchmarks/results
    only:str='',       # run the checks whose name contains this
    under_ncu:bool=False, # run nothing but the layers that Nsight Compute counts
):
    "Run every check that needs a GPU"
    b = Bench(resolve_device(device or None), small, seconds)
    if under_ncu: return run_layers(b)
    about, records = plain(circumstances(b)), []
    slug = re.sub(r'[^a-z0-9]+', '_', about['name'].lower()).strip('_')
    prefix = Path(out) if out else results/f'on_gpu_{slug}'
    todo = {k:f for k,f in checks(b).items() if only in k}
    if not todo: raise ValueError(f"only={only!r}: the checks are {', '.join(checks(b))}")
    for name,check in todo.items():
        records.append(run_check(b, name, check))
        write(prefix, about, records)
        print(f"{records[-1]['status']:8}{name} ({records[-1]['seconds']:.1f} s)", flush=True)
    print('\n' + prefix.with_name(prefix.name+'.txt').read_text(encoding='utf-8'))
    sys.exit(int(any(r['status']=='failed' for r in records)))
