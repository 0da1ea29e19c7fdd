"""Write README.md from nbs/index.ipynb: the same file on every machine, with no Quarto.

Hidden cells, directives and marks of figures are left out, saved outputs are kept, and image links are made to start at the top level.

    python scripts/readme.py
"""
import re
from pathlib import Path

import nbformat
from evidence import unmarked
from nbconvert import MarkdownExporter

top = Path(__file__).parent.parent
directive = re.compile(r'^#\s*\|.*\n?', re.M)

def keep(cell): return not re.search(r'^#\s*\|\s*(hide|default_exp|export)\b', cell.source, re.M)

def shown(output):
    "What a cell shows, as Markdown"
    return '```\n' + output.text + '```' if output.output_type=='stream' else output.data['text/markdown']

def only_output(cell):
    "A cell whose code is not shown, as the text that it shows"
    if not re.search(r'^#\s*\|\s*echo:\s*false', cell.source, re.M): return cell
    return nbformat.v4.new_markdown_cell('\n'.join(map(shown, cell.outputs)))

def exported(nb)->str:
    "A notebook as Markdown, without directives and marks of figures"
    for c in nb.cells: c.source = directive.sub('', c.source) if c.cell_type=='code' else c.source
    nb.metadata['language_info'] = dict(name='python')   # nbdev_clean leaves it out; it names the language of the code blocks
    return unmarked(MarkdownExporter().from_notebook_node(nb)[0])

def readme()->str:
    nb = nbformat.read(top/'nbs'/'index.ipynb', as_version=4)
    nb.cells = [only_output(c) for c in nb.cells if keep(c)]
    text = exported(nb)
    text = re.sub(r'(\]\(|src="|srcset=")images/', r'\1nbs/images/', text)
    text = re.sub(r'\]\((?!https?:)([\w/]+)\.ipynb', r'](nbs/\1.ipynb', text)
    lines = [line.rstrip() for line in text.splitlines()]
    return re.sub(r'\n{3,}', '\n\n', '\n'.join(lines)).strip() + '\n'

if __name__=='__main__': (top/'README.md').write_text(readme(), encoding='utf-8')
