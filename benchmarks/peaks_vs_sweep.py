"""Is the peak of arithmetic the peak? `measure_peaks` beside an exhaustive sweep over shapes and layouts, in one run.

The sweep is the one by which the best achievable rates of GPUs are found (S. Bekman, Machine Learning Engineering,
"Maximum Achievable Matmul FLOPS Finder"): every m, n and k from a list of sides, every layout of the operands, with and
without memory for the result, and then every product near to the ten best (a side a quarter or a half longer or shorter, with
every layout), twice over; products that take longer than `--longest` are left out. `measure_peaks` runs before, between and after
parts of the sweep, and the sweep's ten best are timed once more, for longer and in turns.

    python benchmarks/peaks_vs_sweep.py [--device cpu] [--dtypes float32,bfloat16]
"""
import itertools, platform, random, statistics

import torch
from fastcore.script import call_parse

from fasterbench.core import device_name, resolve_device, resolve_dtype, si
from fasterbench.peaks import measure_peaks
from fasterbench.arithmetic import Arithmetic, Case, WrongAnswer, case_rates, kernels, neighbours
from report import here

results = here/'results'
sides = dict(cpu=[2**i for i in range(8, 15)], cuda=[1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384])

def sweep(arith, cases, longest, refused):
    for c in cases:
        if arith.rates and c.flops/max(arith.rates.values())>longest: continue
        try: case_rates(arith, c, seconds=0.002)
        except WrongAnswer: raise
        except RuntimeError as e: refused.append(e)   # a layout or shape for which the library has no kernel

def compare(device, dtype, longest, parts):
    arith, layouts = Arithmetic(dtype, device), kernels['matmul'].layouts(dtype, device)
    todo = [Case('matmul', s, l) for s in itertools.product(sides[device.type], repeat=3) for l in layouts]
    case_rates(arith, Case('matmul', (sides[device.type][4],)*3, layouts[0]))
    random.Random(0).shuffle(todo)
    ours, refused = [], []
    for i in range(parts):
        ours.append(measure_peaks(device, dtype=dtype, bandwidth_mb=64, cache=False))
        sweep(arith, todo[i::parts], longest, refused)
    ours.append(measure_peaks(device, dtype=dtype, bandwidth_mb=64, cache=False))
    for _ in range(2):
        near = {d for c in arith.best()[:10] for f in (1.25, 1.5) for n in neighbours(c, f) for d in arith.layouts(n)}
        sweep(arith, sorted(near-arith.rates.keys()), longest, refused)
    best_ten = arith.best()[:10]
    for _ in range(5):
        for c in best_ten: case_rates(arith, c, seconds=0.05)
    best = arith.best()[0]
    found = [p.peak_flops for p in ours]
    yield f'{dtype}'.removeprefix('torch.')
    yield f'  sweep     {len(arith.rates)} products, {len(refused)} without a kernel; best {si(arith.rates[best], "FLOP/s")} with {best}'
    for p in ours: yield f'  measured  {si(p.peak_flops, "FLOP/s")} with {p.kernels[p.name]}: {p.peak_flops/arith.rates[best]:.3f} of the sweep\'s best, sustained {p.sustained_flops/p.peak_flops:.3f} of the burst'
    yield f'  median    {statistics.median(found)/arith.rates[best]:.3f} of the sweep\'s best; the lowest call {min(found)/arith.rates[best]:.3f}'

@call_parse
def main(
    device:str='cpu', # cpu, cuda, …
    dtypes:str='float32,bfloat16', # separated by commas
    longest:float=0.03, # seconds that a product of the sweep may take
    parts:int=4, # of the sweep, with a call of measure_peaks before each
):
    "Hold measured peaks against a sweep"
    dev = resolve_device(device)
    with torch.inference_mode():
        lines = [f'{device_name(dev)}, {torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}']
        for d in dtypes.split(','):
            for line in compare(dev, resolve_dtype(d), longest, parts): print(line, flush=True); lines.append(line)
    name = 'peaks_vs_sweep.txt' if dev.type=='cpu' else f'peaks_vs_sweep_{dev.type}.txt'
    (results/name).write_text('\n'.join(lines)+'\n')
