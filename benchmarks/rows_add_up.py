"""Do the rows add up to a forward or a training step, also beside other programs, and how much does watching slow it down?

- Forwards: `profile` itself makes plain ones between those with marks. Table: benchmarks/results/rows_add_up.txt.
- `--train`: training steps with marks and without, in turns. What a pair says is the ratio of the step with marks, without
  the time in which hooks are set, to the plain one. Table: benchmarks/results/training_steps.txt.
- `--beside 2`: ResNet-50 is profiled again and again while so many loops keep the processors busy: the rows' means over the
  middle half of the forwards are held against that half's mean, and the sum of the rows' medians against the median forward.
  Table: benchmarks/results/disturbed.txt.

`largest gap` and `off by` are the greatest relative difference of rows and the time outside of them to any one forward or
step: it is rounding. Prints the table and writes it, with the device and the versions.

    python -m benchmarks.rows_add_up [--train | --beside 2] [--rounds 5] [--only resnet18,resnet50]
"""
import os, subprocess, sys, time
from statistics import median

import torch
from fastcore.script import call_parse, store_true

from fasterbench.sources.observe import Observer
from fasterbench.machine.roof import HardwarePeaks
from fasterbench.session.program import training
from fasterbench.roofline import RooflineAnalyzer
from fasterbench.base.system import median_interval
from benchmarks.shared.models import classified, image, language
from benchmarks.shared.report import chosen, write_result
from benchmarks.shared.runs import in_turns
from scripts.evidence import table

peaks = HardwarePeaks(1e12, 1e11)

def gap(rows):
    "How far rows and the time outside of them are at most from a forward or a step, as a part of it"
    t = rows.totals
    return max(abs(sum(r.samples[i] for r in rows) + t.outside.samples[i] - s)/s for i,s in enumerate(t.forward.samples))

def write(name, what, lines, headers, figures, *packages, after=()):
    parts = [table(lines, headers, disable_numparse=True, stralign='right'), *after]
    write_result(name, what, parts, 'torchvision', *packages, figures=figures)

# forwards

profiled_models = 'resnet18 resnet50 vit_b_16 swin_t mobilenet_v3_small'.split()

def profiled(name, rounds):
    "Profiles, and how many plain forwards each took as long as"
    model, sample = image(name)
    for _ in range(rounds):
        start = time.perf_counter()
        r = RooflineAnalyzer(model, sample, peaks).profile(warmup=5, steps=20)
        yield r, (time.perf_counter()-start)/r.totals.plain.median_s

def forward_line(name, rounds):
    got = [*profiled(name, rounds)]
    t = [r.totals for r,_ in got]
    ms, pct = lambda f: f'{1e3*median(map(f, t)):.2f}', lambda f: f'{100*median(map(f, t)):.2f}'
    return [name, len(got[0][0]), t[0].module_calls, ms(lambda o: o.plain.median_s), ms(lambda o: o.forward.median_s), f'{median(o.overhead_pct for o in t):.1f}',
            f'{median(n for _,n in got):.1f}', pct(lambda o: (o.rows_s + o.remainder_s)/o.mean_s), f'{max(gap(r) for r,_ in got):.0e}']

def forwards(rounds, models):
    headers = ['model', 'rows', 'module\ncalls', 'plain\nms', 'with\nmarks ms', 'overhead\n%', 'profile, in\nplain forwards', 'rows +\nremainder %', 'largest gap in\nany one forward']
    what = f'batch 1, 224 pixels, eval and inference mode; medians of {rounds} profiles, each of 5 forwards to warm up, 20 with marks and 5 plain ones in between'
    write('rows_add_up', what, [forward_line(m, rounds) for m in models], headers, dict(models=len(models)))

# training steps

trained = dict(
    resnet18=lambda: classified('resnet18', 8, 128), mobilenet_v3_small=lambda: classified('mobilenet_v3_small', 8, 128),
    gpt2_4_layers=lambda: language('GPT2LMHeadModel', 2, vocab_size=8000, n_layer=4, n_embd=256, n_head=8),
    bert_4_layers=lambda: language('BertForMaskedLM', 2, vocab_size=8000, num_hidden_layers=4, hidden_size=256, num_attention_heads=8, intermediate_size=1024))

def pairs_of(model, sample, loss, optimizer, n):
    "Seconds of `n` steps with marks, each beside one without"
    with training(model, sample, loss, optimizer) as step:
        o = Observer(step.model, step, torch.device('cpu'))
        for _ in range(3): o.forward()
        def marked():
            with o.marks, o.backward(): return o.forward() - o.aside()
        took = in_turns(n, marked=marked, plain=o.forward)
    return [*zip(took['marked'], took['plain'])]

def step_line(name, n):
    model, sample, loss = trained[name]()
    optimizer = torch.optim.AdamW(model.train().parameters())
    pairs = pairs_of(model, sample, loss, optimizer, n)
    ratios = [a/b for a,b in pairs]
    low, high = median_interval(ratios)
    r = RooflineAnalyzer(model, sample, peaks).profile_step(loss, optimizer, warmup=2, steps=8)
    t = r.totals
    shares = {g.name: f'{100*g.time_s/t.mean_s:.0f}' for g in r.by('phase')}
    plain = median(b for _,b in pairs)
    return [name, len(r), t.module_calls, f'{1e3*plain:.1f}', f'{100*(median(ratios)-1):.1f}', f'{100*(low-1):.1f} … {100*(high-1):.1f}',
            ' / '.join(shares.get(k, '0') for k in ('forward', 'backward', 'optimizer')), f'{100*t.remainder_s/t.mean_s:.1f}', f'{gap(r):.0e}']

def training_steps(rounds, models):
    load = os.getloadavg()[0]
    headers = ['model', 'rows', 'calls', 'plain step,\nms', 'marks add,\n%', '95 %\ninterval', 'forward / backward /\noptimizer, %', 'outside,\n%', 'rows + outside\nsay, off by']
    lines = [step_line(m, rounds) for m in models]
    what = f'AdamW; {rounds} pairs of a step with marks and one without; load average before and after: {load:.1f}, {os.getloadavg()[0]:.1f}'
    write('training_steps', what, lines, headers, dict(models=len(models), pairs=rounds), 'transformers')

# beside other programs

def parts(analyzer, steps):
    "Of one profile: the mean forward, rows and remainder of it, and what medians would give"
    rows = analyzer.profile(warmup=1, steps=steps)
    t = rows.totals
    medians = sum(r.timing.median_s for r in rows)
    return t.mean_s, (t.rows_s + t.remainder_s)/t.mean_s, t.rows_s/t.mean_s, t.forward.median_s, medians/t.forward.median_s

def disturbed(loops, rounds, steps=12):
    torch.manual_seed(0)
    analyzer = RooflineAnalyzer(*image('resnet50'), peaks)
    busy = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(loops)]
    try: got = [parts(analyzer, steps) for _ in range(rounds)]
    finally:
        for o in busy: o.kill()
    lines = [[i, f'{1e3*mean:.1f}', f'{100*whole:.3f}', f'{100*part:.1f}', f'{1e3*mid:.1f}', f'{100*medians:.1f}'] for i,(mean,whole,part,mid,medians) in enumerate(got)]
    headers = ['', 'forward, ms', 'rows + outside, %', 'rows, %', 'median forward, ms', "rows' medians, % of it"]
    most, off = max(abs(o[1]-1) for o in got), [abs(o[4]-1) for o in got]
    said = f"largest gap of rows + outside: {100*most:.4f} %; of the rows' medians: {100*max(off):.0f} %, median {100*median(off):.0f} %"
    shares = [o[4] for o in got]
    figures = dict(profiles=rounds, loops=loops, gap_pct=100*most, medians_least=min(shares), medians_most=max(shares))
    what = f'ResNet-50, batch 1, beside {loops} busy loops: {rounds} profiles of {steps} forwards each'
    write('disturbed', what, lines, headers, figures, after=[said])

@call_parse
def main(
    rounds:int=0, # profiles of each model (default: 5, beside loops 20), or pairs of steps (default: 30)
    only:str='', # models, with commas; all of them by default
    train:store_true=False, # training steps
    beside:int=0, # busy loops, beside which ResNet-50 is profiled
):
    "Measure how the rows add up and what watching costs"
    if beside: return disturbed(beside, rounds or 20)
    if train: return training_steps(rounds or 30, chosen(trained, only))
    forwards(rounds or 5, chosen(profiled_models, only))
