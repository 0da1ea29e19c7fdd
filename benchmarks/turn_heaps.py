"""Does a model that takes turns find the heap as it left it? ResNet-18 in torch's default layout beside itself in channels_last

A pass whose memory was given back to the system since the last one gets it anew, page by page: `ru_minflt` of `getrusage` counts
these faults. They are counted in each pass of a turn, by its position, and in passes of each model alone, in a process of its
own; and the same with free memory given back (`malloc_trim`) before each turn. Fresh processes for all three, in turns; faults are
counts, and no timings, so other programs don't change them. Beside them stands what the pass took, as a part of the median pass of
the same model in that process. Prints a table and writes it, with the device and the versions, to
benchmarks/results/turn_heaps.txt.

    python -m benchmarks.turn_heaps [--rounds 2] [--turns 8] [--passes 5] [--batch 4] [--size 224]
"""
import ctypes, json, resource, sys
from contextlib import ExitStack
from statistics import median

import torch
from fastcore.script import call_parse

from fasterbench.session.program import undisturbed
from fasterbench.sources.observe import Observer
from benchmarks.shared.models import image
from benchmarks.shared.report import write_result
from benchmarks.shared.runs import in_process, in_turns
from scripts.evidence import table

cpu = torch.device('cpu')
layouts = dict(a=torch.contiguous_format, b=torch.channels_last)

row = 'layer1.0.bn1'

def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def counted(o):
    "Page faults of a pass, of them those in one row, and seconds"
    before, o.met_in_row = faults(), []
    with o.marks: seconds = o.forward()
    return faults() - before, sum(o.met_in_row), seconds

def count_row(o, model):
    "Note the page faults in a row of the model"
    began = []
    model.get_submodule(row).register_forward_pre_hook(lambda *_: began.append(faults()))
    model.get_submodule(row).register_forward_hook(lambda *_: o.met_in_row.append(faults() - began.pop()))

def observers(sides, batch, size, stack):
    "side → an observer of the model in its layout, warm"
    found = {}
    for side in sides:
        torch.manual_seed(0)
        model, sample = image('resnet18', batch, side=size)
        run = stack.enter_context(undisturbed(model.eval().to(memory_format=layouts[side]), sample.to(memory_format=layouts[side]), cpu))
        found[side] = Observer(run.model, run, cpu)
        count_row(found[side], run.model)
        for _ in range(5): counted(found[side])
    return found

def turns(sides, trim, n, passes, batch, size):
    "side → for each turn, for each of its passes: what `counted` returns"
    trimmed, got = ctypes.CDLL(None).malloc_trim if trim else lambda _: None, {s: [] for s in sides}
    torch.set_num_threads(1)
    with ExitStack() as stack:
        o = observers(sides, batch, size, stack)
        for i in range(n):
            for s in sides[::-1 if i%2 else 1]:
                trimmed(0)
                got[s].append([counted(o[s]) for _ in range(passes)])
    return got

code = '''import json, sys; from benchmarks.turn_heaps import turns
print(json.dumps(turns(sys.argv[1], int(sys.argv[2]), *map(int, sys.argv[3:]))))'''

ways = dict(alone=[('a', 0), ('b', 0)], in_turns=[('ab', 0)], trimmed=[('ab', 1)]) # each: sides of a process, `trim`

def measured(way, *of):
    "side → turns, from fresh processes"
    return {s: got for sides,trim in ways[way] for o in in_process('-c', code, sides, trim, *of) for s,got in o.items()}

def line(way, side, turns):
    "Medians over the turns, by the position in a turn"
    def at(i, k): return [t[i][k] for t in turns]
    passes, usual = range(len(turns[0])), median(p[2] for t in turns for p in t)
    of_row = [f'{sum(n>0 for n in at(i, 1))}' for i in passes]
    return dict(passes=way.replace('_', ' '), model=side, turns=len(turns), **{f'faults\nin pass {i+1}': f'{median(at(i, 0)):.0f}' for i in passes},
        **{f'turns with faults\nin {row}': ', '.join(of_row)}, **{'time / median pass': ', '.join(f'{median(at(i, 2))/usual:.2f}' for i in passes)})

@call_parse
def main(
    rounds:int=2, # fresh processes of each way, in turns
    turns:int=8, # of each model in a process
    passes:int=5, # of a turn
    batch:int=4, size:int=224, # images and pixels
):
    "Count the page faults of passes by their position in a turn"
    of = turns, passes, batch, size
    got = in_turns(rounds, **{way: (lambda way=way: measured(way, *of)) for way in ways})
    found = {(way, s): [t for o in got[way] for t in o[s]] for way in ways for s in layouts}
    def by_position(way, s): return [median(t[i][0] for t in found[way, s]) for i in range(passes)]
    figures = dict(turns=turns*rounds, passes=passes, faults={f'{way} {s}': by_position(way, s) for way,s in found})
    what = f'ResNet-18, batch {batch}, {size} pixels, a in torch\'s default layout, b in channels_last; medians over turns of {passes} passes, 1 thread'
    write_result('turn_heaps', what, table([line(*k, t) for k,t in found.items()], 'keys', disable_numparse=True, stralign='right'), 'torchvision', threads=1, figures=figures)
