"Saved outputs belong to their cells, and hold nothing of a machine"
import pytest
from notebooks import notebooks, top
from outputs import key, problems, sources, stamp

@pytest.mark.parametrize('path', notebooks(), ids=lambda p: p.relative_to(top/'nbs').as_posix())
def test_outputs(path):
    found = '\n'.join(problems(path))
    assert not found, f'{found}\npython scripts/outputs.py --refresh {path.stem}'

def cells(*texts):
    from execnb.nbio import mk_cell
    return [mk_cell(o) for o in texts]

def test_a_stamp_follows_what_a_cell_depends_on():
    first = cells('a = 1', 'b = 2', 'def f(): return a', 'print(f())')
    assert sources(first)[-1]=='a = 1\ndef f(): return a\nprint(f())'
    assert sources(cells('a = []', 'b = 2', 'a.append(1)', 'a'))[-1]=='a = []\na.append(1)\na'
    assert sources(cells('%env COLUMNS=120', 'n = 1', '%%ranks 2\nprint(n)'))[-1]=='%%ranks 2\nprint(n)'

def test_a_changed_source_or_output_is_seen():
    shown = [dict(output_type='stream', name='stdout', text=['1'])]
    assert len({stamp('a', shown), stamp('b', shown), stamp('a', []), stamp('a', [dict(shown[0], text=['2'])])})==4
