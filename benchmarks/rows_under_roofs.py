"""Is any row above every roof, and is a ceiling that is too low noticed? Networks profiled on the CPU.

Each with peaks of its own process. A row counts as above every roof if its time is shorter than its roof allows, that of
its cache too, by more than the interquartile range of its own samples. Which ceilings were measured again with an operation
of a row is told.

With `--planted` measured ceilings are halved, and networks are profiled under them. Where the profile measured the peaks
itself, the ceiling is to be measured again with an operation of the network; where they were given, rows above every roof
are to be reported, and the peaks to stay as they are. The tables go to benchmarks/results/rows_under_roofs_<core>.txt and
planted_ceiling_<core>.txt.

    python -m benchmarks.rows_under_roofs [--rounds 3 | --planted]
"""
import json, subprocess, sys
from dataclasses import replace
from unittest.mock import patch

import torch
from fastcore.script import call_parse, store_true
from tabulate import tabulate
from torchvision import models

import fasterbench.subject
from fasterbench.machine.peaks import measure_peaks
from fasterbench.roofline import RooflineAnalyzer
from benchmarks.shared.report import on_core, write_result

half = ['resnet18', 'convnext_tiny', 'vit_b_16', 'swin_t']
networks = ['resnet18', 'resnet50', 'vgg11', 'convnext_tiny', 'regnet_y_8gf', 'vit_b_16', 'swin_t', 'mobilenet_v3_large', 'mobilenet_v3_small']
code = """
import json, torch
from torchvision import models
from fasterbench.roofline import RooflineAnalyzer
torch.manual_seed(0)
a = RooflineAnalyzer(models.{name}().to(torch.{dtype}), torch.randn(1, 3, 224, 224, dtype=torch.{dtype}))
rows = a.profile()
known = [r for r in rows if r.utilization_pct is not None]
held = [r.cache_pct if r.above else r.utilization_pct for r in known]
worst = known[held.index(max(held))]
print(json.dumps(dict(rows=len(rows), above=sum(r.above for r in rows), impossible=[r.name for r in rows if r.impossible], highest=max(held), name=worst.name,
    roof=worst.roof, kernel=a.peaks.kernels[a.peaks.name], flops=a.peaks.peak_flops, bandwidth=a.peaks.peak_bandwidth, disturbed=bool(a.peaks.disturbed))))
"""

def profiled(name, dtype):
    "What a profile in a process of its own says"
    run = subprocess.run([sys.executable, '-c', code.format(name=name, dtype=dtype)], check=True, capture_output=True, text=True)
    return json.loads(run.stdout.splitlines()[-1])

def line(name, dtype):
    r = profiled(name, dtype)
    kernel = r['kernel'] if ' of ' in r['kernel'] and '×' not in r['kernel'] else r['kernel'].split()[0]
    return (name, dtype, r['rows'], r['above'], len(r['impossible']), f"{r['highest']:.1f}", f"{r['name'] or '(the model)'} ({r['roof']})", f"{r['flops']/1e9:.0f}", kernel,
            f"{r['bandwidth']/1e9:.0f}" + ('~' if r['disturbed'] else ''), ', '.join(r['impossible'][:2]) or '–')

def measured(rounds):
    "Hold rows against their roofs"
    todo = [(n, 'float32') for n in networks] + [(n, 'bfloat16') for n in half]
    rows = [line(n, d) for n,d in todo for _ in range(rounds)]
    table = tabulate(rows, headers=['network', 'dtype', 'rows', 'above DRAM', 'above all', 'highest %', 'of which row (roof)', 'GFLOP/s', 'ceiling by', 'GB/s', 'which'],
        disable_numparse=True, colalign=['left', 'left', *['right']*4, 'left', 'right', 'left', 'right', 'left'])
    bad = sum(r[4] for r in rows)
    what = f'{rounds} profiles of each network, batch 1, in fresh processes; {bad} of {sum(r[2] for r in rows)} rows are above every roof by more than their own IQR; ~ disturbed'
    write_result(on_core('rows_under_roofs'), what, table, 'torchvision')

# ceilings that are too low

def halved(p):
    "The same peaks with half the arithmetic"
    return replace(p, peak_flops=p.peak_flops/2, ridge_point=None, compute_peaks={k: v/2 for k,v in p.compute_peaks.items()},
        sustained={}, compute_kernels={}, samples={'bandwidth': p.samples['bandwidth']})   # which would contradict it

def planted_lines(name, dtype, true):
    "What becomes of the planted ceiling, measured and given"
    model, x, low = getattr(models, name)().to(dtype), torch.randn(1, 3, 224, 224, dtype=dtype), halved(true)
    for how in ('measured', 'given'):
        with patch.object(fasterbench.subject, 'measure_peaks', lambda *a, **kw: low):
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
        tabulate(lines, headers=heads, disable_numparse=True, colalign=['left', 'left', 'left', 'right', 'right', 'left', 'right', 'right']))

@call_parse
def main(
    rounds:int=3, # fresh processes for each network and dtype
    planted:store_true=False, # halve the ceilings that were measured
):
    "Profile networks under measured ceilings"
    plant() if planted else measured(rounds)
