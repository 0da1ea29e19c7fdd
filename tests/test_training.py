"""The callbacks in the trainers of transformers and Lightning, where these are installed."""
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _len_torch_dispatch_stack

from fasterbench import HardwarePeaks, lightning_callback, mfu_callback

PEAKS = HardwarePeaks(1e11, 5e10)


def is_as_before(model):
    return '_compiled_call_impl' not in vars(model) and not _len_torch_dispatch_stack()


# The Trainer of transformers

TOKENS, BATCH, LAYERS, WIDTH = 32, 4, 2, 32


def llama():
    transformers = pytest.importorskip('transformers')
    pytest.importorskip('accelerate')
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=64, hidden_size=WIDTH, intermediate_size=64, num_hidden_layers=LAYERS, num_attention_heads=2,
        max_position_embeddings=TOKENS))


def trainer(model, folder, callback, **options):
    import transformers
    options = dict(max_steps=6, logging_steps=3, per_device_train_batch_size=BATCH, report_to=[]) | options
    arguments = transformers.TrainingArguments(f'{folder}', use_cpu=True, disable_tqdm=True, save_strategy='no', **options)
    ids = torch.randint(64, (24, TOKENS))
    data = [dict(input_ids=row, labels=row) for row in ids]
    return transformers.Trainer(model, arguments, train_dataset=data, eval_dataset=data[:4], callbacks=[callback])


def by_hand(model, parts=1):
    """Model FLOPs of a step with attention dense and causal, and tokens."""
    weights = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear))
    tokens = parts*BATCH*TOKENS
    attention = 12*LAYERS*parts*BATCH*TOKENS**2*WIDTH
    causal = attention*(TOKENS + 1)//(2*TOKENS)   # 1, 2, … of all keys
    return 6*weights*tokens + attention, 6*weights*tokens + causal, tokens


@pytest.mark.parametrize('options, parts', [
    ({}, 1), (dict(gradient_accumulation_steps=2, eval_strategy='steps', eval_steps=2, logging_steps=1), 2),
    (dict(gradient_checkpointing=True), 1)])
def test_trainer(tmp_path, options, parts):
    model, callback = llama(), mfu_callback(PEAKS, every=1)
    run = trainer(model, tmp_path, callback, **options)
    run.train()
    dense, causal, tokens = by_hand(model, parts)
    work = callback.rates.work
    assert (work['flops'], work['causal_flops'], work['tokens']) == (dense, causal, tokens)
    assert (work['hardware_flops'] > 1.2*dense) == ('gradient_checkpointing' in options)
    logged = [entry for entry in run.state.log_history if 'mfu_dense_pct' in entry]
    assert logged and {'mfu_causal_pct', 'hfu_pct', 'tokens_per_s'} <= {*logged[-1]}
    assert is_as_before(model)


def test_an_error_in_the_models_call_leaves_nothing(tmp_path):
    model, callback = llama(), mfu_callback(PEAKS, every=1)
    run = trainer(model, tmp_path, callback)
    hook = model.lm_head.register_forward_hook(lambda *args: 1/0)
    with pytest.raises(ZeroDivisionError): run.train()
    assert is_as_before(model)
    hook.remove()
    run.train()
    assert callback.rates and is_as_before(model)


# Lightning

def lightning_run(folder, fails_at=None, **options):
    L = pytest.importorskip('lightning')

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))

        def training_step(self, batch, i):
            if i == fails_at: raise ValueError('no more data')
            return self.layers(batch[0]).square().mean()

        def validation_step(self, batch, i): self.layers(batch[0])
        def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.1)

    model, callback = Net(), lightning_callback(PEAKS)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(48, 32)), batch_size=8)
    run = L.Trainer(accelerator='cpu', max_epochs=2, log_every_n_steps=2, callbacks=[callback], logger=False,
                    default_root_dir=folder, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False, **options)
    return model, callback, run, data


@pytest.mark.parametrize('options', [{}, dict(accumulate_grad_batches=2)])
def test_lightning(tmp_path, options):
    model, callback, run, data = lightning_run(tmp_path, **options)
    run.fit(model, data, data)
    rates = callback.meter.rates   # of 2 batches; the first layer's input needs no gradient
    assert rates.work['flops'] == 2*2*8*(2*32*64 + 3*64*8)
    assert rates.work['samples'] == 16
    assert {'mfu_dense_pct', 'hfu_pct', 'samples_per_s'} <= {*run.logged_metrics}
    assert is_as_before(model)


@pytest.mark.parametrize('fails_at', [0, 3])   # in a counted step, and in another one
def test_an_error_in_lightning_leaves_nothing(tmp_path, fails_at):
    model, callback, run, data = lightning_run(tmp_path, fails_at)
    with pytest.raises(ValueError, match='no more data'): run.fit(model, data)
    assert is_as_before(model)
