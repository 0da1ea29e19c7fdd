"The package's metadata, all of it from settings.ini"
import re
from configparser import ConfigParser
from pathlib import Path
from setuptools import setup, find_packages

here = Path(__file__).parent
parser = ConfigParser(delimiters=['='])
parser.read(here/'settings.ini', encoding='utf-8')
cfg = parser['DEFAULT']

def words(name): return cfg.get(name, '').split()

page = f"{cfg['git_url']}/blob/{cfg['branch']}"

def absolute(text):
    "A page of the repository, with links that lead there from anywhere: pictures as they are, files as pages"
    picture = f"https://raw.githubusercontent.com/{cfg['user']}/{cfg['repo']}/{cfg['branch']}"
    def link(found): return f"{found[1]}{picture if found[2].endswith('.png') else page}/{found[2]}"
    return re.sub(r'(\]\(|\bsrc(?:set)?=")(?!\w+:|#)([^)"\s]+)', link, text)

licenses = {'apache2': 'Apache-2.0'}
statuses = {'3': '3 - Alpha', '4': '4 - Beta', '5': '5 - Production/Stable'}
extras = {o: words(f'{o}_requirements') for o in ('models', 'language', 'pictures', 'dev')}
docs = cfg['doc_host'] + cfg['doc_baseurl']
urls = {'Documentation': docs, 'Changelog': f'{page}/CHANGELOG.md', 'Issues': f"{cfg['git_url']}/issues"}
minor = int(cfg['min_python'].split('.')[1])

setup(
    name=cfg['dist_name'], version=cfg['version'], description=cfg['description'],
    long_description=absolute((here/'README.md').read_text(encoding='utf-8')),
    long_description_content_type='text/markdown', url=cfg['git_url'], project_urls=urls,
    author=cfg['author'], author_email=cfg['author_email'], keywords=cfg['keywords'].split(),
    license=licenses[cfg['license']], python_requires=f">={cfg['min_python']}",
    packages=find_packages(include=['fasterbench', 'fasterbench.*']),
    package_dir={'': '.'},   # so `pip install -e` puts this folder on the path: notebooks import from `scripts`
    package_data={'fasterbench': ['data/*']}, zip_safe=False,
    install_requires=words('requirements'), extras_require=extras,
    entry_points={'console_scripts': words('console_scripts'), 'pytest11': words('pytest11'), 'nbdev': [f"{cfg['lib_name']}={cfg['lib_name']}._modidx:d"]},
    classifiers=[f"Development Status :: {statuses[cfg['status']]}", 'Intended Audience :: Developers',
                 *(f'Programming Language :: Python :: 3.{v}' for v in range(minor, 14))],
)
