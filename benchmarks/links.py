"""Are the bandwidths of links what a plain loop reaches? The probes beside a loop of the same collective, in turns within one run,
and the same loop a second time: how far it is from itself is what this machine can tell apart.

The loop is written out here and shares no code with the probes: tensors of ones, a barrier, calls in a row on the host's
clock, the slowest rank's time, the best of several. In every round each collective is measured by both, one right behind
the other, with the same messages: the smallest one, and three over which the best bandwidth is taken. Below them stand what the machine does without a library: a copy in memory, and bytes
through a socket between the two processes (one way, TCP on this host), in the same rounds.

    python -m benchmarks.links [--rounds 12]
"""
import json, os, statistics, time

import psutil, torch
from fastcore.script import call_parse

from fasterbench.operations import si
from scripts.ranks import run_ranks
from benchmarks.shared.report import write_result
from scripts.evidence import table

code = """
import json, os, socket, time
from fasterbench.machine.links import ProbeCall, check_collective_answer, exchange_s, link_probes
from fasterbench.session.scope import bus_bytes
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
    ex = ProbeCall(link_probes[kind], size, group, cpu)
    ex()
    check_collective_answer(ex)
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
found = {f'{k} {b}': dict(ours=[], theirs=[], again=[]) for k,b in made}
wires, copies = [], []
for i in range(ROUNDS):
    for (k,b),(ex,f) in made.items():
        f()
        three = dict(ours=lambda: exchange_s(ex), theirs=lambda: loop(f, b), again=lambda: loop(f, b))
        for j in range(3):
            who = [*three][(i+j)%3]   # each of them first, second and third in turn
            found[f'{k} {b}'][who].append(three[who]())
    wires.append(max(wire(n, conn) for n in (2**16, 2**20, 2**23)))
    copies.append(x.nbytes/best(lambda: y.copy_(x), 3, 5))
def rate(kind, b, s): return bus_bytes(link_probes[kind].kind, b, world)/s
res = {}
for k in link_probes:
    of = lambda who, b: found[f'{k} {b}'][who]
    res[k] = {w: [max(rate(k, b, t) for b,t in zip(sizes[1:], ts)) for ts in zip(*(of(w, b) for b in sizes[1:]))] for w in ('ours', 'theirs', 'again')}
    res[k] |= {w+'_s': of(w, sizes[0]) for w in ('ours', 'theirs')}
if rank==0: print(json.dumps(dict(kinds=res, wire=max(wires), copy=max(copies))))
"""

def measured(n, rounds): return json.loads(run_ranks(code.replace('ROUNDS', str(rounds)), n, timeout=3000).splitlines()[-1])

def compared(o, who):
    "Rates beside the loop's: the best of each, and the median and range of what stood side by side"
    ratios = [a/b for a,b in zip(o[who], o['theirs'])]
    return max(o[who])/max(o['theirs']), statistics.median(ratios), min(ratios), max(ratios)

def columns(o, who):
    best, mid, least, most = compared(o, who)
    return f'{best:.2f}', f'{mid:.2f}', f'{least:.2f}–{most:.2f}'

def row(kind, o):
    waits = [min(o[k]) for k in ('ours_s', 'theirs_s')]
    rates = (si(max(o[k]), 'B/s') for k in ('ours', 'theirs'))
    return kind, *rates, *columns(o, 'ours'), *columns(o, 'again'), *(si(w, 's') for w in waits)

def near(every, who, i):
    "How many are within 10 %?"
    return sum(0.9<=compared(o, who)[i]<=1.1 for o in every)

@call_parse
def main(
    rounds:int=12, # of the probe and both loops, in turns
):
    "Hold the measured bandwidth of links against a plain loop's"
    heads = ['', 'probe', 'loop', 'best / best', 'median', 'range', 'loop again: best / best', 'median', 'range', 'latency: probe', 'loop']
    parts, every = [], []
    for n in (2, 4):
        start, _ = time.monotonic(), psutil.cpu_times_percent(None)
        found = measured(n, rounds)
        seconds, busy, load = time.monotonic() - start, psutil.cpu_times_percent(None), os.getloadavg()[1]
        rows = [row(k, o) for k,o in found['kinds'].items()]
        every += found['kinds'].values()
        plain = f"socket, one way {si(found['wire'], 'B/s')}; copy of 33.6 MB in a process's memory {si(found['copy'], 'B/s')}, all processes at once"
        parts += [f'{n} processes, gloo, {rounds} rounds in {seconds:.0f} s, processors {100-busy.idle:.0f} % in use, load {load:.1f} on {psutil.cpu_count()}',
            table(rows, heads, colalign=['left', *['right']*10], disable_numparse=True), plain]
    there = ', '.join(f'{b} {"" if torch.distributed.is_backend_available(b) else "not "}in this torch' for b in ('gloo', 'mpi', 'ucc', 'nccl'))
    what = (f'bus bandwidth: best over messages of 0.5, 2.1 and 8.4 MB; latency: of 16 B; one thread a process; {there}\n'
        f'ratios of bandwidths within 10 %, of {len(every)}: medians {near(every, "ours", 1)}, best {near(every, "ours", 0)}; '
        f'of the loop to itself: medians {near(every, "again", 1)}, best {near(every, "again", 0)}')
    figures = dict(bandwidths=len(every), medians_near=near(every, 'ours', 1), best_near=near(every, 'ours', 0),
        again_medians_near=near(every, 'again', 1), again_best_near=near(every, 'again', 0))
    write_result('links', what, parts, figures=figures)
