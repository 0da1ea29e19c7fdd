"""Calls from where tensors stand for others, and first calls of what torch loads when it is needed

Inside of a transform or under a mode that traces, a profile, an estimate and a count are refused in words, and nothing is
changed. A higher-order or lazily loaded operation that is the first of its process is counted, is named as unknown, or the
reason why it can't be counted without data is said: never torch's own error, and never no FLOPs without a word.

    python -m benchmarks.checks.attack --only modes,cold
"""
import re, warnings

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from benchmarks.checks.attack_cases import peaks, victim
from benchmarks.checks.snapshots import Snapshot, differences

# --- where tensors stand for others ---
def inside(transform): return lambda f: transform(lambda x: (f(), x.sum())[1])(torch.ones(3))

def faked(f):
    with FakeTensorMode(allow_non_fake_inputs=True): f()

def batched(f): torch.vmap(lambda x: (f(), x)[1])(torch.ones(2, 3))
def forward_mode(f): torch.func.jvp(lambda x: (f(), x*2)[1], (torch.ones(3),), (torch.ones(3),))

modes = dict(fake=faked, vmap=batched, jvp=forward_mode, **{k: inside(getattr(torch.func, k)) for k in ('grad', 'functionalize')},
    traced=inside(make_fx))

def mode_attempt(item, operations):
    "What is not as it was, or not refused"
    op, name = item
    model, sample = victim()
    before, said = Snapshot(model=model, sample=sample), None
    def call():
        nonlocal said
        try: operations[op](model, sample)
        except Exception as e: said = f'{type(e).__name__}: {e}'
    modes[name](call)
    found = differences(before, Snapshot(model=model, sample=sample))
    return found + ([] if said and 'call it outside' in said else [f'it is not refused in words: {said}'])

# --- the first calls of a process ---
class Cold(nn.Module):
    "A layer, and an operation behind it that nothing has used before"
    def __init__(self, act):
        super().__init__()
        self.lin, self.act = nn.Linear(16, 16), act
    def forward(self, x): return self.act(self.lin(x))

def heads(x): return x.view(2, 1, 4, 4)

def flex(x):
    from torch.nn.attention.flex_attention import flex_attention
    return flex_attention(heads(x), heads(x), heads(x), score_mod=lambda s, b, h, i, j: s + i - j)

def loop(x):
    from torch._higher_order_ops.while_loop import while_loop
    return x + while_loop(lambda i, y: i<3, lambda i, y: (i + 1, y.sin()), (torch.tensor(0), x))[1]

def mapped(x):
    from torch._higher_order_ops.map import map
    return map(lambda a, w: a.sin()*w, x, torch.ones(16))

def associative(x):
    from torch._higher_order_ops.associative_scan import associative_scan
    return associative_scan(lambda a, b: a + b, x, 0, combine_mode='generic')

def scanned(x):
    from torch._higher_order_ops.scan import scan
    return scan(lambda c, y: (c + y, c*y), torch.zeros(16), x)[1]

def branched(x): return torch.cond(x.sum()>0, lambda x: x @ x.T, lambda x: x.sin() @ x.T, (x,))
def derived(x): return torch.func.vmap(torch.func.grad(lambda y: y.sin().sum()))(x)
def region(x): return torch.compiler.nested_compile_region(lambda y: y @ y.T)(x)
def compiled(x): return torch.compile(lambda y: y @ y.T, backend='aot_eager')(x)
def onednn(x): return x.to_mkldnn().relu().to_dense()
def jagged(x): return torch.nested.as_nested_tensor([x[0][None], x[:1].repeat(2, 1)], layout=torch.jagged).sin().values()

colds = dict(flex=flex, loop=loop, map=mapped, associative=associative, scan=scanned, cond=branched, vmap=derived, region=region,
    compiled=compiled, onednn=onednn, jagged=jagged)
excused = r'without data|depends on values|backward on CPU' # an estimate of what only a run tells; what torch has no gradient for

def cold_attempt(item, operations):
    "What is wrong with a first call, in a process of its own"
    op, name = item
    model, sample = Cold(colds[name]).eval(), torch.randn(2, 16)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter('always')
        try: done = operations[op](model, sample)
        except Exception as e: return [] if re.search(excused, str(e)) else [f'raises {type(e).__name__}: {e}'[:300]]
    flops = done.flops if hasattr(done, 'flops') else sum(r.flops for r in done)
    if flops>2*2*16*16 or any('no cost is known' in str(w.message) for w in told): return []
    return [f'{flops} FLOP, which is the layer alone, and no word']
