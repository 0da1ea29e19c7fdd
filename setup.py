"The package's metadata, all of it from settings.ini"
from configparser import ConfigParser
from pathlib import Path
from setuptools import setup, find_packages

here = Path(__file__).parent
parser = ConfigParser(delimiters=['='])
parser.read(here/'settings.ini', encoding='utf-8')
cfg = parser['DEFAULT']

def words(name): return cfg.get(name, '').split()

licenses = {'apache2': 'Apache-2.0'}
statuses = {'3': '3 - Alpha', '4': '4 - Beta', '5': '5 - Production/Stable'}
extras = {'models': words('models_requirements'), 'language': words('language_requirements'), 'dev': words('dev_requirements')}
minor = int(cfg['min_python'].split('.')[1])

setup(
    name=cfg['lib_name'], version=cfg['version'], description=cfg['description'],
    long_description=(here/'README.md').read_text(encoding='utf-8'), long_description_content_type='text/markdown',
    author=cfg['author'], author_email=cfg['author_email'], url=cfg['git_url'], keywords=cfg['keywords'].split(),
    license=licenses[cfg['license']], python_requires=f">={cfg['min_python']}",
    packages=find_packages(include=['fasterbench', 'fasterbench.*']), zip_safe=False,
    install_requires=words('requirements'), extras_require=extras,
    entry_points={'console_scripts': words('console_scripts'), 'nbdev': [f"{cfg['lib_name']}={cfg['lib_name']}._modidx:d"]},
    classifiers=[f"Development Status :: {statuses[cfg['status']]}", 'Intended Audience :: Developers',
                 *(f'Programming Language :: Python :: 3.{v}' for v in range(minor, 14))],
)
