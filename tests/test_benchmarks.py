"The scripts that need another machine, or hours, run small on this one"
import shutil, subprocess

import pytest
from notebooks import top

def test_gpu_script_runs_on_a_cpu(script, tmp_path):
    script('benchmarks/on_gpu.py', '--small', '--device', 'cpu', '--out', tmp_path/'on_cpu')
    assert sorted(p.name for p in tmp_path.iterdir())==['on_cpu.json', 'on_cpu.txt']

def test_attack(script, whole):
    "Nothing is different after interrupts and errors at drawn places"
    script('-W', 'ignore', 'benchmarks/attack.py', '--sample', '400' if whole else '2', '--verbose')

@pytest.mark.skipif(not shutil.which('gcc'), reason='there is no gcc here')
def test_multiply_adds_in_c(tmp_path):
    "The kernels that ceilings are held against compile without a warning and give the right answers"
    built = subprocess.run(['gcc', '-O3', '-Wall', '-Werror', '-march=native', '-fopenmp', 'benchmarks/fma.c', '-o', tmp_path/'fma'],
        cwd=top, capture_output=True, text=True)
    assert built.returncode==0, built.stderr
    done = subprocess.run([tmp_path/'fma', '0.01'], capture_output=True, text=True)
    assert done.returncode==0 and 'float32' in done.stdout, done.stdout + done.stderr
