"""Is any row above the roof that it is held against? Networks profiled on the CPU, each with peaks of its own process.

    python benchmarks/rows_under_roofs.py [--rounds 3]
"""
import json, platform, subprocess, sys
from pathlib import Path

import torch
from fastcore.script import call_parse
from tabulate import tabulate

from fasterbench.core import device_name

networks = ['resnet18', 'vit_b_16', 'swin_t', 'mobilenet_v3_large']
code = """
import json, torch
from torchvision import models
from fasterbench.roofline import RooflineAnalyzer
torch.manual_seed(0)
a = RooflineAnalyzer(models.{name}().to(torch.{dtype}), torch.randn(1, 3, 224, 224, dtype=torch.{dtype}))
rows = a.profile()
known = [r for r in rows if r.utilization_pct is not None]
held = [r.cache_pct if r.above else r.utilization_pct for r in known]
worst = known[held.index(max(held))]
print(json.dumps(dict(rows=len(rows), above=sum(r.above for r in rows), levels=sorted(set(r.roof for r in rows if r.above)),
                      impossible=sum(r.impossible for r in rows), highest=max(held), name=worst.name, roof=worst.roof)))
"""

@call_parse
def main(
    rounds:int=3, # fresh processes for each network and dtype
):
    "Hold rows against their roofs"
    table = []
    for dtype in ('float32', 'bfloat16'):
        for name in networks:
            for _ in range(rounds):
                r = json.loads(subprocess.run([sys.executable, '-c', code.format(name=name, dtype=dtype)], check=True, capture_output=True, text=True).stdout.splitlines()[-1])
                table.append((name, dtype, r['rows'], r['above'], ', '.join(r['levels']) or '–', r['impossible'], f"{r['highest']:.1f}", f"{r['name'] or '(the model)'} ({r['roof']})"))
    highest = max(float(row[6]) for row in table)
    text = '\n'.join([f'{device_name(torch.device("cpu"))}, {torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}',
        tabulate(table, headers=['network', 'dtype', 'rows', "above the memory's roof", 'held against', 'above every roof', 'highest %', 'which'], colalign=['left', 'left', 'right', 'right', 'left', 'right', 'right', 'left'], disable_numparse=True),
        f'the highest row is at {highest:.1f} % of the roof that it is held against'])
    print(text)
    (Path(__file__).parent/'results'/'rows_under_roofs.txt').write_text(text+'\n')
