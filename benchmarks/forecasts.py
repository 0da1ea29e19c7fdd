"""How long do forwards and training steps take on devices that are not here, and how sure is that?

Runs that others measured and published, of code that is not compiled, are held against forecasts by the others: those of
benchmarks/results/published_bounds.json, in which benchmarks/published_bounds.py keeps the work of each.

Each is forecast twice by what the others say: with the model held out (no run of it on any device is known) and with the device
held out (no run on it is known), and so is the interval that is to hold 80 % of the truths; whatever is fitted is fitted without
what is held out. Beside that stand the bare bound, which is the time that the roof allows, and what NeuSight, a trained
predictor, published for the same runs (in benchmarks/data/transformers_times.csv; some of the devices are among those that it was
trained on).
`--ship` writes what is known of all runs to fasterbench/data/efficiency.json.

    python -m benchmarks.forecasts [--ship]
"""
from statistics import mean, median

from fastcore.basics import groupby
from fastcore.script import call_parse
from tabulate import tabulate
from tqdm import tqdm

from fasterbench.machine.datasheets import find_sheet
from fasterbench.machine.efficiency import Efficiency, Run
from fasterbench.machine.roof import datasheet_peaks
from benchmarks.shared.report import data, quiet, read_csv, top, write_result
from scripts.evidence import result

kept = 'source model batch size mode dtype device published_ms eager_ms'.split()

def ms(r): return float(r['published_ms'])
def roof_s(r): return float(r['eager_ms'])/1e3 # seconds that the roof allows

def as_run(r):
    "A line of published_bounds"
    peaks = datasheet_peaks(r['device'], dtype=r['dtype'])
    return Run(r['device'], r['dtype'], r['model'], float(r['flops']), float(r['bytes']), int(r['launches']), ms(r)/1e3,
        peaks.peak_flops, peaks.peak_bandwidth, r['source'])

def said(e, r, line):
    "Milliseconds that a run is likely to take and the interval, by what is known, and whether its device is; empty: nothing is"
    if r.dtype not in e.dtypes: return {}
    b, each = e.basis(r.device, r.dtype, r.peak_flops, r.peak_bandwidth), e.launch(r.device)[0]
    device_s, host_s = max(b.time_s(r.flops, r.nbytes), roof_s(line)), r.launches*each if each else 0.
    if host_s>device_s: return dict(likely=1e3*host_s, known=b.held_out)
    ends = {} if b.low is None else dict(low=1e3*max(device_s*b.low, roof_s(line)), high=1e3*device_s*b.high)
    return dict(likely=1e3*device_s, known=b.held_out, **ends)

def in_turns(runs, lines, key, most=20):
    "Position of a run → what the others say of it, with all of one `key` left out; more keys than `most` are left out in groups"
    keys = {k: i%most for i,k in enumerate(dict.fromkeys(map(key, runs)))}
    found = {}
    for i in tqdm(range(min(most, len(keys)))):
        e = Efficiency.fit([r for r in runs if keys[key(r)]!=i])
        found |= {j: said(e, r, lines[j]) for j,r in enumerate(runs) if keys[key(r)]==i}
    return found

def by_roof(runs, lines):
    "Position of a run → the time at the roof, divided by the median share of it that other models on the device reach"
    found, groups = {}, groupby([*enumerate(runs)], lambda o: (o[1].device, o[1].dtype))
    for i,r in enumerate(runs):
        shares = [roof_s(lines[j])/q.time_s for j,q in groups[r.device, r.dtype] if q.model!=r.model]
        if shares: found[i] = dict(likely=1e3*roof_s(lines[i])/median(shares))
    return found

def by_neusight(lines):
    "Position of a run → what NeuSight published for it"
    def key(r, device): return *(str(r[k]) for k in ('model', 'batch', 'size', 'mode')), device
    told = {key(r, find_sheet(r['device']).name): float(r['neusight_ms']) for r in read_csv(data/'transformers_times.csv')}
    return {i: dict(likely=told[key(r, r['device'])]) for i,r in enumerate(lines) if r['source'].startswith('NeuSight')}

# The report

bare, model_out, device_out, roof_out, neusight, none_out = ways = ('the bare bound', 'model held out', 'device held out',
    'roof / median share, model held out', 'NeuSight', 'nothing held out')

def group_of(r):
    if r['source'].startswith('timm'): return 'timm, mixed precision'
    return f"transformers, {r['mode']}, float32" if r['source'].startswith('NeuSight') else 'tables'

def grouped(lines, key): return groupby([*enumerate(lines)], lambda o: key(o[1])) # name → positions and lines

def ratios(at, some): return [at[i]['likely']/ms(r) for i,r in some if at.get(i)]
def errors(at, some): return [abs(o - 1) for o in ratios(at, some)]
def inside(at, some): return [at[i]['low']<=ms(r)<=at[i]['high'] for i,r in some if 'low' in at.get(i, {})] # of its interval?

def told_of(at, some):
    "Cells: runs, mean and median error in %, share within 10 and 25 %, share inside of the interval in %"
    es, there = errors(at, some), inside(at, some)
    if not es: return [0] + ['–']*5
    return [len(es), *(f'{100*o:.1f}' for o in (mean(es), median(es))), *(f'{100*mean(e<k for e in es):.0f}' for k in (.1, .25)),
        f'{100*mean(there):.0f} of {len(there)}' if there else '–']

def accuracy(found, lines):
    rows = [[g, way, *told_of(at, some)] for g,some in grouped(lines, group_of).items() for way,at in found.items() if errors(at, some)]
    heads = ['runs of', 'by', 'runs', 'mean %', 'median %', 'within 10 %', 'within 25 %', 'in the interval %']
    return tabulate(rows, headers=heads, disable_numparse=True)

def by_device(found, lines):
    "Of each device: the share of both rates, and how far the median forecast is off to one side"
    def off(at, some):
        rs = ratios(at, some)
        return f'{100*median(rs) - 100:+.0f}' if rs else '–'
    rows = [[*k, len(some), f'{median(as_run(r).share for _,r in some):.2f}', *(off(found[w], some) for w in (model_out, device_out))]
        for k,some in sorted(grouped(lines, lambda r: (r['device'], r['dtype'])).items())]
    return tabulate(rows, headers=['device', 'dtype', 'runs', 'share', 'model held out: off by %', 'device held out: off by %'],
        disable_numparse=True)

goals = (   # runs of, by, at most %
    ('transformers, inference, float32', device_out, 12), ('transformers, training, float32', device_out, 12),
    ('transformers, inference, float32', model_out, 7), ('transformers, training, float32', model_out, 7),
    ('timm, mixed precision', model_out, 14))

def reached(found, lines):
    "Lines: which goals are reached, how much of the error is left with nothing held out, and how many truths intervals hold"
    groups = grouped(lines, group_of)
    for group,way,most in goals:
        at, floor = (100*mean(errors(found[w], groups[group])) for w in (way, none_out))
        there = 100*mean(inside(found[way], groups[group]))
        yield [group, way, f'{at:.1f}', f'≤ {most}', 'yes' if at<=most else 'no', f'{floor:.1f}', f'{there:.0f}', 'yes' if 75<=there<=90 else 'no']

def of_batches(lines):
    "Lines: models that ran with several batches on a device, and how the share that they reach changes with that"
    same = groupby(lines, lambda r: (group_of(r), r['model'], r['device'], r['mode']))
    some = [(k, sorted(rs, key=lambda r: int(r['batch']))) for k,rs in same.items() if k[0].startswith('transformers') and rs[1:]]
    for (g,*k),rs in sorted(some, key=lambda o: (o[0][0], as_run(o[1][-1]).share/as_run(o[1][0]).share)):
        first, last = (as_run(r).share for r in (rs[0], rs[-1]))
        yield [g, *k[:2], f"{rs[0]['batch']} → {rs[-1]['batch']}", f'{first:.2f} → {last:.2f}', f'{100*last/first - 100:+.0f}']

why = '''Goals. "Nothing held out" is what the shares of a device leave open when they are known from the very runs: where that is
above a goal, no forecast by two shares of a device reaches it. Below are the same models with another batch on the same device:
in training the share moves by far more than the goal, up and down, which neither FLOPs and bytes nor a datasheet tell.'''

def report(found, lines, every):
    parts = ['Forecast against measured', accuracy(found, lines), why.replace('\n', ' '),
        tabulate(reached(found, lines), headers=['runs of', 'by', 'mean error %', 'goal', 'reached', none_out, 'in the interval %',
            '75 to 90'], disable_numparse=True),
        'Another batch', tabulate(of_batches(lines), headers=['runs of', 'model', 'device', 'batch', 'share', 'change %'], disable_numparse=True),
        'By device; share: the median of what runs reach of the sum of both rates', by_device(found, lines),
        'What is known, of all runs', str(every), '\n'.join(map(str, every.alike + every.misses))]
    return '\n\n'.join(parts)

def cases(found, lines):
    "A line for each run, with both forecasts"
    for i,r in enumerate(lines):
        line = {k: r[k] for k in kept}
        for name,at in (('model_out', found[model_out].get(i, {})), ('device_out', found[device_out].get(i, {}))):
            line |= {f'{name}_{k}_ms': f'{at[k]:.4f}' if k in at else '' for k in ('likely', 'low', 'high')}
        yield line

def forecasts(lines):
    "What is known of all runs; way → position of a run → what was forecast"
    runs = [*map(as_run, lines)]
    every = Efficiency.fit(runs)
    with_device = {i: o for i,o in in_turns(runs, lines, lambda r: r.model).items() if o.get('known')=='model'}
    return every, dict(zip(ways, ({i: dict(likely=1e3*roof_s(r)) for i,r in enumerate(lines)}, with_device,
        in_turns(runs, lines, lambda r: r.device), by_roof(runs, lines), by_neusight(lines),
        {i: said(every, r, lines[i]) for i,r in enumerate(runs)})))

@call_parse
def main(
    ship:bool=False, # write what is known to the package
):
    "Hold forecasts against published times"
    quiet()
    lines = [r for r in result('published_bounds').rows if r['published_ms'] and r['flops'] and r['ran']=='eager']
    every, found = forecasts(lines)
    if ship: every.save(top/'fasterbench'/'data'/'efficiency.json')
    write_result('forecasts', 'published runs of eager code, each forecast by the others', report(found, lines, every),
        rows=[*cases(found, lines)])
