"The table of bounds keeps to its schema, and the script that writes it names what it can't count"
import json

import jsonschema, pytest
from notebooks import top

folder = top/'nbs'/'data'
schema = json.loads((folder/'bounds.schema.json').read_text(encoding='utf-8'))

def check(table): jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(table)

@pytest.fixture(scope='module')
def table(): return json.loads((folder/'bounds.json').read_text(encoding='utf-8'))

def counted(table):
    "Work, dtype, counts and bounds of what was counted"
    for o in table['works']:
        for dtype in o.get('counts', ()): yield o['name'], dtype, o['counts'][dtype], o['bounds'][dtype]

def test_schema(table):
    check(table)
    assert len({o['name'] for o in table['works']})==len(table['works'])

@pytest.mark.parametrize('change', [
    lambda o: o.update(version=2), lambda o: o['works'][0].pop('counts'), lambda o: o['works'][0].update(error='why'),
    lambda o: o['works'][0]['counts']['float32'].update(flops=None), lambda o: o['works'][0]['bounds']['float32']['roof_s'].__setitem__(0, 0),
    lambda o: o['made'].update(date='today'), lambda o: o['devices'][0].update(byte_per_s='fast')])
def test_schema_refuses(table, change):
    "What is unknown or of another form is no table of bounds"
    other = json.loads(json.dumps(table))
    change(other)
    with pytest.raises(jsonschema.ValidationError): check(other)

def test_what_was_asked_for(table):
    "All of KernelBench's levels 1 to 3, 60 models and 20 devices"
    def of(kind): return [o for o in table['works'] if o['source'].startswith(kind)]
    assert [len(of(f'KernelBench level {i}')) for i in (1, 2, 3)]==[100, 100, 50]
    assert sum(map(len, map(of, ('torchvision', 'timm', 'transformers'))))==60
    assert len({o['name'] for o in table['devices']})==20
    assert (folder/'bounds.json').stat().st_size<3e6

def test_bounds_are_in_order(table):
    "What joins more takes less; each has a number for each device, and comes from counts"
    for name,dtype,c,b in counted(table):
        for k,each in b.items(): assert len(each)==len(table['devices']), (name, dtype, k)
        for one,rows,model in zip(b['roof_s'], b['fused_s'], b['joined_s']):
            known = [s for s in (model, rows, one) if s is not None]
            assert all(x<=1.00001*y for x,y in zip(known, known[1:])), (name, dtype, known)
        least = [o for o in (c['boundary_bytes'], c['fused_bytes'], c['bytes_moved']) if o is not None]
        assert least==sorted(least) and c['matmul_flops']<=c['flops'], (name, dtype, c)

def test_forecasts_say_what_they_rest_on(table):
    "A likely time is above its bound and in its interval, and has its evidence"
    for name,dtype,_,b in counted(table):
        for roof,low,s,high,by in zip(*(b[k] for k in 'roof_s likely_low_s likely_s likely_high_s likely_by'.split())):
            known = [o for o in (roof, low, s, high) if o is not None]
            assert all(x<=1.00001*y for x,y in zip(known, known[1:])) and table['evidence'][by], (name, dtype, known)

def test_model_joined_is_its_formula(table):
    "The bound of the model joined follows from counts and datasheet, as the schema says; in float16 some rows are in float32"
    for name,dtype,c,b in counted(table):
        for d,s in zip(table['devices'], b['joined_s']):
            if s is None: continue
            by_formula = max(c['flops']/d['flop_per_s'][dtype], c['boundary_bytes']/d['byte_per_s'])
            assert .99999<=s/by_formula<=(1.00001 if dtype=='float32' else 1.02), (name, d['name'])

problem = '''import torch
class Model(torch.nn.Module):
    def __init__(self, n): super().__init__(); self.layer = torch.nn.Linear(n, n)
    def forward(self, x): return self.layer(x).relu()
def get_inputs(): return [torch.rand(8, 16)]
def get_init_inputs(): return [16]
'''
problems = {'1_good': problem, '2_raises': problem + 'raise ValueError("not today")\n', '3_exits': problem + 'import sys; sys.exit(3)\n',
    '4_never_ends': problem + 'import time\nwhile True: time.sleep(1)\n', '5_by_values': problem.replace('.relu()', '.nonzero()'),
    '6_dies': problem + 'import os; os._exit(1)\n'}

def test_errors_are_named(script, tmp_path):
    "A problem that fails, ends its process or never ends leaves the others as they are, and no number"
    level = tmp_path/'KernelBench'/'level1'
    level.mkdir(parents=True)
    for name,text in problems.items(): (level/f'{name}.py').write_text(text)
    script('-W', 'ignore', '-m', 'benchmarks.atlas', tmp_path, '--only', 'KernelBench', '--limit', '10', '--out', tmp_path/'bounds.json')
    made = json.loads((tmp_path/'bounds.json').read_text())
    check(made)
    found = {o['name'].rpartition('/')[2]: o for o in made['works']}
    assert [*found]==[*problems]
    good = found.pop('1_good')
    assert good['counts']['float32'] == dict(flops=2*8*16*16 + 8*16, matmul_flops=2*8*16*16, bytes_moved=4*(8*16*4 + 16*16 + 16),
        fused_bytes=4*(8*16*4 + 16*16 + 16), boundary_bytes=4*(8*16*2 + 16*16 + 16), rows=2, operations=2)
    said = {k: o['error'] for k,o in found.items()}
    for name,part in {'2_raises': 'not today', '3_exits': 'SystemExit: 3', '4_never_ends': 'took more than 10 s', '5_by_values': 'depends on values',
        '6_dies': 'ended without a result'}.items(): assert part in said[name], said
