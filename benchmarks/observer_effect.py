"""How much longer does a forward take while it is watched: by fasterbench, torch.profiler, DeepSpeed, or hooks that do nothing?

Forwards under each are run in turns, in another order every time, and before each forward that is timed there is one
more, under nothing, that is not: so what one of them leaves behind does not fall to the next. A line holds the medians
of their ratios to the plain forward of the same turn. DeepSpeed is left out where it is not installed. Prints a table and writes it, with the device and the
versions, to benchmarks/results/observer_effect.txt.

    python -m benchmarks.observer_effect [--rounds 15] [--models resnet50,swin_t]
"""
import importlib.util
from contextlib import contextmanager, nullcontext
from functools import partial
from statistics import median, quantiles

import torch
from fastcore.script import call_parse
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from fasterbench.session.program import undisturbed
from fasterbench.sources.observe import Observer
from benchmarks.shared.models import image
from benchmarks.shared.report import write_result
from benchmarks.shared.runs import in_turns
from scripts.evidence import table

cpu = torch.device('cpu')

@contextmanager
def empty_hooks():
    with register_module_forward_pre_hook(lambda m, args: None), register_module_forward_hook(lambda m, args, out: None): yield

@contextmanager
def deepspeed_profiler(model):
    from deepspeed.profiling.flops_profiler import FlopsProfiler
    p = FlopsProfiler(model)
    p.start_profile()
    try: yield
    finally: p.stop_profile(); p.end_profile()

def torch_profiler(**kw): return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **kw)

def watchers(model, observer):
    "Contexts by name"
    res = {'fasterbench': lambda: observer.marks, 'empty global\nhooks': empty_hooks, 'torch.profiler': torch_profiler,
           'torch.profiler\nmodules, FLOPs': lambda: torch_profiler(with_modules=True, with_flops=True)}
    if importlib.util.find_spec('deepspeed'): res['DeepSpeed'] = lambda: deepspeed_profiler(model)
    return res

def seconds(observer, watcher):
    "One forward, after one under nothing; starting and ending the watching, and what is made of it, is not in it"
    observer.forward()
    with watcher(): return observer.forward()

def line(name, rounds):
    model, sample = image(name)
    with undisturbed(model, sample, cpu) as run:
        o = Observer(model, run, cpu)
        with o.marks: o.forward(); calls = len(o.calls)
        for _ in range(5): o.forward()
        watch = dict(plain=nullcontext, **watchers(model, o))
        took = in_turns(rounds, **{k: partial(seconds, o, w) for k,w in watch.items()})
    plain = took.pop('plain')
    def cell(times):
        r = [s/p for s,p in zip(times, plain)]
        q = [100*(v-1) for v in quantiles(r, method='inclusive')]
        return f'{100*(median(r)-1):+.1f} ({q[0]:+.1f} … {q[2]:+.1f})'
    return dict(model=name, **{'module\ncalls': calls, 'plain\nms': f'{1e3*median(plain):.1f}'}, **{k:cell(times) for k,times in took.items()})

@call_parse
def main(
    rounds:int=15, # turns
    models:str='resnet50,vit_b_16,swin_t,mobilenet_v3_small', # torchvision models
):
    "Measure what watching adds to a forward, in percent"
    rows = [line(m, rounds) for m in models.split(',')]
    what = f'batch 1, 224 pixels, eval and inference mode; percent that a forward takes longer than the plain one of the same turn: median of {rounds} turns (quartiles)'
    write_result('observer_effect', what, table(rows, 'keys', disable_numparse=True, stralign='right'), 'torchvision',
        *['deepspeed']*('DeepSpeed' in rows[0]), figures=dict(turns=rounds, models=len(rows)))
