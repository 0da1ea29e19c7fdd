"""Does counting ever crash, and which of torch's operations have no rule?

Runs every sample of torch's own database of operations (OpInfo) on the CPU: first plainly, then counted by `CostMode`,
in `torch.no_grad()` and in `torch.inference_mode()`; of the methods, the in-place and the `out=` variants the first
samples. Held against the plain run: that the counted one works and gives the same, that counts are whole numbers and
not negative, that both modes count the same, and that each operation moves no fewer bytes than what it creates and no
more than it is given and gives back. Prints the tables and writes them, with the device and the versions, to
benchmarks/results/opinfo.txt; one row for each operation and variant is in opinfo.json. The exit code is 1
if a count crashes or cannot be.

    python -m benchmarks.checks.opinfo [--only linalg] [--samples 10]
"""
import copy, traceback
from collections import Counter, defaultdict
from pathlib import Path

import fasterbench, torch
from fastcore.script import call_parse
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map
from tqdm import tqdm

from fasterbench.costs import CostMode
from fasterbench.counting.traffic import covered_bytes
from benchmarks.shared.report import quiet, write_result
from scripts.evidence import part_text, table

dtypes = torch.float32, torch.complex64, torch.int64, torch.bool, torch.bfloat16
modes = {'no_grad':torch.no_grad, 'inference_mode':torch.inference_mode}
most_elements, first_samples = 10**6, 3   # of a sample and its result; of a variant, for each dtype
arbitrary = {'empty', 'empty_like', 'empty_permuted', 'empty_strided', 'new_empty', 'new_empty_strided', 'resize_', 'resize_as_'}   # values
reasons = {   # why an operation has no rule
    'aten.linalg_matrix_exp': 'the degree of its polynomial depends on the norm of the matrix',
}
def reason(op): return next((why for k,why in reasons.items() if k in op), 'no reason known')

# samples

def tensors(*xs): return [t for t in tree_leaves(xs) if isinstance(t, torch.Tensor)]
def elements(*xs): return sum(t._nnz() if t.layout is not torch.strided else t.numel() for t in tensors(*xs))

def short(x):
    "A value as a few words: a tensor by its dtype and shape"
    def one(o):
        if not isinstance(o, torch.Tensor): return o
        layout = '' if o.layout is torch.strided else ' ' + str(o.layout).removeprefix('torch.')
        return Words(f"{str(o.dtype).removeprefix('torch.')}{[*o.shape]}{layout}")
    return repr(tree_map(one, x))

class Words(str):
    def __repr__(self): return str(self)

def told(s):
    "The arguments of a sample, in short"
    words = ', '.join([short(s.input), *map(short, s.args), *(f'{k}={short(v)}' for k,v in s.kwargs.items())])
    return ' '.join(words.split())

# the ways an operation is called: functions of a sample

def function(op): return lambda s: op(s.input, *s.args, **s.kwargs)
def method(op): return op.method_variant and (lambda s: op.method_variant(s.input, *s.args, **s.kwargs))
def inplace(op): return op.inplace_variant and (lambda s: op.inplace_variant(s.input, *s.args, **s.kwargs))
def out(op): return op.supports_out and function(op)   # of a sample that `with_out` has given a place for the result

def with_out(op, s):
    "The sample, with a tensor for each that the operation gives; `None` where it gives none or fails"
    c = copied(s)
    try: res = run(function(op), c, 'no_grad')
    except Exception: return None
    s.kwargs = {**s.kwargs, 'out':tree_map(torch.empty_like, res)} if tensors(res) else None
    return s.kwargs and s

variants = dict(function=function, method=method, inplace=inplace, out=out)

# counting

class Listed(CostMode):
    "Also lists what it counts, and what is odd about it"
    def __init__(self):
        super().__init__()
        self.listed, self.odd = [], []
    def count(self, func, rule, args, kwargs, out):
        row = self.row(self.at)
        before = row.flops, row.bytes_moved
        super().count(func, rule, args, kwargs, out)
        flops, nbytes = row.flops-before[0], row.bytes_moved-before[1]
        self.listed.append((str(func), flops, nbytes))
        if not all(type(n) is int and n>=0 for n in (flops, nbytes)): self.odd.append((str(func), f'{flops!r} FLOPs, {nbytes!r} bytes'))
        lo, hi = limits(func, args, kwargs, out)
        if not lo<=nbytes<=hi: self.odd.append((str(func), f'{nbytes} bytes, of at least {lo} and at most {hi}'))

def limits(func, args, kwargs, out):
    "Bytes of what an operation creates, and of all that it is given, writes and gives back"
    named = dict(zip((a.name for a in func._schema.arguments), args)) | kwargs
    written = tensors([named.get(a.name) for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write])
    given, back = tensors(args, kwargs), tensors(out)
    homes = {home(t) for t in given}
    made = [t for t in back if home(t) not in homes]
    size = lambda ts: sum(covered_bytes(t) for t in {id(t):t for t in ts}.values())
    return size(made), size(given) + size(written) + size(made)

def home(t): return t.untyped_storage()._cdata if t.layout is torch.strided and not t.is_nested else id(t)

def place(e):
    "Where in this package an error comes from"
    own = Path(fasterbench.__file__).parent
    names = [f'{Path(f.filename).stem}.{f.name}' for f in traceback.extract_tb(e.__traceback__) if own in Path(f.filename).parents]
    return names[-1] if names else ''

def copied(s):
    "A copy of a sample, whose tensors share memory as they did; `deepcopy` does not know all sparse layouts"
    return copy.deepcopy(s, {id(t):t.clone() for t in tensors(s.input, s.args, s.kwargs) if t.layout is not torch.strided})

def run(call, s, mode, counting=None):
    "What the call gives of its sample, which it may write to"
    torch.default_generator.manual_seed(0)   # `torch.manual_seed` keeps a traceback of each call for a GPU to come
    with modes[mode]():
        if counting is None: return call(s)
        with counting: return call(s)

def same(a, b, values=True):
    "In what two results differ, if in anything"
    (xs, kind_a), (ys, kind_b) = tree_flatten(a), tree_flatten(b)
    if kind_a!=kind_b: return 'structure'
    for x,y in zip(xs, ys):
        if not isinstance(x, torch.Tensor):
            if values and x!=y and not (x!=x and y!=y): return 'values'
        elif x.shape!=y.shape: return 'shape'
        elif x.dtype!=y.dtype: return 'dtype'
        elif x.layout is not y.layout: return 'layout'
        elif values and not equal(x, y): return 'values'
        elif x.layout is torch.strided and not x.is_nested and x.numel() and x.stride()!=y.stride(): return 'strides'

def equal(x, y):
    try: torch.testing.assert_close(x, y, equal_nan=True, check_stride=False)
    except AssertionError: return False
    return True

class Record:
    "What happened to the samples of one operation, called in one way"
    def __init__(self, name, variant):
        self.name, self.variant, self.samples = name, variant, Counter()
        self.large = self.flops = self.bytes = 0
        self.failed, self.crashes, self.differs, self.odd, self.between = ({} for _ in range(5))   # what → [samples, about the first]
        self.unknown = Counter()   # operation → samples
    def note(self, where, what, *more): where.setdefault(what, [0, *more])[0] += 1
    def n(self, where): return sum(v[0] for v in where.values())
    def add(self, call, s, dtype):
        "Count one sample"
        copies = [copied(s) for _ in modes]
        try: plain = {m: run(call, c, m) for m,c in zip(modes, copies)}
        except Exception as e:
            self.note(self.failed, f'{type(e).__name__}: {" ".join(str(e).split())[:120]}')
            return
        if elements(plain)>2*most_elements:
            self.large += 1
            return
        self.samples[dtype] += 1
        counts, at = {}, f'{dtype}: {told(s)}'
        for m in modes:
            mode, c = Listed(), copied(s)
            try: res = run(call, c, m, mode)
            except Exception as e:
                self.note(self.crashes, f'{type(e).__name__}: {" ".join(str(e).split())[:160]}', m, place(e), at)
                continue
            counts[m] = mode
            how = same(plain[m], res, self.name.split('.')[0] not in arbitrary)
            if how=='values' and same(plain[m], run(call, copied(s), m)): how = ''   # not deterministic
            if how: self.note(self.differs, how, m, at)
            for o in mode.odd: self.note(self.odd, o, at)
        if len(counts)<len(modes): return
        sums = {m: (sum(o[1] for o in c.listed), sum(o[2] for o in c.listed)) for m,c in counts.items()}
        unknown = {m: sum((r.unknown for r in c.rows.values()), Counter()) for m,c in counts.items()}
        for op in set().union(*unknown.values()): self.unknown[op] += 1
        a, b = modes
        self.flops += sums[a][0]; self.bytes += sums[a][1]
        if sums[a]!=sums[b] or unknown[a]!=unknown[b]:
            self.note(self.between, 'modes', at, sums, {m:c.listed for m,c in counts.items()})

def records(op, most):
    "One record for each way to call an operation"
    res = []
    for name,variant in variants.items():
        if not (call := variant(op)): continue
        rec = Record(op.full_name, name)
        for dtype in dtypes:
            if dtype not in op.supported_dtypes('cpu'): continue
            for i,s in enumerate(op.sample_inputs('cpu', dtype)):
                if i>=(most if name=='function' else first_samples): break
                if elements(s.input, s.args, s.kwargs)>most_elements: rec.large += 1; continue
                if name=='out' and not with_out(op, s): continue
                rec.add(call, s, str(dtype).removeprefix('torch.'))
        res.append(rec)
    return res

# what is shown

def calls(listed): return ', '.join(f"{op.removeprefix('aten.')} {flops}/{nbytes}" for op,flops,nbytes in listed) or 'nothing'

def summary(recs):
    groups = {v: [r for r in recs if r.variant==v] for v in variants} | {'all':recs}
    def row(name, rs):
        ran = [r for r in rs if r.samples]
        return [name, len(ran), sum(r.samples.total() for r in rs), sum(r.n(r.failed) for r in rs), sum(r.large for r in rs),
                *(sum(r.n(getattr(r, k)) for r in rs) for k in ('crashes', 'differs', 'odd', 'between')), sum(bool(r.unknown) for r in rs)]
    return table([row(*o) for o in groups.items()], intfmt=',', headers=['called as', 'operations', 'samples\ncounted', 'of others: fail\nplainly', 'too\nlarge',
                    'crashes\nof the count', 'results that\ndiffer', 'odd\ncounts', 'modes that\ncount differently', 'operations with\nunknown parts'])

def section(title, rows, headers, widths): return title, table(rows, headers, maxcolwidths=widths, intfmt=',')

def tables(recs):
    yield summary(recs)
    unknown = defaultdict(Counter)
    for r in recs:
        for op,n in r.unknown.items(): unknown[op][r.name] += n
    yield from section('Operations without a rule', [(op, ', '.join(ns), ns.total(), reason(op)) for op,ns in sorted(unknown.items())],
                  ['operation', 'in', 'samples', 'why'], [50, 50, None, 50])
    yield from section('Crashes of the count: the first sample of each', [(r.name, r.variant, n, what, where, at) for r in recs
        for what,(n,_,where,at) in r.crashes.items()], ['operation', 'as', 'times', 'error', 'in', 'sample'], [30, None, None, 50, 25, 50])
    yield from section('Results that are not those of the plain run', [(r.name, r.variant, n, what, mode, at) for r in recs
        for what,(n,mode,at) in r.differs.items()], ['operation', 'as', 'times', 'in their', 'first in', 'sample'], [30, None, None, None, None, 60])
    odd = defaultdict(list)
    for r in recs:
        for (op,what),(n,at) in r.odd.items(): odd[op].append((n, what, f'{r.name}: {at}'))
    yield from section('Odd counts: no whole numbers, negative, fewer bytes than are created or more than are touched', [(op, sum(n for n,*_ in os), *os[0][1:])
        for op,os in sorted(odd.items())], ['operation', 'times', 'the first', 'sample'], [45, None, 45, 60])
    yield from section('Modes that count differently: the first sample, and what is counted in each as FLOPs/bytes', [(r.name, r.variant, n, at,
        *('\n'.join([f'{sums[m][0]:,} FLOPs, {sums[m][1]:,} bytes: {calls(lists[m])}']) for m in modes)) for r in recs
        for n,at,sums,lists in r.between.values()], ['operation', 'as', 'samples', 'first', *modes], [25, None, None, 30, 60, 60])
    failed = defaultdict(Counter)
    for r in recs:
        for what,(n,) in r.failed.items(): failed[what][f'{r.name} {r.variant}'] += n
    some = lambda ns: ', '.join([*ns][:6]) + (f' and {len(ns)-6} more' if len(ns)>6 else '')
    yield from section('Plain runs that fail, which is no matter of the count', [(what, ns.total(), some(ns))
        for what,ns in sorted(failed.items(), key=lambda o: -o[1].total())], ['error', 'samples', 'in'], [60, None, 80])

def facts(r):
    "A record's row"
    names = [str(d).removeprefix('torch.') for d in dtypes]
    return dict(operation=r.name, variant=r.variant, **{n: r.samples[n] for n in names}, fail_plainly=r.n(r.failed), too_large=r.large, flops=r.flops, bytes=r.bytes,
        unknown=' '.join(sorted(r.unknown)), crashes=r.n(r.crashes), results_differ=r.n(r.differs), odd_counts=r.n(r.odd), modes_differ=r.n(r.between))

@call_parse
def main(
    only:str='',   # part of the names of the operations
    samples:int=0, # of each operation and dtype at most; 0: all
):
    "Count every operation of torch's own database and list what has no rule"
    quiet()
    ops = [op for op in op_db if only in op.full_name]
    torch.set_num_threads(1)   # a few elements each: a second thread only waits
    recs = [r for op in tqdm(ops) for r in records(op, samples or 10**9)]
    parts = [*tables(recs)]
    total = dict(zip(('counted', 'samples', 'crashes', 'results_differ', 'odd_counts', 'modes_differ'), (parts[0]['rows'][-1][i] for i in (1, 2, 5, 6, 7, 8))))
    figures = dict(operations=len(ops), **total, without_a_rule=len({o for r in recs for o in r.unknown}))
    what = f"torch's database of {len(ops)} operations on the CPU, {', '.join(map(str, dtypes)).replace('torch.', '')}"
    if only or samples: print(*map(part_text, parts), sep='\n\n')
    else: write_result('opinfo', what, parts, figures=figures, rows=[*map(facts, recs)])
    if any(r.crashes or r.odd for r in recs): raise SystemExit(1)
