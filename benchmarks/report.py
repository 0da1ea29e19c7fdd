"""What every result says first: the device, the threads and the versions; and torch's own counter"""
import platform
from importlib import import_module
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from fasterbench.base.core import device_name
from fasterbench.machine.datasheets import find_core
from fasterbench.base.system import processor_id

here = Path(__file__).parent

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
):
    "Print a result, and write it to its file"
    versions = ', '.join(f'{p} {import_module(p).__version__}' for p in ('torch', *packages))
    text = f'{processor()}, {torch.get_num_threads()} threads; Python {platform.python_version()}, {versions}\n{what}\n\n{table}\n'
    print(text)
    (here/'results'/f'{name}.txt').write_text(text)

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
