"""What every result says first: the device, the threads and the versions"""
import platform
from importlib import import_module
from pathlib import Path

import torch

from fasterbench.core import device_name

def write_result(
    name:str, # of the file in benchmarks/results, without its end
    what:str, # how it was measured
    table:str,
    *packages:str, # whose versions matter, besides torch's
):
    "Print a result, and write it to its file"
    versions = ', '.join(f'{p} {import_module(p).__version__}' for p in ('torch', *packages))
    text = f'{device_name(torch.device("cpu"))}, {torch.get_num_threads()} threads; Python {platform.python_version()}, {versions}\n{what}\n\n{table}\n'
    print(text)
    (Path(__file__).parent/'results'/f'{name}.txt').write_text(text)
