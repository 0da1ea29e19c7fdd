"""The fixture as pytest gives it to a test."""
import os
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

pytest_plugins = 'pytester'
ROOT = Path(__file__).parent.parent
TESTS = '''
import pytest
import torch
from torch import nn
from fasterbench import HardwarePeaks, RooflineAnalyzer

sample, peaks = torch.rand(8, 16), HardwarePeaks(1e11, 5e10)


def net(width): return nn.Sequential(nn.Linear(16, width), nn.ReLU())


@pytest.fixture(scope='module')
def before(tmp_path_factory):
    path = tmp_path_factory.mktemp('results')/'before.json'
    RooflineAnalyzer(net(16), sample, peaks).profile(steps=3).save(path)
    return path


def test_equal(roofline): roofline.assert_no_more_flops(net(16), sample, net(16))
def test_more(roofline): roofline.assert_no_more_flops(net(17), sample, net(16))
def test_few_more(roofline): roofline.assert_no_more_flops(net(17), sample, net(16), percent=10)
def test_file(roofline, before): roofline.assert_no_more_flops(net(15), sample, before)
def test_open(roofline, before): roofline.assert_no_slower(net(16), sample, before, steps=3)
def test_fail(roofline, before):
    roofline.assert_no_slower(net(16), sample, before, steps=3, if_open='fail')
'''


@pytest.fixture
def run(pytester, monkeypatch):
    """A function that runs tests in a process of their own, with this plugin alone."""
    monkeypatch.setenv('PYTHONPATH', os.pathsep.join([str(ROOT), *sys.path]))
    monkeypatch.setenv('PYTEST_DISABLE_PLUGIN_AUTOLOAD', '1')

    def run_tests(text):
        pytester.makepyfile(text)
        return pytester.runpytest_subprocess('-p', 'fasterbench.pytest_plugin', '-rs')
    return run_tests


def test_assertions_pass_fail_and_skip(run):
    done = run(TESTS)
    done.assert_outcomes(passed=3, failed=2, skipped=1)
    done.stdout.fnmatch_lines(['*worse: FLOPs * limit 1×*', '*open: time: too few samples*'])


def test_fixture_comes_without_torch(run):
    done = run("import sys\ndef test_it(roofline): assert 'torch' not in sys.modules")
    done.assert_outcomes(passed=1)


def test_setup_names_the_plugin():
    settings = ConfigParser(delimiters=['='])
    settings.read(ROOT/'settings.ini', encoding='utf-8')
    assert settings['DEFAULT']['pytest11'] == 'fasterbench=fasterbench.pytest_plugin'
    assert "'pytest11': settings['pytest11'].split()" in (ROOT/'setup.py').read_text()
