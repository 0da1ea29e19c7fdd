__version__ = "0.1.0"
"How close a PyTorch model is to what the machine can do, layer by layer. Names load on first use."
from importlib import import_module

_home = dict(
    measure_peaks='machine.peaks', HardwarePeaks='machine.roof', clear_peaks_cache='machine.peaks', datasheet_peaks='machine.roof',
    RooflineAnalyzer='roofline', WithoutRoof='roofline', RooflinePoint='roofline', project='results', count_costs='costs', register_cost='costs',
    unregister_cost='costs',
    Roofline='results', Comparison='results', Sweep='roofline', Call='base.core', load_model='commands.models',
    roofline_analysis='operations', estimate_layer='counting.layers', estimate_language='language',
    sweep_batch='roofline', sweep_dtype='roofline', sweep_length='roofline', sweep_resolution='roofline', estimates='roofline',
    read_trace='sources.traced', read_operations='sources.listed', compare_interleaved='roofline', gate='records.gate',
    flops_verdict='records.gate', looked='records.gate',
    TrainingMeter='callbacks', mfu_callback='callbacks', lightning_callback='callbacks',
)
__all__ = list(_home)

def __getattr__(name):
    if name not in _home: raise AttributeError(f"module 'fasterbench' has no attribute {name!r}")
    documented = import_module('.base.docstrings', __name__).documented   # help() shows what stands beside parameters
    value = globals()[name] = documented(getattr(import_module(f'.{_home[name]}', __name__), name))
    return value

def __dir__(): return sorted({*globals(), *__all__})
