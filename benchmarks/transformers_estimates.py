"""Can Hugging Face's models be estimated, and does an estimate count what a forward does?

Small models of many architectures, with random weights (no downloads) and a padded batch. Each is estimated under the roof
of a machine that is not there, counted in a real forward on the CPU, and looked at before and after: every tensor of it and
of the sample has to be the one it was, with its memory, values and flags. An estimate that is refused has to say why in words.
Then tensors that wrap others (torchao's, DTensor), TorchScript, and the memory that an estimate takes. Prints a table and
writes it, with the device and the versions, to benchmarks/results/transformers_estimates.txt.

    python benchmarks/transformers_estimates.py [--only Llama,Bert]
"""
import gc, logging, os, subprocess, sys, warnings
os.environ['HF_HUB_OFFLINE'] = '1'

import torch, transformers
from fastcore.script import call_parse
from tabulate import tabulate
from torch import nn, randn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from fasterbench.core import held, si, tensors, walk
from fasterbench.costs import count_costs
from fasterbench.roofline import HardwarePeaks, RooflineAnalyzer
from report import write_result

peaks = HardwarePeaks(1e12, 1e11)
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

def words(s): return s.split()

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

# models whose tensors wrap others, and what can't be copied

def perceptron(): return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))

def torchao(config):
    def make():
        from torchao.quantization import quantize_
        quantize_(m := perceptron(), config())
        return m
    return make

def processes():
    import torch.distributed as dist
    from torch.distributed.tensor import init_device_mesh
    if not dist.is_initialized(): dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)
    return init_device_mesh('cpu', (1,))

def tensor_parallel():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    return parallelize_module(perceptron(), processes(), {'0': ColwiseParallel(), '2': RowwiseParallel()})

def fsdp():
    from torch.distributed.fsdp import fully_shard
    return fully_shard(perceptron(), mesh=processes())

def data_parallel():
    processes()
    return nn.parallel.DistributedDataParallel(perceptron())

def in_place():
    (m := perceptron())[0].compile(backend='eager')
    return m

def wrapped():
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig
    return {'torchao, int8 weights': torchao(Int8WeightOnlyConfig), 'torchao, int8 weights and activations': torchao(Int8DynamicActivationInt8WeightConfig),
        'DTensors, tensor parallel': tensor_parallel, 'DTensors, FSDP2': fsdp, 'DistributedDataParallel': data_parallel,
        'compiled in place': in_place, 'compiled': lambda: torch.compile(perceptron(), backend='eager'),
        'TorchScript': lambda: torch.jit.trace(perceptron(), randn(1, 256)), 'a TorchScript child': lambda: nn.Sequential(torch.jit.trace(nn.Linear(256, 256), randn(1, 256)), perceptron()),
        'dynamically quantized': lambda: torch.ao.quantization.quantize_dynamic(perceptron())}

# one estimate

def fingerprint(t):
    "Which tensor `t` is, where its data is, what it holds, and its flags"
    if is_traceable_wrapper_subclass(t): return id(t), t._version, t.requires_grad, *(fingerprint(o) for n in t.__tensor_flatten__()[0] if isinstance(o := getattr(t, n), torch.Tensor))
    return id(t), t.data_ptr(), t._version, t.requires_grad, t.dtype, t.device, float(t.detach().double().sum())

def state(model, sample):
    "All that an estimate must leave as it is"
    return [fingerprint(t) for t in (*held(model), *tensors(sample))], [m.training for m in walk(model).values()]

def one(model, sample):
    "What an estimate says and what a forward does; the rows in which they differ"
    before, analyzer, refused = state(model, sample), RooflineAnalyzer(model, sample, peaks), ''
    try: analyzer.estimate()
    except ValueError as e: refused = str(e)
    assert state(model, sample)==before, 'the estimate changed the model'
    real = count_costs(model, sample)
    if refused: return dict(real=real.matmul_flops, refused=refused)
    def work(c): return {n: (r.calls, r.flops, r.bytes_moved) for n,r in c.by_module.items() if r.worked}
    paper, full = work(analyzer.costs), work(real)
    return dict(real=real.matmul_flops, paper=analyzer.costs.matmul_flops, rows=len(full), unlike=[n for n in full|paper if paper.get(n)!=full.get(n)])

def line(r):
    if 'refused' in r: return ['refused', '', f"{r['real']:,}", '', r['refused']]
    return [f"{r['rows']} rows", f"{r['paper']:,}", f"{r['real']:,}", 'equal' if r['paper']==r['real'] else 'differ', 'all rows equal' if not r['unlike'] else f"{len(r['unlike'])} rows differ: {', '.join(r['unlike'][:3])}"]

# memory

big = dict(linear='nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(16))), torch.randn(8, 4096)',
    llama="""LlamaForCausalLM(LlamaConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=14, num_attention_heads=16)).eval(),
        dict(input_ids=torch.ones(1, 4096, dtype=torch.long), attention_mask=(torch.arange(4096)>50).long()[None])""")

def peak(make):
    "Bytes of the parameters of a large model, and how much more memory its process needs at most while it is estimated"
    code = f"""if True:
        import torch, warnings
        from torch import nn
        from transformers import LlamaConfig, LlamaForCausalLM
        from fasterbench.roofline import HardwarePeaks, RooflineAnalyzer
        warnings.simplefilter('ignore')
        def most(): return 1024*int(next(l for l in open('/proc/self/status') if 'VmHWM' in l).split()[1])
        model, sample = ({make})
        open('/proc/self/clear_refs', 'w').write('5')
        before = most()
        RooflineAnalyzer(model, sample, HardwarePeaks(1e12, 1e11)).estimate()
        print(sum(p.nbytes for p in model.parameters()), most() - before)"""
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    return [int(o) for o in done.stdout.split()[-2:]]

def summary(res):
    good = [r for _,_,r in res if 'refused' not in r]
    same, equal = sum(r['paper']==r['real'] for r in good), sum(not r['unlike'] for r in good)
    return f'{len(res)} models: {len(good)} estimated, {len(res)-len(good)} refused; of those estimated, {same} have the FLOPs in matrix products of a real forward, {equal} its calls, FLOPs and bytes in every row'

@call_parse
def main(
    only:str='', # classes, with commas; all of them, and the other tables, by default
):
    "Estimate Hugging Face's architectures and hold them against real forwards"
    logging.disable(logging.WARNING); warnings.simplefilter('ignore'); transformers.logging.set_verbosity_error()
    res = []
    for k,models in kinds.items():
        for name,config,sample in models:
            if only and name not in only.split(','): continue
            torch.manual_seed(0)
            shown = name + (f", {config['experts_implementation']}" if 'experts_implementation' in config else '')
            res.append((k, shown, one(small(name, **config), sample)))
            print(k, shown, *line(res[-1][2]), sep=' | ', flush=True)
            gc.collect()
    if only: return
    others = [('perceptron', n, one(make(), randn(4, 256))) for n,make in wrapped().items()]
    memory = [(n, *(si(b, 'B') for b in peak(make))) for n,make in big.items()]
    def table(rows):
        cells = [[kind, name, *line(r)] for kind,name,r in rows]
        return tabulate(cells, headers=['kind', 'model', 'estimate', 'FLOPs in products', 'of a forward', '', ''], disable_numparse=True, maxcolwidths=[None]*6 + [90])
    text = [summary(res), table(res), 'Wrapped tensors, compiled models, TorchScript', table(others),
        'Memory that an estimate takes at most, besides the model and the imports', tabulate(memory, headers=['model', 'parameters', 'more'])]
    write_result('transformers_estimates', 'small models with random weights, two sequences of 32 and 24 tokens padded to 32, on the CPU; every tensor of model and sample was after each estimate what it was before', '\n\n'.join(text), 'transformers', 'torchao')
