"""Do two calls of `measure_peaks` agree, and how long does one take? Pairs of fresh processes, one after the other.

    python benchmarks/peaks_repeat.py [--pairs 5]
"""
import json, platform, statistics, subprocess, sys
from pathlib import Path

import torch
from fastcore.script import call_parse
from tabulate import tabulate

from fasterbench.core import device_name, resolve_device

code = """
import json, sys, time
import fasterbench.peaks as P, torch
if '{device}'!='cpu': torch.zeros(1, device='{device}')   # starting the device is not measuring it
start = time.perf_counter()
p = P.measure_peaks('{device}', {how})
print(json.dumps(dict(seconds=time.perf_counter()-start, flops=p.peak_flops, bandwidth=p.peak_bandwidth)))
"""
ways = {'float32': '', 'bfloat16': "dtype='bfloat16'", 'all dtypes, hierarchy': "dtype='all', hierarchy=True"}

def call(device, how): return json.loads(subprocess.run([sys.executable, '-c', code.format(device=device, how=how)], check=True, capture_output=True, text=True).stdout.splitlines()[-1])

def apart(a, b): return 100*abs(a-b)/max(a, b)

@call_parse
def main(
    pairs:int=5, # of processes, for each way of calling
    device:str='cpu', # cpu, cuda, …
):
    "Hold calls in fresh processes against each other"
    dev, rows = resolve_device(device), []
    for name,how in ways.items():
        got = [(call(device, how), call(device, how)) for _ in range(pairs)]
        seconds = [c['seconds'] for pair in got for c in pair]
        differ = {k: statistics.median(apart(a[k], b[k]) for a,b in got) for k in ('flops', 'bandwidth')}
        rows.append((name, f'{statistics.median(seconds):.2f} s', f'{max(seconds):.2f} s', f"{differ['flops']:.1f} %", f"{differ['bandwidth']:.1f} %"))
    text = '\n'.join([f'{device_name(dev)}, {torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}; {pairs} pairs of fresh processes',
        tabulate(rows, headers=['measure_peaks', 'time (median)', 'time (longest)', 'peak_flops apart (median)', 'peak_bandwidth apart (median)'], colalign=['left', *['right']*4])])
    print(text)
    (Path(__file__).parent/'results'/('peaks_repeat.txt' if dev.type=='cpu' else f'peaks_repeat_{dev.type}.txt')).write_text(text+'\n')
