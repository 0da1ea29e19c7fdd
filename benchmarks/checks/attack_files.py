"""Files that were damaged, or made to do harm: refused with the place, or every view of what was loaded works

Values and keys of saved results, sweeps, comparisons and peaks are replaced by odd ones. What is loaded then is shown in
every way there is, saved and loaded again. In figures and pages names are text, and in CSV nothing is a formula. Files
that would run code when they are unpickled, and a config that names code of its own, leave no mark.

    python -m benchmarks.checks.attack --only files,code
"""
import contextlib, copy, csv, io, json, pickle, random, re, tempfile, warnings
from functools import cache
from pathlib import Path

import torch
from torch import nn

from fasterbench.commands.models import load_model
from fasterbench.machine.roof import HardwarePeaks
from fasterbench.ncu import read_ncu
from fasterbench.operations import roofline_analysis
from fasterbench.records.compare import Comparison
from fasterbench.records.swept import Sweep
from fasterbench.results import Roofline
from fasterbench.roofline import RooflineAnalyzer, sweep_batch
from fasterbench.sources.traces import load_trace
from benchmarks.checks.attack_cases import peaks

kinds = dict(result=Roofline, step=Roofline, sweep=Sweep, comparison=Comparison, peaks=HardwarePeaks)
link = '<a href="//example">x</a>'
odd = [None, True, False, 0, 1, -1, 2.5, -0., 1e308, 1e-320, float('nan'), float('inf'), 10**30, -10**30, '', 'x', '=cmd()',
    link, 'cpu', 'float32', 'a'*5000, '\x00', '\ud800', [], {}, [1], [None], {'a': 1}]
damages = 10 # in one attack

@cache
def records()->dict: # kind → what a file of it holds
    "A file of each kind, of a model with two layers"
    net, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.randn(4, 8)
    def profiled(): return RooflineAnalyzer(net, x, peaks).profile(warmup=1, steps=2)
    step = RooflineAnalyzer(net, x, peaks).profile_step(loss=torch.sum, optimizer=torch.optim.SGD(net.parameters(), 0.1),
        warmup=1, steps=2)
    made = dict(result=profiled(), step=step, sweep=sweep_batch(net, x, [1, 2, 4], peaks=peaks, warmup=1, steps=2),
        comparison=profiled().compare(profiled()), peaks=peaks)
    with tempfile.TemporaryDirectory() as folder:
        return {k: json.loads(o.save(Path(folder)/'made.json').read_text()) for k,o in made.items()}

def places(o, at=()):
    "Every value and key: (the way there, is it the key?)"
    for k,v in o.items() if isinstance(o, dict) else enumerate(o) if isinstance(o, list) else ():
        if isinstance(o, dict): yield (*at, k), True
        if isinstance(v, (dict, list)): yield from places(v, (*at, k))
        else: yield (*at, k), False

def damaged(record, way, key, new):
    "The record with another value, or another key, at one place"
    res = inner = copy.deepcopy(record)
    for k in way[:-1]: inner = inner[k]
    if key: inner[str(new)] = inner.pop(way[-1])
    else: inner[way[-1]] = new
    return res

def harmless(text, what):
    "An error if a browser or plotly would find a link in it"
    text = re.sub(r'"legendgroup":"[^"]*"', '', text.replace('\\u003c', '<').replace('\\u003e', '>'))   # which is not shown
    if '<a href="//' in text.replace('\\"', '"'): raise AssertionError(f'a link in {what}')

def show(o, folder):
    "Every view of an object"
    for name in 'summary answer table to_markdown to_csv to_frame __repr__ __str__'.split():
        view = getattr(o, name, None)
        made = view() if callable(view) else view
        if name!='to_csv': continue
        formulas = [c for line in csv.reader(io.StringIO(made)) for c in line if c[:1] in tuple('=+@')]
        if formulas: raise AssertionError(f'a formula in CSV: {formulas[0]:.40}')
    if hasattr(o, '_repr_html_'): harmless(o._repr_html_(), 'HTML')
    harmless(o.plot().to_json(), 'a figure')
    for end in {'.html', '.csv', '.md'} & {*o.formats}: o.save(folder/f'view{end}')
    if '.html' in o.formats:   # whose script looks rows up by their names, and shows none of them
        page = (folder/'view.html').read_text().partition('<body')[2]
        harmless(re.sub(r'const names = .*', '', page), 'a page')
    if isinstance(o, Roofline): o.by('type').table(), o.tree(), o.under(peaks), o.compare(o)
    type(o).load(o.save(folder/'again.json'))

def outcome(kind, way, key, new, folder)->str|None: # what went wrong
    "What comes of one damage"
    file, text = folder/'damaged.json', json.dumps(damaged(records()[kind], way, key, new))
    file.write_text(text)
    try: o = kinds[kind].load(file)
    except ValueError as e:
        if file.name not in str(e): return f'the error does not name the file: {e}'
        named = *way, *(['ridge_point'] if way[-1] in ('peak_flops', 'peak_bandwidth') else [])   # which is their quotient
        if key or any(isinstance(k, str) and k in str(e) for k in named): return None
        return f'the error does not name the place: {e}'
    except Exception as e: return f'loading: {type(e).__name__}: {e}'
    try: show(o, folder)
    except Exception as e: return f'a view: {type(e).__name__}: {e}'

def file_attempt(item):
    "Some damages to a file of one kind, drawn by a seed"
    kind, seed = item
    rng, found = random.Random(f'{kind} {seed}'), []
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter('ignore')
        for _ in range(damages):
            (way, key), new = rng.choice([*places(records()[kind])]), rng.choice(odd)
            said = outcome(kind, way, key, new, Path(folder))
            if said: found.append(f'{way}, {"the key" if key else "the value"} {new!r:.40}: {said:.300}')
    return found

def file_items(): return [(kind, seed) for kind in kinds for seed in range(100)]

# --- files that would run code ---
class Mark:
    "What leaves a file behind when it is unpickled"
    def __init__(self, path): self.path = path
    def __reduce__(self): return Path.touch, (self.path,)

def config(folder, mark):
    "A config that names code of its own beside it"
    (folder/'code.py').write_text(f'from pathlib import Path; Path({str(mark)!r}).touch()')
    text = json.dumps(dict(model_type='bert', architectures=['BertModel'], hidden_size=32, num_hidden_layers=1, vocab_size=100,
        num_attention_heads=2, intermediate_size=64, auto_map=dict(AutoModel='code.Own', AutoConfig='code.Own')))
    (folder/'config.json').write_text(text)
    return load_model(str(folder/'config.json'))

def pickled(load, name='file.json'):
    def attempt(folder, mark):
        (folder/name).write_bytes(pickle.dumps(Mark(mark)))
        return load(folder/name)
    return attempt

def listed(path): return roofline_analysis(path, 1e12, 1e11)

readers = {k: pickled(cls.load) for k,cls in kinds.items()} | dict(config=config, trace=pickled(load_trace),
    packed=pickled(load_trace, 'file.json.gz'), ncu=pickled(read_ncu, 'file.csv'), operations=pickled(listed, 'file.csv'))

def code_attempt(item):
    "A file is read that would leave a mark if code of it ran"
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder)/'mark'
        try: readers[item[0]](Path(folder), mark)
        except ValueError: pass
        return ['code of the file ran']*mark.exists()

def code_items(): return [(kind, 0) for kind in readers]
