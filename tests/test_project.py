"""The project as nbdev and ruff see it: notebooks run, modules are what the notebooks export."""
import ast
import filecmp
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS='1')


def run(*command, cwd=ROOT):
    done = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]


def test_notebooks_run():
    run('nbdev_test', '--n_workers', '2')


@pytest.fixture
def copy(tmp_path):
    """A copy of the project in which commands may write."""
    return shutil.copytree(ROOT, tmp_path/'project', ignore=shutil.ignore_patterns('.*', '_*cache*', '*.egg-info'))


def changed(folder, copied, pattern):
    """The files that differ between two folders, or that only one of them has."""
    names = {p.relative_to(root) for root in (folder, copied) for p in root.rglob(pattern)}
    both = [n for n in names if (folder/n).exists() and (copied/n).exists()]
    return sorted(map(str, names - {n for n in both if filecmp.cmp(folder/n, copied/n, shallow=False)}))


def test_modules_are_what_the_notebooks_export(copy):
    run('nbdev_export', cwd=copy)
    assert changed(ROOT/'fasterbench', copy/'fasterbench', '*.py') == []


def test_notebooks_are_clean(copy):
    run('nbdev_clean', cwd=copy)
    assert changed(ROOT/'nbs', copy/'nbs', '*.ipynb') == []


def test_imports_stand_in_cells_of_their_own():
    """nbdev_docs runs each cell with an import of a notebook that exports: none may measure again."""
    def imports(node): return isinstance(node, (ast.Import, ast.ImportFrom))

    mixed = []
    for path in ROOT.glob('nbs/**/*.ipynb'):
        cells = json.loads(path.read_text(encoding='utf-8'))['cells']
        code = [''.join(cell['source']) for cell in cells if cell['cell_type'] == 'code']
        tests = [text for text in code if not text.startswith('#| export')]
        if len(tests) == len(code): continue   # exports nothing
        tests = [ast.parse(text) for text in tests]
        mixed += [f'{path}: {ast.unparse(tree)}' for tree in tests
                  if any(map(imports, ast.walk(tree))) and not all(map(imports, tree.body))]
    assert mixed == []


def test_every_name_is_defined_and_used():
    run('ruff', 'check', 'fasterbench', 'tests')
