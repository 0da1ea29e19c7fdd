"""Bounds of many models on many devices, as one file that can be cited: nbs/data/bounds.json

What is in the file, field by field, says its schema, nbs/data/bounds.schema.json. Works are

- the problems of KernelBench (https://github.com/ScalingIntelligence/KernelBench), levels 1 to 3, out of a checkout that is
  given. Names, shapes and numbers are kept, and none of their code. Level 4 downloads weights, and is left out;
- models of torchvision, timm and transformers, built from their configs without weights.

Nothing is run and nothing downloaded: a work is built without data, counted, and put under the datasheets. What can't be
counted has the reason in the place of numbers.

A problem of KernelBench is a file of Python, and reading it runs it. That is done with files below the folder that is given
alone, each in a process of its own that has `--limit` seconds. Give a checkout that you trust: a process is no sandbox.

    git clone https://github.com/ScalingIntelligence/KernelBench
    pip install einops   # which two of its problems need
    python -m benchmarks.atlas KernelBench [--workers 2] [--only GRU,resnet50]
"""
import importlib.util, json, math, re, subprocess
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import timm, torch, torchvision, transformers   # of which the processes have copies
from fastcore.script import call_parse
from tabulate import tabulate
from torch._dynamo import eval_frame   # tensors without data load it: once, and not in each process
from tqdm import tqdm

from fasterbench.base.core import dtype_name, tensors
from fasterbench.commands.models import ModelError, load_model
from fasterbench.machine.roof import peaks_of
from fasterbench.roofline import RooflineAnalyzer
from benchmarks.shared.report import code_now, quiet, top, words, write_result
from benchmarks.shared.runs import Failed, each_apart

format_version = 1
dtypes = 'float32', 'float16'
devices = words('''V100-SXM-16GB V100-PCIe-16GB T4 A10G A100-SXM-40GB A100-SXM-80GB A100-PCIe-80GB L4 L40S H100-PCIe H100-SXM H200-SXM
    B200 RTX-3090 RTX-4090 RTX-5090 MI250X-GCD MI300X MI325X MI355X''')   # all with the kernels of CUDA or ROCm: counted once

# Models

images = dict(
    torchvision=words('''alexnet vgg16 googlenet inception_v3 resnet18 resnet50 resnet152 resnext50_32x4d wide_resnet50_2
        densenet121 squeezenet1_1 mobilenet_v2 mobilenet_v3_large efficientnet_b0 efficientnet_b4 regnet_y_8gf convnext_tiny
        vit_b_16 swin_t maxvit_t'''),
    timm=words('''vit_small_patch16_224 vit_base_patch16_224 vit_large_patch16_384 deit3_base_patch16_224 beit_base_patch16_224
        eva02_base_patch14_224 swin_base_patch4_window7_224 swinv2_tiny_window8_256 convnextv2_tiny convnext_large mixer_b16_224
        efficientnetv2_rw_s mobilenetv4_conv_medium ghostnet_100 repvgg_b0 resnetv2_50 hrnet_w18 pvt_v2_b2 levit_256
        coatnet_0_rw_224'''))

# name → class of the model, and what its config has besides the defaults
texts = {
    'bert-base': ('BertModel', {}),
    'bert-large': ('BertModel', dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)),
    'roberta-base': ('RobertaModel', dict(vocab_size=50265, max_position_embeddings=514)),
    'distilbert-base': ('DistilBertModel', {}),
    'electra-small': ('ElectraModel', {}),
    't5-base': ('T5Model', dict(d_model=768, d_ff=3072, num_layers=12, num_heads=12)),
    'gpt2': ('GPT2LMHeadModel', {}),
    'gpt2-medium': ('GPT2LMHeadModel', dict(n_embd=1024, n_layer=24, n_head=16)),
    'gpt2-large': ('GPT2LMHeadModel', dict(n_embd=1280, n_layer=36, n_head=20)),
    'gpt2-xl': ('GPT2LMHeadModel', dict(n_embd=1600, n_layer=48, n_head=25)),
    'opt-125m': ('OPTForCausalLM', {}),
    'opt-1.3b': ('OPTForCausalLM', dict(hidden_size=2048, num_hidden_layers=24, ffn_dim=8192, num_attention_heads=32)),
    'phi-2': ('PhiForCausalLM', dict(hidden_size=2560, num_hidden_layers=32, num_attention_heads=32, intermediate_size=10240)),
    'llama-2-7b': ('LlamaForCausalLM', {}),
    'llama-3-8b': ('LlamaForCausalLM', dict(vocab_size=128256, num_key_value_heads=8, intermediate_size=14336)),
    'mistral-7b': ('MistralForCausalLM', {}),
    'qwen2-7b': ('Qwen2ForCausalLM', dict(vocab_size=152064, hidden_size=3584, num_hidden_layers=28, num_attention_heads=28,
        num_key_value_heads=4, intermediate_size=18944)),
    'clip-vit-base-patch32': ('CLIPModel', {}),
    'whisper-tiny': ('WhisperModel', {}),
    'wav2vec2-base': ('Wav2Vec2Model', {})}

def text_sample(cls, tokens=512):
    "What a model of transformers is called with: one sequence, an image, or 30 and 10 s of sound"
    ids = torch.zeros(1, tokens, dtype=torch.long)
    special = dict(T5Model=dict(input_ids=ids, decoder_input_ids=ids), Wav2Vec2Model=dict(input_values=torch.zeros(1, 160000)),
        WhisperModel=dict(input_features=torch.zeros(1, 80, 3000), decoder_input_ids=ids[:, :448]),
        CLIPModel=dict(input_ids=ids[:, :77], pixel_values=torch.zeros(1, 3, 224, 224)))
    return special.get(cls, dict(input_ids=ids))

def of_images(library, name): return load_model(f'{library}:{name}', batch=32)

def of_transformers(name):
    cls, config = texts[name]
    kind = getattr(transformers, cls)
    return kind(kind.config_class(**config)), text_sample(cls)

# KernelBench

def problems(checkout):
    "Name → file, in the order of their numbers"
    files = [p for level in (1, 2, 3) for p in (checkout/'KernelBench'/f'level{level}').glob('*.py')]
    if not files: raise ValueError(f"{checkout}: there are no problems in KernelBench/level1 to level3 below it")
    def number(p): return p.parent.name, int(re.match(r'\d*', p.stem)[0] or 0), p.stem
    return {f'{p.parent.name}/{p.stem}': p for p in sorted(files, key=number)}

def of_kernelbench(checkout, name):
    "A problem's model and inputs; its file is run"
    spec = importlib.util.spec_from_file_location('kernelbench_problem', problems(checkout)[name])
    module = importlib.util.module_from_spec(spec)
    with torch.device('cpu'): spec.loader.exec_module(module)
    return module.Model(*module.get_init_inputs()), tuple(module.get_inputs())

# Counts and bounds

def rounded(s): return float(f'{s:.6g}') if isinstance(s, float) else s

def likely(r):
    "The likely time, an interval that holds 80 % of runs, and what these rest on; `None`: no run tells"
    f = r.forecast()
    low, high = f.likely_interval or (None, None)
    return dict(likely_s=f.likely_s, likely_low_s=low, likely_high_s=high, likely_by=f.about['likely'])

def bounds(r):
    "Seconds at least: one operation after the other, each row joined, the model joined; a list for each, `None`: not known"
    if any(o.roof_time_s is None for o in r): return dict(roof_s=None, fused_s=None, joined_s=None) | likely(r)
    whole = r.joined_whole('', [*r]).fused_roof_time_s if '' in (r.boundaries or {}) else None
    return dict(roof_s=r.roof_time_s, fused_s=r.fused_roof_time_s, joined_s=whole) | likely(r)

def on_devices(r):
    "The bounds on each device, in their order"
    each = [bounds(r if d==devices[0] else r.under(d)) for d in devices]
    return {k: [rounded(o[k]) for o in each] for k in each[0]}

def counts(r, costs):
    "What does not depend on the device"
    return dict(flops=r.flops, matmul_flops=r.matmul_flops, bytes_moved=r.bytes_moved, fused_bytes=r.boundary_bytes,
        boundary_bytes=costs.boundary, rows=len(r), operations=sum(c.sizes.total() for c in costs.by_module.values()))

def whole_numbers(o): return {k: None if v is None else math.ceil(v) for k,v in o.items()}

def parts(build, name):
    "A model and a sample without data; with data where it looks at numbers while it is built"
    try:
        with torch.device('meta'): return build(name)
    except (RuntimeError, ModelError): return build(name)

def counted(build, name):
    "Parameters, inputs, counts and bounds of a work"
    model, sample = parts(build, name)
    model.eval()
    res = dict(parameters=sum(p.numel() for p in model.parameters()),
        inputs=[[[*t.shape], dtype_name(t.dtype)] for t in tensors(sample)], counts={}, bounds={})
    for dtype in dtypes:
        analyzer = RooflineAnalyzer(model, sample, devices[0])
        r = analyzer.estimate(dtype=dtype)
        if r.unknown: raise ValueError(f"operations without a rule: {', '.join(r.unknown)}")
        res['counts'][dtype] = whole_numbers(counts(r, analyzer.costs))
        res['bounds'][dtype] = on_devices(r)
    return res

# The file

def works(checkout):
    "Name → source, config in words, function that builds it"
    found = {f'torchvision/{n}': ('torchvision', f'{n}, batch of 32', partial(of_images, 'torchvision')) for n in images['torchvision']}
    found |= {f'timm/{n}': ('timm', f'{n}, batch of 32', partial(of_images, 'timm')) for n in images['timm']}
    def called(cls, config): return f"{cls}({', '.join(f'{k}={v}' for k,v in config.items())})"
    found |= {f'transformers/{n}': ('transformers', called(*o), of_transformers) for n,o in texts.items()}
    of = partial(of_kernelbench, checkout)
    return found | {f'KernelBench/{n}': (f"KernelBench {n.partition('/')[0].replace('level', 'level ')}", '', of) for n in problems(checkout)}

def device(name):
    "A device as its datasheet has it"
    p = peaks_of(name, torch.float32)
    rates = {d: peaks_of(name, d).ceiling(getattr(torch, d)) for d in dtypes}
    return dict(name=name, flop_per_s=rates, byte_per_s=p.peak_bandwidth, memory_bytes=p.memory_bytes, source=p.source)

def commit_of(folder):
    "The commit of a checkout; `None`: it is no checkout"
    done = subprocess.run(['git', '-C', folder, 'rev-parse', 'HEAD'], capture_output=True, text=True)
    return done.stdout.strip() if not done.returncode and (folder/'.git').exists() else None

def with_evidence(works):
    "The works, with numbers in the place of the sentences that forecasts rest on, and the sentences"
    said = {}
    for b in (b for o in works for b in o.get('bounds', {}).values()):
        b['likely_by'] = [said.setdefault(words, len(said)) for words in b['likely_by']]
    return dict(evidence=[*said], works=works)

def made_with(checkout, commit):
    used, now = {k: version(k) for k in ('torch', 'torchvision', 'timm', 'transformers')}, code_now()
    return dict(date=f'{datetime.now(timezone.utc):%Y-%m-%d}', fasterbench=now['version'], commit=now['commit'], **used,
        kernelbench_commit=commit or commit_of(checkout))

def compact(o):
    "JSON with one work, or device, a line"
    def lines(v): return '[\n' + ',\n'.join(json.dumps(x, separators=(',', ':')) for x in v) + ']'
    parts = [f'{json.dumps(k)}:' + (lines(v) if isinstance(v, list) and k!='dtypes' else json.dumps(v)) for k,v in o.items()]
    return '{' + ',\n'.join(parts) + '}\n'

def report(found, took, whole_s, workers):
    "How long it took, and what could not be counted"
    spent = f'{sum(took.values())/60:.1f} min of the processor; {whole_s/60:.1f} min by the clock, with {workers} processes at a time'
    failed = [o for o in found if 'error' in o]
    by = {}
    for o in found: by.setdefault(o['source'], []).append(o)
    table = tabulate([[k, len(v), sum('error' not in o for o in v), f"{max(took[o['name']] for o in v):.1f}",
        max(v, key=lambda o: took[o['name']])['name'].partition('/')[2]] for k,v in by.items()],
        headers=['source', 'works', 'counted', 'longest, s of the processor', 'which is'])
    lacking = tabulate([[o['name'], o['error']] for o in failed]) if failed else 'none'
    return f'{len(found)} works, {spent}\n\n{table}\n\nNot counted\n\n{lacking}'

@call_parse
def main(
    kernelbench:str, # folder of a checkout of KernelBench, whose files of problems are run
    only:str='', # works whose names have one of these texts in them, with commas; all by default
    commit:str='', # of the checkout, where it is no repository of git
    out:str='', # file; `nbs/data/bounds.json` by default
    workers:int=2, # processes at a time
    limit:float=300., # seconds that a work may take by the clock
):
    "Write bounds of KernelBench's problems and of models on devices"
    quiet()
    torch.set_num_threads(1)
    checkout, began = Path(kernelbench), perf_counter()
    known = works(checkout)
    chosen = [n for n in known if not only or any(o in n for o in only.split(','))]
    if not chosen: raise SystemExit(f'only={only!r}: no work has that in its name')
    def one(name): return counted(known[name][2], name.partition('/')[2])
    done = {n: (res, s) for n,res,s in tqdm(each_apart(one, chosen, workers, limit), total=len(chosen))}
    def entry(n):
        res = done[n][0]
        return dict(name=n, source=known[n][0], config=known[n][1]) | (dict(error=str(res)) if isinstance(res, Failed) else res)
    found = [entry(n) for n in chosen]
    table = dict(format='fasterbench bounds', version=format_version, made=made_with(checkout, commit), dtypes=[*dtypes],
        devices=[device(d) for d in devices], **with_evidence(found))
    Path(out or top/'nbs'/'data'/'bounds.json').write_text(compact(table), encoding='utf-8')
    said = report(found, {n: s for n,(_,s) in done.items()}, perf_counter() - began, workers)
    if only or out: print(said)
    else: write_result('atlas', __doc__.split('\n\n')[0], said, 'torchvision', 'timm', 'transformers')
