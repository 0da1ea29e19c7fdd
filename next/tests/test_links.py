"""Links are measured between two processes."""
from datetime import timedelta

import torch.distributed as dist
import torch.multiprocessing as mp

from fasterbench.base.files import load_json, save_json
from fasterbench.machine.links import MEASURED, Link, measure_links


def measure(rank, folder):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2,
                            timeout=timedelta(seconds=60))   # an exchange that stands still is an error
    pair = dist.new_group([0, 1])
    links = measure_links({'pair': pair}, sizes=(8, 2**18))
    save_json(links['pair'], folder/f'{rank}.json')
    dist.destroy_process_group()


def test_two_processes(tmp_path):
    mp.spawn(measure, (tmp_path,), nprocs=2)
    link, other = (load_json(tmp_path/f'{rank}.json', Link) for rank in range(2))
    assert link == other   # every rank has the times of the slowest
    assert (link.ranks, link.backend) == (2, 'gloo')
    assert {*link.bandwidths, *link.unsupported} == {*MEASURED}
    assert {'all_reduce', 'broadcast', 'send'} <= {*link.bandwidths}
    assert link.seconds('all_reduce', 2**30) > link.seconds('all_reduce', 8) > 0
