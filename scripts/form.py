"""How long are the lines and the cells of what the notebooks export, and does another cell overwrite its names?

A line has at most 120 characters, a cell at most 20 lines. What is read at a glance counts as one line: a signature
with a parameter a line, a table, imports, the fields of a class.
In `nbdev_test` all cells of a notebook share their names, so no demonstration gives another value to a name that an
exported function looks up.

    python scripts/form.py
"""
import ast, itertools, json, re, symtable, sys

from IPython.core.inputtransformer2 import TransformerManager
from notebooks import bound_names, notebooks
from pages import global_names

most_characters, most_lines = 120, 20

def code_cells(path):
    "Position and source of each cell of code"
    return [(i, ''.join(c['source'])) for i,c in enumerate(json.loads(path.read_text())['cells']) if c['cell_type']=='code']

def export_cells(path):
    "Position and source of each cell that is exported"
    return [(i, t) for i,t in code_cells(path) if re.match(r'#\|\s*exporti?\b', t)]

def folded(tree):
    "First and last line of what counts as one line: a signature, a table, imports, the fields of a class"
    for o in ast.walk(tree):
        if isinstance(o, (ast.FunctionDef, ast.AsyncFunctionDef)): yield o.lineno, o.body[0].lineno - 1
        if isinstance(o, (ast.Module, ast.ClassDef)): yield from runs(o.body)

def runs(body):
    "Assignments one by one; imports, and fields of a class, that follow each other as one"
    for kind,group in itertools.groupby(body, type):
        group = list(group)
        if kind is ast.Assign: yield from ((o.lineno, o.end_lineno) for o in group)
        elif kind in (ast.AnnAssign, ast.Import, ast.ImportFrom): yield group[0].lineno, group[-1].end_lineno

def cell_lines(text):
    "The lines of a cell, as they are read"
    lines = text.split('\n')
    hidden = {i for a,b in folded(ast.parse(text)) for i in range(a+1, b+1)}
    return sum(i not in hidden and bool(l.strip()) and not l.startswith('#|') for i,l in enumerate(lines, 1))

def too_long(path):
    "What is too long in a notebook, in words"
    for i,text in export_cells(path):
        for line in text.split('\n'):
            if len(line)>most_characters: yield f'{path.name}, cell {i}: {len(line)} characters: {line.strip()[:60]} …'
        n = cell_lines(text)
        if n>most_lines: yield f'{path.name}, cell {i}: {n} lines: {text.split(chr(10))[1][:60]} …'

def symbols(text): return symtable.symtable(text, 'cell', 'exec')

def looked_up(text):
    "The names that functions of a piece of code look up in their module"
    return set().union(*map(global_names, symbols(text).get_children()))

def assigned(text):
    "The names that a cell gives values to, other than by an import; a magic is a call"
    found = symbols(TransformerManager().transform_cell(text)).get_symbols()
    return {o.get_name() for o in found if o.is_assigned() and not o.is_imported()}

def overwritten(path):
    "Names that exported functions look up, and another cell overwrites, in words"
    exported = dict(export_cells(path))
    needed = {n for t in exported.values() for n in bound_names(t)} & set().union(*map(looked_up, exported.values()))
    for i,text in code_cells(path):
        found = needed & assigned(text) if i not in exported else ()
        if found: yield f'{path.name}, cell {i}: overwrites what exported functions look up: {", ".join(sorted(found))}'

if __name__=='__main__':
    wanted = sys.argv[1:]
    found = [o for p in notebooks() if not wanted or p.stem in wanted for o in (*too_long(p), *overwritten(p))]
    print(*found, f'{len(found)} to mend', sep='\n')
    sys.exit(bool(found))
