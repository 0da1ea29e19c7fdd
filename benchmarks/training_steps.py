"""How much longer is a profiled training step than a plain one, and do its rows add up to it?

Steps with marks and without alternate, each model `rounds` times; what a round says is the ratio of its median step with
marks, without the time in which hooks are set, to its plain one. `rows + outside` is the greatest relative difference to the step over all steps: it is rounding.
The table goes to benchmarks/results/training_steps.txt.

    python benchmarks/training_steps.py [--models resnet18] [--steps 20]
"""
import os, statistics

import torch, torchvision, transformers
from fastcore.script import call_parse
from tabulate import tabulate
from torch.nn import functional as F

from fasterbench.observe import Observer
from fasterbench.peaks import HardwarePeaks
from fasterbench.roofline import RooflineAnalyzer
from fasterbench.program import training
from fasterbench.system import median_interval
from report import write_result

def image(name, batch=8):
    y = torch.randint(1000, (batch,))
    return torchvision.models.get_model(name), torch.randn(batch, 3, 128, 128), lambda out: F.cross_entropy(out, y)

def words(model, batch=2):
    ids = torch.randint(model.config.vocab_size, (batch, 128))
    return model, dict(input_ids=ids, labels=ids), None

def small(cls, config, **kw): return cls(config(**kw))

models = dict(
    resnet18=lambda: image('resnet18'), mobilenet_v3_small=lambda: image('mobilenet_v3_small'),
    gpt2_4_layers=lambda: words(small(transformers.GPT2LMHeadModel, transformers.GPT2Config, n_layer=4, n_embd=256, n_head=8, vocab_size=8000)),
    bert_4_layers=lambda: words(small(transformers.BertForMaskedLM, transformers.BertConfig, num_hidden_layers=4, hidden_size=256,
        num_attention_heads=8, intermediate_size=1024, vocab_size=8000)))

def alternating(model, sample, loss, optimizer, n):
    "Seconds of `n` steps with marks, each beside one without"
    with training(model, sample, loss, optimizer) as step:
        o = Observer(step.model, step, torch.device('cpu'))
        for _ in range(3): o.forward()
        pairs = []
        for i in range(n):
            first = i%2   # which of the two comes first alternates
            if first: plain = o.forward()
            with o.marks, o.backward(): marked = o.forward() - o.aside()
            pairs.append((marked, plain if first else o.forward()))
    return pairs

def line(name, n):
    model, sample, loss = models[name]()
    optimizer = torch.optim.AdamW(model.train().parameters())
    pairs = alternating(model, sample, loss, optimizer, n)
    ratios = [a/b for a,b in pairs]
    low, high = median_interval(ratios)
    r = RooflineAnalyzer(model, sample, HardwarePeaks(1e12, 1e11)).profile_step(loss, optimizer, warmup=2, steps=8)
    t = r.totals
    apart = max(abs(sum(o.samples[i] for o in r) + t.outside.samples[i] - s)/s for i,s in enumerate(t.forward.samples))
    shares = {g.name: f'{100*g.time_s/t.mean_s:.0f}' for g in r.by('phase')}
    plain = statistics.median(b for _,b in pairs)
    return [name, len(r), t.module_calls, f'{1e3*plain:.1f}', f'{100*(statistics.median(ratios)-1):.1f}', f'{100*(low-1):.1f} … {100*(high-1):.1f}',
            ' / '.join(shares.get(k, '0') for k in ('forward', 'backward', 'optimizer')), f'{100*t.remainder_s/t.mean_s:.1f}', f'{apart:.0e}']

loads = os.getloadavg()
headers = ['model', 'rows', 'calls', 'plain step,\nms', 'marks add,\n%', '95 %\ninterval', 'forward / backward /\noptimizer, %', 'outside,\n%', 'rows + outside\nsay, off by']

@call_parse
def main(
    models:str='resnet18,mobilenet_v3_small,gpt2_4_layers,bert_4_layers',
    steps:int=30, # of each kind
):
    "Measure what profiling adds to a training step"
    table = tabulate([line(m, steps) for m in models.split(',')], headers=headers, disable_numparse=True, stralign='right')
    write_result('training_steps', f'AdamW; {steps} pairs of a step with marks and one without; load average before and after: '
        f'{loads[0]:.1f}, {os.getloadavg()[0]:.1f}', table, 'torchvision', 'transformers')

