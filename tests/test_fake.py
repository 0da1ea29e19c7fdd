"""A zoo of models counts the same without data: FLOPs, products and bytes of every row."""
import os
import resource
import warnings

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from fasterbench.counting.counter import count
from fasterbench.running.fake import step_without_data, without_data
from fasterbench.running.run import inference, training

os.environ['TRANSFORMERS_VERBOSITY'] = 'error'
torchvision = pytest.importorskip('torchvision')
transformers = pytest.importorskip('transformers')
torch.set_num_threads(1)
IDS = torch.randint(0, 100, (2, 12), generator=torch.Generator().manual_seed(0))
MASK = torch.ones(2, 12, dtype=torch.long).index_put((torch.tensor(1), torch.arange(8, 12)), torch.tensor(0))
TEXT, IMAGE = dict(input_ids=IDS, attention_mask=MASK), torch.zeros(2, 3, 32, 32)
SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
WORDS = dict(SIZES, vocab_size=100, bos_token_id=0, eos_token_id=0, pad_token_id=0)
GROUPED = dict(WORDS, num_key_value_heads=2)
VISION = dict(SIZES, image_size=32, patch_size=8)
LANGUAGE = {   # class of the model → its configuration, and the sample
    'BertModel': (WORDS, TEXT),
    'GPT2LMHeadModel': (dict(n_embd=32, n_layer=2, n_head=4, vocab_size=100), TEXT),
    'LlamaForCausalLM': (GROUPED, TEXT),
    'Qwen3ForCausalLM': (dict(GROUPED, head_dim=8), TEXT),
    'Gemma2ForCausalLM': (dict(GROUPED, head_dim=8, sliding_window=8), TEXT),
    'MixtralForCausalLM': (dict(GROUPED, num_local_experts=4), TEXT),
    'MambaForCausalLM': (dict(hidden_size=32, num_hidden_layers=2, vocab_size=100, state_size=8),
                         dict(input_ids=IDS)),
    'T5Model': (dict(d_model=32, d_ff=64, num_layers=2, num_heads=4, d_kv=8, vocab_size=100),
                dict(input_ids=IDS, decoder_input_ids=IDS)),
    'WhisperModel': (
        dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
             decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=100,
             max_source_positions=20, pad_token_id=0, decoder_start_token_id=0),
        dict(input_features=torch.zeros(2, 80, 40), decoder_input_ids=IDS)),
    'ViTModel': (VISION, dict(pixel_values=IMAGE)),
    'CLIPModel': (dict(text_config=WORDS, vision_config=VISION, projection_dim=16),
                  dict(TEXT, pixel_values=IMAGE)),
}
IMAGES = {   # name in torchvision → side of the image
    'resnet18': 64, 'mobilenet_v3_small': 64, 'vit_b_32': 224, 'swin_t': 64,
    'shufflenet_v2_x0_5': 64, 'squeezenet1_1': 64, 'convnext_tiny': 64, 'regnet_y_400mf': 64}


def table(costs):
    return {at: (w.flops, w.product_flops, w.bytes_moved, w.calls, sum(w.unknown.values()))
            for at, w in costs.work.items() if w.flops or w.bytes_moved}


def differences(a, b): return {at: (a.get(at), b.get(at)) for at in {**a, **b} if a.get(at) != b.get(at)}


def compare(model, sample):
    with inference(model, sample) as run: real = table(count(run))
    with without_data(model, sample) as run: fake = table(count(run))
    assert real and differences(real, fake) == {}


def language_model(name):
    model = getattr(transformers, name)
    settings, sample = LANGUAGE[name]
    dtype = torch.bfloat16 if 'Mixtral' in name else None   # without data, torch 2.14 refuses others in grouped_mm
    return model(model.config_class(**settings)).to(dtype), sample


@pytest.mark.parametrize('name', LANGUAGE)
def test_language_models(name): compare(*language_model(name))


@pytest.mark.parametrize('name', IMAGES)
def test_image_models(name):
    compare(torchvision.models.get_model(name), torch.zeros(1, 3, IMAGES[name], IMAGES[name]))


# Steps

class Mixed(nn.Module):
    def __init__(self, norm=nn.BatchNorm2d):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 8, 3), norm(8), nn.Linear(8, 4)

    def forward(self, x): return self.last(self.norm(self.conv(x)).relu().mean((2, 3)))


OPTIMIZERS = {
    'adamw': 'adamw', 'sgd': 'sgd', 'none': None,
    'momentum': lambda ps: torch.optim.SGD(ps, .1, momentum=.9),
    'several at a time': lambda ps: torch.optim.AdamW(ps, foreach=True),
    'fused': lambda ps: torch.optim.AdamW(ps, fused=True)}
OPTIONS = {'plain': {}, 'clip': dict(clip=1.), 'micro-batches': dict(accumulate=2),
           'autocast': dict(autocast='bfloat16')}


@pytest.mark.parametrize('primed', [False, True])
@pytest.mark.parametrize('kind', OPTIMIZERS)
def test_optimizers(kind, primed):
    model, labels = Mixed(), torch.tensor([1, 2])
    made = OPTIMIZERS[kind]
    optimizer = made(model.parameters()) if callable(made) else made
    def loss(output): return nn.functional.cross_entropy(output.float(), labels)
    if primed and callable(made):
        loss(model(IMAGE)).backward()
        optimizer.step()
    with training(model, IMAGE, loss, optimizer) as run: real = table(count(run))
    with step_without_data(model, IMAGE, loss, optimizer) as run: fake = table(count(run))
    assert real and differences(real, fake) == {}


@pytest.mark.parametrize('name', OPTIONS)
def test_options(name):
    # torch's fake batch norm has statistics of the input's dtype under autocast, a real one float32
    model = Mixed(nn.Identity if name == 'autocast' else nn.BatchNorm2d)
    x = torch.zeros(2, 3, 8, 8, requires_grad=True)
    def loss(output): return output.float().square().mean()
    with training(model, x, loss, 'adamw', **OPTIONS[name]) as run: real = table(count(run))
    with step_without_data(model, x, loss, 'adamw', **OPTIONS[name]) as run: fake = table(count(run))
    assert real and differences(real, fake) == {}


def test_a_language_model_learns():
    model, sample = language_model('LlamaForCausalLM')
    sample = dict(sample, labels=IDS)
    with training(model, sample, None, 'adamw') as run: real = table(count(run))
    with step_without_data(model, sample, None, 'adamw') as run: fake = table(count(run))
    assert real and differences(real, fake) == {}


# What a GPU would run

def names(costs):
    return {name.removeprefix('aten::') for w in costs.work.values() for name in w.operators}


class Attention(nn.Module):
    def __init__(self, value_size=16):
        super().__init__()
        self.q, self.v, self.norm = nn.Linear(64, 64), nn.Linear(64, 4*value_size), nn.LayerNorm(64)

    def forward(self, x, mask=None):
        x = self.norm(x)
        q, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in (self.q(x), self.v(x)))
        out = nn.functional.scaled_dot_product_attention(q, q, v, mask)
        return nn.functional.rms_norm(out, (out.shape[-1],))


@pytest.mark.parametrize('dtype, mask, size, kernel', [
    (torch.bfloat16, None, 16, 'flash'), (torch.float32, None, 16, 'efficient'),
    (torch.bfloat16, torch.ones(32, 32, dtype=torch.bool), 16, 'efficient'),
    (torch.bfloat16, None, 24, 'efficient')])
def test_attention_of_a_gpu(dtype, mask, size, kernel):
    sample = (torch.zeros(2, 32, 64), mask)
    with without_data(Attention(size), sample, dtype, on_gpu=True) as run: costs = count(run)
    assert f'_scaled_dot_product_{kernel}_attention' in names(costs)
    products = 2*64*32*2*(64 + 4*size) + 2*2*4*32*32*(16 + size)
    assert costs.product_flops == products


class Operators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.names.add(op._opname)
        return op(*args, **(kwargs or {}))


@pytest.mark.skipif(not hasattr(torch.ops.aten, '_fused_rms_norm'), reason='torch has no such kernel')
def test_rms_norm_of_a_gpu():
    model = nn.Sequential(nn.Linear(8, 8), nn.RMSNorm(8), nn.RMSNorm(8, elementwise_affine=False))
    with step_without_data(model, torch.zeros(2, 8), lambda o: o.sum(), 'sgd', on_gpu=True) as run:
        with Operators() as operators: run(*run.arguments())
    assert {'_fused_rms_norm', '_fused_rms_norm_backward'} <= operators.names
    assert 'rsqrt' not in operators.names
    with without_data(model, torch.zeros(2, 8), on_gpu=True) as run, Operators() as operators:
        assert run(*run.arguments()).shape == (2, 8)
    assert '_fused_rms_norm' in operators.names


def test_autocast_of_a_gpu():
    """Norms run in float32 there, products in bfloat16; weights and moments stay as they are."""
    options = dict(on_gpu=True, autocast=torch.bfloat16)
    model, x = Attention(), torch.zeros(2, 32, 64)
    with step_without_data(model, x, lambda o: o.sum(), 'adamw', **options) as run:
        costs = count(run)
        assert {p.dtype for p in run.model.parameters()} == {torch.float32}
    assert '_scaled_dot_product_flash_attention' in names(costs)
    dtypes = {at: w.dtype for at, w in costs.work.items()}
    assert dtypes['forward', 'q'] == 'bfloat16' and dtypes['forward', 'norm'] == 'float32'


def test_optimizers_of_a_gpu():
    """One that is named is fused; an object runs as torch runs it on a GPU, several tensors at a time."""
    model = nn.Linear(8, 8)
    for optimizer, operator in (('adamw', '_fused_adamw_'), (torch.optim.AdamW(model.parameters()), '_foreach_addcdiv_')):
        with step_without_data(model, torch.zeros(2, 8), torch.sum, optimizer, on_gpu=True) as run:
            assert operator in names(count(run))
    assert model.weight.grad is None and optimizer.param_groups[0]['foreach'] is None


def test_a_pinned_attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    class Pinned(Attention):
        def forward(self, x):
            with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION): return super().forward(x)
    with without_data(Pinned(), torch.zeros(2, 32, 64), on_gpu=True) as run:
        assert '_scaled_dot_product_efficient_attention' in names(count(run))


def test_updates_take_no_data():
    """Fused SGD has no kernel without data: torch would make 8 GB of it and run it."""
    with torch.device('meta'): model = nn.Linear(2**15, 2**16, bias=False)
    x = torch.empty(1, 2**15, device='meta')
    for optimizer in 'sgd', 'adagrad', 'adamw', torch.optim.SGD(model.parameters(), fused=True):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with step_without_data(model, x, lambda y: y.sum(), optimizer, on_gpu=True) as run:
            assert count(run)['(optimizer)'].flops > 0
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20   # KiB


def test_fused_encoders_stay_fused():
    model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    with without_data(model, torch.zeros(2, 8, 32), on_gpu=True) as run:
        assert '_transformer_encoder_layer_fwd' in names(count(run))


@pytest.mark.skipif(torch.__version__ < (2, 9), reason='modes do not see higher-order operators')
def test_flex_attention_has_a_backward():
    from torch.nn.attention.flex_attention import flex_attention
    class Flexible(Attention):
        def forward(self, x):
            q, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in (self.q(x), self.v(x)))
            return flex_attention(q, q, v)
    sample = torch.zeros(2, 32, 64)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        with step_without_data(Flexible(), sample, lambda o: o.sum(), 'sgd', on_gpu=True) as run:
            assert count(run).product_flops > 0
