"""Comparisons of real models, and the commands that print them."""
import json
import random
import shlex
from dataclasses import replace

import pytest
import torch
import torchvision
from torch import nn

from fasterbench import Comparison, Roofline, cli, compare_interleaved
from fasterbench.costs import counted
from fasterbench.results.rows import RooflinePoint

IMAGE = torch.empty(1, 3, 64, 64, device='meta')


def count(name, sample=IMAGE):
    with torch.device('meta'): return counted(getattr(torchvision.models, name)(), sample)


def compared(a, b):
    """The comparison of two results; each of their rows has to be in one pair."""
    comparison = a.compare(b)
    for side, result in (('rows_a', a), ('rows_b', b)):
        found = [id(row) for pair in comparison for row in getattr(pair, side)]
        assert sorted(found) == sorted(map(id, result.rows))
    return comparison


def names(pair):
    return [[row.name for row in rows] for rows in (pair.rows_a, pair.rows_b)]


def test_a_deeper_model_has_more_rows():
    shallow, deep = count('resnet18'), count('resnet34')
    comparison = compared(shallow, deep)
    assert not [pair for pair in comparison if pair.change == 'only in a']
    assert all(a == b for a, b in map(names, comparison) if a and b)
    alone = {'.'.join(pair.name.split('.')[:2]) for pair in comparison if pair.change == 'only in b'}
    blocks = {(1, 2), (2, 2), (2, 3), *((3, i) for i in range(2, 6)), (4, 2)}
    assert alone == {f'layer{layer}.{block}' for layer, block in blocks}


@pytest.mark.parametrize('size', [64, 96])
def test_inserted_layers_shift_numbers(size):
    norm = torch.empty(1, 3, size, size, device='meta')
    comparison = compared(count('vgg11'), count('vgg11_bn', norm))
    both = [pair for pair in comparison if pair.a and pair.b]
    assert all(pair.a.type == pair.b.type and pair.a.params == pair.b.params for pair in both)
    assert sum(pair.type == 'Conv2d' for pair in both) == 8
    assert not [pair for pair in comparison if pair.change == 'only in a']
    assert {pair.type for pair in comparison if pair.change == 'only in b'} == {'BatchNorm2d'}
    if size == 64: assert {pair.part('flops') for pair in both if pair.a.flops} == {1}


def test_wider_layers_keep_their_partners():
    comparison = compared(count('resnet50'), count('wide_resnet50_2'))
    assert all(a == b for a, b in map(names, comparison))


class Attention(nn.Module):
    def __init__(self, split):
        super().__init__()
        parts = dict(q=32, k=32, v=32) if split else dict(qkv=96)
        for name, width in parts.items(): setattr(self, name, nn.Linear(32, width))
        self.parts, self.proj = [*parts], nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = torch.cat([getattr(self, name)(x) for name in self.parts], -1).chunk(3, -1)
        return self.proj(nn.functional.scaled_dot_product_attention(q, k, v))


class Net(nn.Module):
    def __init__(self, blocks='blocks', norm=False, split=False):
        super().__init__()
        layers = [nn.Sequential(*[nn.LayerNorm(32)]*norm, Attention(split), nn.Linear(32, 32), nn.GELU())
                  for _ in range(3)]
        setattr(self, blocks, nn.Sequential(*layers))
        self.blocks_name, self.head = blocks, nn.Linear(32, 8)

    def forward(self, x): return self.head(getattr(self, self.blocks_name)(x))


def of_net(model=None, **changes):
    return counted(model or Net(**changes), torch.empty(2, 16, 32))


def test_renamed_modules():
    comparison = compared(of_net(), of_net(blocks='layers'))
    assert len(comparison) == 3*5 + 1
    assert all(a.replace('blocks', 'layers') == b for [a], [b] in map(names, comparison))


def test_split_projections():
    comparison = compared(of_net(), of_net(split=True))
    split = [pair for pair in comparison if len(pair.rows_b) == 3]
    assert [pair.name for pair in split] == [f'blocks.{i}.0.qkv' for i in range(3)]
    assert all(pair.part('flops') == 1 for pair in split)
    assert len(comparison) == 3*5 + 1


def test_an_inserted_norm_in_each_block():
    comparison = compared(of_net(), of_net(norm=True))
    alone = [pair for pair in comparison if not (pair.a and pair.b)]
    assert [pair.type for pair in alone] == ['LayerNorm']*3
    assert all(pair.part('flops') == 1 for pair in comparison if pair not in alone)


def test_a_model_in_another_module():
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Net()

        def forward(self, x): return self.body(x)*2

    comparison = compared(of_net(), of_net(Wrapper()))
    assert [names(pair) for pair in comparison if len(pair.rows_a) != 1] == [[[], ['']]]
    assert all(['body.' + a] == b for [a], b in map(names, comparison.pairs[:-1]))


@pytest.mark.parametrize('name', [
    '_orig_mod.{}', 'module.{}', 'module._orig_mod.{}', '_fsdp_wrapped_module.{}',
    'blocks.0._checkpoint_wrapped_module.{}'])
def test_names_of_wrappers(name):
    plain = of_net()
    renamed = replace(plain, rows=[replace(row, name=name.format(row.name)) for row in plain])
    if name.startswith('blocks'):
        start, _, wrapper = name.partition('.0.')
        renamed.rows = [replace(row, name=row.name.replace('blocks.0.', 'blocks.0._checkpoint_wrapped_module.'))
                        for row in plain]
    assert all(len(a) == len(b) == 1 and b[0].endswith(a[0].split('.')[-1])
               for a, b in map(names, compared(plain, renamed)))


def test_rows_of_compiled_kernels():
    def kernel(name, *modules, phase=None):
        return RooflinePoint(name=name, modules=list(modules), phase=phase, flops=1)
    plain = of_net()
    compiled = Roofline(rows=[
        kernel('attention', *(f'blocks.0.0.{part}' for part in ('qkv', 'proj')), 'blocks.0.0'),
        kernel('mlp', 'blocks.0.1', 'blocks.0.2'), kernel('gelu', 'blocks.0.2'),
        *(row for row in plain if not row.name.startswith('blocks.0'))], kind='kernels')
    first, second, *others = compared(plain, compiled)
    assert names(first) == [['blocks.0.0.qkv', 'blocks.0.0', 'blocks.0.0.proj'], ['attention']]
    assert names(second) == [['blocks.0.1', 'blocks.0.2'], ['mlp', 'gelu']]
    assert all(a == b for a, b in map(names, others))
    assert compared(compiled, plain).pairs[0].name == first.name == 'blocks.0.0.qkv +2'


def test_phases_of_kernels_stay_apart():
    rows = [RooflinePoint(name='fc', phase=phase) for phase in ('forward', 'backward')]
    kernels = [RooflinePoint(name=phase, phase=phase, modules=['fc']) for phase in ('backward', 'forward')]
    comparison = compared(Roofline(rows=rows), Roofline(rows=kernels, kind='kernels'))
    assert [names(pair) for pair in comparison] == [[['fc'], ['forward']], [['fc'], ['backward']]]


def test_whole_model_compiled_as_one():
    plain = of_net()
    whole = Roofline(rows=[RooflinePoint(name='_orig_mod', type='Net', flops=plain.flops)])
    pair, = compared(plain, whole)
    assert pair.part('flops') == 1 and pair.name == '_orig_mod'


def test_equal_results_are_not_told_apart():
    draw = random.Random(0)
    def result():
        rows = [RooflinePoint(name=f'l{i}', samples=[draw.gauss(1, 0.05) for _ in range(20)], time_s=1.)
                for i in range(40)]
        return Roofline(rows=rows)
    changes = [pair.change for _ in range(10) for pair in result().compare(result())]
    assert changes.count('faster') + changes.count('slower') <= 2


def test_interleaved_leaves_both_models_as_they_were():
    models = [nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4)) for _ in 'ab']
    states = [{k: v.clone() for k, v in model.state_dict().items()} for model in models]
    comparison = compare_interleaved(*models, torch.rand(8, 4), 'H100-SXM', steps=2)
    assert comparison.turns and [len(r.totals.samples) for r in (comparison.a, comparison.b)] == [2, 2]
    for model, state in zip(models, states):
        assert model.training
        assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())


# The commands

NET = '''
import torch
from torch import nn

def build(width=64): return nn.Sequential(nn.Linear(64, width), nn.ReLU()), torch.rand(8, 64)
def wide(): return build(128)
'''


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path/'net.py').write_text(NET)
    return tmp_path


@pytest.fixture
def run(capsys):
    """A command → its exit status and what it prints."""
    def printed(command):
        status = 0
        try: cli.main(shlex.split(command))
        except SystemExit as end: status = end.code
        said = capsys.readouterr()
        return status, said.out + said.err
    return printed


def save(path, time_s, flops=1000, n=20, **about):
    samples = [time_s*(1 + 0.01*(i % 3)) for i in range(n)]
    row = RooflinePoint(name='fc', type='Linear', flops=flops, samples=samples, time_s=time_s)
    Roofline(rows=[row], about=dict(model='Net', **about)).save(path)


@pytest.fixture
def files(folder):
    save('before.json', 1e-3)
    save('after.json', 1.3e-3)
    save('more.json', 1e-3, flops=1001)
    save('few.json', 1e-3, n=4)
    save('elsewhere.json', 1e-3, device='there')


@pytest.mark.parametrize('command, status, words', [
    ('compare before.json after.json', 0, 'Rows: 1 slower'),
    ('compare before.json after.json --by block', 0, 'Rows: 1 slower'),
    ('compare before.json after.json --fail-slower 10 --fail-flops 0', 1, 'worse: time 1.3×'),
    ('compare before.json after.json --fail-slower 50', 0, 'within: time 1.3×'),
    ('compare after.json before.json --fail-slower=-10%', 0, 'within: time 0.7692×'),
    ('compare before.json more.json --fail-flops 0', 1, 'worse: FLOPs 1.000 kFLOP → 1.001 kFLOP'),
    ('compare before.json more.json --fail-flops 1', 0, 'within: FLOPs'),
    ('compare before.json few.json --fail-slower 10', 3, 'open: time: too few samples'),
    ('compare before.json elsewhere.json --fail-slower 10', 3, 'another device'),
    ('compare before.json nowhere.json', 2, 'nowhere.json'),
    ('compare before.json', 2, 'arguments are required: b'),
    ('compare before.json net.py', 2, 'net.py'),
    ('compare before.json after.json --plot', 2, '--plot'),
    ('compare before.json after.json --columns flops', 2, "no column 'flops'"),
    ('compare before.json after.json --fail-slower nan', 2, "'nan' is no number above -100"),
    ('roofline net.py:build --fail-slower 10', 2, '--fail-slower needs --against or --beside'),
    ('roofline net.py:build --beside eager', 2, 'needs --compile'),
    ('roofline net.py:build --beside net.py:wide --train', 2, '--beside does not go with --train'),
    ('roofline net.py:build --beside net.py:wide --against a.json', 2, '--against does not go with --beside'),
    ('roofline net.py:build --against nowhere.json', 2, 'nowhere.json')])
def test_exit_status_and_words(run, files, command, status, words):
    ended, said = run(command)
    assert (ended, words in ' '.join(said.split())) == (status, True), said


def test_a_comparison_is_saved_and_shown_again(run, files):
    _, said = run('compare before.json after.json --out c.json --out c.csv --out c.md')
    assert isinstance(Comparison.load('c.json'), Comparison)
    text = said.partition('saved ')[0]
    assert run('show c.json') == (0, text)
    assert run('compare c.json after.json')[0] == 2
    command = 'compare before.json after.json --fail-slower'
    assert run(f'{command} 10')[0] == 1
    answer = json.loads(run(f'{command} 50 --json')[1])['answer']
    assert (answer['decided'], answer['change'], answer['flops_a']) == ('within', 'slower', 1000)


def test_against_a_file(run):
    peaks = '--peaks H100-SXM --steps 3'
    run(f'roofline net.py:build {peaks} --out a.json')
    status, said = run(f'roofline net.py:wide {peaks} --against a.json --fail-flops 0')
    assert status == 1 and 'net.py:build → net.py:wide, forward pass: ' in said
    status, said = run(f'roofline net.py:build {peaks} --against a.json --fail-slower 10')
    assert status == 2 and '--steps 3: --fail-slower takes 12 or more' in said
    step = run(f'roofline net.py:build {peaks} --train --against a.json')[1]
    assert 'run       forward → step' in step


def test_beside_another_model(run):
    options = '--peaks H100-SXM --steps 2 --out c.json'
    status, said = run(f'roofline net.py:wide --beside net.py:build {options} --fail-flops 100')
    assert status == 0 and 'turns     2, of each the fastest of' in said and 'within: FLOPs' in said
    comparison = Comparison.load('c.json')
    assert comparison.turns and comparison.whole.part('flops') == 2
    assert run(f'roofline net.py:wide --beside net.py:build {options} --fail-flops 99')[0] == 1


def test_beside_eager(run, monkeypatch):
    compiled = []
    monkeypatch.setattr(nn.Module, 'compile', lambda self: compiled.append(self))
    status, said = run('roofline net.py:build --compile --beside eager --peaks H100-SXM --steps 1')
    assert status == 0 and 'net.py:build → net.py:build (compiled)' in said
    assert len(compiled) == 1
