"""Does an estimate for a GPU count the operations that ran on it?

Each trace of torch.profiler is read, and a model of transformers of the shapes that are recorded in it is estimated, with
random weights and nothing run. Both are lists of operations, each with its calls, the FLOPs of matrix products and the bytes.
Prints the tables, and what differs; ends with 1 where products do. Which operations a model calls is a matter of the version
of transformers: the class names in a trace say which are near. With --out the tables are written to
benchmarks/results/trace_estimates.txt, with the versions.

    python -m benchmarks.trace_estimates nbs/data/h100_bert_small.json.gz FILE...
"""
import sys
from collections import defaultdict
from pathlib import Path

import torch, transformers
from fastcore.script import Param, call_parse, store_true

from fasterbench.base.core import visible
from fasterbench.costs import CostMode, count_forward
from fasterbench.session.paper import on_paper
from fasterbench.sources.traced import Places, RecordedCosts, element_types, recorded_inputs
from fasterbench.sources.traces import load_trace, module_class
from benchmarks.shared.report import quiet, write_result
from scripts.evidence import part_text, table

# models of the shapes of a trace

def dims(t, op):
    "The sizes of the inputs of each call of an operation"
    return [[i.dims for i in recorded_inputs(o)] for o in t.operations if o.name==f'aten::{op}']

def common(t, layer):
    "What a transformer's config says of its layers"
    calls = {o.name for o in t.calls if module_class(o)==layer}
    queries, inner = dims(t, 'scaled_dot_product_attention')[0][0], max(o[0][-1] for o in dims(t, 'gelu'))
    return dict(num_hidden_layers=len(calls), num_attention_heads=queries[1], intermediate_size=inner)

def bert(t):
    (words, ids, *_), (kinds, *_), (positions, *_) = dims(t, 'embedding')
    config = transformers.BertConfig(vocab_size=words[0], hidden_size=words[1], type_vocab_size=kinds[0],
        max_position_embeddings=positions[0], **common(t, 'BertLayer'))
    ids = torch.ones(ids, dtype=torch.long)
    return transformers.BertLMHeadModel(config), dict(input_ids=ids, attention_mask=ids, token_type_ids=ids*0)

def vit(t):
    images, weight = dims(t, 'conv2d')[0][:2]
    config = transformers.ViTConfig(hidden_size=weight[0], num_channels=weight[1], patch_size=weight[2], image_size=images[2],
        **common(t, 'ViTLayer'))
    return transformers.ViTModel(config), dict(pixel_values=torch.rand(images))

def dtype_of(t):
    "The dtype of weights and activations: of the first matrix product"
    return element_types[next(recorded_inputs(o)[0].type for o in t.operations if o.name=='aten::addmm')]

models = dict(BertLMHeadModel=bert, ViTModel=vit)   # class of the model in the trace → a model like it, and a sample

def model_like(places):
    "A model of the shapes of a trace, and a sample"
    if places.model in models: return models[places.model](places.trace)
    raise ValueError(f"the trace is of a {places.model}; models of the same shapes are there for {', '.join(models)}")

# two lists of operations

def numbers(): return [0, 0, 0] # calls, FLOPs in products, bytes

class Listing(CostMode):
    "Counts a forward, and notes each operation"
    def __init__(self, device):
        super().__init__(device)
        self.noted = defaultdict(numbers)
    def count(self, func, rule, args, kwargs, out):
        super().count(func, rule, args, kwargs, out)
        cost = rule.cost(func, args, kwargs, out)
        self.noted[func._opname] = [a+b for a,b in zip(self.noted[func._opname], (1, cost.matmul_flops, cost.bytes))]

def estimated(model, sample, dtype):
    "Operation → what it would do on a GPU"
    with on_paper(model, sample, dtype, device='cuda') as (twin, call, _):
        for _ in range(2):   # the first forward may build what others use
            mode = Listing('cuda')
            count_forward(twin, *call(), visible(twin), mode)
    return dict(mode.noted)

def recorded(places, known):
    "Operation → what it did; by its name in `known`, if it or one that called it has such a name"
    found, done = defaultdict(numbers), {o: cost for (o,_),cost in places.done.items()}
    to_host = {w.operations[0]: None for w in places.trace.works if w.to_host and w.operations}   # copies, whose bytes are no traffic of the device
    for o,cost in {**to_host, **done}.items():
        names = [s.name.removeprefix('aten::') for s in reversed(o.operations)]
        name = next((n for n in names if n in known), names[-1])
        found[name] = [a+b for a,b in zip(found[name], (1, cost.matmul_flops if cost else 0, cost.bytes_moved if cost else 0))]
    return dict(found)

what = 'calls', 'FLOPs in products', 'bytes'

def compared(path):
    "Parts of the text: the table of a trace and of the estimate beside it, and what differs in words; and whether products do"
    t = load_trace(path)
    dtype = dtype_of(t)
    places = Places(t, t.works, RecordedCosts('cuda', dtype))
    model, sample = model_like(places)
    paper = estimated(model, sample, dtype)
    ran = recorded(places, paper)
    names = list(dict.fromkeys((*paper, *ran)))
    rows = [[n, *(f'{o.get(n, numbers())[i]:,}' for i in range(3) for o in (ran, paper))] for n in names]
    total = [f'{sum(v[i] for v in o.values()):,}' for i in range(3) for o in (ran, paper)]
    pairs = [(n, k, ran.get(n, numbers())[i], paper.get(n, numbers())[i]) for n in names for i,k in enumerate(what)]
    unlike = [f'{n}: {a:,} {k} in the trace, {b:,} in the estimate' for n,k,a,b in pairs if a!=b]
    both = table([*rows, ['', *total]], ['operation', *(f'{k}, {o}' for k in what for o in ('trace', 'estimate'))],
        disable_numparse=True, colalign=('left', *['right']*6))
    differs = any(ran.get(n, numbers())[:2]!=paper.get(n, numbers())[:2] for n in names if any(o.get(n, numbers())[1] for o in (ran, paper)))
    return [f'{Path(path).name}, {type(model).__name__}', both, '\n'.join(unlike or ['nothing differs'])], differs

@call_parse
def main(
    files:Param('traces of a GPU', nargs='+'),
    out:store_true=False, # write benchmarks/results/trace_estimates.txt
):
    "Hold estimates for a GPU against the operations that ran on it"
    quiet()
    found = [compared(o) for o in files]
    parts = [o for said,_ in found for o in said]
    if out: write_result('trace_estimates', 'an estimate for a GPU beside the operations of a trace', parts, 'transformers', figures=dict(traces=len(files)))
    else: print(*map(part_text, parts), sep='\n\n')
    sys.exit(any(differs for _,differs in found))
