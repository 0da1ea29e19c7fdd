"Options of the tests, and what they share"
import os, re, shutil, subprocess, sys, tempfile
from pathlib import Path

import pytest

top = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(top/'scripts'))
sys.path.append(str(top))   # notebooks import `scripts`; last, so that a package from elsewhere is seen below
os.environ.setdefault('OMP_NUM_THREADS', '1')   # tests run side by side, and assert counts, not times
os.environ.setdefault('TORCH_WARM_POOL', '0')   # Triton's compilers, each with a torch of its own, are of no use on a CPU

def pytest_addoption(parser):
    parser.addoption('--all', action='store_true', help='whole what is a sample otherwise')
    parser.addoption('--changed', action='store_true', help='what the changes since the last commit can reach, nearest first')

def pytest_configure(config):
    if config.getoption('all'): os.environ['FASTERBENCH_ALL'] = '1'   # for notebooks
    import fasterbench
    if Path(fasterbench.__file__).resolve().parent!=top/'fasterbench':
        raise pytest.UsageError(f'fasterbench is {fasterbench.__file__}, and not of this checkout: pip install -e .')
    if not hasattr(config, 'workerinput'): os.environ['PEAKS_SHARED'] = tempfile.mkdtemp()   # of the notebooks, which `ran` runs

def pytest_unconfigure(config):
    if not hasattr(config, 'workerinput'): shutil.rmtree(os.environ.pop('PEAKS_SHARED', ''), ignore_errors=True)

def in_order(items):
    "The longest notebooks first, so that none is left alone at the end; tests of one file share what it sets up"
    from notebooks import length_run
    def notebook(o): return o.callspec.params['path'] if o.originalname=='test_notebook' else None
    for o in items:
        if not notebook(o): o.add_marker(pytest.mark.xdist_group(o.path.stem))
    items.sort(key=lambda o: length_run(notebook(o)) if notebook(o) else 0, reverse=True)

@pytest.hookimpl(tryfirst=True)   # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config, items):
    if not config.getoption('changed'): return in_order(items)
    from reach import distances
    far = distances()
    def distance(item): return min((far[o] for o in far if o in item.nodeid), default=None)
    config.hook.pytest_deselected(items=[o for o in items if distance(o) is None])
    items[:] = sorted((o for o in items if distance(o) is not None), key=distance)

@pytest.fixture
def whole(request): return request.config.getoption('all')

@pytest.fixture
def script():
    "Runs a script of this repository in a process of its own; how it failed is the test's message"
    def run(*args, **kwargs):
        done = subprocess.run([sys.executable, *args], cwd=top, capture_output=True, text=True, **kwargs)
        if done.returncode: pytest.fail(done.stdout[-4000:] + done.stderr[-2000:], pytrace=False)
        return done.stdout
    return run
