"""Are the counts those that timm publishes?

timm publishes GMAC for its models, counted by fvcore. Each model of
benchmarks/data/timm_infer_gmacs.csv runs once on the CPU at the published size (reparameterized where the published
number of parameters says so), and its matrix products are held against the published number. Within 1 % is 'equal'.
fvcore then counts the same model: what it counts besides products (normalization, pooling, resizing) and what it skips
must make up the difference, to the two decimals that are published. Prints a table and writes it, with the device and
the versions, to benchmarks/results/timm_counts.txt and .csv.

    python benchmarks/timm_counts.py [--models efficientnet_b0,swin_tiny_patch4_window7_224]
"""
import csv, gc, logging, platform, warnings
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import timm, torch
from fastcore.script import call_parse
from fvcore.nn import FlopCountAnalysis
from tabulate import tabulate
from timm.layers import set_fused_attn
from timm.utils import reparameterize_model

from fasterbench.core import device_name
from fasterbench.costs import count_costs

here = Path(__file__).parent
products = {'conv', 'linear', 'matmul', 'addmm', 'bmm', 'baddbmm', 'einsum'}

def n_params(model): return round(sum(p.numel() for p in model.parameters())/1e6, 2)

def create(row, fused):
    "The published model: reparameterized if only that has the published number of parameters"
    set_fused_attn(fused)
    model, want = timm.create_model(row['model']).eval(), float(row['params_m'])
    if abs(n_params(model)-want)<.011: return model, ''
    model = reparameterize_model(model)
    return model, 'reparameterized' if abs(n_params(model)-want)<.011 else f"{n_params(model)} M parameters, published {want}"

def by_fvcore(model, x):
    "fvcore's GMAC by operator, and how often it met operations that it does not count"
    counts = FlopCountAnalysis(model, x).unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings('none')
    return Counter({k:v/1e9 for k,v in counts.by_operator().items()}), counts.unsupported_ops()

def besides(ours, theirs, skipped):
    "What fvcore counts that is no product, and the products that it lacks"
    more = sorted(((v, k) for k,v in theirs.items() if k not in products and v>5e-5), reverse=True)
    gap = sum(v for k,v in theirs.items() if k in products) - ours
    blind = [k.removeprefix('aten::') for k in skipped if any(w in k for w in ('conv', 'lstm', 'gru', 'mm', 'attention', 'matmul', 'einsum'))]
    return '; '.join([f'{k} {v:+.4f}' for v,k in more] + [f"products {gap:+.4f} ({', '.join(blind) or 'unexplained'} not counted)"]*(abs(gap)>5e-5))

def verdict(got, want):
    if abs(got/want-1)<=.01: return 'equal'
    return 'equal as rounded' if abs(got-want)<=.005 else 'differs'

def line(row):
    model, form = create(row, fused=True)   # timm's default
    size, want = int(row['img_size']), float(row['gmacs'])
    x = torch.randn(1, 3, size, size)
    costs = count_costs(model, x)
    got = costs.matmul_flops/2e9
    model, _ = create(row, fused=False)     # fvcore does not count the fused operation
    with torch.no_grad(): theirs, skipped = by_fvcore(model, x)
    total = sum(theirs.values())
    return dict(model=row['model'], size=size, published=want, counted=f'{got:.4f}', diff_pct=f'{100*(got/want-1):+.2f}', verdict=verdict(got, want),
                fvcore=f'{total:.4f}', fvcore_is='as published' if abs(total-want)<.0051 else f'{total-want:+.4f} off', form=form,
                unknown=' '.join(costs.unknown), difference=besides(got, theirs, skipped))

def summary(res):
    n, as_published = Counter(r['verdict'] for r in res), sum(r['fvcore_is']=='as published' for r in res)
    exact = sum('products' not in r['difference'] for r in res)
    return (f"{len(res)} rows: {n['equal']} equal (within 1 %), {n['equal as rounded']} more equal to the two published decimals, {n['differs']} differ\n"
            f"fvcore's products are the counted ones to 0.00005 GMAC in {exact}; fvcore's total rounds to the published number in {as_published}\n"
            f"operations without a rule: {' '.join(r['unknown'] for r in res).strip() or 'none'}")

@call_parse
def main(
    models:str='', # names, with commas; all rows of the csv by default
):
    "Hold counted GMAC against timm's published ones"
    logging.disable(logging.WARNING); warnings.simplefilter('ignore')
    rows = list(csv.DictReader(open(here/'data'/'timm_infer_gmacs.csv')))
    res = []
    for r in rows:
        if models and r['model'] not in models.split(','): continue
        res.append(line(r))
        print(*res[-1].values(), flush=True)
        gc.collect()
    if models: return print(summary(res))
    shown = [[r[k] for k in 'model size published counted diff_pct verdict form'.split()] for r in res]
    others = [[r[k] for k in 'model published counted fvcore fvcore_is difference'.split()] for r in res if r['verdict']=='differs']
    text = (f"{device_name(torch.device('cpu'))}, {torch.get_num_threads()} threads; Python {platform.python_version()}, torch {torch.__version__}, "
            f"timm {timm.__version__}, fvcore {version('fvcore')}\n"
            f"batch 1, eval and inference mode, attention fused for the count and not for fvcore; GMAC; published: {', '.join(sorted({r['source'] for r in rows}))}\n\n{summary(res)}\n\n"
            + tabulate(shown, headers=['model', 'pixels', 'published', 'counted', '%', '', ''], disable_numparse=True)
            + "\n\nThose that differ: what fvcore counts besides products, in GMAC, and products that it does not count\n\n"
            + tabulate(others, headers=['model', 'published', 'counted', 'fvcore here', 'which is', 'besides'], disable_numparse=True) + '\n')
    print(text)
    (here/'results'/'timm_counts.txt').write_text(text)
    with open(here/'results'/'timm_counts.csv', 'w') as f:
        w = csv.DictWriter(f, list(res[0]), lineterminator='\n')
        w.writeheader(); w.writerows(res)
