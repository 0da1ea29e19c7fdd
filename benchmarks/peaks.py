"""How near do measured peaks come to what a C program reaches on the same machine?

peaks.c does fused multiply-adds in registers, and walks through memory as STREAM does. In each turn
it runs before and after `measure_peaks`; its rate is the better of both. Several threads of C run
at the same time and their rates are added, which is at least what they reach together.

    python benchmarks/peaks.py [--turns 9] [--threads 1]
"""
import ctypes
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import torch
from common import finish, option_parser, read_options

from fasterbench import measure_peaks
from fasterbench.base.system import reported_caches

SOURCE = Path(__file__).with_name('peaks.c')
OPTIONS = '-O3', '-march=native', '-ffast-math', '-shared', '-fPIC'
WALKS = 'read', 'copy', 'triad', 'update'
CHUNK = 2**21   # floats of a thread's sample


def build(folder: str) -> ctypes.CDLL:
    """The C functions, compiled for this processor."""
    library = Path(folder)/'peaks.so'
    subprocess.run(['gcc', *OPTIONS, str(SOURCE), '-o', str(library)], check=True)
    functions = ctypes.CDLL(str(library))
    functions.multiply_adds.argtypes = [ctypes.c_double, ctypes.c_long]
    functions.walk.argtypes = [ctypes.c_int, ctypes.c_double, ctypes.c_void_p, ctypes.c_long,
                               ctypes.c_long]
    functions.multiply_adds.restype = functions.walk.restype = ctypes.c_double
    return functions


class Reference:
    """Rates of the C functions with as many threads as torch has."""

    def __init__(self, functions: ctypes.CDLL, seconds: float):
        self.functions, self.seconds = functions, seconds
        self.threads = torch.get_num_threads()
        total = max(2**29, 3*max(reported_caches(self.threads).values(), default=0))
        self.buffers = [torch.ones(total//4//self.threads) for _ in range(self.threads)]
        self.pool = ThreadPoolExecutor(self.threads)
        for kind in range(len(WALKS)): self.walk(kind)   # pages are made

    def sum(self, rate) -> float:
        return sum(self.pool.map(rate, self.buffers))

    def walk(self, kind: int) -> float:
        return self.sum(lambda buffer: self.functions.walk(
            kind, self.seconds, buffer.data_ptr(), buffer.numel(), CHUNK))

    def rates(self) -> dict[str, float]:
        """FLOP/s, and bytes/s of each walk."""
        arithmetic = self.sum(lambda _: self.functions.multiply_adds(2*self.seconds, 20_000))
        return dict(arithmetic=arithmetic) | {w: self.walk(k) for k, w in enumerate(WALKS)}


def turn(reference: Reference, steps: int) -> dict:
    """Peaks between two runs of the C functions."""
    before = reference.rates()
    peaks = measure_peaks(cache=False, steps=steps, device='cpu')
    after = reference.rates()
    best = {name: max(before[name], after[name]) for name in before}
    fastest = max(WALKS, key=best.get)
    return {
        'GFLOP/s': peaks.peak_flops/1e9, 'in C': best['arithmetic']/1e9,
        'arithmetic': peaks.peak_flops/best['arithmetic'], 'kernel': peaks.kernels['float32'],
        'GB/s': peaks.peak_bandwidth/1e9, 'of C': best[fastest]/1e9,
        'memory': peaks.peak_bandwidth/best[fastest],
        'walks': f"{peaks.kernels['memory']}, in C {fastest}"}


def main():
    parser = option_parser(__doc__)
    parser.add_argument('--turns', type=int, default=9)
    args = read_options(parser)
    turns, steps, seconds = (1, 1, 0.05) if args.quick else (args.turns, 10, 0.3)
    with tempfile.TemporaryDirectory() as folder:
        reference = Reference(build(folder), seconds)
        rows = [turn(reference, steps) for _ in range(turns)]
    figures = {f'{name}_of_c': median(row[name] for row in rows)
               for name in ('arithmetic', 'memory')}
    bests = [max(row[key] for row in rows) for key in ('GFLOP/s', 'in C', 'GB/s', 'of C')]
    figures |= dict(arithmetic_best_of_c=bests[0]/bests[1], memory_best_of_c=bests[2]/bests[3],
                    turns=turns)
    finish(args, __file__, __doc__, dict(turns=rows), figures)


if __name__ == '__main__': main()
