"""Are the products of a training step all counted, and no others?

One step (forward, loss, backward) of four models in training mode, counted by module and phase, and by torch's own
FlopCounterMode around the same step. What a counter lacks is named by operation, with its FLOPs. `backward / forward` is 2
where every product of the forward has two in the backward; it is less where an input needs no gradient (the first layer),
and more where attention computes its weights again in a fused kernel (5 products for 2).
The table goes to benchmarks/results/step_counts.txt.

    python benchmarks/step_counts.py [--models resnet50,gpt2]
"""
import warnings
from collections import Counter

import torch, torchvision, transformers
from fastcore.script import call_parse
from tabulate import tabulate
from torch.utils.flop_counter import FlopCounterMode

from fasterbench.costs import CostMode, counted_step
from fasterbench.session.program import training
from report import write_result

class Named(CostMode):
    "Counts a step, and knows the products of each operation"
    def __init__(self):
        super().__init__()
        self.products = Counter()
    def count(self, func, rule, args, kwargs, out):
        row = self.row(self.at)
        before = row.matmul_flops
        super().count(func, rule, args, kwargs, out)
        self.products[str(func._overloadpacket)] += row.matmul_flops - before

def image(name): return torchvision.models.get_model(name), torch.randn(1, 3, 224, 224), lambda out: out.sum()

def words(model):
    ids = torch.randint(model.config.vocab_size, (1, 128))
    return model, dict(input_ids=ids, labels=ids), None

models = dict(
    resnet50=lambda: image('resnet50'), vit_b_16=lambda: image('vit_b_16'),
    bert=lambda: words(transformers.BertForMaskedLM(transformers.BertConfig())),
    gpt2=lambda: words(transformers.GPT2LMHeadModel(transformers.GPT2Config())))

def counts(name):
    model, sample, loss = models[name]()
    with training(model.train(), sample, loss) as step:
        step.make()
        mode = Named()
        costs = counted_step(step, mode=mode)
        with FlopCounterMode(display=False) as torchs: step.make()
    phases = Counter()
    for place,c in costs.by_module.items(): phases[place.phase] += c.matmul_flops
    theirs = Counter({str(k): v for k,v in torchs.get_flop_counts()['Global'].items()})
    lacks = {k: n - theirs[k] for k,n in mode.products.items() if n!=theirs[k]} | {k: -n for k,n in theirs.items() if k not in mode.products}
    return [name, phases['forward'], phases['backward'], f"{phases['backward']/phases['forward']:.4f}", torchs.get_total_flops(),
            ', '.join(f'{k} {n}' for k,n in lacks.items()) or 'none', sum(costs.unknown.values())]

headers = ['model', 'forward, FLOP', 'backward, FLOP', 'backward\n/ forward', 'FlopCounterMode\nof the step', 'differences', 'operations\nwithout a rule']

@call_parse
def main(
    models:str='resnet50,vit_b_16,bert,gpt2',
):
    "Count training steps"
    warnings.filterwarnings('ignore', message='.*loss_type.*')
    rows = [counts(m) for m in models.split(',')]
    table = tabulate(rows, headers=headers, disable_numparse=True, stralign='right')
    write_result('step_counts', 'batch 1; 224 pixels or 128 tokens; in matrix products', table, 'torchvision', 'transformers')
    if any(r[-2:]!=['none', 0] for r in rows): raise SystemExit(1)
