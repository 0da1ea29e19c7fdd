"""What the scripts share: options, turns, load, forecasts held against the truth, results."""
import argparse
import ast
import csv
import json
import os
import platform
import random
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from math import floor
from pathlib import Path
from statistics import fmean, median, quantiles
from textwrap import shorten

import torch
from tabulate import tabulate

from fasterbench.base.files import write_whole
from fasterbench.base.system import device_name, own_processors
from fasterbench.base.text import some

RESULTS = Path(__file__).parent/'results'
DATA = Path(__file__).parent/'data'
NOISES = 0.1, 0.3, 1., 3., 10.   # of forecasts, that are tried
ENOUGH = 9                       # ratios for an interval


def read(name: str) -> list[dict[str, str]]:
    """The lines of a table of `data`."""
    with open(DATA/name, newline='', encoding='utf-8') as file: return [*csv.DictReader(file)]


def option_parser(doc: str) -> argparse.ArgumentParser:
    """The options that all scripts have."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('--quick', action='store_true',
                        help='few and small cases; a file is written only with --out')
    parser.add_argument('--out', type=Path, metavar='FOLDER', help='of the JSON (default: results)')
    parser.add_argument('--threads', type=int, help='of torch (default: as torch has it)')
    return parser


def read_options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of this run, with the machine's load when it began."""
    args = parser.parse_args()
    if args.threads: torch.set_num_threads(args.threads)
    args.load, args.start = os.getloadavg()[0], time.monotonic()
    return args


def chosen(parser, names: str, known: list[str]) -> list[str]:
    """Those of the known names that are asked for, with commas between; '': all."""
    unknown = {*filter(None, names.split(','))} - {*known}
    if unknown:
        parser.error(shorten(f"there is no {', '.join(unknown)}, but {', '.join(known)}", 400))
    return names.split(',') if names else known


def image_model(name: str, batch: int = 1, side: int = 224):
    """A model of torchvision with random weights, and its sample."""
    import torchvision
    torch.manual_seed(0)
    model = torchvision.models.get_model(name, weights=None).eval()
    return model, torch.randn(batch, 3, side, side)


def in_turns(rounds: int, ways: dict) -> dict[str, list]:
    """Call each function once a round, in another order every time: name → what each returned."""
    found = {name: [] for name in ways}
    for _ in range(rounds):
        for name in random.sample([*ways], len(ways)): found[name].append(ways[name]())
    return found


def spread(values: list[float]) -> tuple[float, float, float]:
    """The lower quartile, the median and the upper quartile."""
    if len(values) == 1: return (values[0],)*3
    return tuple(quantiles(values, n=4, method='inclusive'))


def left_out(runs: list, key: str):
    """Each group of runs with the same model or device, in one dtype, and the others."""
    for value in dict.fromkeys(getattr(run, key) for run in runs):
        yield ([run for run in runs if getattr(run, key) == value],
               [run for run in runs if getattr(run, key) != value])


def interval(missed: list[float], share: float = 0.8) -> tuple[float, float]:
    """Where the next ratio lies with this probability, whatever their distribution."""
    missed, k = sorted(missed), floor((len(missed) + 1)*(1 - share)/2 + 1e-9)
    if not k: raise ValueError(f'{len(missed)} ratios are too few for an interval of {share:.0%}')
    return missed[k - 1], missed[-k]


def interval_by_others(run, found: dict, key: str) -> tuple[float, float] | None:
    """Where a run's ratio lies by those of other models or devices; `None`: they are too few."""
    rest = [miss for other, miss in found.items()
            if other.dtype == run.dtype and getattr(other, key) != getattr(run, key)]
    return interval(rest) if len(rest) >= ENOUGH else None


def accuracy(runs: list, misses) -> tuple[list[dict], dict[str, dict]]:
    """A row for each group of runs and what was left out; and by that the misses of each run.

    `misses(runs, key)`: pairs of a run in one dtype and its measured time over its forecast.
    """
    rows, all_found = [], {'model': {}, 'device': {}}
    for key, found in all_found.items():
        for dtype in dict.fromkeys(run.dtype for run in runs):
            found.update(misses([run for run in runs if run.dtype == dtype], key))
        for group in dict.fromkeys(group for run in found for group in run.groups):
            some = {run: miss for run, miss in found.items() if group in run.groups}
            errors = [abs(1/miss - 1) for miss in some.values()]
            inside = [ends[0] <= miss <= ends[1] for run, miss in some.items()
                      if (ends := interval_by_others(run, found, key))]
            rows.append({'runs': group, 'left out': key, 'number': len(some),
                         'mean error %': 100*fmean(errors), 'median error %': 100*median(errors),
                         'inside the interval %': 100*fmean(inside) if inside else None})
    return sorted(rows, key=lambda row: (row['runs'], row['left out'])), all_found


def mean_errors(rows: list[dict]) -> dict[str, float]:
    """The mean errors of `accuracy` as figures."""
    return {f"{row['runs']}, {row['left out']} left out: mean error %": row['mean error %']
            for row in rows}


@contextmanager
def busy_loops(n: int):
    """So many processes that keep processors busy meanwhile."""
    loops = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(n)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def versions(*packages: str) -> dict[str, str]:
    """Name → version of those that are installed."""
    found = {}
    for name in packages:
        try: found[name] = version(name)
        except PackageNotFoundError: pass
    return found


def code_state() -> str | None:
    """The commit, with '-dirty' if files but results were changed since; `None` without a repository."""
    def git(*args): return subprocess.run(['git', *args], cwd=RESULTS.parent, capture_output=True, text=True)
    try: commit = git('rev-parse', '--short=12', 'HEAD').stdout.strip()
    except FileNotFoundError: return None
    changed = git('diff', '--quiet', 'HEAD', '--', ':/', ':!results').returncode
    return commit and commit + '-dirty'*bool(changed) or None


def cell(value) -> str:
    """A value as a table shows it."""
    if value is None: return '–'
    if isinstance(value, bool): return 'yes' if value else 'no'
    if isinstance(value, tuple): return ' to '.join(map(cell, value))
    return f'{value:.4g}' if isinstance(value, float) else str(value)


def show_table(rows: list[dict]):
    """Print dicts with the same keys."""
    keys = [*dict.fromkeys(key for row in rows for key in row)]
    lines = [[cell(row.get(key)) for key in keys] for row in rows]
    numbers = ['right' if any(isinstance(row.get(key), (int, float)) for row in rows) else 'left'
               for key in keys]
    heads = [key.replace(', ', ',\n') for key in keys]
    print(tabulate(lines, heads, disable_numparse=True, colalign=numbers), flush=True)


def question_of(doc: str) -> str:
    """The first paragraph of a script's docstring."""
    return ' '.join(doc.partition('\n\n')[0].split())


def finish(args, script: str, doc: str, tables: dict[str, list[dict]], figures: dict, packages=(),
           name: str | None = None, device: torch.device | None = None):
    """Print tables and figures, and write them with the circumstances of the run.

    `packages`: those whose versions matter. `name`: of the file (default: the script's).
    """
    machine = device_name(torch.device('cpu'))
    question, minutes = question_of(doc), round((time.monotonic() - args.start)/60, 1)
    given = {key: value for key, value in vars(args).items() if key not in ('load', 'start')
             and isinstance(value, (bool, int, float, str, list))}
    about = dict(
        question=question, machine=machine, processors=len(own_processors()),
        device=device_name(device) if device else None, threads=torch.get_num_threads(),
        python=platform.python_version(), torch=str(torch.__version__),
        versions=versions('fasterbench', *packages), commit=code_state(),
        date=f'{datetime.now(timezone.utc):%Y-%m-%d %H:%M}', options=given, quick=args.quick,
        minutes=minutes, load=[round(args.load, 1), round(os.getloadavg()[0], 1)])
    print(f'\n{question}')
    for title, rows in tables.items():
        print(f'\n{title}')
        show_table(rows)
    print('\n' + '\n'.join(f'{key}: {cell(value)}' for key, value in figures.items()))
    print(f'{about["device"] or machine}, {about["threads"]} threads, torch {about["torch"]}, '
          f'{about["date"]}, load before and after {about["load"]}', flush=True)
    if args.quick and not args.out: return
    folder = args.out or RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(about | dict(figures=figures, tables=tables), indent=1, ensure_ascii=False,
                      allow_nan=False)
    write_whole(folder/f'{name or Path(script).stem}.json', text + '\n')


def overview() -> str:
    """The scripts with what `results` has of each: a table of Markdown."""
    rows = [('script', 'question', 'minutes', 'answer', 'where and when'), ('---',)*5]
    for script in sorted(RESULTS.parent.glob('*.py')):
        if script.stem == 'common': continue
        question = question_of(ast.get_docstring(ast.parse(script.read_text(encoding='utf-8'))))
        found = [json.loads(path.read_text(encoding='utf-8'))
                 for path in sorted(RESULTS.glob(f'{script.stem}*.json'))]
        for r in found or [{}]:
            figures = [f'{key} {cell(value)}' for key, value in r.get('figures', {}).items()]
            said = some(figures, 8, '; ')
            where = f"{r['device'] or r['machine']}, {r['date'][:10]}" if r else 'not run'
            rows.append((f'`{script.name}`', question, cell(r.get('minutes')), said or '–', where))
    return '\n'.join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == '__main__': print(overview())
