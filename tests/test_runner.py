"A notebook is run with the package in the place of what it exports"
import re, sys
from textwrap import dedent

import pytest
from execnb.nbio import mk_cell, new_nb, write_nb
from notebooks import bound_names, notebooks, ran, top

@pytest.fixture
def notebook(tmp_path, monkeypatch):
    "Makes a notebook of cells, exported to the module `fasterbench.planted`"
    import fasterbench
    monkeypatch.setattr(fasterbench, '__path__', [*fasterbench.__path__, str(tmp_path)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr('signal.signal', lambda *args: None)
    def made(module, *cells):
        sys.modules.pop('fasterbench.planted', None)
        (tmp_path/'planted.py').write_text(dedent(module))
        write_nb(new_nb([mk_cell('#| default_exp planted'), *(mk_cell(dedent(o)) for o in cells)]), tmp_path/'planted.ipynb')
        return tmp_path/'planted.ipynb'
    yield made
    sys.modules.pop('fasterbench.planted', None)

def test_bound_names():
    names = bound_names('import os.path as p\nfrom a import b\n_c: int = 1\nd, (e, *f) = x\ndef g(): h = 1\nclass I: j = 1\nfor k in x: pass')
    assert set(names)==set('p b _c d e f g I k'.split())

def test_a_name_that_only_a_test_cell_has_is_missed(notebook):
    path = notebook('def half(x): return floor(x/2)\n', 'from math import floor', '#| export\ndef half(x): return floor(x/2)', 'assert half(3)==1')
    with pytest.raises(RuntimeError, match="name 'floor' is not defined"): ran(path)

def test_private_names_come_from_the_package(notebook):
    path = notebook('_two = 2\ndef half(x): return x/_two\n', '#| export\n_two = 3', '#| export\ndef half(x): return x/_two',
        'assert _two==2 and half(3)==1.5\n_two')
    shown, _ = ran(path)
    assert shown[-1][0]['data']['text/plain']==['2']

def test_commands_run_forked(notebook):
    "One that fails is an error of its cell, as it would be for who reads the page"
    shown, _ = ran(notebook('', '!fasterbench --version'), beside=True)
    assert shown[-1][0]['text'][0].startswith('fasterbench ')
    with pytest.raises(RuntimeError, match="no such file|nowhere.json"): ran(notebook('', '!fasterbench show nowhere.json'), beside=True)

def test_names_that_the_workflow_asks_for_are_there():
    "A system on which some notebooks run names them by parts of their names"
    asked = re.search('--only "(.*)"', (top/'.github/workflows/test.yaml').read_text())[1].split(' or ')
    assert asked and not [o for o in asked if not any(o in p.stem for p in notebooks())]
