"""Does any published run take less than the least time?

A time below it says that the bound, a datasheet or the published figure is wrong: `time / least` has
to be 1 or more. Forward passes and training steps of data/published_runs.csv: the least time of
all FLOPs and all bytes of a pass at the datasheet's rates. `language_models.py` has the runs of
language models.

    python benchmarks/bounds.py
"""
from statistics import median

from common import finish, option_parser, read, read_options

from fasterbench.machine.datasheets import find_datasheet


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


def main():
    args = read_options(option_parser(__doc__))
    runs = read('published_runs.csv')
    if args.quick: runs = [run for run in runs if not run['source'].startswith('timm')]
    rows = passes(runs)
    figures = {
        'passes': len(runs), 'models': len({run['model'] for run in runs}),
        'passes below the least time': sum(row['below'] for row in rows),
        'nearest pass, time / least': min(row['least time / least'] for row in rows)}
    finish(args, __file__, __doc__, {'passes': rows}, figures)


if __name__ == '__main__': main()
