"""How far off are forecasts of published runs that were left out?

data/published_runs.csv has runs of eager PyTorch that others timed, each with its source:
NeuSight's (float32, attention written out), timm's (mixed precision), and tables.
data/published_runs.py counts their FLOPs, bytes and launches. Each run is forecast by the others:
once by those of other models, once by those of other devices; the noise is chosen without what was
left out. `language_models.py` has the runs of language models.

    python benchmarks/forecasts.py [--ship]

`--ship` writes what is known of all runs, with those of language models, to
fasterbench/data/forecasts.json.
"""
from collections import defaultdict
from math import exp, log
from pathlib import Path
from statistics import median

from common import (NOISES, accuracy, finish, interval, left_out, mean_errors, option_parser, read,
                    read_options)
from language_models import fit_language, language_runs

from fasterbench.base.files import save_json
from fasterbench.machine.datasheets import find_datasheet
from fasterbench.results.forecast import Evidence, Launches, Miss, Reached, basis_of

SHIPPED = Path(__file__).parent.parent/'fasterbench'/'data'/'forecasts.json'
WAITING = 0.1   # share of the peaks below which a run waits for its launches


class Run:
    """A line of the table, in seconds at the peaks of its device."""

    def __init__(self, line: dict):
        vars(self).update(line)
        peaks = find_datasheet(self.device)
        self.peaks = peaks.compute_peaks[self.dtype], peaks.peak_bandwidth
        self.flops, self.bytes = float(self.flops), float(self.bytes)
        self.launches, self.time_s = int(self.launches), float(self.ms)/1e3
        self.arithmetic_s, self.memory_s = self.flops/self.peaks[0], self.bytes/self.peaks[1]
        self.share = (self.arithmetic_s + self.memory_s)/self.time_s
        self.waits = self.share < WAITING

    @property
    def groups(self) -> list[str]:
        if self.source.startswith('NeuSight'): return [f'{self.mode}, float32']
        return ['timm' if self.source.startswith('timm') else 'tables']


def reached_by(runs: list[Run]) -> list[Reached]:
    """The mean shares of each device and dtype, runs weighted by their part of such work."""
    groups = defaultdict(list)
    for run in runs:
        if not run.waits: groups[run.device, run.dtype].append(run)

    def share(some, key):
        weights = [getattr(run, key)/(run.arithmetic_s + run.memory_s) for run in some]
        logs = [log(run.share) for run in some]
        return exp(sum(w*x for w, x in zip(weights, logs))/sum(weights))

    return [Reached(device, dtype, *some[0].peaks, share(some, 'arithmetic_s'),
                    share(some, 'memory_s'), len(some), len({run.model for run in some}))
            for (device, dtype), some in groups.items()]


def ratios(runs: list[Run], reached: list[Reached], noise: float) -> list[float]:
    """Measured time over its forecast, of each run; all in one dtype."""
    evidence = Evidence(reached, {runs[0].dtype: noise})
    devices = {run.device: run for run in runs}
    bases = {device: basis_of(evidence, device, run.dtype, run.peaks)
             for device, run in devices.items()}
    return [run.time_s/bases[run.device].time_s(run.flops, run.bytes) for run in runs]


def least_noise(runs: list[Run], reached: list[Reached]) -> float:
    """The noise with which devices forecast each other best; of one dtype."""
    by_device = defaultdict(list)
    for run in runs: by_device[run.device].append(run)
    if len(by_device) < 3: return 1.

    def error(noise):
        return sum(log(miss)**2 for device, some in by_device.items() for miss in
                   ratios(some, [r for r in reached if r.device != device], noise))
    return min(NOISES, key=error)


def misses(runs: list[Run], key: str) -> list[tuple[Run, float]]:
    """Each run in one dtype that others can forecast: measured time over its forecast."""
    found, runs = [], [run for run in runs if not run.waits]
    for out, rest in left_out(runs, key):
        reached = reached_by(rest)
        known = {r.device for r in reached}
        out = [run for run in out if known and (key == 'device' or run.device in known)]
        if out: found += zip(out, ratios(out, reached, least_noise(rest, reached)))
    return found


def fit(runs: list[Run]) -> Evidence:
    """What is known of all runs."""
    evidence = Evidence(reached_by(runs), {})
    for dtype in dict.fromkeys(run.dtype for run in runs):
        some = [run for run in runs if run.dtype == dtype]
        reached = [r for r in evidence.reached if r.dtype == dtype]
        evidence.noise[dtype] = least_noise([run for run in some if not run.waits], reached)
        for key in ('model', 'device'):
            missed = [miss for _, miss in misses(some, key)]
            evidence.misses.append(Miss(dtype, key, len(missed), *interval(missed)))
    waiting = [run for run in runs if run.waits]
    each = [run.time_s/run.launches for run in waiting]
    devices = ', '.join(dict.fromkeys(run.device for run in waiting))
    evidence.launches = Launches(median(each), min(each), max(each), len(waiting), devices)
    return evidence


def main():
    parser = option_parser(__doc__)
    parser.add_argument('--ship', action='store_true', help=f'write {SHIPPED.name}')
    args = read_options(parser)
    if args.quick and args.ship: parser.error('--ship takes all runs, and --quick those in float32')
    runs = [*map(Run, read('published_runs.csv'))]
    if args.quick: runs = [run for run in runs if run.dtype == 'float32']
    rows, _ = accuracy(runs, misses)
    figures = dict(runs=len(runs), devices=len({run.device for run in runs})) | mean_errors(rows)
    finish(args, __file__, __doc__, {'accuracy': rows}, figures)
    if not args.ship: return
    evidence = fit(runs)
    fit_language(language_runs(), evidence)
    save_json(evidence, SHIPPED)


if __name__ == '__main__': main()
