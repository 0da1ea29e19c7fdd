"""Where do counters part? The multiply-adds of seventeen models by six counters, as parts of an independent count.

Of torchvision's models the independent count is the published one (`weights.meta['_ops']`). Of transformers' models, small
and with random weights, it is that of torch's FlopCounterMode with attention in its parts, and of the operations that it
has no formula for by their shapes. Every counter sees the same model and input in evaluation and inference mode, in a
process of its own, with fused attention. A counter that fails is shown by the name of its exception. The table goes to
benchmarks/results/counters.txt and .json.

    python -m benchmarks.counters [--only vit_b_16,DeepseekV3ForCausalLM]
"""
import os
os.environ['HF_HUB_OFFLINE'] = '1'

import torch
from fastcore.script import call_parse
from torch import nn

from fasterbench.base.core import leaves
from benchmarks.checks.published_counts import build, by_fasterbench, others, published, sample_for
from benchmarks.checks.transformers_counts import by_hand, by_torch
from benchmarks.shared.architectures import kinds, small
from benchmarks.shared.report import chosen, quiet, words, write_result
from benchmarks.shared.runs import apart
from scripts.evidence import part_text, table

vision = words('resnet50 mobilenet_v3_large convnext_tiny vit_b_16 vit_l_32 swin_t swin_v2_t maxvit_t')
language = words('''BertModel GPT2LMHeadModel LlamaForCausalLM T5Model WhisperModel MambaForCausalLM MixtralForCausalLM
    DeepseekV3ForCausalLM EncodecModel''')
counters = dict(fasterbench=by_fasterbench, **others)

class Positional(nn.Module):
    "A model that is called with names, called without them; a counter that traces gets tensors back"
    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names
    def forward(self, *args, **kwargs):
        out = self.model(**dict(zip(self.names, args)) | kwargs)
        return tuple(o for o in leaves(out) if isinstance(o, torch.Tensor))

def by_ptflops_named(model, sample):
    "ptflops calls a model with names if it has several inputs"
    import ptflops
    made = lambda _: dict(zip(model.names, sample))
    return ptflops.get_model_complexity_info(model, (1,), as_strings=False, print_per_layer_stat=False, verbose=False, input_constructor=made)[0]

def of_torchvision(name):
    "The model, its sample, and the multiply-adds that are published"
    row = next(r for r in published() if r['model']==name)
    model = build(row)
    return model, sample_for(row, model), row['published']*1e9

def of_transformers(name):
    "The model, its sample, and the multiply-adds by another count"
    config, sample = next((config, sample) for ms in kinds.values() for cls,config,sample in ms if cls==name)
    torch.manual_seed(0)
    model = small(name, **config)
    return Positional(model, [*sample]).eval(), tuple(sample.values()), (by_torch(model, sample) + by_hand(model, sample).total())/2

def one(name):
    "What each counter says of a model"
    model, sample, independent = (of_torchvision if name in vision else of_transformers)(name)
    named = {} if name in vision else dict(ptflops=by_ptflops_named)
    said = {k: apart(f, model, sample, threads=1) for k,f in (counters | named).items()}
    return dict(model=name, whose='torchvision' if name in vision else 'in parts', independent=independent, **said)

def percent(value, independent): return f'{100*value/independent:.1f}' if isinstance(value, (int, float)) else value or 'none'

@call_parse
def main(
    only:str='', # models, with commas; all of them by default
):
    "Compare six counters on seventeen models"
    quiet()
    res = [one(n) for n in chosen(vision + language, only)]
    compared = table([[r['model'], r['whose'], f"{r['independent']/1e6:,.2f}", *(percent(r[k], r['independent']) for k in counters)] for r in res],
        ['model', 'counted by', 'MMAC', *counters], disable_numparse=True, colalign=['left', 'left', *['right']*(1 + len(counters))])
    if only: return print(part_text(compared))
    what = 'multiply-adds of one forward in evaluation and inference mode, in percent of an independent count; a name: the exception instead of a count'
    write_result('counters', what, compared, *words('torchvision transformers fvcore torchinfo ptflops calflops'),
        figures=dict(models=len(res), counters=len(counters)), rows=res)
