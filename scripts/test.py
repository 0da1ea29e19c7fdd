"""Run every check of this repository: the notebooks with their heavier cells, and that nothing generated is out of step.

Each notebook runs in a process of its own, one after the other, so that none disturbs another's timings; those that time
nothing run two at a time, at the end. Ends with a line that counts what ran.

    python scripts/test.py [--only GLOB] [--any_output]
"""
import ast, fnmatch, json, os, re, shutil, subprocess, sys, tempfile, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from fastcore.script import call_parse, store_true
from form import notebooks, too_long
from outputs import problem

top = Path(__file__).resolve().parent.parent
order = 'core ranks collectives shards rendezvous graphs regions nodes settings paper_ranks twin snapshot paper state system step timing traffic registry elementwise formulas matrices products quantized updates gradients gradient_losses gradient_products rules boundary places costs phases footprint connections datasheets kernels arithmetic memory probes consistency links link_probes roof layouts peaks operations recheck rows results utilization columns tables report projection marks labels chart bars sheets roofs plot page display beside across files matching compare differences arrows swept crossings exchanges waiting observe compiled inductor samples exported packages alone distributed roofline compiled_kernels training compiled_steps paper_steps plans mesh_steps sweep trends architectures language parallel meshes ncu_files ncu saved models launch options recipe several show cli __main__ reference'.split()

def check_notebook(path, any_output=False):
    "A notebook runs to its end, with the cells flagged `notest` too, and shows what is saved in it"
    with ProcessPoolExecutor(1, mp_context=get_context('spawn')) as pool: return pool.submit(problem, path, any_output).result()

def copy_tree(folder):
    "A copy of this tree in `folder`, without what is made or installed"
    ignore = shutil.ignore_patterns('.git', '.venv', '*.egg-info', '__pycache__', 'build', '_proc', '_docs', '_site')
    return Path(shutil.copytree(top, Path(folder)/top.name, symlinks=True, ignore=ignore))

def environ(copy): return dict(os.environ, PATH=f'{Path(sys.executable).parent}{os.pathsep}{os.environ["PATH"]}', PYTHONPATH=str(copy))

def out_of_step(*command):
    "The files that `command` changes in a copy of this tree"
    with tempfile.TemporaryDirectory() as d:
        copy = copy_tree(d)
        def state(): return {p.relative_to(copy): p.read_bytes() for p in copy.rglob('*') if p.is_file() and '__pycache__' not in p.parts}
        before = state()
        subprocess.run(command, cwd=copy, env=environ(copy), check=True)
        after = state()
    changed = sorted(str(k) for k in before.keys()|after.keys() if before.get(k)!=after.get(k))
    return f"changes {', '.join(changed)}" if changed else None

def fresh(code):
    "What `code` prints in a new process"
    return subprocess.run([sys.executable, '-c', code], cwd=top, check=True, capture_output=True, text=True).stdout.strip()

def light_import():
    "`import fasterbench` loads neither torch nor plotly, and the arithmetic needs no torch"
    loaded = fresh("import sys, fasterbench, fasterbench.operations; print([m for m in ('torch','plotly') if m in sys.modules])")
    if loaded!='[]': return f'importing fasterbench loads {loaded}'
    drawn = fresh("import sys, fasterbench.roofline, fasterbench.plot; print('plotly' in sys.modules)")
    return None if drawn=='False' else 'plotly is loaded before a plot is drawn'

def one_way_imports():
    "At the top level of a module, only the modules before it are imported"
    for i,name in enumerate(order):
        path = top/'fasterbench'/f'{name}.py'
        if not path.exists(): continue
        own = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ImportFrom) and n.level==1]
        uses = {n.module.split('.')[-1] for n in own if n.module} | {o.name for n in own if not n.module for o in n.names if o.name in order}
        back = uses - set(order[:i])
        if back: return f"{name} imports {', '.join(sorted(back))}, which comes after it"

def pages():
    "nbdev can make every page, and each link between them leads somewhere"
    from docs import dead_links
    code = 'from nbdev.serve import proc_nbs; proc_nbs()'
    with tempfile.TemporaryDirectory() as d:
        copy = copy_tree(d)
        run = subprocess.run([sys.executable, '-c', code], cwd=copy, env=environ(copy), capture_output=True, text=True)
        made = [p for p in notebooks() if (copy/'_proc'/p.relative_to(top/'nbs')).exists()]
        dead = [] if run.returncode else [*dead_links(copy/'_proc')]
    if run.returncode: return run.stderr[:3000]   # a worker's own error comes first
    if len(made)<len(notebooks()): return f"only {len(made)} of {len(notebooks())} pages were made"
    return '\n     '.join(dead) or None

def clean_outputs():
    "No saved output holds a path of somebody's machine, where an object is in memory, or an error"
    home = re.compile(r'/(root|home|work|tmp|Users)/[\w.+-]+')
    for p in notebooks():
        outputs = [o for c in json.loads(p.read_text())['cells'] for o in c.get('outputs', [])]
        if m := home.search(json.dumps(outputs)): return f'{p.name}: an output holds {m.group()}'
        if m := re.search(r'<(function|bound method) | at 0x[0-9a-f]{6}', json.dumps(outputs)): return f'{p.name}: an output shows an object: {m.group()}'
        if any(o['output_type']=='error' for o in outputs): return f'{p.name}: an output is an error'

def short_lines():
    "What is exported stays within the line, and a cell within the eye"
    found = [o for p in notebooks() for o in too_long(p)]
    return '\n     '.join(found) or None

def small_gpu_run():
    "What is there for a GPU runs on a CPU too, on tiny models"
    with tempfile.TemporaryDirectory() as d:
        run = subprocess.run([sys.executable, 'benchmarks/on_gpu.py', '--small', '--device', 'cpu', '--out', f'{d}/on_cpu'], cwd=top, capture_output=True, text=True)
        made = sorted(p.name for p in Path(d).iterdir())
    if run.returncode: return run.stdout[-3000:] + run.stderr[-2000:]
    return None if made==['on_cpu.json', 'on_cpu.txt'] else f'it wrote {made}'

def small_attack():
    "A sample of the attack on what is put back finds no difference"
    run = subprocess.run([sys.executable, '-W', 'ignore', 'benchmarks/attack.py', '--sample', '15', '--verbose'], cwd=top, capture_output=True, text=True)
    return run.stdout[-4000:] + run.stderr[-2000:] if run.returncode else None

def register_kernels():
    "The kernels in C that ceilings are held against compile without a warning, and give the right answers"
    if shutil.which('gcc') is None: return print('     there is no gcc here: benchmarks/fma.c was not compiled')
    with tempfile.TemporaryDirectory() as d:
        built = subprocess.run(['gcc', '-O3', '-Wall', '-Werror', '-march=native', '-fopenmp', 'benchmarks/fma.c', '-o', f'{d}/fma'], cwd=top, capture_output=True, text=True)
        if built.returncode: return built.stderr
        run = subprocess.run([f'{d}/fma', '0.01'], capture_output=True, text=True)
    return None if run.returncode==0 and 'float32' in run.stdout else run.stdout + run.stderr

checks = {
    'modules are what the notebooks export': lambda: out_of_step('nbdev_export'),
    'notebooks are clean':                   lambda: out_of_step('nbdev_clean'),
    'README is what index.ipynb renders to': lambda: out_of_step(sys.executable, 'scripts/readme.py'),
    'pages can be made': pages,
    'importing stays light': light_import, 'imports run one way': one_way_imports, 'outputs are clean': clean_outputs,
    'lines and cells are short': short_lines,
    'a sample of the attack leaves nothing behind': small_attack,
    'what is there for a GPU runs small on a CPU': small_gpu_run, 'multiply-adds in C are right': register_kernels,
}

beside = [f'nbs/{o}' for o in 'checks/ counting/ core/ results/ visualization/ explanations/ analysis/paper_steps analysis/language \
    analysis/meshes analysis/mesh_steps analysis/parallel analysis/architectures analysis/layouts tutorials/hardware tutorials/language_models'.split()]
beside += ['a sample of the attack', 'what is there for a GPU']

def times_nothing(name): return name.startswith(tuple(beside))

def attempt(name, f):
    "Was it in order? Says so"
    start = time.time()
    try: wrong = f()
    except Exception as e: wrong = f'{type(e).__name__}: {e}'
    print(f"{'FAIL' if wrong else 'ok':4} {name} ({time.time()-start:.0f} s)" + (f'\n     {wrong}' if wrong else ''), flush=True)
    return wrong is None

def attempts_beside(todo):
    "Two at a time, with one thread each"
    before = os.environ.get('OMP_NUM_THREADS')
    os.environ['OMP_NUM_THREADS'] = '1'
    try:
        with ThreadPoolExecutor(2) as pool: return [*pool.map(lambda o: attempt(*o), todo.items())]
    finally:
        if before is None: del os.environ['OMP_NUM_THREADS']
        else: os.environ['OMP_NUM_THREADS'] = before

@call_parse
def main(
    only:str='*', # run only the notebooks and checks whose name matches
    any_output:store_true=False, # run notebooks without comparing what they show: other versions have other operations
):
    "Run the notebooks and the checks"
    todo = {**checks, **{str(p.relative_to(top)): (lambda p=p: check_notebook(str(p), any_output)) for p in notebooks()}}
    todo = {k:f for k,f in todo.items() if fnmatch.fnmatch(k, f'*{only}*')}
    good = [attempt(k, f) for k,f in todo.items() if not times_nothing(k)]
    good += attempts_beside({k:f for k,f in todo.items() if times_nothing(k)})
    print(f'{sum(good)} passed, {len(good)-sum(good)} failed')
    sys.exit(not (good and all(good)))
