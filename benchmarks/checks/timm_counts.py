"""Are the counts those that timm publishes?

timm publishes GMAC for its models, counted by fvcore. benchmarks/data/timm_infer_gmacs.csv holds such numbers for models of
each of its modules: three architectures a module, four of the modules with more than eleven, spread evenly from the least
published GMAC to the most (of sequencer the smallest: LSTMs without data are slow), and a list by hand before these. Each is counted at the published size without data (on the meta device; on the CPU where its note says so),
reparameterized where the published number of parameters says so. Within 2 %, or half a unit of the second decimal that is
published, is 'equal'. Torch's FlopCounterMode counts every model too.

Where a model differs, fvcore counts it on the CPU. It is 'explained' only if
- fvcore's total is the published number, to its two decimals or within 0.5 %, and
- fvcore's products are the counted ones to 0.0001 GMAC or 0.5 %, together with those of the calls that it skips (convolutions
  with padding='same', LSTMs, fused attention), which are summed by hand from their shapes;
what is left of the difference is what fvcore counts besides products: normalization, pooling, resizing. Prints a table and
writes it, with the device and the versions, to benchmarks/results/timm_counts.txt and .json.

    python -m benchmarks.checks.timm_counts [--only efficientnet_b0,swin_tiny_patch4_window7_224]
"""
import gc
from collections import Counter

import timm, torch
from fastcore.script import call_parse
from fvcore.nn import FlopCountAnalysis
from timm.layers import set_fused_attn
from timm.models import model_entrypoint
from timm.utils import reparameterize_model
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from tqdm import tqdm

from fasterbench.costs import count_costs
from benchmarks.shared.report import TorchCounter, chosen, data, quiet, read_csv, write_result
from scripts.evidence import table

products = {'conv', 'linear', 'matmul', 'addmm', 'bmm', 'baddbmm', 'einsum'}

def n_params(model): return round(sum(p.numel() for p in model.parameters())/1e6, 2)

def create(row, fused):
    "The published model: reparameterized if only that has the published number of parameters"
    set_fused_attn(fused)
    model, want = timm.create_model(row['model']).eval(), float(row['params_m'])
    if abs(n_params(model)-want)<.011: return model, ''
    model = reparameterize_model(model)
    return model, 'reparameterized' if abs(n_params(model)-want)<.011 else f"{n_params(model)} M parameters, published {want}"

def sample(row): return torch.randn(1, 3, *[int(row['img_size'])]*2)

def build(row, device, fused):
    "The published model and its sample on a device"
    with torch.device(device): return *create(row, fused), sample(row)

def counted(row):
    "Counted and FlopCounterMode's GMAC, the model's form, and the operations without a rule"
    try: model, form, x = build(row, 'meta', True)   # attention is fused: timm's default
    except (NotImplementedError, RuntimeError) as e:
        model, form, x = build(row, 'cpu', True)
        form = '; '.join(filter(None, [form, f'on the CPU: {str(e).splitlines()[0][:60]}']))
    costs = count_costs(model, x)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), TorchCounter() as theirs: model(x)
    return costs.matmul_flops/2e9, theirs.get_total_flops()/2e9, form, ' '.join(costs.unknown)

# fvcore, and what it skips

def by_fvcore(model, x):
    "fvcore's GMAC by operator"
    counts = FlopCountAnalysis(model, x).unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings('none')
    return Counter({k:v/1e9 for k,v in counts.by_operator().items()})

def conv_same(out, x, weight, bias=None, stride=1, padding=0, *args, **kwargs):
    return out.numel()*weight[0].numel() if isinstance(padding, str) else 0

def lstm(out, x, hx, weights, *args, **kwargs): return x.shape[0]*x.shape[1]*sum(w.numel() for w in weights if w.dim()==2)

def attention(out, q, k, v, *args, **kwargs): return q.numel()*k.shape[-2] + out.numel()*k.shape[-2]

skipped = {'conv1d': conv_same, 'conv2d': conv_same, 'lstm': lstm, 'scaled_dot_product_attention': attention}

class Skipped(TorchFunctionMode):
    "GMAC of the calls that fvcore skips, from their shapes"
    def __init__(self):
        super().__init__()
        self.gmacs = Counter()
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out, name = func(*args, **(kwargs or {})), getattr(func, '__name__', '')
        if name in skipped: self.gmacs[name] += skipped[name](out, *args, **(kwargs or {}))/1e9
        return out

def explain(row, got):
    "fvcore's total on the CPU, what makes it differ from the counted products, and whether that is the published difference"
    want = float(row['gmacs'])
    model, _, x = build(row, 'cpu', False)
    with torch.no_grad(): theirs = by_fvcore(model, x)
    model, _, x = build(row, 'meta', False)
    with torch.no_grad(), Skipped() as mode: model(x)
    total, left = sum(theirs.values()), +mode.gmacs
    gap = got - left.total() - sum(v for k,v in theirs.items() if k in products)
    parts = sorted([*((k, v) for k,v in theirs.items() if k not in products), *((f'{k} that it skips', -v) for k,v in left.items())], key=lambda o: -abs(o[1]))
    why = '; '.join([f'{k} {v:+.4f}' for k,v in parts if abs(v)>5e-5] + [f'products {-gap:+.4f}']*(abs(gap)>1e-4))
    good = abs(total-want)<=max(.00501, .005*want) and abs(gap)<=max(1e-4, .005*got)
    return f'{total:.4f}', why, good

def line(row):
    got, theirs, form, unknown = counted(row)
    want, fvcore, why, explained = float(row['gmacs']), '', '', ''
    verdict = 'equal' if abs(got/want-1)<=.02 else 'equal as rounded' if abs(got-want)<=.00501 else 'differs'
    if verdict=='differs':
        fvcore, why, good = explain(row, got)
        explained = 'explained' if good else 'not explained'
    return dict(family=model_entrypoint(row['model'].split('.')[0]).__module__.split('.')[-1], model=row['model'], size=int(row['img_size']), published=want, counted=f'{got:.4f}',
                diff_pct=f'{100*(got/want-1):+.2f}', verdict=verdict, torch=f'{theirs:.4f}', torch_is='the same' if theirs==got else f'{theirs-got:+.4f}', fvcore=fvcore, difference=why, explained=explained, form=form, unknown=unknown)

def numbers(res):
    "Figures of all rows"
    n = Counter(r['explained'] or r['verdict'] for r in res)
    return dict(rows=len(res), models=len({r['model'] for r in res}), families=len({r['family'] for r in res}), equal=n['equal'],
        equal_as_rounded=n['equal as rounded'], explained=n['explained'], not_explained=n['not explained'],
        torch_the_same=sum(r['torch_is']=='the same' for r in res))

def summary(res):
    n = numbers(res)
    return (f"{n['rows']} rows, {n['models']} models of {n['families']} families: {n['equal']} equal within 2 % "
            f"and {n['equal_as_rounded']} more to the two published decimals, {n['explained']} explained, {n['not_explained']} not explained\n"
            f"FlopCounterMode, with attention in its parts, counts the same to the FLOP in {n['torch_the_same']}\n"
            f"operations without a rule: {' '.join(r['unknown'] for r in res).strip() or 'none'}")

def write(rows, res):
    "Write the tables"
    def of(rows, *names):
        widths = [90 if n=='difference' else None for n in names]
        return table([[r[n] for n in names] for r in rows], names, disable_numparse=True, maxcolwidths=widths)
    parts = [summary(res), 'Those that differ: fvcore on the CPU, and what it counts besides products (+) and skips (-), GMAC',
        of([r for r in res if r['verdict']=='differs'], *'model published counted diff_pct fvcore difference explained'.split()),
        'All', of(res, *'family model size published counted diff_pct verdict form'.split())]
    write_result('timm_counts', 'batch 1, evaluation mode, on the meta device, attention fused for the count and not for fvcore; GMAC in matrix products; published: '
        + ', '.join(sorted({r['source'] for r in rows})), parts, 'timm', 'fvcore', figures=numbers(res), rows=res)

@call_parse
def main(
    only:str='', # models, with commas; all rows of the csv by default; then nothing is written
):
    "Hold counted GMAC against timm's published ones"
    quiet()
    rows, res = read_csv(data/'timm_infer_gmacs.csv'), []
    names = chosen(dict.fromkeys(r['model'] for r in rows), only)
    for r in tqdm([r for r in rows if r['model'] in names]):
        res.append(line(r))
        if only: tqdm.write(' | '.join(map(str, res[-1].values())))
        gc.collect()
    if only: print(summary(res))
    else: write(rows, res)
    if any(r['explained']=='not explained' or r['unknown'] for r in res): raise SystemExit(1)
