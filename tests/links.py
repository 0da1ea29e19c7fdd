"""Links of a built site that lead nowhere: python tests/links.py _docs"""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlparse

HOME = 'https://fasterbench.github.io/fasterbench/'


class Page(HTMLParser):
    """The links and the anchors of a page."""
    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], {''}
        self.feed(path.read_text(encoding='utf-8'))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.add(attrs.get('id'))
        self.links += [attrs[key] for key in ('href', 'src') if attrs.get(key)]


def bad_links(folder: Path):
    """Page and link of each link within the site without a file or an anchor."""
    pages = {path.relative_to(folder).as_posix(): Page(path) for path in folder.rglob('*.html')}
    for name, page in pages.items():
        for link in page.links:
            address = urljoin(HOME + name, link)
            if not address.startswith(HOME): continue
            parts = urlparse(address)
            path = unquote(parts.path).removeprefix(urlparse(HOME).path) or 'index.html'
            anchors = pages[path].anchors if path in pages else {parts.fragment}
            if not (folder/path).exists() or unquote(parts.fragment) not in anchors: yield name, link


if __name__ == '__main__':
    bad = [*bad_links(Path(sys.argv[1]))]
    print(*(f'{name}: {link}' for name, link in bad), f'{len(bad)} links lead nowhere', sep='\n')
    sys.exit(bool(bad))
