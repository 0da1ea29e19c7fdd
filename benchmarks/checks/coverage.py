"""Which operations do models dispatch, and does each have a cost?

Builds models of many families with random weights (no downloads), counts one forward of each on the CPU, and lists the
operations that have no rule, each with its reason. Then holds the products of three language models against a sum by
hand. Prints the tables and writes them, with the device and the versions, to benchmarks/results/coverage.txt; one
row for each model is in coverage.json.

    python -m benchmarks.checks.coverage [--only huggingface,quantized]
"""
import gc, os
from collections import Counter, defaultdict
from unittest.mock import patch
os.environ['HF_HUB_OFFLINE'] = '1'

import timm, torch, torch.nn.functional as F, torchvision, transformers
import torch.ao.quantization as tq, torchvision.ops as O
from fastcore.script import call_parse
from torch import nn, randn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils._pytree import tree_map

from fasterbench import costs
from benchmarks.shared.report import chosen, quiet, write_result
from scripts.evidence import part_text, table

reasons = {   # why an operation has no rule
    'aten.matmul.default': 'of nested tensors: whole operations, and their products have no rule',
}
def reason(op): return next((why for k,why in reasons.items() if k in op), 'no reason known')

class Fn(nn.Module):
    "A function as a model"
    def __init__(self, f, *modules):
        super().__init__()
        self.f, self.parts = f, nn.ModuleList(modules)
    def forward(self, *args, **kwargs): return self.f(*args, **kwargs)

families = {}
def family(f):
    "Registers a generator of `name, make, sample`, where `make` builds the model"
    families[f.__name__] = f
    return f

# torchvision

def tv(name, **kwargs): return lambda: torchvision.models.get_model(name, weights=None, **kwargs)
def tv_names(module): return torchvision.models.list_models(module=module)

@family
def torchvision_classification():
    for n in tv_names(torchvision.models):
        if torchvision.models.get_model_weights(n).DEFAULT.meta['num_params']>1.5e8: continue   # the same operations, more memory
        s = 224 if n.startswith(('vit', 'maxvit')) else 128
        yield n, tv(n, **(dict(init_weights=False) if n in ('googlenet', 'inception_v3') else {})), randn(1, 3, s, s)

@family
def torchvision_segmentation():
    for n in tv_names(torchvision.models.segmentation): yield n, tv(n, weights_backbone=None), randn(1, 3, 64, 64)

@family
def torchvision_detection():
    for n in tv_names(torchvision.models.detection):
        small = {} if n.startswith('ssd') else dict(min_size=160, max_size=160)
        if 'rcnn' in n: small.update(rpn_post_nms_top_n_test=50)
        keep_all = dict(box_score_thresh=0.) if 'rcnn' in n else dict(score_thresh=0.)
        yield n, tv(n, weights_backbone=None, **small, **keep_all), ([torch.rand(3, 128, 160)],)

@family
def torchvision_video():
    for n in tv_names(torchvision.models.video):
        t,s = (16, 224) if n.startswith(('mvit', 's3d')) else (8, 64)
        yield n, tv(n), randn(1, 3, t, s, s)

@family
def torchvision_optical_flow():
    for n in tv_names(torchvision.models.optical_flow): yield n, tv(n), (randn(1, 3, 128, 128), randn(1, 3, 128, 128))

@family
def torchvision_ops():
    x, boxes = randn(1, 8, 16, 16), [torch.tensor([[0., 0, 8, 8], [2, 2, 15, 9]])]
    for n in 'roi_align roi_pool ps_roi_align ps_roi_pool'.split():
        yield n, lambda n=n: Fn(lambda a: getattr(O, n)(a, boxes, 2)), x
    corners = torch.rand(20, 2)
    b = torch.cat([corners, corners + torch.rand(20, 2)], 1)
    yield 'nms', lambda: Fn(lambda b,s: O.nms(b, s, .5)), (b, torch.rand(20))
    yield 'batched_nms', lambda: Fn(lambda b,s,i: O.batched_nms(b, s, i, .5)), (b, torch.rand(20), torch.randint(0, 3, (20,)))
    yield 'deform_conv2d', lambda: O.DeformConv2d(8, 4, 3, padding=1), (x, randn(1, 18, 16, 16))
    yield 'deform_conv2d, mask', lambda: O.DeformConv2d(8, 4, 3, padding=1), (x, randn(1, 18, 16, 16), torch.rand(1, 9, 16, 16))
    yield 'box_iou', lambda: Fn(lambda b: (O.box_iou(b, b), O.generalized_box_iou(b, b))), b
    yield 'stochastic_depth, fpn', lambda: O.FeaturePyramidNetwork([8], 4), ({'a':x},)

# timm and Hugging Face

timm_names = """vit_tiny_patch16_224 vit_tiny_r_s16_p8_224 deit_tiny_patch16_224 deit3_small_patch16_224 swin_tiny_patch4_window7_224
    swinv2_tiny_window8_256 swinv2_cr_tiny_224 convnext_atto convnextv2_atto efficientnet_b0 tf_efficientnetv2_b0 maxvit_rmlp_pico_rw_256
    maxvit_tiny_tf_224 coatnet_nano_rw_224 mixer_s32_224 gmlp_ti16_224 resmlp_12_224 nfnet_f0 dm_nfnet_f0 eca_nfnet_l0 mobileone_s0
    mobileone_s4 eva02_tiny_patch14_224 beit_base_patch16_224 resnet18 resnetv2_50 regnety_002 resnest14d densenet121 hrnet_w18_small
    mobilenetv3_small_100 mobilenetv4_conv_small mobilenetv4_hybrid_medium ghostnet_100 ghostnetv2_100 rexnet_100 inception_next_tiny
    convmixer_768_32 starnet_s1 focalnet_tiny_srf gcresnext26ts levit_128s mobilevit_xxs mobilevitv2_050 poolformer_s12 poolformerv2_s12
    xcit_nano_12_p16_224 cait_xxs24_224 pvt_v2_b0 twins_svt_small twins_pcpvt_small hiera_tiny_224 fastvit_t8 repvit_m1 repvgg_a0
    edgenext_xx_small davit_tiny volo_d1_224 tnt_s_patch16_224 visformer_tiny nest_tiny coat_tiny coat_lite_tiny convit_tiny
    crossvit_tiny_240 sequencer2d_s lambda_resnet26t botnet26t_256 halonet26t bat_resnext26ts efficientformer_l1 efficientformerv2_s0
    efficientvit_b0 efficientvit_m0 tiny_vit_5m_224 mvitv2_tiny nextvit_small gcvit_xxtiny sknet/skresnet18 selecsls42 dla34 dpn48b
    vgg11 vovnet39a cspresnet50 tresnet_m hardcorenas_a mnasnet_small lcnet_050 tinynet_e xception41 inception_v4 hgnet_tiny hgnetv2_b0
    rdnet_tiny mambaout_femto vit_pe_core_tiny_patch16_384 naflexvit_base_patch16_gap shvit_s1 swiftformer_xs csatv2 caformer_s18""".split()

@family
def timm_models():
    for n in timm_names:
        n = n.split('/')[-1]
        if not timm.is_model(n): continue
        yield n, lambda n=n: timm.create_model(n), randn(1, *timm.get_pretrained_cfg(n).input_size) if timm.get_pretrained_cfg(n) else randn(1, 3, 224, 224)

sizes = dict(vocab_size=1000, hidden_size=128, num_hidden_layers=2, num_attention_heads=8, intermediate_size=256)
gqa = dict(sizes, num_key_value_heads=2, pad_token_id=0)
def ids(b=2, t=32): return torch.randint(3, 900, (b, t))

def hf(name, dtype=torch.float32, **config):
    def make():
        cls = getattr(transformers, name)
        return cls(cls.config_class(**config)).to(dtype)
    return make

@family
def huggingface():
    text, pair = dict(input_ids=ids()), dict(input_ids=ids(), decoder_input_ids=ids(2, 8))
    padded = dict(text, attention_mask=torch.ones(2, 32, dtype=torch.long).index_fill(1, torch.arange(24, 32), 0))
    yield 'BERT', hf('BertModel', **sizes), text
    yield 'BERT, padded', hf('BertModel', **sizes), padded
    yield 'BERT, eager attention', hf('BertForMaskedLM', attn_implementation='eager', **sizes), padded
    yield 'GPT-2', hf('GPT2LMHeadModel', vocab_size=1000, n_embd=128, n_layer=2, n_head=4), text
    yield 'Llama (GQA)', hf('LlamaForCausalLM', **gqa), text
    yield 'Llama, padded', hf('LlamaForCausalLM', **gqa), padded
    yield 'Llama, eager attention', hf('LlamaForCausalLM', attn_implementation='eager', **gqa), text
    yield 'Llama, bfloat16', hf('LlamaForCausalLM', torch.bfloat16, **gqa), text
    yield 'Mixtral', hf('MixtralForCausalLM', num_local_experts=4, num_experts_per_tok=2, **gqa), text
    yield 'Mixtral, eager experts', hf('MixtralForCausalLM', num_local_experts=4, num_experts_per_tok=2, experts_implementation='eager', **gqa), text
    yield 'T5', hf('T5Model', vocab_size=1000, d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4), pair
    yield 'BART', hf('BartModel', vocab_size=1000, d_model=64, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=128, decoder_ffn_dim=128, encoder_attention_heads=4, decoder_attention_heads=4), pair
    yield 'Whisper', hf('WhisperModel', vocab_size=1000, d_model=128, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256,
        decoder_ffn_dim=256, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1), dict(input_features=randn(1, 80, 3000), decoder_input_ids=ids(1, 8))
    vision = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64, patch_size=16)
    yield 'CLIP', hf('CLIPModel', text_config=dict(sizes, hidden_size=64, eos_token_id=2), vision_config=vision), dict(text, pixel_values=randn(2, 3, 64, 64))
    yield 'ViT', hf('ViTModel', **vision), randn(2, 3, 64, 64)
    yield 'Mamba', hf('MambaForCausalLM', vocab_size=1000, hidden_size=64, num_hidden_layers=2, state_size=8), text
    yield 'Mamba 2', hf('Mamba2ForCausalLM', vocab_size=1000, hidden_size=64, num_hidden_layers=2, state_size=8, num_heads=8, head_dim=16, n_groups=2, chunk_size=16), text
    yield 'Qwen 3', hf('Qwen3ForCausalLM', head_dim=16, **gqa), text
    yield 'Gemma 2', hf('Gemma2ForCausalLM', head_dim=16, **gqa), text
    yield 'Phi', hf('PhiForCausalLM', **gqa), text
    yield 'GPT-NeoX', hf('GPTNeoXForCausalLM', **sizes), text
    yield 'OPT', hf('OPTForCausalLM', vocab_size=1000, hidden_size=64, num_hidden_layers=2, ffn_dim=128, num_attention_heads=4, word_embed_proj_dim=64), text
    yield 'BLOOM', hf('BloomForCausalLM', vocab_size=1000, hidden_size=64, n_layer=2, n_head=4), text
    yield 'DistilBERT', hf('DistilBertModel', vocab_size=1000, dim=64, n_layers=2, n_heads=4, hidden_dim=128), text
    yield 'DeBERTa v2', hf('DebertaV2Model', relative_attention=True, pos_att_type=['p2c', 'c2p'], **sizes), text
    yield 'Wav2Vec2', hf('Wav2Vec2Model', **sizes), randn(1, 8000)
    yield 'SegFormer', hf('SegformerModel', hidden_sizes=[16, 32, 64, 128], decoder_hidden_size=64), randn(1, 3, 64, 64)

# torch.nn

@family
def recurrent():
    x = randn(6, 3, 16)
    packed = pack_padded_sequence(randn(6, 3, 16), [6, 4, 2])
    for cls in (nn.LSTM, nn.GRU, nn.RNN):
        kinds = [dict(), dict(num_layers=2, bidirectional=True), dict(batch_first=True), dict(bias=False)]
        if cls is nn.LSTM: kinds += [dict(proj_size=8), dict(num_layers=2, bidirectional=True, proj_size=8)]
        if cls is nn.RNN: kinds.append(dict(nonlinearity='relu'))
        for kw in kinds:
            named = ', '.join([cls.__name__, *(f'{k}={v}' for k,v in kw.items())])
            yield named, lambda cls=cls, kw=kw: cls(16, 32, **kw), x
            if not kw.get('batch_first'): yield f'{named}, packed', lambda cls=cls, kw=kw: cls(16, 32, **kw), (packed,)
    for cls in (nn.LSTMCell, nn.GRUCell, nn.RNNCell): yield cls.__name__, lambda cls=cls: cls(16, 32), randn(3, 16)

@family
def transformer():
    x, y = randn(2, 10, 64), randn(2, 7, 64)
    pad = torch.zeros(2, 10, dtype=torch.bool)
    pad[1, 6:] = True
    causal = nn.Transformer.generate_square_subsequent_mask(10)
    kw = dict(d_model=64, nhead=4, dim_feedforward=128, batch_first=True)
    def encoder(norm_first=False, **more): return lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(norm_first=norm_first, **kw), 2, **more)
    def slow(make):   # trained parameters under autograd keep the layers off their fused path
        def run(m, *args, **kwargs):
            with torch.inference_mode(False), torch.enable_grad(): return m(*tree_map(torch.clone, args), **kwargs)
        def build():
            m = make()
            return Fn(lambda *args, **kwargs: run(m, *args, **kwargs), m)
        return build
    yield 'Transformer', lambda: nn.Transformer(num_encoder_layers=2, num_decoder_layers=2, **kw), (x, y)
    yield 'encoder, fused', encoder(), x
    yield 'encoder, norm first', encoder(True, enable_nested_tensor=False), x
    yield 'encoder, not fused', slow(encoder()), x
    yield 'encoder, causal', encoder(), dict(src=x, mask=causal, is_causal=True)
    yield 'encoder, padded (nested tensors)', encoder(), dict(src=x, src_key_padding_mask=pad)
    yield 'encoder, padded, no nested tensors', encoder(enable_nested_tensor=False), dict(src=x, src_key_padding_mask=pad)
    yield 'decoder', lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(**kw), 2), (y, x)
    yield 'decoder, masked', lambda: nn.TransformerDecoderLayer(**kw), dict(tgt=y, memory=x, memory_key_padding_mask=pad)
    mha = lambda: nn.MultiheadAttention(64, 4, batch_first=True)
    yield 'MultiheadAttention, fused', mha, (x, x, x)
    yield 'MultiheadAttention, no weights', mha, dict(query=x, key=x, value=x, need_weights=False)
    yield 'MultiheadAttention, masked', mha, dict(query=x, key=x, value=x, key_padding_mask=pad)
    yield 'MultiheadAttention, cross', mha, (x, y, y)
    yield 'MultiheadAttention, other sizes', lambda: nn.MultiheadAttention(64, 4, kdim=32, vdim=16, batch_first=True), (x, randn(2, 7, 32), randn(2, 7, 16))
    yield 'MultiheadAttention, bias_kv', lambda: nn.MultiheadAttention(64, 4, add_bias_kv=True, add_zero_attn=True, batch_first=True), (x, x, x)

@family
def attention():
    q, k = randn(2, 8, 12, 16), randn(2, 2, 12, 16)
    keep, bias = torch.rand(12, 12)>.3, randn(12, 12)
    keep.fill_diagonal_(True)
    calls = {'plain':((q, q, q), {}), 'causal':((q, q, q), dict(is_causal=True)), 'boolean mask':((q, q, q, keep), {}),
             'float mask':((q, q, q, bias), {}), 'GQA':((q, k, k), dict(enable_gqa=True)), 'cross':((q, q[:, :, :5], q[:, :, :5]), {})}
    def attend(backend, kw):
        def f(*args):
            with sdpa_kernel(backend): return F.scaled_dot_product_attention(*args, **kw)
        return lambda: Fn(f)
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
        for n,(args,kw) in calls.items(): yield f'{backend.name.lower()}, {n}', attend(backend, kw), args
    yield 'bfloat16', lambda: Fn(lambda q: F.scaled_dot_product_attention(q, q, q)), q.bfloat16()
    nested = torch.nested.nested_tensor([randn(5, 64), randn(3, 64)], layout=torch.jagged)
    heads = lambda t: t.unflatten(-1, [4, 16]).transpose(1, 2)
    yield 'jagged', lambda: Fn(lambda t: F.scaled_dot_product_attention(heads(t), heads(t), heads(t))), (nested,)

@family
def functional():
    a, img = randn(8, 8), randn(1, 3, 16, 16)
    yield 'einsum, batched', lambda: Fn(lambda a,b: torch.einsum('bij,bjk->bik', a, b)), (randn(2, 3, 4), randn(2, 4, 5))
    yield 'einsum, attention', lambda: Fn(lambda q,k: torch.einsum('bhid,bhjd->bhij', q, k)), (randn(2, 3, 4, 8), randn(2, 3, 5, 8))
    yield 'einsum, three factors', lambda: Fn(lambda a: torch.einsum('ij,jk,kl->il', a, a, a)), a
    yield 'einsum, diagonal', lambda: Fn(lambda a: torch.einsum('ii->i', a)), a
    yield 'fft', lambda: Fn(lambda a: (torch.fft.irfft(torch.fft.rfft(a)), torch.fft.ifft2(torch.fft.fft2(a)), torch.fft.rfftn(a))), a
    yield 'stft', lambda: Fn(lambda a: torch.stft(a, 64, window=torch.hann_window(64), return_complex=True)), randn(1, 400)
    yield 'embedding', lambda: nn.Embedding(100, 16), ids(2, 4)%100
    for mode in ('sum', 'mean', 'max'): yield f'EmbeddingBag, {mode}', lambda mode=mode: nn.EmbeddingBag(100, 16, mode=mode), ids(2, 4)%100
    for mode in ('bilinear', 'nearest', 'bicubic'):
        yield f'grid_sample, {mode}', lambda mode=mode: Fn(lambda a,g: F.grid_sample(a, g, mode=mode, align_corners=False)), (img, torch.rand(1, 5, 5, 2))
    yield 'grid_sample, 3-D', lambda: Fn(lambda a,g: F.grid_sample(a, g, align_corners=False)), (randn(1, 3, 4, 4, 4), torch.rand(1, 2, 2, 2, 3))
    yield 'affine_grid', lambda: Fn(lambda t: F.affine_grid(t, (1, 3, 8, 8), align_corners=False)), randn(1, 2, 3)
    for rank,modes in ((1, 'nearest nearest-exact linear area'), (2, 'nearest nearest-exact bilinear bicubic area'), (3, 'nearest nearest-exact trilinear area')):
        for mode in modes.split():
            for scale in (2, .5):
                yield f'interpolate {rank}-D, {mode}, ×{scale}', lambda mode=mode, scale=scale: Fn(lambda a: F.interpolate(a, scale_factor=scale, mode=mode)), randn(1, 3, *[8]*rank)
    for mode in ('bilinear', 'bicubic'):
        yield f'interpolate, {mode}, antialiased', lambda mode=mode: Fn(lambda a: F.interpolate(a, scale_factor=.5, mode=mode, antialias=True)), img
    coo = randn(8, 8).relu().to_sparse()
    for n,s in (('coo', coo), ('csr', coo.to_sparse_csr()), ('csc', coo.to_sparse_csc())):
        yield f'sparse mm, {n}', lambda s=s: Fn(lambda b: s@b), randn(8, 4)
    yield 'sparse addmm, coo', lambda: Fn(lambda b: torch.sparse.addmm(b, coo, b)), randn(8, 8)
    yield 'sparse × sparse', lambda: Fn(lambda b: torch.sparse.mm(coo, coo)), a
    yield 'sparse mv, csr', lambda: Fn(lambda b: coo.to_sparse_csr()@b), randn(8)
    yield 'convolutions', lambda: nn.Sequential(nn.Conv1d(3, 4, 3), nn.ConvTranspose1d(4, 3, 3), nn.Unflatten(1, (3, 1)), nn.Conv2d(3, 2, 1)), randn(1, 3, 16)
    yield 'convolutions, 3-D', lambda: nn.Sequential(nn.Conv3d(3, 4, 3), nn.ConvTranspose3d(4, 3, 3)), randn(1, 3, 5, 5, 5)
    yield 'Bilinear', lambda: nn.Bilinear(3, 4, 5), (randn(2, 3), randn(2, 4))
    norms = lambda: nn.Sequential(nn.BatchNorm2d(3), nn.InstanceNorm2d(3), nn.GroupNorm(3, 3), nn.LocalResponseNorm(2), nn.LayerNorm(16), nn.RMSNorm(16))
    yield 'norms', norms, img
    acts = [getattr(nn, n)() for n in 'ELU Hardshrink Hardsigmoid Hardtanh Hardswish LeakyReLU LogSigmoid PReLU ReLU ReLU6 RReLU SELU CELU GELU Sigmoid SiLU Mish Softplus Softshrink Softsign Tanh Tanhshrink GLU Softmin Softmax LogSoftmax'.split()]
    yield 'activations', lambda: nn.Sequential(*acts), randn(2, 8)
    pools = lambda a: (F.max_unpool2d(*F.max_pool2d(a, 2, return_indices=True), 2), F.lp_pool2d(a, 2., 2), F.fractional_max_pool2d(a, 2, 3), F.adaptive_max_pool2d(a, 3), F.avg_pool2d(a, 2), F.adaptive_avg_pool2d(a, 5))
    yield 'pools', lambda: Fn(pools), img
    losses = lambda a: (F.cross_entropy(a, a.argmax(1)), F.mse_loss(a, a), F.l1_loss(a, a), F.smooth_l1_loss(a, a), F.kl_div(a, a.exp()), F.binary_cross_entropy_with_logits(a, a), F.cosine_embedding_loss(a, a, torch.ones(8)), F.triplet_margin_loss(a, a, a), F.nll_loss(a, a.argmax(1)))
    yield 'losses', lambda: Fn(losses), a
    moves = lambda a: (F.fold(F.unfold(a[None, None], 2), (8, 8), 2), F.pixel_shuffle(randn(1, 4, 2, 2), 2), F.pad(a[None], (1, 1), mode='reflect'), a.sort(), a.topk(2), a.unique(), a.cumsum(0), a.roll(1), a.flip(0), a.repeat(2, 2), F.one_hot(a.long().abs()), a.scatter(0, a.argmax(0, keepdim=True), 1.), a.median(), torch.histc(a), torch.quantile(a, .5), a.masked_fill(a>0, 1), torch.tril(a), torch.where(a>0, a, 0))
    yield 'moving data', lambda: Fn(moves), a
    algebra = lambda a: (torch.linalg.inv(a@a.T + torch.eye(8)), torch.det(a), torch.cdist(a, a), torch.linalg.solve(a + 9*torch.eye(8), a), torch.linalg.qr(a), torch.linalg.cholesky(a@a.T + 9*torch.eye(8)), torch.linalg.norm(a), torch.linalg.multi_dot([a, a, a]), torch.baddbmm(a[None], a[None], a[None]), torch.outer(a[0], a[0]), torch.kron(a, a))
    yield 'linear algebra', lambda: Fn(algebra), a
    yield 'singular and eigenvalues', lambda: Fn(lambda a: (torch.linalg.svd(a), torch.linalg.eigh(a@a.T))), a
    yield 'CTC loss', lambda: Fn(lambda a: F.ctc_loss(a.log_softmax(-1), torch.tensor([[1, 2]]), [5], [2])), randn(5, 1, 4)

# quantized

class OpaqueWeight(torch.Tensor):
    "An int8 weight with a scale for each row, which takes part in products as if it were floating point"
    @staticmethod
    def __new__(cls, q, scale): return torch.Tensor._make_wrapper_subclass(cls, q.shape, strides=q.stride(), dtype=scale.dtype, device=q.device)
    def __init__(self, q, scale): self.q, self.scale = q, scale
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func._opname in ('t', 'detach', 'alias'): return cls(func(args[0].q), func(args[0].scale))
        return func(*(a.q.to(a.dtype)*a.scale if isinstance(a, cls) else a for a in args), **(kwargs or {}))

class Int8Weight(OpaqueWeight):
    "The same, and it says what it wraps"
    def __tensor_flatten__(self): return ['q', 'scale'], None
    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride): return Int8Weight(inner['q'], inner['scale'])

def with_weight(cls):
    def make():
        layer = nn.Linear(64, 32)
        scale = layer.weight.detach().abs().amax(1, keepdim=True)/127
        layer.weight = nn.Parameter(cls((layer.weight.detach()/scale).round().to(torch.int8), scale), requires_grad=False)
        return layer
    return make

def static(make, x):
    "Statically quantized, calibrated on one input"
    def build():
        m = nn.Sequential(tq.QuantStub(), make(), tq.DeQuantStub()).eval()
        m.qconfig = tq.get_default_qconfig(torch.backends.quantized.engine)
        tq.prepare(m, inplace=True)(x)
        return tq.convert(m)
    return build

@family
def quantized():
    x, img, seq = randn(4, 64), randn(1, 3, 8, 8), randn(5, 3, 64)
    dynamic = lambda m, dtype=torch.qint8: lambda: tq.quantize_dynamic(m, {type(m)} if not isinstance(m, nn.Sequential) else {nn.Linear, nn.LSTM, nn.GRU}, dtype)
    wrapped = lambda m: nn.Sequential(m)
    yield 'dynamic Linear', dynamic(wrapped(nn.Linear(64, 32))), x
    yield 'dynamic Linear, 3-D input', dynamic(wrapped(nn.Linear(64, 32))), seq
    yield 'dynamic Linear, float16', dynamic(wrapped(nn.Linear(64, 32)), torch.float16), x
    for cls in (nn.LSTM, nn.GRU): yield f'dynamic {cls.__name__}, 2 layers, bidirectional', dynamic(wrapped(cls(64, 32, num_layers=2, bidirectional=True))), seq
    yield 'dynamic Linear + LSTM', dynamic(nn.Sequential(nn.Linear(64, 64), nn.LSTM(64, 32))), seq
    yield 'static Linear, ReLU', static(lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU()), x), x
    yield 'static Conv2d, ReLU, pool', static(lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)), img), img
    yield 'static Conv2d, Hardswish, Sigmoid', static(lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.Hardswish(), nn.Sigmoid()), img), img
    yield 'static Conv1d, Conv3d', static(lambda: nn.Sequential(nn.Conv1d(3, 4, 3), nn.Unflatten(2, (2, 2, 2)), nn.Conv3d(4, 2, 1)), randn(1, 3, 10)), randn(1, 3, 10)
    yield 'static LayerNorm, LeakyReLU, ELU', static(lambda: nn.Sequential(nn.Linear(64, 32), nn.LayerNorm(32), nn.LeakyReLU(), nn.ELU()), x), x
    yield 'static embedding', quantized_embedding(nn.Embedding(100, 16)), ids(2, 4)%100
    yield 'static EmbeddingBag', quantized_embedding(nn.EmbeddingBag(100, 16, mode='sum', include_last_offset=True)), (torch.tensor([1, 2, 3]), torch.tensor([0, 2, 3]))
    for n in 'mobilenet_v2 shufflenet_v2_x0_5 googlenet'.split(): yield f'static {n}', quantized_net(n), randn(1, 3, 96, 96)
    yield 'static resnet18', quantized_net('resnet18'), randn(1, 3, 96, 96)
    w8, s8 = torch.randint(-128, 127, (32, 64), dtype=torch.int8), torch.rand(32).bfloat16()
    yield '_weight_int8pack_mm', lambda: Fn(lambda a: torch._weight_int8pack_mm(a, w8, s8)), x.bfloat16()
    w4, s4 = torch._convert_weight_to_int4pack_for_cpu(torch.randint(0, 15, (32, 64), dtype=torch.int32), 1), torch.rand(2, 32, 2).bfloat16()
    yield '_weight_int4pack_mm_for_cpu', lambda: Fn(lambda a: torch._weight_int4pack_mm_for_cpu(a, w4, 32, s4)), x.bfloat16()
    yield '_int_mm', lambda: Fn(lambda a: torch._int_mm(a, a)), torch.randint(-5, 5, (32, 32), dtype=torch.int8)
    yield 'int8 weight, a tensor subclass', with_weight(Int8Weight), x
    yield 'int8 weight, an opaque subclass', with_weight(OpaqueWeight), x

def quantized_net(name):
    "A torchvision model, statically quantized"
    def make():
        m = getattr(torchvision.models.quantization, name)(weights=None, **(dict(init_weights=False, aux_logits=False) if name=='googlenet' else {})).eval()
        m.fuse_model(is_qat=False)
        m.qconfig = tq.get_default_qconfig(torch.backends.quantized.engine)
        tq.prepare(m, inplace=True)(randn(1, 3, 96, 96))
        return tq.convert(m)
    return make

def quantized_embedding(layer):
    def make():
        m = nn.Sequential(layer).eval() if isinstance(layer, nn.Embedding) else Fn(lambda *a: bag(*a), bag := layer)
        m.qconfig = tq.float_qparams_weight_only_qconfig
        for o in m.modules(): o.qconfig = tq.float_qparams_weight_only_qconfig
        m = tq.convert(tq.prepare(m))
        return m[0] if isinstance(layer, nn.Embedding) else m.parts[0]
    return make

@family
def higher_order():
    from torch.nn.attention.flex_attention import flex_attention
    q = randn(1, 2, 16, 16)
    yield 'flex_attention', lambda: Fn(lambda q: flex_attention(q, q, q)), q
    yield 'torch.cond', lambda: Fn(lambda a: torch.cond(a.sum()>0, torch.sin, torch.cos, (a,))), randn(8, 8)

# counting

class Seen(costs.CostMode):
    "Also remembers what was dispatched: what is counted, views and other free operations, and higher-order ones"
    ops = Counter()
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if not isinstance(func, torch._ops.OpOverload) or out is not NotImplemented and costs.rule_for(func) is costs.free_rule: self.ops[str(func)] += 1
        return out
    def count(self, func, *args):
        self.ops[str(func)] += 1
        super().count(func, *args)

def one(fam, name, make, sample):
    torch.manual_seed(0)
    Seen.ops = Counter()
    try:
        model = make()
    except Exception as e: return dict(family=fam, model=name, error=f'cannot be built: {type(e).__name__}: {e}')
    try:
        with patch.object(costs, 'CostMode', Seen): c = costs.count_costs(model.eval(), sample)
    except Exception as e: return dict(family=fam, model=name, error=f'{type(e).__name__}: {e}')
    finally: gc.collect()
    return dict(family=fam, model=name, ops=Counter(Seen.ops), unknown=c.unknown, matmul_flops=c.matmul_flops, flops=c.flops, bytes=c.bytes_moved)

# language models by hand

def by_hand():
    "`name, counted, by hand`: twice the parameters of matrices for each token, and two products of every token with its context in each layer"
    made = {n:(make, sample) for n,make,sample in huggingface()}
    b, t, v = *ids().shape, sizes['vocab_size']
    h, layers, ffn = sizes['hidden_size'], sizes['num_hidden_layers'], sizes['intermediate_size']
    kv = h//sizes['num_attention_heads']*gqa['num_key_value_heads']
    attends = 4*layers*b*t*t*h                                # scores and mix, 2 FLOPs each for a token, a token of context, a feature
    hands = {'BERT': 2*b*t*layers*(4*h*h + 2*h*ffn) + attends + 2*b*h*h,         # and the pooler: one token of each sequence
             'GPT-2': 2*b*t*(layers*12*h*h + h*v) + attends,
             'Llama (GQA)': 2*b*t*(layers*(2*h*h + 2*h*kv + 3*h*ffn) + h*v) + attends,
             'Mixtral': 2*b*t*(layers*(2*h*h + 2*h*kv + 4*h + 2*3*h*ffn) + h*v) + attends}   # four scores, two of four experts
    for n,hand in hands.items():
        make, sample = made[n]
        counted = costs.count_costs(make(), sample).matmul_flops
        assert counted==hand, f'{n}: counted {counted}, by hand {hand}'
        yield n, counted, hand

def message(r):
    "An error without the places in files that it names"
    text = ' '.join(r.get('error', '').split())
    for end in ('from user code', 'Skipped frames', 'File "', ' At: '): text = text.partition(end)[0]
    return text[:200]

def tables(res, hands):
    groups = defaultdict(list)
    for r in res: groups[r['family']].append(r)
    def row(name, rs):
        good = [r for r in rs if 'ops' in r]
        ops, unknown = (sum((r[k] for r in good), Counter()) for k in ('ops', 'unknown'))
        return [name, len(rs), len(rs)-len(good), len(ops), ops.total(), len(unknown), unknown.total()]
    unknown = defaultdict(list)
    for r in res:
        for op in r.get('unknown', ()): unknown[op].append(f"{r['family']}: {r['model']}")
    yield table([*(row(n, rs) for n,rs in groups.items()), row('all', res)], intfmt=',', headers=['family', 'models', 'of these\nfailed', 'operations\ndispatched', 'calls', 'unknown\noperations', 'unknown\ncalls'])
    yield 'Operations without a rule'
    yield table([(op, '; '.join(ms), reason(op)) for op,ms in sorted(unknown.items())], ['operation', 'in', 'why'], maxcolwidths=[40, 50, 50])
    failed = [(f"{r['family']}: {r['model']}", message(r)) for r in res if 'error' in r]
    yield 'Failed'
    yield table(failed, ['model', 'error'], maxcolwidths=[40, 100])
    yield 'Matrix-product FLOPs of language models, counted and by hand'
    yield table(hands, ['model', 'counted', 'by hand'], intfmt=',')

def facts(r):
    "A model's row"
    ops = r.get('ops', Counter())
    return dict(family=r['family'], model=r['model'], operations=len(ops), calls=ops.total(), **{k: r.get(k) for k in ('matmul_flops', 'flops', 'bytes')},
        unknown=' '.join(r.get('unknown', ())), error=message(r))

@call_parse
def main(
    only:str='', # families, with commas; all of them by default
):
    "Count models of many families and list the operations without a rule"
    quiet()
    res = []
    for fam in chosen(families, only):
        for name,make,sample in families[fam]():
            res.append(one(fam, name, make, sample))
            print(fam, name, *res[-1].get('unknown', [res[-1].get('error', '')[:100]]), sep=' | ', flush=True)
    parts = [*tables(res, list(by_hand()))]
    what = 'one real forward on the CPU, eval and inference mode, random weights'
    figures = dict(models=len(res), families=len({r['family'] for r in res}), failed=sum('error' in r for r in res),
        unknown=len({o for r in res for o in r.get('unknown', ())}))
    if only: print(*map(part_text, parts), sep='\n\n')
    else: write_result('coverage', what, parts, 'torchvision', 'timm', 'transformers', figures=figures, rows=[*map(facts, res)])
    if any('error' in r for r in res): raise SystemExit(1)
