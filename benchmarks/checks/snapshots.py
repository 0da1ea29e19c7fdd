"""All that a model, its sample and the settings of the process are, bit for bit, and what has become different

Nothing of fasterbench is used here: what puts state back is held against another reading of what state there is.
"""
import gc, os, random, signal, sys, threading, types, warnings
from collections import deque
from functools import partial
from inspect import getgeneratorstate
from operator import length_hint

import numpy as np, torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

numbers = type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size, slice, range
opaque = (type, types.ModuleType, types.BuiltinFunctionType, types.MethodDescriptorType, types.CodeType,
    type(threading.Lock()),
    type(threading.RLock()), torch._ops.OpOverload, torch._ops.OpOverloadPacket)

def same_thing(o):
    "What stands for `o` in what holds it: a number by its value, anything else by itself"
    return (type(o).__name__, repr(o)) if isinstance(o, numbers) else (type(o).__name__, id(o))

def raw(t):
    "The bits of a strided tensor's elements, of a copy: a storage that an array shares can't be resized"
    size, flat = t.element_size(), torch.empty(0, dtype=torch.uint8, device='cpu')
    flat.set_(t.untyped_storage())
    shape, strides = (*t.shape, size), (*(s*size for s in t.stride()), 1)
    return flat.as_strided(shape, strides, t.storage_offset()*size).clone().numpy().tobytes()

def sparse_parts(t):
    if t.layout is torch.sparse_coo: return dict(indices=t._indices(), values=t._values())
    names = ('crow_indices', 'col_indices') if t.layout in (torch.sparse_csr, torch.sparse_bsr) else ('ccol_indices',
        'row_indices')
    return {n: getattr(t, n)() for n in (*names, 'values')}

def inner_tensors(t):
    "The tensors that one consists of; `None`: it has a storage of its own"
    if is_traceable_wrapper_subclass(t): return {n: getattr(t, n) for n in t.__tensor_flatten__()[0]}
    if t.is_nested: return dict(enumerate(t.detach().unbind()))
    if t.layout not in (torch.strided, torch._mkldnn): return sparse_parts(t.detach())

def of_storage(t):
    s = t.untyped_storage()
    size = dict(shape=tuple(t.shape), strides=t.stride(), offset=t.storage_offset())
    if t.is_meta: return size
    res = dict(size, pointer=s.data_ptr(), storage=s._cdata, bits=raw(t))
    if not t.is_quantized: return res
    return dict(res, qscheme=str(t.qscheme()), scale=t.q_scale() if t.qscheme()==torch.per_tensor_affine else 0)

def of_parts(t, parts):
    kept = 'bits', 'shape', 'dtype', 'strides'
    return {f'{n}.{k}': v for n,p in parts.items() for k,v in of_tensor(p).items() if k in kept}

def own_names(t): return [k for k in vars(t) if not k.startswith('_dynamo')]   # which torch itself notes on tensors

def of_tensor(t):
    "What a tensor is"
    if nn.parameter.is_lazy(t): return dict(type=type(t), requires_grad=t.requires_grad)
    with torch.no_grad():
        parts = inner_tensors(t)
        own = of_parts(t, parts) if parts is not None else {} if t.layout is torch._mkldnn else of_storage(t)
    grad = same_thing(t.grad) if t.is_leaf else None
    return dict(own, dtype=t.dtype, device=t.device, requires_grad=t.requires_grad, inference=t.is_inference(),
        leaf=t.is_leaf,
        view=t._is_view() and id(t._base), grad=grad, type=type(t), conj=t.is_conj(), names=own_names(t))

def slots(o):
    "The attributes of `o` that are not in its `__dict__`"
    res = {}
    for c in type(o).__mro__:
        if not c.__flags__ & 1<<9: continue   # written in C
        for k,d in vars(c).items():
            if not isinstance(d, types.MemberDescriptorType): continue
            try: res[k] = d.__get__(o)
            except AttributeError: pass   # not set
    return res

def scripted(m):
    return {**dict(m.named_parameters(recurse=False)), **dict(m.named_buffers(recurse=False))} if isinstance(m,
        torch.jit.ScriptModule) else {}

def attributes(o): return {**getattr(o, '__dict__', {}), **slots(o), **scripted(o)}

def closed_over(f):
    "What a function has of its own"
    cells = [c.cell_contents for c in f.__closure__ or () if not _empty(c)]
    return [*cells, *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]

def _empty(cell):
    try: cell.cell_contents
    except ValueError: return True
    return False

def of_array(a): return dict(bits=a.tobytes() if a.dtype!=object else None, shape=a.shape, strides=a.strides,
    dtype=a.dtype, pointer=a.ctypes.data, writeable=a.flags.writeable)

def of_iterator(o):
    if isinstance(o, types.GeneratorType): return dict(at=o.gi_frame and o.gi_frame.f_lasti, state=getgeneratorstate(o))
    return dict(left=length_hint(o, -1), at=repr(o) if type(o).__module__=='itertools' else None)

randoms = { # sources of random numbers → their state
    torch.Generator: lambda o: o.get_state().numpy().tobytes(), random.Random: lambda o: o.getstate(),
    np.random.Generator: lambda o: repr(o.bit_generator.state), np.random.RandomState: lambda o: repr(o.get_state()),
}

def parts(o):
    "What is in `o`, by name, and what more there is to say of it"
    if nn.parameter.is_lazy(o): return {}, of_tensor(o)
    if isinstance(o, torch.Tensor):
        return {**({'.grad': o.grad} if o.is_leaf else {}), **{f'.{k}': vars(o)[k] for k in own_names(o)}}, of_tensor(o)
    state = next((f for t,f in randoms.items() if isinstance(o, t)), None)
    if state: return {}, dict(state=state(o))
    if isinstance(o, np.ndarray): return (dict(enumerate(o.flat)) if o.dtype==object else {}), of_array(o)
    if isinstance(o, types.FunctionType): return dict(enumerate(closed_over(o))), {}
    if isinstance(o, types.MethodType): return {'.__self__': o.__self__}, {}
    if isinstance(o, partial): return {'.func': o.func, '.args': o.args, '.keywords': o.keywords}, {}
    if isinstance(o, bytearray): return {}, dict(bytes=bytes(o))
    if hasattr(type(o), '__next__') and not hasattr(o, '__dict__'): return {}, of_iterator(o)
    return of_container(o)

def key_name(k): return f'[{k!r}]' if isinstance(k, numbers) else f'[{type(k).__name__} {id(k)}]'

def of_container(o):
    "The same of a container, a module or any other object"
    own = {f'.{k}': v for k,v in attributes(o).items()}
    said = dict(order=[*own])
    if isinstance(o, dict):
        return {**own, **{key_name(k): v for k,v in dict.items(o)}}, dict(said,
            keys=[same_thing(k) for k in dict.keys(o)])
    if isinstance(o, (set, frozenset)):
        return {**own, **{f'{{{i}}}': v for i,v in enumerate(o)}}, dict(said, members={same_thing(v) for v in o})
    kind = next((c for c in (list, tuple, deque) if isinstance(o, c)), None)
    if kind is None: return own, said
    return {**own, **{f'[{i}]': v for i,v in enumerate(kind.__iter__(o))}}, dict(said,
        maxlen=getattr(o, 'maxlen', None))

def shortened(path, name):
    "Parameters, buffers and children by the names that they have in a model"
    for k in ('_parameters', '_buffers', '_modules'):
        if path.endswith(f'.{k}') and name.startswith("['"): return f'{path[:-len(k)-1]}.{name[2:-2]}'
    return f'{path}{name}'

class Snapshot:
    "Every object that can be reached from `roots` (name → object), and the settings of the process"
    def __init__(self, **roots):
        self.settings, self.seen, self.alive = settings(), {}, []
        queue = deque(roots.items())
        while queue:
            path, o = queue.popleft()
            if isinstance(o, (*numbers, *opaque)) or id(o) in self.seen: continue
            inside, said = parts(o)
            self.alive += [o, inside]   # or another object could get the same `id`
            named = {} if isinstance(o, (set, frozenset)) else {k: same_thing(v) for k,v in inside.items()}
            self.seen[id(o)] = path, {**said, **named}
            queue.extend((shortened(path, k if isinstance(k, str) else f'[{k}]'), v) for k,v in inside.items())

def _shown(v):
    if isinstance(v, tuple) and len(v)==2 and isinstance(v[0], str): return v[1] if isinstance(v[1],
        str) else f'a {v[0]}'
    return str(v) if len(str(v))<60 else f'{type(v).__name__} of {len(v)}' if hasattr(v,
        '__len__') else type(v).__name__

def _told(path, k, old, new):
    missing = object()
    a, b = old.get(k, missing), new.get(k, missing)
    if a is missing: return f'{path}{k}: added'
    if b is missing: return f'{path}{k}: gone'
    if _shown(a)==_shown(b): return f'{path} {k}: another {_shown(a).removeprefix("a ")}'
    return f'{path} {k}: {_shown(a)} → {_shown(b)}'

def differences(a:Snapshot, b:Snapshot)->list[str]:
    "What is different in `b`, a line each"
    res = []
    for key,(path,old) in a.seen.items():
        if key not in b.seen: continue   # what holds it tells
        new = b.seen[key][1]
        res += [_told(path, k, old, new) for k in {**old, **new} if k not in old or k not in new or old[k]!=new[k]]
    return res + [_told('settings ', k, a.settings, b.settings) for k in {**a.settings,
        **b.settings} if a.settings.get(k)!=b.settings.get(k)]

def _free(lock):
    "Can another thread have it?"
    got = []
    def attempt():
        got.append(lock.acquire(blocking=False))
        if got[0]: lock.release()
    t = threading.Thread(target=attempt)
    t.start(); t.join()
    return got[0]

def locks():
    "The locks of fasterbench's modules that are held"
    kinds = type(threading.RLock()), type(threading.Lock())
    mods = [m for n,m in [*sys.modules.items()] if n.startswith('fasterbench.')]
    named = {id(v): (k, v) for m in mods for k,v in vars(m).items() if isinstance(v, kinds)}
    return [k for k,v in named.values() if not _free(v)]

def precisions():
    b, res = torch.backends, {}
    for g in ('cuda', 'cudnn', 'mkldnn'):
        for n in ('matmul', 'conv', 'rnn'): res[f'{g}.{n}'] = getattr(getattr(getattr(b, g), n, None),
            'fp32_precision', None)
    for k in ('benchmark', 'deterministic', 'enabled',
        'allow_tf32'): res[f'cudnn.{k}'] = _read(lambda: getattr(b.cudnn, k))
    return dict(res, matmul=_read(torch.get_float32_matmul_precision), fp32=getattr(b, 'fp32_precision', None))

def _read(f):
    try: return f()
    except RuntimeError as e: return str(e)[:60]   # torch does not read old switches after new ones were set

def autocast():
    res = dict(cache=torch.is_autocast_cache_enabled())
    for d in ('cpu', 'cuda'): res[f'autocast {d}'] = torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)
    return res

def global_hooks():
    held = {k: v for k,v in vars(hooks).items() if k.startswith('_global_') and isinstance(v, dict)}
    return {k: [(n, id(h)) for n,h in v.items()] for k,v in held.items()}

def torch_modes():
    c = torch._C
    return dict(grad=torch.is_grad_enabled(), inference=torch.is_inference_mode_enabled(),
        anomaly=torch.is_anomaly_enabled(), function_modes=c._len_torch_function_stack(),
        dispatch_modes=c._len_torch_dispatch_stack(), device=str(torch.get_default_device()),
        threads=torch.get_num_threads(), default_dtype=torch.get_default_dtype())

def torch_settings():
    future, cuda, dynamo = torch.__future__, torch.backends.cuda, sys.modules.get('torch._dynamo.eval_frame')
    return dict(deterministic=torch.are_deterministic_algorithms_enabled(),
        warn_only=torch.is_deterministic_algorithms_warn_only_enabled(), mkldnn=torch.backends.mkldnn.enabled,
        flash=cuda.flash_sdp_enabled(), math=cuda.math_sdp_enabled(), stance=repr(dynamo._stance) if dynamo else None,
        swapping=future.get_swap_module_params_on_conversion(),
        overwriting=future.get_overwrite_module_params_on_conversion(),
        **torch_modes(), **precisions(), **autocast(), **global_hooks())

def random_states():
    return dict(rng=torch.get_rng_state().numpy().tobytes(), numpy_rng=repr(np.random.get_state()),
        python_rng=random.getstate())

def of_python():
    return dict(interrupts=signal.getsignal(signal.SIGINT), alarms=signal.getsignal(signal.SIGALRM), gc=gc.isenabled(),
        recursion=sys.getrecursionlimit(), filters=len(warnings.filters), errstate=np.geterr(), folder=os.getcwd(),
        threads_alive=threading.active_count(), stdout=id(sys.stdout), stderr=id(sys.stderr))

def settings():
    "Everything that is set for the whole process"
    costs = sys.modules.get('fasterbench.costs')
    return dict(torch_settings(), **random_states(), **of_python(), locks=locks(),
        weight_sizes=len(getattr(costs, 'weight_sizes', ())),
        processors=os.sched_getaffinity(0) if hasattr(os, 'sched_getaffinity') else None)
