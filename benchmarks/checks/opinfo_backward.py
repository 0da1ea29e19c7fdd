"""Which operations of a backward pass have no rule?

Differentiates every sample of torch's own database of operations (OpInfo) that can be, on the CPU: first plainly, then
with forward and backward counted by `CostMode`. Held against the plain run: that the counted one works and gives the
same gradients, that counts are whole numbers and not negative, and that each operation moves no fewer bytes than what
it creates and no more than it is given and gives back. Prints the tables and writes them, with the device and the
versions, to benchmarks/results/opinfo_backward.txt.

    python -m benchmarks.checks.opinfo_backward [--only conv] [--samples 10]
"""
from collections import Counter

import torch
from fastcore.script import call_parse
from torch.testing._internal.common_methods_invocations import op_db
from tqdm import tqdm

from benchmarks.checks.opinfo import Listed, elements, most_elements, place, reason, same, section, tensors, told
from benchmarks.shared.report import quiet, write_result
from scripts.evidence import part_text, table

dtypes = torch.float32, torch.complex64

def gradients(op, s):
    "The gradients of a sample's inputs, where every output has gradients of one"
    torch.default_generator.manual_seed(0)
    out = op(s.input, *s.args, **s.kwargs)
    outs = [o for o in tensors(s.output_process_fn_grad(out)) if o.requires_grad]
    ins = [t for t in tensors(s.input, s.args, s.kwargs) if t.requires_grad]
    if not outs or not ins: return None
    return torch.autograd.grad(outs, ins, [torch.ones_like(o) for o in outs], allow_unused=True)

class Record:
    "What happened to the samples of one operation"
    def __init__(self, name):
        self.name, self.samples, self.large, self.none = name, 0, 0, 0
        self.failed, self.crashes, self.differs, self.odd = ({} for _ in range(4))   # what → [samples, the first]
        self.unknown, self.counted = Counter(), Counter()   # operation → samples, calls
    def note(self, where, what, first): where.setdefault(what, [0, first])[0] += 1
    def add(self, op, s):
        "Count one sample"
        try: plain = gradients(op, s)
        except Exception as e: return self.note(self.failed, f'{type(e).__name__}: {e}'.split('\n')[0][:120], told(s))
        if plain is None: self.none += 1; return
        self.samples += 1
        counting = Listed()
        try:
            with counting: res = gradients(op, s)
        except Exception as e: return self.note(self.crashes, f'{type(e).__name__}: {e} in {place(e)}'.split('\n')[0], told(s))
        if what := same(plain, res, 'empty' not in self.name): self.note(self.differs, what, told(s))
        for o in counting.odd: self.note(self.odd, o[0], f'{o[1]}: {told(s)}')
        self.unknown.update({k for c in counting.rows.values() for k in c.unknown})
        self.counted.update(o[0] for o in counting.listed)

def records(op, most):
    rec = Record(op.full_name)
    for dtype in dtypes:
        if dtype not in op.supported_backward_dtypes('cpu'): continue
        for i,s in enumerate(op.sample_inputs('cpu', dtype, requires_grad=True)):
            if i>=most: break
            if elements(s.input, s.args, s.kwargs)>most_elements: rec.large += 1
            else: rec.add(op, s)
    return rec

def tables(recs):
    unknown = Counter()
    for r in recs: unknown.update(r.unknown)
    where = lambda k: ' '.join(r.name for r in recs if k in r.unknown)
    totals = len([r for r in recs if r.samples]), sum(r.samples for r in recs), sum(n for r in recs for n,_ in r.failed.values()), \
        sum(r.large for r in recs), *(sum(n for r in recs for n,_ in getattr(r, k).values()) for k in ('crashes', 'differs', 'odd')), len(unknown)
    yield table([totals], ['operations', 'samples counted', 'of others: fail plainly', 'too large', 'crashes of the count',
        'gradients that differ', 'odd counts', 'operations without a rule'], intfmt=',', maxheadercolwidths=12)
    yield from section('Operations without a rule', [(k, where(k), n, reason(k)) for k,n in unknown.items()], ['operation', 'in', 'samples', 'why'], [None, 40, None, 48])
    for title,name in [('Crashes of the count: the first sample of each', 'crashes'), ('Gradients that are not those of the plain run', 'differs'),
                       ('Odd counts: no whole numbers, negative, fewer bytes than are created or more than are touched', 'odd'),
                       ('Plain runs that fail, which is no matter of the count', 'failed')]:
        found = [(r.name, what, n, first) for r in recs for what,(n,first) in getattr(r, name).items()]
        yield from section(title, found, ['operation', 'what', 'samples', 'first'], [30, 50, None, 60])
    counted = sum((r.counted for r in recs), Counter())
    names = sorted(k for k in counted if 'backward' in k)
    yield 'Operations for gradients that were counted'
    yield table([[' '.join(names)]], tablefmt='plain', maxcolwidths=120)

@call_parse
def main(
    only:str='',   # part of the names of the operations
    samples:int=0, # of each operation and dtype at most; 0: all
):
    "Count the gradients of every operation of torch's own database and list what has no rule"
    quiet()
    ops = [op for op in op_db if only in op.full_name and op.supports_autograd]
    torch.set_num_threads(1)   # a few elements each: a second thread only waits
    recs = [records(op, samples or 10**9) for op in tqdm(ops)]
    parts = [*tables(recs)]
    total = dict(zip(('counted', 'samples', 'crashes', 'gradients_differ', 'odd_counts', 'without_a_rule'), (parts[0]['rows'][0][i] for i in (0, 1, 4, 5, 6, 7))))
    what = f"gradients of torch's database of {len(ops)} operations on the CPU, {', '.join(map(str, dtypes)).replace('torch.', '')}"
    if only or samples: print(*map(part_text, parts), sep='\n\n')
    else: write_result('opinfo_backward', what, parts, figures=dict(operations=len(ops), **total))
    if any(r.crashes or r.odd for r in recs): raise SystemExit(1)
