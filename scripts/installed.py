"""Is the package that is installed whole? Imports every module and runs commands, in a folder of their own.

Run outside of a checkout, with what `pip install` made and without what the tests need:

    cd /tmp && python …/scripts/installed.py
"""
import importlib, pkgutil, subprocess, sys, tempfile
from importlib.metadata import version
from pathlib import Path

commands = [   # arguments, files that they write
    ('--version', ()),
    ('estimate torch.nn:Softmax --input 8,64 --peaks H100-SXM --html s.html --out s.json --out s.csv', ('s.html', 's.json', 's.csv')),
    ('compare s.json s.json --out c.html', ('c.html',)),
    ('sweep torch.nn:ReLU --input 1024 --batch 1,2 --peaks T4 --paper --out r.csv', ('r.csv',)),
    ('roofline torch.nn:ReLU --input 64 --steps 2 --device cpu --peaks EPYC-9654 --html r.html', ('r.html',)),
    ('roofline torch.nn:Linear --help', ())]
names = 'torch numpy plotly fastcore tabulate tqdm psutil msgspec'.split()

def modules():
    "The names of all modules, each imported once"
    import fasterbench
    top, checkout = Path(fasterbench.__file__).resolve().parent, Path(__file__).resolve().parent.parent
    if top.parent==checkout: sys.exit(f'{top} is the checkout, not what is installed')
    found = [m.name for m in pkgutil.walk_packages([str(top)], 'fasterbench.') if m.name!='fasterbench.__main__']   # a program
    for o in found: importlib.import_module(o)
    return found

def ran(line, written, folder):
    "Did a command end well, and write what it was asked for?"
    run = subprocess.run([sys.executable, '-m', 'fasterbench', *line.split()], cwd=folder, capture_output=True, text=True)
    def there(o): return (Path(folder)/o).exists() and (Path(folder)/o).stat().st_size
    lacking = [o for o in written if not there(o)]
    print('FAIL' if run.returncode or lacking else 'ok  ', line, flush=True)
    if run.returncode or lacking: print(run.stdout[-2000:] + run.stderr[-2000:])
    return not (run.returncode or lacking)

def main():
    print(f'Python {sys.version.split()[0]}', *(f'{o} {version(o)}' for o in names), sep=', ')
    print(f'{len(modules())} modules')
    with tempfile.TemporaryDirectory() as d: good = [ran(line, written, d) for line,written in commands]
    sys.exit(not all(good))

if __name__=='__main__': main()
