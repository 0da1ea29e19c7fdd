"""Counts held against torch's own counter, against torch's samples of operators, and across processes."""
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from fasterbench import count_costs
from fasterbench.counting.counter import CostMode, count
from fasterbench.running.fake import without_data
from fasterbench.running.modules import ModuleStack, Place
from fasterbench.running.run import inference, training


def of_forward(model, *sample):
    with inference(model, sample) as run: return count(run)


def of_step(model, *sample, **options):
    with training(model, sample, lambda out: out.square().sum(), **options) as run: return count(run)


# Products

MODELS = dict(
    mlp=lambda: (nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)), torch.rand(2, 16)),
    convolutions=lambda: (nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(),
                                        nn.ConvTranspose2d(8, 4, 2, stride=2)), torch.rand(2, 3, 12, 12)),
    attention=lambda: (nn.TransformerEncoderLayer(16, 2, 32, dropout=0., batch_first=True).train(),
                       torch.rand(2, 6, 16)))


@pytest.mark.parametrize('name', MODELS)
def test_products_are_those_of_torch(name):
    model, x = MODELS[name]()
    x.requires_grad_()
    with sdpa_kernel(SDPBackend.MATH):   # torch 2.6 has no formula for the CPU's fused one
        with FlopCounterMode(display=False) as theirs: model(x).square().sum().backward()
        assert of_step(model, x).product_flops == theirs.get_total_flops() > 0


def test_a_formula_that_is_registered_later_counts():
    @torch.library.custom_op('tested::late', mutates_args=())
    def late(x: torch.Tensor) -> torch.Tensor: return x.sin()

    class Late(nn.Module):
        def forward(self, x): return torch.ops.tested.late(x)

    assert of_forward(Late(), torch.rand(3)).unknown == {'tested.late.default': 1}
    torch.utils.flop_counter.register_flop_formula(torch.ops.tested.late)(lambda *args, **kwargs: 77)
    costs = of_forward(Late(), torch.rand(3))
    assert (costs.flops, costs.product_flops, costs.unknown) == (77, 77, {})


# torch's samples of operators: nothing is unknown, and what is counted does not depend on data

OPERATORS = '''abs add addmm addmv amax argmax as_strided baddbmm bmm cat ceil clamp cos cumsum div einsum exp
    expand fft.fft fft.rfft fill flip gather index_add index_put index_select
    log log_softmax logsumexp masked_fill matmul mean mm mul mv native_layer_norm
    nn.functional.adaptive_avg_pool2d nn.functional.avg_pool2d nn.functional.batch_norm nn.functional.conv2d
    nn.functional.conv_transpose2d nn.functional.cross_entropy nn.functional.embedding nn.functional.gelu
    nn.functional.grid_sample nn.functional.group_norm nn.functional.interpolate nn.functional.layer_norm
    nn.functional.linear nn.functional.max_pool2d nn.functional.mse_loss nn.functional.nll_loss nn.functional.pad
    nn.functional.relu nn.functional.scaled_dot_product_attention nn.functional.silu nn.functional.softmax outer pow
    prod reciprocal repeat roll scatter scatter_add sigmoid sin slice softmax sort sqrt stack std sub sum t take
    tanh topk transpose tril var where zeros_like'''.split()


def samples():
    from torch.testing._internal.common_methods_invocations import op_db
    seen = set()
    for op in op_db:
        if op.name not in OPERATORS or op.name in seen: continue
        seen.add(op.name)
        yield op, next(iter(op.sample_inputs('cpu', torch.float32, requires_grad=op.supports_autograd)))


def counted(op, sample):
    """FLOPs, bytes and unknown operators of a sample, forward and backward."""
    mode = CostMode(ModuleStack(nn.Module()))
    with mode:
        out = op(sample.input, *sample.args, **sample.kwargs)
        result = next((o for o in (out if isinstance(out, tuple) else (out,)) if o.requires_grad), None)
        if result is not None: result.abs().sum().backward()
    work = mode.work[Place('forward', '')]
    return work.flops, work.bytes_moved, dict(work.unknown)


def test_operators_of_torch(monkeypatch):
    # torch's samples freeze the flags of its backends for the whole process
    monkeypatch.setattr(torch.backends, '__allow_nonbracketed_mutation_flag', True)
    found = {op.name: counted(op, sample) for op, sample in samples()}
    assert len(found) > 0.9*len(OPERATORS)
    assert {name: unknown for name, (_, _, unknown) in found.items() if unknown} == {}
    moving = {name for name, (_, nbytes, _) in found.items() if nbytes}
    assert len(moving) == len(found)


@pytest.mark.parametrize('name', MODELS)
def test_without_data_it_counts_the_same(name):
    model, x = MODELS[name]()
    with without_data(model, x) as run: fake = count(run)
    real = of_forward(model, x)
    assert (fake.flops, fake.bytes_moved, fake.boundary_bytes) == (real.flops, real.bytes_moved, real.boundary_bytes)


# The boundary of a residual block, by hand

class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8, bias=False)

    def forward(self, x): return x + F.relu(self.inner(x))


def test_boundary_of_a_residual_block():
    costs = of_forward(Residual(), torch.rand(4, 8))
    x, weight = 4*8*4, 8*8*4
    assert costs['inner'].boundary_bytes == x + weight + x
    assert costs[''].boundary_bytes == x + x + x          # its result, x, the sum; what ReLU makes stays inside
    assert costs.boundary_bytes == x + weight + x         # x is read once
    assert costs.bytes_moved == (x + weight + x) + 2*x + 3*x


class LastOutput(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 16, batch_first=True)

    def forward(self, x): return self.rnn(x)[0][:, -1]


def test_what_a_module_returns_leaves_it_whole():
    """An LSTM gives all outputs and its two states to its caller, which looks at the last output."""
    boundary = count_costs(LastOutput(), torch.randn(2, 5, 8))['rnn'].boundary_bytes
    weights = 4*16*(8 + 16 + 2)
    assert boundary == 4*(2*5*8 + weights + 2*5*16 + 2*2*16)


# Exchanges between processes

@pytest.fixture
def four_ranks():
    """A process group of 4 ranks that exchanges nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group('fake', rank=0, world_size=4, store=FakeStore())
    yield dist.device_mesh.init_device_mesh('cpu', (4,))
    dist.destroy_process_group()


def test_tensor_parallel_layers(four_ranks):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    plan = {'0': ColwiseParallel(), '2': RowwiseParallel()}
    model = parallelize_module(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)), four_ranks, plan)
    costs = of_forward(model, torch.rand(2, 16))
    # a quarter of the hidden features on each rank; what finds the shapes of the whole is not counted
    assert costs.product_flops == 2*(2*2*16*8)
    assert costs['1'].flops == 2*8
    assert costs.total('links') == {'all_reduce': 2*3/4*2*16*4}
    assert costs.unknown == {}


def test_data_parallel_step(tmp_path):
    dist.init_process_group('gloo', rank=0, world_size=1, store=dist.FileStore(str(tmp_path/'store'), 1))
    model = nn.parallel.DistributedDataParallel(nn.Linear(16, 32))
    costs = of_step(model, torch.rand(2, 16))
    assert costs.total('operators')['c10d::allreduce_'] == 1
    assert costs.total('operator_bytes')['c10d::allreduce_'] == 2*(16*32 + 32)*4
    assert costs.total('links')['all_reduce'] == 0   # there is nobody else
    assert costs.unknown == {}
    dist.destroy_process_group()


# Memory

def test_the_tracker_of_torch_is_what_it_was():
    from torch.distributed._tools.mem_tracker import MemTracker
    for name in ('track_external', 'reset_mod_stats', 'get_tracker_snapshot'): assert hasattr(MemTracker, name)
