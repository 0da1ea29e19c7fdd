"""What does it take to read a long trace: time, and memory beside the size of the file?

torch.profiler records a training step of a small transformer here, with shapes and stack. A long
trace is this step again and again, each behind the one before. Kernels of a GPU are made up: one
for each operation with tensors. Each file is read in a process of its own; memory is its peak
beyond that of a process that reads one step. Rates are those of the processor's time, of which
other programs take no part.

    python benchmarks/trace_reading.py [--mb 64,256,1024]
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from common import finish, option_parser, read_options
from torch import nn
from torch.profiler import ProfilerActivity, profile

READ = '''
import json, resource, sys, time
from fasterbench import read_trace
start, began = time.perf_counter(), time.process_time()
result = read_trace(sys.argv[1], 'H100-SXM')
seconds, cpu_s = time.perf_counter() - start, time.process_time() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss*1024
print(json.dumps(dict(seconds=seconds, cpu_s=cpu_s, peak=peak, rows=len(result),
                      products=result.matmul_flops)))
'''
LAUNCH = 'cudaLaunchKernel'


def recorded_step(path: Path) -> dict:
    """What torch.profiler writes of a training step, with kernels that are made up."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, dropout=0.)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(64, 10))
    x, optimizer = torch.randn(2, 16, 64), torch.optim.AdamW(model.parameters())

    def step():
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True) as recorded:
        step()
    recorded.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    return trace | dict(traceEvents=[*with_kernels(trace['traceEvents'])])


def with_kernels(events: list[dict]):
    """The intervals among events; behind each operation without others in it a kernel."""
    intervals = [e for e in events if e.get('ph') == 'X']
    operations = sorted((e for e in intervals if e.get('cat') == 'cpu_op'), key=lambda e: e['ts'])
    yield from intervals
    for number, (e, after) in enumerate(zip(operations, operations[1:] + [None]), 1):
        has_others = after is not None and after['ts'] < e['ts'] + e['dur']
        if has_others or not any(e['args'].get('Input Dims', [])): continue
        link = dict(correlation=number)
        yield dict(e, name=LAUNCH, cat='cuda_runtime', dur=e['dur']/2, args=link)
        yield dict(e, name=f"kernel_of_{e['name']}", cat='kernel', pid=0, tid=7,
                   args=dict(link, device=0, stream=7))


def write_long(path: Path, trace: dict, nbytes: float) -> int:
    """Write the step as often as about so many bytes need; how often that is."""
    events, steps = trace['traceEvents'], 0
    first = min(e['ts'] for e in events)
    span = max(e['ts'] + e.get('dur', 0) for e in events) - first + 1000
    head = json.dumps({key: value for key, value in trace.items() if key != 'traceEvents'})
    most = 1 + max(e.get('args', {}).get('correlation', 0) for e in events)

    def shifted(e):
        args = e.get('args', {})
        if 'correlation' in args: args = args | dict(correlation=args['correlation'] + steps*most)
        return dict(e, ts=e['ts'] + steps*span, args=args)

    with open(path, 'w') as file:
        file.write(head[:-1] + ', "traceEvents": [\n')
        while not steps or file.tell() < nbytes:
            file.write(',\n'*bool(steps) + ',\n'.join(json.dumps(shifted(e)) for e in events))
            steps += 1
        file.write(']}')
    return steps


def read(path: Path) -> dict:
    """What reading a file takes in a process of its own."""
    run = subprocess.run([sys.executable, '-c', READ, str(path)], capture_output=True, text=True)
    if run.returncode: raise RuntimeError(run.stderr[-2000:])
    return json.loads(run.stdout.splitlines()[-1])


def main():
    parser = option_parser(__doc__)
    parser.add_argument('--mb', default='64,256,1024', help='10⁶ bytes of each file')
    args = read_options(parser)
    sizes, rows = [2.] if args.quick else [float(mb) for mb in args.mb.split(',')], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)/'trace.json'
        trace = recorded_step(path)
        write_long(path, trace, 0)
        one = read(path)
        for mb in sizes:
            steps = write_long(path, trace, mb*1e6)
            took, nbytes = read(path), path.stat().st_size
            if took['products'] != steps*one['products']:
                raise RuntimeError(f'{steps} steps: not every one was counted')
            memory = max(took['peak'] - one['peak'], 0)
            rows.append({
                'MB': nbytes/1e6, 'steps': steps, 'events': steps*len(trace['traceEvents']),
                'seconds': took['seconds'], 'processor s': took['cpu_s'],
                'GB/min': 60*nbytes/1e9/took['cpu_s'], 'memory MB': memory/1e6,
                'memory / file': memory/nbytes})
    figures = {'GB/min': rows[-1]['GB/min'],
               'memory / file': max(row['memory / file'] for row in rows)}
    finish(args, __file__, __doc__, {'files': rows}, figures, ['msgspec'])


if __name__ == '__main__': main()
