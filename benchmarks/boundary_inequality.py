"""Does what crosses the boundary of every call lie between its two sides, for a thousand drawn models?

Not more than the operations inside move one by one, not less than what the call reads that was there before it and what it
leaves in its result, each element once: as worked out element by element in nbs/checks/boundaries.ipynb, under "Between two
sides", whose code runs here. Prints how many modules are at which side, and writes it to benchmarks/results/boundary_inequality.txt.

    python benchmarks/boundary_inequality.py [--models 1000]
"""
import os, time, warnings
from pathlib import Path

import torch
from execnb.nbio import read_nb
from fastcore.script import call_parse

from report import write_result

checks = Path(__file__).resolve().parent.parent/'nbs'/'checks'
needed = '## By hand', '## Element by element', '## Between two sides'
starts = 'import ', 'from ', 'class ', 'def elements', 'def under', 'kinds', '@st.composite', 'def where', 'only_writes', 'def call_of', 'def between'

def definitions():
    "The imports and definitions of the notebook that the two sides need, as they are"
    at = ''
    for c in read_nb(checks/'boundaries.ipynb').cells:
        if c.cell_type=='markdown' and c.source.startswith('## '): at = c.source.splitlines()[0]
        if c.cell_type!='code' or at not in ('', *needed): continue
        lines = c.source.splitlines()
        if any(o.startswith(starts) for o in lines) and not any(o.startswith('cases') for o in lines): yield c.source

@call_parse
def main(
    models:int=1000, # how many
):
    "Hold drawn models against both sides"
    warnings.simplefilter('ignore'); torch.set_num_threads(1)
    os.chdir(checks)
    names, start = {}, time.time()
    for code in definitions(): exec(code, names)
    res = names['hold'](models)
    text = '\n'.join(f'{n:6} {"" if k=="models" else "modules "}{k}' for k,n in res.items())
    write_result('boundary_inequality', f'drawn models, on the CPU, eager; {time.time()-start:.0f} s; none outside of the two sides', text, 'hypothesis')
