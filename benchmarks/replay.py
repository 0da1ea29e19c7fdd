"""Does a change of structure change a number?

Models are profiled with a clock whose readings are drawn from a seed, so that a profile replays the same times wherever it
runs; estimates, projections and kernels of Nsight Compute need no clock. All facts of all rows go to a file. Two such
files, of two revisions, are compared field by field; several pairs of them make the table of benchmarks/results/replay.txt.

    python benchmarks/replay.py facts before.json          (in a checkout of the one revision)
    python benchmarks/replay.py facts after.json           (in a checkout of the other)
    python benchmarks/replay.py compare before.json after.json [before.json after.json …]
"""
import argparse, json, random, warnings
from dataclasses import asdict, is_dataclass
from pathlib import Path
from unittest.mock import patch

import torch
from tabulate import tabulate
from torch import nn

from fasterbench.sources import observe
from fasterbench.base import system
from fasterbench.results import project
from fasterbench.roofline import HardwarePeaks, RooflineAnalyzer

levels = [('L2', 2**20, 4e11), ('DRAM', 2**34, 1e11)]
peaks = HardwarePeaks(1e12, 1e11, compute_peaks=dict(float32=1e12, bfloat16=4e12), memory_levels=levels)
faster = HardwarePeaks(4e12, 3e11, compute_peaks=dict(float32=4e12, bfloat16=8e12))

class DrawnClock:
    "A clock whose time goes on by drawn steps, from one reading to the next"
    span = 50e-6
    def __init__(self): self.drawn, self.now = random.Random(0), 0.
    def mark(self):
        self.now += 1e-5*self.drawn.uniform(1, 1.05)
        return self.now
    def seconds(self, marks): return [m - marks[0] for m in marks]

def language_models():
    "A decoder with rotary positions, and one with convolutions of its input"
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    llama = LlamaConfig(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
    gpt2 = GPT2Config(vocab_size=97, n_positions=64, n_embd=64, n_layer=2, n_head=4)
    ids = torch.arange(32).reshape(2, 16)
    yield 'llama', LlamaForCausalLM(llama).eval(), dict(input_ids=ids, use_cache=False)
    yield 'gpt2', GPT2LMHeadModel(gpt2).eval(), dict(input_ids=ids)

def cases():
    "Name, model, sample"
    import torchvision.models as tv
    image = torch.randn(1, 3, 64, 64)
    for name in ('resnet18', 'mobilenet_v3_small', 'shufflenet_v2_x0_5', 'swin_t'):
        yield name, tv.get_model(name, weights=None).eval(), image
    yield 'vit_b_16', tv.vit_b_16(image_size=64).eval(), image
    yield from language_models()
    yield 'lstm', nn.LSTM(16, 32, 2), torch.randn(5, 3, 16)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    yield 'encoder', nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 9, 32)
    yield 'bfloat16', nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)).bfloat16(), torch.randn(4, 64).bfloat16()

def plain(o):
    "Facts as JSON has them: numbers exactly, the rest as text"
    if is_dataclass(o): return plain(asdict(o))
    if isinstance(o, dict): return {str(k): plain(v) for k,v in o.items()}
    if isinstance(o, (list, tuple)): return [plain(v) for v in o]
    return o if o is None or isinstance(o, (bool, int, float, str)) else str(o)

def facts(out):
    "All facts of all rows, as a file"
    found, clock = {}, DrawnClock()
    for name,model,sample in cases():
        analyzer = RooflineAnalyzer(model, sample, peaks)
        with patch.object(observe, 'device_clock', lambda device: clock), patch.object(system, 'device_clock', lambda device: clock):
            found[f'{name}, profile'] = plain(list(analyzer.profile(warmup=2, steps=8) or analyzer.results))
        found[f'{name}, totals'] = {k:v for k,v in plain(analyzer.totals).items() if k!='disturbance'}
        found[f'{name}, projection'] = plain(list(project(analyzer.results, faster)))
        rows = analyzer.estimate(peaks)
        found[f'{name}, estimate'] = plain(list(analyzer.results if rows is None else rows))
        print(f'{name}: {len(found[f"{name}, profile"])} rows', flush=True)
    Path(out).write_text(json.dumps(found))

def differences(before, after):
    "Where two files of facts differ"
    for key in dict.fromkeys([*before, *after]):
        a, b = ([o] if isinstance(o, dict) else o or [] for o in (before.get(key), after.get(key)))
        if len(a)!=len(b): yield f'{key}: {len(a)} and {len(b)} rows'
        for x,y in zip(a, b):
            for field,v in x.items():   # the later may have facts that the earlier has not
                if field not in y or v!=y[field]: yield f'{key}, {x.get("name", "")}: {field} {v} → {y.get(field)}'

def compared(before, after):
    "A line of the table, and where two files differ"
    a, b = (json.loads(Path(p).read_text()) for p in (before, after))
    found = list(differences(a, b))
    rows = [x for v in a.values() for x in (v if isinstance(v, list) else [v])]
    return [Path(before).stem, Path(after).stem, len(a), len(rows), sum(map(len, rows)), len(found)], found

def compare(*files):
    "Print and keep in how many fields pairs of files differ, and print the first of them"
    lines, found = zip(*(compared(*pair) for pair in zip(files[::2], files[1::2], strict=True)))
    from report import write_result   # of this checkout, not of the one that is replayed
    print(*(o[:200] for some in found for o in some[:20]), sep='\n')
    heads = 'before', 'after', 'results', 'rows and totals', 'fields', 'different'
    what = 'Profiles by a clock whose readings are drawn from a seed, projections and estimates of the same models, on both sides of a change of structure; all fields of all rows'
    write_result('replay', what, tabulate(lines, headers=heads))
    return any(found)

if __name__=='__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=['facts', 'compare'])
    parser.add_argument('files', nargs='+')
    asked = parser.parse_args()
    warnings.simplefilter('ignore')
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if asked.what=='facts': facts(*asked.files)
    else: raise SystemExit(compare(*asked.files))
