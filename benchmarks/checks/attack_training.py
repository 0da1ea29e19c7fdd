"""Models drawn from pieces with state, trained for ten steps after a profile, an estimate and a count, and without"""
import random
from functools import lru_cache

import torch
from torch import nn

from benchmarks.checks.attack_cases import Box
from benchmarks.checks.snapshots import Snapshot

@lru_cache
def waves(n, device): return torch.arange(n, device=device).float().cos()
shelf = {}

class Late(nn.Module):
    "A buffer made in the first forward"
    def forward(self, x):
        if not hasattr(self, 'table'): self.register_buffer('table', torch.linspace(1, 2, x.shape[-1], device=x.device))
        return x*self.table
class LateParameter(nn.Module):
    "An attribute made in the first forward, by what came"
    scale = None
    def forward(self, x):
        if self.scale is None: self.scale = 1/(1 + x.detach().abs().mean())
        return x*self.scale
class Cached(nn.Module):
    def forward(self, x): return x*waves(x.shape[-1], x.device)
class Shelved(nn.Module):
    def forward(self, x):
        if x.device not in shelf: shelf[x.device] = torch.full((x.shape[-1],), 0.5, device=x.device)
        return x*shelf[x.device]
class Helped(nn.Module):
    "A table and a count in an object"
    def __init__(self):
        super().__init__()
        self.helper = Box(table=None, calls=0)
    def forward(self, x):
        h = self.helper
        if h.table is None or h.table.device!=x.device: h.table = torch.ones(x.shape[-1], device=x.device)
        h.calls += 1
        return x*h.table/h.calls
class Average(nn.Module):
    "A running mean, updated in evaluation, too"
    def __init__(self):
        super().__init__()
        self.register_buffer('mean', torch.zeros(8))
    def forward(self, x):
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return x - self.mean.clone()
class Remembers(nn.Module):
    "The last activations, in a list"
    def __init__(self):
        super().__init__()
        self.last = []
    def forward(self, x):
        old = sum(t.mean() for t in self.last) if self.last and self.last[0].device==x.device else 0.
        self.last[:] = [*self.last[-1:], x.detach()]
        return x + old
class Unlisted(nn.Module):
    "Layers in a plain list, which no optimizer knows"
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.2)]
    def forward(self, x):
        for l in self.layers: x = l(x)
        return x
class Noise(nn.Module):
    "Random numbers of a generator of its own"
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(3)
    def forward(self, x): return x + 0.1*torch.randn(x.shape, generator=self.generator).to(x.device)
class Once(nn.Module):
    "Scales its weight once, in the first forward of a training"
    def __init__(self):
        super().__init__()
        self.lin, self.done = nn.Linear(8, 8), False
    def forward(self, x):
        if self.training and not self.done:
            with torch.no_grad(): self.lin.weight.mul_(0.5)
            self.done = True
        return self.lin(x)

def ordinary(): return nn.Linear(8, 8)
pieces = [ordinary, ordinary, lambda: nn.BatchNorm1d(8), lambda: nn.Dropout(0.3), lambda: nn.ReLU(inplace=True),
    lambda: nn.LayerNorm(8),
    lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8,
        8)), lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)),
    Late, LateParameter, Cached, Shelved, Helped, Average, Remembers, Unlisted, Noise, Once]

class Drawn(nn.Module):
    "Pieces one after the other; some linear layers share their weight"
    def __init__(self, draw):
        super().__init__()
        made = [draw.choice(pieces)() for _ in range(draw.randint(2, 6))]
        self.layers = nn.Sequential(nn.Linear(8, 8), *made, nn.Linear(8, 8))
        if draw.random()<0.3: self.layers[-1].weight = self.layers[0].weight
        for m in self.layers: m.training = draw.random()<0.7
    def forward(self, x): return self.layers(x)

def ten_steps(model, make_optimizer, x)->list[str]:
    "Losses, and all tensors afterwards"
    model.train()
    optimizer, losses = make_optimizer(model.parameters()), []
    for _ in range(10):
        optimizer.zero_grad()
        loss = model(x + torch.randn_like(x)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    seen = Snapshot(model=model).seen.values()
    return losses + [f'{path}: {said["bits"].hex()}' for path,said in seen if said.get('bits')]

def told(f)->list[str]:
    try: return f()
    except Exception as e: return [f'{type(e).__name__}: {e}'[:200]]

def drawn(seed):
    "A model, its sample and what makes its optimizer"
    draw = random.Random(seed)
    torch.manual_seed(seed); waves.cache_clear(); shelf.clear()
    model, x = Drawn(draw), torch.randn(5, 8)
    make = draw.choice([lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9), lambda ps: torch.optim.Adam(ps, lr=0.01)])
    if draw.random()<0.3: told(lambda: ten_steps(model, make, x))   # was trained before
    return model, x, make

def training_attempt(item, operations):
    twin, x, make = drawn(item[1])
    expected = told(lambda: ten_steps(twin, make, x))   # nothing was done to it
    (model, x, make), found = drawn(item[1]), []
    for name,op in operations.items():
        try: op(model, x)
        except Exception as e: found += [f'{name}: {type(e).__name__}: {e}'[:200]] if name!='estimate' else []
    got = told(lambda: ten_steps(model, make, x))
    different = [i for i,(a,b) in enumerate(zip(expected, got)) if a!=b]
    if len(got)!=len(expected): found.append(f'training: {len(got)} results, not {len(expected)}: {got[0]}'[:300])
    elif different: found.append(f'training: {len(different)} of {len(got)} different, first {got[different[0]]}'[:300])
    return found
