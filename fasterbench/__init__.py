"""How close is each layer of a PyTorch model to what the machine can do?

Names are imported when they are first used, so that `fasterbench --help` does not wait for torch.
"""
__version__ = "0.1.0"

from importlib import import_module

MODULES = {   # module → the names in it that users import from here
    'roofline': 'HardwarePeaks Roofline RooflineAnalyzer RooflinePoint clear_peaks_cache '
                'compare_interleaved measure_peaks',
    'costs': 'count_costs count_step register_cost unregister_cost',
    'models': 'load_model',
    'training': 'TrainingMeter lightning_callback mfu_callback',
    'ncu': 'SOLAnalyzer SOLConfig read_ncu',
    'operations': 'read_operations roofline_analysis',
    'results.compare': 'Comparison',
    'results.gate': 'gate',
    'language': 'estimate_language estimate_training',
    'results.sweep': 'Sweep',
    'sources.functions': 'estimate_layer least_time profile_operations',
    'sources.traced': 'read_trace',
    'sweeps': 'estimates sweep sweep_batch sweep_dtype sweep_length sweep_resolution'}
HOME = {name: module for module, names in MODULES.items() for name in names.split()}
__all__ = [*HOME]


def __getattr__(name):
    if name not in HOME: raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(import_module(f'.{HOME[name]}', __name__), name)


def __dir__():
    return [*globals(), *__all__]
