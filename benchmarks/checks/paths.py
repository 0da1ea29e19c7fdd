"""Do counts take the path that C++ takes?

Composite operations (recurrent layers, matmul, linear, einsum) choose their parts by shapes, strides, dtypes and by what requires
gradients. Each case is counted without gradients and in inference mode, and run under torch's profiler in both. Three things
have to agree: FLOPs and bytes of the two counts, and the operations with the shapes of their inputs, those that were counted
against those that C++ ran. Prints the table and writes it, with device and versions, to benchmarks/results/paths.txt.

    python -m benchmarks.checks.paths [--only einsum]
"""
import itertools
from collections import Counter
from functools import cache

import torch, torch.nn.functional as F
from fastcore.script import call_parse
from torch import nn, randn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.profiler import profile

from fasterbench.costs import CostMode
from fasterbench.counting.rules import rule_for
from benchmarks.shared.report import chosen, quiet, write_result
from scripts.evidence import part_text, table

reasons = {   # why an operation is another
    '(3, 6, 8) @ (1, 8, 5)': 'under a dispatch mode torch multiplies by the one matrix, without one a batch of views of it; FLOPs and bytes are the same',
    'a mask': 'a number becomes a tensor: dispatched under a mode, and not without one; 4 bytes',
}
cases = {}
def family(f):
    "Registers a generator of `name, call`"
    cases[f.__name__] = f
    return f

@family
def recurrent():
    x, lengths = randn(6, 3, 16), [6, 4, 2]
    for cls in (nn.LSTM, nn.GRU, nn.RNN):
        for layers,both,bias,first,proj in itertools.product((1, 2), (False, True), (True, False), (False, True), (0, 8) if cls is nn.LSTM else (0,)):
            m = cls(16, 32, layers, bias=bias, bidirectional=both, batch_first=first, **(dict(proj_size=proj) if proj else {})).eval()
            named = f"{cls.__name__}{f', {layers} layers'*(layers>1)}{', both ways'*both}{', no bias'*(not bias)}{', batch first'*first}{', projected'*bool(proj)}"
            yield named, lambda m=m: m(x)
            yield f'{named}, packed', lambda m=m, first=first: m(pack_padded_sequence(x.transpose(0, 1) if first else x, lengths, batch_first=first))
            yield f'{named}, one sequence', lambda m=m: m(x[:, 0])
            half = cls(16, 32, layers, bias=bias, bidirectional=both, batch_first=first, **(dict(proj_size=proj) if proj else {})).eval().bfloat16()
            yield f'{named}, bfloat16', lambda m=half: m(x.bfloat16())

@family
def matmul():
    sizes = {1: [(8,)], 2: [(6, 8)], 3: [(3, 6, 8), (1, 6, 8)], 4: [(2, 3, 6, 8), (1, 3, 6, 8), (2, 1, 6, 8)]}
    for m,n in itertools.product(range(1, 5), repeat=2):
        for a,b in itertools.product(sizes[m], sizes[n]):
            other = b[:-2] + ((8,) if n==1 else (8, 5))
            for grad in (False, True):
                x, y = randn(a), randn(other).requires_grad_(grad)
                yield f'{a} @ {other}{", a parameter"*grad}', lambda x=x, y=y: x@y
                if m>1: yield f'{a} transposed @ {other}{", a parameter"*grad}', lambda x=randn(*a[:-2], a[-1], a[-2]), y=y: x.mT@y

@family
def linear():
    for rank,bias in itertools.product((1, 2, 3, 4), (True, False)):
        m, shape = nn.Linear(8, 5, bias=bias), (2, 3, 6, 8)[-rank:]
        for order in itertools.permutations(range(rank)):
            x = randn([shape[order.index(d)] for d in range(rank)]).permute([*order])
            if x.shape[-1]==8: yield f'{tuple(x.shape)} with strides {x.stride()}{", no bias"*(not bias)}', lambda x=x, m=m: m(x)
    yield 'a weight vector', lambda: F.linear(randn(8, 3), torch.ones(3))
    yield 'a transposed weight', lambda: F.linear(randn(2, 6, 8), randn(8, 5).t())

@family
def einsum():
    for eq,*shapes in [('ij,jk->ik', (4, 5), (5, 6)), ('bij,bjk->bik', (2, 4, 5), (2, 5, 6)), ('bhqd,bhkd->bhqk', (2, 3, 4, 5), (2, 3, 6, 5)),
                       ('bhqk,bhkd->bhqd', (2, 3, 4, 6), (2, 3, 6, 5)), ('bnd,de->bne', (2, 4, 5), (5, 6)), ('i,j->ij', (4,), (5,)), ('ii->i', (4, 4)),
                       ('ij->', (4, 5)), ('ij->ji', (4, 5)), ('bi,bi->b', (2, 5), (2, 5)), ('abc,cd,de->abe', (2, 3, 4), (4, 5), (5, 6)),
                       ('bqhd,bkhd->bhqk', (2, 4, 3, 5), (2, 6, 3, 5)), ('...ij,...jk->...ik', (2, 3, 4, 5), (3, 5, 6)), ('bn,anm,bm->ba', (2, 3), (5, 3, 4), (2, 4))]:
        tensors = [randn(s) for s in shapes]
        yield eq, lambda eq=eq, tensors=tensors: torch.einsum(eq, *tensors)

@family
def attention():
    q, k = randn(2, 8, 12, 16), randn(2, 2, 12, 16)
    keep = torch.ones(12, 12, dtype=torch.bool).tril()
    for named,args,kw in [('plain', (q, q, q), {}), ('causal', (q, q, q), dict(is_causal=True)), ('a mask', (q, q, q, keep), {}), ('three dimensions', (q[0], q[0], q[0]), {}),
                          ('grouped queries', (q, k, k), dict(enable_gqa=True)), ('one batch for all', (q[:1], q, q), {}), ('other values', (q, q, q[..., :8]), {})]:
        yield named, lambda args=args, kw=kw: F.scaled_dot_product_attention(*args, **kw)
    for named,m in [('multi-head', nn.MultiheadAttention(64, 4, batch_first=True)), ('an encoder layer', nn.TransformerEncoderLayer(64, 4, 128, batch_first=True))]:
        x = randn(2, 10, 64)
        yield named, lambda m=m.eval(), x=x: m(x, x, x) if isinstance(m, nn.MultiheadAttention) else m(x)

@cache
def composite(name):
    "Is an operation put together from others, or does it move nothing?"
    packet = getattr(getattr(torch.ops, name.partition('::')[0]), name.partition('::')[2], None)
    rules = [rule_for(getattr(packet, o)) for o in packet.overloads() if torch._C._dispatch_has_kernel(getattr(packet, o).name())] if packet else [None]
    return any(r is None for r in rules), all(r is not None and r.family=='free' for r in rules)

in_place = {'aten::copy_': 'aten::clone', 'aten::add_': 'aten::add', 'aten::mul_': 'aten::mul', 'aten::div_': 'aten::div', 'aten::sigmoid_': 'aten::sigmoid', 'aten::tanh_': 'aten::tanh',
            'aten::_reshape_copy': 'aten::clone', 'aten::relu_': 'aten::relu', 'aten::clamp_min_': 'aten::clamp_min', 'aten::fill_': 'aten::zeros', 'aten::zero_': 'aten::zeros', 'aten::_to_copy': 'aten::clone'}
others = ['case', 'FLOPs, bytes', 'in inference mode', 'counted', 'ran', 'ran in inference mode', 'why']
def plain(name): return in_place.get(name, name)

class Listed(CostMode):
    "Counts, and lists the operations that move something"
    def __init__(self):
        super().__init__()
        self.seen = Counter()
    def count(self, func, rule, args, kwargs, out):
        super().count(func, rule, args, kwargs, out)
        if rule.bytes(func, args, kwargs, out): self.seen[plain(func.name().partition('.')[0])] += 1

def counted(call, context):
    with context(), Listed() as mode: call()
    rows = mode.rows.values()
    return (sum(r.flops for r in rows), sum(r.bytes_moved for r in rows)), mode.seen

def leaves_of(event, wanted):
    "The operations that C++ ran, down to those that are counted as one"
    name = plain(event.name)
    if name in wanted: return Counter([name])
    return sum((leaves_of(e, wanted) for e in event.cpu_children), Counter())

def ran(call, context, wanted):
    "How often each of the operations `wanted` ran, by the profiler"
    with context():
        with profile() as p: call()
    return sum((leaves_of(e, wanted) for e in p.events() if e.cpu_parent is None), Counter())

products = {f'aten::{n}' for n in 'mm addmm bmm baddbmm mv addmv dot convolution mkldnn_rnn_layer _scaled_dot_product_flash_attention_for_cpu _native_multi_head_attention _transformer_encoder_layer_fwd'.split()}

@call_parse
def main(
    only:str='', # families to run, separated by commas
):
    "Count each case in two modes, and hold it against what C++ ran"
    quiet()
    torch.manual_seed(0)
    rows, wrong = [], []
    for name in chosen(cases, only):
        agree = n = 0
        for case,call in cases[name]():
            (cost, seen), (inference, _) = counted(call, torch.no_grad), counted(call, torch.inference_mode)
            wanted = {k for k in seen} | products
            theirs = [ran(call, c, wanted) for c in (torch.no_grad, torch.inference_mode)]
            ok = cost==inference and all(t==seen for t in theirs)
            n, agree = n+1, agree+ok
            if not ok: wrong.append((case, cost, inference, {**seen}, {**theirs[0]}, {**theirs[1]}, reasons.get(case, 'not explained')))
        rows.append((name, n, agree))
        print(*rows[-1], flush=True)
    parts = [table(rows, ['family', 'cases', 'agree']), 'the others', table(wrong, others, maxcolwidths=40)]
    figures = dict(cases=sum(r[1] for r in rows), agree=sum(r[2] for r in rows), not_explained=sum(o[-1]=='not explained' for o in wrong))
    if only: print(*map(part_text, parts), sep='\n\n')
    else: write_result('paths', 'FLOPs, bytes and operations without gradients, in inference mode and by the profiler', parts, figures=figures)
    if any(o[-1]=='not explained' for o in wrong): raise SystemExit(1)
