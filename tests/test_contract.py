"""After a run everything is as it was, bit for bit: models, optimizers, scalers, random numbers, settings.

What is there is read by a walk of its own (`picture`), which shares no code with the package.
"""
import random
import signal
import sys
import warnings
from contextlib import suppress

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fasterbench.counting.counter import count
from fasterbench.running.fake import NeedsData, step_without_data, without_data
from fasterbench.running.run import inference, training
from fasterbench.sources.memory import footprint

torch.set_num_threads(1)
PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)


def bits(t):
    return t.detach().clone().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def picture(*roots):
    """Path → what is there, for everything that attributes, dicts, lists, tuples and sets lead to."""
    found, seen, todo = {}, set(), [(f'root {i}', o) for i, o in enumerate(roots)]
    while todo:
        path, o = todo.pop()
        if isinstance(o, PLAIN):
            found[path] = o
            continue
        found[path] = (type(o).__name__, id(o))
        if id(o) in seen: continue
        seen.add(id(o))
        if isinstance(o, torch.Tensor):
            found[f'{path} bits'] = bits(o), o.shape, o.stride(), o.requires_grad
            if not o.is_inference(): found[f'{path} version'] = o._version
            if o.is_leaf: todo.append((f'{path}.grad', o.grad))
        elif isinstance(o, dict):
            found[f'{path} keys'] = [*map(id, o)] if not all(isinstance(k, str) for k in o) else [*o]
            todo += [(f'{path}[{i}]', v) for i, v in enumerate(o.values())]
        elif isinstance(o, (list, tuple)):
            todo += [(f'{path}[{i}]', v) for i, v in enumerate(o)]
        elif isinstance(o, set):
            found[f'{path} members'] = set(o)
        elif isinstance(o, (nn.Module, torch.optim.Optimizer, torch.amp.GradScaler)):
            todo.append((f'{path}.', vars(o)))
    found['process'] = (
        torch.get_rng_state().numpy().tobytes(), repr(np.random.get_state()), random.getstate(),
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled('cpu'),
        torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack(),
        torch._C._is_multithreading_enabled(), F.scaled_dot_product_attention, torch.compile,
        signal.getsignal(signal.SIGINT))
    return found


def differences(before, after):
    return [path for path in {**before, **after} if before.get(path) != after.get(path)]


# Forward passes

class Body(nn.Module):
    """A module that does `work` in its forward pass, with a layer to work with."""

    def __init__(self, work, **attributes):
        super().__init__()
        self.layer, self.work = nn.Linear(6, 6), work
        for name, value in attributes.items(): setattr(self, name, value)

    def forward(self, x):
        return self.work(self, self.layer(x))


def lazily(m, x):
    if not hasattr(m, 'made'): m.made, m.norm = x.mean(), nn.LayerNorm(6)
    return m.norm(x*m.made)


def note(m, x):
    m.notes['inner'].append(x.sum().item())
    m.notes.setdefault('first', x)
    m.seen.add(len(m.seen))
    return x


def smooth(m, x):
    with torch.no_grad(): m.mean.lerp_(x.mean(0), .1)
    return x - m.mean


def replace(m, x):
    m.mean = m.mean + 1
    m.steps += 1
    return x


def cache(m, x):
    m.past = x if m.past is None else torch.cat([m.past, x])
    m.pairs[0].add_(1)
    return m.past.sum() + x


def draw(m, x):
    return x*random.random()*np.random.rand()*torch.rand(())


def change_modes(m, x):
    m.train(not m.training)
    m.layer.register_forward_hook(lambda *args: None)
    m.register_buffer('late', torch.ones(2))
    m.add_module('extra', nn.ReLU())
    return x


def forget(m, x):
    m.notes.pop('b', None)
    m.notes['a'] = 3
    del m.layer.bias
    m.layer.register_parameter('bias', None)
    return x


def write_input(m, x):
    return x.mul_(2).relu_()


def buffer(*shape): return nn.Buffer(torch.ones(*shape))


def hooked():
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
    model.means = []
    model[0].register_forward_hook(lambda m, args, out: model.means.append(out.mean()))
    return model


def tied():
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    model[2].weight = model[0].weight
    return model


def mixed_modes():
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(), nn.BatchNorm1d(6))
    model[1].eval()
    return model


def old_spectral_norm():
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return nn.utils.spectral_norm(nn.Linear(6, 6))


def with_gradients():
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
    model(torch.randn(2, 6)).sum().backward()
    return model


def inference_buffer():
    with torch.inference_mode(): counts = torch.zeros(6)
    def work(m, x):
        with torch.inference_mode(): m.counts.add_(1)
        return x
    return Body(work, counts=counts)


def count_calls(m, x):
    m.calls[0] += 1
    return x


class Dropping(nn.Module):
    """Evaluation mode does not reach this dropout."""

    def forward(self, x): return F.dropout(x, .5, training=True)


FORWARD = {
    'linear layers': lambda: nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Linear(6, 6)),
    'batch norm': lambda: nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 6)),
    'batch norm in training mode': lambda: Body(lambda m, x: m.norm.train()(x), norm=nn.BatchNorm1d(6)),
    'mixed modes': mixed_modes,
    'dropout': Dropping,
    'lazily made attributes': lambda: Body(lazily),
    'containers': lambda: Body(note, notes={'inner': []}, seen=set()),
    'hooks': hooked,
    'moving average': lambda: Body(smooth, mean=buffer(6)),
    'replaced buffers': lambda: Body(replace, mean=buffer(6), steps=0),
    'a cache that grows': lambda: Body(cache, past=None, pairs=[torch.zeros(2)]),
    'random numbers': lambda: Body(draw),
    'modes, hooks, children': lambda: Body(change_modes),
    'deleted things': lambda: Body(forget, notes={'a': 1, 'b': 2}),
    'written input': lambda: Body(write_input),
    'expanded buffer': lambda: Body(lambda m, x: x + m.mean, mean=nn.Buffer(torch.ones(1, 6).expand(5, 6))),
    'written expanded buffer': lambda: Body(count_calls, calls=nn.Buffer(torch.zeros(1, dtype=torch.int64).expand(3))),
    'buffer of inference mode': inference_buffer,
    'spectral norm': lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)).train(),
    'spectral norm by hooks': old_spectral_norm,
    'weight norm': lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)),
    'tied weights': tied,
    'gradients': with_gradients,
    'attention': lambda: nn.TransformerEncoderLayer(6, 2, 8, batch_first=True),
    'recurrent': lambda: Body(lambda m, x: m.cell(x)[0], cell=nn.LSTM(6, 6)),
}


@pytest.mark.parametrize('name', FORWARD)
def test_forward_passes_leave_nothing(name):
    torch.manual_seed(0)
    model, x = FORWARD[name](), torch.randn(5, 6)
    before = picture(model, x)
    with inference(model, x) as run:
        first = run(*run.arguments())
        count(run)
        run(*run.arguments())
    assert first.shape[-1] == 6
    assert differences(before, picture(model, x)) == []
    with inference(model, x, grad=True) as run: run(*run.arguments())
    assert differences(before, picture(model, x)) == []


# Training steps

class Net(nn.Module):
    """Most of what a step changes, in one network."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv1d(1, 3, 3), nn.BatchNorm1d(3), nn.Dropout(.3)
        self.last = nn.utils.parametrizations.spectral_norm(nn.Linear(12, 2))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.losses, self.steps = [], 0

    def forward(self, x):
        self.steps += 1
        x = self.drop(self.norm(self.conv(x[:, None])).relu())
        return self.last(x.flatten(1))*self.frozen


OPTIMIZERS = {
    'SGD with momentum': lambda ps: torch.optim.SGD(ps, .1, momentum=.9, nesterov=True),
    'Adam with amsgrad': lambda ps: torch.optim.Adam(ps, amsgrad=True),
    'AdamW, several at a time': lambda ps: torch.optim.AdamW(ps, foreach=True),
    'AdamW, fused': lambda ps: torch.optim.AdamW(ps, fused=True),
    'RMSprop': lambda ps: torch.optim.RMSprop(ps, centered=True, momentum=.5),
    'Adagrad': lambda ps: torch.optim.Adagrad(ps),
    'NAdam with a tensor as lr': lambda ps: torch.optim.NAdam(ps, torch.tensor(.01), capturable=False),
}
OPTIONS = {
    'clip': dict(clip=.1),
    'scaler': dict(scaler=torch.amp.GradScaler('cpu', growth_interval=1)),
    'scaler and clip': dict(scaler=torch.amp.GradScaler('cpu', init_scale=4.), clip=.1),
    'accumulate': dict(accumulate=3),
    'autocast': dict(autocast=torch.bfloat16),
}
X, Y = torch.randn(4, 6), torch.tensor([0, 1, 1, 0])


def loss(output): return F.cross_entropy(output.float(), Y)


def step(net, optimizer):
    optimizer.zero_grad()
    value = loss(net(X))
    value.backward()
    optimizer.step()
    return value.item().hex()


def primed(kind, steps):
    torch.manual_seed(1)
    net = Net()
    optimizer = OPTIMIZERS[kind](net.parameters())
    for _ in range(steps): step(net, optimizer)
    return net, optimizer


def check_steps(kind, primed_by, **options):
    """Steps leave nothing, and training goes on as in a twin that nothing was done to."""
    net, optimizer = primed(kind, primed_by)
    roots = net, optimizer, options.get('scaler'), X
    before = picture(*roots)
    with training(net, X, loss, optimizer, **options) as run:
        for _ in range(2): assert run(*run.arguments()).isfinite()
        count(run)
        assert any(differences(before, picture(*roots)))
    assert differences(before, picture(*roots)) == []
    goes_on = [step(net, optimizer) for _ in range(3)]
    twin, its_optimizer = primed(kind, primed_by)
    assert goes_on == [step(twin, its_optimizer) for _ in range(3)]


@pytest.mark.parametrize('primed_by', [0, 2])
@pytest.mark.parametrize('kind', OPTIMIZERS)
def test_optimizers(kind, primed_by): check_steps(kind, primed_by)


@pytest.mark.parametrize('name', OPTIONS)
def test_options(name): check_steps('SGD with momentum', 1, **OPTIONS[name])


class NormedLoss(nn.Module):
    """A loss with weights and running statistics of its own."""

    def __init__(self):
        super().__init__()
        self.norm, self.weight, self.calls = nn.BatchNorm1d(2), nn.Parameter(torch.ones(2)), 0

    def forward(self, output):
        self.calls += 1
        return (self.norm(output)*self.weight).square().mean()


def test_a_loss_that_is_a_module():
    net, criterion = Net(), NormedLoss()
    optimizer = torch.optim.SGD([*net.parameters(), *criterion.parameters()], .1)
    before = picture(net, criterion, optimizer)
    with training(net, X, criterion, optimizer) as run:
        run(*run.arguments())
        assert criterion.calls == 1 and not torch.equal(criterion.weight, torch.ones(2))
    with step_without_data(net, X, criterion, optimizer) as run: run(*run.arguments())
    assert differences(before, picture(net, criterion, optimizer)) == []


def test_frozen_parameters_have_a_memory():
    net = Net()
    before = picture(net)
    with training(net, X, loss, 'sgd') as run: assert footprint(run).peak > 0
    assert differences(before, picture(net)) == []


# Errors

class Failing(torch.autograd.Function):
    """Raises in the backward pass."""

    @staticmethod
    def forward(ctx, x): return x.clone()

    @staticmethod
    def backward(ctx, grad): raise OverflowError('on purpose')


def fail(*args): raise OverflowError('on purpose')


FAILURES = {
    'forward': lambda net, optimizer: net.norm.register_forward_pre_hook(fail),
    'loss': lambda net, optimizer: None,
    'backward': lambda net, optimizer: setattr(net, 'norm', nn.Sequential(net.norm, Applied())),
    'optimizer': lambda net, optimizer: optimizer.register_step_post_hook(fail),
}


class Applied(nn.Module):
    def forward(self, x): return Failing.apply(x)


@pytest.mark.filterwarnings('ignore:.*has hooks on its steps')
@pytest.mark.parametrize('where', FAILURES)
def test_errors_leave_nothing(where):
    net, optimizer = primed('AdamW, several at a time', 1)
    FAILURES[where](net, optimizer)
    before = picture(net, optimizer, X)
    with pytest.raises(OverflowError, match='on purpose'):
        with training(net, X, fail if where == 'loss' else loss, optimizer) as run: count(run)
    assert differences(before, picture(net, optimizer, X)) == []


def test_a_failed_request_changes_nothing():
    net, optimizer = primed('Adagrad', 1)
    before = picture(net, optimizer)
    for options in (dict(accumulate=0), dict(clip='much'), dict(autocast=torch.int8)):
        for opened in (training, step_without_data):
            with pytest.raises(ValueError):
                with opened(net, X, loss, optimizer, **options): pass
    assert differences(before, picture(net, optimizer)) == []


# Without data

class Asks(nn.Module):
    """Has a path that depends on what it computes, some operators after it began."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(6, 6), 0

    def forward(self, x):
        self.calls += 1
        x = torch.func.jvp(self.layer, (x*torch.rand(()),), (torch.ones_like(x),))[1]
        return x if x.sum() > 0 else -x


def test_estimates_leave_nothing():
    net, optimizer = primed('Adagrad', 1)
    net(X).sum().backward()
    def with_live_weights(output): return loss(output) + net.conv.weight.norm()*torch.rand(())
    # torch 2.6 frees a weak reference to such a weight's memory twice
    own_loss = with_live_weights if torch.__version__ >= (2, 9) else loss
    before = picture(net, optimizer, X)
    for options in (dict(), dict(on_gpu=True, autocast=torch.bfloat16), dict(dtype=torch.float16)):
        with step_without_data(net, X, own_loss, optimizer, **options) as run: count(run)
        with without_data(net, X, options.get('dtype'), on_gpu='on_gpu' in options) as run: count(run)
    assert differences(before, picture(net, optimizer, X)) == []


@pytest.mark.parametrize('on_gpu', [False, True])
def test_failed_estimates_leave_nothing(on_gpu):
    model = Asks()
    before = picture(model, X)
    with pytest.raises(NeedsData, match='Asks needs values that only a run gives'):
        with without_data(model, X, on_gpu=on_gpu) as run: count(run)
    with pytest.raises(NeedsData):
        options = dict(on_gpu=on_gpu, autocast=torch.bfloat16)
        with step_without_data(model, X, loss, 'adamw', **options) as run: count(run)
    assert differences(before, picture(model, X)) == []


# Ctrl-C

class InterruptAt:
    """Sends the process a Ctrl-C as the `n`-th line begins, of code that a step runs in Python."""

    def __init__(self, n=None): self.n, self.lines = n, 0

    def __call__(self, frame, event, arg):
        name = frame.f_code.co_filename
        if any(part in name for part in ('fasterbench/', '/torch/optim/', '/torch/nn/', '/torch/amp/')):
            return self.line

    def line(self, frame, event, arg):
        self.lines += event == 'line'
        if event == 'line' and self.lines == self.n:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return self.line


def interrupted_step(net, optimizer, scaler, trace):
    sys.settrace(trace)
    try:
        with training(net, X, loss, optimizer, scaler=scaler, clip=1., accumulate=2) as run:
            run(*run.arguments())
    finally:
        sys.settrace(None)


def test_interrupts_leave_nothing():
    signal.signal(signal.SIGINT, signal.default_int_handler)   # a job in the background has none
    net, optimizer = primed('AdamW, several at a time', 1)
    scaler = torch.amp.GradScaler('cpu', growth_interval=1)
    before = picture(net, optimizer, scaler)
    whole = InterruptAt()
    interrupted_step(net, optimizer, scaler, whole)
    interrupts, moments = 0, 500
    for i in range(moments):
        with suppress(KeyboardInterrupt):
            interrupted_step(net, optimizer, scaler, InterruptAt(1 + i*whole.lines//moments))
            interrupts -= 1
        interrupts += 1
        changed = differences(before, picture(net, optimizer, scaler))
        assert changed == [], f'line {1 + i*whole.lines//moments} of {whole.lines}'
    assert interrupts == moments
