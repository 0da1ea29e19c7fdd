"""Is every operation of a model's training step counted, and are there as many products as torch counts?

One forward in training mode, a loss and a backward of torchvision's models for images, segmentation, detection, video and
optical flow, of timm's, of small transformers and of recurrent layers, on the CPU, counted by `CostMode` and by torch's
FlopCounterMode together. Gradients of a weight take as many products as the forward, and so do gradients of what goes
into a layer, except in the first one: about twice the forward's. torch's formula for the gradient of a convolution's
weight lets each group meet the channels of all: where a model has convolutions in groups, torch's number is larger.
Prints the table and writes it, with the device and the versions, to benchmarks/results/training_counts.txt.

    python -m benchmarks.checks.training_counts [--only resnet]
"""
import timm, torch, transformers
from fastcore.script import call_parse
from torch import nn
from torchvision import models as tv
from tqdm import tqdm

from fasterbench.costs import CostMode
from benchmarks.shared.report import TorchCounter, quiet, write_result
from scripts.evidence import part_text, table

# losses

def loss(out):
    "The loss that a model gives, or the sum of what it gives"
    if getattr(out, 'loss', None) is not None: return out.loss
    if isinstance(out, torch.Tensor): return out.sum()
    parts = out.values() if isinstance(out, dict) else out
    return sum(loss(o) for o in parts if isinstance(o, (list, tuple, dict)) or isinstance(o, torch.Tensor) and o.requires_grad)

def in_groups(model): return any(getattr(m, 'groups', 1)>1 for m in model.modules())

# models: name → how it is made, and how it is called

def of_torchvision(name, *shape, **kw):
    place = next(o for o in (tv, tv.segmentation, tv.detection, tv.video, tv.optical_flow) if hasattr(o, name))
    return lambda: getattr(place, name)(weights=None, **kw), lambda m: m(torch.randn(shape))

images = dict(resnet18=64, vgg11_bn=64, densenet121=64, googlenet=64, inception_v3=299, squeezenet1_0=64, mobilenet_v3_small=64,
    shufflenet_v2_x1_0=64, efficientnet_b0=64, convnext_tiny=64, swin_t=64, swin_v2_t=64, vit_b_16=224, maxvit_t=224)
slow_to_make = dict(googlenet=dict(init_weights=False), inception_v3=dict(init_weights=False))
others = dict(deeplabv3_resnet50=((2, 3, 64, 64), dict(weights_backbone=None, aux_loss=True)), r3d_18=((1, 3, 4, 32, 32), {}),
    swin3d_t=((1, 3, 4, 32, 32), {}), mvit_v1_b=((1, 3, 16, 224, 224), {}))

def of_detection(name, n=64):
    targets = [dict(boxes=torch.tensor([[4., 4, 40, 40], [10, 10, 30, 50]]), labels=torch.ones(2).long(),
                    masks=torch.ones(2, n, n, dtype=torch.uint8), keypoints=torch.ones(2, 17, 3))]*2
    sizes = {} if 'ssd' in name else dict(min_size=n, max_size=n)
    make, _ = of_torchvision(name, weights_backbone=None, **sizes)
    return make, lambda m: m([torch.rand(3, n, n)]*2, targets)

detection = '''fasterrcnn_resnet50_fpn maskrcnn_resnet50_fpn keypointrcnn_resnet50_fpn retinanet_resnet50_fpn fcos_resnet50_fpn
    ssdlite320_mobilenet_v3_large'''.split()

def of_timm(name): return lambda: timm.create_model(name), lambda m: m(torch.randn(2, *m.default_cfg['input_size']))
timms = '''levit_128s mobilevit_s coatnet_pico_rw_224 nfnet_l0 xcit_nano_12_p16_224 poolformer_s12 tf_efficientnetv2_b0 volo_d1_224
    cait_xxs24_224 eva02_tiny_patch14_224 crossvit_tiny_240 gcvit_xxtiny pvt_v2_b0 skresnet18 halonet26t lambda_resnet26t'''.split()

common = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
grouped = dict(common, num_key_value_heads=2)
configs = {
    'BertForMaskedLM': common, 'DebertaV2ForMaskedLM': common, 'LlamaForCausalLM': grouped,
    'DistilBertForMaskedLM': dict(vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=48),
    'GPT2LMHeadModel': dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4),
    'T5ForConditionalGeneration': dict(vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0),
    'MixtralForCausalLM': dict(grouped, num_local_experts=4),
    'Qwen2MoeForCausalLM': dict(grouped, num_experts=4, moe_intermediate_size=16, shared_expert_intermediate_size=16),
    'MambaForCausalLM': dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=8),
    'Mamba2ForCausalLM': dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=4, head_dim=16, n_groups=1),
    'RwkvForCausalLM': dict(vocab_size=99, hidden_size=32, num_hidden_layers=2)}

def of_transformers(name):
    cls, ids = getattr(transformers, name), torch.randint(0, 90, (2, 12))
    return lambda: cls(cls.config_class(**configs[name])), lambda m: m(input_ids=ids, labels=ids)

def wav2vec2():
    config = transformers.Wav2Vec2Config(**{**common, 'vocab_size':32}, mask_time_prob=0.)
    return lambda: transformers.Wav2Vec2ForCTC(config), lambda m: m(torch.randn(2, 4000), labels=torch.randint(1, 30, (2, 4)))

def every():
    yield from ((n, *of_torchvision(n, 2, 3, s, s, **slow_to_make.get(n, {}))) for n,s in images.items())
    yield from ((n, *of_torchvision(n, *shape, **kw)) for n,(shape, kw) in others.items())
    yield 'raft_small', of_torchvision('raft_small')[0], lambda m: m(*torch.randn(2, 1, 3, 128, 128), num_flow_updates=2)
    yield from ((n, *of_detection(n)) for n in detection)
    yield from ((f'timm {n}', *of_timm(n)) for n in timms)
    yield from ((n, *of_transformers(n)) for n in configs)
    yield 'Wav2Vec2ForCTC', *wav2vec2()
    sequence = torch.randn(5, 2, 8)
    yield 'LSTM', lambda: nn.LSTM(8, 16, 2, bidirectional=True), lambda m: m(sequence)[0]
    yield 'GRU', lambda: nn.GRU(8, 16, 2), lambda m: m(sequence)[0]
    yield 'Transformer', lambda: nn.Transformer(32, 4, 2, 2, 64), lambda m: m(torch.randn(5, 2, 32), torch.randn(4, 2, 32))

def row(name, make, call):
    "What one training step of a model counts as"
    torch.manual_seed(0)
    model = make().train()
    with TorchCounter() as theirs, CostMode() as ours:
        out, whole = loss(call(model)), ours.rows['']
        forward, products = whole.flops, whole.matmul_flops
        out.backward()
    torchs = theirs.get_total_flops()
    return name, whole.flops/1e6, (whole.flops-forward)/forward, (whole.matmul_flops-products)/products, torchs/max(whole.matmul_flops, 1), \
        'yes' if in_groups(model) else '', ' '.join(whole.unknown)

@call_parse
def main(
    only:str='', # part of the names of the models
):
    "Count a training step of many models and list what has no rule"
    quiet()
    torch.set_num_threads(1)
    rows = [row(*o) for o in tqdm([*every()]) if only in o[0]]
    headers = ['model', 'step, MFLOP', 'backward / forward', 'of products', 'torch / products here', 'groups', 'without a rule']
    found = table(rows, headers, floatfmt=('', ',.1f', '.3f', '.3f', '.3f'))
    figures = dict(models=len(rows), without_a_rule=sum(bool(r[-1]) for r in rows))
    if only: print(part_text(found))
    else: write_result('training_counts', f'training steps of {len(rows)} models on the CPU', found, 'torchvision', 'timm', 'transformers', figures=figures)
    if any(r[-1] for r in rows): raise SystemExit(1)   # an operation has no rule
