"""Why does the measured bandwidth vary? Kernels, buffers, pages and working sets in turns, beside STREAM in C.

Fresh processes go through rounds; in each round every variant runs once, in random order, within about a second, and
STREAM's kernels in C (stream.c) run for as long. What varies from round to round while the ratios within a round stay is
the machine's doing; a variant whose ratio to the others varies, or is low, is the probe's.

    python benchmarks/bandwidth_causes.py [--processes 8] [--rounds 6]
"""
import json, os, random, statistics, subprocess, sys, tempfile

import torch
from fastcore.script import call_parse
from tabulate import tabulate

from fasterbench.bandwidth import Memory, probe_rates, probes
from report import here, on_core, write_result

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

def in_c(program, threads):
    "Byte/s of STREAM's kernels over as many bytes"
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    run = subprocess.run([program, str(size//24), '5'], env=env, check=True, capture_output=True, text=True)
    return {f'C: {k}': float(v) for k,v in (l.split(',') for l in run.stdout.splitlines())}

def one_process(program, rounds):
    "One line of JSON for each round: name → byte/s"
    todo = variants()
    for _ in range(rounds):
        order = random.sample([*todo], len(todo))
        got = {n: max(probe_rates(probes[todo[n][0]], todo[n][1], seconds=0.04, least=2)) for n in order}
        print(json.dumps({n: got[n] for n in todo} | in_c(program, torch.get_num_threads())), flush=True)

def table(rounds):
    "A row for each variant: its rate, and its ratio to the first kind of update in the same round"
    def row(n):
        rates, ratios = sorted(r[n]/1e9 for r in rounds), sorted(r[n]/r[ref] for r in rounds)
        return (n, *(f'{v:.1f}' for v in (statistics.median(rates), rates[0], rates[-1])), *(f'{v:.2f}' for v in (statistics.median(ratios), ratios[len(ratios)//10], ratios[-1-len(ratios)//10])))
    return tabulate([row(n) for n in rounds[0]], headers=['', 'GB/s', 'lowest', 'highest', 'of update', '10 %', '90 %'], disable_numparse=True, colalign=['left', *['right']*6])

def said(rounds):
    "What varies, in a sentence"
    spread = lambda values: max(values)/min(values)
    best_c = [max(v for k,v in r.items() if k.startswith('C: ')) for r in rounds]
    ratios = sorted(c/r[ref] for c,r in zip(best_c, rounds))
    ratios = ratios[len(ratios)//10:len(ratios)-len(ratios)//10]
    return (f"over {len(rounds)} rounds the update's rate varies by a factor of {spread([r[ref] for r in rounds]):.2f}, that of C's best kernel by {spread(best_c):.2f}; "
            f"the middle 80 % of their ratios lie within a factor of {spread(ratios):.2f}")

@call_parse
def main(
    processes:int=8, # one after the other
    rounds:int=6, # in each of them
    worker:str='', # internal: be one of these processes, with this program in C
):
    "Find out what the measured bandwidth depends on"
    if worker: return one_process(worker, rounds)
    with tempfile.TemporaryDirectory() as d:
        program = f'{d}/stream'
        subprocess.run(['gcc', '-O3', '-march=native', '-fopenmp', str(here/'stream.c'), '-o', program, '-lm'], check=True)
        call, got = [sys.executable, __file__, '--rounds', str(rounds), '--worker', program], []
        for _ in range(processes): got += [json.loads(l) for l in subprocess.run(call, check=True, capture_output=True, text=True).stdout.splitlines()]
    what = f'{processes} fresh processes, {rounds} rounds each; {said(got)}'
    write_result(on_core('bandwidth_causes'), what, table(got))
