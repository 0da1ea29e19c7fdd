"""What do training steps leave behind in a model, its optimizer, a scaler and a scheduler, bit for bit?

Eight optimizers, each one parameter after the other, several at a time and in one fused kernel where torch has these
forms, fifty times each. Drawn each time: a small network with running statistics, dropout, and perhaps a frozen
parameter and hooks; steps that were made before; clipping, a scaler, autocast, a scheduler; and how the steps end: by
themselves, by an error in one of their operations, or by an interrupt in a forward, in a backward or in the optimizer.
All that can be reached, bit for bit, is read by benchmarks/checks/snapshots.py before and afterwards. Then ten steps of
training follow, whose losses are held against those of a twin that nothing was done to. Prints the table and writes
it, with the device and the versions, to benchmarks/results/training_state.txt. The exit code is 1 if anything differs.

    python -m benchmarks.checks.training_state [--only AdamW] [--n 50]
"""
import inspect, random, signal, sys
from collections import Counter
from contextlib import nullcontext

import numpy as np, torch, torch.nn.functional as F
from fastcore.script import call_parse
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from fasterbench.session.program import training
from benchmarks.checks.snapshots import Snapshot, differences
from benchmarks.shared.report import chosen, write_result
from scripts.evidence import part_text, table

optimizers = { # name → options
    'SGD': {}, 'SGD with momentum': dict(momentum=0.9, nesterov=True), 'Adam': dict(amsgrad=True), 'AdamW': {},
    'Adafactor': {}, 'RMSprop': dict(centered=True, momentum=0.9), 'Adagrad': {}, 'Muon': {},
}
forms = {'one by one': dict(foreach=False), 'several at a time': dict(foreach=True), 'fused': dict(fused=True)}

def made(name, form, parameters):
    "An optimizer; `None`: torch has none like it"
    cls = getattr(torch.optim, name.split()[0], None)
    if cls is None: return
    takes, options = inspect.signature(cls).parameters, forms[form]
    if form!='one by one' and not takes.keys()>=options.keys(): return
    ps = [p for p in parameters if name!='Muon' or p.dim()==2]
    return cls(ps, lr=0.01, **optimizers[name], **{k:v for k,v in options.items() if k in takes})

class Net(nn.Module):
    def __init__(self, draw):
        super().__init__()
        n = draw.choice([8, 16, 33])
        self.first, self.last = nn.Linear(8, n), nn.Linear(n, 10)
        self.norm, self.drop = nn.BatchNorm1d(n), nn.Dropout(0.3)
        self.seen, self.calls, self.noise = [], 0, torch.Generator().manual_seed(1)
    def forward(self, x):
        self.calls += 1
        self.seen.append(x.detach().sum())
        x = self.norm(self.first(x + 0.1*torch.randn(x.shape, generator=self.noise))).relu()
        return self.last(self.drop(x))

strikes = {}   # where → calls until a signal comes

def strike(where):
    if where not in strikes: return
    strikes[where] -= 1
    if strikes[where]==0: signal.raise_signal(signal.SIGINT)

def watch(net, optimizer):
    "Signals may come from here"
    net.norm.register_forward_hook(lambda *args: strike('a forward'))
    net.last.weight.register_hook(lambda grad: strike('a backward'))
    optimizer.register_step_pre_hook(lambda *args: strike('the optimizer'))

class Training:
    "One network in training, as a seed draws it"
    def __init__(self, name, form, seed):
        draw = random.Random(f'{name} {form} {seed}')
        torch.manual_seed(seed)
        self.net, self.x, self.y = Net(draw), torch.randn(6, 8), torch.randint(10, (6,))
        for p in (self.net.first.bias, self.net.norm.weight): p.requires_grad_(draw.random()<0.7)
        self.optimizer = made(name, form, self.net.parameters())
        watch(self.net, self.optimizer)
        self.scaler = torch.amp.GradScaler('cpu', init_scale=2.**8, growth_interval=2) if draw.random()<0.4 else None
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2) if draw.random()<0.5 else None
        self.clip, self.autocast = draw.choice([None, 1., 1e-3]), draw.random()<0.3
        self.log, self.average = [], torch.optim.swa_utils.AveragedModel(self.net) if draw.random()<0.3 else None
        if draw.random()<0.3: self.net.last.weight.register_post_accumulate_grad_hook(self.note)
        if self.average is not None: self.optimizer.register_step_post_hook(self.update_average)
        for _ in range(draw.choice([0, 0, 1, 3])): self.step()
        if draw.random()<0.5: self.loss(self.net(self.x)).backward()   # gradients are there
    def note(self, p): self.log.append(p.grad.sum())
    def update_average(self, *args): self.average.update_parameters(self.net)
    def loss(self, out): return F.cross_entropy(out.float(), self.y)
    def step(self):
        "One step as it is written by hand"
        with torch.autocast('cpu', enabled=self.autocast): loss = self.loss(self.net(self.x))
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        if self.scaler is None: self.optimizer.step()
        else: self.scaler.step(self.optimizer); self.scaler.update()
        if self.scheduler is not None: self.scheduler.step()
        self.optimizer.zero_grad()
        return loss.item()
    def ten(self):
        torch.manual_seed(7)
        return [self.step().hex() for _ in range(10)]
    def all(self): return Snapshot(training=self, **{k: getattr(self, k) for k in ('optimizer', 'scaler', 'scheduler')})

class Fails(TorchDispatchMode):
    "Raises in the operation with number `at`"
    def __init__(self, at=None):
        super().__init__()
        self.at, self.ran = at, 0
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ran += 1
        if self.ran==self.at: raise OverflowError('an error of a trial')
        return func(*args, **(kwargs or {}))

def steps_of(t, around=nullcontext):
    "What is on trial"
    options = dict(clip=t.clip, scaler=t.scaler)
    with torch.autocast('cpu', enabled=t.autocast), training(t.net, t.x, t.loss, t.optimizer, **options) as step:
        with around():
            step.warm_up_once()
            for _ in range(2): step.reset(); step.make()

places = 'a forward', 'a backward', 'the optimizer'
ends = ['no error', 'an error in an operation', *(f'an interrupt in {where}' for where in places)]

def make_steps(t, end, draw, operations):
    "Makes steps that end so; what came out"
    if end.startswith('an interrupt in '): strikes[end.removeprefix('an interrupt in ')] = draw.randint(1, 3)
    fails = Fails(draw.randint(1, operations)) if end.startswith('an error') else nullcontext()
    try: steps_of(t, lambda: fails)
    except (OverflowError, KeyboardInterrupt) as e: return type(e).__name__
    finally: strikes.clear()
    return 'nothing'

def bits_apart(a, b):
    "Bits compared, and those of them that differ"
    told = [(said.get('bits'), b.seen[k][1].get('bits')) for k,(_,said) in a.seen.items() if k in b.seen]
    pairs = [(p, q or b'') for p,q in told if p]
    same_size = [(p, q) for p,q in pairs if len(p)==len(q)]
    def ones(p, q): return int(np.unpackbits(np.frombuffer(p, np.uint8)^np.frombuffer(q, np.uint8)).sum())
    apart = sum(ones(p, q) for p,q in same_size if p!=q)
    return 8*sum(len(p) for p,_ in pairs), apart + 8*sum(len(p) for p,q in pairs if len(p)!=len(q))

expected = dict(zip(ends, ('nothing', 'OverflowError', *['KeyboardInterrupt']*3)))

def trial(name, form, seed):
    "How the steps ended, bits compared, bits that differ, and whatever else does"
    draw, counted = random.Random(seed), Fails()
    steps_of(Training(name, form, seed), lambda: counted)
    t, end = Training(name, form, seed), draw.choice(ends)
    before = t.all()
    out = make_steps(t, end, draw, counted.ran)
    after = t.all()
    found = differences(before, after)
    if out!=expected[end]: found.append(f'{end}: {out} came out')
    losses = sum(p!=q for p,q in zip(t.ten(), Training(name, form, seed).ten()))
    return end, *bits_apart(before, after), losses, found

def trials(name, form, n):
    "A row of the table, how the steps ended, and what was found"
    row, ways, all_found = [name, form, n, 0, 0, 0, 0], Counter(), []
    for seed in range(n):
        end, *counts, found = trial(name, form, seed)
        row[3:] = [a+b for a,b in zip(row[3:], (*counts, len(found)))]
        ways[end] += 1
        all_found += [(name, form, seed, end, f) for f in found]
    return row, ways, all_found

headers = ['optimizer', 'form', 'trials', 'bits\ncompared', 'bits that\nare different', 'of 10 losses each,\ndifferent',
    'other\ndifferences']

@call_parse
def main(
    only:str='', # optimizers, with commas; all of them by default
    n:int=50, # trials of each form
):
    "Hold what training steps leave behind against what was there before"
    signal.signal(signal.SIGINT, signal.default_int_handler)   # a job in the background was started without
    torch.set_num_threads(1)
    rows, ways, found = [], Counter(), []
    for name in chosen(optimizers, only):
        for form in forms:
            if made(name, form, Net(random.Random(0)).parameters()) is None: continue
            row, some_ways, more = trials(name, form, n)
            rows, ways, found = [*rows, row], ways + some_ways, found + more
            print(*row, *more[:5], sep=', ', flush=True)
    rows.append(['all', '', *(sum(r[i] for r in rows) for i in range(2, 7))])
    ended = 'the steps ended with ' + ', '.join(f'{end} ({ways[end]})' for end in ends)
    parts = [table(rows, headers, intfmt=','), ended]
    figures = dict(zip(('trials', 'bits', 'bits_different', 'losses_different', 'other_differences'), rows[-1][2:]))
    if only or n!=50: print(*map(part_text, parts), sep='\n\n')
    else: write_result('training_state', 'small networks drawn with hooks, scalers and schedulers; one thread', parts, figures=figures)
    sys.exit(any(any(r[4:]) for r in rows))
