"""What does it take to read a long trace? Seconds, and memory beside what the file has, for traces that are made here.

A made trace is one step of the small BERT in `nbs/data`, again and again, each a millisecond behind the one before, with as many
frames of Python's stack as a recording with `with_stack=True` has beside its calls of modules. Each file is read in a process of
its own, whose peak of resident memory is held against that of one that reads a single step. The rate is that of the processor's time,
of which other programs take no part; it ends with 1 where that is below 10⁹ bytes a minute, or the memory above six times the file.

    python -m benchmarks.trace_cost [--mb 64,256,1024]
"""
import gzip, json, sys, tempfile
from pathlib import Path

from fastcore.script import call_parse

from benchmarks.shared.report import write_result
from benchmarks.shared.runs import in_process
from scripts.evidence import table

step = Path(__file__).parent.parent/'nbs'/'data'/'h100_bert_small.json.gz'
code = """
import json, resource, sys, time
from fasterbench import read_trace
start, began = time.perf_counter(), time.process_time()
rows = read_trace(sys.argv[1])
seconds, cpu_s = time.perf_counter() - start, time.process_time() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss*1024
print(json.dumps(dict(seconds=seconds, cpu_s=cpu_s, peak=peak, matmul_flops=rows.matmul_flops, time_s=rows.time_s)))
"""

def shifted(e, i, span):
    "An event of the step, as that of step `i`"
    e = dict(e, ts=e['ts'] + i*span)
    if 'correlation' in e.get('args', {}): e['args'] = dict(e['args'], correlation=e['args']['correlation'] + i*10**6)
    if e['name'].startswith('ProfilerStep#'): e['name'] = f'ProfilerStep#{i}'
    return e

def frames(events, n):
    "Frames of Python's stack, `n` for each call of a module"
    calls = [e for e in events if e['cat']=='python_function']
    def frame(e, k): return dict(e, name=f'/usr/lib/python3/site-packages/transformers/models/layer_{k}.py({100+k}): forward',
        args={'Python id': k, 'Python parent id': k-1, 'Ev Idx': k})
    return [frame(e, k) for e in calls for k in range(n)]

def made(path, nbytes):
    "Write a trace of about `nbytes` bytes; how many steps it has"
    whole = json.loads(gzip.decompress(step.read_bytes()))
    events = whole['traceEvents'] + frames(whole['traceEvents'], 20)
    begin, end = min(e['ts'] for e in events), max(e['ts'] + e.get('dur', 0) for e in events)
    span, n = end - begin + 1000, 0
    with open(path, 'w') as f:
        f.write(json.dumps({k: v for k,v in whole.items() if k!='traceEvents'})[:-1] + ', "traceEvents": [\n')
        while n==0 or f.tell()<nbytes:
            f.write(',\n'*bool(n) + ',\n'.join(json.dumps(shifted(e, n, span)) for e in events))
            n += 1
        f.write(']}')
    return n

def read(path): return in_process('-c', code, path)[0] # what reading it took

@call_parse
def main(
    mb:str='64,256,1024', # 10⁶ bytes of each file
):
    "Time and memory of reading made traces"
    found = []
    with tempfile.TemporaryDirectory() as d:
        path = f'{d}/trace.json'
        one = read(str(step))
        for size in map(float, mb.split(',')):
            n = made(path, size*1e6)
            nbytes, took = Path(path).stat().st_size, read(path)
            assert took['matmul_flops']==n*one['matmul_flops'], 'not every step was counted'
            more = took['peak'] - one['peak']
            found.append(dict(mb=nbytes/1e6, steps=n, seconds=took['seconds'], cpu_s=took['cpu_s'],
                gb_per_min=nbytes/1e9/took['cpu_s']*60, memory_mb=more/1e6, memory_ratio=more/nbytes))
    heads = {'mb': '10⁶ bytes', 'cpu_s': 'of a processor', 'gb_per_min': '10⁹ bytes a minute of it', 'memory_mb': 'memory, 10⁶ bytes', 'memory_ratio': 'of the file'}
    figures = dict(cpu_s_per_gb=60/found[-1]['gb_per_min'], memory_ratio=max(o['memory_ratio'] for o in found))
    write_result('trace_cost', 'read_trace of made traces; memory beside what one that reads a single step has',
        table([o.values() for o in found], [heads.get(k, k) for k in found[0]], floatfmt='.2f'), 'msgspec', figures=figures)
    slow = [o for o in found if o['mb']>=50 and (o['gb_per_min']<1 or o['memory_ratio']>6)]
    sys.exit(bool(slow))
