"""Counts the published runs of published_runs.csv: FLOPs, bytes and launches of one pass.

    python benchmarks/data/published_runs.py CONFIGS [--only MODEL]

CONFIGS is the folder with the configs of NeuSight's models (bert_large.json, …). Nothing is run.
Floats are in the dtype of the products; timm's runs, in mixed precision, keep weights and some
operations in float32, which is not counted. Models that have another form for inference (mobileone,
repvit, …) are counted as they are built. Prints by how much counts differ from those in the table,
and writes them there.
"""
import argparse
import csv
import json
from functools import cache
from io import StringIO
from pathlib import Path

import torch

from fasterbench.base.files import write_whole
from fasterbench.models import construct
from fasterbench.roofline import RooflineAnalyzer

TABLE = Path(__file__).with_suffix('.csv')


def resnet50_of_caffe():
    """ResNet-50 with the stride in a block's first convolution, not the second."""
    from torchvision.models import resnet50
    model = resnet50()
    for first in (model.layer2[0], model.layer3[0], model.layer4[0]):
        first.conv1.stride, first.conv2.stride = (2, 2), (1, 1)
    return model


def transformer(config: Path):
    """A model of transformers with attention written out."""
    import transformers
    fields = json.loads(config.read_text())
    cls = getattr(transformers, fields['architectures'][0])
    config = cls.config_class(**fields)
    config._attn_implementation = 'eager'
    return cls(config)


def build(name: str):
    """A model of torchvision, timm or transformers."""
    import timm
    from torchvision.models import resnet50
    from transformers import BertConfig, BertModel
    if name == 'resnet50 v1': return resnet50_of_caffe()
    if name == 'resnet50': return resnet50()
    if name == 'bert-base layers': return BertModel(BertConfig()).encoder
    return timm.create_model(name)


def estimated(model: str, batch: int, size: int, mode: str, dtype: str, configs: Path):
    """The work of one pass, as a result."""
    config = configs/f'{model}.json'
    if not config.is_file():
        shape = (batch, size, 768) if model.startswith('bert') else (batch, 3, size, size)
        built = construct(lambda: build(model), 'meta').eval()
        analyzer = RooflineAnalyzer(built, torch.empty(shape, device='meta'))
        return analyzer.estimate('H100-SXM', dtype=dtype)
    tokens = torch.zeros(batch, size, dtype=torch.int64)
    sample = dict(input_ids=tokens, use_cache=False)
    built = construct(lambda: transformer(config), 'meta')
    if mode == 'inference': return RooflineAnalyzer(built.eval(), sample).estimate('H100-SXM')
    return RooflineAnalyzer(built, sample | dict(labels=tokens)).estimate_step('H100-SXM')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('configs', type=Path)
    parser.add_argument('--only', help='one model')
    args = parser.parse_args()
    with open(TABLE, newline='') as file: lines = [*csv.DictReader(file)]

    @cache
    def counts(model, batch, size, mode, dtype):
        result = estimated(model, int(batch), int(size), mode, dtype, args.configs)
        return dict(flops=result.flops, bytes=round(result.bytes_moved),
                    launches=result.total('launches'))

    for line in lines:
        if args.only not in (None, line['model']): continue
        new = counts(*(line[key] for key in ('model', 'batch', 'size', 'mode', 'dtype')))
        print(line['model'], line['batch'], line['size'], line['mode'],
              *(f'{key} {new[key]/float(line[key]) - 1:+.2%}' for key in new))
        line |= new
    out = StringIO()
    writer = csv.DictWriter(out, lines[0], lineterminator='\n')
    writer.writeheader()
    writer.writerows(lines)
    write_whole(TABLE, out.getvalue())


if __name__ == '__main__': main()
