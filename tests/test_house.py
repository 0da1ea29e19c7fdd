"Which module needs which: no circles, no private names of others, views without sources; what has to stay light does"
import ast, json, re, subprocess, sys
from contextlib import redirect_stdout
from io import StringIO

import networkx as nx
import pytest
from form import overwritten, too_long
from house import circles, code_lines, defined_twice, drawn, floors
from notebooks import apart, notebooks, top

def test_no_circles():
    found = [' '.join(o) for o in circles(drawn()[0])]
    assert not found, 'these need each other: ' + '; '.join(found)

def test_private_names_stay_at_home():
    taken = drawn()[1]
    assert not taken, '; '.join(taken)

def test_each_public_name_is_defined_once(): assert not defined_twice()

def test_the_way_down_is_short():
    "A reader who begins with a command is at the bottom after seven imports, and no module takes more than some pages"
    assert max(floors(drawn()[0]).values()) + 1<=8
    assert not {m: n for m,n in code_lines().items() if n>350}

# What shows a result takes it by its fields: it imports none of the modules that make results
makers = 'results roofline language ncu'.split()

def shown_and_made():
    "The graph, the modules that show results, and those that make them"
    graph, _ = drawn()
    def of(package): return {m for m in graph if m.startswith(f'{package}.')}
    return graph, of('views') | {'plot'}, of('sources') | {*makers}

def test_views_need_no_source():
    graph, views, sources = shown_and_made()
    assert {*makers, 'plot'}<=set(graph) and len(views)>4 and len(sources)>8
    found = [f'{v} leads to {m}' for v in sorted(views) for m in sorted(nx.descendants(graph, v) & sources)]
    assert not found, '; '.join(found)

def test_views_stand_beside_each_other():
    "Records need no view, and what is written needs no figure"
    graph, _ = drawn()
    refused = {'records.rows': ['views.tables', 'views.report', 'plot'], 'views.report': ['plot'], 'plot': ['views.report']}
    found = [f'{v} leads to {m}' for v,others in refused.items() for m in others if m in nx.descendants(graph, v)]
    assert not found, '; '.join(found)

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

def printed(code):
    with redirect_stdout(StringIO()) as out: exec(code, dict(__name__='__main__'))
    return out.getvalue().strip()

def forked(code):
    "What `code` prints in a new process that has loaded torch, and nothing of the package"
    return apart(printed, code)

@pytest.mark.parametrize('imports, absent', [('fasterbench, fasterbench.operations', ['torch', 'plotly']),
    ('fasterbench.roofline, fasterbench.plot', ['plotly'])])
def test_imports_stay_light(imports, absent):
    assert fresh(f'import sys, {imports}; print([m for m in {absent} if m in sys.modules])')=='[]'

@pytest.mark.parametrize('line, code, said', [('--help', 0, 'roofline'), ('--version', 0, 'fasterbench 0.'), ('peaks --help', 0, '--hierarchy'),
    ('peaks --colour', 2, 'unrecognized arguments: --colour'), ('compare', 2, 'required: a, b'), ('show nowhere.json', 2, "'nowhere.json': there is no such file"),
    ('estimate resnet18 --peaks nowhere.json', 2, "'nowhere.json': there"), ('', 2, 'required: command')])
def test_what_is_asked_is_read_without_torch(line, code, said):
    found = fresh(f"""import io, sys
from contextlib import redirect_stderr, redirect_stdout
from fasterbench.__main__ import main
with redirect_stdout(io.StringIO()) as out, redirect_stderr(out):
    try: main({line.split()!r})
    except SystemExit as e: code = e.code
print(code, {said!r} in out.getvalue(), [m for m in ('torch', 'numpy', 'plotly', 'fasterbench.cli') if m in sys.modules])""")
    assert found==f'{code} True []'

methods = {'RooflineAnalyzer': 'profile_step estimate estimate_step placed',
    'Roofline': 'table summary plot save load', 'Comparison': 'table summary plot save load'}

@pytest.mark.parametrize('kind', methods)
def test_methods_are_there(kind):
    "Where nothing but the class is imported, it has all of its methods, with their words"
    home, names = 'roofline' if kind=='RooflineAnalyzer' else 'results', methods[kind].split()
    code = f"""from inspect import getdoc
from fasterbench.{home} import {kind} as kind
print({{*{names}}}<={{*dir(kind)}}, all(getdoc(getattr(kind, o)) for o in {names}))"""
    assert forked(code)=='True True'

def test_help_has_the_words_of_parameters():
    "Once, where names are asked of the package; the reference has them from the source"
    said = forked("import fasterbench, pydoc; print(pydoc.plain(pydoc.render_doc(fasterbench.RooflineAnalyzer.profile)))")
    assert said.count('Args:')==1 and 'steps: ' in said.partition('Args:')[2]

@pytest.mark.parametrize('code, shown', [
    ('from fasterbench.results import Roofline; print(Roofline([]).table().split()[0])', 'name'),
    ("from inspect import signature; from fasterbench.roofline import RooflineAnalyzer as A; "
     "print('optimizer' in signature(A.profile_step).parameters)", 'True')])
def test_methods_are_real(code, shown): assert forked(code)==shown

def test_subclass_and_pickle(tmp_path):
    "An analyzer of one's own class has the methods, and one that another process pickled works"
    (tmp_path/'mine.py').write_text("""from fasterbench.roofline import HardwarePeaks, RooflineAnalyzer
import torch
class Mine(RooflineAnalyzer):
    def estimate_step(self, *args, **kwargs): return super().estimate_step(*args, loss=torch.sum, **kwargs)
def made(kind): return kind(torch.nn.Linear(8, 4), torch.ones(2, 8), HardwarePeaks(1e12, 1e11))
""")
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import pickle; file = {str(tmp_path/'a')!r}"
    forked(f"{path}; import mine; a = [mine.made(k) for k in (mine.RooflineAnalyzer, mine.Mine)]; a[0].estimate(); "
        "pickle.dump(a, open(file, 'wb'))")
    loaded = f"{path}; plain, own = pickle.load(open(file, 'rb')); import torch"
    assert forked(f"{loaded}; print(plain.results, len(plain.estimated), plain.peaks==own.peaks, type(own).__name__)")=='None 1 True Mine'
    flops = '[r.matmul_flops for r in plain.estimate_step(loss=torch.sum)]==[r.matmul_flops for r in own.estimate_step()]'
    assert forked(f"{loaded}; print({flops})")=='True'

def test_names_of_the_top_level_are_there():
    assert forked('import fasterbench; print(all(getattr(fasterbench, o) for o in fasterbench.__all__))')=='True'

@pytest.mark.parametrize('path', notebooks(), ids=lambda p: p.relative_to(top/'nbs').as_posix())
def test_lines_and_cells_are_short(path): assert not [*too_long(path), *overwritten(path)]

def test_cells_are_of_a_kind_that_pages_have():
    "A page that Quarto can't render stops all of the site"
    kinds = {(p.stem, c['cell_type']) for p in notebooks() for c in json.loads(p.read_text(encoding='utf-8'))['cells']}
    assert {k for _,k in kinds}=={'code', 'markdown'}, [o for o in kinds if o[1] not in ('code', 'markdown')]

def test_names_that_scripts_import_are_there():
    "Scripts that only other machines run, and code in their strings, import what the package defines"
    texts = {p: p.read_text(encoding='utf-8') for o in ('benchmarks', 'scripts', 'tests') for p in sorted((top/o).rglob('*.py'))}
    said = {(p.name, *m) for p,t in texts.items() for m in re.findall(r'^\s*from (fasterbench[\w.]*) import (\w[\w ,]*)$', t, re.M)}
    names = {(p, m, o.split(' as ')[0].strip()) for p,m,some in said for o in some.split(',')}
    wholes = {(p.name, *m) for p,t in texts.items() for m in re.findall(r'^import (fasterbench)[.](\w[\w.]*)$', t, re.M)}
    names = sorted(names | wholes)
    code = f"""from importlib import import_module
from importlib.util import find_spec
def there(m, o): return hasattr(import_module(m), o) or find_spec(f'{{m}}.{{o}}')
print([o for o in {names} if not there(*o[1:])])"""
    assert len(names)>100 and forked(code)=='[]'

@pytest.fixture(scope='module')
def files_of_two(tmp_path_factory):
    "Files of a sweep and of a comparison, by their classes, each with one pair of results"
    paths = {k: str(tmp_path_factory.mktemp('files')/f'{k}.json') for k in ('Sweep', 'Comparison')}
    forked(f"""import torch
from fasterbench import HardwarePeaks, RooflineAnalyzer, Sweep
a = RooflineAnalyzer(torch.nn.Linear(8, 4), torch.ones(2, 8), HardwarePeaks(1e12, 1e11)).estimate()
Sweep([a, a], [1, 2]).save({paths['Sweep']!r})
a.compare(a).save({paths['Comparison']!r})""")
    return paths

@pytest.mark.parametrize('kind, home', [('Sweep', 'records.swept'), ('Comparison', 'records.compare')])
def test_files_are_read_where_only_the_class_is_imported(kind, home, files_of_two):
    "From the package; the module alone, which is below what reads results, says what is missing"
    load = f"import {kind}\ntry: print(len({kind}.load({files_of_two[kind]!r})))\nexcept LookupError as e: print(e)"
    assert int(forked(f'from fasterbench {load}'))>0
    assert forked(f'from fasterbench.{home} {load}').startswith("'fasterbench roofline' is read by a module that is not imported yet; ")

def bound(path):
    "The names that a script has at its top"
    nodes = [o for o in ast.walk(ast.parse(path.read_text(encoding='utf-8'))) if isinstance(o, (ast.stmt, ast.expr))]
    defined = {o.name for o in nodes if isinstance(o, (ast.FunctionDef, ast.ClassDef)) and not o.col_offset}
    return defined | {o.id for o in nodes if isinstance(o, ast.Name) and isinstance(o.ctx, ast.Store)}

def test_scripts_import_what_others_have():
    "A measurement may take a name from another script, in the file where it is defined"
    said = [(p.name, *m) for p in sorted((top/'benchmarks').rglob('*.py'))
        for m in re.findall(r'^from (benchmarks[\w.]*) import ([\w ,]+)$', p.read_text(encoding='utf-8'), re.M)]
    homes = {m: (top/m.replace('.', '/')).with_suffix('.py') for _,m,_ in said}
    scripts = {m: {o.stem for o in (top/m.replace('.', '/')).glob('*.py')} for m in homes}
    lacking = [(p, m, n) for p,m,names in said for n in names.split(', ') if n not in (bound(homes[m]) if homes[m].exists() else scripts[m])]
    assert len(said)>40 and not lacking
