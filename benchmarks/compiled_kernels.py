"""Do the kernels of compiled code add up to its time, do they hold the model's FLOPs, and is one above every roof?

A compiled model is profiled by its kernels, with peaks of its own process. In the forwards with marks the kernels' times are
held against that of the compiled region, and against forwards of the same compiled code without marks that are run
between them. A kernel counts as above every roof if its time is shorter than its roof allows, that of the cache that holds its
data too, by more than the interquartile range of its own samples.

    python -m benchmarks.compiled_kernels [--only mlp,gpt2]
"""
import json

import torch
from fastcore.script import call_parse
from torch import nn

from fasterbench.records.rows import beside_kernels
from fasterbench.roofline import RooflineAnalyzer
from benchmarks.shared.models import image
from benchmarks.shared.report import chosen, write_result
from benchmarks.shared.runs import in_process
from scripts.evidence import table

def mlp(): return nn.Sequential(nn.LayerNorm(512), nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)), torch.randn(64, 512)

def gpt2():
    from transformers import GPT2Config, GPT2Model
    config = GPT2Config(n_layer=1, use_cache=False)
    return GPT2Model(config), dict(input_ids=torch.randint(config.vocab_size, (1, 128)))

models = dict(mlp=mlp, resnet18=lambda: image('resnet18'), vit_b_16=lambda: image('vit_b_16'), gpt2=gpt2)

def measured(name, threads):
    "What a profile by kernels says of a model, in a process of its own"
    torch.set_num_threads(threads); torch.manual_seed(0)
    model, sample = models[name]()
    r = RooflineAnalyzer(torch.compile(model.eval()), sample).profile(kernels=True)
    eager = RooflineAnalyzer(model, sample, r.peaks).estimate()
    kernels, rest = [o for o in r if o.parts], [o for o in r if o.type==beside_kernels]
    in_kernels, others = (sum(o.time_s for o in rows) for rows in (kernels, rest))
    t, held = r.totals, [o.cache_pct if o.above else o.utilization_pct for o in kernels]
    disturbance = t.disturbance if t.disturbance and t.disturbance.notable else 'no others'
    return dict(kernels=len(kernels), in_kernels=in_kernels, region=in_kernels + others, plain=t.plain.median_s,
        marks=t.overhead_pct, between=t.overhead_interval, flops=r.flops, eager_flops=eager.flops,
        left=sum(o.flops for o in rest), nowhere=[o.name for o in kernels if not o.modules],
        impossible=[o.name for o in kernels if o.impossible], highest=max(held),
        nbytes=sum(o.bytes_moved for o in kernels), eager_bytes=eager.bytes_moved, boundary=eager.boundaries[''],
        peaks=repr(r.peaks), disturbance=str(disturbance))

def in_own_process(name, threads):
    return in_process('-m', 'benchmarks.compiled_kernels', '--one', f'{name},{threads}')[-1]

heads = ['model', 'threads', 'kernels', 'in kernels', 'of the region %', 'of a forward without marks %', 'marks add %',
    'FLOPs of eager', 'outside of kernels', 'MB at the boundary', 'MB by kernels', 'MB one by one', 'highest %', 'above all', 'no module']

def row(name, threads, o):
    def mb(key): return f'{o[key]/1e6:.1f}'
    low, high = o['between'] or (o['marks'],)*2
    return (name, threads, o['kernels'], f"{1e3*o['in_kernels']:.2f} ms", f"{100*o['in_kernels']/o['region']:.1f}",
        f"{100*o['in_kernels']/o['plain']:.1f}", f"{o['marks']:.1f} ({low:.1f} to {high:.1f})",
        f"{o['flops']/o['eager_flops']:.6f}", o['left'], mb('boundary'), mb('nbytes'), mb('eager_bytes'),
        f"{o['highest']:.1f}", ', '.join(o['impossible']) or '–', ', '.join(o['nowhere']) or '–')

@call_parse
def main(
    only:str='', # models, with commas; all of them by default
    threads:str='1,2', # numbers with commas between
    one:str=None, # a name and a number: measure in this process, and print JSON
):
    "Hold kernels against their regions, the eager count and every roof"
    if one:
        name, n = one.split(',')
        return print(json.dumps(measured(name, int(n))))
    found = {(k, n): in_own_process(k, n) for k in chosen(models, only) for n in threads.split(',')}
    kernels = table([row(*k, o) for k,o in found.items()], heads, disable_numparse=True, colalign=['left', *['right']*13, 'left'])
    notes = [f"{k}, {n}: {o['peaks']}; in the forwards {o['disturbance']}" for (k,n),o in found.items()]
    flops = sum(o['flops']!=o['eager_flops'] for o in found.values())
    above, n = sum(len(o['impossible']) for o in found.values()), sum(o['kernels'] for o in found.values())
    what = (f"{len(found)} profiles by kernels, each in a process of its own with its own peaks; in {flops} of them FLOPs are not the eager "
        f"count; {above} of {n} kernels are above every roof by more than their own IQR")
    figures = dict(profiles=len(found), other_flops=flops, kernels=n, above=above)
    write_result('compiled_kernels', what, [kernels, '\n'.join(notes)], 'torchvision', 'transformers', figures=figures)
