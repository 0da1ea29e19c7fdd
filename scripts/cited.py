"""Where the figures of pages come from: results of benchmarks, and which of these are old.

In the prose of a page a figure stands between marks: `<!--published_counts.values-->116<!--/-->` is `values` among the figures of
the result `published_counts`, and what follows a colon is a format of Python's, as in `<!--trace_cost.memory_ratio:.1f-->`; `published_counts.when` is the date and
the commit. README.md has none of the marks. A paragraph that names a benchmark has no other figures than that one's.

    python scripts/cited.py fill     # write the figures between marks, and the texts of results
    python scripts/cited.py check    # figures in prose that no result holds
    python scripts/cited.py ages     # results that are older than the code they measure
"""
import ast, re, subprocess, sys
from functools import cache

import networkx as nx
from evidence import folder, git, mark, names, of_when, read, text_of
from execnb.nbio import read_nb, write_nb
from fastcore.script import call_parse
from house import drawn, imported
from notebooks import notebooks, top

# Figures between marks

def figure(name, path, form=''):
    "A figure of a result as text; `when` is its date and commit"
    r = read(name)
    if path=='when': return of_when(r)
    value = r['figures']
    for key in path.split('.'): value = value[key]
    return format(value, form or (',' if isinstance(value, int) else 'g'))

def filled(text)->str: return mark.sub(lambda m: f'{m[0].partition("-->")[0]}-->{figure(*m.group(1, 2, 3))}<!--/-->', text)

def fill():
    "Write the figures of all pages, and the texts of all results"
    for p in notebooks():
        nb = read_nb(p)
        cells = [c for c in nb.cells if c.cell_type=='markdown' and c.source!=filled(c.source)]
        for c in cells: c.source = filled(c.source)
        if cells: write_nb(nb, p)
    for name in names(): (folder/f'{name}.txt').write_text(text_of(read(name)), encoding='utf-8')

# Figures that prose claims

cited = re.compile(r'benchmarks/(?:checks/|results/)?(\w+?)(_\*)?\.(?:py|txt|json|\*)')
digits = re.compile(r'(?<![\w.^#⁻−-])[−-]?\d[\d,]*(?:\.\d+)?(?![\w⁰¹²³⁴⁵⁶⁷⁸⁹])')

def cited_results(text)->list:
    "The results of the scripts and files that a text names; a script that has written none is an empty list's"
    stems = {stem for stem,_ in cited.findall(text)}
    return [n for n in names() for stem in stems if n==stem or n.startswith(f'{stem}_') or read(n)['script'].endswith(f'.{stem}')]

def values_in(o):
    "Every number of a value: texts count with the numbers that stand in them"
    if isinstance(o, (dict, list)): return {v for x in (o.values() if isinstance(o, dict) else o) for v in values_in(x)}
    if isinstance(o, str): return {float(d.replace(',', '').replace('−', '-')) for d in digits.findall(o)}
    return {float(o)} if isinstance(o, (int, float)) and not isinstance(o, bool) else set()

@cache
def held(name)->set:
    "The numbers of a result that prose may say: figures, arguments, and what its texts say"
    r = read(name)
    return values_in([r['figures'], r['arguments'], r['what'], [o for o in r['parts'] if isinstance(o, str)]])

def blocks(text):
    "Paragraphs; a list's item or a table's row is one, and a table belongs to the paragraph behind it"
    text, table = re.sub(r'(?ms)^```.*?^```', '', text), ''
    for block in re.split(r'\n\s*\n|\n(?=[-*] )', text):
        if block.startswith('|') and not cited.search(block): table = block; continue
        yield from block.split('\n') if block.startswith('|') else [f'{table}\n{block}']
        table = ''
    if table: yield table

def claims(text):
    "The numbers without marks in each paragraph that names a benchmark, and the results of that"
    for block in blocks(text):
        if not cited.search(block): continue
        plain = re.sub(r'`[^`]*`|\]\([^)]*\)', ' ', mark.sub(' ', block))
        yield cited_results(block), digits.findall(plain), cited.findall(block)

def lacking(text):
    "Figures that a text says a benchmark has found, and that no result of that holds, in words"
    for found,said,stems in claims(text):
        there = set().union(*map(held, found))
        odd = [o for o in said if float(o.replace(',', '').replace('−', '-')) not in there]
        where = ', '.join(found) or f"{' and '.join(sorted({o for o,_ in stems}))}, which has no result"
        if odd: yield f"{', '.join(odd)}: not in {where}"

def unheld():
    "Figures of pages that no result holds, and marked ones that are not what it holds, in words"
    for p in notebooks():
        for c in read_nb(p).cells:
            if c.cell_type!='markdown': continue
            page = p.relative_to(top/'nbs').as_posix()
            yield from (f'{page}: {o}' for o in lacking(c.source))
            for m in mark.finditer(c.source):
                try: now = figure(*m.group(1, 2, 3))
                except (FileNotFoundError, KeyError, TypeError): yield f'{page}: there is no figure {m[1]}.{m[2]}'; continue
                if now!=m[4]: yield f'{page}: {m[1]}.{m[2]} is {now}, and {m[4]} on the page'

# Results that are older than what they measure

def needed(script)->set:
    "The files that a script leads to: its own, those of `benchmarks` that it imports, and the package's modules"
    graph, todo, files = drawn()[0], [script], set()
    while todo:
        path = f"{todo.pop().replace('.', '/')}.py"
        if path in files or not (top/path).exists(): continue
        files.add(path)
        text = (top/path).read_text(encoding='utf-8')
        todo += re.findall(r'(benchmarks(?:\.\w+)+)', text) + [f'benchmarks.{a}.{b}' for a,b in re.findall(r'from benchmarks\.(\w+) import (\w+)', text)]
        own = {m for n in ast.walk(ast.parse(text)) for m,_ in imported(n, '', 'fasterbench', set(graph)) if m}
        own |= {m for m in re.findall(r'fasterbench\.([\w.]+)', text) if m in graph}
        files |= {f"fasterbench/{m.replace('.', '/')}.py" for o in own for m in {o, *nx.descendants(graph, o)}}
    return files

def known_commit(commit): return not subprocess.run(['git', 'cat-file', '-e', f'{commit}^{{commit}}'], cwd=top, capture_output=True).returncode

def age(name)->str:
    "How many commits have changed what a result measures since it was found"
    r = read(name)
    commit, when = r['fasterbench']['commit'] or r['committed']['commit'], r['date'] or r['committed']['date']
    if not known_commit(commit): return f'{name}: {when}, of commit {commit[:8]}, which is not in this repository'
    files = needed(r['script']) - {'benchmarks/shared/report.py'}   # it writes results
    n = len(git('log', '--format=%h', f'{commit}..HEAD', '--', *sorted(files)))
    changed = git('diff', '--name-only', commit, 'HEAD', '--', *sorted(files))
    return f'{name}: {when}; ' + (f'{n} commits since then have changed {len(changed)} of its {len(files)} files' if changed else 'as its code is now')

@call_parse
def main(
    do:str, # fill, check or ages
):
    "Write the figures of pages, or say which no result holds, or how old the results are"
    if do=='fill': return fill()
    if do=='ages': return print(*map(age, names()), sep='\n')
    if do!='check': raise SystemExit(f'{do!r}: fill, check or ages')
    found = [*unheld()]
    print(*found, f'{len(found)} figures of pages are not in order', sep='\n')
    sys.exit(bool(found))
