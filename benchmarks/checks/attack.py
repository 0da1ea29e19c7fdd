"""Is everything as it was after a profile, an estimate and a count, whatever happens in them?

What is different afterwards in a model, its sample or the settings of the process, bit for bit, is reported: after an
interrupt at every place where Python looks for one, at every line, and at random times; after an error at every line
and in every operation that torch dispatches; and after forwards of odd models. Drawn models are trained for ten steps
beside untouched twins, and the memory that putting back takes is held against a bound. Damaged files are loaded and
shown, and calls come from inside of transforms, or are the first of their kind. The exit code is 1 if anything was
different. A run of everything writes its table, with the device and the versions, to benchmarks/results/attack.txt.

    python -m benchmarks.checks.attack [--only pending,lines,body,dispatch,timer,cases,training,memory,files,code,modes,cold]
        [--sample 40] [--verbose] [--buffers] [--idle]
"""
import ast, ctypes, dis, json, os, random, re, signal, sys, time, warnings
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

os.environ.setdefault('OMP_NUM_THREADS', '1')   # a child of a process with more threads than one could not use torch
import contextlib, numpy as np, torch, torch._dynamo
from fastcore.script import call_parse
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import fasterbench
from fasterbench.base.core import call_args
from fasterbench.costs import count_costs
from fasterbench.roofline import RooflineAnalyzer
from benchmarks.checks import attack_cases
from benchmarks.checks.attack_cases import peaks
from benchmarks.checks.attack_files import code_attempt, code_items, damages, file_attempt, file_items
from benchmarks.checks.attack_isolated import apart, in_child, isolated
from benchmarks.checks.attack_memory import memory_attempt, memory_items
from benchmarks.checks.attack_places import cold_attempt, colds, mode_attempt, modes
from benchmarks.checks.attack_training import training_attempt
from benchmarks.checks.snapshots import Snapshot, differences
from benchmarks.shared.report import chosen, write_result
from scripts.evidence import part_text, table

operations = dict(
    profile=lambda model, sample: RooflineAnalyzer(model, sample, peaks).profile(warmup=1, steps=2),
    estimate=lambda model, sample: RooflineAnalyzer(model, sample, peaks).estimate(),
    count=count_costs)

plain = []   # not empty: the attacked model writes to its buffers and its sample only

def victim(): return attack_cases.victim(bool(plain))

# --- where: lines and calls in files whose code starts, ends and measures ---
own = Path(fasterbench.__file__).parent
own_files = frozenset(str(f) for f in own.rglob('*.py'))
_torch = Path(torch.__file__).parent
settings_files = frozenset({contextlib.__file__, *(str(_torch/f) for f in ('utils/_contextlib.py',
    'autograd/grad_mode.py', 'random.py',
    'utils/_python_dispatch.py', '_dynamo/eval_frame.py', 'compiler/__init__.py'))})

@cache
def putting_back(file)->set: # lines
    "The lines of `finally` and `except` blocks, and of methods that end a context"
    res = set()
    for n in ast.walk(ast.parse(Path(file).read_text())):
        blocks = getattr(n, 'finalbody', []) + getattr(n, 'handlers', [])
        if isinstance(n, ast.FunctionDef) and n.name in ('__exit__', '__del__'): blocks = n.body
        for b in blocks: res.update(range(b.lineno, b.end_lineno+1))
    return res

def callers(frame):
    while frame: yield frame; frame = frame.f_back

def in_putting_back(frame)->bool:
    "Is what runs now called by something that puts back?"
    def back(f): return f.f_code.co_filename in own_files and f.f_lineno in putting_back(f.f_code.co_filename)
    return any(f.f_code.co_name=='__exit__' or back(f) for f in callers(frame))

@cache
def file_name(path): return Path(path).name   # asked for at every line that is traced

def place(frame): return f'{file_name(frame.f_code.co_filename)}:{frame.f_lineno} {frame.f_code.co_name}'

def caller_line(frame):
    f = next((f for f in callers(frame) if f.f_code.co_filename in own_files), None)
    return f and f'{file_name(f.f_code.co_filename)}:{f.f_lineno}'

# --- when: the first and the last time that a line, or a call, is executed ---
@cache
def calls_in(code)->dict: # offset → name of an instruction after which Python looks for signals
    return {i.offset: i.opname for i in dis.get_instructions(code) if i.opname.startswith(('CALL', 'JUMP_BACKWARD',
        'JUMP_ABSOLUTE', 'BEFORE_WITH', 'SETUP_WITH'))}

class Tracer:
    "Calls `act` at one point, or counts how often each is passed"
    def __init__(self, files, act=None, at=None, by_call=False):
        self.files, self.act, self.at, self.by_call = files, act, at and [*at], by_call
        self.passed, self.hit = Counter(), False
    def __enter__(self): sys.settrace(self.started); return self
    def __exit__(self, *args): sys.settrace(None)
    def started(self, frame, event, arg):
        if frame.f_code.co_filename not in self.files: return None
        frame.f_trace_opcodes = self.by_call
        return self.called if self.by_call else self.line
    def here(self, frame, where)->bool:
        "Is this the point?"
        key = caller_line(frame), file_name(frame.f_code.co_filename), frame.f_code.co_name, where
        self.passed[key] += 1
        if self.hit or self.at!=[*key, self.passed[key]]: return False
        self.hit = True
        sys.settrace(None)
        return True
    def line(self, frame, event, arg):
        if event=='line' and self.here(frame, frame.f_lineno): self.act(frame)
        return self.line
    def called(self, frame, event, arg):
        if event=='opcode' and frame.f_lasti in calls_in(frame.f_code) and self.here(frame, frame.f_lasti):
            for _ in map(_trip, (0,)): return None   # no instruction here, from the signal on, makes Python look for it
        return self.called

_trip = ctypes.pythonapi['PyErr_SetInterrupt']   # as if the signal had arrived now
_trip.argtypes, _trip.restype = [ctypes.c_int], None

@cache
def points(op, files, by_call):
    "Where `op` passes: the first and the last time of each place"
    def passed():
        with Tracer(files, by_call=by_call) as t: operations[op](*victim())
        return [[*k, n] for k,last in t.passed.items() for n in sorted({1, last})]
    return in_child(passed)

# --- what: errors and interrupts ---
class Injected(Exception): "Raised by an attack"

def interrupt(frame): signal.raise_signal(signal.SIGINT)

def fail(frame):
    if in_putting_back(frame): return   # which is not asked to bear an error of its own
    raise Injected('an error of an attack')

def said_by(e)->str:
    "All that an error says, with those behind it"
    res, seen = '', set()
    while e is not None and id(e) not in seen:
        seen.add(id(e))
        res += f'{type(e).__name__}: {e} ' + ' '.join(getattr(e, '__notes__', ())) + ' '.join(map(said_by,
            getattr(e, 'exceptions', ())))
        e = e.__cause__ or e.__context__
    return res

def attempted(f):
    "What came out of `f()`, an error or `None`, and the warnings"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter('always')
        try:
            f()
            for _ in range(3): time.sleep(0)   # a signal that is held until the end comes now
            error = None
        except BaseException as e: error = e
    return error, ' '.join(str(w.message) for w in told)

def again(op, model, sample, before):
    "Does it work after all that?"
    error, _ = attempted(lambda: operations[op](model, sample))
    if error is not None: return [f'does not work any more: {said_by(error)[:200]}']
    return ['after one more: ' + d for d in differences(before, Snapshot(model=model, sample=sample))]

def came_out(error, expected):
    "As it was raised, or, if it is no interrupt, in the words of another one"
    if isinstance(error, expected): return True
    return expected is not KeyboardInterrupt and 'an error of an attack' in said_by(error)

def struck(op, strike, expected):
    "What is wrong after `op` on the victim inside of `strike`"
    model, sample = victim()
    before = Snapshot(model=model, sample=sample)
    error, told = attempted(lambda: strike(lambda: operations[op](model,
        sample)))   # kept: so its frames end nothing by going
    after = Snapshot(model=model, sample=sample)
    found = differences(before, after)
    if error is None: found.append(f'{expected.__name__} did not come out')
    elif not came_out(error, expected): found.append(f'not {expected.__name__} came out but {said_by(error)[:200]}')
    return found, error, told, lambda: again(op, model, sample, before)

def trace_attack(files, act, expected, by_call):
    "An attempt for `isolated`: a strike at one point"
    def attempt(item):
        op, at = item
        tracer = Tracer(files, act, at, by_call)
        def strike(f):
            with tracer: f()
        found, error, *_, once_more = struck(op, strike, expected)
        if not tracer.hit: return []   # it took another way this time
        if expected is Injected and error is None: return []   # a line that puts back
        return found or once_more()
    return attempt

def traced(files, act, expected, by_call=False):
    def items(): return [(op, p) for op in operations for p in points(op, files, by_call)]
    return items, trace_attack(files, act, expected, by_call)

# --- errors in dispatched operations ---
class Failing(TorchDispatchMode):
    "Raises in one dispatched operation, and notes whether that was while putting back"
    supports_higher_order_operators = True
    def __init__(self, at=None, error=None):
        super().__init__()
        self.at, self.error, self.n, self.back = at, error, 0, None
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.n += 1
        if self.n==self.at:
            self.back = in_putting_back(sys._getframe())
            raise self.error
        return func(*args, **(kwargs or {}))

dispatch_errors = dict(RuntimeError=RuntimeError, KeyboardInterrupt=KeyboardInterrupt,
    OutOfMemoryError=torch.OutOfMemoryError)

def dispatched(op):
    def number():
        with Failing() as mode: operations[op](*victim())
        return mode.n
    return in_child(number)

def excused(found, error, told)->bool:
    "One tensor whose own putting back failed, and is named"
    names = {re.split(r'[ \[]', d)[0].rsplit('.', 1)[-1] for d in found}
    return len(names)==1 and all(n in said_by(error) + told for n in names)

def dispatch_attempt(item):
    op, kind, k = item
    mode = Failing(k, dispatch_errors[kind](f'an error of an attack, in operation {k}'))
    def strike(f):
        with mode: f()
    found, error, told, once_more = struck(op, strike, dispatch_errors[kind])
    if mode.back is None: return []
    if mode.back and found and excused(found, error, told): return []
    another_way = mode.back and error is None and kind!='KeyboardInterrupt'   # of putting back was found
    if another_way and len(found)==1: return []
    if error is not None and 'an error of an attack' not in said_by(error): found.append('the error is not named')
    if found: return [f"({'while putting back' if mode.back else 'in the body'}) {d}" for d in found]
    return [] if mode.back else once_more()

def dispatch_items(): return [(op, e, k) for op in operations for e in dispatch_errors for k in range(1,
    dispatched(op)+1)]

# --- interrupts at random times ---
def seconds(op):
    def took():
        for _ in range(3):
            start = time.perf_counter()
            operations[op](*victim())
        return time.perf_counter()-start
    return in_child(took)

def timer_items(n=150):
    draw, res = random.Random(0), []
    for op in operations:
        long = seconds(op)
        res += [(op, draw.uniform(1e-5, 1.1*long)) for _ in range(n)]
    return res

def discards(where): return re.match(r'copyreg\.py:\d+ _slotnames', where)   # Python's own `try: … except: pass`, in copy.deepcopy

def timer_attempt(item):
    op, delay = item
    lost, fired = [], []
    def ring(number, frame): fired.append(' < '.join(place(f) for f in [*callers(frame)][:8])); signal.raise_signal(signal.SIGINT)
    def strike(f):
        signal.setitimer(signal.ITIMER_REAL, delay)
        try: f()
        finally: signal.setitimer(signal.ITIMER_REAL, 0)
    sys.unraisablehook = lambda u: lost.append(u)   # where nothing can be raised: in a `__del__`
    signal.signal(signal.SIGALRM, ring)
    found, *_, once_more = struck(op, strike, KeyboardInterrupt)
    if not fired or lost or discards(fired[0]): found = [d for d in found if 'did not come out' not in d]
    return [f'{d} (it came in {fired[0]})' if 'did not come out' in d else d for d in found] or once_more()

# --- odd models ---
by_name = {c.name: c for c in attack_cases.cases}

def made(case):
    attack_cases.seen.clear()
    torch.manual_seed(0); np.random.seed(0); random.seed(0)
    torch.__future__.set_swap_module_params_on_conversion(False)
    return case.make()

def trained(model, sample)->str:
    "What a step of training comes to: all tensors afterwards, or an error"
    torch.manual_seed(1); np.random.seed(1); random.seed(1)
    args, kwargs = call_args(sample)
    try:
        out = model.train()(*args, **kwargs)
        loss = sum(t.float().square().sum() for t in tree_leaves(out) if isinstance(t, torch.Tensor))
        loss.backward()
    except BaseException as e: return f'error: {type(e).__name__}: {e}'[:200]
    own = [t for m in below(model) for t in (*m._parameters.values(), *m._buffers.values()) if t is not None]
    held = (*own, *(t.grad for t in own if t.is_leaf), loss)
    floats = [(t.sum().item(), t.abs().sum().item()) for t in held if isinstance(t, torch.Tensor)
        and t.dtype in (torch.float32, torch.float64) and t.layout is torch.strided and not t.is_nested and not t.is_meta]
    return json.dumps(floats)

def below(m): return [m, *(o for c in m._modules.values() if c is not None for o in below(c))]

def nearly(a, b):
    "Are two results of training the same, but for the last digits (which depend on where in memory tensors lie)?"
    a, b = json.loads(a), json.loads(b)
    return len(a)==len(b) and np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)

@cache
def untrained(name)->str:
    "The same, of a model that nothing was done to before"
    return apart(lambda: trained(*made(by_name[name])[:2]))

def still_trains(expected, got, model, sample, excused):
    if "autograd's threading" in got: got = trained(model, sample)   # that has run in this process already
    if expected.startswith('error') or (excused and not got.startswith('error')): return []
    if got.startswith('error'): return [f'training: {got}']
    if nearly(got, expected): return []
    return ['training: ' + (got if got.startswith('error') else 'another result than without')]

def answer(case, op, error):
    "Is what came out an answer?"
    may = case.paper if op=='estimate' and case.paper is not None else case.may
    if error is None or (may and re.search(may, said_by(error))): return []
    return [f'raises {said_by(error)}'[:300]]

def case_attempt(item):
    op, name = item
    case, result, expected = by_name[name], [], untrained(name)
    model, sample, *extra = made(case)
    before = Snapshot(model=model, sample=sample)
    error, _ = attempted(lambda: result.append(operations[op](model, sample)))
    inputs = {s for s in attack_cases.seen if isinstance(s, tuple)}
    found = differences(before, Snapshot(model=model, sample=sample))
    excused = bool(case.excuse and found) and all(re.search(case.excuse, d) for d in found)
    found = answer(case, op, error) + (found if not excused else [])
    if len(inputs)>1 and not case.varies: found.append(f'the forwards got different inputs: {[*inputs][:3]}')
    got = apart(lambda: trained(model, sample))
    if case.check: found += case.check(model, sample, *(extra or [None]), *(result or [None]))
    return found + still_trains(expected, got, model, sample, excused)

def case_items(): return [(op, c) for c in by_name for op in operations]

# --- parts ---
everywhere = own_files | settings_files
parts = dict(
    pending=(*traced(everywhere, None, KeyboardInterrupt, by_call=True), 'interrupts wherever Python looks for them'),
    lines=(*traced(own_files, interrupt, KeyboardInterrupt), 'interrupts at every line of fasterbench'),
    body=(*traced(own_files, fail, Injected), 'errors at every line that does not put back'),
    dispatch=(dispatch_items, dispatch_attempt, 'errors in every dispatched operation'),
    timer=(timer_items, timer_attempt, 'interrupts at random times'),
    cases=(case_items, case_attempt, 'odd models and samples'),
    training=(lambda: [('all', seed) for seed in range(200)], lambda item: training_attempt(item, operations),
        'ten steps of training'),
    memory=(memory_items, memory_attempt, 'memory'),
    files=(file_items, file_attempt, f'{damages} odd values in saved files'),
    code=(code_items, code_attempt, 'files that would run code'),
    modes=(lambda: [(op, m) for m in modes for op in operations], lambda item: mode_attempt(item, operations), 'where tensors stand for others'),
    cold=(lambda: [(op, c) for c in colds for op in operations], lambda item: cold_attempt(item, operations), 'first calls of a process'),
)

shares = dict(training=0.5, memory=0.025)   # of a sample: these take longer

def drawn(name, items, n):
    n = max(round(n*shares.get(name, 1)), 1) if n else len(items)
    return random.Random(0).sample(items, n) if n<len(items) else items

def run_part(name, n):
    "Rows of the table, and what was found: (item, lines)"
    items, attempt, what = parts[name]
    start, all_items = time.time(), items()
    chosen = drawn(name, all_items, n)
    by_op, found = defaultdict(lambda: [0, 0]), []
    for item,said in isolated(chosen, attempt, 300, alone=name in ('cases', 'cold')):
        by_op[item[0]][0] += 1
        by_op[item[0]][1] += bool(said)
        if said: found.append((item, said))
    print(f'{name}: {time.time()-start:.0f} s for {len(chosen)} of {len(all_items)}', flush=True)
    return [[what, op, tried, bad] for op,(tried,bad) in by_op.items()], found

def show(name, found, verbose):
    for item,said in found if verbose else found[:5]:
        print(f'  {name} {item}:', *said[:None if verbose else 3], sep='\n      ', flush=True)
    if not verbose and len(found)>5: print(f'  … and {len(found)-5} more')

headers = ['attack', 'operation', 'attacks', 'different\nafterwards']

@call_parse
def main(
    only:str='', # parts, with commas; all of them by default
    sample:int=0, # attacks of each part, drawn in the same way each time; 0: all
    verbose:bool=False, # print all that was found
    buffers:bool=False, # interrupts and errors: in forwards that write to buffers and the sample only
    idle:bool=False, # do nothing where a profile would be: then nothing is to be found
):
    "Attack, and report what was left different"
    signal.signal(signal.SIGINT, signal.default_int_handler)   # a job in the background was started without
    torch.set_num_threads(1)
    for name in ('profile', 'count'): operations[name](*victim())   # so that nothing is imported later
    # (A fake mode makes autograd start a thread, which may fail in a process that is forked after that.)
    if buffers: plain.append(True)
    if idle: operations.update(dict.fromkeys(operations, lambda model, sample: []))
    rows, wrong = [], 0
    for name in chosen(parts, only):
        new, found = run_part(name, sample)
        show(name, found, verbose)
        rows, wrong = rows + new, wrong + len(found)
    found = table(rows, headers)
    if sample or idle or buffers or only: print(part_text(found))
    else: write_result('attack', 'each attack in a process of its own, on one thread', found, figures=dict(attacks=sum(r[2] for r in rows), different=wrong))
    sys.exit(wrong>0)
