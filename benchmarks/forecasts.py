"""How far off are forecasts of published runs that were left out?

data/published_runs.csv has runs of eager PyTorch that others timed, each with its source:
NeuSight's (float32, attention written out), timm's (mixed precision), and tables.
data/published_runs.py counts their FLOPs, bytes and launches. Each run is forecast by the others: once by those of other
models, once by those of other devices; the noise is chosen without what was left out.

Runs of language models, of data/training_runs.csv and data/decode_runs.csv, are forecast in the same
way, by each other alone: a run of a model by those of other models on its device, and others.

    python benchmarks/forecasts.py [--ship]

`--ship` writes what is known of all runs to fasterbench/data/forecasts.json.
"""
import csv
from collections import defaultdict
from itertools import product
from math import exp, floor, log
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from bounds import decoded, read, trained
from common import finish, option_parser, read_options

from fasterbench.base.files import save_json
from fasterbench.machine.datasheets import find_datasheet
from fasterbench.results.forecast import (Evidence, LanguageWork, Launches, Miss, Pace, Reached,
                                           basis_of, language_work, likely_pace)

HERE = Path(__file__).parent
RUNS = HERE/'data'/'published_runs.csv'
SHIPPED = HERE.parent/'fasterbench'/'data'/'forecasts.json'
WAITING = 0.1   # share of the peaks below which a run waits for its launches
NOISES = 0.1, 0.3, 1., 3., 10.   # that are tried
ENOUGH = 9                       # ratios for an interval
EXPOSED = 0., 0.5, 1.   # parts of the exchange of tensor parallelism that are tried


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


def left_out(runs: list[Run], key: str):
    """Each group of runs with the same model or device, in one dtype, and the others."""
    for value in dict.fromkeys(getattr(run, key) for run in runs):
        yield ([run for run in runs if getattr(run, key) == value],
               [run for run in runs if getattr(run, key) != value])


def misses(runs: list[Run], key: str) -> list[tuple[Run, float]]:
    """Each run in one dtype that others can forecast: measured time over its forecast."""
    found, runs = [], [run for run in runs if not run.waits]
    for out, rest in left_out(runs, key):
        reached = reached_by(rest)
        known = {r.device for r in reached}
        out = [run for run in out if known and (key == 'device' or run.device in known)]
        if out: found += zip(out, ratios(out, reached, least_noise(rest, reached)))
    return found


def interval(missed: list[float], share: float = 0.8) -> tuple[float, float]:
    """Where the next ratio lies with this probability, whatever their distribution."""
    missed, k = sorted(missed), floor((len(missed) + 1)*(1 - share)/2 + 1e-9)
    if not k: raise ValueError(f'{len(missed)} ratios are too few for an interval of {share:.0%}')
    return missed[k - 1], missed[-k]


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


def accuracy(runs: list, misses=misses) -> tuple[list[dict], dict]:
    """A row for each group of runs and what was left out; and the misses of each."""
    rows, all_found = [], {}
    for key in ('model', 'device'):
        found = []
        for dtype in dict.fromkeys(run.dtype for run in runs):
            found += misses([run for run in runs if run.dtype == dtype], key)
        all_found[key] = dict(found)
        for group in dict.fromkeys(group for run, _ in found for group in run.groups):
            some = [(run, miss) for run, miss in found if group in run.groups]
            errors = [abs(1/miss - 1) for _, miss in some]
            others = [(miss, [m for r, m in found if r.dtype == run.dtype
                              and getattr(r, key) != getattr(run, key)]) for run, miss in some]
            inside = [low <= miss <= high for miss, rest in others if len(rest) >= ENOUGH
                      for low, high in [interval(rest)]]
            rows.append({'runs': group, 'left out': key, 'number': len(some),
                         'mean error %': 100*fmean(errors), 'median error %': 100*median(errors),
                         'inside the interval %': 100*fmean(inside) if inside else None})
    return sorted(rows, key=lambda row: (row['runs'], row['left out'])), all_found


class LanguageRun(NamedTuple):
    """A published run of a language model, and what sets its time."""
    model: str
    device: str
    work: LanguageWork
    time_s: float
    sequences: int
    dtype: str           # its phase: of that are choices and intervals
    groups: tuple[str, ...]


def language_runs() -> list[LanguageRun]:
    lines = [(line, trained(line)[1], float(line['seconds'])) for line in read('training_runs.csv')]
    lines += [(line, decoded(line), int(line['batch'])/float(line['tokens_per_s']))
              for line in read('decode_runs.csv')]
    return [LanguageRun(line['model'], line['device'], work, seconds, int(line['batch']),
                        work.phase, (work.phase, work.kind))
            for line, result, seconds in lines for work in [language_work(result)]]


def paces(runs: list[LanguageRun], exposed: float) -> list[Pace]:
    """What the runs of each kind of work have reached on each device."""
    groups = defaultdict(list)
    for run in runs: groups[run.work.kind, run.device, run.work.peaks].append(run)
    return [Pace(*key, exp(fmean(log(run.work.reached(run.time_s, exposed)) for run in some)),
                 len(some), len({run.model for run in some}), max(run.sequences for run in some))
            for key, some in groups.items()]


def language_misses(runs: list[LanguageRun], key: str, choice=None) -> list[tuple]:
    """Each run in one phase that others can forecast: measured time over its forecast.

    `choice`: of `best_choice`; `None`: that of the others, for each.
    """
    found = []
    for out, rest in left_out(runs, key):
        exposed, noise = choice or best_choice(rest)
        evidence = Evidence([], {out[0].dtype: noise}, paces=paces(rest, exposed))
        for run in out:
            known = {pace.device for pace in evidence.paces if pace.work == run.work.kind}
            if not known or (key == 'model' and run.device not in known): continue
            likely_s = run.work.time_s(likely_pace(run.work, evidence), exposed)
            found.append((run, run.time_s/likely_s))
    return found


def best_choice(runs: list[LanguageRun]) -> tuple[float, float]:
    """The exposed part and the noise with which the runs of a phase forecast each other best."""
    def error(choice):
        errors = [[abs(1/miss - 1) for _, miss in language_misses(runs, key, choice)]
                  for key in ('model', 'device')]
        return sum(map(fmean, filter(None, errors)))
    return min(product(EXPOSED, NOISES), key=error)


def fit_language(runs: list[LanguageRun], evidence: Evidence):
    """Add what is known of all runs of language models."""
    for phase in dict.fromkeys(run.dtype for run in runs):
        some = [run for run in runs if run.dtype == phase]
        exposed, evidence.noise[phase] = best_choice(some)
        if phase == 'training': evidence.exposed = exposed
        evidence.paces += paces(some, exposed)
        for key in ('model', 'device'):
            missed = [miss for _, miss in language_misses(some, key)]
            if len(missed) < ENOUGH: continue
            evidence.misses.append(Miss(phase, key, len(missed), *interval(missed)))


def main():
    parser = option_parser(__doc__)
    parser.add_argument('--ship', action='store_true', help=f'write {SHIPPED.name}')
    args = read_options(parser)
    if args.quick and args.ship: parser.error('--ship takes all runs, and --quick those in float32')
    with open(RUNS, newline='') as file: runs = [*map(Run, csv.DictReader(file))]
    if args.quick: runs = [run for run in runs if run.dtype == 'float32']
    of_language = language_runs()
    (rows, _), (more, found) = accuracy(runs), accuracy(of_language, language_misses)
    rows += more
    figures = dict(runs=len(runs), devices=len({run.device for run in runs}),
                   **{'runs of language models': len(of_language)})
    figures |= {f"{row['runs']}, {row['left out']} left out: mean error %": row['mean error %']
                for row in rows}
    each = [{'model': run.model, 'device': run.device, 'work': run.work.kind,
             'least s': run.work.least_s, 'published s': run.time_s}
            | {f'forecast / published, {key} left out': 1/misses[run] if run in misses else None
               for key, misses in found.items()} for run in of_language]
    finish(args, __file__, __doc__, {'accuracy': rows, 'language models': each}, figures)
    if not args.ship: return
    evidence = fit(runs)
    fit_language(of_language, evidence)
    save_json(evidence, SHIPPED)


if __name__ == '__main__': main()
