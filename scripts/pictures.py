"""Write figures of every kind as pages of their own, to be looked at in a browser at any width, light and dark.

What is measured is measured on this machine. A result that is there already, as `NAME.json`, is read instead.

    python scripts/pictures.py FOLDER
"""
from pathlib import Path

import torch
from fastcore.script import call_parse
from torchvision.models import resnet18, vit_b_16
from transformers import LlamaConfig, LlamaForCausalLM

from fasterbench.views.layout import figure_page
from fasterbench.results import Roofline
from fasterbench.roofline import RooflineAnalyzer, sweep_batch
from fasterbench.records.swept import Sweep

image = torch.randn(1, 3, 224, 224)

def llama():
    "Two layers with the widths of Llama 3.2 1B, and a vocabulary that a small machine has room for"
    config = LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=2, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, vocab_size=32000)
    return LlamaForCausalLM(config)

def channels_last(): return resnet18().to(memory_format=torch.channels_last), image.to(memory_format=torch.channels_last)

models = dict(resnet18=lambda: (resnet18(), image), vit_b_16=lambda: (vit_b_16(), image),
    llama=lambda: (llama(), dict(input_ids=torch.randint(32000, (1, 64)), use_cache=False)), channels_last=channels_last)

def kept(kind, path, make):
    "A result from its file, or made and written there"
    if not path.exists(): make().save(path)
    return kind.load(path)

def profiled(folder, name):
    "A model's profile on this machine"
    def profile():
        model, sample = models[name]()
        return RooflineAnalyzer(model.eval(), sample).profile(steps=10)
    return kept(Roofline, folder/f'{name}.json', profile)

def on_paper(): return RooflineAnalyzer(resnet18().eval(), image).estimate('H100-SXM', dtype='bfloat16')
def batches(): return sweep_batch(resnet18().eval(), image, [1, 2, 4, 8], steps=5)

def results(folder):
    "Name → what is drawn"
    yield from ((k, profiled(folder, k)) for k in ('resnet18', 'vit_b_16', 'llama'))
    yield 'on_paper', kept(Roofline, folder/'on_paper.json', on_paper)
    yield 'comparison', profiled(folder, 'resnet18').compare(profiled(folder, 'channels_last'))
    yield 'sweep', kept(Sweep, folder/'sweep.json', batches)

@call_parse
def main(
    folder:Path, # of the pages, and of results
):
    "A page for each figure"
    folder.mkdir(parents=True, exist_ok=True)
    for name,r in results(folder):
        (folder/f'{name}.html').write_text(figure_page(r.plot(), name), encoding='utf-8')
        print(name)
