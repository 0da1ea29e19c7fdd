"""Can Hugging Face's models be estimated, and does an estimate count what a forward does?

Small models of many architectures, with random weights (no downloads) and a padded batch. Each is estimated under the roof
of a machine that is not there, counted in a real forward on the CPU, and looked at before and after: every tensor of it and
of the sample has to be the one it was, with its memory, values and flags. An estimate that is refused has to say why in words.
Then tensors that wrap others (torchao's where it is installed, DTensor), TorchScript, and the memory that an estimate takes. Prints a table and
writes it, with the device and the versions, to benchmarks/results/transformers_estimates.txt.

    python -m benchmarks.checks.transformers_estimates [--only Llama,Bert]
"""
import gc, os
from importlib.util import find_spec
os.environ['HF_HUB_OFFLINE'] = '1'

import torch
from fastcore.script import call_parse
from torch import nn, randn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from fasterbench.base.core import held, tensors, walk
from fasterbench.operations import si
from fasterbench.costs import count_costs
from fasterbench.roofline import HardwarePeaks, RooflineAnalyzer
from benchmarks.shared.architectures import asked, shown, small
from benchmarks.shared.report import quiet, write_result
from benchmarks.shared.runs import in_process
from scripts.evidence import table

peaks = HardwarePeaks(1e12, 1e11)

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

has_torchao = find_spec('torchao') is not None

def quantized():
    "Weights of torchao; where it is not installed, none"
    if not has_torchao: return {}
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig
    return {'torchao, int8 weights': torchao(Int8WeightOnlyConfig), 'torchao, int8 weights and activations': torchao(Int8DynamicActivationInt8WeightConfig)}

def wrapped():
    return quantized() | {'DTensors, tensor parallel': tensor_parallel, 'DTensors, FSDP2': fsdp, 'DistributedDataParallel': data_parallel,
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
        print([sum(p.nbytes for p in model.parameters()), most() - before])"""
    return in_process('-c', code)[-1]

def numbers(res):
    "Figures of all models"
    good = [r for _,_,r in res if 'refused' not in r]
    return dict(models=len(res), estimated=len(good), refused=len(res)-len(good), same_products=sum(r['paper']==r['real'] for r in good),
        equal=sum(not r['unlike'] for r in good))

def summary(n):
    return (f"{n['models']} models: {n['estimated']} estimated, {n['refused']} refused; of those estimated, {n['same_products']} have the FLOPs in matrix "
        f"products of a real forward, {n['equal']} its calls, FLOPs and bytes in every row")

def write(res):
    "Write the tables"
    others = [('perceptron', n, one(make(), randn(4, 256))) for n,make in wrapped().items()]
    memory = [(n, *(si(b, 'B') for b in peak(make))) for n,make in big.items()]
    def of(rows):
        cells = [[kind, name, *line(r)] for kind,name,r in rows]
        return table(cells, ['kind', 'model', 'estimate', 'FLOPs in products', 'of a forward', '', ''], disable_numparse=True, maxcolwidths=[None]*6 + [90])
    figures = numbers(res)
    parts = [summary(figures), of(res), 'Wrapped tensors, compiled models, TorchScript', of(others),
        'Memory that an estimate takes at most, besides the model and the imports', table(memory, ['model', 'parameters', 'more'])]
    what = ('small models with random weights, two sequences of 32 and 24 tokens padded to 32, on the CPU; '
        'every tensor of model and sample was after each estimate what it was before')
    write_result('transformers_estimates', what, parts, 'transformers', *['torchao']*has_torchao, figures=figures)

@call_parse
def main(
    only:str='', # classes, with commas; all of them, and the other tables, by default
):
    "Estimate Hugging Face's architectures and hold them against real forwards"
    quiet()
    res = []
    for k,name,config,sample in asked(only):
        torch.manual_seed(0)
        res.append((k, shown(name, config), one(small(name, **config), sample)))
        print(*res[-1][:2], *line(res[-1][2]), sep=' | ', flush=True)
        gc.collect()
    if not only: write(res)
    if any(r['paper']!=r['real'] for _,_,r in res if 'refused' not in r): raise SystemExit(1)
