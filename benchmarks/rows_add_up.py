"""Do the rows add up to the forward, does watching slow it down, and how long does a profile take?

`profile` itself makes plain forwards between those with marks. Prints a table and writes it, with the device and the
versions, to benchmarks/results/rows_add_up.txt.

    python benchmarks/rows_add_up.py [--rounds 5] [--models resnet18,resnet50]
"""
import time
from statistics import median

import torch, torchvision
from fastcore.script import call_parse
from tabulate import tabulate

from fasterbench.peaks import HardwarePeaks
from fasterbench.roofline import RooflineAnalyzer
from report import write_result

def profiled(name, rounds):
    "Analyzers after `rounds` profiles of their own, and how many plain forwards each profile took as long as"
    model, sample = torchvision.models.get_model(name, weights=None), torch.randn(1, 3, 224, 224)
    for _ in range(rounds):
        a = RooflineAnalyzer(model, sample, HardwarePeaks(1e12, 1e11))
        start = time.perf_counter()
        a.profile(warmup=5, steps=20)
        yield a, (time.perf_counter()-start)/a.totals.plain.median

def line(name, rounds):
    got = [*profiled(name, rounds)]
    t = [a.totals for a,_ in got]
    exact = max(abs(sum(r.samples[i] for r in a.results) + a.totals.outside.samples[i] - f)/f for a,_ in got for i,f in enumerate(a.totals.forward.samples))
    ms, pct = lambda f: f'{1e3*median(map(f, t)):.2f}', lambda f: f'{100*median(map(f, t)):.2f}'
    return [name, len(got[0][0].results), t[0].module_calls, ms(lambda o: o.plain.median), ms(lambda o: o.forward.median), f'{median(o.overhead_pct for o in t):.1f}',
            f'{median(n for _,n in got):.1f}', pct(lambda o: (o.rows_s + o.remainder_s)/o.mean_s), f'{exact:.0e}']

headers = ['model', 'rows', 'module\ncalls', 'plain\nms', 'with\nmarks ms', 'overhead\n%', 'profile, in\nplain forwards', 'rows +\nremainder %', 'largest gap in\nany one forward']

@call_parse
def main(
    rounds:int=5, # profiles of each model
    models:str='resnet18,resnet50,vit_b_16,swin_t,mobilenet_v3_small', # torchvision models
):
    "Measure how the rows add up and what watching costs"
    table = tabulate([line(m, rounds) for m in models.split(',')], headers=headers, disable_numparse=True, stralign='right')
    what = f'batch 1, 224 pixels, eval and inference mode; medians of {rounds} profiles, each of 5 forwards to warm up, 20 with marks and 5 plain ones in between'
    write_result('rows_add_up', what, table, 'torchvision')
