"""Saved outputs are documentation: they are made again by this script, and belong to the cell that they stand below.

Each cell that shows something carries a stamp: a hash of its source, of the cells before it that it depends on, and of what it
shows. So a cell that was changed after its output was made is seen on any machine, without running it.

    python scripts/outputs.py                      # which cells are behind
    python scripts/outputs.py --refresh            # run the notebooks that have such cells again, and save what they show
    python scripts/outputs.py --refresh costs cli  # these notebooks, whatever their stamps say
"""
import ast, builtins, hashlib, json, os, re, sys

from evidence import folder, results_read
from execnb.nbio import read_nb, write_nb
from fastcore.script import Param, call_parse, store_true
from IPython.core.inputtransformer2 import TransformerManager
from nbdev.clean import clean_nb
from notebooks import apart, bound_names, notebooks, ran, top

key = 'stamp'   # of a cell's metadata; settings.ini lets it pass nbdev_clean

def parsed(source):
    "A cell's code as Python has it; magics are calls"
    return ast.parse(TransformerManager().transform_cell(source))

def used_names(tree): return {o.id for o in ast.walk(tree) if isinstance(o, ast.Name)} - {*dir(builtins), 'get_ipython'}

def changed_names(tree):
    "The names to which a cell gives values, or whose objects it may change: `x.n = 1`, `x[0] = 1`, `x.append(1)`"
    def root(o):
        while isinstance(o, (ast.Attribute, ast.Subscript, ast.Call)): o = o.func if isinstance(o, ast.Call) else o.value
        return {o.id} if isinstance(o, ast.Name) else set()
    found = set(bound_names(ast.unparse(tree)))
    for o in ast.walk(tree):
        if isinstance(getattr(o, 'ctx', None), ast.Store) and not isinstance(o, ast.Name): found |= root(o)
        if isinstance(o, ast.Expr) and isinstance(o.value, ast.Call): found |= root(o.value.func)
    return found

def sources(cells):
    """For each cell of code the sources that its output depends on: its own, those before it that its names lead to, and the
    results of benchmarks that these read"""
    trees = [parsed(c.source) if c.cell_type=='code' else None for c in cells]
    uses, changes = ([f(t) if t else set() for t in trees] for f in (used_names, changed_names))
    def needed(i):
        wanted, found = set(uses[i]), [i]
        for j in range(i-1, -1, -1):
            if changes[j] & wanted: found.insert(0, j); wanted |= uses[j]
        text = '\n'.join(cells[j].source for j in found)
        return text + ''.join((folder/f'{o}.json').read_text(encoding='utf-8') for o in results_read(text))
    return [needed(i) if t else '' for i,t in enumerate(trees)]

def stamp(source, outputs):
    "A hash of what a cell depends on, and of what it shows"
    return hashlib.sha256((source + json.dumps(outputs, sort_keys=True)).encode()).hexdigest()[:16]

def behind(path):
    "The cells whose saved outputs are not of their source as it is now"
    cells = read_nb(path).cells
    for c,source in zip(cells, sources(cells)):
        if c.get('outputs') and c.metadata.get(key)!=stamp(source, c.outputs): yield c

home = re.compile(r'/(root|home|work|tmp|Users)/[\w.+-]+')
address = re.compile(r'<(function|bound method) | at 0x[0-9a-f]{6}')

def prints(source)->bool: # of a cell
    "Does a cell print, whatever else it does?"
    calls = (o.value for o in parsed(source).body if isinstance(o, ast.Expr) and isinstance(o.value, ast.Call))
    return any(getattr(o.func, 'id', '')=='print' for o in calls)

def problems(path):
    "What is wrong with the saved outputs of a notebook, in words"
    for c in behind(path): yield f'behind its cell, or another: {c.source.strip()[:70]!r}'
    for c in read_nb(path).cells:
        if c.cell_type=='code' and not c.outputs and '#| hide' not in c.source and prints(c.source): yield f'prints, and shows nothing: {c.source.strip()[:70]!r}'
    outputs = [o for c in read_nb(path).cells for o in c.get('outputs', [])]
    text = json.dumps(outputs)
    for what,found in (('a path', home.search(text)), ('where an object is', address.search(text))):
        if found: yield f'an output shows {what}: {found.group()}'
    if any(o['output_type']=='error' for o in outputs): yield 'an output is an error'
    if 'plotly.js v' in text: yield "an output holds all of plotly.js: pio.renderers.default = 'plotly_mimetype+notebook_connected'"

def kept(output):
    "Is it part of the page? Bars of progress and warnings of libraries are not"
    return output['output_type']!='stream' or output['name']!='stderr'

def make_again(path):
    "Run a notebook, with all drawn examples, and save what its cells show; the processor's seconds that it took"
    os.environ['FASTERBENCH_ALL'] = '1'
    made, seconds = apart(ran, path)
    nb = read_nb(path)
    for c,outputs in zip(nb.cells, made, strict=True):
        if c.cell_type=='code': c.outputs = [o for o in outputs or [] if kept(o)]
    clean_nb(nb)
    for c,source in zip(nb.cells, sources(nb.cells)):
        if c.get('outputs'): c.metadata[key] = stamp(source, c.outputs)
    write_nb(nb, path)
    return seconds

def asked_for(names):
    "The notebooks of these names, such as `costs` or `tutorials/roofline`"
    for name in names:
        found = [p for p in notebooks() if f'/{p.relative_to(top).with_suffix("").as_posix()}'.endswith(f'/{name}')]
        if not found: sys.exit(f'{name!r}: no notebook in nbs has this name')
        yield from found

@call_parse
def main(
    names:Param('notebooks, such as costs or tutorials/roofline', nargs='*'), # none: those with cells that are behind
    refresh:store_true=False, # run them and save what they show, instead of saying what is wrong
):
    "Which saved outputs are not of their cells as they are now? Or make them again"
    paths = [*asked_for(names)] or [p for p in notebooks() if not refresh or any(behind(p))]
    if refresh:
        for p in paths: print(f'{p.relative_to(top)}: {make_again(p):.0f} s of the processor', flush=True)
        return
    found = [f'{p.relative_to(top)}: {o}' for p in paths for o in problems(p)]
    print(*found, f'{len(found)} saved outputs are not in order', sep='\n')
    sys.exit(bool(found))
