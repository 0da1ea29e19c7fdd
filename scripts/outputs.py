"""Does a notebook run, and are its saved outputs what its cells show?

Texts are compared as they are; of a figure its traces' names and its notes. What is measured differs from run to run:
a cell with the directive `#| measured` has to show the same kinds of outputs only.

    python scripts/outputs.py NOTEBOOK…
"""
import json, os, re, signal, sys
from itertools import groupby
from pathlib import Path

top = Path(__file__).resolve().parent.parent
figure = 'application/vnd.plotly.v1+json'

def kind_and_text(output):
    "What an output is, and what can be read of it"
    if output['output_type']=='stream': return output['name'], ''.join(output['text'])
    data = output.get('data', {})
    if figure in data:
        drawn = data[figure]
        notes = [o.get('text') for o in drawn['layout'].get('annotations', [])]
        notes += [o['label']['text'] for o in drawn['layout'].get('shapes', []) if 'label' in o]
        return figure, '\n'.join(map(str, [*(o.get('name') for o in drawn['data']), *notes]))
    kind = next((k for k in ('text/html', 'text/markdown', 'text/plain') if k in data), 'other')
    return kind, ''.join(data.get(kind, ''))

def shown(cell):
    "What a cell shows: kinds and texts, with what was printed piece by piece as one"
    some = [o for o in cell.get('outputs', []) if o.get('data') or o['output_type']=='stream' and o['name']!='stderr']
    found = [kind_and_text(o) for o in some]
    return [(kind, ''.join(text for _,text in group)) for kind,group in groupby(found, key=lambda o: o[0])]

def first_difference(old, new):
    "The first line in which two texts differ, in words"
    lines = zip([*old.split('\n'), '(no more)'], [*new.split('\n'), '(no more)'])
    was, now = next((a, b) for a,b in lines if a!=b)
    return f'saved: {was[:100]}\n       now:   {now[:100]}'

def stale(cell, saved, now):
    "How what a cell shows differs from what was saved, in words, or `None`"
    measured = re.search(r'(?m)^#\| *measured', ''.join(cell['source']))
    if measured and not (saved and now): return None   # it may have had nothing to say
    if [k for k,_ in saved]!=[k for k,_ in now]:
        return f"saved: {', '.join(k for k,_ in saved) or 'nothing'}; now: {', '.join(k for k,_ in now) or 'nothing'}"
    return None if measured else next((first_difference(a, b) for (_,a),(_,b) in zip(saved, now) if a!=b), None)

def run(path):
    "The notebook's cells after a run of all of them; `None` for those that are not run"
    from execnb.shell import CaptureShell
    from nbdev.frontmatter import FrontmatterProc
    from nbdev.process import NBProcessor
    sys.path.insert(0, str(top))
    os.environ['IN_TEST'] = '1'   # as nbdev's own tests have it
    signal.signal(signal.SIGINT, signal.default_int_handler)   # a job in the background was started without
    os.chdir(path.parent)
    nb, shell = NBProcessor(path, procs=FrontmatterProc, process=True).nb, CaptureShell(path)
    def skipped(cell): return cell.cell_type!='code' or 'nbdev_export(' in cell.source
    for o in nb.cells: o.outputs = []   # a cell that shows nothing would keep what was saved
    try: shell.run_all(nb, exc_stop=True, preproc=skipped)
    except BaseException as e: raise RuntimeError(shell.prettytb(fname=path)) from e
    return [None if skipped(c) else c for c in nb.cells]

def problem(path, any_output=False):
    "What is wrong with a notebook, in words, or `None`; its cells may show anything where that is not compared"
    path = Path(path).resolve()
    saved = json.loads(path.read_text())['cells']
    if any_output: return run(path) and None
    found = [(old, stale(old, shown(old), shown(new))) for old,new in zip(saved, run(path), strict=True) if new]
    said = [f'{"".join(old["source"]).strip()[:60]!r}\n       {odd}' for old,odd in found if odd]
    return 'saved outputs are not what these cells show:\n     ' + '\n     '.join(said) if said else None

if __name__=='__main__':
    found = {p: problem(p) for p in sys.argv[1:]}
    print(*(f"{p}: {o or 'as saved'}" for p,o in found.items()), sep='\n')
    sys.exit(any(found.values()))
