"""Runs a notebook in a process of its own, with what it exports taken from the package instead of defined again.

So what its other cells see is what people import: a name that a module lacks, because only a cell beside it has imported it,
is missed here as it would be missed there. The process is forked from one that has torch and what else takes long loaded already, and the package not.
"""
import ast, hashlib, json, os, pickle, shlex, signal, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from traceback import TracebackException

from nbdev.doclinks import patch_name
from nbdev.process import NBProcessor, Processor

import ranks
from examples import whole
from pages import made_and_used

top = Path(__file__).resolve().parent.parent
loaded_before = [*ranks.loaded_before, 'torchvision', 'numpy', 'torch._inductor.compile_fx', 'plotly.io._base_renderers', 'nbformat.v4',
    'transformers.models.auto.modeling_auto', 'transformers.models.gpt2.modeling_gpt2', 'transformers.models.llama.modeling_llama',
    'hypothesis', 'nbdev.process', 'execnb.shell', 'fastcore.test']

def notebooks():
    "The notebooks of this project, as nbdev finds them"
    return sorted(p for p in (top/'nbs').rglob('*.ipynb') if not any(o[0] in '._' for o in p.relative_to(top).parts))

def bound_names(source):
    "The names that a piece of code gives values to at its top level; what `@patch` puts into a class is none of them"
    methods = {o.name for o in ast.parse(source).body if isinstance(o, ast.FunctionDef) and '.' in patch_name(o)}
    return sorted(made_and_used(source)[0] - methods)

class FromPackage(Processor):
    "Puts an import of what an exported cell defines in that cell's place"
    def _default_exp_(self, cell, module): self.module = module
    def _export_(self, cell, module=None):
        names = ', '.join(bound_names(cell.source))
        cell.source = f'from fasterbench.{module or self.module} import {names}' if names else ''
    _exporti_ = _exports_ = _export_

def never_run(cell): return cell.cell_type!='code' or 'nbdev_export(' in cell.source

def length_run(path):
    "How many characters of code a run of a notebook has, which is about how long it takes beside others"
    cells = [c for c in json.loads(path.read_text(encoding='utf-8'))['cells'] if c['cell_type']=='code']
    return sum(len(s) for c in cells if '#| export' not in (s := ''.join(c['source'])))

def passed_over(cell):
    "Does this run leave the cell out? Those marked `#|nightly` run where all is checked"
    return never_run(cell) or ('nightly' in cell.directives_ and not whole())

def failure(e, shell, path):
    "Which cell failed, and how: the traceback begins in the cell"
    told = TracebackException.from_exception(e)
    at = next((i for i,o in enumerate(told.stack) if o.filename.startswith('<ipython-input')), 0)
    told.stack[:] = told.stack[at:]
    return f"{path.name}, cell {shell._cell_idx - 1}:\n{''.join(told.format())}"

def pace(usual=0.06): # usual: seconds of the work below on an EPYC of the fifth generation
    "How fast this processor is now, from the time of a piece of work; 1: as fast as the one that limits are for"
    begin = process_time()
    sum(i*i for i in range(2_000_000))
    return usual/(process_time() - begin)

def never_quiet():
    "From now on, in this process, nobody waits for the machine to become quiet: tests run side by side"
    from fasterbench.machine.peaks import measure_peaks
    measure_peaks.__kwdefaults__['wait'] = 0.

def peaks_shared(folder): # where the processes of one test run keep them
    "From now on, in this process, peaks are those that another process has measured with the same arguments, if one has"
    from fasterbench.machine import peaks
    measure = peaks._measured
    def measured(*args):
        file = Path(folder)/hashlib.sha256(repr(args).encode()).hexdigest()[:16]
        if file.exists(): return pickle.loads(file.read_bytes())
        res, own = measure(*args), file.with_suffix(f'.{os.getpid()}')
        own.write_bytes(pickle.dumps(res))
        own.replace(file)   # in one step, so that nobody reads half of it
        return res
    peaks._measured = measured

def beside_others(measured=False): # measured: is what others have measured not enough?
    "From now on this process knows that others run meanwhile"
    never_quiet()
    if 'PEAKS_SHARED' in os.environ and not measured: peaks_shared(os.environ['PEAKS_SHARED'])

def forked_commands(shell):
    "From now on, `!fasterbench` in a notebook is a process forked like its own; a shell's takes 4 s to load torch"
    by_shell = shell.system
    def system(line):
        name, *argv = shlex.split(line.replace('\\\n', ' '))
        if name!='fasterbench': return by_shell(line)
        code = f'from notebooks import beside_others; beside_others()\nfrom fasterbench.__main__ import main; main({argv!r})'
        ended, = ranks.ended_ranks(code, 1, joined=False)
        print(ended.stdout, end='')
        print(ended.stderr, end='', file=sys.stderr)
        if ended.returncode==2: raise RuntimeError(f'{line}: {ended.stderr[-2000:]}')   # not a limit's verdict: it failed
    shell.system = system

def ran(path, beside=False): # beside: do others run meanwhile, so that waiting for a quiet machine is in vain?
    """What each cell of a notebook shows in a run of all, and the processor's seconds that the run takes on the machine that
    limits are for; compilers and other processes are not in it, since they depend on what they have kept"""
    from execnb.shell import CaptureShell
    from nbdev.frontmatter import FrontmatterProc
    os.environ['IN_TEST'] = '1'   # as nbdev's own tests have it
    os.environ.pop('COLUMNS', None)   # tables are as wide as they are without a terminal
    signal.signal(signal.SIGINT, signal.default_int_handler)   # a job in the background was started without
    os.chdir(path.parent)
    if beside: beside_others(measured=path.parent.name=='machine')
    nb, shell = NBProcessor(path, procs=[FrontmatterProc, FromPackage], process=True).nb, CaptureShell(path)
    if beside: forked_commands(shell)
    for o in nb.cells: o.outputs = []   # a cell that shows nothing would keep what was saved
    try: shell.run_all(nb, exc_stop=True, preproc=passed_over)
    except BaseException as e: raise RuntimeError(failure(e, shell, path)) from None
    shown = json.loads(json.dumps([None if never_run(c) else c.outputs for c in nb.cells]))
    return shown, process_time()*pace()

def apart(f, *args, timeout=900):
    "What `f(*args)` returns in a process of its own, forked from one that has loaded what takes long to load"
    method = get_context('forkserver')
    method.set_forkserver_preload(loaded_before)
    with ProcessPoolExecutor(1, mp_context=method) as pool: return pool.submit(f, *args).result(timeout)
