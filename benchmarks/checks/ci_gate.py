"""Does the example workflow's command refuse what is 1.3 times slower, and never what did not change, beside a busy loop?

The command is read from nbs/data/compare_pull_request.yml, and runs in a process of its own for each of the runs, for a small
net that did not change and for one with 13 blocks where there were 10: 1.3 times the work, done. FLOPs are no reason for a refusal
here (`--fail-flops 0` is left out).
Another process loops meanwhile. A busy machine makes runs inconclusive; a refusal of what did not change is the fault. Writes how
many runs passed, were refused and stayed open to benchmarks/results/ci_gate.json, and ends with 1 where an unchanged pair was
refused or a slower one passed.

    python -m benchmarks.checks.ci_gate [--runs 20] [--busy 1]
"""
import re, shlex, subprocess, sys, tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from fastcore.script import call_parse

from fasterbench import Comparison
from fasterbench.records.gate import statuses
from benchmarks.shared.report import top, write_result
from benchmarks.shared.runs import in_turns
from scripts.evidence import table

workflow = top/'nbs'/'data'/'compare_pull_request.yml'
net = """import torch
from torch import nn
def block(): return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
def build(): return nn.Sequential(*(block() for _ in range({blocks}))), torch.rand(64, 256)
"""

def example()->list: # words
    "The command of the example workflow, without the limit of FLOPs and what it writes"
    text = workflow.read_text(encoding='utf-8').replace('\\\n', ' ')
    line = re.search(r'fasterbench (roofline .*?) \|\|', text)[1]
    return shlex.split(re.sub(r'--fail-flops \S+|--out \S+', '', line))

def folder_of(blocks, where):
    "A folder with a base and a head, whose net has so many blocks"
    for side,n in (('base', 10), ('head', blocks)):
        Path(where, side).mkdir()
        Path(where, side, 'bench.py').write_text(net.format(blocks=n))

def one(where):
    "The exit status of the command, the ratio, and where it lies"
    words = [sys.executable, '-W', 'ignore', '-m', 'fasterbench', *example(), '--out', 'c.json']
    run = subprocess.run(words, cwd=where, capture_output=True, text=True)
    if run.returncode not in statuses.values(): raise RuntimeError(f'the command ended with {run.returncode}: {run.stderr[-2000:]}')
    c = Comparison.load(Path(where, 'c.json'))
    others = c.b.totals.disturbance
    return dict(status=run.returncode, ratio=c.ratio, said=run.stdout.partition('time   ')[2].partition('\n')[0].strip(),
        ms=1e3*c.a.totals.mean_s, others=others and others.others)

def told(name, runs):
    decided = {code: word for word,code in statuses.items()}
    n = Counter(decided[o['status']] for o in runs)
    ratios = sorted(o['ratio'] for o in runs)
    return [name, len(runs), *(n[k] for k in ('passed', 'worse', 'inconclusive')), ratios[0], ratios[len(ratios)//2], ratios[-1]]

@call_parse
def main(
    runs:int=20, # of each pair
    busy:int=1, # processes that loop meanwhile
):
    "Count what the example workflow's command passes, refuses and leaves open"
    with ExitStack() as stack:
        places = {k: stack.enter_context(tempfile.TemporaryDirectory()) for k in ('unchanged', '1.3 times the work')}
        for (name,where),blocks in zip(places.items(), (10, 13)): folder_of(blocks, where)
        for _ in range(busy): stack.callback(subprocess.Popen([sys.executable, '-c', 'while True: pass']).kill)
        got = in_turns(runs, **{name: lambda where=where: one(where) for name,where in places.items()})
    lines = [told(name, found) for name,found in got.items()]
    headers = ['head', 'runs', 'passed', 'refused', 'inconclusive', 'least ratio', 'median', 'largest']
    figures = {name: dict(zip(('passed', 'refused', 'inconclusive'), line[2:5])) for name,line in zip(('unchanged', 'slower'), lines)}
    what = f"{shlex.join(['fasterbench', *example()])}; a limit of 10 %, {busy} busy loop{'s'*(busy!=1)} beside"
    rows = [dict(head=name, **o) for name,found in got.items() for o in found]
    write_result('ci_gate', what, table(lines, headers, floatfmt='.2f'), threads=1, figures=figures, rows=rows)
    sys.exit(bool(figures['unchanged']['refused'] or figures['slower']['passed']))
