"""How many rows does `a.compare(b)` call different, when the same model is profiled twice?

In each round every model is profiled twice in this process, one right after the other, and twice in fresh processes, one right
after the other, whose results come back as files. So the pairs are of four kinds: one after the other in one process or in
two, and a round apart in one process or in two; both kinds of a round apart have the same time between them.
Prints a table and writes it, with the device, the versions and what other programs took, to benchmarks/results/compare_repeat.txt,
with all pairs in compare_repeat.json.

    python -m benchmarks.compare_repeat [--rounds 8] [--models resnet18,vit_b_16] [--size 224]
"""
import json, os, statistics, sys, tempfile
from pathlib import Path

import pandas as pd, torch
from fastcore.script import call_parse

from fasterbench.machine.roof import HardwarePeaks
from fasterbench.results import Roofline
from fasterbench.roofline import RooflineAnalyzer
from benchmarks.shared.models import image
from benchmarks.shared.report import write_result
from benchmarks.shared.runs import in_process
from scripts.evidence import table

def analyzer(name, size):
    torch.manual_seed(0)
    model, sample = image(name, side=size)
    return RooflineAnalyzer(model.eval(), sample, HardwarePeaks(1e12, 1e11))

code = "import sys; from benchmarks.compare_repeat import analyzer; analyzer(sys.argv[1], int(sys.argv[2])).profile().save(sys.argv[3])"

def in_fresh_process(name, size):
    "A profile from a process of its own, as a file brings it"
    with tempfile.TemporaryDirectory() as d:
        path = Path(d)/'profile.json'
        in_process('-c', code, name, size, path)
        return Roofline.load(path)

def measured(models, size, rounds):
    "model → a round each: two profiles of this process, two of fresh processes"
    analyzers, got = {m: analyzer(m, size) for m in models}, {m: [] for m in models}
    for i in range(rounds):
        for m,a in analyzers.items(): got[m].append(([a.profile(), a.profile()], [in_fresh_process(m, size), in_fresh_process(m, size)]))
        print(f'round {i+1} of {rounds}', file=sys.stderr)
    return got

def pairs(rounds):
    "Kind, and two profiles"
    for kind,which in (('one process', 0), ('two processes', 1)):
        for r in rounds: yield f'{kind}, one after the other', *r[which]
        for r,s in zip(rounds, rounds[1:]): yield f'{kind}, a round apart', r[which][0], s[which][0]

def apart(ratio): return 100*(max(ratio, 1/ratio) - 1) # percent

def facts(model, kind, a, b):
    "What a comparison says of one pair"
    c, forward = a.compare(b), a.totals.mean_s
    different = [p for p in c if p.change in ('faster', 'slower')]
    large = [p for p in c if max(p.took_a.seconds, p.took_b.seconds)>0.01*forward]
    return dict(model=model, kind=kind, rows=len(c), different=len(different), over_1_pct=len(large), of_them_different=sum(p in different for p in large),
        forward=c.change, forwards_apart_pct=apart(c.ratio), rows_apart_pct=statistics.median(apart(p.ratio) for p in large),
        different_apart_pct=statistics.median(apart(p.ratio) for p in different) if different else None)

def line(model, kind, these):
    share, n = 100*these.different/these.rows, len(these)
    large = f'{these.of_them_different.sum()} of {these.over_1_pct.sum()}'
    return [model, kind, n, f'{these.different.sum()} of {these.rows.sum()}', f'{share.mean():.1f}', f'{share.median():.0f} to {share.max():.0f}', large,
        f"{(these.forward!='same').sum()} of {n}", f'{these.forwards_apart_pct.median():.1f}', f'{these.forwards_apart_pct.max():.1f}',
        f'{these.rows_apart_pct.median():.1f}', f'{these.different_apart_pct.median():.1f}']

headers = ['model', 'two profiles', 'pairs', 'rows called\ndifferent', '%', '% of one pair,\nmedian to most', 'of rows\nover 1 %', 'forwards called\ndifferent',
    'forwards\napart, %', 'at most', 'rows over 1 %\napart, %', 'different\nrows apart, %']

def others(got):
    "What other programs took of the processors during the forwards, of all profiles"
    taken = [100*p.totals.disturbance.others for rounds in got.values() for r in rounds for two in r for p in two if p.totals.disturbance]
    return f'other processes used {statistics.median(taken):.0f} % of the processors (median of the profiles), at most {max(taken):.0f} %'

def load(): return ' '.join(f'{o:.1f}' for o in os.getloadavg())

@call_parse
def main(
    rounds:int=8, # four profiles of each model in each
    models:str='resnet18,mobilenet_v3_small,vit_b_16', # torchvision models
    size:int=224, # pixels
):
    "Count what comparisons of unchanged models call different"
    before = load()
    got = measured(models.split(','), size, rounds)
    what = f'batch 1, {size} pixels; {rounds} rounds, profiles of 20 forwards\nload {before} before, {load()} after; {others(got)}'
    found = pd.DataFrame([facts(m, *p) for m,r in got.items() for p in pairs(r)])
    rows = json.loads(found.round(3).to_json(orient='records'))   # what is not known is `None`
    lines = [line(*key, these) for key,these in found.groupby(['model', 'kind'], sort=False)]
    sums = found.groupby('kind', sort=False)[['rows', 'different']].sum()
    figures = dict(rounds=rounds, different_pct=(100*sums.different/sums.rows).to_dict())
    parts = table(lines, headers, disable_numparse=True, colalign=['left', 'left', *['right']*10])
    write_result('compare_repeat', what, parts, 'torchvision', figures=figures, rows=rows)
