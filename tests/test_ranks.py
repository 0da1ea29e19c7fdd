"Ranks run together and their ends are known; a check sees all examples or a sample"
import pytest
from execnb.shell import CaptureShell
from hypothesis import given, strategies as st
from examples import examples
from ranks import ended_ranks, run_ranks

def test_ranks_make_a_group():
    assert [(o.returncode, o.stdout) for o in ended_ranks('print(rank, "of", world)')]==[(0, '0 of 2\n'), (0, '1 of 2\n')]
    assert run_ranks('x = torch.full((3,), rank + 1.)\ndist.all_reduce(x)\nprint(x)', n=4)=='tensor([10., 10., 10.])\n'

leave = 'import os, time; time.sleep(1 - rank); os._exit(3*rank)'   # rank 0 last: the others meet where it listens

def test_exit_codes():
    "Also of one that is killed, since its time is over"
    late = ended_ranks('import time; time.sleep(60)', n=1, timeout=0.)
    assert [o.returncode for o in (*ended_ranks(leave), *late)]==[0, 3, -9]

@pytest.mark.parametrize('code, said', [('if rank==1: raise ValueError("no")', 'ValueError: no'), (leave, 'rank 1 ended with 3')])
def test_an_error_of_any_rank_is_raised(code, said):
    with pytest.raises(RuntimeError, match=said): run_ranks(code)

def test_a_cell_runs_on_ranks():
    shell = CaptureShell()
    shell.run_cell('from ranks import load_ipython_extension\nload_ipython_extension(get_ipython())')
    shown = shell.run_cell('%%ranks 2\nparts = [None]*world\ndist.all_gather_object(parts, f"rank {rank}")\nprint(*parts, sep=", ")')
    assert shown.stdout=='rank 0, rank 1\n'

def test_examples(monkeypatch):
    def tried(n, all=''):
        "The examples that a property sees"
        monkeypatch.setenv('FASTERBENCH_ALL', all)
        seen = []
        @examples(n)
        @given(st.integers(0, 10**9))
        def prop(i): seen.append(i)
        prop()
        return seen
    assert (len(tried(700)), len(tried(20)), len(tried(700, all='1')))==(50, 20, 700)
    assert tried(50)==tried(50)   # the same draws
