"""The JSON Schema of the files that the package writes: fasterbench/data/files.schema.json, made from the fields of the classes
that they hold, with the comments of these as descriptions.

    python scripts/schema.py
"""
import ast, json
from collections import Counter
from inspect import getsource
from pathlib import Path
from textwrap import dedent
from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from fasterbench.base.codec import needed_fields, typed_fields, ways
from fasterbench.machine.efficiency import Efficiency, SavedEfficiency
from fasterbench.machine.roof import HardwarePeaks
from fasterbench.records.compare import Comparison, SavedComparison
from fasterbench.records.swept import SavedSweep, Sweep
from fasterbench.results import RanksResult, Roofline
from nbdev.config import get_config
from pages import comment

top = Path(__file__).resolve().parent.parent
cfg = get_config(path=top)
path = top/cfg.lib_path/'data'/'files.schema.json'
saved = {Roofline: (RanksResult, 3), HardwarePeaks: (HardwarePeaks, 2), Sweep: (SavedSweep, 1), Comparison: (SavedComparison, 1),
    Efficiency: (SavedEfficiency, 1)}   # class → what a file has of it, and the version of that
simple = {str: dict(type='string'), bool: dict(type='boolean'), float: dict(type='number'), int: dict(type='integer'), object: {},
    list: dict(type='array'), dict: dict(type='object')}

def at(name): return {'$ref': f'#/$defs/{name.removeprefix("fasterbench ")}'}

def by_key(of, key, value):
    "An object with any keys of a type"
    keys = dict(pattern='^[0-9]+$') if key is int else {k: v for k,v in of(key).items() if k=='enum'}
    return dict(type='object', additionalProperties=of(value)) | (dict(propertyNames=keys) if keys else {})

def fixed(of, *types):
    "A list whose places have types of their own, or any number of one type"
    if types[1:]==(...,): return dict(type='array', items=of(types[0]))
    return dict(type='array', prefixItems=[*map(of, types)], minItems=len(types), maxItems=len(types))

def either(of, *types):
    "One of several; nothing is `null`"
    found = [dict(type='null') if t is type(None) else of(t) for t in types]
    plain = [o['type'] for o in found if [*o]==['type']]
    return dict(type=plain) if len(plain)==len(found) else dict(anyOf=found)

generic = {Annotated: lambda of, t, read, *said: of(said[0] if said else t), list: lambda of, t: dict(type='array', items=of(t)),
    tuple: fixed, dict: by_key, Counter: lambda of, t: by_key(of, t, int), Union: either, UnionType: either,
    Literal: lambda of, *known: dict(enum=[*known])}

def said_of(source, node):
    "The comment behind a field, or on the line before it"
    before = source.splitlines()[node.lineno-2].strip()
    return (comment(source, node) or before*before.startswith('#')).strip(' #').replace('`None`', '`null`')

def words(cls): # field → its comment
    said = {}
    for c in (o for o in reversed(cls.__mro__) if o.__module__.startswith(f'{cfg.lib_path.name}.')):
        source = dedent(getsource(c))
        said |= {n.target.id: said_of(source, n) for n in ast.parse(source).body[0].body if isinstance(n, ast.AnnAssign)}
    return {k: text for k,text in said.items() if text}

def schema_of(t, defs):
    "What JSON Schema says of a type; classes are put into `defs`, by their names"
    def of(t): return schema_of(t, defs)
    if isinstance(t, str): return json.loads(t) if t[0]=='{' else at(t)   # said already; a file of its own
    if t in simple: return simple[t]
    if t in ways: return of(ways[t].json)
    if origin := get_origin(t): return generic[origin](of, *get_args(t))
    if t.__name__ not in defs: defs[t.__name__] = {}; defs[t.__name__] |= fields_of(t, defs)
    return at(t.__name__)

def fields_of(cls, defs):
    "What JSON Schema says of an object with the fields of a class"
    said, types = words(cls), typed_fields(cls)
    props = {k: schema_of(t, defs) | (dict(description=said[k]) if k in said else {}) for k,t in types.items()}
    return dict(description=cls.__doc__, type='object', required=needed_fields(cls), additionalProperties=False, properties=props)

def made():
    "The schema of all files"
    defs, whens = {}, []
    for cls,(kept,version) in saved.items():
        own, head = fields_of(kept, defs), dict(format=dict(const=cls.format), version=dict(const=version))
        defs[cls.format.removeprefix('fasterbench ')] = own | dict(required=[*head, *own['required']], properties=head | own['properties'])
        whens.append({'if': dict(properties=dict(format=dict(const=cls.format))), 'then': at(cls.format)})
    about = ('Numbers are in SI base units: FLOP, bytes, seconds, and percent where a name ends in _pct. null is what is not known; '
        'nothing unknown is written as a number. A fused multiply-add is two FLOP. The version of a format changes '
        'when what a field means changes; fields may be added without.')
    return {'$schema': 'https://json-schema.org/draft/2020-12/schema', '$id': f'{cfg.doc_host}{cfg.doc_baseurl}/data/{path.name}',
        'title': 'files of fasterbench', 'description': about, 'type': 'object', 'required': ['format', 'version'],
        'properties': dict(format=dict(enum=[o.format for o in saved])), 'allOf': whens, '$defs': defs}

def text(): return json.dumps(made(), indent=1, ensure_ascii=False) + '\n'

if __name__=='__main__': path.write_text(text(), encoding='utf-8')
