"""Scripts of the benchmarks run, and write what pages read."""
import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS='1', PYTHONWARNINGS='ignore',
                   PYTHONPATH=f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


def start(script, *options):
    command = sys.executable, ROOT/'benchmarks'/f'{script}.py', *options
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)


def run(script, folder, *options):
    """The JSON that a script writes of a quick run."""
    done = start(script, '--quick', '--out', folder, *options)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    written, = folder.glob('*.json')
    return json.loads(written.read_text(encoding='utf-8'))


def test_no_published_pass_is_below_its_bound(tmp_path):
    result = run('bounds', tmp_path)
    assert result['quick'] and result['question'].endswith('?')
    assert {'machine', 'torch', 'date', 'load', 'threads'} <= result.keys()
    assert result['figures']['passes'] > 50
    assert result['figures']['passes below the least time'] == 0


def test_passes_are_forecast_by_others(tmp_path):
    rows = run('forecasts', tmp_path)['tables']['accuracy']
    assert {(row['runs'], row['left out']) for row in rows} >= {('training, float32', 'model'), ('training, float32', 'device')}
    assert all(row['mean error %'] < 15 for row in rows if row['runs'] != 'tables')


@pytest.fixture(scope='module')
def language_models(tmp_path_factory):
    return run('language_models', tmp_path_factory.mktemp('language_models'))


def test_no_published_run_is_below_its_bound(language_models):
    tables = language_models['tables']
    number = {'training': 67, 'decoding': 35, 'vision': 2}   # at least
    assert all(len(tables[name]) >= n for name, n in number.items())
    ratios = [row['least / published'] for name in number for row in tables[name]]
    assert 0 < min(ratios) and max(ratios) < 1
    assert all(0.1 < row['least / published'] < 0.9 for row in tables['training'])
    assert language_models['figures']['below their bound'] == 0


def test_runs_that_forecast_others_fit(language_models):
    training = language_models['tables']['training']
    assert len([row for row in training if row['clean']]) >= 58
    assert [row['model'] for row in training if row['clean'] and not row['fits']] == []
    uncounted = re.compile('not counted|not stated|does not since')
    with open(ROOT/'benchmarks'/'data'/'training_runs.csv', newline='', encoding='utf-8') as file:
        notes = [run['note'] for run in csv.DictReader(file) if run['clean'] == '1']
    assert [note for note in notes if uncounted.search(note)] == []


def test_utilization_is_what_sources_claim(language_models):
    claims = [row for row in language_models['tables']['training'] if row['claimed %']]
    far = [row for row in claims if abs(row['MFU as claimed %'] - row['claimed %']) >= 0.5]
    # a rounded claim, other heads, other FLOPs of a token: the notes of these runs say which
    assert [(row['model'], row['device'], round(row['claimed %'], 1)) for row in far] == [
        ('Llama-3.1-8B', 'H100-SXM', 33), ('GPT-OSS-20B', 'H100-SXM', 28.2),
        ('MPT-7B 64k', 'A100-SXM-80GB', 47), ('DeepSeek-V3', 'GB200', 25.8),
        ('GPT-OSS-120B', 'GB300', 21), ('GPT-OSS-120B', 'H100-SXM', 16), ('GPT-OSS-120B', 'H100-SXM', 23.3)]
    assert len(claims) >= 56
    assert all(row['attention'] in ('dense', 'causal') and row['other fits'] in (True, False) for row in claims)


def test_language_models_are_forecast_by_others(language_models):
    tables = language_models['tables']
    errors = {(row['runs'], row['left out']): row['mean error %'] for row in tables['accuracy']}
    assert errors['training', 'model'] < 20 and errors['training', 'device'] < 22
    assert errors['compiled decoding', 'model'] < 13 and errors['compiled decoding', 'device'] < 13
    for row in tables['training'] + tables['decoding']:
        for key in ('model', 'device'):
            ends, inside = row[f'80 % interval, {key} left out'], row[f'inside, {key} left out']
            assert (ends is None) == (inside is None)
            if ends: assert inside == (ends[0] <= row['published s'] <= ends[1]) and row['least s'] <= ends[0]


def test_a_processor_has_no_forecast(language_models):
    step, passed = language_models['tables']['vision']
    assert step['forecast s'] and step['why none'] is None
    assert passed['forecast s'] is None and 'no run on a processor was published' in passed['why none']


def test_the_script_for_a_gpu_runs_without_one(tmp_path):
    result = run('on_gpu', tmp_path, '--device', 'cpu', '--only', 'clock,rows,attention')
    assert [row['status'] for row in result['tables']['checks']] == ['ok']*3


@pytest.mark.parametrize('script, options, words', [
    ('on_gpu', '--quick --device cpu --only clokc,rows', 'there is no clokc, but clock, peaks'),
    ('forecasts', '--quick --ship', '--ship takes all runs')])
def test_scripts_refuse_what_they_can_not_do(script, options, words):
    done = start(script, *options.split())
    assert done.returncode == 2 and words in done.stderr


def test_an_interval_takes_nine_ratios(monkeypatch):
    monkeypatch.syspath_prepend(ROOT/'benchmarks')
    from common import interval
    assert interval([9, 1, 2, 3, 4, 5, 6, 7, 8]) == (1, 9)   # one of ten lies below, one above
    with pytest.raises(ValueError, match='8 ratios are too few for an interval of 80%'): interval([1.]*8)


def test_the_table_of_answers_has_every_script():
    lines = start('common').stdout.splitlines()[2:]
    scripts = sorted({line.split('`')[1] for line in lines})
    assert scripts == sorted(path.name for path in (ROOT/'benchmarks').glob('*.py') if path.name != 'common.py')
    results = len([*(ROOT/'benchmarks'/'results').glob('*.json')])
    assert len(lines) == results + sum(line.endswith('| not run |') for line in lines)


def test_the_readme_names_all_scripts():
    text = (ROOT/'benchmarks'/'README.md').read_text(encoding='utf-8')
    scripts = {path.stem for path in (ROOT/'benchmarks').glob('*.py')} - {'common'}
    assert {name for name in scripts if f'`{name}.py`' in text} == scripts
    assert len(scripts) <= 11
