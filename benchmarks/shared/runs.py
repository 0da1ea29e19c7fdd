"""How things are run: in turns, in processes of their own, built from C"""
import json, os, random, subprocess, sys, tempfile, warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path

import torch

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

def apart(f, *args, threads):
    "What `f` returns in a process of its own, where the arithmetic has `threads` threads; the name of what it raises"
    get, put = fork.Pipe(duplex=False)
    def run():
        torch.set_num_threads(threads)
        warnings.simplefilter('ignore')
        with open(os.devnull, 'w') as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere), torch.inference_mode():
            try: res = f(*args)
            except Exception as e: res = type(e).__name__
        put.send(res)
    p = fork.Process(target=run)
    p.start()
    put.close()
    try: return get.recv()
    except EOFError: return 'killed'
    finally: p.join()
