"""Is the peak bandwidth the peak, and why does it vary? `measure_peaks` and its kernels beside STREAM in C, in turns.

STREAM's four kernels and a copy with non-temporal stores (benchmarks/shared/stream.c) are built with
`gcc -O3 -march=native -fopenmp` and run with the same threads over the same working set as the kernels here.

With `--causes` fresh processes go through rounds; in each round every kernel, with other buffers, pages and working sets,
runs once, in random order, within about a second, and the kernels in C run for as long. What varies from round to round
while the ratios within a round stay is the machine's doing; a variant whose ratio to the others varies, or is low, is the
probe's. The tables go to benchmarks/results/peaks_vs_stream_<core>.txt and bandwidth_causes_<core>.txt.

    python -m benchmarks.peaks_vs_stream [--rounds 5]
    python -m benchmarks.peaks_vs_stream --causes [--processes 8] [--rounds 6]
"""
import json, subprocess
from functools import partial
from statistics import median

import torch
from fastcore.script import call_parse, store_true

from fasterbench.operations import si
from fasterbench.machine.kernels import Memory, probe_rates, probes
from fasterbench.machine.peaks import measure_peaks
from benchmarks.shared.report import on_core, write_result
from benchmarks.shared.runs import built, in_process, in_turns, lines_of
from scripts.evidence import table

def stream(program, nbytes, times):
    "Byte/s of each kernel in C over `nbytes` bytes in three arrays"
    return {k: float(v) for k,v in lines_of(program, nbytes//24, times)}

# is it the peak?

def compare(rounds):
    ours, theirs = [], []
    with built('stream.c', '-lm') as program:
        for _ in range(rounds):
            ours.append(measure_peaks('cpu', matmul_size=64, cache=False))
            theirs.append(stream(program, ours[-1].working_set, 10))
    gcc = subprocess.run(['gcc', '-dumpfullversion'], check=True, capture_output=True, text=True).stdout.strip()
    rows = [(f'fasterbench {k}', *(si(p.bandwidths[k], 'B/s') for p in ours)) for k in ours[0].bandwidths]
    rows += [(f'C {k}', *(si(t[k], 'B/s') for t in theirs)) for k in theirs[0]]
    ratios = [p.peak_bandwidth/max(t.values()) for p,t in zip(ours, theirs)]
    rows += [('working set', *(si(p.working_set, 'B') for p in ours)), ("peak / C's best kernel", *(f'{r:.2f}' for r in ratios))]
    what = f"gcc {gcc}; peak_bandwidth is {median(ratios):.2f} times the best kernel in C (median; least {min(ratios):.2f})"
    found = table(rows, ['', *(f'round {i+1}' for i in range(rounds))], colalign=['left', *['right']*rounds])
    write_result(on_core('peaks_vs_stream'), what, found, figures=dict(rounds=rounds, median=median(ratios), least=min(ratios)))

# why does it vary?

size, unit = 2**29, 2**25   # bytes of the working set, and of one of its buffers
ref = f'update, {size//unit} buffers in huge pages'

class UsualPages(Memory):
    "The same in pages of 4 KiB, as torch gets them"
    def _buffer(self): return self.fill(torch.empty(self.unit//4))

def variants():
    "name → the kernel and the buffers that it goes through"
    cpu = torch.device('cpu')
    many, one, usual = Memory(cpu, unit).grow(size), Memory(cpu, size).grow(size), UsualPages(cpu, unit).grow(size)
    res = {f'{k}, {len(many.bufs)} buffers in huge pages': (k, many.bufs) for k in probes}
    res |= {'update, 1 buffer': ('update', one.bufs), 'update, usual pages': ('update', usual.bufs)}
    return res | {'update, half of it': ('update', many.bufs[:len(many.bufs)//2]), 'update, a quarter of it': ('update', many.bufs[:len(many.bufs)//4])}

def one_process(program, rounds):
    "One line of JSON for each round: name → byte/s"
    todo = variants()
    for _ in range(rounds):
        rates = in_turns(1, **{n: partial(probe_rates, probes[k], bufs, seconds=0.04, least=2) for n,(k,bufs) in todo.items()})
        in_c = {f'C: {k}': v for k,v in stream(program, size, 5).items()}
        print(json.dumps({n: max(r) for n,(r,) in rates.items()} | in_c), flush=True)

def causes_table(rounds):
    "A row for each variant: its rate, and its ratio to the first kind of update in the same round"
    def row(n):
        rates, ratios = sorted(r[n]/1e9 for r in rounds), sorted(r[n]/r[ref] for r in rounds)
        return (n, *(f'{v:.1f}' for v in (median(rates), rates[0], rates[-1])), *(f'{v:.2f}' for v in (median(ratios), ratios[len(ratios)//10], ratios[-1-len(ratios)//10])))
    return table([row(n) for n in rounds[0]], ['', 'GB/s', 'lowest', 'highest', 'of update', '10 %', '90 %'], disable_numparse=True, colalign=['left', *['right']*6])

def factors(rounds):
    "By which factor each varies: the update's rate, that of the best kernel in C, and the middle of their ratios"
    spread = lambda values: max(values)/min(values)
    best_c = [max(v for k,v in r.items() if k.startswith('C: ')) for r in rounds]
    ratios = sorted(c/r[ref] for c,r in zip(best_c, rounds))
    ratios = ratios[len(ratios)//10:len(ratios)-len(ratios)//10]
    return dict(update=spread([r[ref] for r in rounds]), c=spread(best_c), ratios=spread(ratios))

def find_causes(processes, rounds):
    with built('stream.c', '-lm') as program:
        got = [o for _ in range(processes) for o in in_process('-m', 'benchmarks.peaks_vs_stream', '--rounds', rounds, '--worker', program)]
    by = factors(got)
    what = (f"{processes} fresh processes, {rounds} rounds each; over {len(got)} rounds the update's rate varies by a factor of {by['update']:.2f}, "
        f"that of C's best kernel by {by['c']:.2f}; the middle 80 % of their ratios lie within a factor of {by['ratios']:.2f}")
    write_result(on_core('bandwidth_causes'), what, causes_table(got), figures=dict(rounds=len(got), factors=by))

@call_parse
def main(
    rounds:int=0, # of both, in turns (default: 5), or in each process (default: 6)
    causes:store_true=False, # find out what the bandwidth depends on
    processes:int=8, # with --causes, one after the other
    worker:str='', # internal: be one of these processes, with this program in C
):
    "Hold the measured bandwidth against STREAM's"
    if worker: one_process(worker, rounds)
    elif causes: find_causes(processes, rounds or 6)
    else: compare(rounds or 5)
