"""Does any published run lie below a bound?

A forward or a training step has two bounds on paper: with each operation run by itself, as eager code does it, and with what is inside of each
module's own work, or of the whole model, joined to one kernel, which no compiler can be better than. Published times are
held against both, under the datasheet of the device they were measured on:

- benchmarks/data/published_times.csv: runs out of tables, each with its source and what ran (eager or compiled);
- benchmarks/data/transformers_times.csv: BERT, GPT-2, GPT-3, OPT and a Switch Transformer in float32, forwards and training
  steps (forward and backward) with attention written out, eager; the models' configs are in transformers_configs.json;
- benchmarks/data/timm_infer_times.csv: timm's own benchmarks of its models (pytorch-image-models, folder results, files
  benchmark-infer-amp-….csv, one a column, as batch@milliseconds), eager and compiled by Inductor (those named dynamo).

It is counted without data in the published batch and size, with all floats in the dtype that the products run in.
Runs in mixed precision (timm's, and those marked so) keep weights and some operations in float32, which is not counted: it
makes the bounds less. Where the published number of parameters fits a model's form for training and the one for inference
(reparameterized), the latter is taken. The MI-250's runs are held against an MI250X, which is faster. `ratio` is time / bound:
below one the run is faster than the bound. Compiled code may be below the first bound, for it joins operations; nothing may be
below the model joined. An eager run below the first one has data that stay in a cache, or other operations than those counted,
which are those of the torch named above: nest's attention, of five dimensions, is not fused, and torch 2.4 did it in fewer
operations and in float16. A model that can't be counted is listed. FLOPs, bytes and launches of each run are kept as well, for
benchmarks/forecasts.py.

    python -m benchmarks.published_bounds [--timm_models 300] [--names repghostnet_050,resnet50] [--resume]
"""
import gc, json
from functools import partial
from statistics import median

import timm, torch, transformers
from fastcore.script import call_parse
from timm.utils import reparameterize_model
from torchvision.models import resnet50
from tqdm import tqdm
from transformers import BertConfig, BertModel

from fasterbench.machine.datasheets import find_sheet
from fasterbench.operations import first_line
from fasterbench.roofline import RooflineAnalyzer
from benchmarks.checks.timm_counts import create, n_params
from benchmarks.shared.report import data, quiet, read_csv, write_result
from scripts.evidence import names, result, table

sheets = {'rtx3090': 'RTX-3090', '4090': 'RTX-4090', '5090': 'RTX-5090'}   # how timm's files end, `-dynamo` aside
bounds = 'eager_ms', 'rows_ms', 'model_ms'   # of one operation by another, rows joined, the model joined
fields = 'source model batch size mode dtype mixed device ran published_ms'.split() + [*bounds, 'flops', 'bytes', 'launches']

def meta(build, *args, **kwargs):
    with torch.device('meta'): return build(*args, **kwargs).eval()

def resnet50_v1():
    "ResNet-50 as it was in Caffe: a block's first convolution has the stride, not the second"
    model = meta(resnet50)
    for o in (model.layer2[0], model.layer3[0], model.layer4[0]): o.conv1.stride, o.conv2.stride = (2, 2), (1, 1)
    return model

def bert_layers(): return meta(BertModel, BertConfig()).encoder

builders = {'resnet50 v1': resnet50_v1, 'resnet50': partial(meta, resnet50), 'bert-base layers': bert_layers,
    **{n: partial(meta, timm.create_model, n) for n in ('vit_base_patch16_224', 'vit_large_patch16_384')}}

def sample(model, batch, size):
    shape = (batch, size, 768) if model.startswith('bert') else (batch, 3, size, size)
    return torch.empty(shape, device='meta')

def counts(r, devices):
    "What a run does, and milliseconds of its bounds on each device"
    if r.unknown: raise ValueError(f"operations without a rule: {', '.join(r.unknown)}")
    did = dict(flops=r.flops, bytes=r.bytes_moved, launches=sum(o.launches for o in r))
    def ms(r): return {k: round(1e3*s, 4) for k,s in zip(bounds, (r.roof_time_s, r.fused_roof_time_s, r.joined_whole('', [*r]).fused_roof_time_s))}
    return {d: did | ms(r.under(d)) for d in devices}

def forward(model, x, dtype, devices): return counts(RooflineAnalyzer(model, x, devices[0]).estimate(dtype=dtype), devices)

def numbers(r): return dict(r, batch=int(r['batch']), size=int(r['size']), published_ms=float(r['published_ms'])) # of a line of CSV

def from_tables(runs):
    for r in tqdm(runs):
        r = numbers(r)
        x = sample(r['model'], r['batch'], r['size'])
        yield dict(r, mode='inference', **forward(builders[r['model']](), x, r['dtype'], [r['device']])[r['device']])

# transformers

def config_model(name):
    "A model of transformers by its config, without data, with attention written out"
    config = dict(json.loads((data/'transformers_configs.json').read_text())[name])
    cls = getattr(transformers, config['architectures'][0])
    config = cls.config_class(**config)
    config._attn_implementation = 'eager'
    with torch.device('meta'): return cls(config)

def transformer(model, batch, size, mode, devices):
    "A forward or a training step"
    tokens = torch.zeros(batch, size, dtype=torch.long, device='meta')
    inputs, built = dict(input_ids=tokens, use_cache=False), config_model(model)
    if mode=='inference': return counts(RooflineAnalyzer(built.eval(), inputs).estimate(devices[0]), devices)
    return counts(RooflineAnalyzer(built, inputs | dict(labels=tokens)).estimate_step(devices[0]), devices)

def of_transformers(runs):
    "Lines of runs, counted once for all devices"
    groups = {}
    for r in map(numbers, runs): groups.setdefault(tuple(r[k] for k in ('model', 'batch', 'size', 'mode')), []).append(dict(r, device=find_sheet(r['device']).name))
    for key,some in tqdm(groups.items()):
        try: at = transformer(*key, [*dict.fromkeys(r['device'] for r in some)])
        except Exception as e:
            yield not_counted(e, key[0], key[2])
            continue
        for r in some: yield {k: v for k,v in dict(r, mixed='no', ran='eager', **at[r['device']]).items() if k in fields}

def not_counted(e, model, size): return dict(source=f'{type(e).__name__}: {first_line(e)[:150]}', model=model, size=size)

# timm's

def spread(rows, n):
    "`n` of the rows, from all over them"
    return rows if n>=len(rows) else [rows[i*len(rows)//n] for i in range(n)]

def told(row):
    "The runs of a row of timm's benchmarks: file, device, batch, milliseconds"
    for name,o in row.items():
        if '@' in o:
            batch, took = o.split('@')
            device = next(v for k,v in sheets.items() if name.removesuffix('-dynamo').endswith(k))
            yield name, device, int(batch), float(took)

def built(row):
    "The published model; of two forms of it that have the published number of parameters, the lighter"
    with torch.device('meta'):
        model, form = create(row, True)
        light = reparameterize_model(model)
    return (light if abs(n_params(light)-float(row['params_m']))<.011 else model), form

def of_timm(row):
    "Lines of one model, counted once a batch"
    model, form = built(row)
    if form not in ('', 'reparameterized'): raise ValueError(f'another model than the published one: {form}')
    runs, size = [*told(row)], int(row['img_size'])
    for batch in dict.fromkeys(r[2] for r in runs):
        at = forward(model, sample('', batch, size), 'float16', [*sheets.values()])
        for name,device,_,took in (r for r in runs if r[2]==batch):
            yield dict(source=f'timm {name}', model=row['model'], batch=batch, size=size, mode='inference', dtype='float16', mixed='yes',
                device=device, ran='compiled' if name.endswith('dynamo') else 'eager', published_ms=took, **at[device])

def failing(row):
    try: return [*of_timm(row)]
    except Exception as e: return [not_counted(e, row['model'], int(row['img_size']))]

def kept(): return result('published_bounds').rows if 'published_bounds' in names() else []

# The report

def ratio(r, bound): return r['published_ms']/r[bound]

def share(rows, bound):
    rs = sorted(ratio(r, bound) for r in rows)
    return f'{sum(r<1 for r in rs)}', f'{rs[0]:.2f}', f'{median(rs):.2f}', f'{rs[-1]:.1f}'

def by_source(rows):
    groups = {}
    for r in rows: groups.setdefault((r['source'].split(',')[0], r['device'], r['ran']), []).append(r)
    heads = [f'{b}: {s}' for b in ('one by one', 'rows joined', 'joined') for s in ('below', 'least', 'median', 'most')]
    return table([[*k, len(g), *(s for b in bounds for s in share(g, b))] for k,g in sorted(groups.items())],
        ['source', 'device', 'ran', 'runs', *heads], disable_numparse=True)

def listed(rows, bound):
    head = 'source model batch size mode dtype device ran published_ms'.split()
    return table([[*(r[k] for k in head), f'{r[bound]:.4f}', f'{ratio(r, bound):.3f}'] for r in sorted(rows, key=lambda r: ratio(r, bound))],
        [*head, 'bound_ms', 'ratio'], disable_numparse=True)

def report(lines):
    "The parts of the text, and figures"
    both, failed = [r for r in lines if r['published_ms']], [r for r in lines if not r['published_ms']]
    tables, every = [r for r in both if not r['source'].startswith('timm ')], ('eager', 'compiled')
    def below(bound, ran): return [r for r in both if ratio(r, bound)<1 and r['ran'] in ran]
    heads = [k for k in fields if k not in ('mixed', 'flops', 'bytes', 'launches')]
    n = dict(runs=len(both), models=len({(r['model'], r['size']) for r in both}), below_model=len(below('model_ms', every)), below_rows=len(below('rows_ms', every)),
        compiled_below=len(below('eager_ms', ('compiled',))), eager_below=len(below('eager_ms', ('eager',))), not_counted=len(failed))
    parts = [f"{n['runs']} runs of {n['models']} models: {n['below_model']} below the bound of the model joined, {n['below_rows']} below that of its rows joined, "
        f"{n['compiled_below']} compiled and {n['eager_below']} eager below that of one operation by another",
        'By source; ratio is time / bound', by_source(both),
        'Out of tables', table([[r[k] for k in heads] + [f'{ratio(r, b):.2f}' for b in bounds] for r in tables],
            [*heads, '/ eager', '/ rows', '/ model'], disable_numparse=True),
        'Below the bound of the model joined', listed(below('model_ms', every), 'model_ms'),
        'Eager and below the bound of one operation by another', listed(below('eager_ms', ('eager',)), 'eager_ms'),
        'Nearest to the bound of the model joined', listed(sorted(both, key=lambda r: ratio(r, 'model_ms'))[:40], 'model_ms'),
        f'{len(failed)} not counted', table([r['model'], r['size'], r['source']] for r in failed)]
    return parts, n

what = __doc__.split('\n\n')[1].replace('\n', ' ')

def same_keys(lines): return [{k: r.get(k) for k in fields} for r in lines]

def write(parts, lines, figures=None, shown=False):
    write_result('published_bounds', what, parts, 'timm', 'transformers', figures=figures, rows=same_keys(lines), shown=shown)

@call_parse
def main(
    timm_models:int=10**6, # how many of timm's, spread over all of them
    names:str='', # those of timm's, with commas; all by default
    resume:bool=False, # keep what the last run counted
):
    "Hold published times against both bounds"
    quiet()
    torch.set_num_threads(1)
    rows = [r for r in read_csv(data/'timm_infer_times.csv') if not names or r['model'] in names.split(',')]
    lines = [r for r in kept() if r['source'].startswith('timm ')] if resume else []
    done = {(r['source'], r['model'], str(r['size'])) for r in lines if r['flops']}
    def counted(row): return all((f'timm {r[0]}', row['model'], row['img_size']) in done for r in told(row))
    tables = [*from_tables(read_csv(data/'published_times.csv')), *of_transformers(read_csv(data/'transformers_times.csv'))]
    for i,row in enumerate(tqdm([r for r in spread(rows, timm_models) if not counted(r)])):
        before = [r for r in lines if (r['model'], str(r['size']))!=(row['model'], row['img_size'])]
        lines = before + failing(row)
        gc.collect()
        if not i%25: write('a run that is not over', tables + lines)
    parts, figures = report(tables + lines)
    write(parts, tables + lines, figures=figures, shown=True)
