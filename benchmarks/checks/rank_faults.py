"""What do the other ranks say when one fails in a profile, and what do they leave behind?

Three processes profile a small network whose forward has collectives: an all-reduce, or a training step of
DistributedDataParallel. One of them, drawn, does something else in a forward, also drawn: it raises, is killed, sleeps
or leaves. The others have to end within the timeout and the patience that follows, with an error that names it, and
leave nothing behind: no watched module, no kernel or method in the place of torch's, the groups' own timeouts. Each
fault is tried twenty times with each of the two. Prints the table and writes it, with the device and the versions, to
benchmarks/results/rank_faults.txt. The exit code is 1 if a rank hung, named nobody or another, or left something.

    python -m benchmarks.checks.rank_faults [--n 20] [--jobs 4]
"""
import json, random, sys
from concurrent.futures import ThreadPoolExecutor

from fastcore.script import call_parse

from scripts.ranks import ended_ranks
from benchmarks.shared.report import write_result
from scripts.evidence import table

timeout = 4   # seconds, in a collective; a rank whose collective failed waits as long for word of others

faults = dict(   # what a rank does instead of a forward
    raises="raise ValueError('no such thing')", leaves='os._exit(3)', killed='os.kill(os.getpid(), signal.SIGKILL)',
    sleeps=f'time.sleep({timeout + 8})')

whats = {'forward with an all-reduce': 'a.profile(warmup=2, steps=4, timeout={timeout})',
    'step of DistributedDataParallel':
        'a.profile_step(lambda o: o.sum(), torch.optim.SGD(model.parameters(), lr=0.1), warmup=2, steps=4, timeout={timeout})'}

trial = """
import json, os, signal, time
from torch import nn
from fasterbench.session.launch import RankError
from fasterbench.roofline import HardwarePeaks, RooflineAnalyzer

made = 0
class Faulty(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(64, 64)
    def forward(self, x):
        global made
        made += 1
        if rank=={rank} and made=={at}: {fault}
        x = self.inner(x)
        if {reduce}: dist.all_reduce(x)
        return x

inner = Faulty()
model = inner if {reduce} else nn.parallel.DistributedDataParallel(inner)
a, wait, begin = RooflineAnalyzer(model, torch.randn(8, 64), HardwarePeaks(1e11, 1e10)), dist.Work.wait, time.monotonic()
try: {call}
except Exception as e: said = type(e).__name__ + ': ' + str(e)
else: said = 'nothing'
backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device('cpu'))
left = []
if any(m._compiled_call_impl is not None for m in model.modules()): left.append('a watched module')
if dist.Work.wait is not wait: left.append("a method in the place of Work.wait")
if torch._C._dispatch_has_kernel_for_dispatch_key('c10d::allreduce_', 'BackendSelect'): left.append('a kernel')
if backend.options._timeout.total_seconds()!=1800: left.append('a timeout')
if torch.autograd._engine_run_backward.__module__!='torch.autograd.graph': left.append('a function of autograd')
print(json.dumps([said, time.monotonic() - begin, left]), flush=True)
raise SystemExit
"""

def told(ended)->list: # error, seconds, what was left
    "What a rank printed; `None`: nothing"
    return json.loads(ended.stdout) if ended.stdout.strip() else None

def problem(ended, rank):
    "What is wrong with the end of another rank, in words"
    if told(ended) is None: return f'ended with {ended.returncode}: {ended.stderr[-300:]}'
    said, _, left = told(ended)
    if f'rank {rank}' not in said: return f'names nobody, or another: {said}'
    return f"left {', '.join(left)}" if left else None

def tried(what, fault, rank, at):
    "The ends of the other ranks, when `rank` fails in its forward `at`"
    call = whats[what].format(timeout=timeout)
    code = trial.format(rank=rank, at=at, fault=faults[fault], reduce='all-reduce' in what, call=call)
    return [o for i,o in enumerate(ended_ranks(code, 3, timeout=120)) if i!=rank]

@call_parse
def main(
    n:int=20, # trials of each
    jobs:int=1, # trials at a time
    seed:int=0, # of what is drawn
):
    "Make ranks fail"
    draw, lines, bad = random.Random(seed), [], []
    for what,fault in ((w, f) for w in whats for f in faults):
        drawn = [(draw.randrange(3), draw.randrange(1, 9)) for _ in range(n)]
        with ThreadPoolExecutor(jobs) as pool: ends = [*pool.map(lambda o: tried(what, fault, *o), drawn)]
        wrong = {o: [p for p in (problem(e, o[0]) for e in others) if p] for o,others in zip(drawn, ends)}
        bad += [f'{what}, rank {rank} {fault} in forward {at}: {p}' for (rank,at),ps in wrong.items() for p in ps]
        good = sum(not wrong[o] for o in drawn)
        longest = max(told(e)[1] for others in ends for e in others if told(e))
        lines.append([what, fault, n, good, f'{longest:.1f}'])
        print(*lines[-1], flush=True)
    heads = ['what runs', 'the rank', 'trials', 'others named it and left nothing', 'longest, s']
    figures = dict(trials=sum(o[2] for o in lines), good=sum(o[3] for o in lines))
    parts = [table(lines, heads), *['\n'.join(bad)]*bool(bad)]
    write_result('rank_faults', f'three ranks, with a timeout of {timeout} s; {jobs} trials at a time', parts, figures=figures)
    if bad: sys.exit(1)
