"""Is a ceiling that is too low noticed? Measured ones are halved; then networks are profiled under them.

Where the profile measured the peaks itself, the ceiling is to be measured again with an operation of the network; where
they were given, rows above every roof are to be reported, and the peaks to stay as they are.

    python benchmarks/planted_ceiling.py
"""
from dataclasses import replace
from unittest.mock import patch

import torch
from fastcore.script import call_parse
from tabulate import tabulate
from torchvision import models

import fasterbench.roofline as R
import fasterbench.peaks as P
from report import on_core, write_result

def halved(p):
    "The same peaks with half the arithmetic"
    return replace(p, peak_flops=p.peak_flops/2, ridge_point=None, compute_peaks={k: v/2 for k,v in p.compute_peaks.items()},
        sustained={}, compute_kernels={}, samples={'bandwidth': p.samples['bandwidth']})   # which would contradict it

def rows(name, dtype, true):
    "What becomes of the planted ceiling, measured and given"
    model, x, low = getattr(models, name)().to(dtype), torch.randn(1, 3, 224, 224, dtype=dtype), halved(true)
    for how in ('measured', 'given'):
        with patch.object(P, 'measure_peaks', lambda *a, **kw: low): a = R.RooflineAnalyzer(model, x, low if how=='given' else None); found = a.profile()
        before, after = (p.compute_peaks[true.name]/true.compute_peaks[true.name] for p in (low, a.peaks))
        yield name, true.name, how, f'{before:.2f}', f'{after:.2f}', a.peaks.kernels[true.name], sum(r.impossible for r in found), len(found)

@call_parse
def main():
    "Plant ceilings at half their height"
    table = []
    for dtype in (torch.float32, torch.bfloat16):
        true = R.measure_peaks('cpu', dtype=dtype, hierarchy=True)
        for name in ('resnet18', 'vgg11', 'vit_b_16'): table += rows(name, dtype, true)
    heads = ['network', 'dtype', 'the peaks are', 'planted', 'afterwards', 'reached with', 'rows above every roof', 'rows']
    write_result(on_core('planted_ceiling'), 'ceilings planted at half of what was measured, as parts of that',
        tabulate(table, headers=heads, disable_numparse=True, colalign=['left', 'left', 'left', 'right', 'right', 'left', 'right', 'right']))
