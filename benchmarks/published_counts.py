"""Which tools count what torchvision publishes for its weights, `meta['_ops']`?

Multiply-adds in 10⁹ of one sample with random weights, by every tool that is installed
(FlopCounterMode, torchinfo, fvcore, calflops, ptflops, thop, DeepSpeed). Equal means: within the
published value's three decimals. A tool that fails has the name of its error, one that takes too
long 'time'. Each model is counted in a process of its own. fasterbench counts without data;
detectors, whose work depends on values, it counts on data. Autograd records, so that attention keeps
off a fused path that the other tools do not see. The published counts of two-stage
detectors are those of trained weights: they are also counted with as many proposals and detections
as the published count amounts to.

    python benchmarks/published_counts.py [--only resnet18,vit_b_16] [--limit 600]
"""
import contextlib
import importlib.util
import os
import re
import time
import warnings
from io import StringIO
from multiprocessing import get_context
from statistics import median
from unittest.mock import patch

import torch
from common import chosen, finish, option_parser, read_options
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from torchvision import models

from fasterbench import RooflineAnalyzer, count_costs

TOLERANCE = 0.0005 + 1e-9   # 10⁹ multiply-adds: three decimals are published
# proposals and detections with which a two-stage detector's count is the published one
REGIONS = {'fasterrcnn_mobilenet_v3_large_320_fpn': (0, 0), 'keypointrcnn_resnet50_fpn': (1000, 1),
           'fasterrcnn_mobilenet_v3_large_fpn': (0, 0), 'maskrcnn_resnet50_fpn': (1000, 0),
           'fasterrcnn_resnet50_fpn': (1000, 0)}
QUICK = 'squeezenet1_1', 'mobilenet_v3_small', 'resnet18'


def published() -> list[dict]:
    """Model, weights and count of each value; one that a model has twice stands once."""
    found = []
    for name in models.list_models():
        weights, values = models.get_model_weights(name), {}
        if '.quantization.' in models.get_model_builder(name).__module__: continue
        if not len(weights): continue
        for w in (weights.DEFAULT, *weights): values.setdefault(w.meta.get('_ops'), w.name)
        found += [dict(model=name, weights=w, published=ops) for ops, w in values.items() if ops]
    return sorted(found, key=lambda row: row['published'])


def kind_of(name: str) -> str:
    """What a model does: 'classification', 'detection', …; a module of torchvision's."""
    parts = models.get_model_builder(name).__module__.split('.')
    return parts[2] if parts[2] in ('detection', 'segmentation', 'video', 'optical_flow') else ''


def build(row: dict, **options) -> nn.Module:
    """The model as its weights have it, with random values."""
    weights = models.get_model_weights(row['model'])[row['weights']]
    torch.manual_seed(0)
    with (patch.object(models.WeightsEnum, 'get_state_dict', lambda *args, **kwargs: {}),
          patch.object(nn.Module, 'load_state_dict', lambda *args, **kwargs: None)):
        return models.get_model(row['model'], weights=weights, **options).eval()


def sample_of(row: dict, model: nn.Module) -> tuple:
    """One image, video or pair of images, as the weights' transforms make it."""
    prepare = models.get_model_weights(row['model'])[row['weights']].transforms()
    kind = kind_of(row['model'])
    if kind == 'detection':
        fixed = model.transform.fixed_size
        side = fixed[0] if fixed else model.transform.min_size[-1]
        return ([prepare(torch.rand(3, side, side))],)
    if kind == 'optical_flow': return prepare(*[torch.rand(1, 3, 512, 512)]*2)
    return (prepare(torch.rand(*((1, 16) if kind == 'video' else (1,)), 3, 512, 512)),)


# Tools: multiply-adds of a model called with `sample`

def fasterbench(model, sample):
    if isinstance(sample[0], list): return count_costs(model, sample).product_flops/2
    return RooflineAnalyzer(model, sample).count().matmul_flops/2


def flop_counter_mode(model, sample):
    with FlopCounterMode(display=False) as mode: model(*sample)
    return mode.get_total_flops()/2


def torchinfo(model, sample):
    import torchinfo
    return torchinfo.summary(model, input_data=[*sample], verbose=0, device='cpu').total_mult_adds


def fvcore(model, sample):
    from fvcore.nn import FlopCountAnalysis
    counted = FlopCountAnalysis(model, sample).unsupported_ops_warnings(False)
    return counted.uncalled_modules_warnings(False).tracer_warnings('none').total()


class Images(list):
    """A list that calflops may move to a device."""
    def to(self, device): return self


def calflops(model, sample):
    from calflops import calculate_flops
    args = [Images(value) if isinstance(value, list) else value for value in sample]
    return calculate_flops(model, args=args, print_results=False, output_as_string=False)[1]


def ptflops(model, sample):
    from ptflops import get_model_complexity_info
    names = ['image1', 'image2'] if len(sample) == 2 else None
    def given(shape): return dict(zip(names, sample)) if names else sample[0]
    said = StringIO()
    with contextlib.redirect_stdout(said):
        count, _ = get_model_complexity_info(model, (1,), as_strings=False, verbose=False,
                                             print_per_layer_stat=False, input_constructor=given)
    if count is None:   # it prints what it failed on
        name = re.search(r"<class '(?:.*\.)?(\w+)'>", said.getvalue())
        raise type(name[1] if name else 'NoCount', (Exception,), {})
    return count


def thop(model, sample):
    from thop import profile
    return profile(model, inputs=sample, verbose=False)[0]


def deepspeed(model, sample):
    from deepspeed.profiling.flops_profiler import get_model_profile
    return get_model_profile(model, args=[*sample], print_profile=False, as_string=False)[1]


TOOLS = {'fasterbench': fasterbench, 'FlopCounterMode': flop_counter_mode, 'torchinfo': torchinfo,
         'fvcore': fvcore, 'calflops': calflops, 'ptflops': ptflops, 'thop': thop,
         'deepspeed': deepspeed}


def installed() -> list[str]:
    own = 'fasterbench', 'FlopCounterMode'
    return [name for name in TOOLS if name in own or importlib.util.find_spec(name)]


def count_all(row: dict, tools: list[str], threads: int, send):
    """Send (tool, 10⁹ multiply-adds or the name of an error, seconds) of each tool."""
    torch.set_num_threads(threads)
    warnings.simplefilter('ignore')
    regions = REGIONS.get(row['model'])
    ways = [(tool, TOOLS[tool], {}) for tool in tools]
    if regions:
        ways.append(('at the regions', fasterbench, dict(
            rpn_post_nms_top_n_test=regions[0], rpn_score_thresh=0., rpn_nms_thresh=1.,
            box_detections_per_img=regions[1], box_score_thresh=0., box_nms_thresh=1.)))
    with open(os.devnull, 'w') as nowhere, contextlib.redirect_stdout(nowhere):
        for name, tool, options in ways:
            model = build(row, **options)
            sample, start = sample_of(row, model), time.perf_counter()
            try: found = tool(model, sample)/1e9
            except Exception as e: found = type(e).__name__
            send.send((name, found, time.perf_counter() - start))
    send.close()


def counted(row: dict, tools: list[str], threads: int, limit: float) -> tuple[dict, dict]:
    """The row with all counts, and tool → seconds."""
    context, row, seconds = get_context('fork'), dict(row), {}
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=count_all, args=(row, tools, threads, send))
    process.start()
    send.close()
    try:
        while receive.poll(limit): name, row[name], seconds[name] = receive.recv()
        for name in tools: row.setdefault(name, 'time')
    except EOFError:   # all were sent, or the process was killed
        for name in tools: row.setdefault(name, 'killed')
    process.kill()
    process.join()
    return row, seconds


def is_near(row: dict, tool: str, tolerance: float) -> bool:
    count = row.get(tool)
    return isinstance(count, (int, float)) and abs(count - row['published']) <= tolerance


def main():
    parser = option_parser(__doc__)
    parser.add_argument('--only', default='', help='models, with commas (default: all)')
    parser.add_argument('--limit', type=float, default=600, help='seconds for a tool and a model')
    args = read_options(parser)
    tools, values = installed(), published()
    only = chosen(parser, args.only or ','.join(QUICK)*args.quick, [row['model'] for row in values])
    rows, seconds = [], {tool: [] for tool in tools}
    for row in values:
        if row['model'] not in only: continue
        row, took = counted(row, tools, torch.get_num_threads(), args.limit)
        rows.append(row)
        for tool in tools: seconds[tool].append(took.get(tool))
        print(f"{row['model']}: {row['published']}, {row['fasterbench']}", flush=True)
    summary = [{
        'tool': tool, 'values': len(rows),
        'equal': sum(is_near(row, tool, TOLERANCE) for row in rows),
        'within 1 %': sum(is_near(row, tool, 0.01*row['published']) for row in rows),
        'no count': sum(isinstance(row[tool], str) for row in rows),
        'median s': median(s for s in seconds[tool] if s is not None)} for tool in tools]
    regions = [row for row in rows if 'at the regions' in row]
    figures = dict(values=len(rows), models=len({row['model'] for row in rows}))
    figures |= {f"{line['tool']}: equal": line['equal'] for line in summary}
    figures |= {'two-stage detectors': len(regions),
                'of them equal with the regions of trained weights':
                    sum(is_near(row, 'at the regions', TOLERANCE) for row in regions)}
    finish(args, __file__, __doc__, {'10⁹ multiply-adds': rows, 'tools': summary}, figures,
           ['torchvision', *tools[2:]])


if __name__ == '__main__': main()
