"""Models that several scripts measure: torchvision's on an image, transformers' of a config, with random weights"""
import torch, torchvision
from torch.nn import functional as F

def image(name, batch=1, side=224):
    "A model of torchvision, and its sample"
    return torchvision.models.get_model(name, weights=None), torch.randn(batch, 3, side, side)

def classified(name, batch, side):
    "The same, with a loss"
    labels = torch.randint(1000, (batch,))
    return *image(name, batch, side), lambda out: F.cross_entropy(out, labels)

def language(cls, batch=1, tokens=128, **config):
    "A model of transformers, its sample, and `None`: it gives its loss"
    import transformers
    kind = getattr(transformers, cls)
    model = kind(kind.config_class(**config))
    ids = torch.randint(model.config.vocab_size, (batch, tokens))
    return model, dict(input_ids=ids, labels=ids), None
