"Every notebook runs to its end, with the cells marked `#|notest` too, against the package as it is imported"
import pytest
from notebooks import apart, notebooks, ran, top

most_seconds = 1.5*40   # of the processor, for a notebook: 40 alone; beside other programs a processor does less in a second

@pytest.mark.parametrize('path', notebooks(), ids=lambda p: p.relative_to(top/'nbs').as_posix())
def test_notebook(path):
    wrong = None
    try: _, seconds = apart(ran, path, True)
    except RuntimeError as e: wrong = str(e)
    if wrong: pytest.fail(wrong, pytrace=False)
    assert seconds<most_seconds, f'{path.name} takes {seconds:.0f} s of the processor, and {most_seconds} are allowed'

def test_as_nbdev_runs_them(whole, script):
    "A notebook's own cells in the package's place, several notebooks in a process: what is shown before it is defined fails"
    if not whole: pytest.skip('at night, with --all')
    script('-c', 'from nbdev.test import nbdev_test; nbdev_test()', '--n_workers', '2')
