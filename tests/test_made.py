"What is generated is what its source gives"
import os, shutil, subprocess, sys
from pathlib import Path

import pytest
from notebooks import notebooks, top

def copied(folder):
    "A copy of this tree, without what is made or installed"
    ignore = shutil.ignore_patterns('.git', '.venv', '*.egg-info', '__pycache__', 'build', '_proc', '_docs', '_site')
    return Path(shutil.copytree(top, Path(folder)/top.name, symlinks=True, ignore=ignore))

def within(copy, *command):
    "Run a command in a copy, on that copy's package"
    bin = Path(sys.executable).parent
    env = dict(os.environ, PATH=f'{bin}{os.pathsep}{os.environ["PATH"]}', PYTHONPATH=str(copy))
    done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True)
    if done.returncode: pytest.fail(done.stdout[-3000:] + done.stderr[:3000], pytrace=False)   # a worker's own error comes first

def contents(tree): return {p.relative_to(tree): p.read_bytes() for p in tree.rglob('*') if p.is_file() and '__pycache__' not in p.parts}

@pytest.mark.parametrize('command', [('nbdev_export',), ('nbdev_clean',), (sys.executable, 'scripts/cited.py', 'fill'), (sys.executable, 'scripts/readme.py'), (sys.executable, 'scripts/schema.py')], ids=lambda o: o[-1])
def test_in_step(command, tmp_path):
    copy = copied(tmp_path)
    before = contents(copy)
    within(copy, *command)
    after = contents(copy)
    changed = sorted(str(k) for k in before.keys()|after.keys() if before.get(k)!=after.get(k))
    assert not changed, f"{' '.join(command)} changes {', '.join(changed)}"

def test_pages(tmp_path):
    "nbdev makes every page, and each link between them leads somewhere"
    from docs import dead_links
    copy = copied(tmp_path)
    within(copy, sys.executable, '-c', 'from nbdev.serve import proc_nbs; proc_nbs()')
    lacking = [p.name for p in notebooks() if not (copy/'_proc'/p.relative_to(top/'nbs')).exists()]
    assert not lacking
    assert not [*dead_links(copy/'_proc')]

def test_only_sources():
    "In the folder of notebooks git holds these, their data and pictures, and what the site is made with: nothing that a cell wrote"
    done = subprocess.run(['git', 'ls-files', 'nbs'], cwd=top, capture_output=True, text=True)
    if done.returncode: pytest.skip('this tree is no checkout of git')
    made_with = {'_quarto.yml', 'bounds.js', 'nbdev.yml', 'sidebar.yml', 'styles.css'}
    files = [Path(o).relative_to('nbs') for o in done.stdout.splitlines()]
    assert not [str(o) for o in files if o.suffix!='.ipynb' and o.parts[0] not in ('data', 'images') and str(o) not in made_with]
