"""Draw the figure of the front page, nbs/images/resnet18.png, from a profile on this machine.

plotly writes the page, and a headless Chromium (package `chromium` in Debian) takes its picture.

    python scripts/figure.py
"""
import shutil, subprocess, tempfile
from pathlib import Path

import torch
from torchvision.models import resnet18

from fasterbench.roofline import RooflineAnalyzer

out = Path(__file__).resolve().parent.parent/'nbs'/'images'/'resnet18.png'
flags = '--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync --hide-scrollbars'.split()

def main():
    browser = shutil.which('chromium') or shutil.which('google-chrome')
    if browser is None: raise SystemExit('figure.py needs chromium or google-chrome')
    analyzer = RooflineAnalyzer(resnet18(), torch.randn(1, 3, 224, 224))
    analyzer.profile()
    fig = analyzer.plot('ResNet-18, batch 1, 224×224')
    fig.update_layout(paper_bgcolor='white', width=1000)   # a picture has no background of a page behind it
    with tempfile.TemporaryDirectory() as d:
        page = Path(d)/'plot.html'
        fig.write_html(page, include_plotlyjs=True, config=dict(displayModeBar=False))
        subprocess.run([browser, *flags, f'--user-data-dir={d}/profile', f'--window-size=1016,{fig.layout.height+16:.0f}', '--force-device-scale-factor=1.5',
                        '--virtual-time-budget=8000', f'--screenshot={out}', page.as_uri()], check=True, capture_output=True)

if __name__=='__main__': main()
