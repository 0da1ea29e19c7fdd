"""Kernels of compiled code, which take a C++ compiler."""
import os
import shutil

import pytest
import torch
from torch import nn

from fasterbench.roofline import HardwarePeaks, RooflineAnalyzer, compare_interleaved
from fasterbench.sources.kernels import OLDEST
from test_profile import check_adds_up

PEAKS = HardwarePeaks(1e11, 5e10)
older = pytest.mark.skipif(torch.__version__ < OLDEST, reason='an older Dynamo makes other graphs')
compiler = os.environ.get('CXX', 'g++')
needs_compiler = pytest.mark.skipif(not shutil.which(compiler), reason=f'Inductor needs {compiler}')
pytestmark = [older, needs_compiler, pytest.mark.xdist_group('kernels')]   # one process imports Inductor


@torch.compiler.disable
def unseen(x):
    return x @ x.T


class Block(nn.Module):
    """A product, a sum; with `breaks` a product that Dynamo does not see, too."""

    def __init__(self, breaks=False):
        super().__init__()
        self.linear, self.breaks = nn.Linear(32, 32), breaks

    def forward(self, x):
        if self.breaks: x = unseen(x) @ x
        return x + self.linear(x)


@pytest.fixture
def sample():
    return torch.randn(64, 32)


def profile(model, sample):
    return RooflineAnalyzer(model, sample, PEAKS).profile(warmup=3, steps=4, kernels=True)


def test_step_by_kernels(sample):
    """Kernels have both phases and hand-computed work; buffers are updated, and all is restored."""
    model = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU())
    before = {name: t.clone() for name, t in model.state_dict().items()}
    dynamic = torch._dynamo.config.automatic_dynamic_shapes
    result = RooflineAnalyzer(model, sample, PEAKS).profile_step(
        torch.sum, 'sgd', warmup=3, steps=4, kernels=True)
    check_adds_up(result)
    assert result.kind == 'kernels' and result.about['graphs'] == 1
    products = {row.label: row.matmul_flops for row in result if row.matmul_flops}
    assert products == {'addmm (forward)': 2*64*32*64, 'mm (backward)': 2*64*32*64}
    assert result['addmm'].bytes_moved == 4*(64*32 + 32*64 + 64 + 64*64)
    assert {'1', '2'} <= {name for row in result for name in row.modules}
    assert {row.phase for row in result if row.type == 'C++'} == {'forward', 'backward'}
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    assert '_compiled_call_impl' not in vars(model)
    assert torch._dynamo.config.automatic_dynamic_shapes is dynamic


def test_regions(sample):
    """Blocks that share code have their own rows; so has one that is called twice, and the rest."""
    blocks = [Block(), Block()]
    for block in blocks: block.compile()
    model = nn.Sequential(blocks[0], blocks[1], blocks[0], nn.Linear(32, 8))
    result = profile(model, sample)
    check_adds_up(result)
    rows = {row.name: row for row in result if row.matmul_flops}
    assert {name: row.calls for name, row in rows.items()} == {'0.addmm': 2, '1.addmm': 1, '3': 1}
    assert [rows[name].modules for name in rows] == [['0.linear'], ['1.linear'], []]
    assert rows['0.addmm'].flops == 2*rows['1.addmm'].flops == 2*2*64*32*32
    assert result['0.(outside of kernels)'].flops == 0
    assert result['0.(outside of kernels)'].near == 'outside'
    assert sum(row.params for row in result) == result.params


def test_graph_breaks(sample, capsys):
    """What runs between two graphs is counted outside of kernels; Dynamo's reason is said."""
    model = torch.compile(Block(breaks=True))
    result = profile(model, sample)
    check_adds_up(result)
    outside = result['(outside of kernels)']
    assert outside.matmul_flops == 2*64*32*64
    assert result.matmul_flops == 2*(2*64*32*64) + 2*64*32*32
    assert result.about['graphs'] == 1
    assert 'unseen(x)' in result.about['graph_breaks']
    result.summary()
    assert 'Dynamo made 1 graph, and ended them here:' in capsys.readouterr().out


def test_break_at_a_number(sample):
    """A branch on the data ends a graph once; nothing of ours is compiled behind it."""
    class Clipped(nn.Module):
        def forward(self, x):
            x = x + 1
            if x.max() > 100: x = x/2
            return x.sigmoid()

    result = profile(torch.compile(Clipped()), sample)
    assert result.about['graphs'] == 2
    assert '\n' not in result.about['graph_breaks']
    assert 'if x.max() > 100' in result.about['graph_breaks']


def test_lookups_and_attention():
    """A lookup reads the rows that it touches; attention is one product of the library."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(10_000, 32)

        def forward(self, ids):
            x = self.embedding(ids)[:, None]
            return nn.functional.scaled_dot_product_attention(x, x, x)

    result = profile(Net(), torch.randint(10_000, (2, 16)))
    lookup, attention = (row for row in result if row.type != 'compiled code')
    assert lookup.modules[0] == 'embedding' and lookup.type == 'C++'
    # Each id, and its row: read once, written as query, key and value
    assert lookup.bytes_moved == 2*16*(8 + 4*32*4)
    assert attention.matmul_flops == 2*(2*2*16*16*32)


def test_beside_eager(sample):
    """Of two models in turns the compiled one has kernels, the other modules."""
    compiled = nn.Sequential(nn.Linear(32, 64), nn.ReLU())
    compiled.compile()
    comparison = compare_interleaved(nn.Sequential(nn.Linear(32, 64), nn.ReLU()), compiled, sample,
                                     PEAKS, warmup=3, steps=4, kernels=True)
    assert (comparison.a.kind, comparison.b.kind) == ('measured', 'kernels')
    pairs = {pair.a.name: pair.b.name for pair in comparison.pairs if pair.a and pair.b}
    assert pairs == {'0': 'addmm', '1': 'cpp_fused_relu_0'}


def test_what_can_not_be_measured(sample):
    other = RooflineAnalyzer(torch.compile(Block(), backend='eager'), sample, PEAKS)
    with pytest.raises(ValueError, match='OptimizedModule runs no kernel of Inductor'):
        other.profile(kernels=True)
    with pytest.raises(ValueError, match='nothing is compiled in Block and Block'):
        compare_interleaved(Block(), Block(), sample, PEAKS, kernels=True)
    with pytest.raises(ValueError, match='operations=True, kernels=True'):
        RooflineAnalyzer(Block(), sample, PEAKS).profile(operations=True, kernels=True)


def test_an_older_torch_is_refused(sample, monkeypatch):
    monkeypatch.setattr(torch, '__version__', type(torch.__version__)('2.8.0'))
    with pytest.raises(ValueError, match='kernels=True needs torch 2.9 or newer: this is 2.8.0'):
        RooflineAnalyzer(Block(), sample, PEAKS).profile(kernels=True)


def test_compilers_errors(sample, monkeypatch):
    """An error of the compiler is said in one line, and the model is as it was."""
    from torch._inductor.scheduler import Scheduler

    def fail(*args): raise OSError('no disk\nand more')
    monkeypatch.setattr(Scheduler, 'codegen', fail)
    model = Block()
    with pytest.raises(RuntimeError, match='^torch.compile failed: OSError: no disk$'):
        profile(model, sample)
    assert '_compiled_call_impl' not in vars(model)
