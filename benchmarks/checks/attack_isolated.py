"""Attempts in child processes: one that crashes, hangs or leaves something behind does not touch the next"""
import json, os, select, signal, time
from contextlib import contextmanager

def _write(fd, said):
    data = (json.dumps(said) + '\n').encode()
    while data: data = data[os.write(fd, data):]

def _quiet():
    "What is printed by what is attacked is of no interest"
    null = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2): os.dup2(null, fd)

def _work(fd, items, attempt, start, alone):
    "In a child: one item after the other, until one of them found something; `alone`: only the first"
    for i in range(start, start+1 if alone else len(items)):
        try: said = attempt(items[i])
        except BaseException as e: said = [f'the attack itself: {type(e).__name__}: {e}'[:300]]
        _write(fd, [i, said])
        if said: return

def _lines(fd, pid, seconds):
    "The answers of a child; one that does not answer for so long is ended"
    kept, end = b'', time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([fd], [], [], max(end-time.monotonic(), 0))
        if not ready: os.kill(pid, signal.SIGKILL)
        got = os.read(fd, 2**16) if ready else b''
        if not got: return
        *whole, kept = (kept + got).split(b'\n')
        end = time.monotonic() + seconds
        yield from map(json.loads, whole)

@contextmanager
def _child(items, attempt, start, alone):
    r, w = os.pipe()
    pid = os.fork()
    if pid==0:
        try:
            os.close(r)
            _quiet()
            _work(w, items, attempt, start, alone)
        finally: os._exit(0)
    os.close(w)
    try: yield r, pid
    finally: os.close(r)

def isolated(
    items:list, # what is to be attempted
    attempt, # called with an item; returns what it found, a list of strings
    seconds:float=60, # for one item
    alone:bool=False, # each item in a child of its own, as is needed where autograd runs: its threads do not outlive a fork
):
    "Pairs of an item and what was found"
    at = 0
    while at<len(items):
        with _child(items, attempt, at, alone) as (fd, pid):
            for at,said in _lines(fd, pid, seconds):
                yield items[at], said
                at += 1
                if said: break
            _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            yield items[at], [f'no answer in {seconds:g} s' if number==signal.SIGKILL else f'ended by signal {number}']
            at += 1

def in_child(f):
    "What `f()` returns in a child process, as JSON has it"
    return next(isolated([None], lambda _: [f()]))[1][0]

def apart(f):
    "What `f()` returns in a child; once more where autograd's thread of a fake device did not start there, as after an estimate"
    for _ in range(20):
        got = in_child(f)
        if not str(got).startswith('ended'): break
    return got
