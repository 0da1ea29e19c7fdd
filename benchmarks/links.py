"""Are the bandwidths of links what a plain loop reaches? The probes beside a loop of the same collective, in turns within one run.

The loop is written out here and shares no code with the probes: tensors of ones, a barrier, calls in a row on the host's
clock, the slowest rank's time, the best of several. In every round each collective is measured by both, one right behind
the other, with the same messages: the smallest one, and three over which the best bandwidth is taken. Below them stand what the machine does without a library: a copy in memory, and bytes
through a socket between the two processes (one way, TCP on this host), in the same rounds.

    python benchmarks/links.py [--rounds 12]
"""
import json, os, statistics, time

import psutil, torch
from fastcore.script import call_parse
from tabulate import tabulate

from fasterbench.core import si
from fasterbench.ranks import run_ranks
from report import write_result

code = """
import json, os, socket, time
from fasterbench.link_probes import ProbeCall, check_answer, exchange_s, link_probes
from fasterbench.links import bus_bytes
cpu, sizes, group = torch.device('cpu'), [16, 2**19, 2**21, 2**23], dist.group.WORLD

def tensors(kind, n):
    a, b, part = torch.ones(n), torch.ones(n), torch.ones(n//world)
    to, since = (rank+1)%world, (rank-1)%world
    def ring():
        for w in [dist.isend(a, to, group), dist.irecv(b, since, group)]: w.wait()
    def pairs():
        half = world//2
        if rank<half: dist.send(a, rank+half, group)
        elif rank<2*half: dist.recv(b, rank-half, group)
    return dict(all_reduce=lambda: dist.all_reduce(a, group=group), broadcast=lambda: dist.broadcast(a, 0, group=group),
        all_gather=lambda: dist.all_gather_into_tensor(a, part, group=group), ring=ring, pairs=pairs,
        reduce_scatter=lambda: dist.reduce_scatter_tensor(part, a, group=group),
        all_to_all=lambda: dist.all_to_all_single(b, a, group=group))[kind]

def best(f, calls, samples):
    times = []
    for _ in range(samples):
        dist.barrier(group)
        start = time.perf_counter()
        for _ in range(calls): f()
        times.append((time.perf_counter() - start)/calls)
    all_times = [None]*world
    dist.all_gather_object(all_times, times, group)
    return min(map(max, zip(*all_times)))

def loop(f, size): return best(f, 20 if size<2**18 else 3 if size<2**22 else 1, 10)

def probe(kind, size):
    ex = ProbeCall(link_probes[kind], size, group, cpu).fill()
    ex()
    check_answer(ex)
    assert ex.nbytes==size
    return ex

def wire(n, conn, calls=4):
    "Byte/s of `n` bytes through a socket, from rank 0 to rank 1"
    data = bytearray(n)
    def once():
        if rank==0: conn.sendall(data)
        elif rank==1:
            view, got = memoryview(data), 0
            while got<n: got += conn.recv_into(view[got:])
    once()
    return n/best(once, calls, 5)

def connect():
    port = [None]
    if rank==0:
        server = socket.create_server(('localhost', 0))
        port[0] = server.getsockname()[1]
    dist.broadcast_object_list(port, 0)
    if rank==0: return server.accept()[0]
    if rank==1: return socket.create_connection(('localhost', port[0]))

conn, x, y = connect(), torch.ones(2**23), torch.ones(2**23)
made = {(k, b): (probe(k, b), tensors(k, b//4)) for k in link_probes for b in sizes}
found = {f'{k} {b}': dict(ours=[], theirs=[]) for k,b in made}
wires, copies = [], []
for i in range(ROUNDS):
    for (k,b),(ex,f) in made.items():
        f()
        both = dict(ours=lambda: exchange_s(ex), theirs=lambda: loop(f, b))
        for who in sorted(both, reverse=i%2): found[f'{k} {b}'][who].append(both[who]())
    wires.append(max(wire(n, conn) for n in (2**16, 2**20, 2**23)))
    copies.append(x.nbytes/best(lambda: y.copy_(x), 3, 5))
def rate(kind, b, s): return bus_bytes(link_probes[kind].kind, b, world)/s
res = {}
for k in link_probes:
    of = lambda who, b: found[f'{k} {b}'][who]
    res[k] = {w: [max(rate(k, b, t) for b,t in zip(sizes[1:], ts)) for ts in zip(*(of(w, b) for b in sizes[1:]))] for w in ('ours', 'theirs')}
    res[k] |= {w+'_s': of(w, sizes[0]) for w in ('ours', 'theirs')}
if rank==0: print(json.dumps(dict(kinds=res, wire=max(wires), copy=max(copies))))
"""

def measured(n, rounds): return json.loads(run_ranks(code.replace('ROUNDS', str(rounds)), n, timeout=3000).splitlines()[-1])

def row(kind, o):
    ratios = [a/b for a,b in zip(o['ours'], o['theirs'])]
    ours, theirs = (max(o[k]) for k in ('ours', 'theirs'))
    waits = [min(o[k]) for k in ('ours_s', 'theirs_s')]
    return (kind, si(ours, 'B/s'), si(theirs, 'B/s'), f'{ours/theirs:.2f}', f'{statistics.median(ratios):.2f}',
        f'{min(ratios):.2f}–{max(ratios):.2f}', *(si(w, 's') for w in waits), f'{waits[0]/waits[1]:.2f}')

@call_parse
def main(
    rounds:int=12, # of both, in turns
):
    "Hold the measured bandwidth of links against a plain loop's"
    heads = ['', 'probe', 'loop', 'best / best', 'median ratio', 'ratios', 'latency: probe', 'loop', 'ratio']
    texts, every = [], []
    for n in (2, 4):
        start, _ = time.monotonic(), psutil.cpu_times_percent(None)
        found = measured(n, rounds)
        seconds, busy, load = time.monotonic() - start, psutil.cpu_times_percent(None), os.getloadavg()[1]
        rows = [row(k, o) for k,o in found['kinds'].items()]
        every += [float(r[3]) for r in rows]
        plain = f"socket, one way {si(found['wire'], 'B/s')}; copy of 33.6 MB in a process's memory {si(found['copy'], 'B/s')}, all processes at once"
        table = tabulate(rows, headers=heads, colalign=['left', *['right']*8], disable_numparse=True)
        texts.append(f'{n} processes, gloo, {rounds} rounds in {seconds:.0f} s, processors {100-busy.idle:.0f} % in use, load {load:.1f} on {psutil.cpu_count()}\n{table}\n{plain}')
    there = ', '.join(f'{b} {"" if torch.distributed.is_backend_available(b) else "not "}in this torch' for b in ('gloo', 'mpi', 'ucc', 'nccl'))
    near = sum(0.9<=r<=1.1 for r in every)
    what = (f'bus bandwidth: best over messages of 0.5, 2.1 and 8.4 MB; latency: of 16 B; one thread a process; {there}\n'
        f"bandwidth, best of the rounds: the probe's is within 10 % of the loop's for {near} of {len(every)}")
    write_result('links', what, '\n\n'.join(texts))
