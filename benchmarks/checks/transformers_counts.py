"""Are the products of Hugging Face's models those that another counter counts?

Small models of many architectures, with random weights (no downloads), are counted in one forward on the CPU and by torch's
FlopCounterMode, which sees a forward of its own, without gradients and with attention in its parts (SDPBackend.MATH). Where
the two differ, the operations that FlopCounterMode has no formula for are summed by hand from their shapes, and have to be
the difference; models with experts are built once more with a loop over their experts, of which it knows every product, and
have to count the same. Prints a table and writes it, with the device and the versions, to
benchmarks/results/transformers_counts.txt and .json.

    python -m benchmarks.checks.transformers_counts [--only LlamaForCausalLM,BertModel]
"""
import gc, os
from collections import Counter
from contextlib import contextmanager
from math import prod
os.environ['HF_HUB_OFFLINE'] = '1'

import torch, transformers
from fastcore.script import call_parse
from torch import randn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from tqdm import tqdm

from fasterbench.costs import count_costs
from benchmarks.shared.architectures import asked, ids, image, kind, shown, small, t5g, text, vision
from benchmarks.shared.report import TorchCounter, quiet, words, write_result
from scripts.evidence import table

# more kinds

series, steps = dict(past_values=randn(2, 64, 3)), randn(2, 16 + 3 + 8, 2)
lagged = dict(past_values=randn(2, 19), past_time_features=steps[:, :19], past_observed_mask=torch.ones(2, 19), future_values=randn(2, 8), future_time_features=steps[:, 19:])
lags = dict(prediction_length=8, context_length=16, lags_sequence=[1, 2, 3], num_time_features=2)
patches = dict(context_length=64, patch_length=8, patch_stride=8, num_input_channels=3)
kind('time series', lagged, *((n, lags) for n in words('TimeSeriesTransformerModel InformerModel AutoformerModel')),
    *((n, patches, series) for n in words('PatchTSTModel PatchTSMixerModel')))
ssm = dict(num_hidden_layers=2, mamba_n_heads=8, mamba_d_head=16, mamba_d_ssm=128, mamba_n_groups=1, mamba_chunk_size=16)
linear = dict(num_hidden_layers=2, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16, layer_types=['linear_attention', 'full_attention'])
kind('state space and hybrids', text, ('RwkvForCausalLM', dict(attention_hidden_size=64), dict(input_ids=ids)), ('xLSTMForCausalLM', dict(num_blocks=2, num_hidden_layers=2, qk_dim_factor=1., v_dim_factor=1., chunk_size=16), dict(input_ids=ids)),
    ('FalconH1ForCausalLM', ssm), ('GraniteMoeHybridForCausalLM', dict(ssm, layer_types=['mamba', 'attention'])), ('Qwen3NextForCausalLM', linear),
    ('Zamba2ForCausalLM', dict(num_hidden_layers=2, layers_block_type=['mamba', 'hybrid'], mamba_ngroups=1, n_mamba_heads=8, mamba_headdim=16, chunk_size=16, num_mem_blocks=1)))
big = dict(pixel_values=randn(1, 3, 64, 64))
resnet = dict(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, num_queries=10,
    backbone_config=transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1], out_features=['stage4']))
levels = dict(resnet, backbone_config=transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1], out_features=['stage2', 'stage3', 'stage4']))
kind('detection', big, *((n, resnet) for n in words('DetrForObjectDetection ConditionalDetrForObjectDetection TableTransformerForObjectDetection')), ('DeformableDetrForObjectDetection', levels), ('RTDetrForObjectDetection', dict(num_queries=20)),
    ('OwlViTModel', dict(text_config=dict(t5g), vision_config=vision), dict(input_ids=ids[:, :16], **image)))
kind('more vision', image, *words('''ViTMSNModel Data2VecVisionModel Dinov2WithRegistersModel DINOv3ViTModel IJepaModel MobileNetV1Model Aimv2VisionModel
    VitDetModel SwiftFormerModel TextNetModel'''), ('PvtV2Model', dict(num_attention_heads=[1, 2, 5, 8]), big), ('MobileViTV2Model', dict(patch_size=2), big), ('DPTModel', {}), ('GLPNModel', dict(num_attention_heads=[1, 2, 5, 8]), big),
    ('VideoMAEModel', dict(num_frames=4), dict(pixel_values=randn(1, 4, 3, 32, 32))), ('TimesformerModel', dict(num_frames=4), dict(pixel_values=randn(1, 4, 3, 32, 32))),
    ('VivitModel', dict(num_frames=4, tubelet_size=[2, 8, 8]), dict(pixel_values=randn(1, 4, 3, 32, 32))), ('SamVisionModel', dict(output_channels=32, global_attn_indexes=[1]), dict(pixel_values=randn(1, 3, 32, 32))),
    ('ImageGPTModel', {}, dict(input_ids=ids)))
wave = dict(input_values=randn(1, 1, 4800))
kind('audio', wave, ('ASTModel', dict(max_length=64, num_mel_bins=32), dict(input_values=randn(2, 64, 32))), ('EncodecModel', dict(num_filters=8, hidden_size=32, codebook_dim=32)),
    ('DacModel', dict(encoder_hidden_size=16, decoder_hidden_size=64, downsampling_ratios=[2, 4], upsampling_ratios=[4, 2])), ('MimiModel', dict(num_filters=8, codebook_dim=32, vector_quantization_hidden_dimension=32, upsample_groups=64)),
    ('Speech2TextModel', {}, dict(input_features=randn(1, 64, 80), decoder_input_ids=ids[:1, :8])), ('Wav2Vec2ConformerModel', {}, dict(input_values=randn(2, 8000))), ('UniSpeechSatModel', {}, dict(input_values=randn(2, 8000))),
    ('Wav2Vec2BertModel', {}, dict(input_features=randn(2, 40, 160))), ('SpeechT5ForSpeechToText', {}, dict(input_values=randn(1, 8000), decoder_input_ids=ids[:1, :8])), ('MoonshineModel', {}, dict(input_values=randn(1, 8000), decoder_input_ids=ids[:1, :8])))
boxes = dict(text, bbox=torch.zeros(2, 32, 4, dtype=torch.long))
regions = dict(visual_feats=randn(2, 5, 32), visual_pos=torch.rand(2, 5, 4))
kind('more modalities', dict(text, **image), ('FlavaModel', dict(text_config=dict(t5g), image_config=vision, multimodal_config=dict(t5g), hidden_size=64)), ('GroupViTModel', dict(text_config=dict(t5g, eos_token_id=2), vision_config=dict(vision, depths=[1, 1, 1], num_group_tokens=[8, 4, 0], num_output_groups=[8, 4, 0]))),
    ('LiltModel', dict(hidden_size=96), boxes), ('LxmertModel', dict(l_layers=1, x_layers=1, r_layers=1, visual_feat_dim=32), dict(text, **regions)), ('VisualBertModel', dict(visual_embedding_dim=32), dict(text, visual_embeds=regions['visual_feats'])),
    ('LayoutLMv3Model', dict(input_size=32, coordinate_size=8, shape_size=16), boxes), ('PerceiverModel', dict(num_latents=8, d_latents=64, num_blocks=1, num_self_attends_per_block=1, num_self_attention_heads=4, num_cross_attention_heads=4), dict(inputs=randn(2, 16, 64))))
kind('more text', text, *words('''RobertaPreLayerNormModel XLMRobertaXLModel Data2VecTextModel SplinterModel MarkupLMModel TapasModel ModernBertDecoderForCausalLM Olmo3ForCausalLM Exaone4ForCausalLM
    ArceeForCausalLM HunYuanDenseV1ForCausalLM BitNetForCausalLM GPTNeoXJapaneseForCausalLM VaultGemmaForCausalLM BertGenerationEncoder'''), ('XmodModel', dict(default_language='en_XX')),
    ('ReformerModel', dict(attn_layers=['local', 'lsh'], axial_pos_embds=False, attention_head_size=16, feed_forward_size=128, local_attn_chunk_length=8, lsh_attn_chunk_length=8, num_buckets=4, num_hashes=1)), ('MvpModel', {}, dict(text, decoder_input_ids=ids[:, :8])), ('PegasusXModel', dict(block_size=8, num_global_tokens=4), dict(text, decoder_input_ids=ids[:, :8])))

# the other counters

def call(model, sample): return model(**sample) if isinstance(sample, dict) else model(sample)

@contextmanager
def plainly():
    "Without gradients, with attention in its parts, and the same random numbers each time"
    torch.manual_seed(0)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH): yield

def by_torch(model, sample)->int: # FLOP
    with plainly(), TorchCounter() as counter: call(model, sample)
    return counter.get_total_flops()

def grouped(a, b, *args, **kwargs):
    "Rows of all groups, each with the matrix of its group"
    return 2*prod(a.shape)*b.shape[-1]

def recurrent(x, w_ih, w_hh, *args, **kwargs):
    "Every step of every sequence with both matrices"
    return 2*x.shape[0]*x.shape[1]*(w_ih.numel() + w_hh.numel())

no_formula = {'_grouped_mm': grouped, 'mkldnn_rnn_layer': recurrent, 'mv': lambda a, x: 2*a.numel(), 'dot': lambda a, b: 2*a.numel()}   # FlopCounterMode has none

class ByHand(TorchDispatchMode):
    "FLOPs of the operations that FlopCounterMode does not know"
    def __init__(self):
        super().__init__()
        self.flops = Counter()
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._opname in no_formula: self.flops[func._opname] += no_formula[func._opname](*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

def by_hand(model, sample)->Counter: # operation → FLOP
    with plainly(), ByHand() as mode: call(model, sample)
    return mode.flops

# a model

def one(name, config, sample):
    torch.manual_seed(0)
    model = small(name, **config)
    costs = count_costs(model, sample)
    got, theirs = costs.matmul_flops, by_torch(model, sample)
    res = dict(model_type=model.config.model_type, counted=got, torch=theirs, unknown=' '.join(costs.unknown), why='')
    if got==theirs: return dict(res, verdict='equal')
    hand = by_hand(model, sample)
    res['why'] = '; '.join(f'no formula for {k}: {v:,} by its shapes' for k,v in hand.items())
    good = theirs + hand.total()==got
    if good and '_grouped_mm' in hand:
        torch.manual_seed(0)
        loop = by_torch(small(name, **config, experts_implementation='eager'), sample)
        res['why'] += f'; {loop:,} with a loop over the experts'
        good = loop + hand.total() - hand['_grouped_mm']==got
    return dict(res, verdict='explained' if good else 'not explained')

def numbers(res):
    "Figures of all models"
    n = Counter(r['verdict'] for r in res)
    return dict(models=len(res), architectures=len({r['model_type'] for r in res}), equal=n['equal'], explained=n['explained'], not_explained=n['not explained'])

def summary(res):
    n = numbers(res)
    return (f"{n['models']} models of {n['architectures']} architectures: {n['equal']} equal to the FLOP, {n['explained']} explained, {n['not_explained']} not explained\n"
            f"operations without a rule: {'; '.join(r['model'] + ': ' + r['unknown'] for r in res if r['unknown']) or 'none'}")

def write(res):
    "Write the tables"
    def of(rows, *names):
        cells = [[f'{r[n]:,}' if isinstance(r[n], int) else r[n] for n in names] for r in rows]
        return table(cells, names, disable_numparse=True, maxcolwidths=[None]*(len(names)-1) + [90])
    parts = [summary(res), 'Those that differ', of([r for r in res if r['why']], *words('model counted torch verdict why')), of(res, *words('kind model model_type counted torch verdict'))]
    what = 'FLOPs in matrix products of one forward on the CPU: counted, and by torch.utils.flop_counter.FlopCounterMode; small models with random weights'
    write_result('transformers_counts', what, parts, 'transformers', figures=numbers(res), rows=res)

@call_parse
def main(
    only:str='', # classes, with commas; all of them by default
):
    "Hold the products of Hugging Face's architectures against another counter"
    quiet()
    res = []
    for k,name,config,sample in tqdm(asked(only)):
        res.append(dict(kind=k, model=shown(name, config), **one(name, config, sample)))
        gc.collect()
    if only: print(summary(res), *res, sep='\n')
    else: write(res)
    if any(r['verdict']=='not explained' or r['unknown'] for r in res): raise SystemExit(1)
