"""What does counting a forward cost?

In each round of one process, every tool counts the model once, after a plain forward; the rounds interleave, so that
all see the same machine, and each tool has a copy of the model to itself. One more round, unmeasured, comes first.
Times are of the whole call, with its printing silenced. Prints a table and writes it, with the device, the versions
and the load, to benchmarks/results/counting_cost.txt.

    python benchmarks/counting_cost.py [--rounds 7] [--models resnet50,swin_t]
"""
import io, logging, os, platform, time, warnings
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path
from statistics import median

import torch, torchinfo, torchvision
from calflops import calculate_flops
from fastcore.script import call_parse
from fvcore.nn import FlopCountAnalysis
from ptflops import get_model_complexity_info
from tabulate import tabulate
from torch.utils.flop_counter import FlopCounterMode

from fasterbench.core import device_name
from fasterbench.costs import count_costs, count_forward

shape = 1, 3, 224, 224
def plain(m, x): m(x)
def forward(m, x): return count_forward(m, (x,), {}).matmul_flops/2
def costs(m, x): return count_costs(m, x).matmul_flops/2
def flop_counter(m, x):
    with FlopCounterMode(display=False) as mode: m(x)
    return mode.get_total_flops()/2
def fvcore(m, x): return FlopCountAnalysis(m, x).total()
def summary(m, x): return torchinfo.summary(m, input_data=x, verbose=0).total_mult_adds
def ptflops(m, x): return get_model_complexity_info(m, shape[1:], as_strings=False, print_per_layer_stat=False, verbose=False)[0]
def calflops(m, x): return calculate_flops(m, input_shape=shape, print_results=False, output_as_string=False)[1]

tools = {'plain forward':plain, 'fasterbench count_forward':forward, 'fasterbench count_costs':costs, 'FlopCounterMode':flop_counter,
         'fvcore':fvcore, 'torchinfo':summary, 'ptflops':ptflops, 'calflops':calflops}

def timed(f, model, x):
    "Seconds of one call, and what it counted"
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), torch.inference_mode():
        start = time.perf_counter()
        macs = f(model, x)
        return time.perf_counter()-start, macs

def measure(name, rounds):
    "A line for each tool: median, fastest and slowest, ratio to the plain forward, what it counted"
    model, x = torchvision.models.get_model(name, weights=None).eval(), torch.randn(shape)
    copies = {n:deepcopy(model) for n in tools}
    times, macs = {n:[] for n in tools}, {}
    for i in range(rounds+1):
        for n,f in tools.items():
            t, macs[n] = timed(f, copies[n], x)
            if i: times[n].append(t)
    plains = times['plain forward']
    for n,ts in times.items():
        yield [name, n, f'{1e3*median(ts):.1f}', f'{1e3*min(ts):.1f}', f'{1e3*max(ts):.1f}', f'{median(ts)/median(plains):.2f}',
               f'{median(t/p for t,p in zip(ts, plains)):.2f}', '' if macs[n] is None else f'{macs[n]/1e9:.4f}']

headers = ['model', 'what', 'median ms', 'fastest', 'slowest', 'ratio of\nmedians', 'median of\nratios', 'GMAC\ncounted']

@call_parse
def main(
    rounds:int=7, # of every tool once
    models:str='resnet50,swin_t', # torchvision models
):
    "Measure what one count costs, beside a plain forward"
    logging.disable(logging.WARNING); warnings.simplefilter('ignore')
    before = os.getloadavg()[0]
    lines = [l for m in models.split(',') for l in measure(m, rounds)]
    packages = ', '.join(f'{p} {version(p)}' for p in 'torchvision fvcore torchinfo ptflops calflops'.split())
    text = (f"{device_name(torch.device('cpu'))}, {torch.get_num_threads()} threads; Python {platform.python_version()}, torch {torch.__version__}, {packages}\n"
            f"batch 1, 224 pixels, eval and inference mode, {rounds} interleaved rounds; load average {before:.1f} before, {os.getloadavg()[0]:.1f} after\n\n"
            + tabulate(lines, headers=headers, disable_numparse=True, colalign=['left', 'left', *['right']*6]) + '\n')
    print(text)
    (Path(__file__).parent/'results'/'counting_cost.txt').write_text(text)
