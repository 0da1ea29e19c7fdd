"""Does any published run take less than the least time?

A time below it says that the bound, a datasheet or the published figure is wrong: `time / least` has
to be 1 or more. Forward passes and training steps of data/published_runs.csv: the least time of
all FLOPs and all bytes of a pass at the datasheet's rates. Language models of data/decode_runs.csv:
the least time of a token, by `estimate_language`. Those of data/training_runs.csv: the least time
of a step, by `estimate_training`, and model FLOPs utilization (MFU) beside what is claimed, in the
form of the claim: attention dense or causal, with or without tables that are only looked up.

    python benchmarks/bounds.py
"""
import csv
import json
from dataclasses import replace
from pathlib import Path
from statistics import median

from common import finish, option_parser, read_options

from fasterbench import estimate_language, estimate_training
from fasterbench.machine.datasheets import find_datasheet
from fasterbench.results.roofline import Roofline
from fasterbench.sources.architecture import LanguageModel, read_model

DATA = Path(__file__).parent/'data'


def read(name: str) -> list[dict]:
    with open(DATA/name, newline='', encoding='utf-8') as file: return [*csv.DictReader(file)]


def least_s(run: dict) -> float:
    """Seconds that a pass takes at least, from its FLOPs and bytes."""
    peaks = find_datasheet(run['device'])
    return max(float(run['flops'])/peaks.ceiling(run['dtype']),
               float(run['bytes'])/peaks.peak_bandwidth)


def passes(runs: list[dict]) -> list[dict]:
    """A row for each source, device and mode."""
    groups = {}
    for run in runs:
        key = run['source'].split(',')[0].split()[0], run['device'], run['dtype'], run['mode']
        groups.setdefault(key, []).append(float(run['ms'])/1e3/least_s(run))
    return [{'source': source, 'device': device, 'dtype': dtype, 'run': mode, 'runs': len(ratios),
             'below': sum(ratio < 1 for ratio in ratios), 'least time / least': min(ratios),
             'median': median(ratios), 'most': max(ratios)}
            for (source, device, dtype, mode), ratios in sorted(groups.items())]


def language_config(run: dict) -> dict:
    return json.loads((DATA/'language_configs.json').read_text())[run['model']]


def decoded(run: dict) -> Roofline:
    """The estimate of a step of decoding."""
    return estimate_language(
        language_config(run), run['device'], mesh=run['mesh'] or None,
        weights=float(run['weights']) if run['weights'] else None,
        batch=int(run['batch']), context=int(run['context'])).decode


def decoding(runs: list[dict]) -> list[dict]:
    """A row for each language model that decodes."""
    rows = []
    for run in runs:
        rate = decoded(run).at(float(run['tokens_per_s']))
        rows.append({'model': run['model'], 'device': run['device'], 'mesh': run['mesh'] or None,
                     'bytes of a weight': float(run['weights'] or 2),
                     'tokens/s': rate.tokens_per_s, 'at most': rate.most_tokens_per_s,
                     'time / least': rate.most_tokens_per_s/rate.tokens_per_s,
                     'MBU %': 100*rate.mbu, 'source': run['source'].split(',')[0]})
    return rows


def trained(run: dict) -> tuple[LanguageModel, Roofline]:
    """A model and the estimate of its training step."""
    model, peaks = read_model(language_config(run)), find_datasheet(run['device'])
    if run['bandwidth_gb_s']:
        peaks = replace(peaks, peak_bandwidth=1e9*float(run['bandwidth_gb_s']),
                        memory_bytes=2**30*int(run['memory_gib']))
    return model, estimate_training(
        model, peaks, batch=int(run['batch']), tokens=int(run['tokens']), mesh=run['mesh'],
        dtype=run['dtype'], masters=run['masters'] == '1', optimizer=run['optimizer'] or None,
        recompute=run['recompute'], accumulate=int(run['accumulate']),
        whole_logits=run['whole_logits'] == '1')


def training(runs: list[dict]) -> list[dict]:
    """A row for each language model that is trained."""
    rows = []
    for run in runs:
        (model, step), seconds = trained(run), float(run['seconds'])
        rate = step.at(step.about['tokens']/seconds)
        flops = model.training_flops(int(run['tokens']), run['attention'], run['tables'] == '1')
        flops *= rate.tokens_per_s/step.about['devices']
        ceiling = step.peaks.ceiling(run['dtype'])
        rows.append({
            'model': run['model'], 'device': run['device'], 'mesh': run['mesh'],
            'least s': step.roof_time_s, 'published s': seconds,
            'least / published': step.roof_time_s/seconds,
            'MFU dense %': 100*rate.mfu_dense, 'causal %': 100*rate.mfu_causal,
            'MFU as claimed %': 100*flops/ceiling,
            'claimed %': float(run['mfu_pct']) if run['mfu_pct'] else None,
            'HFU as claimed %': 100*flops/ceiling*rate.hfu/rate.mfu_causal,
            'TFLOP/s': flops/1e12, 'claimed': float(run['tflops']) if run['tflops'] else None,
            'holds GiB': step.memory.peak/2**30, 'fits': step.fits,
            'source': run['source'].split(',')[0]})
    return rows


def main():
    args = read_options(option_parser(__doc__))
    runs = read('published_runs.csv')
    if args.quick: runs = [run for run in runs if not run['source'].startswith('timm')]
    of_passes, of_tokens = passes(runs), decoding(read('decode_runs.csv'))
    of_steps = training(read('training_runs.csv'))
    figures = {
        'passes': len(runs), 'models': len({run['model'] for run in runs}),
        'passes below the least time': sum(row['below'] for row in of_passes),
        'nearest pass, time / least': min(row['least time / least'] for row in of_passes),
        'decoding runs': len(of_tokens),
        'decoding runs below': sum(row['time / least'] < 1 for row in of_tokens),
        'nearest decoding run, time / least': min(row['time / least'] for row in of_tokens),
        'training runs': len(of_steps),
        'training runs below': sum(row['least / published'] > 1 for row in of_steps),
        'nearest training run, least / published': max(row['least / published'] for row in of_steps)}
    tables = {'passes': of_passes, 'decoding': of_tokens, 'training': of_steps}
    finish(args, __file__, __doc__, tables, figures)


if __name__ == '__main__': main()
