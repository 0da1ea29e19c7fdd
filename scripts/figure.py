"""Draw the picture of the front page, nbs/images/resnet18-light.png and -dark.png: what a change of dtype and layout did.

ResNet-18 is profiled as it is, and in bfloat16 with channels last. Both results are kept in benchmarks/data, so that the
picture can be drawn anew without a quiet machine; `--measure_again` profiles again, several times, and keeps the calmest pair.
plotly writes the page, and a headless Chromium (package `chromium` in Debian) takes its picture.

    python scripts/figure.py [--measure_again] [--threads 1]
"""
import copy, shutil, subprocess, tempfile
from pathlib import Path

import torch
from fastcore.script import call_parse, store_true
from torchvision.models import resnet18

from fasterbench.plot import plot_comparison
from fasterbench.operations import si
from fasterbench.views.tables import figure_page
from fasterbench.results import Roofline
from fasterbench.roofline import RooflineAnalyzer, measure_peaks

top = Path(__file__).resolve().parent.parent
images, kept = top/'nbs'/'images', {o: top/'benchmarks'/'data'/f'resnet18_{o}.json' for o in ('before', 'after')}
themes = dict(dark=0, light=1)   # as Blink numbers a page's preferred colours
flags = '--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync --hide-scrollbars'.split()
width, scale = 900, 2
still = '<style>.modebar, #below { display: none }</style>'   # a picture has no buttons

def pair(peaks):
    "The model as it is, and changed"
    torch.manual_seed(0)
    model, x = resnet18().eval(), torch.randn(1, 3, 224, 224)
    how = dict(dtype=torch.bfloat16, memory_format=torch.channels_last)
    return [RooflineAnalyzer(m, s, peaks).profile() for m,s in ((model, x), (copy.deepcopy(model).to(**how), x.to(**how)))]

def noise(results): return sum(p.timing.iqr for r in results for p in r)   # seconds

def measure(threads, times=4):
    "The calmest pair of several, written to its files"
    torch.set_num_threads(threads)
    peaks = measure_peaks('cpu', dtype=['float32', 'bfloat16'])
    found = min((pair(peaks) for _ in range(times)), key=noise)
    for r,path in zip(found, kept.values()): r.save(path)

def shot(browser, page, path, theme, height):
    "A picture of a page in one of its themes"
    with tempfile.TemporaryDirectory() as d:
        own = [f'--user-data-dir={d}', f'--window-size={width},{height:.0f}', f'--force-device-scale-factor={scale}']
        colours = f'--blink-settings=preferredColorScheme={themes[theme]}'
        command = [browser, *flags, *own, colours, '--virtual-time-budget=8000', f'--screenshot={path}', page.as_uri()]
        path.unlink(missing_ok=True)
        subprocess.run(command, check=True, capture_output=True)
    if not path.exists(): raise SystemExit(f'{browser} wrote no {path.name}')

@call_parse
def main(
    measure_again:store_true=False, # profile the two models on this machine, also where their results are kept
    threads:int=1, # of the CPU, for the profiles
):
    "Draw the picture of the front page"
    browser = shutil.which('chromium') or shutil.which('google-chrome')
    if browser is None: raise SystemExit('figure.py needs chromium or google-chrome')
    if measure_again or not all(p.exists() for p in kept.values()): measure(threads)
    before, after = map(Roofline.load, kept.values())
    change = before.compare(after, 'block')   # equal blocks as one
    print(before.compare(after).answer)
    title = f"ResNet-18: {' → '.join(si(r.totals.mean_s, 's') for r in (before, after))}"
    fig = plot_comparison(change, title, top=len(change), names=7)
    with tempfile.TemporaryDirectory() as d:
        page = Path(d)/'plot.html'
        page.write_text(figure_page(fig, title, below=still), encoding='utf-8')
        for o in themes: shot(browser, page, images/f'resnet18-{o}.png', o, fig.layout.height + 16)
