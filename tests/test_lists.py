"""Lists of operations and of kernels: exports of Nsight Compute, hierarchical roofs, KernelBench."""
import gzip
import os
import random
import textwrap
from pathlib import Path

import pytest
import torch

from fasterbench import HardwarePeaks, least_time, load_model, read_ncu
from fasterbench.ncu import (COMPUTE, DRAM, DURATION, MEMORY, Kernel, by_kernel, rows_of_kernels,
                             sol_answer, speed_of_light)

SHARED = Path(os.environ.get('FASTERBENCH_SHARED', Path(__file__).parents[2]/'shared'))


# Nsight Compute

def test_what_ncu_printed_for_a_product_in_fp8():
    """Superbenchmark's export: Nsight itself printed 23.59 %, 21.68 %, 0.74 % and 406 240 ns."""
    path = SHARED/'ncu'/'cublaslt_sm100_details.log'
    if not path.exists(): pytest.skip(f'there is no {path.name}')
    kernel, = read_ncu(path)
    assert kernel.name.endswith('bias_f16_relu_aux_scalemax') and kernel.calls == 1
    assert kernel.time_s == pytest.approx(406_240e-9)
    assert [kernel.metrics[m] for m in (COMPUTE, MEMORY, DRAM[0])] == [23.59, 21.68, 0.74]
    table = speed_of_light([kernel])
    assert table.records()[0]['bottleneck'] == 'underutilized'
    assert '100 % near neither limit' in sol_answer(table)


METRICS = {   # of a launch: name on the page of details, or of the metric → unit, text, value
    ('Compute (SM) Throughput', COMPUTE): ('%', '8.50', 8.5),
    ('Memory Throughput', MEMORY): ('%', '91.20', 91.2),
    ('DRAM Throughput', DRAM[0]): ('%', '91.20', 91.2),
    ('Duration', DURATION): ('us', '1,065.90', 1065.9e-6)}


def details(launches: int, unit: str = 'us') -> str:
    """The page of details, with rules, metrics of other sections and lines of the program."""
    header = ('"ID","Process ID","Kernel Name","Device","Section Name","Metric Name",'
              '"Metric Unit","Metric Value","Rule Name","Rule Description"')
    lines = ['==PROF== Connected to process 42', 'epoch 1: 3.5', header]
    for i in range(launches):
        launch = f'"{i}","42","axpy<float>(int, float *)","0"'
        lines += [f'{launch},"Speed","{name}","{u}","{text}","",""'
                  for (name, _), (u, text, _) in METRICS.items()]
        lines += [f'{launch},"Speed","","","","SOLBottleneck","uses ""91.2 %"" of it,', 'see below"',
                  f'{launch},"Memory","Memory Throughput","Tbyte/second","3.06"', 'epoch 2']
    return '\n'.join([*lines, '==PROF== Disconnected from process 42', ''])


def raw(launches: int) -> str:
    """The page of raw metrics."""
    names = [metric for _, metric in METRICS]
    lines = ['==PROF== Connected to process 42',
             ','.join(f'"{k}"' for k in ('ID', 'Process ID', 'Kernel Name', 'Device', *names)),
             ','.join(f'"{k}"' for k in ('', '', '', '', *(u for u, _, _ in METRICS.values())))]
    for i in range(launches):
        texts = [text for _, text, _ in METRICS.values()]
        lines.append(','.join(f'"{k}"' for k in (i, 42, 'axpy<float>(int, float *)', 0, *texts)))
    return '\n'.join([*lines, ''])


@pytest.mark.parametrize('page', [details, raw])
@pytest.mark.parametrize('pack', [str.encode, lambda text: gzip.compress(text.encode()),
                                  lambda text: text.replace('\n', '\r\n').encode('utf-16')])
def test_pages_say_the_same(tmp_path, page, pack):
    (tmp_path/'k.csv').write_bytes(pack(page(3)))
    launches = read_ncu(tmp_path/'k.csv')
    assert [k.name for k in launches] == ['axpy<float>(int, float *)']*3
    for kernel in launches:
        found = [kernel.metrics[metric] for _, metric in METRICS]
        assert found == pytest.approx([value for _, _, value in METRICS.values()])
    kernel, = by_kernel(launches)
    assert kernel.calls == 3 and kernel.time_s == pytest.approx(3*1065.9e-6)
    assert kernel.metrics[MEMORY] == pytest.approx(91.2)


def test_sums_and_rates_are_one_count(tmp_path):
    """The same launch in which counters are sums, rates by second, and rates by cycle."""
    ffma, seconds, clock = 'smsp__sass_thread_inst_executed_op_ffma_pred_on', 2e-3, 1.5e9
    def row(flops, moved, *more):
        lines = [(DURATION, 'msecond', '2'), flops, moved, *more]
        return [f'"0","k","{name}","{unit}","{text}"' for name, unit, text in lines]
    header = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
    per_cycle = 6e9/2/seconds/clock
    cases = [row((f'{ffma}.sum', 'inst', '3,000,000,000'), ('dram__bytes.sum', 'Mbyte', '600')),
             row((f'{ffma}.sum.per_second', 'inst/nsecond', '1500'),
                 ('dram__bytes.sum.per_second', 'Gbyte/second', '300')),
             row((f'{ffma}.sum.per_cycle_elapsed', 'inst/cycle', f'{per_cycle}'),
                 ('dram__bytes_read.sum', 'Gbyte', '0.4'), ('dram__bytes_write.sum', 'Mbyte', '200'),
                 ('smsp__cycles_elapsed.avg.per_second', 'cycle/nsecond', '1.5'))]
    for lines in cases:
        (tmp_path/'k.csv').write_text('\n'.join([header, *lines]))
        found, = rows_of_kernels(read_ncu(tmp_path/'k.csv'))
        assert (found.flops, found.bytes_moved) == (6*10**9, pytest.approx(6e8))
        assert (found.dtype, found.time_s) == ('float32', pytest.approx(seconds))


def test_no_damage_gives_a_wrong_number(tmp_path):
    """One cell of a file in which sums are known is replaced: what is read is right, unknown or refused."""
    generator = random.Random(1)
    texts = ['n/a', '', 'nan', 'inf', '-5', '8,50', '1.234,5', '0,740', '(1, 1)', '12..5', '1e400', '∞']
    for _ in range(150):
        name = generator.choice([text for _, text, _ in METRICS.values()])
        odd = generator.choice(texts)
        page = generator.choice([details, raw])
        (tmp_path/'k.csv').write_text(page(1).replace(f'"{name}"', f'"{odd}"'))
        if ',' in odd and odd[0] != '(':
            with pytest.raises(ValueError, match='comma before its decimals'):
                read_ncu(tmp_path/'k.csv')
            continue
        kernel, = read_ncu(tmp_path/'k.csv')
        for (_, metric), (_, _, value) in METRICS.items():
            found = kernel.metrics[metric]
            assert isinstance(found, str) or found == pytest.approx(value), (odd, metric, found)
        line, = speed_of_light([kernel]).lines
        if kernel.metrics[MEMORY] == odd: assert f'{MEMORY}: {odd}' in line.warnings


# NERSC's kernel on a V100, with more and more work on the data it loads

INTENSITY = 2.584785579, 4.738878073, 6.892970567, 9.047063062, 11.08619259, 13.21154434   # FLOP/byte
RATES = 2085.756683, 3593.593112, 4381.739349, 4625.535516, 4599.764097, 4692.209405   # GFLOP/s
V100 = HardwarePeaks(7068.86e9, 828.758e9, device='cuda', dtype='float64', device_name='V100')
FLOPS = 10**13


def version(i: int) -> Kernel:
    """A kernel whose counters give NERSC's numbers, nw=1 … nw=6."""
    dfma = 'smsp__sass_thread_inst_executed_op_dfma_pred_on.sum'
    return Kernel(f'nw={i + 1}', {DURATION: FLOPS/RATES[i]/1e9, dfma: FLOPS/2,
                                  'dram__bytes.sum': FLOPS/INTENSITY[i]})


def test_kernels_of_nersc_under_their_roof():
    result = rows_of_kernels([version(i) for i in range(6)], V100)
    for i, row in enumerate(result):
        roof = min(7068.86e9, INTENSITY[i]*828.758e9)   # FLOP/s
        assert row.flops == FLOPS
        assert row.arithmetic_intensity == pytest.approx(INTENSITY[i])
        assert row.utilization_pct == pytest.approx(100e9*RATES[i]/roof)
        assert row.roof == ('DRAM' if roof < 7068.86e9 else 'float64')
        assert row.utilization_pct < 100


# KernelBench

PROBLEMS = {
    'gelu.py': ('''
        class Model(nn.Module):
            def forward(self, x): return torch.nn.functional.gelu(x @ x.T)
        def get_inputs(): return [torch.rand(512, 64)]
        def get_init_inputs(): return []''', 4*(512*64 + 512*512), 2*512*512*64),
    'loss.py': ('''
        class Model(nn.Module):
            def forward(self, scores, labels):
                return torch.nn.functional.cross_entropy(scores, labels)
        def get_inputs(): return [torch.rand(4096, 10), torch.randint(0, 10, (4096,))]
        def get_init_inputs(): return []''', 4*4096*10 + 8*4096 + 4, 0),
    'block.py': ('''
        class Model(nn.Module):
            def __init__(self, channels, groups):
                super().__init__()
                self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
                self.norm = nn.GroupNorm(groups, channels)
            def forward(self, x): return torch.relu(self.norm(self.conv(x))) + x
        def get_inputs(): return [torch.rand(2, 16, 32, 32)]
        def get_init_inputs(): return [16, 4]''',
        4*(2*2*16*32*32 + 16*16*9 + 2*16), 2*2*16*32*32*16*9)}


@pytest.mark.parametrize('name', PROBLEMS)
@pytest.mark.parametrize('device', [None, 'meta'])
def test_least_time_of_a_problem(tmp_path, name, device):
    """As one kernel it reads inputs and weights and writes its output, once each."""
    text, nbytes, product_flops = PROBLEMS[name]
    (tmp_path/name).write_text('import torch\nfrom torch import nn\n' + textwrap.dedent(text))
    model, inputs = load_model(str(tmp_path/name), device=device)
    row = least_time(model, *inputs, peaks='B200')
    assert (row.bytes_moved, row.matmul_flops) == (nbytes, product_flops)
    assert row.roof_time_s >= nbytes/8e12 and row.roof_time_s*1e6 < 1000
    assert not row.unknown


def test_least_time_leaves_the_model_as_it_was():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout()).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    least_time(model, torch.rand(8, 4), peaks='B200')
    assert model.training and all(m.training for m in model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
