"""Are the products of a training step all counted, and no others?

One step (forward, loss, backward) of four models in training mode, counted by module and phase, and by torch's own
FlopCounterMode around the same step. What a counter lacks is named by operation, with its FLOPs. `backward / forward` is 2
where every product of the forward has two in the backward; it is less where an input needs no gradient (the first layer),
and more where attention computes its weights again in a fused kernel (5 products for 2).
The table goes to benchmarks/results/step_counts.txt.

    python -m benchmarks.checks.step_counts [--only resnet50,gpt2]
"""
from collections import Counter

from fastcore.script import call_parse
from torch.utils.flop_counter import FlopCounterMode

from fasterbench.costs import CostMode, counted_step
from fasterbench.session.program import training
from benchmarks.shared.models import image, language
from benchmarks.shared.report import chosen, quiet, write_result
from scripts.evidence import part_text, table

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

def summed(name): return *image(name), lambda out: out.sum()

models = dict(resnet50=lambda: summed('resnet50'), vit_b_16=lambda: summed('vit_b_16'),
    bert=lambda: language('BertForMaskedLM'), gpt2=lambda: language('GPT2LMHeadModel'))

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
    only:str='', # models, with commas; all of them by default; then nothing is written
):
    "Count training steps"
    quiet()
    rows = [counts(m) for m in chosen(models, only)]
    found = table(rows, headers, disable_numparse=True, stralign='right')
    figures = dict(models=len(rows), different=sum(r[-2]!='none' for r in rows), without_a_rule=sum(r[-1] for r in rows))
    if only: print(part_text(found))
    else: write_result('step_counts', 'batch 1; 224 pixels or 128 tokens; in matrix products', found, 'torchvision', 'transformers', figures=figures)
    if any(r[-2:]!=['none', 0] for r in rows): raise SystemExit(1)
