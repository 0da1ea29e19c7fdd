"""Is what a training step holds counted as the CPU's allocator hands it out?

torch's profiler notes each piece of memory that the allocator hands out and takes back. Replayed, that gives the bytes that
are held at any moment, also inside of kernels, which a dispatch mode doesn't see. Held against it are the footprint's peak and
its three boundaries, for whole steps of models under two optimizers. What a kernel takes and gives back while it runs is named
with its size. Writes benchmarks/results/footprints.txt.

    python -m benchmarks.footprints
"""
import os
os.environ.setdefault('KINETO_LOG_LEVEL', '99')
from bisect import bisect_right
from collections import Counter
from contextlib import nullcontext
from itertools import accumulate

import torch, torch.nn.functional as F
from fastcore.script import call_parse
from torch import nn
from torch.profiler import profile, record_function
from torch.utils.checkpoint import checkpoint

from fasterbench.base.core import call_args
from fasterbench.operations import si
from fasterbench.counting.utilization import step_footprint, boundaries
from benchmarks.shared.models import classified, language
from benchmarks.shared.report import quiet, write_result
from scripts.evidence import table

last_parts = dict(forward='loss', backward='backward', optimizer='optimizer')   # phase → the part that ends it

def language_model():
    "A small GPT-2, its tokens, which are its labels too"
    model, sample, _ = language('GPT2LMHeadModel', 4, 256, vocab_size=2000, n_positions=256, n_embd=256, n_layer=4, n_head=4)
    return model, dict(sample, use_cache=False), lambda out: out.loss

def perceptron():
    labels = torch.arange(4096) % 10
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return model, torch.randn(4096, 256), lambda out: F.cross_entropy(out, labels)

class Again(nn.Module):
    "An encoder whose layers are computed again in the backward"
    def __init__(self):
        super().__init__()
        self.first, self.layers = nn.Linear(256, 256), nn.ModuleList(self.layer() for _ in range(4))
    def layer(self): return nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    def forward(self, x):
        x = self.first(x)
        for layer in self.layers: x = checkpoint(layer, x, use_reentrant=False)
        return x

def squared(model, sample): return model, sample, lambda out: (out[0] if isinstance(out, tuple) else out).square().mean()

def models():
    "Name → function that makes a model, its sample and its loss"
    yield 'MLP, 4096 rows', perceptron
    yield 'ResNet-18, 16 images of 128²', lambda: classified('resnet18', 16, 128)
    yield 'ResNet-50, 16 images of 128²', lambda: classified('resnet50', 16, 128)
    yield 'GPT-2 of 4 layers, 4×256 tokens', language_model
    yield 'encoder, computed again, 4×256', lambda: squared(Again(), torch.randn(4, 256, 256))
    yield 'LSTM of 2 layers, 64 of 50 steps', lambda: squared(nn.LSTM(128, 128, 2), torch.randn(50, 64, 128))

optimizers = {'SGD, momentum': lambda ps: torch.optim.SGD(ps, 1e-3, momentum=0.9), 'AdamW': lambda ps: torch.optim.AdamW(ps, 1e-3)}

def plain_step(model, sample, loss, optimizer):
    "The simplest training step"
    args, kwargs = call_args(sample)
    def make(part):
        with part('forward'): out = model(*args, **kwargs)
        with part('loss'): out = loss(out)
        with part('backward'): out.backward()
        with part('optimizer'): optimizer.step()
        with part('free'): optimizer.zero_grad()
    return make

class Replay:
    "What the allocator held during a step"
    def __init__(self, make, start): # start: bytes that are held before
        with profile(profile_memory=True) as p: make(lambda name: record_function(f'part {name}'))
        self.events, self.ends, self.operators = [], {}, {}   # (time, address, bytes, operator)
        for e in p.profiler.kineto_results.experimental_event_tree(): self.walk(e, [])
        self.events.sort(key=lambda e: e[0])
        self.times = [t for t,*_ in self.events]
        self.held = list(accumulate((n for _,_,n,_ in self.events), initial=start))
        self.peak = max(self.held)
    def walk(self, event, above):
        if event.name.startswith('part '): self.ends[event.name.removeprefix('part ')] = event.end_time_ns
        if event.name=='[memory]':
            self.events.append((event.start_time_ns, event.extra_fields.ptr, event.extra_fields.alloc_size, [*above]))
        for c in event.children: self.walk(c, [*above, (event.id, event.name)])
    def at_end(self, part): return self.held[bisect_right(self.times, self.ends[part])]
    def workspaces(self):
        "Memory held at the peak that an operation both took and gave back: operation → bytes"
        top, taken, res = self.held.index(self.peak), {}, Counter()
        for i,(_,address,n,above) in enumerate(self.events):
            if n>0: taken[address] = i, n, above
            elif address in taken:
                start, n, inside = taken.pop(address)
                within = {o for o,_ in inside} & {o for o,_ in above}
                both = [name for o,name in inside if o in within and name.startswith('aten::')]
                if both and start<top<=i: res[both[-1]] += n
        return res

def compared(name, build, kind):
    "A row of the table, and what kernels took and gave back"
    torch.manual_seed(0)
    model, sample, loss = build()
    optimizer = optimizers[kind](model.parameters())
    make = plain_step(model, sample, loss, optimizer)
    for _ in range(2): make(lambda part: nullcontext())
    counted = step_footprint(model, make, optimizer, sample=sample)
    replay = Replay(make, counted.parameters + counted.buffers + counted.inputs + counted.live['forward']['optimizer'])
    def share(n, known): return f'{100*(n/known - 1):+.3f} %'
    ends = [share(counted.total(p), replay.at_end(last_parts[p])) for p in boundaries]
    row = [name, kind, si(replay.peak, 'B'), counted.peak_phase, share(counted.peak, replay.peak), *ends]
    held = ', '.join(f'{si(n, "B", 4)} of {o}' for o,n in replay.workspaces().items())
    return row, f"{name}, {kind}: {si(replay.peak - counted.peak, 'B', 4)} less, " \
        f"{si(replay.at_end('loss') - counted.total('forward'), 'B', 4)} after the forward; {held or 'no workspace'}"

@call_parse
def main():
    "Hold what a step holds, as it is counted, against what the allocator handed out"
    quiet()
    torch.set_num_threads(1)
    found = [compared(name, build, kind) for name,build in models() for kind in optimizers]
    heads = ['model', 'optimizer', 'allocator: peak', 'in the', 'counted: peak', *boundaries.values()]
    lines = ["How much less is counted at the allocator's peak and after the forward, and what an operation holds at that peak and gives",
        'back before it ends: convolutions hold their weights in another layout (3·3·512·512 numbers are 9.437 MB), the LSTM a',
        'workspace. After the forward it is states of random generators that a checkpoint keeps (5056 B each), and numbers that',
        'autograd keeps as tensors (8 B each), which no operation makes.', '',
        *(text for _,text in found)]
    parts = [table([r for r,_ in found], heads, disable_numparse=True), '\n'.join(lines)]
    write_result('footprints', 'What a step holds, counted, against the allocator that handed it out', parts, 'torchvision', 'transformers')
