"""How do bound, MFU and forecast of language models compare with published runs?

Training steps of data/training_runs.csv, decoding of data/decode_runs.csv, and two models of images
of data/vision_runs.csv. `least / published` above 1 says that the bound, a datasheet or the
published figure is wrong. MFU is also given as the source claims it, with attention dense or causal
and with or without tables that are only looked up; `other fits`: with the other attention it comes
within half a point of the claim, too. A claim in TFLOP/s alone is divided by the ceiling.

Language models are forecast by each other alone: once by runs of other models, once by runs of other
devices; an interval takes nine of them. A run is `clean` if what it recomputed, its layout and its
circumstances are known, by its source, and counted, and if its least memory fits, but for a tenth:
others are held against the bound, but forecast nothing, and their notes say why. `again` has the
products of a forward pass that a run did again, where it is not all of it, and `elsewhere` the kinds
of its memory that lie on the host or on other devices. Models of images are forecast by what the
package has, of the same model, too, but not this run.

    python benchmarks/language_models.py
"""
import json
from collections import defaultdict
from dataclasses import replace
from math import exp, log
from statistics import fmean

import numpy as np
import torch
from common import (DATA, NOISES, accuracy, finish, interval, interval_by_others, left_out, mean_errors,
                    option_parser, read, read_options)
from torchvision.models import get_model

from fasterbench import HardwarePeaks, RooflineAnalyzer, estimate_language, estimate_training
from fasterbench.machine.datasheets import find_datasheet
from fasterbench.models import construct
from fasterbench.results.forecast import (LIKENESS_POWER, Evidence, Miss, Pace, language_work,
                                          likeness, likely_language_s)
from fasterbench.results.roofline import Roofline
from fasterbench.sources.architecture import read_model

CLOSE = 0.5   # percentage points between a claim and what fits it
STARTS = {    # part of the work → what a unit costs where no run tells
    'products': 1.5, 'attention': 3., 'experts': 3., 'bytes': 2., 'unpacking': 0.5, 'calls': 6e-6}
NOMINAL = 1.1   # least bytes of a run that is known over the memory, at most
WEIGHT = 0.02   # of `STARTS`, where that of a run is about 1


def language_config(run: dict) -> dict:
    return json.loads((DATA/'language_configs.json').read_text())[run['model']]


def decoded(run: dict) -> Roofline:
    """The estimate of a step of decoding."""
    return estimate_language(
        language_config(run), run['device'], mesh=run['mesh'] or None,
        weights=float(run['weights']) if run['weights'] else None,
        batch=int(run['batch']), context=int(run['context'])).decode


def trained(run: dict) -> Roofline:
    """The estimate of a training step, which does again what the run did."""
    result, again = trained_with(run, run['recompute']), run['again'].split()
    if not again: return result
    rows = [row for row in result.ungrouped if row.phase == 'recomputed'
            and row.name.split()[0].rpartition('.')[2] in again]
    once = trained_with(run, 'none')
    return replace(once, rows=[*once.ungrouped, *rows], memory=result.memory)


def trained_with(run: dict, recompute: str) -> Roofline:
    """The estimate of a training step with so much recomputation."""
    peaks = find_datasheet(run['device'])
    if run['bandwidth_gb_s']:
        peaks = replace(peaks, peak_bandwidth=1e9*float(run['bandwidth_gb_s']),
                        memory_bytes=2**30*int(run['memory_gib']))
    return estimate_training(
        language_config(run), peaks, batch=int(run['batch']), tokens=int(run['tokens']),
        mesh=run['mesh'], dtype=run['dtype'], masters=run['masters'] == '1',
        optimizer=run['optimizer'] or None, recompute=recompute,
        accumulate=int(run['accumulate']), whole_logits=run['whole_logits'] == '1')


class LanguageRun:
    """A published run of a language model, its estimate, and what sets its time."""

    def __init__(self, line: dict, result: Roofline, time_s: float):
        self.line, self.result, self.time_s = line, result, time_s
        self.model, self.device, self.sequences = line['model'], line['device'], int(line['batch'])
        self.work = language_work(result)
        self.dtype = self.work.phase   # of that are choices and intervals
        self.groups = self.work.phase, self.work.kind
        self.is_clean = line['clean'] == '1'
        memory = result.memory.at_peak
        self.held = sum(memory.values()) - sum(memory.get(kind, 0) for kind in
                                               line.get('elsewhere', '').split())


def language_runs() -> list[LanguageRun]:
    runs = [LanguageRun(line, trained(line), float(line['seconds']))
            for line in read('training_runs.csv')]
    return runs + [LanguageRun(line, decoded(line), int(line['batch'])/float(line['tokens_per_s']))
                   for line in read('decode_runs.csv')]


def costs_of(runs: list[LanguageRun]) -> dict[str, float]:
    """Seconds of a unit of each part of the work with which runs of a phase are nearest to theirs.

    Generalized least squares of the logarithms of times, in steps of Gauss and Newton; runs on
    devices that are alike have as much in common as in `likely_share`, and each its own half.
    """
    amounts = np.array([[run.work.parts.get(part, 0.) for part in STARTS] for run in runs])
    times, peaks = np.log([run.time_s for run in runs]), [run.work.peaks for run in runs]
    between = np.array([[likeness(a, b)**LIKENESS_POWER for b in peaks] for a in peaks])
    weights = np.linalg.inv(between + np.eye(len(runs)))
    starts = logs = np.log([*STARTS.values()])
    for _ in range(20):
        parts = amounts*np.exp(logs)
        sums = parts.sum(axis=1)
        slopes = parts/sums[:, None]
        curvature = slopes.T@weights@slopes + WEIGHT*np.eye(len(logs))
        step = slopes.T@weights@(times - np.log(sums)) + WEIGHT*(starts - logs)
        logs = logs + np.linalg.solve(curvature, step).clip(-1, 1)
    return dict(zip(STARTS, np.exp(logs).tolist()))


def evidence_of(runs: list[LanguageRun], noise: float | None = None) -> Evidence:
    """What runs of a phase tell: the costs of parts, and how slow each device was beside these.

    `noise=None`: that with which they forecast each other best.
    """
    costs, groups = costs_of(runs), defaultdict(list)
    for run in runs: groups[run.work.phase, run.work.kind, run.device, run.work.peaks].append(run)
    paces = [Pace(*key, exp(fmean(log(run.time_s/run.work.time_s(costs)) for run in some)),
                  len(some), len({run.model for run in some}), max(run.sequences for run in some))
             for key, some in groups.items()]
    phase, noise = runs[0].work.phase, noise or least_noise(runs)
    return Evidence([], {phase: noise}, costs={phase: costs}, paces=paces)


def least_noise(runs: list[LanguageRun]) -> float:
    """The noise with which devices forecast each other best; of one phase."""
    folds = [(out, evidence_of(rest, NOISES[0])) for out, rest in left_out(runs, 'device')]

    def error(noise):
        return sum(log(run.time_s/likely_language_s(run.work, replace(known, noise={
            run.work.phase: noise})))**2 for out, known in folds for run in out)
    return min(NOISES, key=error)


def language_misses(runs: list[LanguageRun], key: str) -> list[tuple[LanguageRun, float]]:
    """Each run in one phase that others can forecast: measured time over its forecast."""
    found = []
    for out, rest in left_out(runs, key):
        evidence = evidence_of(rest)
        kinds, devices = ({getattr(p, name) for p in evidence.paces} for name in ('work', 'device'))
        found += [(run, run.time_s/likely_language_s(run.work, evidence)) for run in out
                  if run.work.kind in kinds and (key == 'device' or run.device in devices)]
    return found


def fit_language(runs: list[LanguageRun], evidence: Evidence):
    """Add what is known of all clean runs of language models."""
    for phase in dict.fromkeys(run.dtype for run in runs):
        some = [run for run in runs if run.dtype == phase and run.is_clean]
        known = evidence_of(some)
        evidence.noise |= known.noise
        evidence.costs |= known.costs
        evidence.paces += known.paces
        for key in ('model', 'device'):
            missed = [miss for _, miss in language_misses(some, key)]
            evidence.misses.append(Miss(phase, key, len(missed), *interval(missed)))


def bounds(result: Roofline, seconds: float) -> dict:
    """The least time, and that of eager PyTorch, beside the published one."""
    return {'least s': result.roof_time_s, 'eager least s': result.about.get('eager_least_s'),
            'published s': seconds, 'least / published': result.roof_time_s/seconds}


def forecasts(seconds: float, likely_s: float | None, ends: tuple | None, note: str = '') -> dict:
    """A forecast, its interval, and is the published time inside? `None`: not known."""
    inside = ends and ends[0] <= seconds <= ends[1]
    return {f'forecast s{note}': likely_s, f'80 % interval{note}': ends, f'inside{note}': inside}


def utilization(run: LanguageRun) -> dict:
    """MFU of training in both forms, and in that of the claim; or MBU and rates of decoding."""
    line, result = run.line, run.result
    rate = result.at(result.about['tokens']/run.time_s)
    if run.dtype != 'training':
        return {'bytes of a weight': float(line['weights'] or 2), 'tokens/s': rate.tokens_per_s,
                'at most': rate.most_tokens_per_s, 'MBU %': 100*rate.mbu}
    model, ceiling = read_model(language_config(line)), result.peaks.ceiling(line['dtype'])
    flops = {form: model.training_flops(int(line['tokens']), form, line['tables'] == '1')
             for form in ('dense', 'causal')}
    pace = rate.tokens_per_s/result.about['devices']
    mfu = {form: 100*n*pace/ceiling for form, n in flops.items()}
    own = mfu.pop(line['attention'])
    other, = mfu.values()
    claimed = float(line['mfu_pct'] or 0) or 1e14*float(line['tflops'] or 0)/ceiling or None
    return {'MFU dense %': 100*rate.mfu_dense, 'causal %': 100*rate.mfu_causal,
            'HFU as claimed %': own*rate.hfu/rate.mfu_causal, 'MFU as claimed %': own,
            'claimed %': claimed, 'attention': line['attention'],
            'other fits': abs(other - claimed) < CLOSE if claimed else None}


def language_row(run: LanguageRun, all_found: dict[str, dict]) -> dict:
    """All that is compared of a run of a language model."""
    row = {'model': run.model, 'device': run.device, 'mesh': run.line['mesh'] or None,
           'work': run.work.kind} | bounds(run.result, run.time_s) | utilization(run)
    for key, found in all_found.items():
        likely_s = run.time_s/found[run] if run in found else None
        ends = interval_by_others(run, found, key) if likely_s else None
        ends = ends and tuple(max(end*likely_s, run.work.least_s) for end in ends)
        row |= forecasts(run.time_s, likely_s, ends, f', {key} left out')
    available = run.result.peaks.memory_bytes
    return row | {'clean': run.is_clean, 'GiB': run.held/2**30,
                  'fits': run.held <= NOMINAL*available,
                  'source': run.line['source'].split(',')[0].split()[0]}


def vision_row(run: dict) -> dict:
    """What is compared of a run of a model of images; `tflops`: of a device without datasheet."""
    size, peaks, seconds = int(run['size']), run['device'], float(run['seconds'])
    if run['tflops']:
        peaks = HardwarePeaks(1e12*float(run['tflops']), 1e9*float(run['bandwidth_gb_s']))
    analyzer = RooflineAnalyzer(construct(lambda: get_model(run['model']).eval(), 'meta'),
                                torch.empty(int(run['batch']), 3, size, size, device='meta'))
    if run['mode'] == 'inference': result = analyzer.estimate(peaks, dtype=run['dtype'])
    else: result = analyzer.estimate_step(peaks, torch.sum, 'sgd', autocast=run['dtype'])
    likely = result.forecast()
    row = {'model': run['model'], 'device': run['device'], 'batch': int(run['batch']),
           'work': f"{run['mode']} in {run['dtype']}"} | bounds(result, seconds)
    return row | forecasts(seconds, likely.likely_s, likely.likely_interval) | {
        'why none': None if likely.likely_s else likely.about['likely'],
        'source': run['source'].split(',')[0]}


def main():
    args = read_options(option_parser(__doc__))
    runs = language_runs()
    errors, all_found = accuracy([run for run in runs if run.is_clean], language_misses)
    tables = {'training': [], 'decoding': []}
    for run in runs: tables[run.dtype.split()[-1]].append(language_row(run, all_found))
    tables['vision'] = [*map(vision_row, read('vision_runs.csv'))]
    ratios = [row['least / published'] for rows in tables.values() for row in rows]
    misses = [abs(row['MFU as claimed %'] - row['claimed %'])
              for row in tables['training'] if row['claimed %']]
    figures = {'runs': len(ratios), 'below their bound': sum(ratio > 1 for ratio in ratios),
               'nearest, least / published': max(ratios), 'claims': len(misses),
               f'within {CLOSE} points': sum(miss < CLOSE for miss in misses)}
    figures |= mean_errors([row for row in errors[::-1] if ' in ' not in row['runs']])
    finish(args, __file__, __doc__, tables | {'accuracy': errors}, figures)


if __name__ == '__main__': main()
