"""Do the counts agree with the numbers that torchvision publishes, and do other tools' counts?

torchvision gives, with its weights, the multiply-adds of a forward: `weights.meta['_ops']`, in GMAC, rounded to three
decimals. Each published value is held against `count_costs(model, sample).matmul_flops/2` on a forward on the CPU and on
one on the meta device, and against five other counters on the same model and input, in evaluation and inference mode.

The model is built by torchvision for these very weights, without their values: so it has the arguments that they imply
(an auxiliary classifier, a size of image). The input is what torchvision's own test of these values takes, a noise image
of 512 × 512 (16 of them for a video) through the transforms that belong to the weights; a detector gets the size that it
resizes images to. How much a two-stage detector does depends on how many regions it proposes, and so on its weights:
`implied` is how many proposals and detections the published value amounts to, and `at implied` the count with so many.

A counter that fails is shown by the name of its exception. Each count is made in a process of its own. The table goes to
benchmarks/results/published_counts.txt and .json. The exit code is 1 if a published value is not the count on the CPU, nor that
of a detector with as many regions as it amounts to, or if a count on the meta device is another one.

    python -m benchmarks.checks.published_counts [--only resnet18,swin_t] [--peers 0] [--resume 1]
"""
import re
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from queue import SimpleQueue
from unittest.mock import patch

import calflops, fvcore.nn, ptflops, torch, torchinfo
from fastcore.script import call_parse
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from torchvision import models
from torchvision.models import WeightsEnum

from fasterbench.base.core import to_device
from fasterbench.costs import count_costs
from benchmarks.shared.report import chosen, quiet, write_result
from benchmarks.shared.runs import apart
from scripts.evidence import names, part_text, result, table

tolerance = 0.0005e9 + 1 # MAC: published values have three decimals
torch.set_num_threads(1)   # here; a process that counts sets its own

def published():
    "A row for each model and each value published for it; of weights with the same value, the default ones"
    for name in models.list_models():
        builder, seen = models.get_model_builder(name), set()
        enum = models.get_model_weights(name)
        if '.quantization.' in builder.__module__ or not len(enum): continue
        for w in [enum.DEFAULT, *enum]:
            ops = w.meta.get('_ops')
            if ops and ops not in seen: yield dict(model=name, weights=w.name, task=task(builder), published=ops)
            seen.add(ops)

def task(builder): return next((t for t in ('segmentation', 'detection', 'video', 'optical_flow') if f'.{t}.' in builder.__module__), 'classification')

@contextmanager
def no_values():
    "torchvision loads no weights, and does all else that it does for them"
    with patch.object(WeightsEnum, 'get_state_dict', lambda *args, **kwargs: {}), patch.object(nn.Module, 'load_state_dict', lambda *args, **kwargs: None): yield

def build(row, **kwargs):
    weights = models.get_model_weights(row['model'])[row['weights']]
    torch.manual_seed(0)
    with no_values(): return models.get_model(row['model'], weights=weights, **kwargs).eval()

def sample_for(row, model):
    "The positional arguments that torchvision's test counts with"
    prepare, side = models.get_model_weights(row['model'])[row['weights']].transforms(), 512
    if row['task']=='detection':
        side = model.transform.fixed_size[0] if model.transform.fixed_size else model.transform.min_size[-1]
        return ([prepare(torch.rand(3, side, side))],)
    if row['task']=='optical_flow': return tuple(prepare(*[torch.rand(1, 3, side, side)]*2))
    return (prepare(torch.rand(*((1, 16) if row['task']=='video' else (1,)), 3, side, side)),)

def shape(sample):
    first = sample[0][0] if isinstance(sample[0], list) else sample[0]
    return '×'.join(map(str, first.shape))

# The counters: each returns multiply-adds of one forward

def by_fasterbench(model, sample): return count_costs(model, sample).matmul_flops/2

def by_flopcounter(model, sample):
    with FlopCounterMode(display=False) as mode: model(*sample)
    return mode.get_total_flops()/2

def by_fvcore(model, sample):
    return fvcore.nn.FlopCountAnalysis(model, sample).unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings('none').total()

def by_torchinfo(model, sample):
    try: return torchinfo.summary(model, input_data=list(sample), verbose=0, device='cpu').total_mult_adds
    except RuntimeError as e: raise e.__cause__ or e

def by_ptflops(model, sample):
    names = ['image1', 'image2'] if len(sample)==2 else None
    given = lambda _: dict(zip(names, sample)) if names else sample[0]
    said = StringIO()
    with redirect_stdout(said): macs,_ = ptflops.get_model_complexity_info(model, (1,), as_strings=False, print_per_layer_stat=False, verbose=False, input_constructor=given)
    if macs is None: raise type(re.search(r"<class '(?:.*\.)?(\w+)'>", said.getvalue())[1], (Exception,), {})
    return macs

class _Held(list):
    "calflops moves each argument to the model's device; a list of images is there already"
    def to(self, device): return self

def by_calflops(model, sample):
    args = [_Held(a) if isinstance(a, list) else a for a in sample]
    return calflops.calculate_flops(model, args=args, print_results=False, output_as_string=False)[1]

others = dict(FlopCounterMode=by_flopcounter, fvcore=by_fvcore, torchinfo=by_torchinfo, ptflops=by_ptflops, calflops=by_calflops)

def on_meta(model, sample):
    with torch.device('meta'): return by_fasterbench(model.to('meta'), to_device(sample, torch.device('meta')))

# Two-stage detectors

def at_most(row, proposals, detections):
    "The detector with so many proposals and detections, whatever their scores and overlap"
    return build(row, rpn_post_nms_top_n_test=proposals, rpn_score_thresh=0., rpn_nms_thresh=1., box_detections_per_img=detections, box_score_thresh=0., box_nms_thresh=1.)

def by_part(model, sample):
    "Multiply-adds outside of the heads, in the box head and in the other head, and how many regions went into each head"
    noted = SimpleQueue()   # a dict would be put back
    def note(name): return lambda module, args: noted.put((name, len(args[0])))
    heads = {n:m for n,m in model.roi_heads.named_children() if n in ('box_head', 'mask_head', 'keypoint_head')}
    hooks = [m.register_forward_pre_hook(note(n)) for n,m in heads.items()]
    costs = count_costs(model, sample)
    for h in hooks: h.remove()
    regions = dict(noted.get() for _ in range(noted.qsize()))
    macs = lambda part: sum(c.matmul_flops for n,c in costs.by_module.items() if part(n))//2
    return dict(outside=macs(lambda n: not n.startswith('roi_heads')), box=macs(lambda n: n.startswith('roi_heads.box')),
                other=macs(lambda n: n.startswith(('roi_heads.mask', 'roi_heads.keypoint'))),
                proposals=regions['box_head'], detections=max((v for k,v in regions.items() if k!='box_head'), default=0))

def implied(row, sample):
    "Proposals and detections that the published value amounts to, or `None`"
    part = by_part(at_most(row, 10, 1), sample)
    a_proposal, a_detection = part['box']/part['proposals'], part['other']/max(part['detections'], 1)
    for detections in range(101):
        left = row['published']*1e9 - part['outside'] - detections*a_detection
        proposals = round(left/a_proposal)
        if 0<=proposals<=1000 and abs(left - proposals*a_proposal)<=tolerance: return proposals, detections
        if left<0: return None

def two_stage(row, model, sample):
    "What a two-stage detector's row has besides"
    here, there = by_part(model, sample), implied(row, sample)
    res = dict(proposals=here['proposals'], detections=here['detections'], outside_heads=here['outside']/1e9)
    if there: res.update(implied_proposals=there[0], implied_detections=there[1], at_implied=by_fasterbench(at_most(row, *there), sample)/1e9)
    return res

# The table

fields = ['model', 'weights', 'task', 'input', 'published', 'fasterbench', 'meta', *others,
          'proposals', 'detections', 'outside_heads', 'implied_proposals', 'implied_detections', 'at_implied']

def gmac(x): return x/1e9 if isinstance(x, (int, float)) else x
def close(row, name): return isinstance(row.get(name), float) and abs(row[name]-row['published'])*1e9<=tolerance + row['published']*1e7   # 1 %
def equal(row, name): return isinstance(row.get(name), float) and abs(row[name]-row['published'])*1e9<=tolerance

def count_ours(row, threads):
    model = build(row)
    sample = sample_for(row, model)
    row.update(input=shape(sample), fasterbench=gmac(apart(by_fasterbench, model, sample, threads=threads)), meta=gmac(apart(on_meta, model, sample, threads=threads)))
    if not hasattr(model, 'roi_heads'): return
    more = apart(two_stage, row, model, sample, threads=threads)
    if isinstance(more, str): raise RuntimeError(f"{row['model']}: the parts of the detector were not counted: {more}")
    row.update(more)

def count_peers(row, threads, after):
    model = build(row)
    sample = sample_for(row, model)
    for name,count in others.items():
        if name in row: continue
        row[name] = gmac(apart(count, model, sample, threads=threads))
        after()

def kept():
    "The rows of the last run, without what was not counted"
    rows = result('published_counts').rows if 'published_counts' in names() else []
    return [{k: v for k,v in r.items() if v is not None} for r in rows]

def cell(row, name):
    v = row.get(name, '')
    return f'{v:.3f}' + ('' if name=='published' or equal(row, name) else ' *') if isinstance(v, float) else str(v)

def cause(row):
    "Why the count on the CPU is not the published one, as far as it was measured"
    text = f"{row['model']} ({row['weights']}): {row['fasterbench']:.3f}, published {row['published']:.3f}. "
    if 'proposals' not in row: return text + 'Cause not measured'
    regions = lambda p, d: f'{p} proposals' + (f" and {d} detection{'s'*(d!=1)}" if 'mask' in row['model'] or 'keypoint' in row['model'] else '')
    text += f"{row['outside_heads']:.3f} outside of the heads, which random weights give {regions(row['proposals'], row['detections'])}. "
    if 'at_implied' not in row: return text + 'No whole number of proposals gives the published value'
    return text + f"The published value is that of {regions(row['implied_proposals'], row['implied_detections'])}: counted with so many, {row['at_implied']:.3f}" + (', equal' if equal(row, 'at_implied') else '')

def numbers(rows):
    "Figures: how many values there are, and how often each counter has them"
    by = {k: [r for r in rows if k in r] for k in ('fasterbench', 'meta', *others)}
    by = {k: done for k,done in by.items() if done}
    return dict(values=len(rows), models=len({r['model'] for r in rows}), run={k: len(done) for k,done in by.items()},
        equal={k: sum(equal(r, k) for r in done) for k,done in by.items()}, within_1_pct={k: sum(close(r, k) for r in done) for k,done in by.items()},
        no_count={k: sum(not isinstance(r[k], float) for r in done) for k,done in by.items()})

def summary(rows):
    n = numbers(rows)
    lines = [f"{n['values']} published values of {n['models']} models"]
    lines += [f"{k:16} equal in {n['equal'][k]:3} of {n['run'][k]}, within 1 % in {n['within_1_pct'][k]:3}, no count in {n['no_count'][k]}" for k in n['run']]
    two = [r for r in rows if 'proposals' in r]
    if two: lines.append(f"two-stage detectors, with the proposals and detections that the published value amounts to: equal in {sum(equal(r, 'at_implied') for r in two)} of {len(two)}")
    return lines

def right(row):
    "Is the published value counted, on the CPU (of a two-stage detector, with as many regions as it amounts to) and on the meta device?"
    return (equal(row, 'fasterbench') or equal(row, 'at_implied')) and (not isinstance(row['meta'], float) or equal(row, 'meta'))

def report(rows):
    "How it was counted; the table, a line for each counter, and the causes of differences"
    heads = ['model', 'weights', 'input', 'published', 'fasterbench', 'meta', *(p for p in others if any(p in r for r in rows))]
    counts = table([[cell(r, n) for n in heads] for r in rows], heads, disable_numparse=True, colalign=['left']*3 + ['right']*(len(heads)-3))
    left = [r['published'] for r in rows if any(n not in r for n in heads)]
    some = f"; the other tools counted forwards below {min(left):g} GMAC" if left else ''
    odd = [cause(r) for r in rows if not equal(r, 'fasterbench')]
    what = f'batch 1, random weights, eval and inference mode; GMAC; *: not equal to the published value within its rounding; a name: the exception instead of a count{some}'
    return what, [counts, '\n'.join(summary(rows)), *['\n'.join(['Not equal on the CPU:', *odd])]*bool(odd)]

def write(rows, what, parts, threads, figures=None, shown=False):
    "Write the result; of a run that is not over the rows alone"
    write_result('published_counts', what, parts, 'torchvision', 'fvcore', 'torchinfo', 'ptflops', 'calflops', threads=threads, figures=figures,
        rows=[{k: r.get(k) for k in fields} for r in rows], shown=shown)

@call_parse
def main(
    only:str='', # models, with commas; all of them by default; then nothing is written
    peers:float=10000, # the other tools count forwards of up to so many GMAC; 0: none
    resume:int=0, # keep what the last run counted, and count what is missing?
    threads:int=2, # of the arithmetic
):
    "Hold counts against torchvision's published ones"
    quiet()
    old, rows = {(r['model'], r['weights']):r for r in (kept() if resume else [])}, [*published()]
    todo = chosen(dict.fromkeys(r['model'] for r in rows), only)
    rows = [old.get((r['model'], r['weights']), r) for r in rows if r['model'] in todo]
    def keep():
        if not only: write(rows, 'of a run that is not over', ['not all is counted'], threads)
    ordered = sorted(rows, key=lambda r: r['published'])   # so that a run that is stopped has most of the table
    for r in ordered:
        if 'fasterbench' not in r: count_ours(r, threads); keep()
    for r in ordered:
        if r['published']<=peers and any(n not in r for n in others): count_peers(r, threads, keep)
    what, parts = report(rows)
    if only: print(*map(part_text, parts), sep='\n\n')
    else: write(rows, what, parts, threads, figures=numbers(rows), shown=True)
    if not all(map(right, rows)): raise SystemExit(1)
