"""Profiles and estimates of models whose modules are called in unusual ways."""
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from fasterbench.costs import count_costs
from fasterbench.roofline import HardwarePeaks, RooflineAnalyzer

PEAKS = HardwarePeaks(1e11, 5e10)


def mlp(width=64):
    return nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, width))


class Net(nn.Module):
    """Blocks one after the other, the first of them twice."""

    def __init__(self, blocks=2, checkpointed=None):
        super().__init__()
        self.blocks = nn.ModuleList([mlp() for _ in range(blocks)])
        self.head, self.checkpointed = nn.Linear(64, 1), checkpointed

    def forward(self, x):
        for block in (self.blocks[0], *self.blocks):
            options = dict(use_reentrant=self.checkpointed)
            x = block(x) if self.checkpointed is None else checkpoint(block, x, **options)
        return self.head(x).square().mean()


@pytest.fixture
def sample():
    return torch.randn(32, 64, requires_grad=True)   # reentrant checkpoints need an input that does


def check_adds_up(result):
    """Rows and remainder are the mean of the middle half of the passes."""
    samples = sorted(result.totals.samples)
    n = len(samples)
    middle = samples[n//4:n - n//4]
    mean_s = sum(middle)/len(middle)
    assert result.time_s == pytest.approx(mean_s, rel=1e-12)
    total = sum(row.time_s for row in result) + result.totals.remainder_s
    assert total == pytest.approx(mean_s, rel=1e-12)
    assert 0 < result.totals.remainder_s < mean_s
    assert all(len(row.samples) == n for row in result)


def test_forward_adds_up(sample):
    check_adds_up(RooflineAnalyzer(Net(), sample, PEAKS).profile(steps=10))


@pytest.mark.parametrize('options', [{}, dict(accumulate=3), dict(clip=1., autocast='bfloat16')])
@pytest.mark.parametrize('checkpointed', [None, False, True])
def test_step_adds_up(sample, options, checkpointed):
    model = Net(checkpointed=checkpointed)
    result = RooflineAnalyzer(model, sample, PEAKS).profile_step(None, 'adamw', steps=5, **options)
    check_adds_up(result)
    micro_batches = options.get('accumulate', 1)
    assert result['blocks.0.0 (forward)'].calls == 2*micro_batches
    backward = [row for row in result if row.phase == 'backward' and row.matmul_flops]
    products = {'blocks.0.0', 'blocks.0.2', 'blocks.1.0', 'blocks.1.2', 'head'}
    assert {row.name for row in backward} == products
    forward = {row.name: row for row in result if row.phase == 'forward'}
    repeated = sum(forward[row.name].flops for row in backward if row.recomputed)
    assert (repeated > 0) == (checkpointed is not None)


def test_all_of_a_step_with_a_scaler_is_timed(sample):
    model, scaler = Net(), torch.amp.GradScaler('cpu')
    optimizer = torch.optim.AdamW(model.parameters())
    check_adds_up(RooflineAnalyzer(model, sample, PEAKS).profile_step(
        None, optimizer, clip=1., scaler=scaler, warmup=2, steps=5))


@pytest.mark.parametrize('whole', [True, False])
def test_what_is_compiled_is_one_row(sample, whole):
    model = Net()
    eager = RooflineAnalyzer(model, sample, PEAKS).profile(steps=2)
    if whole: model = torch.compile(model, backend='eager')
    else: model.blocks[1].compile(backend='eager')
    compiled = RooflineAnalyzer(model, sample, PEAKS).profile(steps=4)
    check_adds_up(compiled)
    names = {row.name for row in compiled}
    parts = {'', 'blocks.0.0', 'blocks.0.1', 'blocks.0.2', 'blocks.1', 'head'}
    assert names == ({''} if whole else parts)
    assert (compiled.flops, compiled.bytes_moved) == (eager.flops, eager.bytes_moved)
    assert compiled[''].type == 'Net'
    assert compiled.params == eager.params == sum(row.params for row in compiled)


def test_work_that_torch_does_not_dispatch_is_unknown():
    class Sorts(nn.Module):
        def forward(self, x):
            for _ in range(100): x.numpy().copy().sort()
            return x

    model = nn.Sequential(nn.Linear(64, 64), Sorts())
    result = RooflineAnalyzer(model, torch.randn(100, 64), PEAKS).profile(steps=4)
    row = result['1']
    assert (row.bound, row.arithmetic_intensity) == ('undefined', None)
    assert row.unknown == {'work that torch does not dispatch': 1} and row.time_s > 0
    assert '0' in [row.name for row in result] and result.unknown
    check_adds_up(result)


def test_a_module_may_be_named_hooks():
    model = nn.Sequential()
    model.add_module('hooks', nn.Linear(64, 8))
    result = RooflineAnalyzer(model, torch.randn(4, 64), PEAKS).profile_step(torch.sum, steps=2)
    assert [row.label for row in result if row.type == 'Linear'] == ['hooks (forward)', 'hooks (backward)']
    check_adds_up(result)


def test_passes_of_a_profile():
    """The counted pass stands for two of the warm-up; two of it and every sixth one are plain."""
    class Counts(nn.Linear):
        passes = 0

        def forward(self, x):
            Counts.passes += 1
            return super().forward(x)

    result = RooflineAnalyzer(Counts(64, 64), torch.randn(8, 64), PEAKS).profile()
    assert Counts.passes == (1 + 3) + 20 + 3
    assert (len(result.totals.samples), len(result.totals.plain)) == (20, 5)


def test_products_without_a_ceiling_have_no_roof():
    model, sample = mlp().bfloat16(), torch.randn(32, 64, dtype=torch.bfloat16)
    result = RooflineAnalyzer(model, sample, PEAKS).profile(steps=2)
    assert [(row.name, row.bound, row.roof_time_s) for row in result if row.matmul_flops] == [
        ('0', 'undefined', None), ('2', 'undefined', None)]


def test_estimates_count_what_profiles_count(sample):
    analyzer = RooflineAnalyzer(Net(), sample, PEAKS)

    def counts(result):
        return [(r.label, r.type, r.calls, r.flops, r.bytes_moved, r.params, r.bound)
                for r in result]

    assert counts(analyzer.estimate()) == counts(analyzer.profile(steps=2))
    estimated = counts(analyzer.estimate_step(None, None, 'adamw'))
    assert estimated == counts(analyzer.profile_step(None, 'adamw', steps=2))
    assert analyzer.count().flops == count_costs(Net(), sample).flops


def test_tokens():
    model = nn.Sequential(nn.Embedding(100, 16), nn.Linear(16, 100))
    result = RooflineAnalyzer(model, torch.randint(100, (4, 32)), PEAKS).profile(steps=2)
    assert result.about['tokens'] == 4*32
    assert 'tokens' not in RooflineAnalyzer(mlp(), torch.randn(4, 64), PEAKS).profile(steps=2).about


def test_errors_leave_the_last_result():
    model = mlp()
    analyzer = RooflineAnalyzer(model, torch.randn(8, 64), PEAKS)
    first = analyzer.estimate()
    for request, words in ((lambda: analyzer.profile(steps=0), 'steps=0'),
                           (lambda: analyzer.profile_step(), 'loss'),
                           (lambda: analyzer.profile_step(torch.sum, 'sgdd'), 'sgdd'),
                           (lambda: analyzer.estimate('no such device'), 'no such device')):
        with pytest.raises(ValueError, match=words): request()
        assert analyzer.results is first and model.training


def test_other_settings_of_torch_stay():
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        RooflineAnalyzer(mlp(), torch.randn(8, 64), PEAKS).profile(steps=2)
    assert torch.is_grad_enabled()


def test_importing_is_light():
    """Compilers and trackers of memory, which take seconds to import, wait for who needs them."""
    heavy = ['torch._dynamo', 'torch._inductor', 'torch.distributed._tools', 'sympy']
    code = f"""import sys, torch, fasterbench.roofline
print(*[m for m in {heavy} if m in sys.modules])"""
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr[-2000:]


def test_products_of_integers_have_no_roof():
    """A CPU has no peak of int64, and float32 is measured all the same."""
    class Integers(nn.Linear):
        def forward(self, x): return super().forward(x)*(x.long() @ x.long().t()).sum()

    result = RooflineAnalyzer(Integers(64, 64), torch.randn(8, 64)).profile(steps=2)
    assert result.peaks.compute_peaks.keys() == {'float32'}
    assert result.flops > 0
