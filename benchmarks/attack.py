"""Is everything as it was after a profile, an estimate and a count, whatever happens in them?

What is reported is what is different afterwards in a model, its sample or the settings of the process, bit for bit:
after an interrupt at every place in which Python looks for one, at every line, and at random times; after an error in every operation that torch
dispatches; and after forwards of odd models. `--training` trains drawn models after a profile and untouched twins;
`--memory` takes the memory that putting back needs. Each attack is made in a child process. Without a sample, results are
written, with the device and the versions, to benchmarks/results/attack.txt. The exit code is 1 if anything was different.

    python benchmarks/attack.py [--only pending,lines,body,dispatch,timer,cases,training,memory] [--sample 40] [--verbose]
"""
import ast, ctypes, dis, os, random, signal, sys, threading, time, traceback, warnings
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

os.environ.setdefault('OMP_NUM_THREADS', '1')   # a child of a process with more threads than one could not use torch
import contextlib, torch, torch._dynamo
from fastcore.script import call_parse
from tabulate import tabulate
from torch.utils._python_dispatch import TorchDispatchMode

import fasterbench
from fasterbench.costs import count_costs
from fasterbench.peaks import HardwarePeaks
from fasterbench.roofline import RooflineAnalyzer
import attack_cases
from attack_isolated import in_child, isolated
from snapshots import Snapshot, differences

peaks = HardwarePeaks(1e12, 1e11, working_set=2**16, compute_peaks=dict(float32=1e12, bfloat16=4e12, int8=8e12))

operations = dict(
    profile=lambda model, sample: RooflineAnalyzer(model, sample, peaks).profile(warmup=1, steps=2),
    estimate=lambda model, sample: RooflineAnalyzer(model, sample, peaks).estimate(),
    count=count_costs)

plain = []   # not empty: the attacked model writes to its buffers and its sample only

def victim(): return attack_cases.victim(bool(plain))

# --- where: lines and calls in files whose code starts, ends and measures ---
own = Path(fasterbench.__file__).parent
own_files = {str(f) for f in own.glob('*.py')}
_torch = Path(torch.__file__).parent
settings_files = {contextlib.__file__, *(str(_torch/f) for f in ('utils/_contextlib.py', 'autograd/grad_mode.py', 'random.py',
    'utils/_python_dispatch.py', '_dynamo/eval_frame.py', 'compiler/__init__.py'))}

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
    return any(f.f_code.co_name=='__exit__' or (f.f_code.co_filename in own_files and f.f_lineno in putting_back(f.f_code.co_filename))
        for f in callers(frame))

def caller_line(frame):
    f = next((f for f in callers(frame) if f.f_code.co_filename in own_files), None)
    return f and f'{Path(f.f_code.co_filename).name}:{f.f_lineno}'

# --- when: the first and the last time that a line, or a call, is executed ---
@cache
def calls_in(code)->dict: # offset → name of an instruction after which Python looks for signals
    return {i.offset: i.opname for i in dis.get_instructions(code) if i.opname.startswith(('CALL', 'JUMP_BACKWARD', 'JUMP_ABSOLUTE', 'BEFORE_WITH', 'SETUP_WITH'))}

class Tracer:
    "Calls `act` at one point, or counts how often each is passed"
    def __init__(self, files, act=None, at=None, by_call=False):
        self.files, self.act, self.at, self.by_call, self.passed, self.hit = files, act, at and [*at], by_call, Counter(), False
    def __enter__(self): sys.settrace(self.started); return self
    def __exit__(self, *args): sys.settrace(None)
    def started(self, frame, event, arg):
        if frame.f_code.co_filename not in self.files: return None
        frame.f_trace_opcodes = self.by_call
        return self.called if self.by_call else self.line
    def here(self, frame, where)->bool:
        "Is this the point?"
        key = caller_line(frame), Path(frame.f_code.co_filename).name, frame.f_code.co_name, where
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

def points(op, files, by_call, body=False):
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
        res += f'{type(e).__name__}: {e} ' + ' '.join(getattr(e, '__notes__', ())) + ' '.join(map(said_by, getattr(e, 'exceptions', ())))
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
    return isinstance(error, expected) or (expected is not KeyboardInterrupt and 'an error of an attack' in said_by(error))

def struck(op, strike, expected):
    "What is wrong after `op` on the victim inside of `strike`"
    model, sample = victim()
    before = Snapshot(model=model, sample=sample)
    error, told = attempted(lambda: strike(lambda: operations[op](model, sample)))   # kept: so its frames end nothing by going
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
        if not tracer.hit or (expected is Injected and error is None): return []   # another way this time; or a line that puts back
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

dispatch_errors = dict(RuntimeError=RuntimeError, KeyboardInterrupt=KeyboardInterrupt, OutOfMemoryError=torch.OutOfMemoryError)

def dispatched(op):
    def number():
        with Failing() as mode: operations[op](*victim())
        return mode.n
    return in_child(number)

def excused(found, error, told)->bool:
    "One tensor whose own putting back failed, and is named"
    names = {d.split(' ')[0].rsplit('.', 1)[-1] for d in found}
    return len(names)==1 and all(n in said_by(error) + told for n in names)

def dispatch_attempt(item):
    op, kind, k = item
    mode = Failing(k, dispatch_errors[kind](f'an error of an attack, in operation {k}'))
    def strike(f):
        with mode: f()
    found, error, told, once_more = struck(op, strike, dispatch_errors[kind])
    if mode.back is None: return []
    if mode.back and found and excused(found, error, told): return []
    if error is not None and 'an error of an attack' not in said_by(error): found.append('the error is not named')
    if found: return [f"({'while putting back' if mode.back else 'in the body'}) {d}" for d in found]
    return [] if mode.back else once_more()

def dispatch_items(): return [(op, e, k) for op in operations for e in dispatch_errors for k in range(1, dispatched(op)+1)]

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

def timer_attempt(item):
    op, delay = item
    lost, fired = [], []
    def ring(*args): fired.append(1); signal.raise_signal(signal.SIGINT)
    def strike(f):
        signal.setitimer(signal.ITIMER_REAL, delay)
        try: f()
        finally: signal.setitimer(signal.ITIMER_REAL, 0)
    sys.unraisablehook = lambda u: lost.append(u)   # where nothing can be raised: in a `__del__`
    signal.signal(signal.SIGALRM, ring)
    found, *_, once_more = struck(op, strike, KeyboardInterrupt)
    if not fired or lost: found = [d for d in found if 'did not come out' not in d]
    return found or once_more()

# --- parts ---
everywhere = own_files | settings_files
parts = dict(
    pending=(*traced(everywhere, None, KeyboardInterrupt, by_call=True), 'interrupts wherever Python looks for them'),
    lines=(*traced(own_files, interrupt, KeyboardInterrupt), 'interrupts at every line of fasterbench'),
    body=(*traced(own_files, fail, Injected), 'errors at every line that does not put back'),
    dispatch=(dispatch_items, dispatch_attempt, 'errors in every dispatched operation'),
    timer=(timer_items, timer_attempt, 'interrupts at random times'),
)

def drawn(items, n): return items if not n or len(items)<=n else random.Random(0).sample(items, n)

def run_part(name, n):
    "Rows of the table, and what was found: (item, lines)"
    items, attempt, what = parts[name]
    start, all_items = time.time(), items()
    chosen = drawn(all_items, n)
    by_op, found = defaultdict(lambda: [0, 0]), []
    for item,said in isolated(chosen, attempt):
        by_op[item[0]][0] += 1
        if said: by_op[item[0]][1] += 1; found.append((item, said))
    print(f'{name}: {time.time()-start:.0f} s for {len(chosen)} of {len(all_items)}', flush=True)
    return [[what, op, tried, bad] for op,(tried,bad) in by_op.items()], found

def show(name, found, verbose):
    for item,said in found if verbose else found[:5]:
        print(f'  {name} {item}:', *said[:None if verbose else 3], sep='\n      ', flush=True)
    if not verbose and len(found)>5: print(f'  … and {len(found)-5} more')

@call_parse
def main(
    only:str=','.join(parts), # parts
    sample:int=0, # attacks of each part, drawn in the same way each time; 0: all
    verbose:bool=False, # print all that was found
    buffers:bool=False, # interrupts and errors: in forwards that write to buffers and the sample only
):
    "Attack, and report what was left different"
    torch.set_num_threads(1)
    if buffers: plain.append(True)
    for op in operations.values(): op(*victim())   # so that nothing is imported later
    rows, wrong = [], 0
    for name in only.split(','):
        new, found = run_part(name, sample)
        show(name, found, verbose)
        rows, wrong = rows + new, wrong + len(found)
    print(tabulate(rows, headers=['attack', 'operation', 'attacks', 'different afterwards']))
    sys.exit(wrong>0)
