"""How many examples does a check see? All of them in the nightly run, a sample in every other, so that a change waits for seconds.

    from scripts.examples import examples
    @examples(700)            # 700 of them in `python scripts/test.py --all`, 50 elsewhere
    @given(st.integers())     # of hypothesis; the draws are the same each time
    def _(i): assert i + 1 > i
"""
import os

def whole()->bool: return os.environ.get('FASTERBENCH_ALL')=='1' # is all to be checked, or a sample?

def examples(
    n:int, # examples, where all are checked
    sample:int=50, # at most so many, where a sample is
    **more # other settings of hypothesis
): # a decorator of a property
    "Settings of a check: `n` examples or a sample of them; one that fails is printed with the line that draws it again"
    from hypothesis import HealthCheck, settings
    return settings(max_examples=n if whole() else min(n, sample), deadline=None, derandomize=True, database=None,
        print_blob=True, suppress_health_check=list(HealthCheck), **more)
