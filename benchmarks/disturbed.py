"""Do rows and the time outside of them add up to the forward beside other programs?

Profiles ResNet-50 again and again while loops keep every processor busy, and compares what can be said of a forward: the rows'
means over the middle half of the forwards with that half's mean, and the sum of the rows' medians with the median forward.
Prints the table and writes it, with device and versions, to benchmarks/results/disturbed.txt.

    python benchmarks/disturbed.py [--profiles 20 --loops 2]
"""
import subprocess, sys
from statistics import median

import torch, torchvision
from fastcore.script import call_parse
from tabulate import tabulate

from fasterbench.peaks import HardwarePeaks
from fasterbench.roofline import RooflineAnalyzer
from report import write_result

def profiled(analyzer, steps):
    "Of one profile: the mean forward, rows and remainder of it, and what medians would give"
    rows = analyzer.profile(warmup=1, steps=steps)
    t = rows.totals
    medians = sum(r.timing.median for r in rows)
    return t.mean_s, (t.rows_s + t.remainder_s)/t.mean_s, t.rows_s/t.mean_s, t.forward.median, medians/t.forward.median

@call_parse
def main(
    profiles:int=20, # of ResNet-50
    steps:int=12, # timed forwards of each
    loops:int=2, # busy programs beside
):
    "Profile beside busy loops"
    torch.manual_seed(0)
    analyzer = RooflineAnalyzer(torchvision.models.resnet50(weights=None), torch.randn(1, 3, 224, 224), HardwarePeaks(1e12, 1e11))
    busy = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(loops)]
    try: got = [profiled(analyzer, steps) for _ in range(profiles)]
    finally:
        for o in busy: o.kill()
    rows = [[i, f'{1e3*mean:.1f}', f'{100*whole:.3f}', f'{100*part:.1f}', f'{1e3*mid:.1f}', f'{100*medians:.1f}'] for i,(mean,whole,part,mid,medians) in enumerate(got)]
    headers = ['', 'forward, ms', 'rows + outside, %', 'rows, %', 'median forward, ms', "rows' medians, % of it"]
    gap, off = max(abs(o[1]-1) for o in got), [abs(o[4]-1) for o in got]
    said = f"largest gap of rows + outside: {100*gap:.4f} %; of the rows' medians: {100*max(off):.0f} %, median {100*median(off):.0f} %"
    what = f'ResNet-50, batch 1, beside {loops} busy loops: {profiles} profiles of {steps} forwards each'
    write_result('disturbed', what, tabulate(rows, headers=headers, disable_numparse=True, stralign='right') + f'\n\n{said}', 'torchvision')
