"""How things are run: in turns, in processes of their own, built from C"""
import json, os, random, subprocess, sys, tempfile, warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from time import perf_counter, process_time

import torch

from fasterbench.operations import first_line
from benchmarks.shared.report import top

def in_turns(
    rounds:int,
    **ways, # functions of nothing, by name
)->dict: # name → what each returned, in the order of the rounds
    "Call each once in every round, in another order every time: what changes with time falls to all of them"
    got = {k: [] for k in ways}
    for _ in range(rounds):
        for k in random.sample([*ways], len(ways)): got[k].append(ways[k]())
    return got

def in_process(
    *args, # of Python: `'-c', code` or `'-m', 'benchmarks.NAME'`, and what follows
    **env, # of the process, besides what is there
)->list: # what its lines are as JSON; other lines, as libraries print them, are left out
    "Run Python in a process of its own"
    run = subprocess.run([sys.executable, '-W', 'ignore', *map(str, args)], cwd=top, env=os.environ | env, capture_output=True, text=True)
    if run.returncode: raise RuntimeError(f'a process ended with {run.returncode}: {run.stderr[-2000:]}')
    return [json.loads(l) for l in run.stdout.splitlines() if l.startswith(('{', '['))]

@contextmanager
def built(
    source:str, # in benchmarks/shared: `'fma.c'`
    *more:str, # options of the compiler
):
    "The path of a program in C, built for this processor"
    with tempfile.TemporaryDirectory() as d:
        program = str(Path(d)/'program')
        subprocess.run(['gcc', '-O3', '-march=native', '-fopenmp', str(Path(__file__).with_name(source)), '-o', program, *more], check=True)
        yield program

def lines_of(program, *args, **env)->list: # of texts, as they stand between commas
    "What a program prints, with as many threads as torch has here"
    env = dict(os.environ, OMP_NUM_THREADS=str(torch.get_num_threads()), **env)
    run = subprocess.run([program, *map(str, args)], env=env, check=True, capture_output=True, text=True)
    return [l.split(',') for l in run.stdout.splitlines() if l]

fork = get_context('fork')

def started(f):
    "A process that sends what `f` returns, and where it arrives"
    get, put = fork.Pipe(duplex=False)
    p = fork.Process(target=lambda: put.send(f()))
    p.start()
    put.close()
    return p, get

def apart(f, *args, threads):
    "What `f` returns in a process of its own, where the arithmetic has `threads` threads; the name of what it raises"
    def run():
        torch.set_num_threads(threads)
        warnings.simplefilter('ignore')
        with open(os.devnull, 'w') as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere), torch.inference_mode():
            try: return f(*args)
            except Exception as e: return type(e).__name__
    p, get = started(run)
    try: return get.recv()
    except EOFError: return 'killed'
    finally: p.join()

class Failed(str): "Why there is no result, in words"

def outcome(f, name):
    "What `f` returns for a name, or why it returns nothing, and seconds of the processor; what it prints is lost"
    began = process_time()
    with open(os.devnull, 'w') as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        try: res = f(name)
        except (Exception, SystemExit) as e: res = Failed(f'{type(e).__name__}: {first_line(e)[:200]}')
    return res, process_time() - began

def each_apart(
    f, # function of a name, in a process of its own for each
    names:list,
    workers:int, # processes at a time
    limit:float, # seconds that one may take, by the clock
): # (name, what it returned or a `Failed`, seconds of the processor) in the order in which they end
    "What `f` returns for each name"
    todo, live = [*names], {}   # where a result arrives → name, process, when it began
    while todo or live:
        while todo and len(live)<workers:
            name = todo.pop(0)
            p, get = started(partial(outcome, f, name))
            live[get] = name, p, perf_counter()
        ready = wait([*live], timeout=.2)
        for get,(name,p,began) in [*live.items()]:
            took = perf_counter() - began
            if get not in ready and took<limit: continue
            try: res, took = get.recv() if get in ready else (Failed(f'took more than {limit:g} s'), took)
            except EOFError: res = Failed('its process ended without a result')
            p.kill()
            p.join()
            del live[get]
            yield name, res, took
