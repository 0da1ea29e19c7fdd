"""Scripts of the benchmarks run, and write what pages read."""
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS='1', PYTHONWARNINGS='ignore',
                   PYTHONPATH=f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


def run(script, folder, *options):
    """The JSON that a script writes of a quick run."""
    command = sys.executable, ROOT/'benchmarks'/f'{script}.py', '--quick', '--out', folder, *options
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    written, = folder.glob('*.json')
    return json.loads(written.read_text(encoding='utf-8'))


def test_no_published_run_is_below_its_bound(tmp_path):
    result = run('bounds', tmp_path)
    assert result['quick'] and result['question'].endswith('?')
    assert {'machine', 'torch', 'date', 'load', 'threads'} <= result.keys()
    assert result['figures']['passes'] > 50
    assert result['figures']['passes below the least time'] == 0
    assert result['figures']['decoding runs below'] == 0


def test_the_script_for_a_gpu_runs_without_one(tmp_path):
    result = run('on_gpu', tmp_path, '--device', 'cpu', '--only', 'clock,rows,attention')
    assert [row['status'] for row in result['tables']['checks']] == ['ok']*3


def test_the_readme_names_all_scripts():
    text = (ROOT/'benchmarks'/'README.md').read_text(encoding='utf-8')
    scripts = {path.stem for path in (ROOT/'benchmarks').glob('*.py')} - {'common'}
    assert {name for name in scripts if f'`{name}.py`' in text} == scripts
    assert len(scripts) <= 10
