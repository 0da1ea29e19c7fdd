"""Is the peak bandwidth the peak? `measure_peaks` beside STREAM in C, in turns within one run.

STREAM's four kernels and a copy with non-temporal stores (benchmarks/stream.c) are built with
`gcc -O3 -march=native -fopenmp` and run with the same threads over the same working set as the kernels here.

    python benchmarks/peaks_vs_stream.py [--rounds 5]
"""
import os, statistics, subprocess, tempfile

import torch
from fastcore.script import call_parse
from tabulate import tabulate

from fasterbench.operations import si
from fasterbench.peaks import measure_peaks
from report import here, on_core, write_result

def stream(program, nbytes, threads):
    "Byte/s of each kernel in C over `nbytes` bytes in three arrays"
    run = subprocess.run([program, str(nbytes//24), '10'], env=dict(os.environ, OMP_NUM_THREADS=str(threads)), check=True, capture_output=True, text=True)
    return {k: float(v) for k,v in (l.split(',') for l in run.stdout.split('\n') if l)}

@call_parse
def main(
    rounds:int=5, # of both, in turns
):
    "Hold the measured bandwidth against STREAM's"
    threads, ours, theirs = torch.get_num_threads(), [], []
    with tempfile.TemporaryDirectory() as d:
        program = f'{d}/stream'
        subprocess.run(['gcc', '-O3', '-march=native', '-fopenmp', str(here/'stream.c'), '-o', program, '-lm'], check=True)
        for _ in range(rounds):
            ours.append(measure_peaks('cpu', matmul_size=64, cache=False))
            theirs.append(stream(program, ours[-1].working_set, threads))
    gcc = subprocess.run(['gcc', '-dumpfullversion'], check=True, capture_output=True, text=True).stdout.strip()
    rows = [(f'fasterbench {k}', *(si(p.bandwidths[k], 'B/s') for p in ours)) for k in ours[0].bandwidths]
    rows += [(f'C {k}', *(si(t[k], 'B/s') for t in theirs)) for k in theirs[0]]
    ratios = [p.peak_bandwidth/max(t.values()) for p,t in zip(ours, theirs)]
    rows += [('working set', *(si(p.working_set, 'B') for p in ours)), ("peak / C's best kernel", *(f'{r:.2f}' for r in ratios))]
    what = f"gcc {gcc}; peak_bandwidth is {statistics.median(ratios):.2f} times the best kernel in C (median; least {min(ratios):.2f})"
    table = tabulate(rows, headers=['', *(f'round {i+1}' for i in range(rounds))], colalign=['left', *['right']*rounds])
    write_result(on_core('peaks_vs_stream'), what, table)
