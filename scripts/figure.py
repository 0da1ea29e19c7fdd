"""Draw the picture of the front page, nbs/images/resnet18-light.png and -dark.png: ResNet-18 on one core, its equal blocks together.

The result that is drawn is kept in benchmarks/data, so that the picture can be drawn anew without a quiet machine;
`--measure_again` profiles again, several times, and keeps the calmest. plotly writes the page, and a headless Chromium (package
`chromium` in Debian) takes its picture.

    python scripts/figure.py [--measure_again] [--threads 1]
"""
import shutil, subprocess, tempfile
from pathlib import Path

import torch
from fastcore.script import call_parse, store_true
from torchvision.models import resnet18

from fasterbench.views.layout import figure_page
from fasterbench.views.tables import picture_size
from fasterbench.results import Roofline
from fasterbench.roofline import RooflineAnalyzer, measure_peaks

top = Path(__file__).resolve().parent.parent
images, kept = top/'nbs'/'images', top/'benchmarks'/'data'/'resnet18.json'
themes = dict(dark=0, light=1)   # as Blink numbers a page's preferred colours
flags = '--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync --hide-scrollbars'.split()
still = '<style>.modebar { display: none }</style>'   # a picture has no buttons

def noise(result): return sum(p.timing.iqr_s for p in result)   # seconds

def measure(threads, times=4):
    "The calmest profile of several, written to its file"
    torch.set_num_threads(threads); torch.manual_seed(0)
    a = RooflineAnalyzer(resnet18(), torch.randn(1, 3, 224, 224), measure_peaks('cpu'))
    min((a.profile() for _ in range(times)), key=noise).save(kept)

def shot(browser, page, path, theme):
    "A picture of a page in one of its themes"
    with tempfile.TemporaryDirectory() as d:
        wide, high = picture_size
        own = [f'--user-data-dir={d}', f'--window-size={wide},{high}', '--force-device-scale-factor=2']
        colours = f'--blink-settings=preferredColorScheme={themes[theme]}'
        command = [browser, *flags, *own, colours, '--virtual-time-budget=8000', f'--screenshot={path}', page.as_uri()]
        path.unlink(missing_ok=True)
        subprocess.run(command, check=True, capture_output=True)
    if not path.exists(): raise SystemExit(f'{browser} wrote no {path.name}')

@call_parse
def main(
    measure_again:store_true=False, # profile the model on this machine, also where its result is kept
    threads:int=1, # of the CPU, for the profile
):
    "Draw the picture of the front page"
    browser = shutil.which('chromium') or shutil.which('google-chrome')
    if browser is None: raise SystemExit('figure.py needs chromium or google-chrome')
    if measure_again or not kept.exists(): measure(threads)
    result = Roofline.load(kept)
    print(result.answer)
    with tempfile.TemporaryDirectory() as d:
        page = Path(d)/'plot.html'
        page.write_text(figure_page(result.plot(by='block', size=picture_size), 'ResNet-18', still), encoding='utf-8')
        for o in themes: shot(browser, page, images/f'resnet18-{o}.png', o)
