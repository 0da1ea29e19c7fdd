"""What does counting take, and does it agree with torch's FlopCounterMode?

Times are in passes: each round times a pass, then a count, and the figure is the median of the
ratios. `estimate` counts without data and puts rows under a roof. FLOPs are those of products and
convolutions, which is all that FlopCounterMode counts, with attention written out; a step has a
forward and a backward pass. FlopCounterMode's formula for the backward pass of a convolution leaves
its groups out: the gradient of a depthwise weight counts as that of a dense one.

    python benchmarks/counting.py [--rounds 9]
"""
import time
from statistics import median

import torch
import torch.nn.functional as F
from common import finish, image_model, in_turns, option_parser, read_options
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode

from fasterbench import HardwarePeaks, RooflineAnalyzer, count_costs, count_step
from fasterbench.models import construct

PEAKS = HardwarePeaks(1e12, 1e11)
TIMED = 'resnet18', 'vit_b_32', 'mobilenet_v3_small'
COUNTED = ('alexnet', 'convnext_tiny', 'densenet121', 'efficientnet_v2_s', 'googlenet',
           'inception_v3', 'maxvit_t', 'mnasnet1_0', 'mobilenet_v3_large', 'regnet_y_800mf',
           'resnext50_32x4d', 'shufflenet_v2_x1_0', 'squeezenet1_1', 'swin_v2_t', 'vgg11_bn',
           'vit_b_16')
LANGUAGE = 'GPT2LMHeadModel', 'BertForMaskedLM', 'LlamaForCausalLM'


def seconds(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def timed_row(name: str, rounds: int) -> dict:
    """How many passes each way of counting takes."""
    model, sample = image_model(name)

    @torch.no_grad()
    def forward(): model(sample)

    def by_torch():
        with FlopCounterMode(display=False): forward()

    ways = {'FlopCounterMode': by_torch, 'count_costs': lambda: count_costs(model, sample),
            'estimate': lambda: RooflineAnalyzer(model, sample, PEAKS).estimate()}

    def in_passes(way):
        before = seconds(forward)
        return seconds(way)/before

    for way in (forward, *ways.values()): way()
    taken = in_turns(rounds, {key: lambda way=way: in_passes(way) for key, way in ways.items()})
    passes_s = median(seconds(forward) for _ in range(rounds))
    return {'model': name, 'pass ms': 1e3*passes_s} | {
        f'{key}, passes': median(values) for key, values in taken.items()}


def language_model(name: str):
    """A small model of transformers, and its sample with labels."""
    import transformers
    kind = getattr(transformers, name)
    config = kind.config_class()
    config.num_hidden_layers = 2
    ids = torch.zeros(2, 64, dtype=torch.int64)
    return kind(config), dict(input_ids=ids, labels=ids)


def flops_row(name: str, build, loss) -> dict:
    """Products of a forward pass and of a step by both, with no values needed."""
    model, sample = construct(build, 'meta')   # on the CPU where a constructor needs values
    model = model.to('meta')
    sample = tree_map_only(torch.Tensor, lambda t: t.to('meta'), sample)
    kwargs = sample if isinstance(sample, dict) else {}
    args = () if kwargs else (sample,)
    with sdpa_kernel(SDPBackend.MATH):
        with torch.no_grad(), FlopCounterMode(display=False) as torch_forward:
            model.eval()(*args, **kwargs)
        with FlopCounterMode(display=False) as torch_step:
            loss(model.train()(*args, **kwargs)).backward()
        forward = count_costs(model, sample).product_flops
        step = count_step(model, sample, loss).product_flops
    return {'model': name, 'forward FLOPs': forward, 'step / forward': step/forward,
            'of torch': torch_step.get_total_flops()/torch_forward.get_total_flops(),
            'grouped convolutions': any(getattr(m, 'groups', 1) > 1 for m in model.modules()),
            'forward equal': forward == torch_forward.get_total_flops(),
            'step equal': step == torch_step.get_total_flops()}


def image_loss(output):
    """Of a classifier, whatever its output is called."""
    output = getattr(output, 'logits', output)
    labels = torch.zeros(len(output), dtype=torch.int64, device=output.device)
    return F.cross_entropy(output, labels)


def main():
    parser = option_parser(__doc__)
    parser.add_argument('--rounds', type=int, default=9)
    args = read_options(parser)
    timed, counted, language, rounds = TIMED, COUNTED, LANGUAGE, args.rounds
    if args.quick: timed, counted, language, rounds = TIMED[2:], COUNTED[:1], LANGUAGE[:1], 2
    rows = [timed_row(name, rounds) for name in timed]
    equal = [flops_row(name, lambda: image_model(name, 2, 224 if name != 'inception_v3' else 299),
                       image_loss) for name in counted]
    equal += [flops_row(name, lambda: language_model(name), lambda out: out.loss)
              for name in language]
    figures = {key: median(row[key] for row in rows) for key in rows[0] if 'passes' in key}
    dense = [row for row in equal if not row['grouped convolutions']]
    figures |= {'models': len(equal), 'forward equal': sum(row['forward equal'] for row in equal),
                'models without grouped convolutions': len(dense),
                'of them step equal': sum(row['step equal'] for row in dense)}
    tables = {'time': rows, 'FLOPs of products': equal}
    finish(args, __file__, __doc__, tables, figures, ['torchvision', 'transformers'])


if __name__ == '__main__': main()
