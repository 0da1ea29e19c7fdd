"""What scripts share: which names are asked for, and results: device, threads and versions first, a table, rows as CSV

A script is run from the top of the repository as `python -m benchmarks.NAME` or `python -m benchmarks.checks.NAME`.
"""
import csv, logging, platform, sys, warnings
from importlib.metadata import version
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from fasterbench.base.core import device_name
from fasterbench.base.system import processor_id
from fasterbench.machine.datasheets import find_core

top = Path(__file__).resolve().parents[2]
data, results = top/'benchmarks'/'data', top/'benchmarks'/'results'

def words(s): return s.split()

def quiet():
    "What models and other counters warn of is no part of a result"
    logging.disable(logging.WARNING)
    warnings.simplefilter('ignore')
    if 'transformers' in sys.modules: sys.modules['transformers'].logging.set_verbosity_error()

def chosen(
    names, # of models, families, …
    only:str, # some of them, with commas; empty: all
)->list: # those asked for, in the order of `names`
    names, asked = [*names], {o for o in only.split(',') if o}
    if unknown := asked - {*names}: raise ValueError(f"{', '.join(sorted(unknown))}: not among {', '.join(names)}")
    return [n for n in names if not asked or n in asked]

def processor()->str:
    "The processor, with the kind of its cores where its name does not tell"
    core = find_core(processor_id())
    return device_name(torch.device('cpu')) + (f' ({core})' if core else '')

def on_core(name:str)->str:
    "`name` with the kind of core behind it, for results that are kept for each"
    return '_'.join([name, *(find_core(processor_id()) or platform.machine()).lower().split()])

def write_result(
    name:str, # of the file in benchmarks/results, without its end
    what:str, # how it was measured
    table:str,
    *packages:str, # whose versions matter, besides torch's
    threads:int|None=None, # of the arithmetic, where it is not that of this process
    rows:list=(), # dicts, which a CSV of the same name keeps
):
    "Print a result, and write it to its file"
    versions = ', '.join([f'torch {torch.__version__}', *(f'{p} {version(p)}' for p in packages)])
    n = threads or torch.get_num_threads()
    text = f'{processor()}, {n} threads; Python {platform.python_version()}, {versions}\n{what}\n\n{table}\n'
    print(text)
    (results/f'{name}.txt').write_text(text)
    if rows: write_csv(name, rows)

def write_csv(
    name:str, # of the file in benchmarks/results, without its end
    rows:list, # dicts
    fields=None, # the columns; `None`: those of the first row
):
    with open(results/f'{name}.csv', 'w', newline='') as f:
        w = csv.DictWriter(f, fields or [*rows[0]], lineterminator='\n')
        w.writeheader()
        w.writerows(rows)

def read_csv(path:Path)->list: # dicts of texts; none where there is no file
    if not path.exists(): return []
    with open(path, newline='') as f: return [*csv.DictReader(f)]

class WholeModel:
    "In place of FlopCounterMode's tracker of modules, whose hooks fail on some models"
    parents = {'Global'}
    def __enter__(self): return self
    def __exit__(self, *args): pass

class TorchCounter(FlopCounterMode):
    "FlopCounterMode, of the model as a whole"
    def __init__(self):
        super().__init__(display=False)
        self.mod_tracker = WholeModel()
