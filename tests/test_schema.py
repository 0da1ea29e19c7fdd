"Every kind of file that is written keeps to the schema that the package has"
import json, warnings

import jsonschema, pytest
from notebooks import apart, top

schema = json.loads((top/'fasterbench'/'data'/'files.schema.json').read_text(encoding='utf-8'))
checked = jsonschema.Draft202012Validator(schema)

code = """import torch
from torch import nn
from fasterbench import HardwarePeaks, RooflineAnalyzer, datasheet_peaks, estimate_language, measure_peaks, project, read_trace, sweep_batch
from fasterbench.ncu import kernel_rows, read_ncu
from fasterbench.results import Roofline
net, x = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8)), torch.rand(4, 64)
paper = HardwarePeaks(1e12, 1e11, device_name='a machine')
def net_of(peaks): return RooflineAnalyzer(net, x, peaks)
loss = torch.sum
config = dict(architectures=['LlamaForCausalLM'], model_type='llama', hidden_size=64, intermediate_size=128, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, vocab_size=100, max_position_embeddings=64)
e = estimate_language(config, 'H100-SXM', context=40)
r, steps = net_of(paper).profile(warmup=0, steps=3), RooflineAnalyzer(net, x, paper)
joined = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
joined.compile()
files = dict(profile=r, isolated=net_of(paper).profile(warmup=0, steps=2, isolate=True), estimate=net_of(paper).estimate(),
    step=steps.profile_step(loss=loss, optimizer=torch.optim.SGD(net.parameters()), warmup=0, steps=2), step_estimate=steps.estimate_step(loss=loss),
    grouped=r.by('type'), empty=Roofline([]), projection=project(r, 'H100-SXM'), prefill=e.prefill.rows, decode=e.decode.rows,
    forecast=net_of(datasheet_peaks('H100-SXM')).estimate().forecast(),
    kernels=RooflineAnalyzer(joined, x, paper).profile(warmup=0, steps=2, kernels=True),
    datasheet=datasheet_peaks('H100-SXM'), paper=paper, peaks=measure_peaks('cpu', matmul_size=64, bandwidth_mb=1, warmup=0, steps=1),
    sweep=sweep_batch(net, x, [1, 2], peaks=paper, on_paper=True), comparison=r.compare(net_of(paper).estimate()),
    ranks=Roofline(r, r.kind, r.peaks, r.totals, r.about, ranks=[r, r]),
    trace=read_trace(data/'h100_bert_small.json.gz'), compiled_trace=read_trace(data/'mi300x_compiled_triton.json.gz', 'MI300X'))
files['ranks'].ranks = files['ranks'], r
for k,o in files.items(): o.save(f'{folder}/{k}.json')
"""
kinds = '''profile isolated estimate step step_estimate grouped empty projection prefill decode forecast kernels datasheet paper peaks sweep
    comparison ranks trace compiled_trace'''.split()

def write(folder):
    warnings.simplefilter('ignore')
    exec(code, dict(folder=folder, data=top/'nbs'/'data'))

@pytest.fixture(scope='module')
def written(tmp_path_factory):
    "The folder of a file of each kind"
    folder = tmp_path_factory.mktemp('kinds')
    apart(write, folder)
    assert {p.stem for p in folder.iterdir()}=={*kinds}
    return folder

def held(path): return json.loads(path.read_text(encoding='utf-8'))

@pytest.mark.parametrize('kind', kinds)
def test_files(kind, written): checked.validate(held(written/f'{kind}.json'))

def test_shipped_file(): checked.validate(held(top/'fasterbench'/'data'/'efficiency.json'))

def test_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(schema)
    named = {o['$ref'] for o in json_objects(schema) if '$ref' in o}
    assert named <= {f'#/$defs/{k}' for k in schema['$defs']}

def json_objects(o):
    if isinstance(o, dict): yield o
    for v in o.values() if isinstance(o, dict) else o if isinstance(o, list) else (): yield from json_objects(v)

def test_each_field_says_what_it_holds():
    "A reader of one's own leads to a type, or the annotation says beside it what stands in JSON"
    silent = [f'{name}.{k}' for name,of in schema['$defs'].items() for k,o in of['properties'].items() if not {*o} - {'description'}]
    assert not silent, silent

def test_numbers_have_words():
    "What a field means stands beside it"
    for name in ('RooflinePoint', 'Totals', 'peaks', 'Link', 'MemoryLevel', 'Footprint', 'roofline', 'sweep', 'comparison'):
        said = schema['$defs'][name]['properties']
        assert all('description' in o for k,o in said.items() if k not in ('format', 'version')), name

@pytest.mark.parametrize('change', [lambda o: o.update(version=9), lambda o: o.pop('rows'), lambda o: o['rows'][0].update(flops='many'),
    lambda o: o['rows'][0].update(bound='colour'), lambda o: o['totals'].update(seconds=1), lambda o: o['rows'][0].update(calls=None),
    lambda o: o['peaks'].update(peak_flops=0), lambda o: o.update(format='fasterbench colours'), lambda o: o['rows'][0].pop('name')])
def test_others_are_refused(change, written):
    o = held(written/'profile.json')
    change(o)
    with pytest.raises(jsonschema.ValidationError): checked.validate(o)
