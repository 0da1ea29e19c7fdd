"""Links are measured between two processes."""
import os
from datetime import timedelta

import torch.distributed as dist
import torch.multiprocessing as mp

from fasterbench.base.files import load_json, save_json
from fasterbench.machine.hardware import HardwarePeaks
from fasterbench.machine.links import MEASURED, measure_links


def measure(rank, folder):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2,
                            timeout=timedelta(seconds=60))   # an exchange that stands still is an error
    links = measure_links(group=dist.new_group([0, 1]), sizes=(8, 2**18))
    save_json(HardwarePeaks(1e11, 5e10, links=links), folder/f'{rank}.json')
    dist.barrier()
    os._exit(0)   # in torch 2.6 leaving a group of gloo may never end


def test_two_processes(tmp_path):
    mp.spawn(measure, (tmp_path,), nprocs=2)
    links, others = (load_json(tmp_path/f'{rank}.json', HardwarePeaks).links for rank in range(2))
    assert links == others   # every rank has the times of the slowest
    assert {'all_reduce', 'broadcast'} <= {*links} <= {*MEASURED}
