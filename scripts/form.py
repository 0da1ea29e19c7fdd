"""How long are the lines and the cells of what the notebooks export?

A line has at most 120 characters, a cell at most 20 lines. What is read at a glance counts as one line: a signature
with a parameter a line, a table, imports, the fields of a class.

    python scripts/form.py
"""
import ast, itertools, json, re, sys
from pathlib import Path

top = Path(__file__).resolve().parent.parent
most_characters, most_lines = 120, 20

def notebooks():
    "The notebooks of this project, as nbdev finds them"
    return sorted(p for p in (top/'nbs').rglob('*.ipynb') if not any(o[0] in '._' for o in p.relative_to(top).parts))

def export_cells(path):
    "Position and source of each cell that is exported"
    cells = json.loads(path.read_text())['cells']
    texts = [''.join(c['source']) if c['cell_type']=='code' else '' for c in cells]
    return [(i, t) for i,t in enumerate(texts) if re.match(r'#\|\s*exporti?\b', t)]

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

if __name__=='__main__':
    wanted = sys.argv[1:]
    found = [o for p in notebooks() if not wanted or p.stem in wanted for o in too_long(p)]
    print(*found, f'{len(found)} too long', sep='\n')
    sys.exit(bool(found))
