"""Are the bytes counted those that an operation touches?

Every operation call in forwards of real models is replayed on bitmaps, one for each storage: what the operation reads and
what it writes is marked, by its schema, by the shapes, strides and offsets of its tensors and by the values of its indices
and masks, and the marks are counted (reads once, writes once). None of fasterbench's own byte functions is used. The number
is held against what `rule_for(func).bytes` says of that call. A count that is not the number of marks has to be
another reading of the same call, worked out independently too and named in `reasons`, or it shows as not explained:

- rows: each index counts as a row of its own, up to the size of the table, as the package's documentation says;
- whole: what a triangle, lengths or negative padding leave out counts as well;
- plain: all that the schema names, read and written whole.

marks ≤ rows ≤ whole ≤ plain. Fused operations (attention, encoder layers, recurrent layers) are defined by their boundary.
Then each model's calls, FLOPs and bytes in `torch.no_grad()` are held against those in `torch.inference_mode()`, operation by
operation. Prints tables and writes them, with the device and the versions, to benchmarks/results/marks.txt.

    python -m benchmarks.checks.marks [--only torchvision,recurrent]
"""
import copy, gc, os
from collections import Counter, defaultdict
from itertools import groupby
from math import gcd
from typing import NamedTuple
os.environ['HF_HUB_OFFLINE'] = '1'

import numpy as np, torch, torch.nn.functional as F
from fastcore.script import call_parse
from torch import nn, randn
from torch.utils._pytree import tree_leaves
from tqdm import tqdm

from benchmarks.checks import coverage
from fasterbench.base.core import call_args
from fasterbench.costs import CostMode
from fasterbench.counting.rules import rule_for
from benchmarks.shared.architectures import kinds, shown, small
from benchmarks.shared.report import quiet, words, write_result
from scripts.evidence import part_text, table

# marks

class Touch(NamedTuple):
    "What is touched of a tensor: the elements at the places `at` of its storage, or all of them"
    tensor:torch.Tensor
    at:torch.Tensor|None = None
    named:int|None = None   # elements that indices name, where some of these are not touched
    @property
    def rows(self): return self.at.numel() if self.named is None else self.named

def places(t):
    "The place of each element of `t` in its storage, in elements"
    first, reach = t.storage_offset(), 1 + sum((n-1)*s for n,s in zip(t.shape, t.stride()))
    return torch.arange(first, first + reach).as_strided(t.shape, t.stride(), 0) if t.numel() else torch.empty(t.shape, dtype=torch.long)

def storage(touch): return touch.tensor.untyped_storage().data_ptr()

def mark(bitmap, lo, unit, touch):
    "Marks what `touch` covers in a bitmap that begins at `lo`; both in units of bytes"
    t, k = touch.tensor, touch.tensor.element_size()//unit
    if touch.at is not None: bitmap[(touch.at.flatten()[:,None]*k + torch.arange(k) - lo).numpy()] = True
    else: np.lib.stride_tricks.as_strided(bitmap[t.storage_offset()*k-lo:], (*t.shape, k), (*(s*k for s in t.stride()), 1))[...] = True

def span(t, unit):
    k, reach = t.element_size()//unit, 1 + sum((n-1)*s for n,s in zip(t.shape, t.stride()))
    return t.storage_offset()*k, (t.storage_offset() + reach)*k

def marked(touches):
    "Bytes of one storage that are touched"
    unit = gcd(*(o.tensor.element_size() for o in touches))
    spans = [span(o.tensor, unit) for o in touches]
    lo, hi = min(a for a,_ in spans), max(b for _,b in spans)
    bitmap = np.zeros(hi-lo, bool)
    for o in touches: mark(bitmap, lo, unit, o)
    return unit*int(np.count_nonzero(bitmap))

def total(touches, one=marked):
    "The sum of `one` over the storages"
    touches = sorted((o for o in touches if o.tensor.numel()), key=storage)
    return sum(one(list(g)) for _,g in groupby(touches, storage))

def whole(touches): return marked([Touch(o.tensor) for o in touches])
def in_rows(touches):
    "Bytes of one storage, where each place that is named counts as one of its own, up to the size of what it is named in"
    named, rest = [o for o in touches if o.at is not None], [o for o in touches if o.at is None]
    most = sum(o.rows*o.tensor.element_size() for o in named)
    return (min(most, whole(named)) if named else 0) + (marked(rest) if rest else 0)

# calls

def flat(x): return [t for t in tree_leaves(x) if isinstance(t, torch.Tensor)]
def plain_memory(t): return t.layout is torch.strided and not t.is_nested and not t.is_quantized

overwrites = set('copy_ fill_ zero_ normal_ uniform_ random_ bernoulli_ exponential_ log_normal_ cauchy_ geometric_'.split())
asks_shapes = set('_fused_sdp_choice is_same_size _assert_tensor_metadata resize_ set_'.split())
def only_shape(name): return name.endswith('_like') or name.startswith('new_') or name in asks_shapes
def no_values(name): return name.startswith(('empty', 'new_empty')) or name in asks_shapes

class Call:
    "An operation call: its arguments by name, and what it reads and writes by its schema"
    def __init__(self, func, args, kwargs, out):
        self.name, self.out, schema = func._opname, out, func._schema.arguments
        self.args = {a.name: args[i] if i<len(args) else kwargs.get(a.name, a.default_value) for i,a in enumerate(schema)}
        self.reads, self.writes, mine = {}, {}, {t.untyped_storage().data_ptr() for t in flat(self.args) if t.numel()}
        for a in schema:
            written = a.alias_info is not None and a.alias_info.is_write
            touches = [Touch(t) for t in flat(self[a.name])]
            if not (written and (a.is_out or self.name in overwrites)) and not only_shape(self.name): self.reads[a.name] = touches
            if written and not no_values(self.name): self.writes[a.name] = touches
        fresh = [Touch(t) for t in flat(out) if t.untyped_storage().data_ptr() not in mine]
        if flat(out) and not fresh and not self.writes: self.reads = {}   # a view
        self.writes[None] = [] if no_values(self.name) else fresh
        if torch.Tag.inplace_view in func.tags: self.reads, self.writes = {}, {}   # `t_`, `squeeze_`: other strides
    def __getitem__(self, name): return self.args[name]
    def bytes(self, one=marked): return sum(total([o for ts in side.values() for o in ts], one) for side in (self.reads, self.writes))

def at(t, f, named=None):
    "What `f` names of `t`; it is given the places of the elements"
    return [Touch(t, f(places(t)).flatten(), named)]

def forget(c, *names):
    for n in names: c.reads.pop(n, None)

semantics = {}   # name → function that corrects what the schema says a call reads and writes
def means(names):
    def add(f): semantics.update({n:f for n in names.split()})
    return add

# lookups

def selected(indices): return tuple(slice(None) if i is None else i for i in indices)

lookups = {  # name → the table, what is read of it
    'embedding':      ('weight', lambda c,a: a[c['indices']]),
    'index_select':   ('self', lambda c,a: a.index_select(c['dim'], c['index'])),
    'index':          ('self', lambda c,a: a[selected(c['indices'])]),
    '_unsafe_index':  ('self', lambda c,a: a[selected(c['indices'])]),
    'gather':         ('self', lambda c,a: a.gather(c['dim'], c['index'])),
    'take':           ('self', lambda c,a: a.take(c['index'])),
    'masked_select':  ('self', lambda c,a: a.masked_select(c['mask'])),
    'trace':          ('self', lambda c,a: a.diagonal()),
    'tril':           ('self', lambda c,a: left(torch.tril(a+1, c['diagonal']))),
    'triu':           ('self', lambda c,a: left(torch.triu(a+1, c['diagonal']))),
    'constant_pad_nd':('self', lambda c,a: left(F.pad(a+1, c['pad']))),
    '_embedding_bag': ('weight', lambda c,a: a[c['indices']]),
    '_embedding_bag_forward_only': ('weight', lambda c,a: a[c['indices']]),
    '_pack_padded_sequence': ('input', lambda c,a: torch.cat([(a if c['batch_first'] else a.transpose(0, 1))[i,:n].flatten() for i,n in enumerate(c['lengths'].tolist())])),
}
def left(a): return a[a>0] - 1   # places that are still there; they were one higher, the rest is 0

for name,(rows,f) in lookups.items():
    def look(c, rows=rows, f=f): c.reads[rows] = at(c[rows], lambda a: f(c, a))
    semantics[name] = look

@means('nll_loss_forward nll_loss2d_forward')
def _(c):
    target, dim = c['target'], c['self'].dim()
    keep = target!=c['ignore_index']
    one = target.clamp(min=0).unsqueeze(0 if dim==1 else 1)
    c.reads['self'] = at(c['self'], lambda a: a.gather(0 if dim==1 else 1, one if dim!=1 else one.view(-1)).view(target.shape)[keep], target.numel())
    if c['weight'] is not None: c.reads['weight'] = at(c['weight'], lambda a: a[target[keep]], target.numel())

nearest = [f'{u}{d}d' for u in ('upsample_nearest', '_upsample_nearest_exact') for d in (1, 2, 3)]
@means(' '.join(nearest))
def _(c):
    op, scales = getattr(torch.ops.aten, c.name), [v for n,v in c.args.items() if n.startswith('scales')]
    c.reads['self'] = at(c['self'], lambda a: op(a.double(), c.out.shape[2:], *scales).long())

# windows: elements between them, or beyond the last, are not read

def each(x, n): return [*x] if len(x)==n else [*x]*n
def hit(n, outs, k, stride, pad, dilation):
    "Positions of a dimension of `n` that `outs` windows of `k` taps come to"
    p = (torch.arange(outs)[:,None]*stride - pad + torch.arange(k)*dilation).unique()
    return p[(p>=0) & (p<n)]
def hitting(n, outs, k, stride, pad, dilation):
    "Positions whose taps come to one of `outs`, in a transposed convolution"
    p = torch.arange(n)[:,None]*stride - pad + torch.arange(k)*dilation
    return torch.arange(n)[((p>=0) & (p<outs)).any(1)]

def in_windows(t, seen):
    dims = range(t.dim()-len(seen), t.dim())
    if all(len(s)==t.shape[d] for s,d in zip(seen, dims)): return [Touch(t)]
    def f(a):
        for s,d in zip(seen, dims): a = a.index_select(d, s)
        return a
    return at(t, f)

@means('convolution _convolution')
def _(c):
    x, w = c['input'], c['weight']
    n = w.dim()-2
    sizes = zip(x.shape[2:], c.out.shape[2:], w.shape[2:], each(c['stride'], n), each(c['padding'], n), each(c['dilation'], n))
    c.reads['input'] = in_windows(x, [(hitting if c['transposed'] else hit)(*s) for s in sizes])

@means('max_pool1d max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d')
def _(c):
    n, x = int(next(o for o in c.name if o.isdigit())), c['self']
    k = each(c['kernel_size'], n)
    sizes = zip(x.shape[-n:], flat(c.out)[0].shape[-n:], k, each(c['stride'] or k, n), each(c['padding'], n), each(c.args.get('dilation', [1]), n))
    c.reads['self'] = in_windows(x, [hit(*s) for s in sizes])

# products

@means('addmm baddbmm addmv addbmm addr _addmm_activation addmm_ baddbmm_ addmv_ addbmm_ addr_')
def _(c):
    if c['beta']==0: forget(c, 'self')

@means('_grouped_mm')
def _(c):
    if c['offs'] is None or c['self'].dim()!=2 or c['mat2'].dim()!=3: return
    rows, used = int(c['offs'][-1]), c['offs'].diff(prepend=c['offs'].new_zeros(1))>0
    c.reads['mat2'] = at(c['mat2'], lambda a: a[used])
    if rows<len(c['self']): c.reads['self'], c.writes[None] = at(c['self'], lambda a: a[:rows]), at(c.out, lambda a: a[:rows])

# writes to what indices or masks name

@means('copy_')
def _(c):
    a, b = c['self'], c['src']
    def where(t): return t.data_ptr(), t.shape, t.stride(), t.dtype, t.is_conj(), t.is_neg()
    if where(a)==where(b): c.reads, c.writes = {}, {}   # a view onto itself, after `a[:, 2:5] += b`

def writes(f, adds=lambda c: False):
    def change(c):
        c.writes['self'] = at(c['self'], lambda a: f(c, a))
        if adds(c): c.reads['self'] = c.writes['self']
        else: forget(c, 'self')
    return change

def always(c): return True
named_index, gathered = (lambda c,a: a.index_select(c['dim'], c['index'])), (lambda c,a: a.gather(c['dim'], c['index']))
put, masked = (lambda c,a: a[selected(c['indices'])]), (lambda c,a: a.masked_select(c['mask']))
def reduces(c): return c.args.get('reduce') is not None and c.args.get('include_self', True)
semantics.update(index_copy_=writes(named_index), index_fill_=writes(named_index), index_add_=writes(named_index, always), index_reduce_=writes(named_index, reduces),
    masked_fill_=writes(masked), put_=writes(lambda c,a: a.take(c['index']), lambda c: c['accumulate']), fill_diagonal_=writes(lambda c,a: a.diagonal()),
    **{n: writes(put, lambda c: c['accumulate']) for n in ('index_put_', '_index_put_impl_')})

@means('scatter_ scatter_add_ scatter_reduce_')
def _(c):
    writes(gathered, always if c.name=='scatter_add_' else reduces)(c)
    src, index = c.args.get('src'), c['index']
    if src is not None and src.shape!=index.shape: c.reads['src'] = at(src, lambda a: a[tuple(slice(n) for n in index.shape)])

@means('masked_scatter_')
def _(c):
    writes(masked)(c)
    c.reads['source'] = at(c['source'], lambda a: a.flatten()[:c.writes['self'][0].at.numel()])

# readings of a call

def replay(func, args, kwargs, out):
    "What `func` reads and writes; `None` where memory is not plain"
    if not all(map(plain_memory, flat((args, kwargs, out)))): return
    c = Call(func, args, kwargs, out)
    if c.name in semantics: semantics[c.name](c)
    return c

readings = {   # name → bytes of a call, by its replay and by its schema
    'marks':  lambda c,p: c.bytes(),
    'rows':   lambda c,p: c.bytes(in_rows),
    'whole':  lambda c,p: c.bytes(whole),
    'plain':  lambda c,p: p.bytes(),
}

by_convention = 'each index counts as a row of its own, up to the size of the table: which are the same is in the data'
reasons = {    # (operation, reading) → why it is not the marks
    **{(n, 'rows'): by_convention for n in words('embedding index_select index _unsafe_index gather take _embedding_bag _embedding_bag_forward_only '
        'index_put_ index_copy_ index_add_ index_fill_ index_reduce_ scatter_ scatter_add_ scatter_reduce_ put_')},
    **{(n, 'rows'): 'each target counts, ignored or not, as an element and a class weight of its own: which are the same is in the data' for n in words('nll_loss_forward nll_loss2d_forward')},
    **{(n, 'rows'): 'of a smaller result each element counts as one that is read; up in one dimension and down in another it reads some twice' for n in nearest},
    ('tril', 'whole'): 'the other triangle is counted as read', ('triu', 'whole'): 'the other triangle is counted as read',
    ('constant_pad_nd', 'whole'): 'what negative padding cuts off is counted as read',
    ('_pack_padded_sequence', 'whole'): 'padding is counted as read: the lengths are data',
}
def reason(name, reading): return reasons.get((name.split('.')[1], reading), 'not explained')

class Seen(NamedTuple):
    "One call: its operation, what fasterbench counts, the marks, and the reading that the count is"
    op:str
    counted:int
    marks:int
    reading:str

class Replay(CostMode):
    "Counts as the package does, and replays each call"
    def __init__(self, marking=True):
        super().__init__()
        self.marking, self.seen, self.skipped, self.sums = marking, [], Counter(), defaultdict(lambda: [0, 0, 0])
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = super().__torch_dispatch__(func, types, args, kwargs)
        rule = rule_for(func) if out is not NotImplemented and isinstance(func, torch._ops.OpOverload) else None
        if rule is not None and rule.family=='free': self.hold(func, rule.bytes(func, args, kwargs or {}, out), args, kwargs or {}, out)
        return out
    def count(self, func, rule, args, kwargs, out):
        nbytes = round(rule.bytes(func, args, kwargs, out))
        row = self.sums[str(func)]
        for i,n in enumerate((1, rule.cost(func, args, kwargs, out).flops or 0, nbytes)): row[i] += n
        self.hold(func, nbytes, args, kwargs, out)
    def hold(self, func, counted, args, kwargs, out):
        if not self.marking: return
        c = replay(func, args, kwargs, out)
        if c is None: return self.skipped.update([str(func)])
        marks = c.bytes()
        if marks==counted: which = 'marks'
        else: which = next((n for n,f in readings.items() if f(c, Call(func, args, kwargs, out))==counted), 'none')
        self.seen.append(Seen(str(func), counted, marks, which))

# models

torchvision_names = """resnet18 resnext50_32x4d wide_resnet50_2 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large efficientnet_b0 efficientnet_v2_s swin_t swin_v2_t
    convnext_tiny shufflenet_v2_x0_5 densenet121 googlenet inception_v3 mnasnet0_5 regnet_y_400mf regnet_x_400mf squeezenet1_1 vgg11 alexnet""".split()
other_names = """deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large fcn_resnet50 maskrcnn_resnet50_fpn fasterrcnn_mobilenet_v3_large_fpn keypointrcnn_resnet50_fpn
    retinanet_resnet50_fpn fcos_resnet50_fpn ssdlite320_mobilenet_v3_large ssd300_vgg16 raft_small r3d_18 mc3_18 swin3d_t""".split()
timm_names = """vit_tiny_patch16_224 deit3_small_patch16_224 swinv2_cr_tiny_224 convnextv2_atto tf_efficientnetv2_b0 maxvit_rmlp_pico_rw_256 coatnet_nano_rw_224 mixer_s32_224
    gmlp_ti16_224 resmlp_12_224 eca_nfnet_l0 mobileone_s0 eva02_tiny_patch14_224 regnety_002 resnest14d hrnet_w18_small mobilenetv4_conv_small ghostnetv2_100
    rexnet_100 inception_next_tiny starnet_s1 focalnet_tiny_srf levit_128s mobilevit_xxs mobilevitv2_050 poolformerv2_s12 xcit_nano_12_p16_224 cait_xxs24_224 pvt_v2_b0
    twins_svt_small hiera_tiny_224 fastvit_t8 repvit_m1 edgenext_xx_small davit_tiny volo_d1_224 tnt_s_patch16_224 visformer_tiny nest_tiny coat_lite_tiny convit_tiny
    crossvit_tiny_240 sequencer2d_s lambda_resnet26t botnet26t_256 halonet26t bat_resnext26ts efficientformer_l1 efficientvit_b0 tiny_vit_5m_224 mvitv2_tiny
    gcvit_xxtiny skresnet18 selecsls42 dla34 vovnet39a hardcorenas_a hgnetv2_b0 mambaout_femto shvit_s1 swiftformer_xs""".split()

def torchvision_models():
    for n in torchvision_names:
        s = dict(inception_v3=96, swin_v2_t=64).get(n, 64)
        yield n, coverage.tv(n, **(dict(init_weights=False) if n in ('googlenet', 'inception_v3') else {})), randn(2, 3, s, s)
    yield 'vit_b_16', coverage.tv('vit_b_16', image_size=64), randn(1, 3, 64, 64)
    for fam in ('segmentation', 'detection', 'optical_flow', 'video'):
        for n,make,x in coverage.families[f'torchvision_{fam}']():
            if n in other_names: yield n, make, x

def timm_models():
    for n,make,x in coverage.families['timm_models']():
        if n in timm_names: yield n, make, x

def transformers_small():
    for models in kinds.values():
        for n,config,sample in models: yield shown(n, config), lambda n=n, config=config: small(n, **config), sample

class Updates(nn.Module):
    "What models do in place: parts of a tensor, caches, masks, indices"
    def forward(self, a, b, i):
        x, m = a.clone(), a>0
        x[:, 2:5] += b[:, :3]
        x[m] = 0
        x[m] = a[m]
        x[i] = b[:len(i)]
        x[i, i] += 1
        x.zero_().fill_(2.).add_(a).masked_fill_(m, 1.).clamp_(0).relu_()
        x.index_copy_(0, i, b[:len(i)]).index_add_(0, i, b[:len(i)]).index_fill_(1, i, 3.)
        x.scatter_(0, i[None].expand(2, -1), b).scatter_add_(1, i[:,None], b).scatter_(1, i[:,None], 4.)
        x.masked_scatter_(m, b).copy_(b[0]).t().mul_(a)
        torch.add(a, b, out=x); torch.mm(a, b, out=x)
        x[m[0]] = b[0]
        F.cross_entropy(a, i.repeat(2)), F.nll_loss(a, i.repeat(2), weight=b[0]), F.nll_loss(a, i.repeat(2), weight=b[0], ignore_index=5)
        F.cross_entropy(a[None], i.repeat(2)[None], ignore_index=5), F.interpolate(a[None, None], size=(4, 16))
        return x, a.masked_select(m), torch.take(a, i), torch.addmm(x, a, b, beta=0), torch.baddbmm(x[None], a[None], b[None], beta=0), torch.addmv(x[0], a, b[0], beta=0)

def updates():
    yield 'in place', Updates, (randn(8, 8), randn(8, 8), torch.tensor([1, 3, 3, 5]))

groups = dict(torchvision=torchvision_models, timm=timm_models, transformers=transformers_small, updates=updates,
    **{n: coverage.families[n] for n in ('huggingface', 'recurrent', 'transformer', 'attention', 'functional', 'torchvision_ops')})

def forward(model, sample, mode):
    torch.manual_seed(0)
    args, kwargs = call_args(copy.deepcopy(sample))
    with mode: model(*args, **kwargs)
    return mode

def difference(a, b):
    "Operations whose calls, FLOPs or bytes differ: pairs"
    return {o:(tuple(a.sums[o]), tuple(b.sums[o])) for o in {**a.sums, **b.sums} if a.sums[o]!=b.sums[o]}

class Result(NamedTuple):
    group:str
    name:str
    seen:list        # calls
    skipped:Counter  # operation → calls on memory that is not plain
    unlike:dict      # operation → (calls, FLOPs, bytes) without gradients and in inference mode
    bytes:tuple      # in each

def one(group, name, make, sample):
    "The replay of a model, and how its counts in inference mode differ"
    torch.manual_seed(0)
    model = make().eval()
    with torch.no_grad(): a = forward(model, sample, Replay())
    with torch.inference_mode(): b = forward(model, sample, Replay(False))
    if difference(a, b):   # what is built in a first forward is no difference
        with torch.no_grad(): again = forward(model, sample, Replay(False))
    else: again = a
    return Result(group, name, a.seen, a.skipped, difference(again, b), tuple(sum(r[2] for r in m.sums.values()) for m in (again, b)))

# tables

def relative(s): return (s.counted-s.marks)/s.marks if s.marks else float('inf')
def share(n, of): return f'{100*n/of:.2f}' if n<of else '100'

def by_group(res):
    for g,rs in groupby(res, lambda r: r.group):
        rs = list(rs)
        calls = [s for r in rs for s in r.seen]
        yield g, len(rs), len(calls), sum(s.reading=='marks' for s in calls), sum(s.reading!='marks' for s in calls), sum(r.skipped.total() for r in rs)

def by_operation(calls):
    for op,ss in groupby(sorted(calls), lambda s: s.op):
        ss = list(ss)
        other = sorted({s.reading for s in ss} - {'marks'})
        if not other: yield op, len(ss), '100', '', '', ''
        for i,reading in enumerate(other):
            rs = [s for s in ss if s.reading==reading]
            worst = max(rs, key=lambda s: abs(relative(s)))
            equal = share(sum(s.reading=='marks' for s in ss), len(ss))
            far = f'{100*relative(worst):+.0f} %' if worst.marks else f'{worst.counted} B for none'
            yield (op, len(ss), equal, len(rs), far, f'{reading}: {reason(op, reading)}') if i==0 else ('', '', '', len(rs), far, f'{reading}: {reason(op, reading)}')

def explained(r): return 'nested and sparse tensors: composites on them are whole operations in inference mode' if r.skipped else 'not explained'

def by_mode(res):
    rows = sorted((op, explained(r), r.name, ab) for r in res for op,ab in r.unlike.items())
    for (op,why),g in groupby(rows, lambda o: o[:2]):
        g = list(g)
        a, b = (np.sum([o[3][i] for o in g], 0) for i in (0, 1))
        yield op, len(g), *(f'{x:,}' for p in zip(a, b) for x in p), why

def numbers(res, failed):
    "Figures of all models"
    calls = [s for r in res for s in r.seen]
    equal = sum(s.reading=='marks' for s in calls)
    return dict(models=len(res), calls=len(calls), equal=equal, different=len(calls)-equal, less=sum(s.counted<s.marks for s in calls),
        not_explained=sum(s.reading!='marks' and reason(s.op, s.reading)=='not explained' for s in calls), failed=len(failed))

def parts(res, failed, n):
    calls = [s for r in res for s in r.seen]
    lost = Counter(reason(s.op, s.reading) for s in calls if s.reading!='marks')
    same = sum(r.bytes[0]==r.bytes[1] for r in res)
    yield (f"{n['models']} models, {n['calls']:,} calls: {n['equal']:,} equal, {n['different']:,} different, of these {n['less']} counted less than the marks and {n['not_explained']} not explained\n"
           f"{sum(r.skipped.total() for r in res)} calls on nested and sparse tensors skipped; "
           f"{sum(s.marks for s in calls)/1e9:.1f} GB marked; {sum(bool(s.counted or s.marks) for s in calls):,} calls move something, the others are views and the like")
    yield table(by_group(res), ['', 'models', 'calls', 'equal', 'different', 'skipped'], intfmt=',')
    yield 'Calls that differ, by reason'
    yield table(lost.most_common(), ['reason', 'calls'], maxcolwidths=[110, None])
    yield 'Operations; the largest difference is (counted − marks)/marks'
    yield table(by_operation(calls), ['operation', 'calls', 'equal\n%', 'different', 'largest\ndifference', 'the count is'], maxcolwidths=[None]*5 + [80], disable_numparse=True)
    yield f'Without gradients and in inference mode: bytes of {same} of {len(res)} models are the same'
    yield table(by_mode(res), ['operation', 'models', 'calls', '', 'FLOPs', '', 'bytes', '', 'why'], maxcolwidths=[None]*8 + [50], disable_numparse=True)
    yield 'Models whose bytes differ: without gradients, in inference mode'
    yield table([(r.group, r.name, *map('{:,}'.format, r.bytes)) for r in res if r.bytes[0]!=r.bytes[1]], disable_numparse=True)
    yield 'Failed'
    yield table(failed, maxcolwidths=[None, None, 100])

@call_parse
def main(
    only:str='', # groups or models, with commas; all by default
):
    "Hold counted bytes against marks, and counts without gradients against those in inference mode"
    quiet()
    torch.set_num_threads(1)   # small operations; two threads wait for each other beside other programs
    wanted, res, failed = only.split(',') if only else [], [], []
    for group,models in groups.items():
        for name,make,sample in tqdm(models(), desc=group):
            if only and not {group, name} & {*wanted}: continue
            try: res.append(one(group, name, make, sample))
            except Exception as e: failed.append((group, name, f'{type(e).__name__}: {e}'[:300]))
            gc.collect()
    what = 'forwards on the CPU in evaluation mode, random weights, without gradients; each operation call replayed on bitmaps'
    figures = numbers(res, failed)
    body = [*parts(res, failed, figures)]
    if only: print(*map(part_text, body), sep='\n\n')
    else: write_result('marks', what, body, 'torchvision', 'timm', 'transformers', figures=figures)
    calls = [s for r in res for s in r.seen if s.reading!='marks']
    if failed or any(s.counted<s.marks or reason(s.op, s.reading)=='not explained' for s in calls): raise SystemExit(1)
