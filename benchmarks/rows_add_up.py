"""Do rows add up to a pass, beside other programs too?

The mean pass is that of the middle half of the passes, and rows and remainder are its parts: the
sum has to be equal, however much the machine is disturbed. Medians of rows would not add up: their
sum is shown beside. `remainder` is the time outside of all rows, `least sample` the shortest that a
row ever took (none is negative). Profiles are made in turns, with and without busy loops.

    python benchmarks/rows_add_up.py [--rounds 8] [--loops 2]
"""
from contextlib import nullcontext
from statistics import median

import torch
import torch.nn.functional as F
from common import busy_loops, finish, image_model, in_turns, option_parser, read_options

from fasterbench import HardwarePeaks, RooflineAnalyzer

PEAKS = HardwarePeaks(1e12, 1e11)


def forward(name: str):
    """Profile forward passes of a model of torchvision."""
    analyzer = RooflineAnalyzer(*image_model(name), PEAKS)
    return lambda: analyzer.profile(warmup=2, steps=20)


def step(name: str, batch: int, side: int):
    """Profile training steps with AdamW."""
    model, sample = image_model(name, batch, side)
    labels = torch.zeros(batch, dtype=torch.int64)
    analyzer = RooflineAnalyzer(model.train(), sample, PEAKS)
    return lambda: analyzer.profile_step(lambda out: F.cross_entropy(out, labels), 'adamw',
                                         warmup=2, steps=12)


def figures_of(result) -> dict:
    """What one profile says of its sum."""
    totals, timed = result.totals, [row for row in result if row.samples]
    whole = sum(row.time_s for row in timed) + totals.remainder_s
    by_pass = [sum(row.samples[i] for row in timed)/pass_s
               for i, pass_s in enumerate(totals.samples)]
    middle = median(totals.samples)
    return {
        'rows': len(result), 'pass ms': 1e3*totals.mean_s,
        'IQR %': 100*totals.iqr_s/totals.mean_s,
        'rows + remainder, off by': abs(whole/totals.mean_s - 1),
        'remainder %': 100*totals.remainder_s/totals.mean_s,
        'most rows of a pass %': 100*max(by_pass),
        'medians of rows %': 100*sum(median(row.samples) for row in timed)/middle,
        'least sample µs': 1e6*min(min(row.samples) for row in timed)}


def main():
    parser = option_parser(__doc__)
    parser.add_argument('--rounds', type=int, default=8, help='profiles of each kind')
    parser.add_argument('--loops', type=int, default=2, help='busy processes')
    args = read_options(parser)
    if args.quick:
        rounds, profiles = 1, {'squeezenet1_1': forward('squeezenet1_1')}
    else:
        rounds = args.rounds
        profiles = {name: forward(name) for name in ('resnet50', 'swin_t', 'mobilenet_v3_small')}
        profiles['resnet18, step'] = step('resnet18', 8, 128)

    def beside(loops, profile):
        def run():
            with busy_loops(loops) if loops else nullcontext(): return figures_of(profile())
        return run

    ways = {(name, loops): beside(loops, profile)
            for name, profile in profiles.items() for loops in (0, args.loops)}
    found = in_turns(rounds, ways)
    rows = []
    for (name, loops), results in found.items():
        def most(key): return max(result[key] for result in results)
        rows.append({'model': name, 'busy loops': loops, 'profiles': len(results)} | {
            key: (most(key) if 'off by' in key or 'most' in key else
                  min(r[key] for r in results) if 'least' in key else
                  median(r[key] for r in results)) for key in results[0]})
    every = [result for results in found.values() for result in results]
    figures = {
        'profiles': len(every),
        'rows + remainder, off by at most': max(r['rows + remainder, off by'] for r in every),
        'rows of a pass at most %': max(r['most rows of a pass %'] for r in every),
        'medians of rows, least %': min(r['medians of rows %'] for r in every),
        'medians of rows, most %': max(r['medians of rows %'] for r in every)}
    finish(args, __file__, __doc__, {'profiles': rows}, figures, ['torchvision'])


if __name__ == '__main__': main()
