"""Code that several processes run together, for notebooks, tests and measurements on one machine.

`torchrun` starts a script in several processes, its *ranks*, which find each other and make a process group. `run_ranks` does
the same with a text of Python. Each rank has the group (gloo, on the CPU), one thread, and the names `torch`, `dist`, `rank` and
`world`, the number of ranks. After `load_ipython_extension(get_ipython())`, a cell that begins with `%%ranks 2` runs like that.

    from scripts.ranks import run_ranks
    print(run_ranks('x = torch.full((3,), rank + 1.); dist.all_reduce(x); print(x)', n=4))   # tensor([10., 10., 10.])
"""
import multiprocessing, os, signal, tempfile, time
from multiprocessing import resource_tracker
from multiprocessing.forkserver import _forkserver
from pathlib import Path
from subprocess import CompletedProcess

from torch.distributed.elastic.utils.distributed import get_free_port

in_group = """
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group('gloo')
rank, world = dist.get_rank(), dist.get_world_size()
CODE
store, own, ranks = dist.distributed_c10d._get_default_store(), dist.get_rank(), dist.get_world_size()
dist.barrier()   # and the group ends with the process: destroying it may wait forever before torch 2.8
if own: store.set(f'{own} is done', 'yes')
else: store.wait([f'{i} is done' for i in range(1, ranks)])   # they meet where rank 0 listens: it ends last
"""

loaded_before = ['torch.distributed.fsdp', 'torch.distributed.tensor.parallel', 'torch.distributed.pipelining', 'torch._dynamo',
    'torch.utils.flop_counter', 'pandas', 'plotly.graph_objs._figure', 'plotly.graph_objs._scatter', 'plotly.graph_objs._bar']

def forking():
    """The context that makes processes, forked from one that has loaded what takes long. A process that was itself forked from
    such a server has its ranks from there: left alone, `multiprocessing` starts one more, which takes 4 s to load the same"""
    method = multiprocessing.get_context('forkserver')
    if _forkserver.get_inherited_fds() is None: method.set_forkserver_preload(loaded_before)   # once, for all that are forked from it
    else: _forkserver.ensure_running = resource_tracker.ensure_running   # the server's own address is inherited, too
    return method

def run(rank, world, script, port, environment): # world: ranks; `None`: the process is none
    "What the process of one rank does: it runs the script, and writes to files beside it"
    os.environ.clear(); os.environ.update(environment)   # of the caller, not of the server
    for number,what in ((1, 'out'), (2, 'err')):
        with open(script.parent/f'{rank}.{what}', 'w') as f: os.dup2(f.fileno(), number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    said = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=world, LOCAL_WORLD_SIZE=world, MASTER_ADDR='localhost', MASTER_PORT=port)
    os.environ.update({k: str(v) for k,v in said.items()} if world else {}, OMP_NUM_THREADS='1')
    exec(compile(script.read_text(), script, 'exec'), dict(__name__='__main__'))

def ended_ranks(
    code:str, # Python
    n:int=2, # processes
    timeout:float=120., # seconds; who is not over then is killed
    joined:bool=True, # do they form the group before the code runs? One that does not is no rank
)->list: # of `subprocess.CompletedProcess`: what became of each rank
    "Run `code` in processes that form a group: their exit codes, what they printed and wrote to standard error"
    with tempfile.TemporaryDirectory() as d:
        script, end = Path(d)/'script.py', time.monotonic() + timeout
        told = n if joined or n>1 else None, script, get_free_port(), dict(os.environ)
        script.write_text(in_group.replace('CODE', code) if joined else code)
        method = forking()
        processes = [method.Process(target=run, args=(i, *told), daemon=True) for i in range(n)]
        try:
            for p in processes: p.start()
            for p in processes: p.join(max(end - time.monotonic(), 0.1))
        finally:
            for p in processes:
                if p.pid: p.kill(); p.join()
        def text(path): return path.read_text() if path.exists() else ''   # a rank may have been killed before it wrote
        return [CompletedProcess(script, p.exitcode, *(text(Path(d)/f'{i}.{o}') for o in ('out', 'err')))
            for i,p in enumerate(processes)]

def run_ranks(
    code:str, # Python
    n:int=2, # processes
    timeout:float=120., # seconds
)->str: # what rank 0 printed
    "Run `code` in processes that form a group; an error of any of them is raised"
    ended = ended_ranks(code, n, timeout)
    failed = [f'rank {i} ended with {o.returncode}: {o.stderr[-2000:]}' for i,o in enumerate(ended) if o.returncode]
    if failed: raise RuntimeError('\n'.join(failed))
    return ended[0].stdout

def ranks_magic(line, cell):
    "Run a cell in so many processes, and print what rank 0 printed"
    print(run_ranks(cell, int(line or 2)), end='')

def load_ipython_extension(shell):
    "Make the cell magic `%%ranks`"
    shell.register_magic_function(ranks_magic, 'cell', 'ranks')
