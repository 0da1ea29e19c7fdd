"""Odd models and samples, a row each: what a forward changes, what they are made of, how they refuse to be copied"""
import array, io, itertools, pickle, random, threading, types
from collections import Counter, OrderedDict, defaultdict, deque
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np, torch, torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map

from fasterbench.machine.roof import HardwarePeaks
from fasterbench.roofline import RooflineAnalyzer

peaks = HardwarePeaks(1e12, 1e11, working_set=2**16, compute_peaks=dict(float32=1e12, bfloat16=4e12, int8=8e12))

# --- what the interrupts and errors are aimed at ---
def has_data(t)->bool: return not (t.is_meta or type(t).__name__=='FakeTensor')   # as in a forward on paper

class Holder:
    "An object with state that is no module"
    __slots__ = 'table', 'count'
    def __init__(self): self.table, self.count = torch.zeros(4), 0

class Victim(nn.Module):
    "Writes to much of what it can reach, in ways that can all be put back"
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.relu = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)
        self.branches = [nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), nn.BatchNorm1d(4)]   # a plain list
        self.helper, self.log, self.seen = Holder(), [], dict(calls=0)
        self.register_buffer('steps', torch.zeros(3))
    def forward(self, x):
        self.steps.add_(1)
        self.helper.table.add_(1); self.helper.count += 1
        self.log.append(len(self.log)); self.seen['calls'] += 1
        x = self.norm(self.conv(self.relu(x))).mean((2, 3))
        for b in self.branches: x = b(x)
        self.last = x
        return F.dropout(x, 0.5, self.training)

class PlainVictim(nn.Module):
    "Writes to nothing but its buffers and its sample"
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.relu, self.head = nn.ReLU(inplace=True), nn.Linear(4, 4)
        self.register_buffer('steps', torch.zeros(3))
    def forward(self, x):
        self.steps.add_(1)
        return F.dropout(self.head(self.norm(self.conv(self.relu(x))).mean((2, 3))), 0.5, self.training)

def victim(plain=False):
    torch.manual_seed(0)
    return PlainVictim() if plain else Victim(), torch.randn(2, 2, 4, 4)

# --- rows ---
@dataclass
class Case:
    name:str
    make:object           # returns a model, a sample and whatever else `check` needs
    may:str=''            # errors that are an answer, too: a regular expression; '': rows are expected
    paper:str|None=None   # the same for an estimate; `None`: as `may`
    check:object=None     # called with model, sample, what else `make` returned, the result; returns what is wrong
    varies:bool=False     # may its forwards see different inputs?
    excuse:str=''         # differences that are an answer, too: a regular expression

class Seen:
    "What the forwards got, in a file in memory: a list would be put back"
    def __init__(self): self.file = io.BytesIO()
    def append(self, o): pickle.dump(o, self.file)
    def clear(self): self.file.seek(0); self.file.truncate()
    def __iter__(self):
        file = io.BytesIO(self.file.getvalue())
        while file.tell()<len(self.file.getvalue()): yield pickle.load(file)

seen = Seen()

def saw(x):
    if has_data(x): seen.append((tuple(x.shape), x.stride(), x.requires_grad, x.detach().double().sum().item()))

class Odd(nn.Module):
    "Two linear layers; what happens before the second one is odd"
    uses = False   # is the input of the second one what `act` returns?
    def __init__(self, act, held):
        super().__init__()
        self.child, self.lin, self.norm, self.act = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4), act
        for k,make in held.items():
            v = make()
            if k.startswith('b') and isinstance(v, torch.Tensor): self.register_buffer(k, v)
            else: setattr(self, k, v)
        self.set_up()
    def set_up(self): pass
    def forward(self, x, *more):
        saw(x)
        y = self.act(self, x, *more)
        return self.lin(y if self.uses else x)

class Through(Odd): uses = True

def batch(): return torch.randn(3, 4)

def odd(act, cls=Odd, sample=batch, **held):
    "Makes an `Odd` with attributes (their makers), of which tensors that begin with `b` are buffers"
    return lambda: (cls(act, held), sample())

def through(act, **kw): return odd(act, cls=Through, **kw)

def put(o, **values):
    "Set attributes"
    for k,v in values.items(): setattr(o, k, v)

def zeros(*shape, **kw): return lambda: torch.zeros(*(shape or (4,)), **kw)
def ones(*shape, **kw): return lambda: torch.ones(*(shape or (4,)), **kw)

# --- values ---
def clamp_quietly(m, x): m.lin.weight.data.clamp_(-0.1, 0.1)
def clamp(m, x):
    with torch.no_grad(): m.lin.weight.clamp_(-0.1, 0.1)
def set_first(m, x): m.lin.weight.data[0] = 7.
def renorm(m, x): m.lin.weight.data = torch.renorm(m.lin.weight.data, 2, 0, 0.5)
def through_numpy(m, x): m.lin.weight.detach().numpy()[:] *= 2
def numpy_times(m, x): x.detach().numpy()[:] *= 2
def as_bits(m, x): m.b.view(torch.uint8).add_(1)
def shared_buffer(m): m.register_buffer('b', m.lin.weight.data[0])
def own_base(m):
    m.base = torch.randn(8, 4)
    m.lin.weight = nn.Parameter(m.base[:4])
def with_grad(m): m.lin.weight.grad = torch.ones(4, 4)
def swapping(m): torch.__future__.set_swap_module_params_on_conversion(True)
def tagged(m): m.lin.weight.calls = 0
def tied(m): m.child.weight = m.lin.weight

def cls_with(set_up, base=Odd): return type('Odd', (base,), dict(set_up=set_up))

def nested(layout): return lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
def quantized(): return torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
def sparse(to): return lambda: getattr(torch.eye(4), to)()
def small(dtype): return lambda: torch.zeros(4, dtype=torch.uint8).view(dtype)
small_dtypes = [d for d in ('complex32', 'bcomplex32', 'float8_e4m3fn', 'float8_e4m3fnuz', 'float8_e5m2',
    'float8_e5m2fnuz', 'float8_e8m0fnu',
    'float4_e2m1fn_x2') if hasattr(torch, d)]
bits = small_dtypes + ['bfloat16', 'float16', 'int8', 'bool', 'complex64', 'uint16', 'float64']
def of_bits(dtype):
    return lambda: (torch.arange(16, dtype=torch.uint8) if dtype!='bool' else torch.zeros(16,
        dtype=torch.uint8)).view(getattr(torch, dtype))

names_weight = r'lin\.weight'
set_data = r'lin\.weight|set_data'   # which torch refuses on the meta device
values = [
    Case('buffer.data = the input', odd(lambda m,x: put(m.b, data=x), b=zeros()), paper=set_data),
    Case('buffer.data = a new tensor', odd(lambda m,x: put(m.b, data=m.b+1), b=zeros()), paper=set_data),
    Case('buffer.data = a part of itself', odd(lambda m,x: put(m.b, data=m.b.data[:1]), b=zeros())),
    Case('buffer grows by cat', odd(lambda m,x: put(m, b=torch.cat([m.b, m.b])), b=zeros())),
    Case('buffer.resize_', odd(lambda m,x: m.b.resize_(8, 8).zero_(), b=zeros()), may='resiz', paper='.',
        excuse=r'\.b (pointer|storage)'),
    Case('buffer.t_()', odd(lambda m,x: m.b.t_(), b=zeros(2, 4))),
    Case('buffer.set_(input)', odd(lambda m,x: m.b.set_(x), b=zeros()), paper='.'),
    Case('buffer written', odd(lambda m,x: m.b.add_(1), b=zeros())),
    Case('buffer written by .data', odd(lambda m,x: m.b.data.add_(1), b=zeros())),
    Case('buffer written through numpy', odd(lambda m,x: np.add(m.b.numpy(), 1, out=m.b.numpy()), b=zeros()),
        paper='.'),
    Case('buffer without elements, scalar', odd(lambda m,x: (m.b.fill_(1), m.b2.add_(1)), b=zeros(0, 3),
        b2=lambda: torch.tensor(0))),
    Case('sample.set_(weight)', odd(lambda m,x: x.set_(m.lin.weight.detach()), sample=lambda: torch.randn(4, 4)),
        paper='.'),
    Case('sample.data = weight', odd(lambda m,x: put(x, data=m.lin.weight.data), sample=lambda: torch.randn(4, 4)),
        paper=set_data),
    Case('weight.data = renorm', odd(renorm), may=names_weight, paper=set_data),
    Case('weight.data.clamp_', odd(clamp_quietly), may=names_weight),
    Case('weight.clamp_', odd(clamp), may=names_weight),
    Case('weight.data[0] = 7', odd(set_first), may=names_weight),
    Case('weight through numpy', odd(through_numpy), may=names_weight, paper='.'),
    Case('weight through a view', odd(lambda m,x: m.view.mul_(2),
        cls=cls_with(lambda m: put(m, view=m.lin.weight.data.view(-1)))), may=names_weight),
    Case('weight replaced', odd(lambda m,x: put(m.lin, weight=nn.Parameter(m.lin.weight*2)))),
    Case('weight deleted', odd(lambda m,x: delattr(m.child, 'weight')), may='weight'),
    Case('weight tied, one of them replaced', odd(lambda m,x: put(m.child, weight=nn.Parameter(m.lin.weight*2)),
        cls=cls_with(tied))),
    Case('child.bfloat16()', odd(lambda m,x: m.child.bfloat16()), may='child'),
    Case('child.double()', odd(lambda m,x: m.child.double()), may='child'),
    Case('child.double() with swapped parameters', odd(lambda m,x: m.child.double(), cls=cls_with(swapping)),
        may='child|lin', paper='.'),
    Case('swapped parameters, nothing odd', odd(lambda m,x: None, cls=cls_with(swapping)), paper='.'),
    Case('child.to(meta)', odd(lambda m,x: m.child.to('meta')), may='child|meta'),
    Case('child.requires_grad_(False)', odd(lambda m,x: m.child.requires_grad_(False))),
    Case('buffer.requires_grad_()', odd(lambda m,x: m.b.requires_grad_(), b=zeros()), may='inference'),
    Case('sample.requires_grad_()', odd(lambda m,x: x.requires_grad_()), may='inference'),
    Case('zero_grad()', odd(lambda m,x: m.zero_grad(), cls=cls_with(with_grad))),
    Case('grad.zero_()', odd(lambda m,x: m.lin.weight.grad is not None and m.lin.weight.grad.zero_(),
        cls=cls_with(with_grad)), may='grad'),
    Case('attribute of a parameter', odd(lambda m,x: put(m.lin.weight, calls=m.lin.weight.calls+1),
        cls=cls_with(tagged)), paper='.'),
    Case('sample.data.mul_', odd(lambda m,x: x.data.mul_(2))),
    Case('sample.mul_', odd(lambda m,x: x.mul_(2))),
    Case('sample through numpy', odd(numpy_times), paper='.'),
    Case('sample through dlpack', odd(lambda m,x: torch.from_dlpack(x.detach()).mul_(2)), paper='.'),
    Case('sample.t_()', odd(lambda m,x: x.t_(), sample=lambda: torch.randn(4, 4))),
    Case('sample.resize_', odd(lambda m,x: x.resize_(2, 4)), may='resiz', paper='.'),
    Case('sample.unsqueeze_', odd(lambda m,x: x.unsqueeze_(0)), paper=set_data),
    Case('sample.squeeze_', odd(lambda m,x: x.squeeze_(0), sample=lambda: torch.randn(1, 4)), paper=set_data),
    Case('NaN and −0.0, +1', odd(lambda m,x: m.b.add_(1),
        b=lambda: torch.tensor([float('nan'), -0.0, 0.0, -float('inf')]))),
    Case('NaN and −0.0, negated', odd(lambda m,x: m.b.neg_(),
        b=lambda: torch.tensor([float('nan'), -0.0, 0.0, -float('inf')]))),
    Case('0.0 becomes −0.0', odd(lambda m,x: m.b.neg_(), b=zeros())),
    Case('sample 0.0 becomes −0.0', odd(lambda m,x: x.data.neg_(), sample=lambda: torch.zeros(3, 4))),
    Case('NaN in the sample', odd(lambda m,x: x.add_(1), sample=lambda: torch.full((3, 4), float('nan'))), varies=True),
    Case('sparse buffer', odd(lambda m,x: m.b.mul_(2), b=sparse('to_sparse')), paper='.'),
    Case('sparse buffer, grown', odd(lambda m,x: m.b.add_(torch.ones(4, 4, device=m.b.device).to_sparse()),
        b=sparse('to_sparse')), paper='.'),
    Case('CSR buffer', odd(lambda m,x: m.b.values().mul_(2), b=sparse('to_sparse_csr')), paper='.'),
    Case('CSC buffer', odd(lambda m,x: m.b.values().mul_(2), b=sparse('to_sparse_csc')), paper='.'),
    Case('mkldnn buffer', odd(lambda m,x: m.b.mul_(2), b=lambda: torch.ones(4).to_mkldnn()), paper='.'),
    Case('nested buffer', odd(lambda m,x: m.b.mul_(2), b=nested(torch.strided)), paper='.'),
    Case('jagged buffer', odd(lambda m,x: m.b.mul_(2), b=nested(torch.jagged)), paper='.'),
    Case('quantized buffer', odd(lambda m,x: m.b.copy_(torch.zeros(4)), b=quantized), paper='.'),
    Case('expanded buffer', odd(lambda m,x: m.b[:1].add_(1), b=lambda: torch.ones(1, 4).expand(3, 4))),
    Case('buffer of overlapping windows', odd(lambda m,x: m.b[:, :1].add_(1),
        b=lambda: torch.arange(6.).unfold(0, 3, 1)), paper='.'),
    Case('buffer in the storage of a parameter', odd(lambda m,x: m.b.mul_(2), cls=cls_with(shared_buffer)),
        may=names_weight),
    Case('parameter that is a view', odd(lambda m,x: m.base.mul_(2), cls=cls_with(own_base)), may=names_weight),
    Case('buffers in one storage', odd(lambda m,x: m.b.mul_(2),
        cls=cls_with(lambda m: (m.register_buffer('b', torch.ones(4)), m.register_buffer('c', m.b[1:]))))),
    Case('buffer registered twice', odd(lambda m,x: m.b.mul_(2),
        cls=cls_with(lambda m: (m.register_buffer('b', torch.ones(4)), m.child.register_buffer('b', m.b))))),
    Case('buffer that requires grad', odd(lambda m,x: m.b.data.mul_(2), b=ones(requires_grad=True))),
    Case('inference tensor as a buffer', odd(lambda m,x: m.b.mul_(2),
        b=lambda: torch.inference_mode()(torch.ones)(4)), paper='.'),
    *[Case(f'{d} buffer, not written', odd(lambda m,x: None, b=of_bits(d)), paper='.') for d in bits],
    *[Case(f'{d} buffer, its bits changed', odd(as_bits, b=of_bits(d)), paper='.') for d in bits if d!='bool'],
]

# --- state ---
class Stubborn(dict):
    def clear(self): raise TypeError('this dict is not cleared')
    def update(self, *args, **kw): raise TypeError('this dict is not updated')
class StubbornList(list):
    def clear(self): raise TypeError('this list is not cleared')
    def extend(self, other): raise TypeError('this list is not extended')
class Guarded(Odd):
    "Refuses to have attributes set or deleted"
    _sealed = False
    def set_up(self): self.n, self._sealed = 0, True
    def __setattr__(self, k, v):
        if self._sealed and k!='training': raise AttributeError(f'{k} is sealed')
        super().__setattr__(k, v)
    def __delattr__(self, k): raise AttributeError(f'{k} is sealed')
class Sealed(Guarded):
    def __setattr__(self, k, v):
        if self._sealed: raise AttributeError(f'{k} is sealed')
        super().__setattr__(k, v)

class Box:
    "An object with whatever attributes"
    def __init__(self, **kw): put(self, **kw)
@dataclass
class Record: t:torch.Tensor; log:list = field(default_factory=list)
class Pair(NamedTuple): t:torch.Tensor; log:list

def box(**kw): return lambda: Box(**{k: v() for k,v in kw.items()})
def reorder(d): d.update({k: d.pop(k) for k in [*d][:1]})
def dropping(): return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
def call_all(m, x):
    for l in m.layers: x = l(x)
    return x
def tick(m, x): m.norm(x)   # a registered layer that writes to its buffers while it is in training mode
def replaced(m, x): m.child = nn.Linear(4, 4, device=x.device)
def removed(m, x): del m.child
def hooked(m, x): m.child.register_forward_hook(lambda *a: None)
def draw(m, x): return x + torch.randn(x.shape, generator=m.g).to(x.device)

def hiding(**methods): return type('Hiding', (Odd,), methods)
def raising(*args, **kw): raise NotImplementedError('this method is not there')
def mutated(v): return lambda m,x: v(m)

no_copy = "can't be copied|cannot pickle|pickle"
state = [
    Case('object with slots', odd(lambda m,x: (put(m.h, count=m.h.count+1), m.h.table.add_(1)), h=Holder), paper='.'),
    Case('object with attributes', odd(lambda m,x: put(m.h, n=m.h.n+1, new=1), h=box(n=int))),
    Case('object, tensor in place', odd(lambda m,x: m.h.t.add_(1), h=box(t=zeros())), paper='.'),
    Case('object, tensor replaced', odd(lambda m,x: put(m.h, t=m.h.t+1), h=box(t=zeros()))),
    Case('object in an object', odd(lambda m,x: m.h.h.t.add_(1), h=box(h=box(t=zeros()))), paper='.'),
    Case('object that knows the model', odd(lambda m,x: m.h.log.append(1), h=box(log=list),
        cls=cls_with(lambda m: put(m.h, m=[m])))),
    Case('dataclass', odd(lambda m,x: (m.h.t.add_(1), m.h.log.append(1)), h=lambda: Record(torch.zeros(4))), paper='.'),
    Case('named tuple', odd(lambda m,x: (m.h.t.add_(1), m.h.log.append(1)), h=lambda: Pair(torch.zeros(4), [])),
        paper='.'),
    Case('tensor attribute in place', odd(lambda m,x: m.t.add_(1), t=zeros())),
    Case('tensor attribute by .data', odd(lambda m,x: m.t.data.add_(1), t=zeros())),
    Case('tensor attribute, .data replaced', odd(lambda m,x: put(m.t, data=m.t+1), t=zeros())),
    Case('tensors in a list', odd(lambda m,x: m.l[0].add_(1), l=lambda: [torch.zeros(4)]), paper='.'),
    Case('list in a list', odd(lambda m,x: m.l[0][0].append(1), l=lambda: [[[]]])),
    Case('list in a tuple', odd(lambda m,x: m.l[0].append(1), l=lambda: ([],))),
    Case('dict in a dict', odd(lambda m,x: m.d['a']['b'].update(c=1), d=lambda: dict(a=dict(b={})))),
    Case('dict with objects as keys', odd(lambda m,x: m.d.update({x.dim: 1, m: 2}), d=dict)),
    Case('order of a dict', odd(lambda m,x: reorder(m.d), d=lambda: dict(a=1, b=2))),
    Case('order of an OrderedDict', odd(lambda m,x: m.d.move_to_end('a'), d=lambda: OrderedDict(a=1, b=2))),
    Case('order of the attributes', odd(lambda m,x: reorder(vars(m)))),
    Case('order of the children', odd(lambda m,x: m._modules.move_to_end('child') if hasattr(m._modules,
        'move_to_end') else reorder(m._modules))),
    Case('set', odd(lambda m,x: m.s.add(len(m.s)), s=set)),
    Case('set in a dict', odd(lambda m,x: m.d['s'].add(1), d=lambda: dict(s=set()))),
    Case('deque, Counter, defaultdict', odd(lambda m,x: (m.q.append(1), m.c.update('a'), m.dd['x'].append(1)),
        q=lambda: deque([0], 2),
        c=lambda: Counter('b'), dd=lambda: defaultdict(list))),
    Case('deque in a list', odd(lambda m,x: m.q[0].append(1), q=lambda: [deque([0], 2)])),
    Case('bytearray', odd(lambda m,x: m.a.append(1), a=bytearray)),
    Case('array', odd(lambda m,x: m.a.append(1), a=lambda: array.array('i')), may=no_copy),
    Case('file in memory', odd(lambda m,x: m.f.write('x'), f=io.StringIO), may=no_copy),
    Case('numpy array in place', odd(lambda m,x: np.add(m.a, 1, out=m.a), a=lambda: np.zeros(4))),
    Case('numpy array in a list', odd(lambda m,x: np.add(m.a[0], 1, out=m.a[0]), a=lambda: [np.zeros(4)])),
    Case('numpy array of objects', odd(lambda m,x: m.a[0].append(1), a=lambda: np.array([[], [1]], dtype=object))),
    Case('generator of torch', through(draw, g=torch.Generator)),
    Case('generator of torch in a dict', odd(lambda m,x: m.g['g'].manual_seed(3), g=lambda: dict(g=torch.Generator()))),
    Case('generator of NumPy', odd(lambda m,x: m.g.random(), g=lambda: np.random.default_rng(0))),
    Case('old generator of NumPy', odd(lambda m,x: m.g.rand(), g=lambda: np.random.RandomState(0))),
    Case('generator of Python', odd(lambda m,x: m.g.random(), g=lambda: random.Random(0))),
    Case('itertools.count', odd(lambda m,x: next(m.c), c=itertools.count), may=no_copy + '|count',
        excuse=r'model\.c '),   # which can't be set back, and is named
    Case('list iterator', odd(lambda m,x: next(m.c), c=lambda: iter([*range(99)])), may=no_copy + '|iterator'),
    Case('Python generator', odd(lambda m,x: next(m.c), c=lambda: (i for i in range(99))), may=no_copy + '|generator',
        paper='generator', excuse=r'model\.c '),
    Case('lock', odd(lambda m,x: put(m, n=1), c=threading.Lock), paper=no_copy),
    Case('attribute deleted', odd(lambda m,x: vars(m).pop('n', None), n=int)),
    Case('attribute deleted from the middle', odd(lambda m,x: vars(m).pop('a', None), a=int, z=int)),
    Case('attribute added', odd(lambda m,x: put(m, new=[x]))),
    Case('dict that refuses', odd(lambda m,x: m.d.__setitem__('a', 1), d=Stubborn)),
    Case('list that refuses', odd(lambda m,x: m.l.append(1), l=StubbornList)),
    Case('read-only dict', odd(lambda m,x: put(m, n=1), d=lambda: types.MappingProxyType({})), paper=no_copy),
    Case('modules in a plain list', through(call_all, layers=lambda: [dropping(), nn.Dropout(0.5)]), paper='.'),
    Case('modules in a dict of lists', odd(lambda m,x: m.d['a'][0](x), d=lambda: dict(a=[dropping()])), paper='.'),
    Case('modules in an object', odd(lambda m,x: m.h.l(x), h=box(l=dropping)), paper='.'),
    Case('module hidden by object.__setattr__', odd(lambda m,x: m.hid(x),
        cls=cls_with(lambda m: vars(m).update(hid=dropping()))), paper='.'),
    Case('module replaced', odd(replaced)), Case('module removed', odd(removed), may='child'),
    Case('module added', odd(lambda m,x: m.add_module('new', nn.Linear(4, 4)))),
    Case('hook registered', odd(hooked)), Case('hook registered on itself',
        odd(lambda m,x: m.register_forward_pre_hook(lambda *a: None))),
    Case('forward replaced', odd(lambda m,x: put(m.child, forward=lambda x: x))),
    Case('class replaced', odd(lambda m,x: put(m.child, __class__=type('Linear2', (nn.Linear,), {})))),
    Case('train() in the forward', odd(lambda m,x: m.train())), Case('eval() in the forward',
        odd(lambda m,x: m.eval())),
    Case('sealed against attributes', odd(lambda m,x: vars(m).update(n=m.n+1, new=1), cls=Guarded), may='sealed'),
    Case('sealed, training flag too', odd(lambda m,x: vars(m).update(n=m.n+1, new=1), cls=Sealed), may='sealed'),
    Case('named_modules() shows nothing', odd(tick, cls=hiding(named_modules=lambda self, *a,
        **kw: iter([('', self)])))),
    Case('modules() shows nothing', odd(tick, cls=hiding(modules=lambda self: iter([self])))),
    Case('children() shows nothing', odd(tick, cls=hiding(children=lambda self: iter(()),
        named_children=lambda self: iter(())))),
    Case('parameters() without recurse', odd(tick, cls=hiding(parameters=lambda self: iter([self.lin.weight])))),
    Case('named_parameters() without arguments', odd(tick,
        cls=hiding(named_parameters=lambda self: iter([('w', self.lin.weight)])))),
    Case('buffers() shows nothing', odd(tick, cls=hiding(buffers=lambda self, recurse=True: iter(()),
        named_buffers=lambda self: iter(())))),
    Case('_apply() raises', odd(tick, cls=hiding(_apply=raising))),
    Case('train() raises', odd(tick, cls=hiding(train=raising))),
    Case('train() counts', odd(tick, cls=hiding(n=0, train=lambda self,
        mode=True: (put(self, n=self.n+1), nn.Module.train(self, mode))[1]))),
    Case('state_dict() raises', odd(tick, cls=hiding(state_dict=raising, __getstate__=raising)), paper='.'),
    Case('len() is 0', odd(tick, cls=hiding(__len__=lambda self: 0))),
    Case('equal to everything', odd(tick, cls=hiding(__eq__=lambda self, o: True, __hash__=lambda self: 1))),
    Case('not hashable', odd(tick, cls=hiding(__hash__=None)), may='hash'),
    Case('flag that is a property', odd(tick, cls=hiding(training=property(lambda self: vars(self).get('flag', True),
        lambda self, v: vars(self).update(flag=v))))),
]

# --- settings ---
def seeded(m, x): torch.manual_seed(7); np.random.seed(7); random.seed(7)
def entered(context): return lambda m,x: put(m.kept, c=context().__enter__())
def global_hook(m, x): nn.modules.module.register_module_forward_hook(lambda *a: None)

settings = [Case(name, odd(act), **kw) for name,act,kw in (
    ('default dtype', lambda m,x: torch.set_default_dtype(torch.float64), {}),
    ('default device', lambda m,x: torch.set_default_device('cpu'), {}),
    ('deterministic algorithms', lambda m,x: torch.use_deterministic_algorithms(True), {}),
    ('deterministic algorithms, warnings', lambda m,x: torch.use_deterministic_algorithms(True, warn_only=True), {}),
    ('cudnn.benchmark', lambda m,x: put(torch.backends.cudnn, benchmark=True), {}),
    ('cudnn.deterministic', lambda m,x: put(torch.backends.cudnn, deterministic=True), {}),
    ('cudnn.enabled', lambda m,x: put(torch.backends.cudnn, enabled=False), {}),
    ('TF32 by the old switch', lambda m,x: put(torch.backends.cuda.matmul, allow_tf32=True), {}),
    ('TF32 by the new switch', lambda m,x: put(torch.backends.cuda.matmul, fp32_precision='tf32'), {}),
    ('TF32 of cudnn', lambda m,x: put(torch.backends.cudnn, allow_tf32=False), {}),
    ('float32 matmul precision', lambda m,x: torch.set_float32_matmul_precision('medium'), {}),
    ('mkldnn precision', lambda m,x: put(torch.backends.mkldnn.matmul, fp32_precision='bf16'), {}),
    ('fused attention', lambda m,x: torch.backends.cuda.enable_flash_sdp(False), {}),
    ('grad mode', lambda m,x: torch.set_grad_enabled(not torch.is_grad_enabled()), {}),
    ('autocast on', lambda m,x: torch.set_autocast_enabled('cpu', True), {}),
    ('autocast dtype', lambda m,x: torch.set_autocast_dtype('cpu', torch.float16), {}),
    ('autocast cache', lambda m,x: torch.set_autocast_cache_enabled(False), {}),
    ('threads', lambda m,x: torch.set_num_threads(2), {}),
    ('anomaly detection', lambda m,x: torch.autograd.set_detect_anomaly(True), {}),
    ('swapped parameters', lambda m,x: torch.__future__.set_swap_module_params_on_conversion(True), {}),
    ('seeds', seeded, {}), ('random numbers', lambda m,x: (torch.rand(1), np.random.rand(), random.random()), {}),
    ('global forward hook', global_hook, {}),
    ('floating-point errors of NumPy', lambda m,x: np.seterr(all='raise'), {}),
)]

# --- built lazily ---
@lru_cache
def table(n, device): return torch.linspace(0, 1, n, device=device)
@lru_cache
def angles(n, device): return torch.outer(torch.arange(n, device=device).float(),
    torch.arange(n, device=device).float()).cos()
shelf = {}

def cleared(make):
    def made():
        table.cache_clear(); angles.cache_clear(); shelf.clear()
        return make()
    return made
def from_shelf(m, x):
    if x.device not in shelf: shelf[x.device] = torch.ones(4, device=x.device)
    return m.child(x)*shelf[x.device]
def from_object(m, x):
    if m.h.t is None: m.h.t = torch.ones(4, device=x.device)
    return m.child(x)*m.h.t
def from_buffer(m, x):
    if 'late' not in m._buffers: m.register_buffer('late', torch.ones(4, device=x.device))
    return m.child(x)*m.late
def from_class(m, x):
    cls = type(m)
    if x.device not in cls.cache: cls.cache[x.device] = torch.ones(4, device=x.device)
    return m.child(x)*cls.cache[x.device]
def from_closure():
    kept = {}
    def act(m, x):
        if x.device not in kept: kept[x.device] = torch.ones(4, device=x.device)
        return m.child(x)*kept[x.device]
    return act
def from_default(m, x, kept=[]):
    if not kept or kept[-1].device!=x.device: kept.append(torch.ones(4, device=x.device))
    return m.child(x)*kept[-1]
def lasting(m, s, extra, result):
    kept = [*shelf.values(), table(4, torch.device('cpu'))]
    return ['what the forward keeps elsewhere is an inference tensor'] if any(t.is_inference() for t in kept) else []

lazily = [
    Case('table of a cached function', cleared(through(lambda m,x: m.child(x)*table(4, x.device))), check=lasting),
    Case('two cached functions', cleared(through(lambda m,x: (m.child(x)*table(4, x.device)) @ angles(4, x.device))),
        check=lasting),
    Case('table of the program', cleared(through(from_shelf)), check=lasting),
    Case('table in an object', through(from_object, h=box(t=lambda: None))),
    Case('buffer registered late', through(from_buffer)),
    Case('table of the class', lambda: (type('Shelf', (Through,), dict(cache={}))(from_class, {}), batch())),
    Case('table of a closure', lambda: (Through(from_closure(), {}), batch()), excuse=r'model\.act\['),
    Case('table in a default argument', lambda: (from_default.__defaults__[0].clear(), through(from_default)())[1],
        excuse=r'model\.act\['),
]

# --- a graph that is still to be differentiated ---
def with_graph(act, saved, sample=batch, **kw):
    "`saved(model, sample)`: a loss whose graph keeps some of their tensors"
    def make():
        m, x = odd(act, sample=sample, **kw)()
        leaves = [t for t in (*m.parameters(), x) if t.requires_grad]
        loss = saved(m, x)
        return m, x, (loss, leaves, torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True))
    return make
def same_gradients(m, s, extra, result):
    loss, leaves, expected = extra
    try: got = torch.autograd.grad(loss, leaves, allow_unused=True)
    except RuntimeError as e: return [f'the graph made before: {e}'[:200]]
    same = all((a is None and b is None) or torch.equal(a, b) for a,b in zip(got, expected))
    return [] if same else ['the graph made before gives other gradients']

def by_sample(m, x): return m.lin(x).square().sum()
def by_buffer(m, x): return (m.child(x)*m.b).sum()
def by_weight(m, x): return (m.child(x) @ m.lin.weight).sum()
def needs_grad(): return torch.randn(3, 4, requires_grad=True)
graphs = [
    Case('graph through the sample, not written', with_graph(lambda m,x: None, by_sample), check=same_gradients),
    Case('graph through the sample, in place', with_graph(lambda m,x: x.mul_(2), by_sample), check=same_gradients),
    Case('graph through the sample, .data in place', with_graph(lambda m,x: x.data.mul_(2), by_sample),
        check=same_gradients),
    Case('graph through a sample that requires grad',
        with_graph(lambda m,x: x.data.mul_(2), by_sample, sample=needs_grad), check=same_gradients),
    Case('graph through a buffer, in place', with_graph(lambda m,x: m.b.add_(1), by_buffer, b=ones()),
        check=same_gradients),
    Case('graph through a buffer, replaced', with_graph(lambda m,x: put(m, b=m.b+1), by_buffer, b=ones()),
        check=same_gradients),
    Case('graph through a buffer, not written', with_graph(lambda m,x: None, by_buffer, b=ones()),
        check=same_gradients),
    Case('graph through BatchNorm', with_graph(tick, lambda m,x: m.norm(m.child(x)).square().sum()),
        check=same_gradients),
    Case('graph through a parameter, not written', with_graph(lambda m,x: None, by_weight), check=same_gradients),
    Case('graph through a parameter, .data in place', with_graph(clamp_quietly, by_weight), may=names_weight,
        check=same_gradients),
    Case('graph through a parameter, in place', with_graph(clamp, by_weight), may=names_weight, check=same_gradients),
    Case('graph through a parameter, .data replaced', with_graph(renorm, by_weight), may=names_weight,
        check=same_gradients, paper=set_data),
    Case('activations of a training forward kept', with_graph(lambda m,x: put(m, y=m.child(x)),
        lambda m,x: (put(m, y=m.child(x)), m.y.square().sum())[1]),
        check=same_gradients, paper='.'),
]

# --- samples ---
class Tokens:
    "Grows with each forward; can't be copied"
    def __init__(self, n=10): self.tokens, self.lock = [*range(n)], threading.Lock()
    def __len__(self): return len(self.tokens)
class Brittle(Tokens):
    error = ValueError
    def __init__(self, n=10): self.tokens = [*range(n)]
    def __deepcopy__(self, memo): raise self.error('this object is not copied')
def brittle(e): return lambda: type('Brittle', (Brittle,), dict(error=e))()
class Oops(Exception): pass

def with_x(make): return lambda: (batch(), make())
def saw_value(t):
    if has_data(t): seen.append(t.sum().item())
def grow(m, x, o): seen.append(len(o)); o.tokens.append(0)
def spend(m, x, it): seen.append(sum(it))
def same_lengths(m, s, extra, result):
    lengths = {v for v in seen if isinstance(v, (int, float))}
    return [f'the forwards saw {sorted(lengths)}'] if len(lengths)>1 else []
def holding_model():
    m, x = odd(lambda m,x,o: seen.append(float(o.m is m)))()
    return m, (x, Box(m=m))
def knows_model(m, s, extra, result): return ['the sample knew another model'] if 0. in seen else []
def same_twice(m, x, y): seen.append(float(x is y)); x.add_(1)
def distinct(m, s, extra, result): return ['the same tensor came as two'] if 0. in seen else []
def inference_batch():
    with torch.inference_mode(): return torch.randn(3, 4)
def with_old_grad():
    x = needs_grad()
    x.grad = torch.ones(3, 4)
    return x

samples = [
    Case('Python generator in the sample', odd(spend, sample=with_x(lambda: (i for i in range(3)))),
        may='generator|iterator', check=same_lengths),
    Case('iterator in the sample', odd(spend, sample=with_x(lambda: iter([1, 2]))), may='iterator', check=same_lengths),
    Case('map in the sample', odd(spend, sample=with_x(lambda: map(int, '12'))), may='map|iterator',
        check=same_lengths),
    Case('object that holds the model', holding_model, check=knows_model, paper='.'),
    Case("growing cache that can't be copied", odd(grow, sample=with_x(Tokens)), may="Tokens|copied|pickle",
        check=same_lengths),
    Case('growing cache that is copied', odd(lambda m,x,o: (seen.append(len(o.log)), o.log.append(1)),
        sample=with_x(box(log=lambda: [1]))), check=same_lengths),
    *[Case(f'copy raises {e.__name__}', odd(grow, sample=with_x(brittle(e))), may='not copied|Brittle',
        check=same_lengths)
        for e in (ValueError, KeyError, AttributeError, RecursionError, AssertionError, Oops)],
    Case('sample requires grad', odd(lambda m,x: None, sample=needs_grad)),
    Case('sample requires grad, .data in place', odd(lambda m,x: x.data.mul_(2), sample=needs_grad)),
    Case('sample has a gradient', odd(lambda m,x: put(x, grad=None), sample=with_old_grad)),
    Case('inference tensor', odd(lambda m,x: None, sample=inference_batch)),
    Case('inference tensor in place', odd(lambda m,x: x.mul_(2), sample=inference_batch)),
    Case('the same tensor twice', odd(same_twice, sample=lambda: (batch(),)*2), check=distinct),
    Case('two views of one storage', odd(lambda m,x,y: y.mul_(2),
        sample=lambda: (lambda b: (b[:3], b[1:]))(torch.randn(4, 4)))),
    Case('expanded sample', odd(lambda m,x: None, sample=lambda: torch.randn(1, 4).expand(3, 4))),
    Case('dict of dicts', lambda: (Odd(lambda m,x,y=None: None, {}), dict(x=batch()))),
    Case('dict in the sample grows', odd(lambda m,x,d: d.update({len(d): 1}), sample=with_x(dict))),
    Case('list in the sample grows', odd(lambda m,x,l: (seen.append(len(l)), l.append(1)), sample=with_x(list)),
        check=same_lengths),
    Case('tensor in a list in the sample', odd(lambda m,x,l: l[0].add_(1), sample=with_x(lambda: [torch.ones(4)]))),
    Case('dataclass in the sample', odd(lambda m,x,r: (saw_value(r.t), r.t.add_(1), r.log.append(1)),
        sample=with_x(lambda: Record(torch.ones(4)))), check=same_lengths, paper='.'),
    Case('object with a tensor in the sample', odd(lambda m,x,o: (saw_value(o.t), o.t.add_(1)),
        sample=with_x(box(t=ones()))), check=same_lengths, paper='.'),
    Case('numpy array in the sample', odd(lambda m,x,a: (seen.append(a.sum()), np.add(a, 1, out=a)),
        sample=with_x(lambda: np.zeros(4))), check=same_lengths),
    Case('generator of torch in the sample', odd(lambda m,x,g: seen.append(torch.rand(1, generator=g).item()),
        sample=with_x(torch.Generator)),
        check=same_lengths, may='Generator'),
    Case('generator of Python in the sample', odd(lambda m,x,g: seen.append(g.random()),
        sample=with_x(random.Random)), check=same_lengths),
    Case('module in the sample', through(lambda m,x,f: f(x), sample=with_x(dropping)), paper='.'),
    Case('function with a memory in the sample', through(lambda m,x,f: f(x),
        sample=with_x(lambda: (lambda log: lambda x: (log.append(1), x)[1])([])))),
    Case('lock in the sample', odd(lambda m,x,l: l.acquire(blocking=False) and l.release(),
        sample=with_x(threading.Lock))),
]

# --- other paths ---
class Nested(nn.Module):
    "Modules in modules"
    def __init__(self, deep):
        super().__init__()
        self.inner = Nested(deep-1) if deep else nn.Linear(4, 4)
    def forward(self, x): return self.inner(x)
def half(m, x):
    m.n += 1
    return m.child(x) if m.n%2 else x
def by_chance(m, x): return m.child(x) if random.random()<0.5 else x
def profiled_inside(m, x):
    if has_data(x): RooflineAnalyzer(m.inner[0], torch.ones(2, 4), peaks).profile(warmup=1, steps=1)
def estimated_inside(m, x): RooflineAnalyzer(m.inner[0], torch.ones(2, 4), peaks).estimate()
def itself_inside(m, x):
    if m.busy or not has_data(x): return
    m.busy.append(1)
    try: RooflineAnalyzer(m, torch.ones(2, 4), peaks).profile(warmup=1, steps=1)
    finally: m.busy.clear()
def outer_rows(m, s, extra, result):
    if not result: return []
    names = {*result.by_module} if hasattr(result, 'by_module') else {r.name for r in result}
    return [] if 'lin' in names else [f'the rows are those of {sorted(names)}']
def erring(error, at=2):
    def act(m, x):
        m.b.add_(1); x.mul_(2); m.n += 1; m.log.append(1)
        if m.n==at or at==1: raise error('an error of the forward')
    return odd(act, b=zeros(), n=int, log=list)
def in_thread(m, x):
    t = threading.Thread(target=lambda: m.norm(torch.ones(3, 4)))
    t.start(); t.join()

paths = [
    Case('a layer in every other forward', through(half, n=int)),
    Case('a layer by chance', through(by_chance)),
    Case('a profile in the forward', odd(profiled_inside, inner=lambda: [nn.Linear(4, 3)]), check=outer_rows),
    Case('an estimate in the forward', odd(estimated_inside, inner=lambda: [nn.Linear(4, 3)]), check=outer_rows,
        paper='.'),
    Case('a profile of itself in the forward', odd(itself_inside, busy=list), check=outer_rows, varies=True),
    Case('a layer in another thread', odd(in_thread), paper='.'),
    Case('250 modules in one another', lambda: (Nested(250), batch()), may='recursion'),
    Case('5000 modules', lambda: (nn.Sequential(*(nn.Linear(4, 4) for _ in range(5000))), batch()), may='recursion'),
    *[Case(f'{e.__name__} in forward {at}', erring(e, at), may='an error of the forward', varies=True)
        for e in (RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, torch.OutOfMemoryError,
            Oops) for at in (1, 2)],
]

# --- weights rescaled once, in the first forward ---
class Rescaled(nn.Module):
    "Weights are halved once, and the result doubled from then on"
    def __init__(self, how):
        super().__init__()
        self.lin, self.how, self.done = nn.Linear(4, 4, bias=False), how, False
    def forward(self, x):
        saw(x)
        if not self.training and not self.done: self.how(self.lin.weight); self.done = True
        return self.lin(x)*(2 if self.done else 1)
def halve_data(w): w.data = w.data/2
def halve_in_place(w): w.data.div_(2)
def halve(w):
    with torch.no_grad(): w.div_(2)
def rescaled(how):
    def make():
        m, x = Rescaled(how), batch()
        with torch.no_grad(): return m, x, deepcopy(m).eval()(x)
    return make
def same_logits(m, s, expected, result):
    with torch.no_grad(): got = m.eval()(s)
    return [] if torch.equal(got, expected) else ['weights and flag are at odds: other results than before']
once = [Case(f'weights rescaled once, {h.__name__}', rescaled(h), may=names_weight, paper=set_data, check=same_logits,
    excuse=r'lin\.weight|\.done') for h in (halve_data, halve_in_place, halve)]

# --- copies ---
class Wrapped(torch.Tensor):
    "A tensor around another"
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device,
            requires_grad=inner.requires_grad)
    def __init__(self, inner): self.inner = inner
    def __tensor_flatten__(self): return ['inner'], None
    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride): return Wrapped(inner['inner'])
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        bare = tree_map(lambda t: t.inner if isinstance(t, Wrapped) else t, (args, kwargs or {}))
        out = func(*bare[0], **bare[1])
        if func._opname not in ('detach', 'clone', '_to_copy', 'alias', 'view', 't', 'empty_like'): return out
        return return_and_correct_aliasing(func, args, kwargs,
            tree_map(lambda t: Wrapped(t) if isinstance(t, torch.Tensor) else t, out))

def wrapped(m): m.lin.weight = nn.Parameter(Wrapped(torch.randn(4, 4)))
def wrapped_buffer(m): m.register_buffer('b', Wrapped(torch.zeros(4)))
def normed(m): m.lin = nn.utils.parametrizations.weight_norm(m.lin)
def old_normed(m): m.lin = nn.utils.weight_norm(m.lin)
def spectral(m): m.lin = nn.utils.parametrizations.spectral_norm(m.lin)
def lazy(m): m.lin = nn.LazyLinear(4)
def with_meta(m): m.register_buffer('b', torch.zeros(4, device='meta'))
def quiet(f):
    def made():
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            return f()
    return made
def not_copied(self, memo): raise ValueError('this model is not copied')
class Mover(Through):
    "Moves modules that are not registered"
    def _apply(self, f, *args):
        for l in self.layers: l._apply(f)
        return super()._apply(f, *args)
class Simple(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
    def forward(self, x): return self.norm(self.lin(x))

scriptless = 'TorchScript|script'
copies = [
    Case('scripted model', quiet(lambda: (torch.jit.script(Simple()), batch())), paper=scriptless),
    Case('scripted child', quiet(lambda: (nn.Sequential(torch.jit.script(Simple()), nn.Linear(4, 4)), batch())),
        paper=scriptless),
    Case('traced child', quiet(lambda: (nn.Sequential(torch.jit.trace(Simple(), batch()), nn.Linear(4, 4)), batch())),
        paper=scriptless,
        excuse='_actual_script_module'),   # which keeps its method from the first call on
    Case('frozen scripted model', quiet(lambda: (torch.jit.freeze(torch.jit.script(Simple().eval())), batch())),
        paper=scriptless),
    Case('compiled child', lambda: (nn.Sequential(torch.compile(Simple(), backend='eager'), nn.Linear(4, 4)),
        batch()), excuse='dynamo_ctx'),
    Case('traced by FX', lambda: (torch.fx.symbolic_trace(Simple()), batch())),
    Case('parameter that wraps another', odd(lambda m,x: None, cls=cls_with(wrapped)),
        paper="Wrapped|copied|wrapp|subclass"),
    Case('buffer that wraps another', odd(lambda m,x: m.b.add_(1), cls=cls_with(wrapped_buffer)),
        paper="Wrapped|copied|wrapp|subclass"),
    Case('weight_norm', odd(lambda m,x: None, cls=cls_with(normed))), Case('old weight_norm',
        quiet(odd(lambda m,x: None, cls=cls_with(old_normed)))),
    Case('spectral_norm', odd(lambda m,x: None, cls=cls_with(spectral))),
    Case('lazy parameters', odd(lambda m,x: None, cls=cls_with(lazy)), may='initialized'),
    Case('a buffer on meta', odd(lambda m,x: None, cls=cls_with(with_meta)), may='meta'),
    Case('_apply() that moves hidden modules', odd(call_all, cls=Mover, layers=lambda: [nn.Linear(4, 4)]), paper='.'),
    Case('deepcopy raises', odd(tick, cls=hiding(__deepcopy__=not_copied)), paper='copied'),
    Case('deepcopy returns itself', odd(tick, cls=hiding(__deepcopy__=lambda self, memo: self)), paper='copied|copy'),
    Case('deepcopy shares the layers', odd(tick, cls=hiding(__deepcopy__=lambda self, memo: self.shallow(),
        shallow=lambda self: _shallow(self))), paper='copied|copy'),
    Case('deepcopy of a child raises', odd(lambda m,x: None,
        cls=cls_with(lambda m: put(m, part=hiding(__deepcopy__=not_copied)(lambda m,x: None, {})))), paper='copied'),
    Case('result of an earlier forward kept', odd(lambda m,x: None,
        cls=cls_with(lambda m: put(m, y=m.lin(torch.ones(1, 4))))), paper='.'),
]
def _shallow(m):
    new = type(m).__new__(type(m))
    vars(new).update(vars(m))
    return new

groups = dict(values=values, state=state, settings=settings, lazily=lazily, graphs=graphs, samples=samples,
    paths=paths, once=once, copies=copies)
cases = [c for g in groups.values() for c in g]
