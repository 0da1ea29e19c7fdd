"""Two processes share a model: what they exchange, for whom they wait, and what they say of errors."""
import os
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from fasterbench import HardwarePeaks, Roofline, RooflineAnalyzer, cli

NET = '''
import os, time
import torch
from torch import nn

class Late(nn.Module):
    """Rank 1 comes 150 ms late, more than others on the machine delay a rank; or it has no data."""
    def forward(self, x):
        if os.environ['RANK'] == '1' and 'FAIL' in os.environ: raise ValueError('no more data')
        if os.environ['RANK'] == '1': time.sleep(0.15)
        return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.late, self.fc1, self.fc2 = Late(), nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x): return self.fc2(self.fc1(self.late(x)).relu())   # nobody uses what is exchanged

def build(): return Net(), torch.rand(8, 64)
'''
PARAMETERS = 64*256 + 256 + 256*64 + 64
LINKS = dict(all_reduce=1e9, all_gather=1e9, reduce_scatter=1e9)
RUNS = {'tp': [], 'ddp': ['--train'], 'fsdp': ['--train', '--accumulate', '2']}
if not hasattr(torch.cpu.Stream, 'record_event'): del RUNS['fsdp']   # torch 2.6 has it on accelerators alone


def share(rank, folder, ports):
    """What each of the processes does."""
    for (plan, options), port in zip(RUNS.items(), ports):
        os.environ.update(RANK=f'{rank}', LOCAL_RANK=f'{rank}', WORLD_SIZE='2', MASTER_ADDR='localhost',
                          MASTER_PORT=f'{port}', TORCHELASTIC_USE_AGENT_STORE='True', TORCHELASTIC_RESTART_COUNT='0')
        peaks = folder/('machine.json' if plan == 'ddp' else 'linked.json')
        cli.main(['roofline', f'{folder}/net.py:build', '--parallel', plan, *options, '--device', 'cpu', '--peaks',
                  f'{peaks}', '--warmup', '3', '--steps', '4', '--out', f'{folder}/{plan}-{rank}.json'])
    os._exit(0)   # threads of gloo may end an interpreter that leaves by an abort


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('parallel')
    (folder/'net.py').write_text(NET)
    HardwarePeaks(1e11, 5e10).save(folder/'machine.json')
    HardwarePeaks(1e11, 5e10, links=LINKS).save(folder/'linked.json')
    return folder


@pytest.fixture(scope='module')
def results(folder):
    """Plan → the result that rank 0 has written."""
    # as torchrun has it: the stores listen before the processes start, or these look for them for long
    stores = [dist.TCPStore('localhost', 0, is_master=True, wait_for_workers=False) for _ in RUNS]
    processes = mp.spawn(share, (folder, [store.port for store in stores]), nprocs=2, join=False)
    try:
        end = time.monotonic() + 150
        while not processes.join(timeout=5): assert time.monotonic() < end, 'the processes stand still'
    finally:
        for process in processes.processes: process.kill()
    return {plan: Roofline.load(folder/f'{plan}-0.json') for plan in RUNS}


@pytest.mark.parametrize('plan', RUNS)
def test_all_ranks_add_up_and_rank_0_waits_for_rank_1(results, plan, folder):
    assert not (folder/f'{plan}-1.json').exists()   # only rank 0 prints and writes
    first, second = results[plan].by_rank
    for result in first, second:
        assert abs(sum(row.time_s or 0 for row in result) + result.totals.remainder_s - result.time_s) < 1e-9
        assert all(row.waiting_s <= row.time_s for row in result if row.waiting_s is not None)
    assert first.rows == results[plan].rows
    late = sum(row.waits_for.get(1, 0) for row in first)
    assert late > 0.03 and late > sum(row.waits_for.get(0, 0) for row in second)
    assert {'rank 0', 'rank 1'} <= {*results[plan].ranks().columns}


def test_the_link_is_the_roof_of_collectives(results):
    sent = {plan: {row.label: row for row in result if row.link_bytes} for plan, result in results.items()}
    row, = sent['tp'].values()
    assert (row.name, row.type, row.calls) == ('fc2.(all_reduce world)', 'all_reduce', 1)
    assert (row.bound, row.link_bytes, row.roof_time_s) == ('link', 8*64*4, 8*64*4/1e9)   # 2 · 1/2 of the output
    row, = sent['ddp'].values()
    assert (row.label, row.link_bytes) == ('(all_reduce world) (backward)', 4*PARAMETERS)
    links = results['ddp'].peaks.links   # measured, since the file has none
    assert links['all_reduce'] > 0 and row.roof_time_s == row.link_bytes/links['all_reduce']
    if 'fsdp' not in sent: return
    gathered = [row for row in sent['fsdp'].values() if row.type == 'all_gather']
    reduced = [row for row in sent['fsdp'].values() if row.type == 'reduce_scatter']
    assert sum(row.link_bytes for row in gathered) >= 4*PARAMETERS//2   # the other half of the parameters
    assert sum(row.link_bytes for row in reduced) == 2*4*PARAMETERS//2   # of two micro-batches
    assert not any(row.unknown for row in results['fsdp'])


def test_an_error_on_one_rank_ends_all(folder):
    command = [sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2',
               '-m', 'fasterbench.cli', 'roofline', f'{folder}/net.py:build', '--parallel', 'ddp',
               '--device', 'cpu', '--peaks', f'{folder}/linked.json', '--train']
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ, FAIL='1'))
    assert run.returncode != 0
    assert 'fasterbench: rank 1: error: no more data' in run.stderr


def test_one_process_is_not_enough(folder, monkeypatch, capsys):
    monkeypatch.setenv('WORLD_SIZE', '2')
    with pytest.raises(SystemExit): cli.main(['roofline', f'{folder}/net.py:build'])
    assert 'torchrun has started 2 processes: --parallel tp, ddp or fsdp' in capsys.readouterr().err


class Sums(torch.nn.Module):
    def forward(self, x):
        x = x + 1
        dist.all_reduce(x)
        return x


def test_collectives_have_waiting_in_turns_too():
    dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)
    try:
        a, b = (RooflineAnalyzer(Sums(), torch.ones(8), HardwarePeaks(1e11, 5e10)) for _ in range(2))
        comparison = a.compare_interleaved(b, steps=3)
    finally:
        dist.destroy_process_group()
    for result in comparison.a, comparison.b:
        row, = (row for row in result if row.type == 'all_reduce')
        assert (row.name, row.waiting_s, len(result.by_rank)) == ('(all_reduce world)', 0, 1)
