"""Models that are odd, a row each"""
import torch, torch.nn.functional as F
from torch import nn

class Holder:
    "An object with state that is no module"
    __slots__ = 'table', 'count'
    def __init__(self): self.table, self.count = torch.zeros(4), 0

class Victim(nn.Module):
    "Writes to much of what it can reach, in ways that can all be put back"
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.relu = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)
        self.branches = [nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), nn.BatchNorm1d(4)]   # a plain list
        self.helper, self.log, self.seen = Holder(), [], dict(calls=0)
        self.register_buffer('steps', torch.zeros(3))
    def forward(self, x):
        self.steps.add_(1)
        self.helper.table.add_(1); self.helper.count += 1
        self.log.append(len(self.log)); self.seen['calls'] += 1
        x = self.norm(self.conv(self.relu(x))).mean((2, 3))
        for b in [] if x.is_meta else self.branches: x = b(x)   # on paper, they are in memory still
        self.last = x
        return F.dropout(x, 0.5, self.training)

class PlainVictim(nn.Module):
    "Writes to nothing but its buffers and its sample"
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.relu, self.head = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Linear(4, 4)
        self.register_buffer('steps', torch.zeros(3))
    def forward(self, x):
        self.steps.add_(1)
        return F.dropout(self.head(self.norm(self.conv(self.relu(x))).mean((2, 3))), 0.5, self.training)

def victim(plain=False):
    torch.manual_seed(0)
    return PlainVictim() if plain else Victim(), torch.randn(2, 2, 4, 4)
