"""Do calls of `measure_peaks` agree, and how long does one take? Fresh processes, one after the other.

    python -m benchmarks.peaks_repeat [--processes 10] [--device cpu]
"""
import statistics

from fastcore.script import call_parse

from fasterbench.base.core import resolve_device
from benchmarks.shared.report import on_core, write_result
from benchmarks.shared.runs import in_process
from scripts.evidence import table

code = """
import json, time
import fasterbench.machine.peaks as P, torch
if '{device}'!='cpu': torch.zeros(1, device='{device}')   # starting the device is not measuring it
start = time.perf_counter()
p = P.measure_peaks('{device}', {how})
print(json.dumps(dict(seconds=time.perf_counter()-start, flops=p.peak_flops, bandwidth=p.peak_bandwidth, disturbed=bool(p.disturbed))))
"""
ways = {'float32': ('', 1), 'bfloat16': ("dtype='bfloat16'", 1), 'all dtypes, hierarchy': ("dtype='all', hierarchy=True", 3)} # arguments; every which process

def call(device, how): return in_process('-c', code.format(device=device, how=how))[-1]

def row(name, got):
    seconds, flops, bandwidth = ([c[k] for c in got] for k in ('seconds', 'flops', 'bandwidth'))
    def between(v): return f'{min(v)/1e9:.1f} to {max(v)/1e9:.1f}', f'{100*(1-min(v)/max(v)):.1f} %'
    return (name, len(got), f'{statistics.median(seconds):.2f} s', f'{max(seconds):.2f} s', *between(flops), *between(bandwidth), sum(c['disturbed'] for c in got))

@call_parse
def main(
    processes:int=10, # fresh ones; a third of that with all dtypes
    device:str='cpu', # cpu, cuda, …
):
    "Hold calls in fresh processes against each other"
    kind = resolve_device(device).type
    rows = [row(name, [call(device, how) for _ in range(processes//part)]) for name,(how,part) in ways.items()]
    heads = ['measure_peaks', 'calls', 'median', 'longest', 'GFLOP/s', 'apart', 'GB/s', 'apart', 'disturbed']
    found = table(rows, heads, disable_numparse=True, colalign=['left', *['right']*8])
    name = on_core('peaks_repeat') if kind=='cpu' else f'peaks_repeat_{kind}'
    write_result(name, 'calls in fresh processes, one after the other', found, figures=dict(calls=processes))
