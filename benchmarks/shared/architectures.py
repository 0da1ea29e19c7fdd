"""Small models of many architectures of Hugging Face, with random weights (no downloads), and what they are called with

`kinds` holds for each kind of architecture its models: the class, what its config needs besides `sizes`, and a sample. The
text is padded: two sequences of 32 and 24 tokens.
"""
import torch, transformers
from torch import randn

from benchmarks.shared.report import chosen, words

sizes = dict(vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=128, head_dim=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    d_model=64, n_embd=64, n_layer=2, n_head=4, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128,
    num_layers=2, num_heads=4, d_kv=16, d_ff=128, ffn_dim=128, n_heads=4, n_layers=2, dim=64, hidden_dim=128, decoder_start_token_id=1, max_position_embeddings=512, n_positions=512,
    moe_intermediate_size=32, num_local_experts=4, num_experts=4, num_experts_per_tok=2, n_routed_experts=4, state_size=8, embedding_size=64, rotary_dim=8, n_inner=128,
    image_size=32, patch_size=8, num_channels=3, window_size=4)

def small(cls, **config):
    "A small model of class `cls`: of `sizes`, what its config knows"
    kind = getattr(transformers, cls).config_class
    known = kind()
    names = {k for k in sizes if k in kind.attribute_map or k in known.to_dict()}
    made = kind(**{k:v for k,v in sizes.items() if k in names and kind.attribute_map.get(k, k) not in config} | config)
    return getattr(transformers, cls)(made).eval()

def shown(cls, config):
    "What a model is called in tables: one with its experts called in another way has that in its name"
    return ', '.join([cls, *(v for k,v in config.items() if k=='experts_implementation')])

def asked(only):
    "Kind, class, config and sample of the classes that are asked for"
    every = [(k, *m) for k,models in kinds.items() for m in models]
    names = chosen(dict.fromkeys(m[1] for m in every), only)
    return [m for m in every if m[1] in names]

ids = torch.randint(3, 900, (2, 32), generator=torch.Generator().manual_seed(0))
mask = torch.ones_like(ids)
mask[1, 24:] = 0
text = dict(input_ids=ids, attention_mask=mask)
pair = dict(text, decoder_input_ids=ids[:, :8])
image = dict(pixel_values=randn(2, 3, 32, 32))

kinds = {}   # kind → list of (class, config)
def kind(name, sample, *models):
    "Models of one kind: names, or pairs of a name and what their config needs besides"
    kinds[name] = [(m, {}, sample) if isinstance(m, str) else (*m, sample)[:3] for m in models]

kind('encoder', text, *words('''BertModel RobertaModel XLMRobertaModel AlbertModel DistilBertModel ElectraModel CamembertModel MPNetModel DebertaModel DebertaV2Model
    LongformerModel BigBirdModel FunnelModel NystromformerModel RemBertModel MegatronBertModel SqueezeBertModel MobileBertModel ModernBertModel EsmModel IBertModel
    LayoutLMModel XLNetModel XLMModel FlaubertModel FNetModel CanineModel RoFormerModel ConvBertModel ErnieModel YosoModel EuroBertModel NomicBertModel'''))
kind('decoder', text, *words('''GPT2LMHeadModel GPTNeoXForCausalLM GPTJForCausalLM CodeGenForCausalLM OPTForCausalLM BloomForCausalLM LlamaForCausalLM
    MistralForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM GemmaForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM PhiForCausalLM Phi3ForCausalLM FalconForCausalLM
    MptForCausalLM StableLmForCausalLM Starcoder2ForCausalLM CohereForCausalLM Cohere2ForCausalLM OlmoForCausalLM Olmo2ForCausalLM GraniteForCausalLM GPTBigCodeForCausalLM
    BioGptForCausalLM XGLMForCausalLM CTRLLMHeadModel OpenAIGPTLMHeadModel NemotronForCausalLM HeliumForCausalLM GlmForCausalLM Glm4ForCausalLM SmolLM3ForCausalLM
    PersimmonForCausalLM ApertusForCausalLM Ernie4_5ForCausalLM SeedOssForCausalLM Lfm2ForCausalLM MambaForCausalLM FalconMambaForCausalLM DiffLlamaForCausalLM DogeForCausalLM'''),
    ('GPTNeoForCausalLM', dict(num_layers=2, attention_types=[[['global', 'local'], 1]])), ('Mamba2ForCausalLM', dict(num_heads=8, head_dim=16, n_groups=2, chunk_size=16)),
    ('RecurrentGemmaForCausalLM', dict(num_hidden_layers=3)), ('BambaForCausalLM', dict(num_hidden_layers=2, attn_layer_indices=[1], mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=1, mamba_chunk_size=16)))
mla = dict(qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=16, kv_lora_rank=16, q_lora_rank=16, num_key_value_heads=4, head_dim=8, n_group=2, topk_group=1, first_k_dense_replace=1)
kind('mixture of experts', text, *words('''MixtralForCausalLM Qwen2MoeForCausalLM Qwen3MoeForCausalLM OlmoeForCausalLM PhimoeForCausalLM
    GraniteMoeForCausalLM JetMoeForCausalLM GptOssForCausalLM Ernie4_5_MoeForCausalLM Glm4MoeForCausalLM HunYuanMoEV1ForCausalLM
    Llama4ForCausalLM MiniMaxForCausalLM'''), ('DeepseekV2ForCausalLM', mla), ('DeepseekV3ForCausalLM', mla),
    ('JambaForCausalLM', dict(num_hidden_layers=4, attn_layer_offset=1, attn_layer_period=2, use_mamba_kernels=False, mamba_d_state=8)),
    ('MixtralForCausalLM', dict(experts_implementation='eager')), ('MixtralForCausalLM', dict(experts_implementation='batched_mm')))
t5g = {k:v for k,v in sizes.items() if k in words('vocab_size hidden_size num_hidden_layers num_attention_heads num_key_value_heads intermediate_size head_dim')}
kind('encoder and decoder', pair, *words('''T5Model MT5Model UMT5Model BartModel MBartModel PegasusModel MarianModel LEDModel ProphetNetModel BlenderbotModel M2M100Model PLBartModel LongT5Model
    BigBirdPegasusModel FSMTModel BlenderbotSmallModel SwitchTransformersModel NllbMoeModel'''), ('T5GemmaModel', dict(encoder=t5g, decoder=t5g)))
vision = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=32, patch_size=8)
stages = dict(depths=[1, 1], num_heads=[2, 4], embed_dim=16, window_size=2)
kind('vision', image, *words('''ViTModel DeiTModel BeitModel ResNetModel PoolFormerModel MobileViTModel MobileNetV2Model RegNetModel Dinov2Model ViTMAEModel FocalNetModel BitModel
    SiglipVisionModel CLIPVisionModel'''), ('SwinModel', stages), ('Swinv2Model', stages), *((n, dict(hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1], patch_size=4, num_stages=4)) for n in words('ConvNextModel ConvNextV2Model')),
    ('SegformerModel', dict(num_attention_heads=[1, 2, 5, 8])), ('PvtModel', dict(num_attention_heads=[1, 2, 5, 8], image_size=64), dict(pixel_values=randn(2, 3, 64, 64))),
    ('LevitModel', dict(num_attention_heads=[4, 8, 12], image_size=64, patch_size=16), dict(pixel_values=randn(2, 3, 64, 64))), ('CvtModel', dict(num_heads=[1, 3, 6])), ('EfficientNetModel', dict(hidden_dim=2560)),
    ('HieraModel', dict(image_size=[224, 224], patch_size=[7, 7], num_heads=[1, 2, 4, 8]), dict(pixel_values=randn(1, 3, 224, 224))), ('YolosModel', dict(image_size=[32, 32], patch_size=8)))
kind('speech', dict(input_values=randn(2, 8000)), *words('''Wav2Vec2Model HubertModel WavLMModel UniSpeechModel SEWModel Data2VecAudioModel SEWDModel'''),
    ('WhisperModel', {}, dict(input_features=randn(1, 80, 3000), decoder_input_ids=ids[:1, :8])))
both, two = dict(text, **image), dict(text_config=dict(t5g, hidden_size=64, eos_token_id=2), vision_config=vision)
kind('several modalities', both, *((n, two) for n in words('CLIPModel SiglipModel BlipModel CLIPSegModel AltCLIPModel ChineseCLIPModel')), *words('ViltModel'),
    ('LlavaForConditionalGeneration', dict(text_config=dict(t5g, model_type='llama'), vision_config=dict(vision, model_type='clip_vision_model')), text),
    ('GitModel', dict(t5g, vision_config=vision)))
