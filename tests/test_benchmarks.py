"The scripts that need another machine, or hours, run small on this one; the checks among them run at night"
import json, random, shutil, subprocess, sys, time
from datetime import datetime, timezone

import pytest
from notebooks import top
from test_made import copied, within

def commands(folder):
    "The scripts of a folder that are called, by the names of their modules"
    paths = sorted((top/'benchmarks'/folder).glob('*.py'))
    return ['.'.join(p.relative_to(top).with_suffix('').parts) for p in paths if '@call_parse' in p.read_text(encoding='utf-8')]

checks = [o for o in commands('checks') if o!='benchmarks.checks.attack']   # which is below
options = {'benchmarks.checks.published_counts': ['--peers', '0']}   # the other tools' counts are no matter of the check

@pytest.mark.parametrize('name', checks)
def test_check(name, whole, tmp_path):
    "Each holds counts or state against something else, and ends with 1 where they differ; in a copy, since it writes its tables"
    if not whole: pytest.skip('at night, with --all')
    if 'opinfo' in name: pytest.importorskip('expecttest')   # torch's own tests need it
    within(copied(tmp_path), sys.executable, '-W', 'ignore', '-m', name, *options.get(name, []))

@pytest.mark.parametrize('name', commands('.'))
def test_measurement_starts(name, whole, script):
    "What it imports is there, and it says what it measures"
    if not whole: pytest.skip('at night, with --all')
    assert 'usage:' in script('-W', 'ignore', '-m', name, '--help')

def test_gpu_script_runs_on_a_cpu(script, tmp_path, whole):
    if not whole: pytest.skip('at night, with --all')
    script('benchmarks/on_gpu.py', '--small', '--device', 'cpu', '--out', tmp_path/'on_cpu')
    assert sorted(p.name for p in tmp_path.iterdir())==['on_cpu.json', 'on_cpu.txt']

def test_estimates_beside_a_trace(script):
    "What ran on a GPU has the products that an estimate has; the table is of a file in the repository"
    said = script('-W', 'ignore', '-m', 'benchmarks.trace_estimates', 'nbs/data/h100_bert_small.json.gz')
    assert said.count('8,192,059,392')==2

def test_trace_cost(tmp_path, whole):
    "Every step of a long trace is counted, and the result says what was asked, and when"
    if not whole: pytest.skip('at night, with --all')
    copy, now = copied(tmp_path), datetime.now(timezone.utc)
    within(copy, sys.executable, '-m', 'benchmarks.trace_cost', '--mb', '2')
    r = json.loads((copy/'benchmarks'/'results'/'trace_cost.json').read_text(encoding='utf-8'))
    assert (r['script'], r['arguments'], r['fasterbench']['commit'])==('benchmarks.trace_cost', dict(mb='2'), None)   # the copy has no history
    assert 0<=(datetime.fromisoformat(r['date']).replace(tzinfo=timezone.utc) - now).total_seconds() + 60<600

def test_attack(script, whole):
    "Nothing is different after interrupts and errors at drawn places"
    if not whole: pytest.skip('at night, with --all')
    script('-W', 'ignore', '-m', 'benchmarks.checks.attack', '--sample', '400', '--verbose')

@pytest.mark.skipif(not shutil.which('gcc'), reason='there is no gcc here')
def test_multiply_adds_in_c(tmp_path):
    "The kernels that ceilings are held against compile without a warning and give the right answers"
    built = subprocess.run(['gcc', '-O3', '-Wall', '-Werror', '-march=native', '-fopenmp', 'benchmarks/shared/fma.c', '-o', tmp_path/'fma'],
        cwd=top, capture_output=True, text=True)
    assert built.returncode==0, built.stderr
    done = subprocess.run([tmp_path/'fma', '0.01'], capture_output=True, text=True)
    assert done.returncode==0 and 'float32' in done.stdout, done.stdout + done.stderr

def large(n):
    "A measured result of `n` rows with 20 samples each"
    import torch
    from fasterbench.results import Roofline
    from fasterbench.roofline import HardwarePeaks, RooflinePoint
    from fasterbench.records.grouping import Totals
    from fasterbench.base.system import Timing
    rng, peaks, rows = random.Random(0), HardwarePeaks(1e12, 1e11), []
    for i in range(n):
        flops = rng.randrange(10**5, 10**9)
        nbytes = flops//rng.choice((1, 4, 40))
        roof_s = max(flops/peaks.peak_flops, nbytes/peaks.peak_bandwidth)
        samples = [roof_s*rng.uniform(1.2, 4) for _ in range(20)]
        bound = 'compute' if flops/nbytes>=peaks.ridge_point else 'memory'
        rows.append(RooflinePoint(f'layers.{i}.mlp.up', 'Linear', flops, nbytes, (s := sum(samples)/20), flops/nbytes, flops/s/1e9, bound,
            100*roof_s/s, 1, flops, torch.float32, 0.01, 10**6, roof_s, nbytes, 'float32', roof_s, ran=20, samples=samples))
    forward = Timing([sum(o) for o in zip(*(r.samples for r in rows))])
    sums = [sum(getattr(r, k) for r in rows) for k in ('flops', 'matmul_flops', 'bytes_moved', 'roof_time_s')]
    totals = Totals(forward, Timing([0.]*20), sum(r.time_s for r in rows), 0., *sums, True, forward, 0.1, n)
    return Roofline(rows, 'measured', peaks, totals, dict(model='Large', device='cpu', device_name='cpu', dtype='float32', threads=1))

def views(r, folder):
    "The name of each view and each file of a result, and what makes it"
    from fasterbench.plot import plot_roofline
    from fasterbench.views.tables import row_table
    return {'summary_table': lambda: row_table(r).text(), 'save as JSON': lambda: r.save(folder/'large.json'),
        'load JSON': lambda: type(r).load(folder/'large.json'), 'save as HTML': lambda: r.save(folder/'large.html'),
        'plot_roofline': lambda: plot_roofline(r, r.peaks)}

def fastest(f, rounds=3):
    "Seconds of the fastest call"
    def once(): start = time.perf_counter(); f(); return time.perf_counter() - start
    return min(once() for _ in range(rounds))

def test_large_results(whole, tmp_path):
    "What views and files of 50 times as many rows take is about 50 times as much, and not its square"
    if not whole: pytest.skip('at night, with --all')
    few, many = ({k: fastest(f) for k,f in views(large(n), tmp_path).items()} for n in (200, 10_000))
    assert not {k: many[k]/few[k] for k in few if many[k]>200*few[k]}
