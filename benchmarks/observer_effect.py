"""How much longer does a pass take while it is watched?

Watched by the marks of a profile, by global hooks that do nothing, by torch.profiler, and by
DeepSpeed's profiler where it is installed. Passes take turns in another order each round, each
after one that nobody watches; starting and ending a profiler is not in the time. A figure is the
median over rounds of watched / plain of the same round.

    python benchmarks/observer_effect.py [--rounds 25] [--models resnet50,swin_t]
"""
import importlib.util
from contextlib import contextmanager
from functools import partial
from statistics import median

import torch
import torch.nn.functional as F
from common import finish, image_model, in_turns, option_parser, read_options, spread
from torch.nn.modules.module import (register_module_forward_hook,
                                     register_module_forward_pre_hook)
from torch.profiler import ProfilerActivity, profile

from fasterbench.running.run import inference, training
from fasterbench.sources.timing import ModuleTimer

MODELS = 'resnet50,vit_b_16,swin_t,mobilenet_v3_small'


@contextmanager
def empty_hooks():
    """Hooks on all modules that do nothing."""
    with (register_module_forward_pre_hook(lambda module, args: None),
          register_module_forward_hook(lambda module, args, output: None)):
        yield


@contextmanager
def deepspeed_profiler(model):
    from deepspeed.profiling.flops_profiler import FlopsProfiler
    profiler = FlopsProfiler(model)
    profiler.start_profile()
    try: yield
    finally:
        profiler.stop_profile()
        profiler.end_profile()


def ways(run) -> dict:
    """Name → a function that gives the seconds of one pass."""
    timer = ModuleTimer(run)
    by_torch = partial(profile, activities=[ProfilerActivity.CPU])
    contexts = {'empty hooks': empty_hooks, 'torch.profiler': by_torch,
                'torch.profiler, stack': partial(by_torch, with_stack=True, record_shapes=True)}
    if importlib.util.find_spec('deepspeed') and run.kind == 'forward':
        contexts['DeepSpeed'] = partial(deepspeed_profiler, run.model)

    plain = timer.time_plain

    def watched(context):
        with context(): return plain()

    found = dict(plain=plain, fasterbench=lambda: timer.time()[0])
    found |= {name: partial(watched, context) for name, context in contexts.items()}

    def after_another(way):   # what one leaves behind does not fall to the next
        plain()
        return way()
    return {name: partial(after_another, way) for name, way in found.items()}


def rows_of(model: str, run, rounds: int) -> list[dict]:
    """A row for each way in which a run is watched."""
    times = in_turns(rounds, ways(run))
    plain, found = times.pop('plain'), []
    for name, watched in times.items():
        low, middle, high = (100*(ratio - 1) for ratio in
                             spread([a/b for a, b in zip(watched, plain)]))
        found.append({'model': model, 'pass': run.kind, 'modules': len([*run.model.modules()]),
                      'plain ms': 1e3*median(plain), 'watched by': name, 'adds %': middle,
                      'quartiles from': low, 'to': high})
    return found


def main():
    parser = option_parser(__doc__)
    parser.add_argument('--rounds', type=int, default=25)
    parser.add_argument('--models', default=MODELS)
    args = read_options(parser)
    rounds = 2 if args.quick else args.rounds
    models = ['mobilenet_v3_small'] if args.quick else args.models.split(',')
    rows = []
    for name in models:
        model, sample = image_model(name)
        with inference(model, sample) as run: rows += rows_of(name, run, rounds)
    name, batch, side = ('resnet18', 2, 64) if args.quick else ('resnet18', 8, 128)
    model, sample = image_model(name, batch, side)
    labels = torch.zeros(batch, dtype=torch.int64)
    with training(model.train(), sample, lambda out: F.cross_entropy(out, labels), 'adamw') as run:
        rows += rows_of(name, run, rounds)
    adds = {}
    for row in rows: adds.setdefault(row['watched by'], []).append(row['adds %'])
    figures = {f'{name}: adds %, least': min(values) for name, values in adds.items()}
    figures |= {f'{name}: adds %, most': max(values) for name, values in adds.items()}
    finish(args, __file__, __doc__, dict(passes=rows), figures | dict(rounds=rounds),
           ['torchvision', 'deepspeed'])


if __name__ == '__main__': main()
