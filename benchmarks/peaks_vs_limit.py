"""Are the ceilings the machine's, is any row above every roof, and is a ceiling that is too low noticed?

`measure_peaks` runs in fresh processes, in turns with multiply-adds in registers, in C: benchmarks/shared/fma.c, with the
same number of threads, each on a processor of its own. Of several instructions for a dtype the fastest counts.

- `--rows`: networks are profiled, each with peaks of its own process. A row counts as above every roof if its time is shorter
  than its roof allows, that of its cache too, by more than the interquartile range of its own samples. Which ceilings were
  measured again with an operation of a row is told.
- `--planted`: measured ceilings are halved, and networks are profiled under them. Where the profile measured the peaks itself,
  the ceiling is to be measured again with an operation of the network; where they were given, rows above every roof are to be
  reported, and the peaks to stay as they are.

The tables go to benchmarks/results: peaks_vs_limit_<core>.txt, rows_under_roofs_<core>.txt and planted_ceiling_<core>.txt.

    python -m benchmarks.peaks_vs_limit [--rounds 5] [--rows | --planted]
"""
import statistics
from dataclasses import replace
from unittest.mock import patch

import torch
from fastcore.script import call_parse, store_true

import fasterbench.machine.peaks
from fasterbench.machine.peaks import measure_peaks
from fasterbench.operations import si
from fasterbench.roofline import RooflineAnalyzer
from benchmarks.shared.models import image
from benchmarks.shared.report import on_core, write_result
from benchmarks.shared.runs import built, in_process, in_turns, lines_of
from scripts.evidence import table

# are they the machine's?

code = """
import json
from fasterbench.machine.peaks import measure_peaks
p = measure_peaks('cpu', dtype={dtypes})
print(json.dumps(dict(flops=p.compute_peaks, kernels=p.kernels, disturbed=p.disturbed, clock=p.clock_hz)))
"""

def limits(program):
    "FLOP/s of the fastest instruction in each dtype, and its name"
    best = {}
    for name,dtype,rate in lines_of(program, 0.5, OMP_PROC_BIND='true'):
        best[dtype] = max((float(rate), name), best.get(dtype, (0., '')))
    return best

def measured(dtypes):
    "What `measure_peaks` says in a process of its own"
    return in_process('-c', code.format(dtypes=dtypes))[-1]

def over_limit(dtype, c, ours): return [p['flops'][dtype]/l[dtype][0] for l,p in zip(c, ours)]

def limit_rows(dtype, c, ours):
    "A line of each for one dtype"
    ratios = over_limit(dtype, c, ours)
    yield (f'{dtype}, C ({c[0][dtype][1]})', *(si(l[dtype][0], 'FLOP/s') for l in c), '')
    yield (f'{dtype}, measure_peaks', *(si(p['flops'][dtype], 'FLOP/s') for p in ours), '')
    yield ('ratio', *(f'{r:.3f}' for r in ratios), f'{statistics.median(ratios):.3f} (least {min(ratios):.3f})')
    yield ('', *(p['kernels'][dtype].split()[0] for p in ours), '')

def against_limit(rounds):
    "Hold the measured ceilings against the limit of the processor's arithmetic units"
    with built('fma.c') as program:
        dtypes = [*limits(program)]
        got = in_turns(rounds, c=lambda: limits(program), ours=lambda: measured(dtypes))
    c, ours = got['c'], got['ours']
    dtypes = [k for k in dtypes if all(k in p['flops'] for p in ours)]
    rows = [r for k in dtypes for r in limit_rows(k, c, ours)]
    rows.append(('disturbed', *(p['disturbed'].removeprefix('other processes used ') or 'no' for p in ours), ''))
    what = 'measure_peaks in fresh processes and multiply-adds in registers (fma.c), in turns; ratio of the two'
    ratios = {k: over_limit(k, c, ours) for k in dtypes}
    figures = dict(rounds=rounds, median={k: statistics.median(v) for k,v in ratios.items()}, least={k: min(v) for k,v in ratios.items()})
    heads = ['', *(f'round {i+1}' for i in range(rounds)), 'median']
    write_result(on_core('peaks_vs_limit'), what, table(rows, heads, disable_numparse=True, colalign=['left', *['right']*(rounds+1)]), figures=figures)

# is a row above every roof?

half = ['resnet18', 'convnext_tiny', 'vit_b_16', 'swin_t']
networks = ['resnet18', 'resnet50', 'vgg11', 'convnext_tiny', 'regnet_y_8gf', 'vit_b_16', 'swin_t', 'mobilenet_v3_large', 'mobilenet_v3_small']
profile_code = """
import json, torch
from fasterbench.roofline import RooflineAnalyzer
from benchmarks.shared.models import image
torch.manual_seed(0)
model, x = image('{name}')
a = RooflineAnalyzer(model.to(torch.{dtype}), x.to(torch.{dtype}))
rows = a.profile()
known = [r for r in rows if r.utilization_pct is not None]
held = [r.cache_pct if r.above else r.utilization_pct for r in known]
worst = known[held.index(max(held))]
print(json.dumps(dict(rows=len(rows), above=sum(r.above for r in rows), impossible=[r.name for r in rows if r.impossible], highest=max(held), name=worst.name,
    roof=worst.roof, kernel=a.peaks.kernels[a.peaks.name], flops=a.peaks.peak_flops, bandwidth=a.peaks.peak_bandwidth, disturbed=bool(a.peaks.disturbed))))
"""

def line(name, dtype):
    r = in_process('-c', profile_code.format(name=name, dtype=dtype))[-1]
    kernel = r['kernel'] if ' of ' in r['kernel'] and '×' not in r['kernel'] else r['kernel'].split()[0]
    return (name, dtype, r['rows'], r['above'], len(r['impossible']), f"{r['highest']:.1f}", f"{r['name'] or '(the model)'} ({r['roof']})", f"{r['flops']/1e9:.0f}", kernel,
            f"{r['bandwidth']/1e9:.0f}" + ('~' if r['disturbed'] else ''), ', '.join(r['impossible'][:2]) or '–')

def under_roofs(rounds):
    "Hold rows against their roofs"
    todo = [(n, 'float32') for n in networks] + [(n, 'bfloat16') for n in half]
    rows = [line(n, d) for n,d in todo for _ in range(rounds)]
    found = table(rows, ['network', 'dtype', 'rows', 'above DRAM', 'above all', 'highest %', 'of which row (roof)', 'GFLOP/s', 'ceiling by', 'GB/s', 'which'],
        disable_numparse=True, colalign=['left', 'left', *['right']*4, 'left', 'right', 'left', 'right', 'left'])
    bad, every = sum(r[4] for r in rows), sum(r[2] for r in rows)
    what = f'{rounds} profiles of each network, batch 1, in fresh processes; {bad} of {every} rows are above every roof by more than their own IQR; ~ disturbed'
    write_result(on_core('rows_under_roofs'), what, found, 'torchvision', figures=dict(profiles=rounds, rows=every, above=bad))

# ceilings that are too low

def halved(p):
    "The same peaks with half the arithmetic"
    return replace(p, peak_flops=p.peak_flops/2, ridge_point=None, compute_peaks={k: v/2 for k,v in p.compute_peaks.items()},
        sustained={}, compute_kernels={}, samples={'bandwidth': p.samples['bandwidth']})   # which would contradict it

def planted_lines(name, dtype, true):
    "What becomes of the planted ceiling, measured and given"
    model, x = image(name)
    model, x, low = model.to(dtype), x.to(dtype), halved(true)
    for how in ('measured', 'given'):
        with patch.object(fasterbench.machine.peaks, 'measure_peaks', lambda *a, **kw: low):
            a = RooflineAnalyzer(model, x, low if how=='given' else None)
            found = a.profile()
        before, after = (p.compute_peaks[true.name]/true.compute_peaks[true.name] for p in (low, a.peaks))
        yield name, true.name, how, f'{before:.2f}', f'{after:.2f}', a.peaks.kernels[true.name], sum(r.impossible for r in found), len(found)

def plant(networks=('resnet18', 'vgg11', 'vit_b_16')):
    "Plant ceilings at half their height"
    lines = []
    for dtype in (torch.float32, torch.bfloat16):
        true = measure_peaks('cpu', dtype=dtype, hierarchy=True)
        for name in networks: lines += planted_lines(name, dtype, true)
    heads = ['network', 'dtype', 'the peaks are', 'planted', 'afterwards', 'reached with', 'rows above every roof', 'rows']
    write_result(on_core('planted_ceiling'), 'ceilings planted at half of what was measured, as parts of that',
        table(lines, heads, disable_numparse=True, colalign=['left', 'left', 'left', 'right', 'right', 'left', 'right', 'right']))

@call_parse
def main(
    rounds:int=0, # of both, in turns (default: 5), or fresh processes for each network and dtype (default: 3)
    rows:store_true=False, # profile networks, and hold rows against their roofs
    planted:store_true=False, # halve the ceilings that were measured
):
    "Hold the measured ceilings against the processor's limit and against networks"
    if planted: plant()
    elif rows: under_roofs(rounds or 3)
    else: against_limit(rounds or 5)
