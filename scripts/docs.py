"""The documentation's site: build it, and look for what is broken in it.

`build` runs nbdev and Quarto, then writes each page as Markdown beside it (`page.html.md`), and `llms.txt`, which lists the
commands and these pages, and puts every public name into the search.
`check` lists links that lead nowhere, names without a word about them, and what is cut off or wider than its page in a browser
of 1400 and of 390 pixels, light and dark; it ends with an error if there is any. The browser is the one that Playwright has
installed, or a Chromium of the system.

    python scripts/docs.py build
    python scripts/docs.py check [--pages 'tutorials/*'] [--shots FOLDER]
"""
import http.server, json, os, re, shutil, subprocess, sys, threading
from collections import namedtuple
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import unquote, urljoin, urlparse

import nbformat, plotly, yaml
from bs4 import BeautifulSoup
from fastcore.script import call_parse
from fasterbench.commands.parser import described
from nbdev.config import get_config
from pages import all_entries, anchor, pages_of_modules
from readme import exported

top = Path(__file__).resolve().parent.parent
cfg = get_config(path=top)
docs, made = top/'_docs', top/'_proc'
home = f'{cfg.doc_host}{cfg.doc_baseurl}/'

# Markdown pages

readable = {'text/plain', 'text/markdown'}

def front_matter(nb):
    "What nbdev has written at the head of a page, and the page without it"
    raw = next((c for c in nb.cells if c.cell_type=='raw' and c.source.startswith('---')), None)
    nb.cells = [c for c in nb.cells if c is not raw and not c.source.startswith('<!-- WARNING')]
    return yaml.safe_load(raw.source.strip().strip('-')) if raw else {}

def as_text(path):
    "A page as Markdown"
    nb = nbformat.read(path, as_version=4)
    head = front_matter(nb)
    for c in nb.cells:
        if c.cell_type=='code': c.outputs = [o for o in c.outputs if 'text' in o or readable & set(o.get('data', {}))]
        for o in c.get('outputs', []): o.get('data', {}).pop('text/html', None)
    text = re.sub(r'(?ms)^```\{=html\}$.*?^```$\n', '', exported(nb))
    text = re.sub(r' \{[#.][^}\n]*\}|^:::.*\n', '', text, flags=re.M)
    text = re.sub(r'\]\(([\w/.]+)\.ipynb', r'](\1.html.md', text)
    lead = f"# {head['title']}\n\n> {head['description']}\n\n" if 'description' in head else f"# {head.get('title', path.stem)}\n\n"
    return head, lead + re.sub(r'\n{3,}', '\n\n', text).strip() + '\n'

def listed(contents, section='Start'):
    "Section and page, in the order of the sidebar"
    for o in contents:
        if isinstance(o, str): yield section, o
        else: yield from listed(o['contents'], o['section'])

schema = top/cfg.lib_path/'data'/'files.schema.json'

def command_lines():
    "What a program that asks for something is told first: how, and which command answers which question"
    yield from ['', 'Each command prints JSON with `--json`, in SI base units, and nothing else on standard output; `null` is what is not known. '
        f'The exit code is 0, or 2 where there is no result; '
        f'of a comparison with --fail-slower or --fail-flops 1 is beyond the limit, and 3 inconclusive. [Its JSON Schema]({home}data/{schema.name}) says '
        'what each key means. What is reported is measured or counted; nothing is advised.', '', '## Which command answers which question', '']
    for name,c in described.items():
        words = ' '.join([name, *map(str.upper, c.takes), '--json'])
        yield f'- [fasterbench {words}]({home}cli.html.md): {c.text}'

def write_texts():
    "All pages as Markdown, and the list of them"
    sidebar = yaml.safe_load((top/'nbs'/'sidebar.yml').read_text())['website']['sidebar']['contents']
    lines, last = [f'# {cfg.lib_name}', '', f'> {cfg.description}', *command_lines()], None
    for section,page in listed(sidebar):
        head, text = as_text(made/page)
        to = page.replace('.ipynb', '.html.md')
        (docs/to).write_text(text, encoding='utf-8')
        if section!=last: lines += ['', f'## {section}', '']
        last = section
        lines.append(f"- [{head.get('title', page)}]({home}{to})" + (f": {head['description']}" if 'description' in head else ''))
    (docs/'data').mkdir(exist_ok=True); shutil.copy(schema, docs/'data')
    (docs/'llms.txt').write_text('\n'.join(lines) + '\n', encoding='utf-8')

# Search

def index_names():
    "Each public name becomes an entry of the site's search, under its own name"
    path = docs/'search.json'
    known = json.loads(path.read_text(encoding='utf-8'))
    pages, crumbs = pages_of_modules(), {o['href'].partition('#')[0]: o.get('crumbs', []) for o in known}
    for module,found in all_entries().items():
        page = pages.get(module, f'{module}.ipynb').replace('.ipynb', '.html')
        for e in found:
            href = f'{page}#{anchor(e.name)}'
            known.append(dict(objectID=href, href=href, title=e.name, section='', text=e.text or e.code, crumbs=crumbs.get(page, [])))
    path.write_text(json.dumps(known, ensure_ascii=False, indent=1), encoding='utf-8')

# Links

def slug(heading):
    "The place that pandoc makes of a heading"
    words = re.sub(r'[^\w\s.-]', '', re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', heading).lower()).split()
    return re.sub(r'^[^a-z]+', '', '-'.join(words))

def places(text):
    "Where a text of Markdown can be led to"
    headings = re.findall(r'(?m)^#+ (.*?)(?: \{#([^ }]+)[^}]*\})?$', text)
    return {own or slug(heading) for heading,own in headings}

def dead_links(folder):
    "Links between pages, as nbdev has made them, that lead nowhere: no Quarto is needed to find them"
    paths = [p for p in sorted(folder.rglob('*.ipynb')) if '_docs' not in p.parts]
    def text(p):
        cells = [c.source for c in nbformat.read(p, as_version=4).cells if c.cell_type=='markdown']
        return re.sub(r'(?ms)^```.*?^```', '', '\n\n'.join(cells))
    texts = {p.resolve(): text(p) for p in paths}
    known = {p: places(t) for p,t in texts.items()}
    for page,text in texts.items():
        for to,place in re.findall(r'\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]+))?\)', text):
            file = (page.parent/to).resolve() if to else page
            if not file.exists(): yield f'{page.name}: {to} is not there'
            elif place and file in known and place not in known[file]: yield f'{page.name}: {to or page.name} has no #{place}'

def links_and_ids(path):
    "What a page leads to, and where it can be led to"
    soup = BeautifulSoup(path.read_text(encoding='utf-8'), 'html.parser')
    to = [o[k] for k in ('href', 'src', 'srcset') for o in soup.find_all(attrs={k: True})]
    return to, {o['id'] for o in soup.find_all(id=True)} | {o['name'] for o in soup.find_all('a', attrs=dict(name=True))}

def own_target(page, to):
    "A link's file in the site and its anchor; `None`: it leads elsewhere"
    if to.startswith(home): to = 'http://here/' + to[len(home):]
    url = urlparse(urljoin(f'http://here/{page}', to))
    if url.netloc!='here' or url.scheme!='http': return None
    return unquote(url.path).lstrip('/') or 'index.html', unquote(url.fragment)

def broken_links():
    "Links within the site that lead nowhere"
    pages = {p.relative_to(docs).as_posix(): links_and_ids(p) for p in sorted(docs.rglob('*.html'))}
    for page,(links,_) in pages.items():
        for file,place in sorted({t for o in links if (t := own_target(page, o))}):
            if not (docs/file).exists(): yield f'{page}: {file} is not there'
            elif place and file in pages and place not in pages[file][1]: yield f'{page}: {file} has no #{place}'

# Names

def silent(found):
    "Names of which nothing is said"
    return [f'{o.name} has no docstring and no comment' for o in found if not o.text and '#' not in o.code]

# Widths

find_wide = """desktop => {
    const page = document.documentElement.clientWidth, found = [];
    const seen = [...document.querySelectorAll('main pre, main table, main div.cell-output-display, main img, main .js-plotly-plot')];
    const shown = e => e.offsetParent !== null;
    for (const e of seen.filter(shown)) {
        const scrolls = [e, ...(function*() { for (let p = e.parentElement; p; p = p.parentElement) yield p; })()]
            .find(o => ['auto', 'scroll'].includes(getComputedStyle(o).overflowX));
        const wide = e.scrollWidth > e.clientWidth + 2, out = e.getBoundingClientRect().right > page + 2;
        if ((wide || out) && (!scrolls || desktop && e.tagName == 'PRE' && !e.closest('details'))) found.push([e.tagName, e.scrollWidth, e.clientWidth, e.innerText.trim().slice(0, 60)]);
    }
    if (document.documentElement.scrollWidth > page + 2) found.push(['the page', document.documentElement.scrollWidth, page, '']);
    return found;
}"""
View = namedtuple('View', 'name width dark')
views = [View(f"{size}{'-dark' if dark else ''}", width, dark) for size,width in (('desktop', 1400), ('phone', 390)) for dark in (False, True)]

class Quiet(http.server.SimpleHTTPRequestHandler):
    "The built site, without a line for each request"
    def __init__(self, *args, **kwargs): super().__init__(*args, directory=str(docs), **kwargs)
    def log_message(self, *args): pass
    def copyfile(self, *args):
        try: super().copyfile(*args)
        except (BrokenPipeError, ConnectionResetError): pass   # the browser has left the page

def served():
    "The site on a free port of this machine"
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server

def browser(play):
    "Playwright's own Chromium, or the system's"
    own = Path(play.chromium.executable_path).exists()
    return play.chromium.launch(executable_path=None if own else shutil.which('chromium'), args=['--no-sandbox'])

def fulfil(route):
    "What pages take from elsewhere: plotly is here, the rest is not needed to measure widths"
    if 'plotly' in route.request.url: route.fulfill(path=Path(plotly.__file__).parent/'package_data'/'plotly.min.js')
    else: route.abort()

def wide_parts(pages, shots):
    "What is cut off or wider than its page"
    from playwright.sync_api import sync_playwright
    server = served()
    base = f'http://127.0.0.1:{server.server_port}/'
    with sync_playwright() as play:
        chromium = browser(play)
        for view in views:
            if view.dark and not shots: continue   # as wide as in the light
            context = chromium.new_context(viewport=dict(width=view.width, height=1000))
            if view.dark: context.add_init_script("localStorage.setItem('quarto-color-scheme', 'alternate')")
            context.route(lambda url: not url.startswith(base), fulfil)
            tab = context.new_page()
            for page in pages:
                tab.goto(base + page, wait_until='load')
                tab.wait_for_timeout(300)   # figures are drawn then
                if shots:
                    to = shots/view.name/page.replace('/', '_').replace('.html', '.png')
                    to.parent.mkdir(parents=True, exist_ok=True)
                    tab.screenshot(path=to, full_page=True)
                if view.dark: continue
                for tag,has,gets,text in tab.evaluate(find_wide, view.width>1000):
                    yield f'{page} at {view.width} px: {tag} of {has} in {gets}: {text!r}'
            context.close()
        chromium.close()
    server.shutdown()

@call_parse
def main(
    do:str, # build or check
    pages:str='*', # of which the widths are checked
    shots:Path=None, # a folder for screenshots of them
):
    "Build the site, or check it"
    if do=='build':
        path = os.pathsep.join(filter(None, [str(top), os.environ.get('PYTHONPATH')]))   # nbdev imports `scripts.pages`
        subprocess.run(['nbdev_docs'], cwd=top, check=True, env=dict(os.environ, PYTHONPATH=path))
        write_texts()
        return index_names()
    if do!='check': raise SystemExit(f'{do!r}: build or check')
    chosen = [o for p in sorted(docs.rglob('*.html')) if fnmatch(o := p.relative_to(docs).as_posix(), pages)]
    if not chosen: raise SystemExit(f'no page of {docs} is {pages!r}: is it built?')
    names = [f'{module}: {o}' for module,own in all_entries().items() for o in silent(own)]
    found = dict(zip(('broken links', 'undocumented names', 'clipped'), map(list, (broken_links(), names, wide_parts(chosen, shots)))))
    for what,those in found.items(): print(f'{len(those)} {what}', *those, sep='\n    ')
    sys.exit(any(found.values()))
