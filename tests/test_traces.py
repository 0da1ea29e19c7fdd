"""Traces as others have recorded them: odd, broken, from other devices, of several ranks, large."""
import gzip
import json
import os
import random
import shlex
import time
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from fasterbench import Roofline, cli, count_step, read_trace
from fasterbench.running.modules import Place
from fasterbench.sources.traces import NODE

SHARED = Path(os.environ.get('FASTERBENCH_SHARED', Path(__file__).parents[2]/'shared'))/'traces'


def event(cat, name, ts, dur, pid=1, tid=1, **args):
    return dict(ph='X', cat=cat, name=name, pid=pid, tid=tid, ts=ts, dur=dur, args=args)


def operation(name, ts, dur, *shapes, type='float', pid=1, tid=1, **args):
    inputs = {'Input Dims': [*shapes], 'Input type': [type if shape else 'Scalar' for shape in shapes],
              'Concrete Inputs': ['' if shape else '1' for shape in shapes]}
    return event('cpu_op', name, ts, dur, pid, tid, **inputs, **args)


def module(name, ts, dur, **where):
    return event('python_function', f'nn.Module: {name}', ts, dur, **where)


def kernel(name, ts, dur, correlation, stream=7, device=0, cat='kernel', **args):
    return event(cat, name, ts, dur, device, stream, device=device, stream=stream, correlation=correlation, **args)


def launch(ts, correlation, name='cudaLaunchKernel', cat='cuda_runtime', **where):
    return event(cat, name, ts, 1, correlation=correlation, **where)


def mlp():
    """`Linear(64, 256)`, 8 µs, and `ReLU()`, 2 µs, of 32 samples."""
    return [module('Sequential_0', 0, 100), module('Linear_0', 10, 40),
            operation('aten::linear', 12, 30, [32, 64], [256, 64], [256]),
            operation('aten::addmm', 15, 20, [256], [32, 64], [64, 256], [], []),
            launch(20, 101), kernel('sgemm', 40, 8, 101),
            module('ReLU_0', 60, 30), operation('aten::relu', 62, 20, [32, 256]),
            launch(65, 102), kernel('relu', 70, 2, 102)]


PRODUCTS, ELEMENTS = 2*32*64*256, 32*256


@pytest.fixture
def traced(tmp_path):
    """Events → the result of their trace, and what was warned of."""
    def read(events, name='trace.json', device='NVIDIA H100 80GB HBM3', step=None, peaks=None, **header):
        (tmp_path/name).write_text(json.dumps(dict(
            deviceProperties=[dict(id=i, name=device) for i in (0, 1)], traceEvents=events) | header))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter('always')
            return read_trace(tmp_path/name, peaks, step), ' '.join(str(w.message) for w in said)
    return read


def microseconds(result):
    return {row.label: pytest.approx(1e6*row.time_s, rel=1e-9) for row in result}


def is_mlp(result):
    return microseconds(result) == {'Linear': 8, 'ReLU': 2} and result.matmul_flops == PRODUCTS


def changed(events, name, /, **values):
    """The events, with other values in those of a name."""
    return [e | values if e['name'] == name else e for e in events]


def without(events, *cats):
    return [e for e in events if e['cat'] not in cats]


# Files

def test_a_gzipped_list_in_any_order(tmp_path):
    events = mlp()
    random.Random(0).shuffle(events)
    path = tmp_path/'trace.json.gz'
    path.write_bytes(gzip.compress(json.dumps(events).encode()))
    assert is_mlp(read_trace(path, 'H100-SXM'))


def test_numbers_in_quotes_and_ids_of_64_bits(traced):
    events = json.loads(json.dumps(mlp()).replace('101', '"18446744073709551557"').replace('102', '"9223372036854775809"'))
    events = [e | dict(ts=f"{1_700_000_000_000_000 + e['ts']}", dur=str(e['dur'])) for e in events]
    result, said = traced(events)
    assert is_mlp(result) and not said


def test_names_that_are_no_text(traced):
    result, _ = traced(changed(changed(mlp(), 'sgemm', name=None), 'relu', name=17))
    assert is_mlp(result) and [name for row in result for name in row.kernels] == ['None', '17']


def test_an_older_torch(traced):
    events = mlp()
    for e in events: e['args'].pop('Concrete Inputs', None)
    with pytest.raises(ValueError, match=r'has no values that operations were called with \(Concrete Inputs\)'): traced(events)


@pytest.mark.parametrize('events, why', [
    ([], '0 kernels and no operations'), (without(mlp(), 'cpu_op'), '2 kernels and no operations'),
    (without(mlp(), 'kernel'), 'no kernels of the NVIDIA H100')])
def test_what_is_missing_is_said(traced, events, why):
    with pytest.raises(ValueError, match=why): traced(events)


def test_launches_tell_of_a_device(traced):
    with pytest.raises(ValueError, match='no kernels of the device with a time'): traced(without(mlp(), 'kernel'), deviceProperties=[])


@pytest.mark.parametrize('wrong, where', [(dict(dur='long'), r'\.dur'), (dict(args=[1]), r'\.args')])
def test_what_is_no_trace_is_said_with_its_place(traced, wrong, where):
    with pytest.raises(ValueError, match=rf'trace.json is no trace of torch.profiler.*{where}'):
        traced(changed(mlp(), 'sgemm', **wrong))


# Times

@pytest.mark.parametrize('wrong', [dict(dur=-1_700_000_000), dict(dur=None), dict(dur=0), dict(ts=None)])
def test_kernels_without_a_time_are_left_out_and_named(traced, wrong):
    result, said = traced(changed(mlp(), 'relu', **wrong))
    assert microseconds(result) == {'Linear': 8}
    assert '1 events have no time or an impossible duration and are left out: relu' in said
    assert 'left out: relu' in result.about['notes']


def test_operations_with_a_negative_duration_are_left_out_and_counted(traced):
    result, said = traced(changed(mlp(), 'aten::relu', dur=-20))
    assert '1 events have no time or an impossible duration and are left out: aten::relu' in said
    assert result['ReLU'].unknown == {'relu': 1} and result['ReLU'].bound == 'undefined'


def test_a_kernel_ends_where_the_next_of_its_stream_begins(traced):
    result, said = traced(changed(mlp(), 'sgemm', dur=1_600_000))
    assert microseconds(result) == {'Linear': 30, 'ReLU': 2}
    assert '1 kernels lasted until after the next one of their stream began, and end there: sgemm' in said


def test_other_streams_and_devices_run_at_the_same_time(traced):
    for where, busy in (dict(stream=8), 'the device was busy 100 % of 8.00 µs'), (dict(device=1), '2 devices were busy 75 % of 8.00 µs'):
        events = [kernel('relu', 42, 4, 102, **where) if e['name'] == 'relu' else e for e in mlp()]
        result, said = traced(events)
        assert microseconds(result) == {'Linear': 8, 'ReLU': 4} and not said and result.about['use'] == busy


def test_whole_microseconds_overlap_by_one(traced):
    events = changed(mlp(), 'relu', ts=47)   # 40 + 8 is later
    assert traced(events) == traced(events) and is_mlp(traced(events)[0]) and not traced(events)[1]


def test_numbers_of_json_that_python_alone_writes(traced):
    result, _ = traced([e | dict(args=e['args'] | dict(rate=float('inf'), share=float('nan'))) for e in mlp()])
    assert is_mlp(result)


# Devices

def test_a_device_without_a_name_or_a_datasheet_has_no_roof(traced):
    for header, name in (dict(deviceProperties=[]), 'without a name'), (dict(deviceProperties=None), 'without a name'), (
            dict(deviceProperties=[dict(id=0, name='Toy 9000')]), 'Toy 9000'):
        result, said = traced(mlp(), **header)
        assert is_mlp(result) and result.peaks is None and result.roof_time_s == 0
        assert f'the device, {name}, has no datasheet' in said
        result.summary()
    assert traced(mlp(), deviceProperties=[], peaks='MI300X')[0]['Linear'].bound == 'memory'


def test_a_dtype_without_a_rate(traced):
    add = [operation('aten::add', 10, 20, [1000, 1000], [1000, 1000], [], type='int'), launch(12, 1), kernel('add', 20, 9, 1)]
    result, _ = traced(add)
    assert result[0].dtype == 'int32' and result[0].bound == 'memory' and result.bytes_moved == 12e6


def test_names_of_rocm(traced):
    events = [e | dict(name='hipExtModuleLaunchKernel', cat='hip_runtime') if e['cat'] == 'cuda_runtime' else e for e in mlp()]
    events += [launch(1, 90, 'hipMemcpyAsync'), kernel('CopyHostToDevice', 5, 3, 90, cat='gpu_memcpy'),
               launch(200, 95, 'hipGraphLaunch'), kernel('Cijk_Ailk_Bljk', 210, 4, 95)]
    result, said = traced(events, device='AMD Instinct MI300X')
    assert microseconds(result) == {'Linear': 8, 'ReLU': 2, '(copies)': 3, '(replayed graphs)': 4}
    assert result.peaks.device_name == 'MI300X' and not said


def test_products_of_float32_in_tf32(traced):
    result, _ = traced(changed(mlp(), 'sgemm', name='sm80_xmma_gemm_f32f32_tf32f32_f32_tn'))
    assert result['Linear'].dtype == 'tf32' and result['ReLU'].dtype == 'float32'


# What launched it

def test_two_processes_with_equal_threads_and_streams(traced):
    other = [module('Other_0', 0, 90, pid=2), operation('aten::relu', 5, 80, [32, 256], pid=2), launch(21, 300, pid=2),
             kernel('sigmoid', 90, 5, 300)]
    result, _ = traced([*mlp(), *other])
    assert microseconds(result)['Linear'] == 8 and result['Other'].flops == ELEMENTS


def test_launches_that_are_missing(traced):
    events = [e for e in mlp() if e['args'].get('correlation') != 102 or e['cat'] == 'kernel'] + [kernel('old', 1, 3, 0)]
    result, _ = traced(events)
    assert microseconds(result) == {'Linear': 8, '(before the trace)': 3, '(not counted)': 2}
    assert result['(not counted)'].unknown == {'relu': 1} and result['(not counted)'].flops is None


def test_operations_that_torch_does_not_know_leave_their_module_undefined(traced):
    long_list = event('cpu_op', 'aten::_foreach_zero_', 43, 5, **{'Input Dims': [[]], 'Input type': ['TensorList'], 'Concrete Inputs': ['']})
    own = operation('vendor::norm', 84, 5, [32, 256])
    result, _ = traced([*mlp(), long_list, launch(44, 103), kernel('zero', 80, 1, 103), own, launch(85, 104), kernel('norm', 90, 4, 104)])
    assert [(row.unknown, row.bound, row.roof_time_s) for row in result] == [
        ({'aten::_foreach_zero_': 1}, 'undefined', None), ({'vendor::norm': 1}, 'undefined', None)]
    assert result.matmul_flops == PRODUCTS and microseconds(result) == {'Linear': 9, 'ReLU': 6}
    assert 'aten::_foreach_zero_: a list of more than 30 tensors is not recorded' in result.about['not_counted']


def step_events(**number):
    """A step whose forward operation is `aten::mm`; its node of the backward pass runs on another thread."""
    events = [event('user_annotation', 'ProfilerStep#7', 0, 300), module('Linear_0', 10, 40),
              operation('aten::mm', 15, 20, [32, 64], [64, 256], **number), launch(20, 101), kernel('mm', 40, 8, 101),
              event('cpu_op', NODE + 'MmBackward0', 100, 50, tid=2, **number),
              operation('aten::mm', 110, 20, [64, 32], [32, 256], tid=2), launch(115, 102, tid=2), kernel('mm_tn', 120, 6, 102),
              event('user_annotation', 'Optimizer.step#Adam.step', 200, 50),
              operation('aten::add_', 210, 20, [64, 256], [64, 256], []), launch(215, 103), kernel('add', 220, 1, 103)]
    return events


@pytest.mark.parametrize('events, owner', [
    (step_events(**{'Sequence number': 5}), '(the model) (backward)'), (step_events(), '(outside of modules) (backward)')])
def test_a_backward_pass_with_and_without_numbers_of_its_nodes(traced, events, owner):
    result, _ = traced(events)
    assert microseconds(result) == {'(the model) (forward)': 8, owner: 6, '(optimizer)': 1}
    assert result['(optimizer)'].type == 'Adam' and result.is_step


def test_steps(traced):
    events = step_events(**{'Sequence number': 5}) + [event('user_annotation', 'ProfilerStep#8', 300, 0), event('gpu_user_annotation', 'ProfilerStep#9', 0, 300)]
    result, _ = traced(events, step=7)
    assert len(result) == 3 and result.about['step'] == 7
    with pytest.raises(ValueError, match='step=8 of .* launched no kernel'): traced(events, step=8)
    with pytest.raises(ValueError, match='step=9: the steps of .* are 7, 8'): traced(events, step=9)


def test_a_module_that_calls_its_own_kind(traced):
    inside = [module('Block_0', 20, 10), *(e | dict(ts=e['ts'] + 1000) for e in mlp())]
    assert traced([module('Block_0', 0, 2000), *inside])[0]['Sequential.Linear'].matmul_flops == PRODUCTS


def test_kernel_names_of_cpp_are_cut_in_a_terminal_and_whole_in_files(traced, tmp_path):
    name = f"void at::native::elementwise_kernel<128, {'at::native::gpu_kernel_impl<'*9}float>(int)"
    result, _ = traced(changed(mlp(), 'relu', name=name))
    by_kernel = result.by('kernel')
    assert max(map(len, by_kernel.table().text(width=100).splitlines())) <= 100
    assert name in by_kernel.table().text() and name in by_kernel.table().csv() and name in result.table().csv()
    result.save(tmp_path/'r.json')
    assert Roofline.load(tmp_path/'r.json')['ReLU'].kernels[name].launches == 1


def test_hover_has_the_kernels(traced):
    pytest.importorskip('plotly')
    assert 'sgemm' in traced(mlp())[0].plot().to_json()


# Ranks

def exchange(*times, name='allreduce', numbered=True, **words):
    words = {'Collective name': name, 'Process Group Name': '0', 'Process Group Ranks': '[0, 1]', 'Group size': 2,
             'dtype': 'Float', 'In msg nelems': 1000, 'Out msg nelems': 1000} | words
    pairs = [(launch(100 + i, 200 + i), kernel('ncclDevKernel', at, dur, 200 + i, stream=20, **words | (dict(Seq=i) if numbered else {})))
             for i, (at, dur) in enumerate(times)]
    return [e for pair in pairs for e in pair]


@pytest.fixture
def ranks(tmp_path, traced):
    """Events of each rank → results of all of them, and what was warned of."""
    def read(*events):
        for i, of_rank in enumerate(events):
            (tmp_path/f'rank{i}.json').write_text(json.dumps(dict(
                traceEvents=[*mlp(), *of_rank], distributedInfo=dict(rank=i), deviceProperties=[dict(id=0, name='NVIDIA H100 80GB HBM3')])))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter('always')
            return read_trace([tmp_path/f'rank{i}.json' for i in range(len(events))]).by_rank, ' '.join(str(w.message) for w in said)
    return read


def test_waiting_is_what_a_collective_took_longer_than_on_another_rank(ranks):
    results, said = ranks(exchange((110, 100), (300, 80)), exchange((170, 40), (290, 90)))
    assert [1e6*r['(all_reduce)'].waiting_s for r in results] == pytest.approx([60, 10]) and not said
    assert [[*r['(all_reduce)'].waits_for] for r in results] == [[1], [0]]
    assert [r['(all_reduce)'].link_bytes for r in results] == [2*1000*4*2*(2 - 1)/2]*2


@pytest.mark.parametrize('kind, sent, received, dtype, nbytes', [
    ('_allgather_base', 500, 1000, 'BFloat16', 500*2*(2 - 1)), ('_reduce_scatter_base', 1000, 500, 'float32', 500*4*(2 - 1)),
    ('all_to_allv', 600, 600, 'Byte', 600/2), ('broadcast', 600, 600, 'Half', 1200), ('allreduce', 600, 600, 'Odd', None)])
def test_bytes_of_links(traced, kind, sent, received, dtype, nbytes):
    words = {'In msg nelems': sent, 'Out msg nelems': received, 'dtype': dtype}
    row = traced([*mlp(), *exchange((110, 5), name=kind, **words)])[0][-1]
    assert row.type in kind.replace('allgather', 'all_gather').replace('allreduce', 'all_reduce').strip('_')
    assert row.link_bytes == nbytes and row.waiting_s is None


def test_numbers_join_collectives_of_which_one_trace_misses_the_first(ranks):
    late = exchange((170, 40), (290, 90))[2:]   # began one collective later
    results, _ = ranks(exchange((110, 100), (300, 80)), late)
    assert results[0]['(all_reduce)'].waiting_s is None   # of the first one it is not known
    assert 1e6*results[1]['(all_reduce)'].waiting_s == pytest.approx(10)
    results, _ = ranks(exchange((110, 100), (300, 80), numbered=False), exchange((170, 40), numbered=False))
    assert [r['(all_reduce)'].waiting_s for r in results] == [None]*2


# The command

@pytest.fixture
def folder(tmp_path, monkeypatch, ranks):
    monkeypatch.chdir(tmp_path)
    ranks(exchange((110, 100)), exchange((170, 40)))
    (tmp_path/'bert.json.gz').write_bytes(gzip.compress((tmp_path/'rank0.json').read_bytes()))


@pytest.mark.parametrize('example', next(examples for run, (_, examples) in cli.COMMANDS.items() if run.__name__ == 'trace'))
def test_examples_run(folder, capsys, example):
    cli.main(shlex.split(example))
    assert 'the device was busy' in capsys.readouterr().out


def test_long_names_of_kernels_are_whole_in_files_alone(folder, capsys):
    path, name = Path('rank0.json'), f"void gemm<{'float, '*20}7>(Params)"
    path.write_text(path.read_text().replace('sgemm', name))
    cli.main(['trace', 'rank0.json', '--by', 'kernel', '--out', 'k.csv', '--out', 'k.md'])
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 120 and '\ngemm<float, float, float, float, float,…' in shown and name not in shown
    assert 'not known of 1 kernel, 91 % of the time' in shown   # the collective: 100 of 110 µs
    assert name in Path('k.csv').read_text() and name in Path('k.md').read_text()


def test_the_command_shows_kernels_and_ranks(folder, capsys):
    cli.main(['trace', 'bert.json.gz', '--by', 'kernel', '--json'])
    found = json.loads(capsys.readouterr().out)
    assert {row['name'] for row in found['rows']} == {'sgemm', 'relu', 'ncclDevKernel'}
    assert found['answer']['busy_s'] == pytest.approx(110e-6) and 'params' not in found['answer']
    cli.main(['trace', 'rank0.json', 'rank1.json', '--out', 'both.json', '--by', 'type'])
    shown = capsys.readouterr().out
    assert 'trace, rank 0: 110 µs' in shown and 'not known of' not in shown and 'rank 1, waiting' in shown and 'all_reduce' in shown
    both = Roofline.load('both.json')   # all rows: `by` is of what is printed
    assert [len(result) for result in both.by_rank] == [len(read_trace(f'rank{i}.json')) for i in range(2)]
    with pytest.raises(SystemExit): cli.main(['trace', 'rank0.json', '--by', 'colour'])
    assert "by='colour'" in capsys.readouterr().err


# Recorded here, on a CPU

class Odd(nn.Module):
    """A layer, and an operation that has no formula."""
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        return torch.ops.traces.odd(self.layer(x))


@torch.library.custom_op('traces::odd', mutates_args=())
def odd(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy()[::-1].copy())


def recorded(run, path):
    run()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True) as profiler: run()
    profiler.export_chrome_trace(str(path))
    return read_trace(path, 'H100-SXM')


def test_a_step_recorded_here_has_the_counts_of_its_model(tmp_path):
    model, x = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)), torch.randn(8, 64)
    optimizer = torch.optim.SGD(model.parameters(), foreach=False)

    def step():
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    result = recorded(step, tmp_path/'step.json.gz')
    costs = count_step(model, x, lambda out: out.square().mean(), optimizer)
    for phase in ('forward', 'backward'):
        for name, path in ('0', 'Linear.0'), ('1', 'ReLU'), ('2', 'Linear.1'):
            row, work = result[path, phase], costs[Place(phase, name)]
            assert (row.flops, row.matmul_flops, row.bytes_moved) == (work.flops, work.product_flops, work.bytes_moved)
    assert result['(optimizer)'].flops == costs[Place('optimizer', '(optimizer)')].flops
    assert not result.unknown and result.time_s == pytest.approx(result.total('time_s'))
    assert result.about['use'].startswith('the host was busy') and result.about['busy_s'] <= result.about['span_s']


def test_an_operation_without_a_formula_leaves_its_module_undefined_on_a_cpu(tmp_path):
    model = Odd()
    with torch.no_grad(): result = recorded(lambda: model(torch.randn(8, 64)), tmp_path/'odd.json')
    assert result['(the model)'].unknown == {'traces::odd': 1} and result['(the model)'].bound == 'undefined'
    assert result['Linear'].flops == 2*8*64*64 and result['Linear'].bound == 'memory'
    assert 'traces::odd: there is no formula for it' in result.about['not_counted']


def test_lists_of_tensors_have_the_only_dtype_there_is(tmp_path):
    parts = [torch.randn(4, 8), torch.randn(4, 8)]
    whole = recorded(lambda: (torch.cat(parts), parts[0].neg()), tmp_path/'one.json')
    assert whole['aten::cat'].bytes_moved == 2*2*4*8*4
    mixed = recorded(lambda: (torch.cat(parts), parts[0].double().neg()), tmp_path/'two.json')
    assert mixed['aten::cat'].unknown == {'aten::cat': 1}
    assert 'aten::cat: the dtype of a list of tensors is not recorded' in mixed.about['not_counted']


# Large and real ones

def test_a_hundred_thousand_kernels(traced):
    n, relu = 100_000, operation('aten::relu', 0, 5, [32, 256])
    events = [module('Model_0', 0, 10*n)]
    for i in range(n):
        events += [relu | dict(ts=10*i), launch(10*i + 1, i + 1), kernel('relu', 10*i + 3, 2, i + 1)]
    start = time.process_time()
    result, _ = traced(events)
    assert time.process_time() - start < 60   # a tenth of it; what walks all spans for each kernel takes hours
    assert result.flops == n*ELEMENTS and len(result) == 1
    assert result.time_s == pytest.approx(n*2e-6, rel=1e-9)
    assert result.by('kernel')['relu'].calls == n


@pytest.mark.skipif(not SHARED.is_dir(), reason='the traces are not here')
@pytest.mark.parametrize('name, products', [
    ('h100_bert_small', 8_192_059_392), ('h100_vit_base', 140_509_200_384), ('h100_qwen1.5_0.5b', 6_006_026_832_832),
    ('mi300x_compiled_triton', 5_497_558_138_880), ('mi300x_normalization_training', 0), ('mi250_minitoy_training', 327_680),
    ('mi300x_sglang_decode_graph', 0)])
def test_traces_of_gpus(name, products):
    path = SHARED/f'{name}.json.gz'
    result = read_trace(path, 'MI250X-GCD' if name.startswith('mi250') else None)
    events = json.loads(gzip.open(path).read())['traceEvents']
    device_s = 1e-6*sum(e['dur'] for e in events if e.get('ph') == 'X' and e.get('cat') in ('kernel', 'gpu_memcpy', 'gpu_memset'))
    assert result.matmul_flops == products
    for time_s in (result.time_s, result.total('time_s'), result.by('kernel').total('time_s')):
        assert time_s == pytest.approx(device_s, rel=1e-9)
