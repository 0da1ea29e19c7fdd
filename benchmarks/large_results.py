"""What do the views and the files of a large result cost?

A result of many rows is made up, as of a profile with 20 samples a row. Each view and each file is timed several times,
and the fastest counts: the work is the same each time. Prints a table with seconds and megabytes of the files, writes it
to benchmarks/results/large_results.txt, and fails where something takes more than 3 s.

    python benchmarks/large_results.py [--rows 10000] [--rounds 3]
"""
import random, tempfile, time
from pathlib import Path

import torch
from fastcore.script import call_parse
from tabulate import tabulate

from fasterbench.plot import plot_roofline
from fasterbench.report import summary_table
from fasterbench.roofline import HardwarePeaks, RooflinePoint
from fasterbench.results import Roofline
from fasterbench.rows import Totals
from fasterbench.timing import Timing
from report import write_result

most = 3. # seconds that each may take

def row(i, rng, peaks):
    "A row of a linear layer or of additions, with times around its roof"
    flops = rng.randrange(10**5, 10**9)
    nbytes = flops//rng.choice((1, 4, 40))
    roof_s = max(flops/peaks.peak_flops, nbytes/peaks.peak_bandwidth)
    samples = [roof_s*rng.uniform(1.2, 4) for _ in range(20)]
    time_s = sum(samples)/20
    bound = 'compute' if flops/nbytes>=peaks.ridge_point else 'memory'
    return RooflinePoint(f'layers.{i}.mlp.up', rng.choice(('Linear', 'LayerNorm')), flops, nbytes, time_s, flops/nbytes,
        flops/time_s/1e9, bound, 100*roof_s/time_s, 1, flops, torch.float32, 0.01, 10**6, roof_s, nbytes,
        'float32' if bound=='compute' else 'memory', roof_s, ran=20, samples=samples)

def result(n):
    "A measured result of `n` rows"
    rng, peaks = random.Random(0), HardwarePeaks(1e12, 1e11)
    rows = [row(i, rng, peaks) for i in range(n)]
    forward = Timing([sum(r.samples[k] for r in rows)*1.01 for k in range(20)])
    sums = [sum(getattr(r, k) for r in rows) for k in ('flops', 'matmul_flops', 'bytes_moved', 'roof_time_s')]
    totals = Totals(forward, Timing([0.01*t for t in forward.samples]), sum(r.time_s for r in rows), 0., *sums, True, forward, 0.1, n)
    return Roofline(rows, 'measured', peaks, totals, dict(model='Large', device='cpu', device_name='cpu', dtype='float32', threads=1))

def fastest(f, rounds):
    "Seconds of the fastest call"
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)

def views(r, folder):
    "Name, what is called, and its file"
    json, page = folder/'large.json', folder/'large.html'
    yield 'summary_table', lambda: summary_table(r), None
    yield 'save as JSON', lambda: r.save(json), json
    yield 'load JSON', lambda: Roofline.load(json), json
    yield 'save as HTML', lambda: r.save(page), page
    yield 'plot_roofline', lambda: plot_roofline(r, r.peaks), None

@call_parse
def main(
    rows:int=10_000, # of the large result
    rounds:int=3, # of each
):
    "Measure what views and files of large results cost"
    lines, slow = [], []
    with tempfile.TemporaryDirectory() as d:
        for n in (200, rows):
            r = result(n)
            for name,f,file in views(r, Path(d)):
                s = fastest(f, rounds)
                slow += [f'{name} of {n} rows takes {s:.2f} s'] if s>most else []
                lines.append([n, name, f'{s:.3f}', f'{file.stat().st_size/1e6:.2f}' if file else ''])
    table = tabulate(lines, headers=['rows', 'what', 's', 'MB'], disable_numparse=True, colalign=['right', 'left', 'right', 'right'])
    write_result('large_results', f'rows with 20 samples each; the fastest of {rounds} calls', table, 'plotly')
    if slow: raise SystemExit('\n'.join(slow))
