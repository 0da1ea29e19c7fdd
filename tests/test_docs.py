"""What is written for people and programs beside the notebooks names what there is."""
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn, randn

from fasterbench import HardwarePeaks, RooflineAnalyzer, cli, options

ROOT = Path(__file__).parent.parent
SKILL = (ROOT/'SKILL.md').read_text(encoding='utf-8')


@pytest.mark.parametrize('command', re.findall(r'`(fasterbench [^`]+)`', SKILL))
def test_commands_are_understood(command):
    cli.parser().parse_args(shlex.split(command)[1:])


def test_figures_of_answers_are_those_that_there_are():
    result = RooflineAnalyzer(nn.Linear(4, 4), randn(1, 4)).estimate(HardwarePeaks(1e11, 5e10))
    written = set(re.findall(r'`(\w+)`', SKILL[SKILL.index('`answer` holds'):SKILL.index('A row has its columns')]))
    assert written == {'answer', *options.answer_of(result), *options.changes(result.compare(result))}


def test_the_schema_is_printed():
    line, = re.findall(r'^python (-c ".*")$', SKILL, re.M)
    printed = subprocess.run([sys.executable, *shlex.split(line)], cwd=ROOT, capture_output=True, text=True)
    assert printed.returncode == 0, printed.stderr
    assert 'bytes_moved' in json.loads(printed.stdout)['$defs']['RooflinePoint']['properties']


def pages():
    return {path.relative_to(ROOT/'nbs').as_posix() for path in ROOT.glob('nbs/**/*.ipynb')}


def test_every_page_is_in_the_sidebar():
    listed = re.findall(r'[\w/]+\.ipynb', (ROOT/'nbs'/'sidebar.yml').read_text(encoding='utf-8'))
    assert sorted(listed) == sorted(pages())


def test_pages_for_programs_exist():
    text = (ROOT/'nbs'/'llms.txt').read_text(encoding='utf-8')
    named = re.findall(r'/fasterbench/(\w+/\w+)\.html\.md', text)
    assert {f'{page}.ipynb' for page in named} <= pages()


def test_every_option_is_on_the_page_of_commands():
    page = (ROOT/'nbs'/'tutorials'/'commands.ipynb').read_text(encoding='utf-8')
    for command, (groups, _) in cli.COMMANDS.items():
        shown = page.split(f'usage: fasterbench {command.__name__} ')[1].split('examples:')[0]
        names = [name for _, arguments in groups for words, _ in arguments for name in words]
        assert [name for name in names if name not in shown] == [], command.__name__


@pytest.mark.parametrize('page', sorted(pages()))
def test_outputs_name_no_path_of_a_machine(page):
    assert 'site-packages' not in (ROOT/'nbs'/page).read_text(encoding='utf-8')


@pytest.mark.parametrize('page', sorted(pages()))
def test_a_stream_is_one_output(page):
    """The site shows each output as a block of its own; nbclient joins them with `coalesce_streams`."""
    for cell in json.loads((ROOT/'nbs'/page).read_text(encoding='utf-8'))['cells']:
        names = [output.get('name', '') for output in cell.get('outputs', ())]
        assert [a for a, b in zip(names, names[1:]) if a and a == b] == []
