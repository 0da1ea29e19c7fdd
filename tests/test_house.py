"Which module needs which: no circles but those that are known, and what has to stay light does"
import subprocess, sys

import networkx as nx
import pytest
from form import too_long
from house import circles, drawn
from notebooks import notebooks, top

known_circles = [o.split() for o in (
    'collectives core graphs regions settings shards snapshot state twin',
    'compiled_kernels compiled_steps mesh_steps paper_steps roofline training',
    'crossings swept trends', 'language meshes parallel')]

def test_no_new_circles():
    new = [' '.join(o) for o in circles(drawn()[0]) if not any(set(o)<=set(k) for k in known_circles)]
    assert not new, 'these need each other: ' + '; '.join(new)

def needs(tmp_path, **texts):
    "The graph of a package of these modules"
    package = tmp_path/'house'
    package.mkdir()
    for name,text in texts.items(): (package/f'{name}.py').write_text(text)
    return drawn(package)

def test_each_way_of_asking_is_seen(tmp_path):
    graph, private = needs(tmp_path, a='from .b import x', b='def f():\n    import house.c', c='views = dict(draw="d")',
        d='from importlib import import_module\nimport_module("house.a")', e='from . import a\nfrom house.b import _y')
    assert circles(graph)==[['a', 'b', 'c', 'd']]
    assert private==['e takes b._y'] and set(graph.edges('e'))=={('e', 'a'), ('e', 'b')}

def fresh(code):
    "What `code` prints in a new process"
    return subprocess.run([sys.executable, '-c', code], cwd=top, check=True, capture_output=True, text=True).stdout.strip()

@pytest.mark.parametrize('imports, absent', [('fasterbench, fasterbench.operations', ['torch', 'plotly']),
    ('fasterbench.roofline, fasterbench.plot', ['plotly'])])
def test_imports_stay_light(imports, absent):
    assert fresh(f'import sys, {imports}; print([m for m in {absent} if m in sys.modules])')=='[]'

def test_methods_are_there_in_a_new_process():
    code = """from fasterbench.results import Comparison, Roofline
print(Roofline([]).table().split()[0], 'summary' in dir(Roofline), 'plot' in dir(Comparison))"""
    assert fresh(code)=='name True True'

@pytest.mark.parametrize('path', notebooks(), ids=lambda p: p.relative_to(top/'nbs').as_posix())
def test_lines_and_cells_are_short(path): assert not [*too_long(path)]
