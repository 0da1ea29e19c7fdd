"""Does all that needs a GPU do what it says?

One run of the whole path of an accelerator: event clock, peaks, idle device, TF32, rows, estimates
beside measured rows, kernels of a trace, attention, a step with AMP and its memory, kernels of
compiled code (Triton), captured graphs, what is left as it was, links of several devices. A check
that raises, or one of whose conditions does not hold, is 'failed', and the others go on; conditions
on times are wide and made on an accelerator only. Ends with 1 if a check failed.

    python benchmarks/on_gpu.py [--only clock,peaks] [--device cuda:1]
    python benchmarks/on_gpu.py --quick --device cpu
"""
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
import torch.nn.functional as F
from common import chosen, finish, image_model, option_parser, read_options
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from fasterbench import HardwarePeaks, RooflineAnalyzer, count_costs, measure_peaks, read_trace
from fasterbench.base.clock import device_clock, elapsed_s
from fasterbench.base.system import device_name
from fasterbench.base.tensors import resolve_device
from fasterbench.machine.datasheets import find_datasheet
from fasterbench.machine.links import measure_links
from fasterbench.machine.peaks import float32_products, has_tf32, why_no_peak

DTYPES = 'float32', 'tf32', 'bfloat16', 'float16', 'float64', 'int8', 'float8_e4m3fn'
BACKENDS = SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION


class Skipped(Exception):
    """There is nothing to measure here, and why."""


class Bench:
    """The device, its peaks, and the conditions of the check that runs."""

    def __init__(self, device: torch.device, quick: bool):
        self.device, self.quick, self.on_cpu = device, quick, device.type == 'cpu'
        rates = dict(bfloat16=1e15)   # until they are measured
        self.peaks = HardwarePeaks(1e15, 1e13, device=device.type, compute_peaks=rates)
        self.failed, self.conditions = [], 0

    def holds(self, what: str, holds, found):
        self.conditions += 1
        if not holds: self.failed.append(f'{what}: {found}')

    def within(self, what: str, value: float, low: float, high: float):
        """A condition on times: at full size, on an accelerator."""
        if self.on_cpu or self.quick: return
        self.holds(f'{what} in {low} to {high}', low <= value <= high, value)

    def needs_gpu(self, why: str):
        if self.on_cpu: raise Skipped(f'CPU: {why}')

    def images(self, name='resnet50', batch=64, dtype=torch.float32):
        """A model of torchvision on the device, and its sample."""
        batch, side = (2, 64) if self.quick else (batch, 224)
        model, sample = image_model('resnet18' if self.quick else name, batch, side)
        return model.to(self.device, dtype), sample.to(self.device, dtype)

    def mlp(self, n=4096):
        """A residual MLP with a norm on the device, and its sample."""
        torch.manual_seed(0)
        n, rows = (64, 32) if self.quick else (n, 2*n)
        return Residual(n).eval().to(self.device), torch.randn(rows, n).to(self.device)


class Residual(nn.Module):
    """Products, and operations that a compiler fuses."""

    def __init__(self, n: int):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(n), nn.Linear(n, 4*n), nn.Linear(4*n, n)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def clock(b: Bench) -> dict:
    """The device's clock beside the host's, on work that takes long."""
    n, times = (256, 20) if b.on_cpu or b.quick else (4096, 50)
    x, clock = torch.randn(n, n, device=b.device), device_clock(b.device)

    def both():
        start = time.perf_counter()
        own = elapsed_s(lambda: x @ x, clock, calls=times)
        return own, time.perf_counter() - start
    found = [both() for _ in range(5)]
    ratio = median(own/wall for own, wall in found)
    b.within('device clock / host clock', ratio, 0.9, 1.01)
    marks = [clock.mark() for _ in range(100)]
    at = clock.seconds(marks)
    b.holds('marks are in order', at == sorted(at), at[:5])
    return {'clock': type(clock).__name__, 'device / host': ratio, 'between marks µs': 1e4*at[-1]}


def peaks(b: Bench) -> dict:
    """Ceilings of arithmetic, memory and caches, beside the datasheet's."""
    dtypes = [name for name in DTYPES if not why_no_peak(b.device, name)]
    if b.quick: dtypes = dtypes[:1]
    start = time.perf_counter()
    b.peaks = measure_peaks(b.device, dtype=dtypes, hierarchy=not b.quick, cache=False,
                            steps=1 if b.quick else 10)
    found = {'seconds': time.perf_counter() - start, 'GB/s': b.peaks.peak_bandwidth/1e9}
    found |= {f'{name} TFLOP/s': rate/1e12 for name, rate in b.peaks.compute_peaks.items()}
    found |= {f'{level.name} GB/s': level.bandwidth/1e9 for level in b.peaks.memory_levels}
    try: sheet = find_datasheet(b.peaks.device_name)
    except ValueError: return found
    shares = {'memory': b.peaks.peak_bandwidth/sheet.peak_bandwidth}
    shares |= {name: rate/sheet.compute_peaks[name] for name, rate in b.peaks.compute_peaks.items()
               if name in sheet.compute_peaks}
    for name, share in shares.items(): b.within(f'{name} / datasheet', share, 0.3, 1.1)
    return found | {f'{name} / datasheet': share for name, share in shares.items()}


def idle(b: Bench) -> dict:
    """The share of a pass in which the device waits for its host: of tiny and of huge kernels."""
    b.needs_gpu('it waits for no host')
    n = 256 if b.quick else 8192
    models = {'tiny': (nn.Sequential(*(nn.ReLU() for _ in range(200))), torch.randn(1, 8)),
              'huge': (nn.Sequential(*(nn.Linear(n, n) for _ in range(4))), torch.randn(n, n))}
    found = {}
    for name, (model, x) in models.items():
        result = RooflineAnalyzer(model.to(b.device), x.to(b.device), b.peaks).profile()
        b.holds(f'{name}: idle is known', result.totals.idle_s is not None, result.totals.idle_s)
        found[f'{name} kernels, idle %'] = 100*(result.totals.idle_s or 0)/result.time_s
    b.within('idle with tiny kernels, %', found['tiny kernels, idle %'], 30, 100)
    b.within('idle with huge kernels, %', found['huge kernels, idle %'], 0, 10)
    return found


def tf32(b: Bench) -> dict:
    """Convolutions of float32 have TF32's roof where torch allows it, and only there."""
    if not has_tf32(b.device): raise Skipped('the device has no TF32')
    model, sample = b.images('resnet18')
    seconds = {}
    for allowed in (True, False):
        with float32_products(allowed):
            result = RooflineAnalyzer(model, sample).profile()
        dtypes = {row.dtype for row in result if row.type == 'Conv2d'}
        expected = {'tf32' if allowed else 'float32'}
        b.holds(f'dtypes of convolutions, TF32 {allowed}', dtypes == expected, dtypes)
        above = [row.name for row in result if row.above_every_roof]
        b.holds(f'no row is above its roof, TF32 {allowed}', not above, above)
        seconds[allowed] = result.time_s
    return {'float32 / TF32': seconds[False]/seconds[True]}


def rows(b: Bench) -> dict:
    """Rows add up, none is negative, and their work is that of an estimate on paper."""
    found = {}
    for dtype in (torch.float32, torch.bfloat16)[:1 if b.quick else 2]:
        name, (model, sample) = str(dtype).removeprefix('torch.'), b.images(dtype=dtype)
        analyzer = RooflineAnalyzer(model, sample, b.peaks)
        result = analyzer.profile(steps=5 if b.quick else 20)
        totals = result.totals
        whole = sum(row.time_s or 0 for row in result) + totals.remainder_s
        b.holds(f'{name}: rows and remainder are the pass', abs(whole/totals.mean_s - 1) < 1e-9,
                whole)
        least = min(min(row.samples) for row in result if row.samples)
        b.holds(f'{name}: no row takes less than no time', least > -2e-6, least)
        paper = analyzer.estimate(b.peaks)
        differ = [row.name for row in result if row.name not in {r.name for r in paper}
                  or row.matmul_flops != paper[row.name].matmul_flops]
        b.holds(f'{name}: products of rows as on paper', not differ, differ[:5])
        b.holds(f'{name}: every operation has a formula', not result.unknown, dict(result.unknown))
        b.within(f'{name}: least time / time', result.utilization_pct, 3, 100)
        found |= {f'{name}: pass ms': 1e3*result.time_s, f'{name}: util %': result.utilization_pct,
                  f'{name}: bytes / on paper': result.bytes_moved/paper.bytes_moved,
                  f'{name}: marks add %': totals.overhead_pct,
                  f'{name}: rows above their roof': sum(row.above_every_roof for row in result)}
    return found


def trace(b: Bench) -> dict:
    """Times of kernels in a trace, beside the rows of a profile."""
    b.needs_gpu('its traces have no kernels')
    model, sample = b.images()
    result = RooflineAnalyzer(model, sample, b.peaks).profile()
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder)/'trace.json'
        with profile(activities=activities, record_shapes=True, with_stack=True) as recorded:
            model(sample)
            torch.accelerator.synchronize()
        recorded.export_chrome_trace(str(path))
        read = read_trace(path, b.peaks)
    b.holds('products as counted', read.matmul_flops == result.matmul_flops, read.matmul_flops)
    kernels = sum(row.time_s or 0 for row in read)
    b.within('time of kernels / pass', kernels/result.time_s, 0.5, 1.1)
    return {'rows': len(read), 'kernels': len(read.by('kernel')),
            'kernels / pass': kernels/result.time_s}


class Attention(nn.Module):
    """`scaled_dot_product_attention` by one backend."""

    def __init__(self, backend):
        super().__init__()
        self.backend = backend

    def forward(self, q, k, v):
        with sdpa_kernel([self.backend]): return F.scaled_dot_product_attention(q, k, v)


def attention(b: Bench) -> dict:
    """Products of attention, whichever kernel runs."""
    heads, length, size = (4, 64, 64) if b.quick else (32, 2048, 64)
    dtype, found = torch.float32 if b.on_cpu else torch.bfloat16, {}
    qkv = tuple(torch.randn(1, heads, length, size, device=b.device, dtype=dtype) for _ in range(3))
    for backend in BACKENDS:
        try: flops = count_costs(Attention(backend), qkv).product_flops
        except RuntimeError: continue   # the device has no such kernel
        b.holds(f'{backend.name}: products', flops == 4*heads*length**2*size, flops)
        found[backend.name] = flops
    return found


def step(b: Bench) -> dict:
    """A step with AMP: rows that add up, memory beside the allocator's, nothing left behind."""
    model, sample = b.images('resnet18')
    model.train()
    labels = torch.zeros(len(sample), dtype=torch.int64, device=b.device)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler(b.device.type)
    half = torch.bfloat16 if b.on_cpu else torch.float16
    before = [t.clone() for t in model.state_dict().values()]

    def loss(output): return F.cross_entropy(output, labels)
    result = RooflineAnalyzer(model, sample, b.peaks).profile_step(
        loss, optimizer, clip=1., scaler=scaler, autocast=half, warmup=3, steps=10)
    same = all(map(torch.equal, before, model.state_dict().values()))
    b.holds('parameters and buffers as before', same, same)
    b.holds('the optimizer has no state', not optimizer.state, len(optimizer.state))
    whole = sum(row.time_s or 0 for row in result) + result.totals.remainder_s
    b.holds('rows and remainder are the step', abs(whole/result.time_s - 1) < 1e-9, whole)
    found = {'step ms': 1e3*result.time_s, 'MFU %': 100*(result.mfu or 0),
             'marks add %': result.totals.overhead_pct}
    found |= {f'{part.name} %': 100*part.time_s/result.time_s for part in result.by('phase')}
    if b.on_cpu: return found
    for i in range(2):   # the first makes the optimizer's state
        torch.cuda.reset_peak_memory_stats(b.device)
        with torch.autocast(b.device.type, half): value = scaler.scale(loss(model(sample)))
        value.backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    ratio = result.memory.peak/torch.cuda.max_memory_allocated(b.device)
    b.within('memory, counted / allocated', ratio, 0.7, 1.1)
    return found | {'memory, counted / allocated': ratio}


def compiled(b: Bench) -> dict:
    """Kernels of compiled code as rows: work as in eager code, times that add up."""
    model, x = b.mlp()
    eager, compiled = count_costs(model, x), torch.compile(model)
    with torch.no_grad(): before = compiled(x)
    region = RooflineAnalyzer(compiled, x, b.peaks).profile()
    result = RooflineAnalyzer(compiled, x, b.peaks).profile(kernels=True)
    kernels = [row for row in result if row.near != 'outside']
    products = result.matmul_flops, eager.product_flops
    b.holds('products as in eager code', products[0] == products[1], products)
    without = [row.name for row in kernels if not row.modules]
    b.holds('each kernel has modules', not without, without)
    generated = [row.name for row in kernels if row.type in ('Triton', 'C++')]
    b.holds('some kernels are generated', generated, [row.type for row in kernels])
    with torch.no_grad(): same = torch.allclose(compiled(x), before)
    b.holds('outputs as before', same, same)
    in_kernels = sum(row.time_s or 0 for row in kernels)
    b.within('time by kernels / region', result.time_s/region.time_s, 0.8, 1.3)
    return {'kernels': len(kernels), 'generated': len(generated),
            'in kernels / region': in_kernels/region.time_s,
            'FLOPs / eager': result.flops/eager.flops,
            'bytes / eager': result.bytes_moved/eager.bytes_moved}


def graphs(b: Bench) -> dict:
    """A model whose launches CUDA graphs replay has a row, its output, and less idle time."""
    b.needs_gpu('it has no graphs')
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(20))).eval().to(b.device)
    x = torch.randn(64, 256, device=b.device)
    eager = RooflineAnalyzer(model, x, b.peaks).profile()
    captured = torch.compile(model, mode='reduce-overhead')
    with torch.no_grad():
        for _ in range(4): before = captured(x).clone()
        result = RooflineAnalyzer(captured, x, b.peaks).profile()
        b.holds('outputs as before', torch.equal(captured(x), before), 'others')
    b.within('captured / eager', result.time_s/eager.time_s, 0, 0.9)
    return {'eager µs': 1e6*eager.time_s, 'captured / eager': result.time_s/eager.time_s}


def left_alone(b: Bench) -> dict:
    """A model in training mode, random numbers and switches are as before a profile."""
    model = nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.Dropout()).to(b.device)
    sample = torch.randn(2, 8, 16, 16, device=b.device)

    def state():
        own = [] if b.on_cpu else [torch.cuda.get_rng_state(b.device)]
        cudnn = torch.backends.cudnn
        flags = cudnn.allow_tf32, cudnn.benchmark, torch.is_grad_enabled(), model[0].training
        tensors = *model.state_dict().values(), sample, torch.get_rng_state(), *own
        return flags, [t.clone() for t in tensors]

    flags, values = state()
    RooflineAnalyzer(model, sample, b.peaks).profile(warmup=2, steps=4)
    after_flags, after = state()
    b.holds('flags', flags == after_flags, after_flags)
    b.holds('values', all(map(torch.equal, values, after)), 'others')
    return {'values': len(values)}


def link_worker(rank: int, ranks: int, backend: str, store: str, queue):
    """One rank that measures the links; the first puts the rates into a queue."""
    if backend == 'nccl': torch.cuda.set_device(rank)
    dist.init_process_group(backend, f'file://{store}', rank=rank, world_size=ranks)
    sizes = (2**20, 2**26) if backend == 'nccl' else (2**16,)
    rates = measure_links(['all_reduce', 'all_gather'], sizes=sizes)
    if not rank: queue.put(rates)
    dist.destroy_process_group()


def links(b: Bench) -> dict:
    """What links between the devices carry."""
    ranks = 2 if b.on_cpu else torch.cuda.device_count()
    if ranks < 2: raise Skipped('there is one device')
    queue = torch.multiprocessing.get_context('spawn').SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        given = ranks, 'gloo' if b.on_cpu else 'nccl', f'{folder}/store', queue
        torch.multiprocessing.spawn(link_worker, given, ranks)
        rates = queue.get()
    for kind, rate in rates.items(): b.holds(f'{kind} has a rate', rate > 0, rate)
    return {'devices': ranks} | {f'{kind} GB/s': rate/1e9 for kind, rate in rates.items()}


CHECKS = (clock, peaks, idle, tf32, rows, trace, attention, step, compiled, graphs, left_alone,
          links)


def run(b: Bench, check) -> dict:
    """The row of one check, whatever happens in it."""
    b.failed, b.conditions, start = [], 0, time.perf_counter()
    status, said, found = 'ok', '', {}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter('always')
        try: found = check(b)
        except Skipped as e: status, said = 'skipped', str(e)
        except Exception as e: b.failed.append(f'{type(e).__name__}: {e}'[:500])
    if b.failed: status, said = 'failed', '; '.join(map(str, b.failed))
    print(f'{status:8} {check.__name__} {said[:200]}', flush=True)
    return dict(check=check.__name__, status=status, seconds=time.perf_counter() - start,
                conditions=b.conditions, said=said, found=found,
                warned=[*dict.fromkeys(str(w.message).partition('\n')[0][:200] for w in heard)])


def main():
    parser = option_parser(__doc__)
    parser.add_argument('--device', help='default: the accelerator that torch finds')
    parser.add_argument('--only', default='', help='checks, with commas')
    args = read_options(parser)
    b = Bench(resolve_device(args.device), args.quick)
    wanted = chosen(parser, args.only, [check.__name__ for check in CHECKS])
    records = [run(b, check) for check in CHECKS if check.__name__ in wanted]
    found = [{'check': r['check'], 'what': key, 'value': value}
             for r in records for key, value in r.pop('found').items()]
    warned = [{'check': r['check'], 'warned': text} for r in records for text in r.pop('warned')]
    count = {status: sum(r['status'] == status for r in records)
             for status in ('ok', 'failed', 'skipped')}
    slug = re.sub('[^a-z0-9]+', '_', device_name(b.device).lower()).strip('_')
    tables = {'checks': records, 'found': found} | ({'warnings': warned} if warned else {})
    finish(args, __file__, __doc__, tables, count | {'device': device_name(b.device)},
           ['torchvision', 'triton'], name=f'on_gpu_{slug}', device=b.device)
    sys.exit(bool(count['failed']))


if __name__ == '__main__': main()
