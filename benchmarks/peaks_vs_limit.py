"""Are the ceilings the machine's? `measure_peaks` in fresh processes, in turns with multiply-adds in registers, in C.

benchmarks/shared/fma.c is built with `gcc -O3 -march=native -fopenmp` and runs with the same number of threads, each on a
processor of its own. Of several instructions for a dtype the fastest counts.

    python -m benchmarks.peaks_vs_limit [--rounds 5]
"""
import json, os, statistics, subprocess, sys, tempfile

import torch
from fastcore.script import call_parse
from tabulate import tabulate

from fasterbench.operations import si
from benchmarks.shared.report import on_core, top, write_result

code = """
import json
from fasterbench.machine.peaks import measure_peaks
p = measure_peaks('cpu', dtype={dtypes})
print(json.dumps(dict(flops=p.compute_peaks, kernels=p.kernels, disturbed=p.disturbed, clock=p.clock_hz)))
"""

def limits(program):
    "FLOP/s of the fastest instruction in each dtype, and its name"
    env, best = dict(os.environ, OMP_NUM_THREADS=str(torch.get_num_threads()), OMP_PROC_BIND='true'), {}
    for l in subprocess.run([program, '0.5'], env=env, check=True, capture_output=True, text=True).stdout.splitlines():
        name, dtype, rate = l.split(',')
        best[dtype] = max((float(rate), name), best.get(dtype, (0., '')))
    return best

def measured(dtypes):
    "What `measure_peaks` says in a process of its own"
    run = subprocess.run([sys.executable, '-c', code.format(dtypes=dtypes)], check=True, capture_output=True, text=True)
    return json.loads(run.stdout.splitlines()[-1])

def rows(dtype, c, ours):
    "A line of each for one dtype"
    ratios = [p['flops'][dtype]/l[dtype][0] for l,p in zip(c, ours)]
    yield (f'{dtype}, C ({c[0][dtype][1]})', *(si(l[dtype][0], 'FLOP/s') for l in c), '')
    yield (f'{dtype}, measure_peaks', *(si(p['flops'][dtype], 'FLOP/s') for p in ours), '')
    yield ('ratio', *(f'{r:.3f}' for r in ratios), f'{statistics.median(ratios):.3f} (least {min(ratios):.3f})')
    yield ('', *(p['kernels'][dtype].split()[0] for p in ours), '')

@call_parse
def main(
    rounds:int=5, # of both, in turns
):
    "Hold the measured ceilings against the limit of the processor's arithmetic units"
    with tempfile.TemporaryDirectory() as d:
        program = f'{d}/fma'
        subprocess.run(['gcc', '-O3', '-march=native', '-fopenmp', str(top/'benchmarks'/'shared'/'fma.c'), '-o', program], check=True)
        c, ours, dtypes = [], [], [*limits(program)]
        for _ in range(rounds):
            c.append(limits(program))
            ours.append(measured(dtypes))
    table = [r for k in dtypes if all(k in p['flops'] for p in ours) for r in rows(k, c, ours)]
    table.append(('disturbed', *(p['disturbed'].removeprefix('others took ') or 'no' for p in ours), ''))
    what = 'measure_peaks in fresh processes and multiply-adds in registers (fma.c), in turns; ratio of the two'
    write_result(on_core('peaks_vs_limit'), what, tabulate(table, headers=['', *(f'round {i+1}' for i in range(rounds)), 'median'], disable_numparse=True,
        colalign=['left', *['right']*(rounds+1)]))
