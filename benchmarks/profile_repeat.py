"""Does a second profile say what the first one said?

Five profiles of one model in one process. Of the rows that take over 1 % of the forward in any of them: the lowest rank
correlation (Spearman) of two profiles' times, and how far a row's times in two profiles differ (percent of their mean).
Prints a table and writes it, with the device and the versions, to benchmarks/results/profile_repeat.txt.

    python benchmarks/profile_repeat.py [--profiles 5] [--models resnet50]
"""
from itertools import combinations

import numpy as np, torch, torchvision
from fastcore.script import call_parse
from tabulate import tabulate

from fasterbench.peaks import HardwarePeaks
from fasterbench.roofline import RooflineAnalyzer
from report import write_result

def spearman(a, b): return float(np.corrcoef(np.argsort(np.argsort(a)), np.argsort(np.argsort(b)))[0, 1])

def line(name, profiles):
    a = RooflineAnalyzer(torchvision.models.get_model(name, weights=None), torch.randn(1, 3, 224, 224), HardwarePeaks(1e12, 1e11))
    got = [(a.profile(warmup=5, steps=20), a.totals.forward.median) for _ in range(profiles)]
    times = np.array([[r.time_s for r in rows] for rows,_ in got])
    times = times[:, (times > np.array([[0.01*f] for _,f in got])).any(0)]
    pairs = [*combinations(times, 2)]
    apart = np.array([abs(p-q)/(p+q)*200 for p,q in pairs])
    return [name, len(got[0][0]), times.shape[1], f'{min(spearman(p, q) for p,q in pairs):.3f}', f'{np.median([spearman(p, q) for p,q in pairs]):.3f}',
            f'{np.median(apart):.1f}', f'{np.percentile(apart, 90):.1f}', f'{1e3*min(f for _,f in got):.1f} … {1e3*max(f for _,f in got):.1f}']

headers = ['model', 'rows', 'over 1 %', 'lowest\nSpearman', 'median\nSpearman', 'median row\ndiffers by %', '90th\npercentile %', 'forward\nms']

@call_parse
def main(
    profiles:int=5, # of each model
    models:str='resnet50,vit_b_16,swin_t,mobilenet_v3_small', # torchvision models
):
    "Measure how well profiles repeat"
    table = tabulate([line(m, profiles) for m in models.split(',')], headers=headers, disable_numparse=True, stralign='right')
    write_result('profile_repeat', f'batch 1, 224 pixels; {profiles} profiles of 20 forwards in one process', table, 'torchvision')
