"""What scripts share: which names are asked for, and results: their circumstances, figures, tables and rows

A script is run from the top of the repository as `python -m benchmarks.NAME` or `python -m benchmarks.checks.NAME`.
"""
import csv, inspect, json, logging, platform, shutil, sys, warnings
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import fasterbench, torch
from fastcore.script import anno_parser
from torch.utils.flop_counter import FlopCounterMode

from fasterbench.base.core import device_name
from fasterbench.base.system import processor_id
from fasterbench.machine.datasheets import find_core
from scripts.evidence import git, json_of, save, table, text_of

top = Path(__file__).resolve().parents[2]
data = top/'benchmarks'/'data'

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

def arguments()->dict|None: # `None`: no script runs
    "What the script that runs was asked; of paths the names alone"
    main = getattr(sys.modules['__main__'], 'main', None)
    if not main: return None
    def bare(v): return [*map(bare, v)] if isinstance(v, list) else Path(v).name if isinstance(v, str) and '/' in v else v
    given = vars(anno_parser(inspect.unwrap(main)).parse_args())
    return {k: bare(v) for k,v in given.items() if k not in ('pdb', 'xtra')}

def code_now()->dict:
    "The package's version, its commit, and whether something was changed since then; `None` in a copy without a history"
    if not (top/'.git').exists() or not shutil.which('git'): return dict(version=fasterbench.__version__, commit=None, changed=None)
    changed = git('status', '--porcelain', '--', 'fasterbench', 'benchmarks', 'scripts', ':!benchmarks/results')
    return dict(version=fasterbench.__version__, commit=git('rev-parse', 'HEAD')[0], changed=bool(changed))

def write_result(
    name:str, # of the file in benchmarks/results, without its end
    what:str, # how it was measured
    parts, # of its text: a text, or a list of texts and of tables (`table`)
    *packages:str, # whose versions matter, besides torch's
    threads:int|None=None, # of the arithmetic, where it is not that of this process
    figures:dict|None=None, # name → a number that prose may say, or a dict of such
    rows:list=(), # dicts; what one lacks is `null`
    shown:bool=True, # print the text, too
):
    "Write a result as JSON, and its text, and print that"
    versions = dict(Python=platform.python_version(), torch=torch.__version__, **{p: version(p) for p in packages})
    spec = sys.modules['__main__'].__spec__
    r = dict(name=name, what=what, script=spec and spec.name, arguments=arguments(), date=f'{datetime.now(timezone.utc):%Y-%m-%d %H:%M}',
        fasterbench=code_now(), device=processor(), threads=threads or torch.get_num_threads(), versions=versions, figures=figures or {},
        parts=[parts] if isinstance(parts, (str, dict)) else [*parts], rows=table(rows, 'keys') if rows else None)
    if rows: r['rows'].pop('form')
    r = json.loads(json_of(r))
    save(r)
    if shown: print(text_of(r))

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
