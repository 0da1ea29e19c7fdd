"""Do the two ways to count a language model agree, by its matrices and by its operations?"""
import pytest

pytest.importorskip('transformers')

from fasterbench.machine.datasheets import find_datasheet
from fasterbench.machine.mesh import Mesh
from fasterbench.running.fake import NeedsData
from fasterbench.sources.architecture import read_model
from fasterbench.sources.eager import eager_least_s, eager_rows
from fasterbench.sources.ranks import Rank, StepPlan, training_pass

FUSED = '''llama mistral qwen2 qwen3 gpt2 gpt_neox gptj opt phi phi3 gemma glm glm4 cohere granite
starcoder2 stablelm codegen olmo2 qwen3_moe mixtral'''.split()
WRITTEN_OUT = 'bloom falcon mpt gemma2 gpt_oss'.split()   # attention that its mask does not shorten
H100 = find_datasheet('H100-SXM')


def both_ways(kind: str) -> tuple[float, float, bool, float, float]:
    """FLOPs of products by operations and by matrices, is attention fused, and both least times."""
    model = read_model(dict(model_type=kind))
    tokens = min(512, model.longest or 512)
    rank, plan = Rank(model, Mesh(), 'bfloat16'), StepPlan(1, tokens)
    step = training_pass(rank, H100, None, plan, {})
    try: rows = eager_rows(model, 1, tokens, 'bfloat16', True)
    except NeedsData as e: pytest.skip(f'in this version {e}')
    counted = sum((row.matmul_flops - row.masked - row.masked_again)*(n or 1) for row, n in rows)
    is_fused = any(row.masked for row, _ in rows)
    return counted, step.matmul_flops, is_fused, eager_least_s(rank, plan, H100), step.roof_time_s


@pytest.mark.parametrize('kind', FUSED)
def test_products_agree_and_eager_takes_longer(kind):
    counted, of_rank, is_fused, eager_s, least_s = both_ways(kind)
    if is_fused: assert counted == pytest.approx(of_rank, rel=1e-5)
    else: assert 1 < counted/of_rank < 1.1   # some versions write attention out
    assert eager_s > least_s


@pytest.mark.parametrize('kind', WRITTEN_OUT)
def test_attention_written_out_takes_more_products(kind):
    counted, of_rank, _, eager_s, least_s = both_ways(kind)
    assert 1 <= counted/of_rank < 1.1
    assert eager_s > least_s


def test_most_attention_is_fused():
    assert sum(both_ways(kind)[2] for kind in ('llama', 'mistral', 'qwen2', 'gpt2')) == 4


def test_masks_of_long_sequences_take_no_memory():
    model = read_model(dict(model_type='gemma3_text', num_hidden_layers=6))
    rows = eager_rows(model, 1, 2**18, 'bfloat16', True)   # a mask has 2³⁶ elements
    assert sum(row.matmul_flops for row, _ in rows) > 0
