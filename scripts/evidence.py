"""What benchmarks found: the form of their results, and how they are read.

A result is one file, `benchmarks/results/NAME.json`: what was asked, when, of which version and commit, on which device, with
which versions of other packages, and what was found: named figures, texts and tables, and rows, where there are many. The text
beside it is made of it. What is not known is `null`: results that are older than this form have the commit that put them into
the repository instead, under `committed`.
"""
import json, re, subprocess
from pathlib import Path
from textwrap import fill

from fastcore.basics import AttrDict
from tabulate import tabulate

top = Path(__file__).resolve().parent.parent
folder = top/'benchmarks'/'results'

def git(*args)->list: # of lines
    return subprocess.run(['git', *args], cwd=top, check=True, capture_output=True, text=True).stdout.splitlines()

# The form

def cell(o): return o if o is None or isinstance(o, (str, int, float)) or hasattr(o, 'item') else str(o)

def table(
    rows, # lists or dicts
    headers=(), # names of columns; 'keys': those of the dicts
    **form, # of the text: what `tabulate` is given besides
)->dict: # a table among the parts of a result
    "A table: its numbers and texts, and how they are printed"
    rows = [*rows]
    if headers=='keys':
        headers = dict.fromkeys(k for o in rows for k in o)
        rows = [[o.get(k) for k in headers] for o in rows]
    return dict(headers=[*headers], rows=[[*map(cell, o)] for o in rows], form=form)

def plain(o): return o.item() if hasattr(o, 'item') else str(o) # what JSON has no form for: numbers of numpy and torch, names

def json_of(value, pad='')->str:
    "JSON with a line for each row, so that a diff shows which has changed"
    parts = [*value.values()] if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else []
    if not any(isinstance(o, (dict, list, tuple)) for o in parts): return json.dumps(value, ensure_ascii=False, allow_nan=False, default=plain)
    lines = [f'{pad} ' + (f'{json.dumps(k)}: ' if isinstance(value, dict) else '') + json_of(o, pad + ' ')
        for k,o in (value.items() if isinstance(value, dict) else enumerate(value))]
    start, end = '{}' if isinstance(value, dict) else '[]'
    return f'{start}\n' + ',\n'.join(lines) + f'\n{pad}{end}'

def asked(r)->str:
    "The script and its arguments"
    if r['arguments'] is None: return f"{r['script']}, with arguments that are not recorded"
    given = ', '.join(f'{k} {v}' for k,v in r['arguments'].items() if v)
    return r['script'] + (f' with {given}' if given else '')

def of_when(r)->str:
    "The date of a run and the package's commit, or how both can be narrowed down"
    code = r['fasterbench']
    if r['date'] is None:
        return f"date and version not recorded; in the repository since {r['committed']['date']}, commit {r['committed']['commit'][:8]}"
    commit = f"commit {code['commit'][:8]}{', changed' if code['changed'] else ''}" if code['commit'] else 'commit not recorded'
    return f"{r['date']} UTC; fasterbench {code['version']}, {commit}"

def circumstances(r)->list: # of lines
    "On what, with what, when and by which script a result was found"
    threads = 'threads not recorded' if r['threads'] is None else f"{r['threads']} thread{'s'*(r['threads']!=1)}"
    versions = ', '.join(f'{k} {v}' for k,v in r['versions'].items()) or 'versions not recorded'
    return [f"{r['device'] or 'device not recorded'}, {threads}; {versions}", of_when(r), asked(r)]

def part_text(part)->str:
    if isinstance(part, str): return part
    return tabulate(part['rows'], headers=part['headers'], **part['form']) if part['rows'] else 'none'

def text_of(r)->str: return '\n'.join(circumstances(r)) + f"\n{r['what']}\n\n" + '\n\n'.join(map(part_text, r['parts'])) + '\n'

def save(r):
    "Write a result, and its text"
    (folder/f"{r['name']}.json").write_text(json_of(r) + '\n', encoding='utf-8')
    (folder/f"{r['name']}.txt").write_text(text_of(r), encoding='utf-8')

def names()->list: return sorted(p.stem for p in folder.glob('*.json') if not p.stem.startswith('on_gpu')) # of results

def read(name)->dict: return json.loads((folder/f'{name}.json').read_text(encoding='utf-8'))

def result(
    name:str, # of a file in benchmarks/results, without its end
)->AttrDict: # what its file holds, with `tables` (of `headers` and `rows`), `rows` as dicts, and `about`: on what, with what, and when
    "What a benchmark found"
    r = AttrDict(read(name))
    r.about = '\n'.join(fill(o, 96) for o in circumstances(r)[:2])
    r.tables = [AttrDict(o) for o in r.parts if isinstance(o, dict)]
    r.rows = [dict(zip(r.rows['headers'], o)) for o in r.rows['rows']] if r.rows else []
    return r

def results_read(code)->list: # names
    "The results that a piece of code reads"
    return re.findall(r"\bresult\('(\w+)'\)", code)

# Figures in prose

mark = re.compile(r'<!--(\w+)\.([\w.]+)(?::([^>]*?))?-->(.*?)<!--/-->')

def unmarked(text): return re.sub(r'<!--(?:\w+\.[\w.]+(?::[^>]*?)?|/)-->', '', text) # a text as its readers see it
