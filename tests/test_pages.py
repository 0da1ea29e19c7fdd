"A page shows what its module defines, an example that stands alone first, and names as links"
import re
from inspect import getsourcelines

import pytest
from execnb.nbio import mk_cell, new_nb
from nbdev.process import NBProcessor
from nbdev.processors import FilterDefaults
from docs import command_lines, home, schema, silent
from fasterbench.commands.parser import described
from notebooks import top
from pages import (aligned, all_entries, badges, checks_only, contents, embedded, entries, entry_markdown, fields, folded, linked, made_and_used, makers,
    needed_statements, shown_ranks, source_url, standing_alone, with_folds, with_reference, with_setup, without_checks, wrap_outputs, wrapped_lines)

links = '''
from typing import NamedTuple

rates = dict(copy=16, triad=24) # bytes of an element
_own = 3

# Bytes of an element
# in memory
sizes = {
    'float32': 4}

class Link(NamedTuple):
    "What joins two devices"
    name:str        # of the link
    rate:float=1e9  # byte/s
    @property
    def bits(self)->float: return 8*self.rate # per second
    def time_s(self, nbytes:float)->float: return nbytes/self.rate
    def __str__(self): return self.name

@patch
def shared(self:Link,
    n:int=2, # devices that share it
)->float: # byte/s
    "What is left for each"
    return self.rate/n

@patch(as_prop=True)
def is_fast(self:Link)->bool: return self.rate>1e10

@patch(as_prop=True)
def half(self:Link)->float:
    "Half of its rate"
    return self.rate/2

def links(
    names:list,         # of `Link`
    sort=lambda o: o.rate,
    *, least:float=0,   # byte/s
)->list: # of `Link`
    "Known links"
    return []
'''
found = {o.name: o for o in entries(links)}

def test_what_a_text_defines():
    kinds = dict(rates='value', sizes='value', Link='class', links='function')
    kinds |= {'Link.shared': 'method', 'Link.is_fast': 'property', 'Link.half': 'property'}
    assert {k: o.kind for k,o in found.items()}==kinds
    assert [k for k,o in found.items() if o.text]==['Link', 'Link.shared', 'Link.half', 'links']
    assert silent(found.values())==['Link.is_fast has no docstring and no comment']
    assert [o.name for t in ('a, _b, c = 1, 2, 3', 'A.x, A.y = 1, 2', 'print(1)') for o in entries(t)]==['a, c']

def test_code_is_the_author_s():
    assert found['rates'].code=='rates = dict(copy=16, triad=24) # bytes of an element'
    assert found['sizes'].code=="# Bytes of an element\n# in memory\nsizes = {\n    'float32': 4}"
    assert found['Link.shared'].code=='def shared(\n    n:int=2, # devices that share it\n)->float # byte/s'
    assert found['Link.half'].code=='half:float # Half of its rate'
    assert found['Link'].code=='''class Link(NamedTuple):
    name:str        # of the link
    rate:float=1e9  # byte/s
    bits:float # per second
    def time_s(nbytes:float)->float'''
    assert found['links'].code in links.replace(')->list: #', ')->list #')
    assert entries('def f(é=1): é+1 # one')[0].code=='def f(é=1) # one'

def test_fields_have_their_defaults():
    code = '''class Kept:
    a:list=field(repr=False)
    b:int = field(default=3, repr=False) # rows
    c:dict = field(default_factory=dict)   # by name
    d:Counter=field(default_factory=Counter)
    e:dict=_named()
    f:float = round(2.5)
    _g:int = 0
    views = dict(a='page')'''
    assert entries(code)[0].code.split('\n    ')[1:]==['a:list', 'b:int = 3 # rows', 'c:dict = {} # by name',
        'd:Counter=Counter()', 'e:dict={}', 'f:float = round(2.5)']
    assert aligned(['a # x', 'b # y', 'c # z', 'd   # w', 'long  # v'])==['a # x', 'b # y', 'c # z', 'd # w', 'long # v']

def test_how_a_name_looks():
    text = entry_markdown(found['Link.shared'], 'https://example.org/links.py#L20')
    assert text.splitlines()[::2][:2]==['### Link.shared {#Link.shared .unnumbered .unlisted}',
        '[source](https://example.org/links.py#L20){.source-link}'] and text.endswith('\n\nWhat is left for each')
    assert entry_markdown(found['links']).startswith('### links {#links}\n\n```python')
    assert entry_markdown(found['Link.half']).count('Half of its rate')==1
    table = contents([*found.values()]).splitlines()
    assert table[3]=='| [`rates`](#rates) | bytes of an element |' and len(table)==4 + len(found)
    assert contents([*found.values()]*2).startswith('<details><summary>14 names')

def test_the_source_is_linked():
    from fasterbench.machine.roof import HardwarePeaks
    line = getsourcelines(HardwarePeaks)[1] + 1   # below the decorator
    assert source_url('machine.roof', 'HardwarePeaks').endswith(f'/blob/main/fasterbench/machine/roof.py#L{line}')
    assert source_url('machine.roof', 'no_such_name')==''

two = 'test_eq(1+1, 2)\ntest_fail(lambda: 1/0)'

@pytest.mark.parametrize('source, checks', [(two, False), (f'{two}\n{two}', True), (f'for i in (1,2):\n    assert i\n{two}', True),
    ('assert (', False), (f'x = [\n1,\n2,\n3,\n4]\n{two}\n{two}', False), ('test_eq(_own(1), 2)', True),
    ('test_eq(own(1), 2)', False), ('x = _own(1)', False)])
def test_cells_of_checks(source, checks): assert checks_only(source)==checks

def test_checks_are_left_out():
    assert without_checks(f'x = 1\n{two}\nx')=='x = 1\nx'
    assert without_checks(f'%%ranks 2\n{two}\nx')=='%%ranks 2\nx'
    assert without_checks(f'!ls\n{two}')==f'!ls\n{two}'

def page(*cells, of=with_reference):
    "Texts of the cells of a page that are made of others"
    nb = new_nb([mk_cell(*o) if isinstance(o, tuple) else mk_cell(o) for o in cells])
    return [o.source for o in of(NBProcessor(nb=nb).nb)]

def test_neighbours_are_one_fold():
    def folded_cells(*cells): return page(*cells, of=lambda nb: with_folds(nb.cells))
    assert folded_cells(f'{two}\n{two}', two)==[f'{folded}{two}\n{two}', two]
    made = folded_cells(f'{two}\n{two}', f'{two}\nassert 1\nassert 2', '1+1', f'{two}\n{two}', f'# on 2 ranks\n{two}\n{two}')
    assert [o.count('Checks') for o in made]==[1, 0, 1, 1] and made[0].count('test_eq')==3

said = 'import torch._dynamo\nfrom torch import nn, optim as o\na, b = 1, 2 # two\ndef f(x): return x'
made = makers(said) | makers('c = f(a)')

def test_what_a_text_makes_and_needs():
    assert made_and_used('def f(a): return [g(o) + b for o in a]\nb = f(len(c))')==({'f', 'b'}, {'g', 'c'})
    assert made_and_used('try: f()\nexcept ValueError as e: print(e)')[1]=={'f'}   # `e` is its own
    assert made_and_used('class A:\n    x = 1\n    y:int = x + z')[1]=={'z'}
    assert makers(said)==dict(torch='import torch', nn='from torch import nn', o='from torch import optim as o',
        a='a, b = 1, 2 # two', b='a, b = 1, 2 # two', f='def f(x): return x')
    assert makers('def f(x): return x', 'counting.traffic')==dict(f='from fasterbench.counting.traffic import f')
    assert makers('from fastcore.test import *')['test_eq']=='from fastcore.test import test_eq'

def test_what_an_example_uses_is_before_it():
    assert needed_statements('print(c, b)', made)==['a, b = 1, 2 # two', 'def f(x): return x', 'c = f(a)']
    assert needed_statements('print(c, b)', made, known={'f'})==['a, b = 1, 2 # two', 'c = f(a)']
    with pytest.raises(NameError, match="'d'"): needed_statements('d + 1', made)
    lines = ['x = 1', 'from torch import nn', 'import torch', 'from torch import fx', 'y = x']
    assert with_setup(lines, 'x + y')=='import torch\nfrom torch import fx, nn\n\nx = 1\ny = x\nx + y'

def test_an_example_stands_alone():
    assert standing_alone('print(c, b)', made)==['a, b = 1, 2 # two\ndef f(x): return x\nc = f(a)\nprint(c, b)']
    long = makers('c = [\n' + '1,\n'*4 + ']')
    assert [o.split('\n')[0] for o in standing_alone('c + 1', long)]==['#| code-fold: true', 'c + 1']
    assert standing_alone('!ls', {})==['!ls']

def test_a_rank_has_its_own_names():
    assert standing_alone('print(rank)', {}, ranks=2)==['print(rank)']
    with pytest.raises(NameError, match="'a'"): standing_alone('print(a)', made, ranks=2)   # made in another process
    assert shown_ranks('%%ranks 2\nprint(rank)', 2)=='# on 2 ranks, each with torch, dist, rank and world\nprint(rank)'

def test_the_order_of_a_page():
    begin = ('---\ntitle: links\n---', 'raw'), ('<!-- made -->', 'markdown'), ('How fast are links?\n\n## Rates', 'markdown')
    shown = page(*begin, '#| default_exp links', f'#| export\n{links}', '1+1', '#| top\nlinks([])')
    heads = [re.sub(r' \{.*', '', o.split('\n')[0]) for o in shown]
    assert heads==['---', '<!-- made -->', 'How fast are links?', 'from fasterbench.links import links', ':::',
        '## Rates', *(f'### {o}' for o in found), '1+1']

def test_a_text_goes_with_its_example():
    shown = page(('# Links', 'markdown'), '#| default_exp links', f'#| export\n{links}', ('Two of them:', 'markdown'), '#| top\nlinks([])')
    assert shown[:2]==['Two of them:', 'from fasterbench.links import links\n\nlinks([])']
    shown = page(('What is it?', 'markdown'), '1+1', ('## A part', 'markdown'), '#| top\n1')
    assert shown==['What is it?', '1', '1+1', '## A part']

def processed(name):
    "Texts of the cells that nbdev makes of a notebook"
    made = NBProcessor(top/'nbs'/name, FilterDefaults().procs())
    made.process()
    return [c.source for c in made.nb.cells]

def test_a_page_of_the_reference():
    shown = next(o for o in processed('session/launch.ipynb') if o.startswith('# on'))
    assert shown.splitlines()[1:3]==['from fasterbench.session.launch import rendezvous', ''] and 'assert' not in shown

def test_a_tutorial_opens_elsewhere():
    text = '\n'.join(processed('tutorials/roofline.ipynb'))
    assert 'mybinder.org' in text and '`](../results.ipynb#Roofline.by)' in text
    assert badges('tutorials/roofline.ipynb').count('nbs/tutorials/roofline.ipynb)')==2

@pytest.mark.parametrize('text, to', [('`HardwarePeaks` and `dtype`', 'machine/roof.ipynb#HardwarePeaks'),
    ('`Roofline.plot` of `peaks`', 'results.ipynb#Roofline.plot'), ('`measure_peaks()`', 'machine/peaks.ipynb#measure_peaks')])
def test_names_are_links(text, to): assert re.findall(r'\]\((.*?)\)', linked(text, 'tutorials/roofline.ipynb'))==[f'../{to}']

def test_code_is_no_link():
    text = linked('# See `HardwarePeaks`\n\nWhat `HardwarePeaks` is:\n```\n`HardwarePeaks`\n```', 'index.ipynb')
    assert text.count('](machine/roof.ipynb#HardwarePeaks)')==1
    assert linked('    `HardwarePeaks`', 'index.ipynb')=='    `HardwarePeaks`'
    assert fields(found['Link'])==['name', 'rate', 'bits', 'time_s']

def test_a_page_holds_its_scripts(tmp_path):
    "Data end the script in which they are nowhere; other scripts stay as they are"
    (tmp_path/'some.json').write_text('{"end": "</script>"}')
    (tmp_path/'own.js').write_text('a < b')
    page = '<script type="application/json" data-file="some.json"></script>\n<script data-file="own.js"></script>\n<script src="x.js"></script>'
    assert embedded(page, tmp_path)=='<script type="application/json">\n{"end": "<\\/script>"}</script>\n<script>\na < b</script>\n<script src="x.js"></script>'

def test_long_outputs_are_wrapped():
    text = wrapped_lines('rows         ' + 'of a profile, one after the other, '*5 + f'\nname     type      time  {"x"*40}', width=60)
    assert text.splitlines()[:2]==['rows         of a profile, one after the other, of a', ' '*13 + 'profile, one after the other, of a profile, one']
    assert text.endswith(f'\nname     type      time  {"x"*40}')
    below = f'what  says\n----  ----\n      {"word "*15}'
    assert wrapped_lines(below, width=60)==below
    printed = mk_cell('print(1)')
    printed.outputs = [dict(output_type='stream', name='stdout', text=['word '*30])]
    wrap_outputs(printed)
    assert [len(o)<=120 for o in printed.outputs[0]['text']]==[True, True]

def test_fields_are_of_types_that_a_reader_knows():
    "No field of the package is of a private type, or has a default that is one called, such as `dict[str, Rate]()`"
    shown = [f'{o.name}: {line}' for own in all_entries().values() for o in own if o.kind=='class' for line in o.code.split('\n')]
    assert shown and not [o for o in shown if re.search(r'\w:_\w|\]\(\)|= _\w+\(\)', o.partition(' # ')[0])]

def test_programs_are_told_each_command():
    "Where a list for programs leads, there is something"
    said = '\n'.join(command_lines())
    assert all(f'[fasterbench {name} ' in said for name in described)
    to = {o.removeprefix(home) for o in re.findall(r'\]\((.*?)\)', said)}
    assert to=={f'data/{schema.name}', 'cli.html.md'} and schema.exists() and (top/'nbs'/'cli.ipynb').exists()
