"""What can a change reach? From the files that changed to the modules that need them, and to the notebooks that use those.

    python scripts/reach.py     # notebooks and tests, nearest first
"""
import re, subprocess

import networkx as nx
from evidence import results_read
from execnb.nbio import read_nb
from house import drawn, modules
from notebooks import notebooks, top

always = {'test_house.py': 0, 'test_cited.py': 8, 'test_made.py': 9}   # they look at all files, in seconds

def changed_files():
    "The files that are not as in the last commit; where all are, those of the last commit"
    def git(*args): return subprocess.run(['git', *args], cwd=top, check=True, capture_output=True, text=True).stdout.splitlines()
    return git('diff', '--name-only', 'HEAD') + git('ls-files', '--others', '--exclude-standard') or git('diff', '--name-only', 'HEAD~1')

def own_module(nb):
    "The module that a notebook exports to, or `None`"
    found = re.search(r'^#\|\s*default_exp\s+(\S+)', '\n'.join(c.source for c in nb.cells if c.cell_type=='code'), re.M)
    return found and found[1]

def used_modules(nb):
    "The modules that the code of a notebook names: `from fasterbench.x import y`, in code for other processes too"
    text = '\n'.join(c.source for c in nb.cells if c.cell_type=='code')
    from fasterbench import _home
    names = re.findall(r'from fasterbench import (.*)', text)
    short = {_home.get(o.split(' as ')[0].strip(), '').lstrip('.') for line in names for o in line.strip('()').split(',')}
    return short | set(re.findall(r'\bfasterbench\.([\w.]+)', text)) | {own_module(nb)}

def distances(files=None):
    "Part of a test's name → how far it is from what changed, in imports"
    files = changed_files() if files is None else files
    if any(o.startswith('scripts/') or '/' not in o and o.endswith(('.ini', '.toml', 'setup.py')) for o in files): return {'': 0}
    graph, nbs = drawn()[0].reverse(), {p: read_nb(p) for p in notebooks()}
    there = {f'nbs/{p.relative_to(top/"nbs")}': p for p in nbs}
    begun = {own_module(nbs[there[o]]) for o in files if o in there} | {'.'.join(o.removesuffix('.py').split('/')[1:]) for o in files}
    tables = {f"'{o.split('/')[-1]}'" for o in files if o.startswith('fasterbench/data/')}   # the modules that name one read it
    begun |= {m for m,p in modules(top/'fasterbench').items() if tables and any(o in p.read_text(encoding='utf-8') for o in tables)}
    far = nx.multi_source_dijkstra_path_length(graph, found) if (found := begun & set(graph)) else {}
    res = dict(always) | {o.split('/')[1]: 0 for o in files if o.startswith('tests/')}
    if any(o.startswith('benchmarks/') for o in files): res['test_benchmarks.py'] = 1
    results = {o.split('/')[-1].removesuffix('.json') for o in files if o.startswith('benchmarks/results/')}
    for p,nb in nbs.items():
        read = {o for c in nb.cells if c.cell_type=='code' for o in results_read(c.source)}
        near = [far[m] for m in used_modules(nb) if m in far] + [0]*(f'nbs/{p.relative_to(top/"nbs")}' in files or bool(results & read))
        if near: res[f'[{p.relative_to(top/"nbs").as_posix()}]'] = min(near)
    return res

if __name__=='__main__':
    for name,n in sorted(distances().items(), key=lambda o: o[1]): print(n, name or 'everything')
