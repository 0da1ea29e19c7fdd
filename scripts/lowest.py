"""Print the requirements of settings.ini at their lower bounds, as pip takes them.

    pip install . $(python scripts/lowest.py)
    pip install ".[dev]" $(python scripts/lowest.py --without fastcore)
"""
import argparse
from configparser import ConfigParser
from pathlib import Path

def lowest(without=()):
    "Each requirement that has a lower bound, at it"
    parser = ConfigParser(delimiters=['='])
    parser.read(Path(__file__).resolve().parent.parent/'settings.ini', encoding='utf-8')
    bounds = [o.split('>=') for o in parser['DEFAULT']['requirements'].split()]
    return [f'{name}=={version}' for name,version in bounds if name not in without]

if __name__=='__main__':
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--without', nargs='*', default=(), help='names that are left out')
    print(*lowest(p.parse_args().without))
