"""Do the rows add up to the forward, and does watching it slow it down?

For each model, plain and profiled forwards alternate in one process, so that both see the same machine. Prints a
table and writes it, with the device and the versions, to benchmarks/results/rows_add_up.txt.

    python benchmarks/rows_add_up.py [--pairs 31] [--models resnet18 ...]
"""
import platform, time
from pathlib import Path
from statistics import median

import torch, torchvision
from fastcore.script import call_parse
from tabulate import tabulate

from fasterbench.core import device_name, undisturbed
from fasterbench.costs import count_forward
from fasterbench.peaks import HardwarePeaks
from fasterbench.roofline import RooflineAnalyzer, time_forwards

cpu = torch.device('cpu')

def plain(model, run):
    args, kwargs = run.call()
    start = time.perf_counter()
    out = model(*args, **kwargs)
    return time.perf_counter() - start

def measure(name, pairs):
    "Seconds of alternating plain and profiled forwards, and the analyzer's totals over the profiled ones"
    model, sample = torchvision.models.get_model(name, weights=None), torch.randn(1, 3, 224, 224)
    analyzer, plains, profiled, owns = RooflineAnalyzer(model, sample), [], [], []
    with undisturbed(model, sample, cpu) as run:
        costs = count_forward(model, *run.call())
        for _ in range(5): plain(model, run)
        for i in range(pairs):
            first = i%2   # neither kind is always the first of a pair
            if first: plains.append(plain(model, run))
            total, own = time_forwards(model, run, cpu, warmup=0, steps=1)
            if not first: plains.append(plain(model, run))
            profiled += total; owns += own
    rows, totals = analyzer._join(costs, profiled, owns, HardwarePeaks(1e12, 1e11))
    return plains, totals, rows

def line(name, pairs):
    plains, t, rows = measure(name, pairs)
    exact = max(abs(sum(r.samples[i] for r in rows) + t.outside.samples[i] - f)/f for i,f in enumerate(t.forward.samples))
    ms = lambda s: f'{1e3*s:.2f}'
    return [name, len(rows), ms(median(plains)), ms(t.forward.median), f'{t.forward.median/median(plains):.3f}',
            f'{median(a/b for a,b in zip(t.forward.samples, plains)):.3f}', ms(t.rows_s), ms(t.outside.median), ms(t.jitter_s),
            f'{100*(t.rows_s + t.remainder_s)/t.forward.median:.2f}', f'{100*(t.rows_s + t.outside.median)/t.forward.median:.2f}', f'{exact:.0e}']

headers = ['model', 'rows', 'plain ms', 'profiled ms', 'ratio of\nmedians', 'median of\nratios', 'rows ms', 'outside ms', 'jitter ms',
           'rows +\nremainder %', 'rows +\noutside %', 'largest gap in\nany one forward']

@call_parse
def main(
    pairs:int=31, # plain and profiled forwards, alternating
    models:str='resnet18,resnet50,vit_b_16,swin_t', # torchvision models
):
    "Measure how the rows add up and what watching costs"
    table = tabulate([line(m, pairs) for m in models.split(',')], headers=headers, disable_numparse=True, stralign='right')
    text = (f'{device_name(cpu)}, {torch.get_num_threads()} threads; Python {platform.python_version()}, torch {torch.__version__}, '
            f'torchvision {torchvision.__version__}\nbatch 1, 224 pixels, eval and inference mode, {pairs} alternating pairs; times are medians\n\n{table}\n')
    print(text)
    (Path(__file__).parent/'results'/'rows_add_up.txt').write_text(text)
