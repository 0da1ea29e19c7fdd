"""Pages of the site: what each module defines, an example first, names that lead to where they are documented.

nbdev makes a page of each notebook. Its `show_doc` asks running objects for what stands in the source: constants say nothing
there, named tuples have no comments, classes no methods, and defaults are what was made of them. So the reference is read from
the source, by `PageProc`, the last of nbdev's processors (`procs` in settings.ini).

- In place of a cell that is exported stand a heading for each public name, a link to its source, its signature, fields or value
  with the author's comments and line breaks, and its docstring.
- A cell with the directive `#| top` stands first, with what it uses in front of it, and without its lines that only check.
  What `%%ranks 2` runs in two processes says so in a comment.
- Cells of checks alone are folded; names in backticks are links; long sentences of outputs are wrapped.
- A script with `data-file` holds that file.
"""
import ast, builtins, collections, itertools, os, re, symtable, textwrap
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from execnb.nbio import mk_cell
from fastcore.basics import groupby
from nbdev.config import get_config
from nbdev.doclinks import patch_name
from nbdev.process import NBProcessor

# What a text of Python defines

class Entry(NamedTuple):
    "A public name, as the source has it"
    name:str # a method's with its class, such as `Roofline.plot`
    kind:str # `"function"`, `"method"`, `"property"`, `"class"` or `"value"`
    code:str # signature, fields or value
    text:str # docstring; empty: there is none
    line:int # where it begins

def public(name): return not name.startswith('_')
def called(node): return ast.unparse(node.func) if isinstance(node, ast.Call) else ''
def docstring(node): return ast.get_docstring(node) or '' if isinstance(node, (ast.ClassDef, ast.FunctionDef)) else ''
def is_property(node): return any('prop' in ast.unparse(o) for o in node.decorator_list)

@lru_cache(8)
def lines_of(source):
    "In bytes, which places of nodes are counted in"
    return source.encode().splitlines(keepends=True)

def segment(source, node):
    "The text of a node; `ast.get_source_segment` divides all of a source into lines for each"
    lines = lines_of(source)[node.lineno-1:node.end_lineno]
    lines[-1] = lines[-1][:node.end_col_offset]   # first: node may be within a line
    return b''.join([lines[0][node.col_offset:], *lines[1:]]).decode()

def comment(source, node):
    "What stands behind a statement"
    rest = lines_of(source)[node.end_lineno-1][node.end_col_offset:].decode().rstrip()
    return rest if rest.lstrip().startswith('#') else ''

def signature(source, node):
    "A function's first lines, up to its body and without `self`; `node`: its place in the source"
    body, at = node.body[0], dict(lineno=node.lineno, col_offset=node.col_offset)
    before = ast.Pass(**at, end_lineno=body.lineno, end_col_offset=body.col_offset)
    head = segment(source, before).rstrip()
    if body.lineno==node.lineno or source.splitlines()[body.lineno-1][:body.col_offset].strip():
        head += comment(source, node.body[-1])   # the body is on the same line, and the comment behind it
    head = re.sub(r':\s*(#[^\n]*)?$', lambda m: f' {m[1]}' if m[1] else '', head)
    return re.sub(r'\(self(?::\w+)?,? *', '(', textwrap.dedent(' '*node.col_offset + head), count=1)

def as_field(source, node):
    "A property, written like a field; without a comment, its docstring stands for one"
    sig = signature(source, node)
    said = sig.rpartition(' # ')[2] if ' # ' in sig else docstring(node).split('\n')[0]
    kind = ':' + segment(source, node.returns) if node.returns else ''
    return node.name + kind + (f' # {said}' if said else '')

def method(source, node):
    doc = docstring(node).split('\n')[0]
    return signature(source, node) + (f'\n    "{doc}"' if doc else '')

def field(source, node):
    "A field with its comment, and with its default in place of what makes it"
    text, said, v = segment(source, node), comment(source, node), node.value
    if not re.match(r'field$|_', called(v)): return text + said
    told, empty = {o.arg: ast.unparse(o.value) for o in v.keywords}, dict(dict='{}', list='[]')
    made = told.get('default_factory', ast.unparse(node.annotation))   # a function of this page's module makes it
    default = told.get('default') if told and 'default_factory' not in told else empty.get(made, f'{made}()')
    head, equals, _ = re.split(r'( ?= ?)(?=field\(|_\w+\()', text, maxsplit=1)
    return f"{head}{equals + default if default else ''} {said.lstrip()}".rstrip()

def aligned(lines):
    "Comments of short fields stand in the column that most have"
    one = [o for o in lines if ' # ' in o and not re.search(r'\n|^def ', o)]
    (at, n), = collections.Counter(o.index(' # ') for o in one).most_common(1) or [(0, 0)]
    def moved(code, _, said): return f'{code.rstrip():{at}} # {said}'
    return [moved(*o.partition(' # ')) if o in one and n>2 else o for o in lines]

def member(source, node):
    "A line of a class, without a method's body; `None`: it is not shown"
    if isinstance(node, ast.AnnAssign) and public(node.target.id): return field(source, node)
    shown = isinstance(node, ast.FunctionDef) and (public(node.name) or node.name in ('__init__', '__call__'))
    return (as_field if is_property(node) else method)(source, node) if shown else None

def stub(source, node):
    "A class without the bodies of its methods"
    bases = ', '.join(map(ast.unparse, node.bases))
    lines = [m for o in node.body if (m := member(source, o))]
    return '\n'.join([f"class {node.name}{f'({bases})' if bases else ''}:", *aligned(lines)]).replace('\n', '\n    ')

def value(source, node):
    "The public names that an assignment makes, as one, and the text with the lines of comment right above"
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [o.id for t in targets for o in getattr(t, 'elts', [t]) if isinstance(o, ast.Name) and public(o.id)]
    before = reversed(source.splitlines(keepends=True)[:node.lineno-1])
    above = [*itertools.takewhile(re.compile('# (?!%%)').match, before)]
    return ', '.join(names), ''.join(above[::-1]) + segment(source, node) + comment(source, node)

def defined(source, node):
    "The public name that a statement defines, its kind and how it is shown; an empty name: none"
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        name, code = value(source, node)
        return name, 'value', code
    if not public(getattr(node, 'name', '_')): return '', '', ''
    if isinstance(node, ast.ClassDef): return node.name, 'class', stub(source, node)
    if is_property(node): return patch_name(node), 'property', as_field(source, node)
    name = patch_name(node)
    return name, 'method' if '.' in name else 'function', signature(source, node)

def entries(source):
    "The public names that a text of Python defines, in its order"
    found = [(*defined(source, o), docstring(o), o.lineno) for o in ast.parse(source).body]
    return [Entry(*o) for o in found if o[0]]

# How a name looks

def anchor(name): return name.split(',')[0] # where links to a name lead on its page

@lru_cache
def all_entries()->dict: # module → list of `Entry`
    "What each module of the package defines"
    lib = get_config().lib_path
    paths = {'.'.join(p.relative_to(lib).with_suffix('').parts): p for p in lib.rglob('*.py') if not p.stem.startswith('_')}
    return {o: entries(paths[o].read_text(encoding='utf-8')) for o in sorted(paths)}

def source_url(module, name):
    "Where a name's source is; empty: it is not there"
    cfg, line = get_config(), next((o.line for o in all_entries().get(module, []) if o.name==name), None)
    return f"{cfg.git_url}/blob/{cfg.branch}/{cfg.lib_path.name}/{module.replace('.', '/')}.py#L{line}" if line else ''

def entry_markdown(e, url=''):
    "A name's place in the reference: a heading, to which links lead, a link to the source, the code and what is said of it"
    kind = f'*{e.kind}*' if e.kind in ('property', 'value') else ''
    link = f'[source]({url}){{.source-link}}' if url else ''
    text = '' if e.code.endswith(f'# {e.text}') else e.text   # a property's
    place = f'#{anchor(e.name)}' + ' .unnumbered .unlisted'*('.' in e.name)
    parts = f'### {e.name} {{{place}}}', f'{kind} {link}'.strip(), f'```python\n{e.code}\n```', text
    return '\n\n'.join(filter(None, parts))

def first_sentence(e):
    said = re.search(r'# (.*)' + '$'*(e.kind not in ('value', 'property')), e.code)
    return (e.text.split('\n')[0] or (said[1] if said else '')).replace('|', r'\|')

def contents(found, longest=8):
    "A table of the names on a page, folded where they are many; empty: no names"
    rows = [f"| [`{e.name}`](#{anchor(e.name)}) | {first_sentence(e)} |" for e in found]
    table = '\n'.join(['::: {.contents}', '| name | what it is |', '|:--|:--|', *rows, ':::'])
    if len(rows)<=longest: return table if rows else ''
    return f'<details><summary>{len(rows)} names</summary>\n\n{table}\n\n</details>'

# Cells that check

def statements(source):
    "The statements of a cell, also below a magic such as `%%ranks 2`; none: it is no Python"
    try: return ast.parse(re.sub(r'\A%%.*', '', source)).body
    except SyntaxError: return []   # a magic in a line

def asserts(node):
    "Does a statement do nothing but check?"
    if isinstance(node, ast.Expr): return called(node.value).rpartition('.')[2].startswith(('test_', 'assert'))
    return isinstance(node, ast.Assert) or isinstance(node, (ast.For, ast.With)) and all(map(asserts, node.body))

def n_lines(nodes): return sum(o.end_lineno - o.lineno + 1 for o in nodes)

def checks_only(source, least=4):
    "Is more than half of a text checks, `least` lines of them or of what the page does not document?"
    nodes = statements(source)
    checks = n_lines(filter(asserts, nodes))
    return checks>n_lines(nodes)/2 and (checks>=least or re.search(r'(?<![\w.])_[a-z]\w*\(', source) is not None)

def without_checks(source):
    "A text without the statements that do nothing but check"
    left_out = {i for o in statements(source) if asserts(o) for i in range(o.lineno, o.end_lineno + 1)}
    return '\n'.join(line for i,line in enumerate(source.split('\n'), 1) if i not in left_out)

def fold(title): return f'#| code-fold: true\n#| code-summary: "{title}"\n'

folded = fold('Checks')

def folds(c): return c.cell_type=='code' and c.source.startswith(folded) and f'{folded}# on ' not in c.source

def with_folds(cells):
    "Cells of checks are folded, neighbours together; what several processes run stays apart"
    found = []
    for c in cells:
        if c.cell_type=='code' and not c.get('outputs') and 'code-fold' not in c.source and checks_only(c.source):
            c.source = folded + c.source
        if found and folds(found[-1]) and folds(c): found[-1].source += f'\n\n{c.source.removeprefix(folded)}'
        else: found.append(c)
    return found

# What an example uses

def global_names(table):
    own = {o.get_name() for o in table.get_symbols() if o.is_global() and o.is_referenced()}
    return own.union(*map(global_names, table.get_children()))

def made_and_used(source):
    "The names that a text of Python makes, and those that it needs from outside"
    table = symtable.symtable(source, '', 'exec')
    made = {o.get_name() for o in table.get_symbols() if o.is_assigned() or o.is_imported()}
    return made, global_names(table) - made - {*vars(builtins), 'get_ipython'}

def imported(node):
    "A line for each name that an import makes"
    lead = f'from {node.module} import ' if isinstance(node, ast.ImportFrom) else 'import '
    if node.names[0].name=='*': return {o: lead + o for o in import_module(node.module).__all__}
    def as_name(o): return o if o.asname or isinstance(node, ast.ImportFrom) else ast.alias(o.name.partition('.')[0])
    return {o.asname or o.name: lead + ast.unparse(o) for o in map(as_name, node.names)}

def makers(source, module=''):
    "What makes the names of a cell, which is exported to `module`: name → statement"
    found, lead = {}, f'from {get_config().lib_path.name}.{module} import '
    for o in statements(source):
        if isinstance(o, (ast.Import, ast.ImportFrom)): found |= imported(o); continue
        text = segment(source, o)
        found |= {k: lead + k if module else text + comment(source, o) for k in sorted(made_and_used(text)[0])}
    return found

def needed_statements(source, made, known=()):
    "The statements of `made` that an example needs, and what they need, in their order; `known` is there already"
    lines, known = [], {*known}
    for name in sorted(made_and_used(source)[1] - known):
        if name not in made: raise NameError(f'nothing before this example makes {name!r}: {source}')
        more = needed_statements(made[name], made, known|{name})
        lines += [o for o in [*more, made[name]] if o not in lines]
    return lines

def is_import(line): return line.startswith(('from ', 'import '))

def with_setup(lines, source=''):
    "Statements before an example: imports, those from one module in one line, an empty line, the others"
    of = groupby((o.split(' import ') for o in lines if o.startswith('from ')), 0, 1)
    imports = sorted(o for o in lines if o.startswith('import '))
    imports += [f"{k} import {', '.join(sorted(v))}" for k,v in sorted(of.items())]
    rest = [*(o for o in lines if not is_import(o)), source]
    return '\n'.join([*imports, ''] + rest if imports else rest).strip('\n')

def standing_alone(source, made, known=(), ranks=0):
    "Texts of cells: an example, or what it uses and the example; a rank has nothing but its own four names"
    if ranks: made, known = {}, {'torch', 'dist', 'rank', 'world'}
    try: lines = needed_statements(re.sub(r'\A%%.*', '', source), made, known)
    except SyntaxError: return [source]   # a magic in a line
    n = sum(o.count('\n') + 1 for o in lines if not is_import(o))
    return [with_setup(lines, source)] if n<=4 else [fold('What the example uses') + with_setup(lines), source]

def shown_ranks(source, n):
    "A cell that `n` processes run, with a comment that says so; 0: this one does"
    said = f'# on {n} ranks, each with torch, dist, rank and world\n'
    return re.sub(r'\A((?:#\|.*\n)*)(?:%%.*\n)?', rf'\1{said}', source, count=1) if n else source

# A page

def text_cell(text): return mk_cell(text, 'markdown')

def has(c, *directives): return c.cell_type=='code' and bool({*directives} & {*c.directives_})

def exported_to(nb):
    "The module that a notebook makes; `None`: none"
    return next((c.directives_['default_exp'][0] for c in nb.cells if has(c, 'default_exp')), None)

def written(nb): # id of a cell → processes that run it, and name → statement of what is made before it
    "A notebook as it was before other processors have hidden cells and magics"
    module, made, found = exported_to(nb), {}, {}
    for c in NBProcessor(nb.path_).nb.cells if 'path_' in nb else nb.cells:
        ranks = re.match(r'%%ranks (\d+)', c.source)
        found[c.id] = int(ranks[1]) if ranks else 0, {**made}
        if c.cell_type=='code' and not c.source.startswith('%%'):
            made |= makers(c.source, module if has(c, 'export', 'exports') else '')
    return found

def example(c, known, ranks, made):
    "The cells of an example at the top, which know what those before it make"
    *before, c.source = standing_alone(c.source, made, known, ranks)
    shown = [*(mk_cell(o, 'code') for o in before), c]
    for o in shown if not ranks else (): known.update(makers(o.source))
    return shown

def take_along(cells):
    "A text right before an example belongs to it, unless it begins a section"
    if not cells or cells[-1].cell_type!='markdown': return
    if not re.search(r'(?m)^(#|<!--)', cells[-1].source): cells[-1].top_ = True

def in_page_order(cells, table=''):
    "Texts before the first heading and the first code, what is for the top, the table, the rest"
    def begins(c): return re.search(r'(?m)\A' if c.cell_type=='code' else r'(?m)^#', c.source)
    top, rest = [c for c in cells if c.top_], [c for c in cells if not c.top_]
    i, at = next(((i, m.start()) for i,c in enumerate(rest) if (m := begins(c))), (len(rest), 0))
    if at: rest[i:i+1] = map(text_cell, (rest[i].source[:at].rstrip(), rest[i].source[at:]))   # divided at a heading
    i += at>0
    return rest[:i] + top + [text_cell(table)]*bool(table) + rest[i:]

def with_reference(nb):
    "In place of cells that are exported stands the reference of what they define"
    module, cells, found, known, said = exported_to(nb), [], [], set(), written(nb)
    for c in nb.cells:
        own, top = entries(c.source) if has(c, 'export', 'exports') else [], has(c, 'top')
        found += own
        shown = [text_cell(entry_markdown(e, source_url(module, e.name))) for e in own]
        if not has(c, 'export', 'exports', 'default_exp'): shown = [c]
        if top and shown==[c]:
            take_along(cells)
            c.source = without_checks(c.source)
            if module: shown = example(c, known, *said[c.id])
        for o in shown: o.top_ = top
        if c.id in said: c.source = shown_ranks(c.source, said[c.id][0])
        cells += shown
    return in_page_order(cells, contents(found))

# Links: a name leads to its place where one place alone defines it, and where it looks like a name

commands = 'cli', 'commands.parser', 'commands.options', '__main__'   # their names are words

@lru_cache
def pages_of_modules()->dict: # module → path of its page, from the folder of the notebooks
    "Where each module is documented"
    index = import_module(f'{get_config().lib_path.name}._modidx').d['syms']
    first = {mod.partition('.')[2]: next(iter(of.values()))[0] for mod,of in index.items() if of}
    return {mod: page.partition('#')[0].replace('.html', '.ipynb') for mod,page in first.items()}

def fields(e): return re.findall(r'^    (?:def )?(\w+)', e.code, re.M) if e.kind=='class' else []

def targets(module):
    "Name → anchor, of a module and its names"
    found, own = all_entries().get(module, []), {f'{get_config().lib_path.name}.{module}': ''}
    of = own | {f'{e.name}.{f}': anchor(e.name) for e in found for f in fields(e)}
    return of | {n: anchor(e.name) for e in found for n in e.name.split(', ')}

@lru_cache
def link_targets()->dict: # name → (page, anchor); names that are defined once
    pages = [(page, targets(mod)) for mod,page in pages_of_modules().items() if mod not in commands]
    found = groupby(((name, (page, a)) for page,of in pages for name,a in of.items()), 0, 1)
    return {k: v[0] for k,v in found.items() if len(v)==1}

def looks_like_a_name(text): return bool(re.search(r'[A-Z_.]', text)) and not text.isupper()

def linked(text, own):
    "Names of the reference become links, but in code and headings; `own`: path of the page that the text is on"
    def link(m):
        name = (m['name'] or '').removesuffix('()')
        is_name = name!=m['name'] or looks_like_a_name(name)
        page, a = link_targets().get(name if is_name else '', (own, ''))
        where = '' if page==own else os.path.relpath(page, Path(own).parent)
        return f'[{m[0]}]({where}{"#" + a if a else ""})' if where or a else m[0]
    return re.sub(r'(?m)^```(?s:.*?)^```|^    .*$|^#.*$|(?<![\[`\w])`(?P<name>[\w.]+(?:\(\))?)`(?![`\]])', link, text)

# Outputs: a page has room for some 120 characters

def is_table(line): return len(re.findall(r'\S {2,}(?=\S)', line))>1 or bool(re.match(r'[|+-]', line))
def is_rule(line): return bool(re.fullmatch(r'[-+| =:]*--[-+| =:]*', line))

def wrapped_lines(text, width=120):
    "Lines that are no table's, not longer than a page is wide; one goes on as it began, or behind its label"
    inside = False   # of a table: below its rule, up to an empty line
    def one(line):
        nonlocal inside
        inside = bool(line.strip()) and (inside or is_rule(line))
        cell = inside and line.startswith('  ')   # of a table: its second line
        if len(line)<=width or cell or is_table(line): return line
        indent = ' '*(re.match(r'\s*(?:\S+(?: \S+)? {2,})?', line).end() or 2)   # as wide as a label
        return textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False)
    return '\n'.join(map(one, text.split('\n')))

def wrap_outputs(cell):
    "Long sentences in what a cell has printed"
    for o in cell.get('outputs', []) if cell.cell_type=='code' else []:
        of, key = (o, 'text') if 'text' in o else (o.get('data', {}), 'text/plain')
        if key in of: of[key] = wrapped_lines(''.join(of[key])).splitlines(keepends=True)

def badges(path):
    "Links that open a tutorial on Colab and on Binder"
    cfg = get_config()
    repo, file = cfg.git_url.removeprefix('https://github.com/'), f'{cfg.nbs_path.name}/{path}'
    colab = f'[Open in Colab](https://colab.research.google.com/github/{repo}/blob/{cfg.branch}/{file})'
    return f'{colab} · [Open in Binder](https://mybinder.org/v2/gh/{repo}/{cfg.branch}?urlpath=lab/tree/{file})'

def embedded(text, folder):
    "Scripts with `data-file` hold that file: a page needs no network, and no server"
    def put(m):
        body = (folder/m[2]).read_text(encoding='utf-8')
        return f"{m[1]}>\n{body.replace('</', '<' + chr(92) + '/') if m[2].endswith('.json') else body}</script>"
    return re.sub(r'(<script[^>]*) data-file="([^"]+)"></script>', put, text)

class PageProc:
    "A page of the site, of what nbdev's processors leave of a notebook"
    def __init__(self, nb): self.nb = nb
    def begin(self):
        cells = with_folds(with_reference(self.nb))
        own = Path(self.nb.path_).resolve().relative_to(get_config().nbs_path.resolve()).as_posix()
        for c in cells:
            wrap_outputs(c)
            if c.cell_type=='markdown': c.source = embedded(linked(c.source, own), Path(self.nb.path_).parent)
        if own.startswith('tutorials/'): cells.insert(2, text_cell(badges(own)))   # behind front matter and warning
        self.nb.cells[:] = cells
