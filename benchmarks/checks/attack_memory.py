"""How much memory does it take to put everything back? Peaks of processes of their own, above those of a plain forward

    python -m benchmarks.checks.attack_memory parameters profile
"""
import resource, sys

from benchmarks.shared.runs import in_process

MB = 10**6
margin = 50*MB        # for what Python, torch and the rows need
of_estimate = 200*MB  # at most, over the imports and the model
rows = [ # (what holds the memory, MB of it, operation, what it is held against, MB of buffers)
    ('parameters', 500, 'profile', 'forward', 0), ('parameters', 500, 'count', 'forward', 0),
    ('buffers', 500, 'profile', 'forward', 500), ('buffers', 500, 'count', 'forward', 500),
    ('written', 500, 'profile', 'forward', 500), ('parameters', 1000, 'estimate', 'built', 0), ('buffers', 1000,
        'estimate', 'built', 0),
]

def model_of(kind, size):
    "Layers of 50 MB, with small buffers or nothing else than buffers"
    import torch
    from torch import nn
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            w = torch.full((3125, 4000), 1e-4)
            if kind=='parameters': self.weight = nn.Parameter(w)
            else: self.register_buffer('weight', w)
            self.register_buffer('small', torch.ones(4000))
        def forward(self, x):
            if kind=='written': self.weight.mul_(1.01)
            return (x @ self.weight) @ self.weight.t()*self.small[:3125]
    return nn.Sequential(*(Layer() for _ in range(size//50))), torch.ones(1, 3125)

def peak(kind, size, op)->int: # bytes
    "The peak memory of this process after `op`"
    import torch
    from benchmarks.checks.attack import operations, victim
    torch.set_num_threads(1)
    for f in operations.values(): f(*victim())   # all that is imported
    model, x = model_of(kind, size)
    if op in operations: operations[op](model, x)
    elif op=='forward':
        with torch.inference_mode(): model(x)
    return 1024*resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

def alone(kind, size, op):
    (bytes,), = in_process('-m', __name__, kind, size, op)
    return bytes

def memory_items(): return [(op, kind, size, against, buffers) for kind,size,op,against,buffers in rows]

def memory_attempt(item):
    op, kind, size, against, buffers = item
    over = alone(kind, size, op) - alone(kind, size, against)
    bound = of_estimate if op=='estimate' else buffers*MB + margin
    if over<=bound: return []
    return [f'{op} of {size} MB in {kind}: {over/MB:.0f} MB over {against}, at most {bound/MB:.0f}']

if __name__=='__main__': print([peak(sys.argv[1], int(sys.argv[2]), sys.argv[3])])
