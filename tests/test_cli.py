"""The commands as they are typed: what they print, write and refuse."""
import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import torch

import fasterbench
from fasterbench import HardwarePeaks, Roofline, Sweep, cli, options

NET = '''
import torch
from torch import nn

def build():
    print('building')
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)), torch.rand(8, 64)

def broken():
    return {}['layers']
'''
KERNELS = '''==PROF== Connected to process 42
"ID","Kernel Name","Device","Metric Name","Metric Unit","Metric Value"
"0","void gemm<float>(float *)","0","Compute (SM) Throughput","%","93.5"
"0","void gemm<float>(float *)","0","Memory Throughput","%","40.0"
"0","void gemm<float>(float *)","0","Duration","us","120"
"0","void gemm<float>(float *)","0","smsp__sass_thread_inst_executed_op_ffma_pred_on.sum","inst","1,000,000,000"
"0","void gemm<float>(float *)","0","dram__bytes.sum","Mbyte","12"
'''
LLAMA = dict(model_type='llama', hidden_size=64, intermediate_size=128, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
EXAMPLES = [example for _, examples in cli.COMMANDS.values() for example in examples]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a model and the peaks of a machine: 100 GFLOP/s, 50 GB/s."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('COLUMNS', '120')
    (tmp_path/'net.py').write_text(NET)
    (tmp_path/'kernels.csv').write_text(KERNELS)
    (tmp_path/'list.csv').write_text('name,GFLOPs,MB,time_us\nmatmul,2,12,400\nadd,0.001,12,\n')
    (tmp_path/'llama').mkdir()
    (tmp_path/'llama'/'config.json').write_text(json.dumps(LLAMA))
    HardwarePeaks(1e11, 5e10, memory_bytes=2**34, device_name='here').save('peaks.json')
    return tmp_path


@pytest.fixture
def run(capsys):
    """A command that has to succeed → what it prints."""
    def printed(command):
        cli.main(shlex.split(command))
        return capsys.readouterr().out
    return printed


@pytest.fixture
def fails(capsys):
    """A command that has to fail → its exit status and what it says on stderr."""
    def said(command):
        with pytest.raises(SystemExit) as end: cli.main(shlex.split(command))
        return end.value.code, capsys.readouterr().err
    return said


def test_help_comes_without_torch():
    code = '''
import sys
from fasterbench.cli import main
for argv in [], ['--help'], ['roofline', '--help'], ['peaks', '--help']:
    try: main(argv)
    except SystemExit as end: assert end.code == 0
assert 'torch' not in sys.modules'''
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'fasterbench roofline resnet18' in done.stdout


@pytest.mark.parametrize('command', ['count', 'compare', 'show', 'sweep', 'estimate'])
def test_help_names_options_that_the_command_has(capsys, command):
    with pytest.raises(SystemExit): cli.main([command, '--help'])
    shown = capsys.readouterr().out
    own = {*re.findall(r'--[a-z]\w*(?:-\w+)*', shown.partition('\n\n')[0])} | {'--help'}
    assert {*re.findall(r'--[a-z]\w*(?:-\w+)*', shown)} <= own


def test_module_runs_as_a_command(folder):
    command = [sys.executable, '-m', 'fasterbench.cli', 'count', 'net.py:build']
    path = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run(command, capture_output=True, text=True, env=path)
    assert done.returncode == 0, done.stderr
    parameters = 64*256 + 256 + 256*10 + 10
    assert f'{parameters:,} parameters' in ' '.join(done.stdout.split())
    assert done.stderr == 'building\n'   # nothing else: stderr is no terminal


def test_names_of_the_package_are_there():
    assert all(getattr(fasterbench, name) is not None for name in fasterbench.__all__)
    assert {*fasterbench.__all__} <= {*dir(fasterbench)}
    with pytest.raises(AttributeError, match="no attribute 'suggest'"): fasterbench.suggest


@pytest.mark.parametrize('example', EXAMPLES)
def test_every_example_is_understood(example):
    assert cli.parser().parse_args(shlex.split(example)).run.__name__ == example.split()[0]


CHEAP = 'count resnet', 'estimate', 'sweep resnet18', 'peaks --list', 'ncu', 'operations'


@pytest.mark.parametrize('example', [e for e in EXAMPLES if e.startswith(CHEAP)])
def test_cheap_examples_run(run, example):
    assert len(run(example).splitlines()) > 2


def test_count(run):
    text = run('count net.py:build --sort order')
    rows = [line.split()[:2] for line in text.splitlines() if 'Linear' in line]
    assert rows == [['0', 'Linear'], ['2', 'Linear']]
    assert run('count net.py:build --top 2').count('Linear') == 2   # the largest, not the first
    answer = json.loads(run('count net.py:build --json'))['answer']
    assert answer['matmul_flops'] == 2*8*(64*256 + 256*10)
    assert answer['params'] == 19_210 and 'time_s' not in answer and 'least_s' not in answer


def test_roofline_says_the_answer_first(run):
    files = '--out r.json --out r.csv --out r.md'
    text = run(f'roofline net.py:build --peaks peaks.json --steps 4 --plot {files}')
    assert text.splitlines()[0].startswith('net.py:build, forward pass: ')
    assert 'from 2 FLOP/B on' in text and text.endswith('saved r.json\nsaved r.csv\nsaved r.md\n')
    assert len(Roofline.load('r.json').totals.samples) == 4
    assert text.splitlines()[0] in run('show r.json')


def test_pages_have_the_figure_and_the_rows_of_the_table(run, folder):
    def page(command, name):
        assert run(f'{command} --out {name}').endswith(f'saved {name}\n')
        return (folder/name).read_text(encoding='utf-8')

    result = page('roofline net.py:build --peaks peaks.json --steps 4 --columns name,time_s --out r.json', 'r.html')
    rows = sorted(Roofline.load('r.json'), key=lambda row: -row.time_s)
    assert re.findall(r'<td class="n" data-v=([^>]*)>', result) == [repr(row.time_s) for row in rows]
    assert result.count('Plotly.newPlot') == 1 and len(result) < 1_300_000
    assert page('show r.json --by type', 'types.html').count('<tr data-label=') == 2
    assert 'no figure: a count has no peaks' in page('count net.py:build', 'count.html')
    assert 'ridge 2 FLOP' in page('show peaks.json', 'peaks.html')
    assert 'a comparison' in page('compare r.json r.json', 'same.html')


def test_training_step(run):
    step = '--train --optimizer adamw --clip 1 --autocast bf16 --accumulate 2'
    result = json.loads(run(f'roofline net.py:build {step} --peaks peaks.json --steps 4 --json'))
    assert {row['phase'] for row in result['rows']} == {'forward', 'backward', 'optimizer'}
    assert {'(loss)', '(clip)', '(optimizer)'} <= {row['name'] for row in result['rows']}
    products = 3*8*64*256 + 3*8*256*10 - 8*64*256   # no gradient of the sample
    assert result['answer']['matmul_flops'] == 2*2*products
    assert result['answer']['fits'] is True


def test_operations(run):
    text = run('roofline net.py:build --operations --peaks peaks.json --steps 4')
    operators = [line.split()[:2] for line in text.splitlines() if 'aten::' in line]
    assert ['0', 'aten::addmm'] in operators and ['1', 'aten::relu'] in operators


def test_estimate_of_one_device_has_rows(run):
    assert '(the model)' not in run('estimate net.py:build --peaks H100-SXM')
    rows = json.loads(run('estimate net.py:build --peaks H100-SXM --dtype bf16 --json'))['rows']
    assert [row['dtype'] for row in rows if row['matmul_flops']] == ['bfloat16', 'bfloat16']


def test_estimate_of_several_devices_has_a_line_for_each(run):
    command = 'estimate net.py:build --peaks peaks.json,H100-SXM --train'
    text = run(command)
    assert [line.split()[0] for line in text.splitlines()[4:6]] == ['here', 'H100-SXM']
    result = json.loads(run(f'{command} --json --columns device,roof_time_s'))
    assert [row['roof_time_s'] for row in result['rows']] == list(result['answer'].values())
    assert [*result['rows'][0]] == ['device', 'roof_time_s']


def test_language_model_at_work(run):
    llama = 'estimate llama --peaks H100-SXM'
    products = 2*(2*(64*64 + 2*64*32 + 64*64 + 3*64*128) + 64*100)   # of a token
    text = run(f'{llama} --at 1000 --context 99 --weights int8')
    assert text.startswith('1,000 tokens/s are ') and text.splitlines()[1].startswith('MBU ')
    assert 'a token each after 99 in the cache, bfloat16, weights in int8' in text
    answer = json.loads(run(f'{llama} --at 1000 --tokens 99 --json'))['answer']
    assert answer['flops'] == products + 2*2*100*4*(16 + 16)
    assert answer['tokens_per_s'] == 1000 < answer['most_tokens_per_s'] and answer['mbu'] < 1
    assert 'llama, prefill: at least ' in run(f'{llama} --prompt 2k')
    text = run(f'{llama},H200-SXM --prompt 2k --decode --mesh tp=2,dp=2 --batch 8')
    lines = ['4 × H100-SXM, prefill', '4 × H100-SXM, decode', '4 × H200-SXM, prefill',
             '4 × H200-SXM, decode']
    assert 'llama, prefill: 8 sequences' in text and 'llama, step of decoding: 8 sequences' in text
    assert [line.partition('  ')[0] for line in text.splitlines()[-4:]] == lines
    assert 'tp=2, dp=2; 4 devices, rows of one of them' in ' '.join(text.split())
    assert answer['of_likely_pct'] > answer['utilization_pct']
    assert ' % of the likely ' in ' '.join(run(f'{llama} --at 1000 --tokens 99').split())
    both = run(llama)
    assert [line.partition('  ')[0] for line in both.splitlines()[-2:]] == ['H100-SXM, prefill', 'H100-SXM, decode']
    rates = json.loads(run(f'{llama},H200-SXM --at 1000 --tokens 99 --json'))['answer']['measured']
    assert rates['H100-SXM'] == {key: answer[key] for key in rates['H100-SXM']}
    assert rates['H200-SXM']['mbu'] < rates['H100-SXM']['mbu']
    whole = json.loads(run('estimate llama --input input_ids=1,9:int64 --peaks peaks.json --json'))
    assert 'model.layers.0.mlp.up_proj' in [row['name'] for row in whole['rows']]


def test_devices_training_prices_and_likely_times_go_together(run):
    command = 'estimate resnet18 --batch 64 --train --peaks A100-PCIe-40GB,H100-SXM --likely --price 1.5,3'
    text = run(command)
    assert 'resnet18, training step: float32[64, 3, 224, 224]' in text
    assert '10 runs of 5 models on the A100-PCIe-40GB' in ' '.join(text.split())
    result = json.loads(run(f'{command} --json'))
    for row, price in zip(result['rows'], (1.5, 3)):
        assert row['roof_time_s'] < row['low_s'] < row['likely_s'] < row['high_s']
        assert row['cost'] == pytest.approx(price/3600*row['likely_s']/64*1e6)
    assert [*result['answer'].values()] == [row['likely_s'] for row in result['rows']]


def test_a_small_model_waits_for_its_launches(run):
    command = 'estimate net.py:build --dtype bf16 --peaks A100-SXM-80GB,H100-SXM --likely --price 1.5,3'
    rows = json.loads(run(f'{command} --json'))['rows']
    assert rows[0]['likely_s'] == rows[1]['likely_s']
    assert rows[0]['likely_device_s'] > rows[1]['likely_device_s']
    assert rows[0]['device_cost'] < rows[0]['cost']
    text = run(command)
    assert max(map(len, text.splitlines())) <= 120 and 'not shown in 120 characters: has' in text
    heading = next(line for line in text.splitlines() if 'least time' in line)
    assert 'device alone' in heading and 'alone, per 1M' in heading


def test_price_of_tokens(run):
    command = 'estimate llama/config.json --decode --mesh tp=2 --peaks H100-SXM,H200-SXM --price 3,4'
    for row, price in zip(json.loads(run(f'{command} --json'))['rows'], (3, 4)):
        assert row['cost'] == pytest.approx(2*price/3600*1e6/row['throughput'])


def test_training_a_language_model(run):
    command = ('estimate llama --train --batch 8 --tokens 64 --mesh fsdp=2,tp=2 --recompute full '
               '--autocast bf16 --accumulate 2 --optimizer sgd --peaks H100-SXM')
    answer = json.loads(run(f'{command} --at 1e5 --json'))['answer']
    assert answer['mfu_causal'] < answer['mfu_dense'] and answer['hfu'] > answer['mfu_causal']
    assert answer['most_tokens_per_s'] == pytest.approx(8*64/answer['least_s'])
    text = ' '.join(run(command).split())
    assert ('8 sequences of 64 tokens, bfloat16 with float32 masters, sgd; tp=2, fsdp=2, '
            '2 micro-batches, full recomputation; 4 devices') in text
    assert answer['eager_least_s'] > answer['least_s']
    fitting = json.loads(run('estimate llama --train --batch 8 --mesh fit --peaks L4 --json'))
    assert fitting['answer']['fits'] and not fitting['answer']['tight']
    assert 'masters' not in run('estimate llama --train --batch 8 --dtype bf16 --peaks H100-SXM')
    rows = json.loads(run(f'{command},H200-SXM --price 3,4 --json'))['rows']
    assert rows[0]['cost'] == pytest.approx(4*3/3600*1e6/rows[0]['throughput'])


def test_likely_times_and_prices_of_a_language_model(run):
    command = 'estimate llama --decode --peaks L4,A100-SXM-80GB --price 0.8,1.8'
    least = json.loads(run(f'{command} --json'))['rows']
    likely = json.loads(run(f'{command} --likely --json'))['rows']
    for before, row, price in zip(least, likely, (0.8, 1.8)):
        assert before['likely_s'] is None and row['roof_time_s'] == before['roof_time_s']
        assert row['cost'] > before['cost']
        assert row['cost'] == pytest.approx(price/3600*row['likely_s']*1e6)
        assert row['low_s'] < row['likely_s'] < row['high_s']
    assert 'cheapest  ' in run(command) and ' at likely times (0.' in run(f'{command} --likely')
    step = 'estimate llama --train --batch 8 --tokens 64 --mesh fsdp=8 --peaks H100-SXM --likely'
    answer = json.loads(run(f'{step} --json'))['answer']
    assert answer['least_s'] <= answer['likely_interval'][0] < answer['likely_s']
    text = ' '.join(run(step).split())
    assert ' published runs of training, ' in text and ' on the H100-SXM, ' in text
    text = ' '.join(run('estimate llama --prompt 64 --peaks H100-SXM --likely').split())
    assert 'not known: no run of prefill in bfloat16 was published' in text


def test_likely_time_of_one_device(run):
    answer = json.loads(run('estimate resnet18 --batch 64 --peaks T4 --likely --json'))['answer']
    low, high = answer['likely_interval']
    assert answer['least_s'] < low < answer['likely_s'] < high
    assert ', 4 of 5 of ' in ' '.join(run('estimate resnet18 --batch 64 --peaks T4 --likely').split())
    assert 'no run on a processor' in run('estimate net.py:build --peaks peaks.json --likely')


def test_sweep(run):
    text = run('sweep net.py:build --batch 1,8 --peaks peaks.json --steps 2 --out s.json')
    assert text.startswith('net.py:build, forward pass\n')
    assert Sweep.load('s.json').values == [1, 8]
    assert text.splitlines()[5] in run('show s.json')
    step = 'sweep net.py:build --dtype float32,bfloat16 --estimate --peaks H100-SXM --train --json'
    rows = json.loads(run(step))['rows']
    assert [row['dtype'] for row in rows] == ['float32', 'bfloat16']
    assert rows[1]['roof_time_s'] < rows[0]['roof_time_s'] and rows[0]['needed_bytes'] > 0


@pytest.mark.parametrize('command', [
    'roofline net.py:build --steps 2', 'sweep net.py:build --dtype float32,bfloat16 --steps 2',
    'roofline net.py:build --beside net.py:build --steps 2', 'sweep net.py:build --batch 1,2 --dtype bf16 --estimate'])
def test_options_stay_as_they_were_read(command):
    args = cli.parser().parse_args(shlex.split(f'{command} --peaks peaks.json'))
    before = dict(vars(args))
    args.run(args)
    assert vars(args) == before


@pytest.mark.parametrize('command', ['show peaks.json', 'operations list.csv'])
def test_files_are_there_when_nobody_reads_what_is_printed(folder, command):
    command = [sys.executable, '-u', '-m', 'fasterbench.cli', *command.split(), '--out', 'o.csv']
    path = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    end, closed = os.pipe()
    os.close(end)
    done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, env=path)
    os.close(closed)
    assert (done.returncode, done.stderr) == (0, b'') and (folder/'o.csv').exists()


def test_sweep_shows_what_is_known_before_a_failure(capsys):
    with pytest.raises(SystemExit):
        cli.main('sweep vit_b_32 --size 224,256 --estimate --peaks H100-SXM'.split())
    said = capsys.readouterr()
    assert [line for line in said.out.splitlines() if line.split()[:1] == ['224']]
    assert 'SweepError: resolution 256: ' in said.err


def test_columns_and_groups_are_for_files_too(run, folder):
    run('count net.py:build --by type --columns name,flops --sort name --out c.csv --out c.md')
    flops = 2*8*(64*256 + 256*10)
    assert (folder/'c.csv').read_text() == f'name,flops\nLinear,{flops}\nReLU,{8*256}\n'
    assert (folder/'c.md').read_text().splitlines()[0].split() == ['|', 'name', '|', 'FLOPs', '|']


def test_ncu(run, folder):
    text = run('ncu kernels.csv --out k.csv --out k.json')
    assert text.splitlines()[0] == 'kernels.csv, 1 kernel, 1 launch: 120 µs.'
    assert 'compute, at the roofline' in text and text.endswith('saved k.csv\nsaved k.json\n')
    assert 'void gemm<float>(float *)' in (folder/'k.csv').read_text()
    answer = json.loads(run('ncu kernels.csv --json'))['answer']
    assert answer == dict(time_s=pytest.approx(120e-6), kernels=1, launches=1)


def test_ncu_under_a_roof(run):
    text = run('ncu kernels.csv --peaks H100-SXM --out k.json')
    assert text.startswith('kernels.csv, 1 kernel: 120 µs; the roof allows ')
    row = Roofline.load('k.json')[0]
    assert (row.flops, row.bytes_moved, row.bound) == (2*10**9, 12e6, 'compute')
    answer = json.loads(run('ncu kernels.csv --peaks H100-SXM --json'))['answer']
    assert answer['flops'] == 2*10**9 and 'params' not in answer


def test_kernels_without_a_roof_have_their_speeds_of_light(run, folder):
    uncounted = KERNELS.replace('sass_thread_inst_executed', 'another_counter')
    (folder/'uncounted.csv').write_text(uncounted)
    text = run('ncu uncounted.csv --peaks H100-SXM')
    assert 'compute %' in text and 'compute, at the roofline' in text
    assert 'H100-SXM: memory 3.35 TB/s' in text
    assert 'compute %' not in run('ncu kernels.csv --peaks H100-SXM')


def test_operations_of_a_list(run):
    text = run('operations list.csv --peaks peaks.json --out list.json --out list.md')
    assert text.splitlines()[0].startswith('list.csv, 2 operations: at least 20.2 ms')
    assert 'parameters' not in text and '400 µs in 1 of 2 rows' in text
    assert [row.name for row in Roofline.load('list.json')] == ['matmul', 'add']
    assert text.splitlines()[0] == run('show list.json').splitlines()[0]
    answer = json.loads(run('operations list.csv --json'))['answer']
    assert answer == dict(flops=2_001_000_000, bytes_moved=24e6)


def test_what_a_model_prints_is_no_result(run):
    assert json.loads(run('estimate net.py:build --peaks peaks.json --json'))


@pytest.mark.parametrize('command, words', [
    ('estimate llama --peaks H100-SXM --decode', 'a language model needs transformers'),
    ('count llama', 'llama/config.json needs transformers'),
    ('count resnet18', "the model 'resnet18' needs torchvision")])
def test_a_missing_package_is_named(fails, monkeypatch, command, words):
    monkeypatch.setattr('importlib.util.find_spec', lambda name, *package: None)
    package = words.rpartition(' ')[2]
    assert fails(command) == (2, f'fasterbench: error: {words}, which is not installed: pip install {package}\n')


def test_a_mistyped_option_is_refused_below_the_usage_of_its_command(fails):
    status, error = fails('roofline net.py:build --trian')
    assert status == 2 and error.startswith('usage: fasterbench roofline ')
    assert 'fasterbench roofline: error: not known: --trian; near to it: --train' in error


def test_peaks(run):
    text = run('show peaks.json')
    assert '100 GFLOP/s' in text and '50.0 GB/s' in text
    assert json.loads(run('show peaks.json --json'))['answer']['ridge_point'] == 2
    assert 'H100-SXM' in run('peaks --list --columns device_name,date')


@pytest.mark.parametrize('command, words', {
    'count resnet19': 'near to it: ',
    'count net.py:broken': "net.py:broken raised KeyError: 'layers'",
    'count net.py:build --plot': '--plot: without peaks there is no roof',
    'count nowhere.json': "there is no file 'nowhere.json'",
    'count net.py:build --columns flop': "no column 'flop'",
    'count net.py:build --by blok': "by='blok'",
    'count net.py:build --input 3x4': "input '3x4' is not a shape such as 1,3,224,224",
    'roofline net.py:build --optimizer adamw': '--optimizer needs --train',
    'roofline net.py:build --train --optimizer adamx': 'adamx',
    'roofline net.py:build --device cpu:cpu': 'cpu:cpu',
    'estimate net.py:build --peaks H1000': 'H1000',
    'estimate net.py:build --peaks H100-SXM,peaks.json --plot': '--by and --plot are of the rows',
    'ncu net.py': 'net.py: no line names the column "Kernel Name"',
    'ncu kernels.csv --plot': '--by and --plot are of rows under --peaks',
    'ncu kernels.csv --columns name': "no column 'name'",
    'operations net.py --peaks peaks.json': "a line has more cells than the header: ",
    'operations list.csv --peaks peaks.json --dtype bf16': "matmul: dtype='bfloat16', and the peaks have float32",
    'estimate llama --peaks H100-SXM --decode --train': '--decode does not go with --train',
    'roofline net.py:build --beside net.py:build --plot': '--beside does not go with --plot',
    'roofline net.py:build --fail-slower 10': '--fail-slower needs --against or --beside',
    'estimate net.py:build --peaks H100-SXM --decode': 'is no config.json of a language model',
    'estimate llama --peaks H100-SXM --mesh tp=3': 'tp=3 does not divide 4 heads',
    'estimate llama --peaks H100-SXM --mesh tp': "mesh='tp' is no mesh such as",
    'estimate llama --peaks H100-SXM --mesh 8': "not all are a name, = and a number",
    'estimate llama --peaks H100-SXM --recompute full': '--recompute needs --train',
    'estimate llama --peaks H100-SXM --train --mesh dp=2 --clip 1': '--mesh does not go with --clip',
    'estimate llama --peaks H100-SXM --train --batch 3 --mesh dp=2': 'batch=3 is not divisible by 2, the parts of dp=2 with',
    'estimate llama --peaks H100-SXM --train --optimizer lion': "optimizer='lion' is none of adamw",
    'estimate llama --peaks H100-SXM --decode --weights int3': "weights='int3'",
    'estimate net.py:build --peaks H100-SXM,T4 --price 3': '--price is given for 1 of 2 devices',
    'sweep net.py:build --dtype float16,half': "dtype=['float16', 'float16']: two of the values are equal",
    'sweep net.py:build --batch 2': 'here none has several',
    'sweep net.py:build --batch 1,2 --tokens 3,4': 'here --batch and --tokens has several',
    'compare net.py:build net.py:build': 'compared by `fasterbench roofline net.py:build --beside',
    'estimate nowhere.json --peaks L4,A100,H100': "'A100' is several devices; near are A100-SXM-40GB, ",
    'estimate nowhere.json --decode --peaks L4,A100,H100': "; 'H100' is several devices; near are H100-SXM, ",
    'operations peaks.json': "no flops and no bytes in operation 0: {'format': 'fasterbench HardwarePeaks",
    'operations lsit.csv': "there is no file 'lsit.csv'; near to it: list.csv",
    'trace lsit.csv': "there is no file 'lsit.csv'; near to it: list.csv",
    'show peaks.jsn': "there is no file 'peaks.jsn'; near to it: peaks.json",
    'show net.py': 'net.py'}.items())
def test_failures_are_one_line(fails, command, words):
    status, error = fails(command)
    assert status == 2
    said = [line for line in error.splitlines() if line.startswith('fasterbench: ')]
    assert len(said) == 1 and words in said[0]
    assert 'Traceback' not in error
    assert 'Traceback' in fails(f'{command} --traceback')[1]


@pytest.mark.parametrize('command, words', {
    'count no.py:f --out rows.xls': "'rows.xls' ends with none of .json, .csv, .md",
    'count no.py:f --out nowhere/rows.csv': "there is no folder 'nowhere'",
    'count no.py:f --batch many': "'many' is no whole number",
    'estimate no.py:f --peaks T4 --price 0': "'0' is no number above 0",
    'estimate no.py:f': '--peaks'}.items())
def test_options_are_looked_at_before_the_model(fails, command, words):
    status, error = fails(command)
    assert status == 2 and words in error and 'no.py' not in error


def test_interrupted(fails, monkeypatch):
    def interrupt(*args, **options): raise KeyboardInterrupt
    monkeypatch.setattr('fasterbench.models.load_model', interrupt)
    assert fails('count net.py:build') == (130, 'fasterbench: interrupted\n')


def test_a_terminal_sees_what_is_being_done(capsys, monkeypatch):
    monkeypatch.setattr('sys.stderr.isatty', lambda: True)
    with options.doing('counting'): print('of a model')
    assert capsys.readouterr() == ('', 'counting …of a model\n\r\033[K')


def test_threads_are_those_asked_for(run):
    before = torch.get_num_threads()
    try: run('roofline net.py:build --threads 2 --peaks peaks.json --steps 1 --out r.json')
    finally: torch.set_num_threads(before)
    assert Roofline.load('r.json').about['threads'] == 2
