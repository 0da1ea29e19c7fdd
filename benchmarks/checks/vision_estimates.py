"""Does an estimate of torchvision's models count what a forward does, row by row?

Each model, with random weights and one image of 224 × 224, is estimated without data and counted in a real forward on the
CPU. Prints a table and writes it, with the device and the versions, to benchmarks/results/vision_estimates.txt.

    python -m benchmarks.checks.vision_estimates [--only resnet18,swin_t]
"""
import torch
from fastcore.script import call_parse
from torchvision.models import get_model

from benchmarks.checks.transformers_estimates import line, one
from benchmarks.shared.report import chosen, quiet, words, write_result
from scripts.evidence import part_text, table

models = words('''resnet18 resnet50 mobilenet_v3_small efficientnet_b0 densenet121 swin_t swin_v2_t convnext_tiny
    regnet_y_400mf googlenet shufflenet_v2_x1_0 vgg11 squeezenet1_1 vit_b_16''')

@call_parse
def main(
    only:str='', # models, with commas; all of them by default; then nothing is written
):
    "Estimate torchvision's models and compare them with real forwards"
    quiet()
    torch.set_num_threads(1)
    res = {n: one(get_model(n).eval(), torch.randn(1, 3, 224, 224)) for n in chosen(models, only)}
    same = sum(not r.get('refused') and not r['unlike'] for r in res.values())
    found = table([[n, *line(r)] for n,r in res.items()], ['model', 'estimate', 'FLOPs in products', 'of a forward', '', ''], disable_numparse=True)
    said = f'{len(res)} models: {same} have the calls, FLOPs and bytes of a real forward in every row'
    if only: print(said, part_text(found), sep='\n\n')
    else: write_result('vision_estimates', 'one image of 224 × 224, random weights, evaluation mode', [said, found], 'torchvision',
        figures=dict(models=len(res), equal=same))
    if same<len(res): raise SystemExit(1)
