"""What does an estimate of a language model take, and how does that grow with its layers?

Prefill and decode of Llamas as wide as the one of 70 billion parameters, each in a process of its own: seconds of the
first `estimate_language`, which imports transformers, and of a second one, and the process's peak memory. Prints a table and
writes it, with the device and the versions, to benchmarks/results/estimate_cost.txt.

    python benchmarks/estimate_cost.py [--layers 20,40,80,160]
"""
import json, resource, subprocess, sys, time

from fastcore.script import call_parse
from tabulate import tabulate

from report import write_result

shape = dict(model_type='llama', hidden_size=8192, intermediate_size=28672, num_attention_heads=64, num_key_value_heads=8, vocab_size=128256)

def one(layers):
    "Estimate a model of so many layers, here; seconds, bytes and parameters"
    from fasterbench.language import estimate_language
    from fasterbench.peaks import datasheet_peaks
    peaks, seconds = datasheet_peaks('H100-SXM', dtype='bfloat16'), []
    for _ in range(2):
        start = time.perf_counter()
        e = estimate_language(dict(shape, num_hidden_layers=layers), peaks, context=4096)
        seconds.append(time.perf_counter()-start)
    return dict(seconds=seconds, memory=1024*resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, params=e.params, rows=len(e.decode.rows))

def line(layers):
    done = subprocess.run([sys.executable, __file__, '--alone', str(layers)], capture_output=True, text=True, check=True)
    r = json.loads(done.stdout.splitlines()[-1])
    return [layers, f"{r['params']/1e9:.1f}", r['rows'], *(f'{s:.2f}' for s in r['seconds']), f"{r['memory']/1e9:.2f}"]

@call_parse
def main(
    layers:str='20,40,80,160', # of the models
    alone:int=0, # only this many layers, in this process
):
    "Measure what estimates take"
    if alone: return print(json.dumps(one(alone)))
    table = tabulate([line(int(n)) for n in layers.split(',')], headers=['layers', '10⁹\nparameters', 'rows', 'first estimate,\nwith imports, s', 'second\ns', 'peak memory\nGB'], disable_numparse=True, stralign='right')
    write_result('estimate_cost', 'prefill of 4096 tokens and a step of decoding with as many in the cache, bfloat16', table, 'transformers')
