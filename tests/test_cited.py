"Figures of pages are those of results; results have one form, and say when and of what they are"
import json

import pytest
from cited import filled, lacking, needed, unheld
from evidence import folder, json_of, names, read, table, text_of, unmarked
from outputs import home

def test_pages_say_what_results_hold():
    found = '\n'.join(unheld())
    assert not found, f'{found}\npython scripts/cited.py fill'

script = '`benchmarks/checks/step_counts.py`'

@pytest.mark.parametrize('text, odd', [
    (f'{script} counts 4 models of 224 pixels.', 0), (f'{script} counts 5 models.', 1), ('5 models, without a benchmark.', 0),
    (f'{script} counts `float32` in `5` ways, in ResNet-50, of [one](page5.ipynb#5).', 0), (f'5 models.\n\n{script} counts 4.', 0),
    (f'| 4 models |\n|---|\n| 7 |\n\nThe column is {script}.', 1), (f'- 5 models\n- {script}: 4 models', 0),
    (f'{script}: <!--step_counts.models-->5<!--/--> models', 0), ('`benchmarks/no_such.py` found 5.', 1), ('`benchmarks/no_such.py` found some.', 0)])
def test_figures_that_no_result_holds_are_named(text, odd): assert len([*lacking(text)])==odd

def test_figures_are_written_between_marks():
    text = 'of <!--step_counts.models-->5<!--/--> and <!--published_counts.equal.fvcore:03d-->7<!--/--> (<!--step_counts.when-->?<!--/-->)'
    when = read('step_counts')['date']
    assert filled(text).startswith('of <!--step_counts.models-->4<!--/--> and <!--published_counts.equal.fvcore:03d-->007<!--/--> (')
    assert filled(filled(text))==filled(text) and unmarked(filled(text)).startswith(f'of 4 and 007 ({when}')
    with pytest.raises(KeyError): filled('<!--step_counts.no_such-->1<!--/-->')

keys = 'name what script arguments date fasterbench device threads versions figures parts rows'.split()

@pytest.mark.parametrize('name', names())
def test_results_have_one_form(name):
    r = read(name)
    assert {*r} - {'committed'}=={*keys} and r['name']==name
    assert (r['date'] is None)==('committed' in r) and (r['date'] is None)==(r['fasterbench']['version'] is None)
    assert r['versions']['torch'] and r['script'].startswith('benchmarks.')
    text = (folder/f'{name}.json').read_text(encoding='utf-8')
    assert json_of(r) + '\n'==text and not home.search(text)
    assert (folder/f'{name}.txt').read_text(encoding='utf-8')==text_of(r)

def test_each_result_has_its_files():
    stems = {p.stem for p in folder.iterdir() if not p.stem.startswith('on_gpu')}
    assert stems=={*names()} and {p.suffix for p in folder.iterdir()}=={'.json', '.txt'}

def test_rows_stand_on_lines():
    value = dict(a=1, rows=[[1, 'é'], [2, None]], parts=['x', table([dict(n=1, o=(1, 2))], 'keys', intfmt=',')])
    text = json_of(value)
    assert json.loads(text)==json.loads(json.dumps(value)) and '  [1, "é"],\n' in text
    assert value['parts'][1]==dict(headers=['n', 'o'], rows=[[1, '(1, 2)']], form=dict(intfmt=','))

def test_what_a_script_leads_to():
    files = needed('benchmarks.checks.step_counts')
    assert {'benchmarks/shared/models.py', 'fasterbench/costs.py', 'fasterbench/counting/rules.py'}<=files and 'fasterbench/cli.py' not in files
    assert 'benchmarks/checks/transformers_estimates.py' in needed('benchmarks.checks.vision_estimates')
