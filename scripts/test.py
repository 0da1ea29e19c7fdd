"""Run the tests of this repository: every notebook, and that nothing generated is out of step.

    python scripts/test.py                 # what a change has to pass
    python scripts/test.py --only costs    # what has `costs` in its name
    python scripts/test.py --changed       # what a change can reach, nearest first
    python scripts/test.py --all           # the checks whole of which the others run a sample: nightly

These are pytest's, in the folder tests: `pytest -n 3 tests` runs the same, with all options that pytest has.
"""
import os, sys
from pathlib import Path

import pytest
from fastcore.basics import num_cpus
from fastcore.script import call_parse, store_true

top = Path(__file__).resolve().parent.parent

@call_parse
def main(
    only:str='', # what has this in its name
    changed:store_true=False, # what the changes since the last commit can reach; nothing changed: the last commit
    all:store_true=False, # whole what is a sample otherwise
):
    "Run the notebooks and the checks"
    os.chdir(top)
    os.environ['PYTHONPATH'] = os.pathsep.join(filter(None, [str(top), os.environ.get('PYTHONPATH')]))   # of the processes
    beside = str(min(num_cpus() + 1, 5))   # one more than cores: a test waits for processes, compilers and files
    args = ['tests', '-q', '-n', beside, '--dist', 'loadgroup', '--durations', '12', '--durations-min', '10']
    sys.exit(pytest.main([*args, *(['-k', only] if only else []), *(['--changed'] if changed else []), *(['--all'] if all else [])]))
