"""What do comparisons find, what do they invent, and what does the gate decide beside load?

`power`: drawn times of 40 rows of which 4 are 10 % slower, with a noise of 5 %: how many of the
four are called different, and how often another row is. `in turns`: models of ten equal blocks
measured in turns with busy loops beside, b unchanged, with a block three times as wide, and with 13
blocks. `gate`: does b take at most 10 % longer? What did not change has to be within or open, what
is slower worse or open.

    python benchmarks/comparisons.py [--draws 300] [--runs 10] [--loops 1]
"""
import random
from collections import Counter
from statistics import fmean, median

import torch
from common import busy_loops, finish, in_turns, option_parser, read_options
from torch import nn

from fasterbench import Comparison, HardwarePeaks, RooflineAnalyzer, compare_interleaved, gate
from fasterbench.base.clock import mean_at, middle_half
from fasterbench.results.roofline import Roofline, Totals
from fasterbench.results.rows import RooflinePoint

PEAKS = HardwarePeaks(1e12, 1e11)
ROWS, SLOWER, NOISE = 40, 4, 0.05
PASSES = {False: 20, True: 40}   # one after the other, in turns


def drawn(rng: random.Random, slower: set[int], passes: int) -> Roofline:
    """A result whose rows take 0.1 ms with noise, those that are slower a tenth more."""
    rows = []
    for i in range(ROWS):
        mean_s = 1e-4*(1.1 if i in slower else 1)
        samples = [mean_s*rng.gauss(1, NOISE) for _ in range(passes)]
        rows.append(RooflinePoint(name=f'{i}.row', type='Linear', samples=samples,
                                  time_s=mean_at(samples, middle_half(samples))))
    totals = [sum(samples) for samples in zip(*(row.samples for row in rows))]
    mean_s = mean_at(totals, middle_half(totals))
    return Roofline(rows=rows, totals=Totals(totals, [], mean_s, 0.))


def power(rng: random.Random, draws: int) -> list[dict]:
    """A row for each way of comparing: what is found of what is there."""
    rows = []
    for in_turn, passes in PASSES.items():
        found, false, invented = [], 0, 0
        for _ in range(draws):
            slower = {*rng.sample(range(ROWS), SLOWER)}
            c = Comparison(a=drawn(rng, set(), passes), b=drawn(rng, slower, passes), turns=in_turn)
            named = {p.name for p in c if p.change in ('faster', 'slower')}
            there = {f'{i}.row' for i in slower}
            found.append(len(named & there))
            false += len(named - there)
            a, b = drawn(rng, set(), passes), drawn(rng, set(), passes)
            same = Comparison(a=a, b=b, turns=in_turn)
            invented += any(p.change in ('faster', 'slower') for p in same)
        rows.append({'compared': 'in turns' if in_turn else 'one after the other', 'passes': passes,
                     'draws': draws, f'found of {SLOWER}': fmean(found),
                     'false of all called %': 100*false/max(false + sum(found), 1),
                     'equal models with a false row %': 100*invented/draws})
    return rows


def net(blocks: int, wide: int | None = None) -> nn.Sequential:
    """Blocks of two linear layers; one of them may be three times as wide."""
    torch.manual_seed(0)
    widths = [1536 if i == wide else 512 for i in range(blocks)]
    return nn.Sequential(*(nn.Sequential(nn.Linear(256, n), nn.ReLU(), nn.Linear(n, 256))
                           for n in widths)).eval()


def compared(b: nn.Module, turns: int) -> Comparison:
    """Ten blocks and another model, measured in turns."""
    a, x = RooflineAnalyzer(net(10), torch.rand(64, 256), PEAKS), torch.rand(64, 256)
    return compare_interleaved(a, RooflineAnalyzer(b, x, PEAKS), steps=turns, warmup=2)


def called(c: Comparison) -> dict:
    """How many rows are called different, and what of it is the wide block."""
    named = [p.name for p in c if p.change in ('faster', 'slower')]
    return dict(rows=len(c), named=len(named), wide=sum(name.startswith('3.') for name in named))


def main():
    parser = option_parser(__doc__)
    parser.add_argument('--draws', type=int, default=300)
    parser.add_argument('--runs', type=int, default=10, help='comparisons of each pair')
    parser.add_argument('--loops', type=int, default=1, help='busy processes beside')
    args = read_options(parser)
    draws, runs, turns = (3, 1, 12) if args.quick else (args.draws, args.runs, 40)
    drawn_rows = power(random.Random(0), draws)
    with busy_loops(args.loops):
        found = in_turns(runs, {
            'unchanged': lambda: compared(net(10), turns),
            'a block three times as wide': lambda: compared(net(10, wide=3), turns),
            '1.3 times the work': lambda: compared(net(13), turns)})
    rows, decided = [], {}
    for name, comparisons in found.items():
        calls = Counter()
        for c in comparisons: calls.update(called(c))
        rows.append({'b': name, 'comparisons': runs, 'rows': calls['rows'],
                     'called different': calls['named'], 'of the wide block': calls['wide'],
                     'median ratio': median(c.whole.ratio for c in comparisons)})
        decided[name] = Counter(gate(c, slower=10, flops=None).decided for c in comparisons)
    gates = [{'b': name, 'comparisons': runs, 'within': n['within'], 'worse': n['worse'],
              'open': n['open']}
             for name, n in decided.items() if name != 'a block three times as wide']
    unchanged = rows[0]
    figures = {'found of 4, in turns': drawn_rows[1][f'found of {SLOWER}'],
               'found of 4, one after the other': drawn_rows[0][f'found of {SLOWER}'],
               'rows called different of unchanged models %':
                   100*unchanged['called different']/unchanged['rows'],
               'unchanged, called worse': decided['unchanged']['worse'],
               'slower, called within': decided['1.3 times the work']['within'],
               'open %': 100*sum(g['open'] for g in gates)/(2*runs)}
    tables = {'power': drawn_rows, 'in turns': rows, 'gate': gates}
    finish(args, __file__, __doc__, tables, figures)


if __name__ == '__main__': main()
