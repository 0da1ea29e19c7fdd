"""The package's metadata, read from settings.ini."""
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
parser = ConfigParser(delimiters=['='])
parser.read(here/'settings.ini', encoding='utf-8')
settings = parser['DEFAULT']

setup(
    name=settings['dist_name'], version=settings['version'], description=settings['description'],
    long_description=(here/'README.md').read_text(encoding='utf-8'), long_description_content_type='text/markdown',
    url=settings['git_url'], author=settings['author'], author_email=settings['author_email'],
    keywords=settings['keywords'].split(), license='Apache-2.0', python_requires=f">={settings['min_python']}",
    packages=find_packages(include=['fasterbench', 'fasterbench.*']), package_data={'fasterbench': ['data/*']},
    install_requires=settings['requirements'].split(),
    extras_require={extra: settings[f'{extra}_requirements'].split() for extra in ('models', 'pictures', 'dev')},
    entry_points={'console_scripts': settings['console_scripts'].split(),
                  'pytest11': settings['pytest11'].split(),
                  'nbdev': [f"{settings['lib_name']}={settings['lib_name']}._modidx:d"]})
