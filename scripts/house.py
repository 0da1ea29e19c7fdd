"""Which module of the package needs which, however it asks: at its top, inside of a function, or by a name in a string.

    python scripts/house.py [PACKAGE]   # floors with lines of code, circles, private names from elsewhere, names defined twice
"""
import ast, io, sys, tokenize
from collections import Counter
from functools import cache
from pathlib import Path

import networkx as nx

top = Path(__file__).resolve().parent.parent
loaders, tables = {'import_module', '__import__', 'forwarding'}, {'views', '_home'}   # what takes names of modules

def modules(package):
    "Dotted name → path of each module"
    found = {'.'.join(p.relative_to(package).with_suffix('').parts): p for p in sorted(package.rglob('*.py'))}
    return {k: v for k,v in found.items() if v.stem not in ('_modidx', '__init__', '__main__')}

def longest_known(dotted, known):
    "The module that a dotted name begins with"
    while dotted and dotted not in known: dotted = dotted.rpartition('.')[0]
    return dotted

def base(node, name, package):
    "What an import of names starts from, inside of the package; `None`: it is of another one"
    if node.level: return '.'.join([*name.split('.')[:-node.level], *filter(None, [node.module])])
    head, _, rest = node.module.partition('.')
    return rest if head==package else None

def imported(node, name, package, known):
    "What one statement imports from the package: (module, name) pairs"
    if isinstance(node, ast.ImportFrom) and (start := base(node, name, package)) is not None:
        for o in node.names: yield longest_known(f'{start}.{o.name}'.strip('.'), known) or longest_known(start, known), o.name
    if isinstance(node, ast.Import):
        for o in node.names:
            head, _, rest = o.name.partition('.')
            if head==package: yield longest_known(rest, known), ''

def named(node, package, known):
    "Modules that stand in strings of a call that loads, or of a table of modules"
    loads = isinstance(node, ast.Call) and getattr(node.func, 'id', getattr(node.func, 'attr', None)) in loaders
    table = isinstance(node, ast.Assign) and tables & {getattr(t, 'id', None) for t in node.targets}
    texts = [o.value for o in ast.walk(node) if isinstance(o, ast.Constant) and isinstance(o.value, str)] if loads or table else []
    return {o for t in texts if (o := t.removeprefix(f'{package}.').lstrip('.')) in known}

@cache
def drawn(package=top/'fasterbench'):
    "The graph of imports (from who needs to what is needed), and the private names that cross from one module to another"
    known, graph, private = modules(package), nx.DiGraph(), []
    graph.add_nodes_from(known)
    for name,path in known.items():
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            found = [o for o in imported(node, name, package.name, known) if o[0] and o[0]!=name]
            graph.add_edges_from((name, o) for o in {m for m,_ in found} | named(node, package.name, known) - {name})
            private += [f'{name} takes {m}.{o}' for m,o in found if o.startswith('_')]
    return graph, private

def circles(graph): return sorted(sorted(o) for o in nx.strongly_connected_components(graph) if len(o)>1)

def floors(graph):
    "Module → how long the longest way down from it is; a circle counts as one step"
    houses = nx.condensation(graph)
    return {m: i for i,o in enumerate(nx.topological_generations(houses.reverse())) for n in o for m in houses.nodes[n]['members']}

def defined_twice(package=top/'fasterbench'):
    "Public functions and classes that more than one module defines"
    def patched(n): return any(ast.unparse(d).startswith('patch') for d in n.decorator_list)
    def public(path):
        for n in ast.parse(path.read_text(encoding='utf-8')).body:
            if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith('_') and not patched(n): yield n.name
    return sorted(k for k,n in Counter(o for p in modules(package).values() for o in set(public(p))).items() if n>1)

no_code = tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER

def docstring_lines(tree):
    for n in ast.walk(tree):
        if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(n, clean=False) is not None:
            yield from range(n.body[0].lineno, n.body[0].end_lineno + 1)

def code_lines(package=top/'fasterbench'):
    "Module → its lines of code: without empty ones, comments and docstrings"
    def lines(text):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        used = {i for t in tokens if t.type not in no_code for i in range(t.start[0], t.end[0] + 1)}
        return len(used - {*docstring_lines(ast.parse(text))})
    return {m: lines(p.read_text(encoding='utf-8')) for m,p in modules(package).items()}

if __name__=='__main__':
    package = Path(sys.argv[1]) if sys.argv[1:] else top/'fasterbench'
    graph, private = drawn(package)
    by_floor = floors(graph)
    lines = code_lines(package)
    for i in sorted(set(by_floor.values()), reverse=True):
        print(f'{i+1:3}', *sorted(f'{m} {lines[m]}' for m,f in by_floor.items() if f==i), sep='  ')
    print(*(f"circle of {len(o)}: {' '.join(o)}" for o in circles(graph)), *private, sep='\n')
    print(f'{len(graph)} modules, {sum(lines.values())} lines of code, {graph.number_of_edges()} imports, {max(by_floor.values())+1} floors, {len(circles(graph))} circles, '
        f'{len(private)} private names from elsewhere, {len(defined_twice(package))} public names defined twice')
    sys.exit(bool(circles(graph)))
