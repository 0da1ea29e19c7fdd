// The table of bounds: a row for each work, for the dtype and the device that are chosen
(() => {
  const table = JSON.parse(document.getElementById('bounds-data').textContent), root = document.getElementById('bounds');
  const make = (tag, text, more = {}) => Object.assign(document.createElement(tag), {textContent: text}, more);
  function si(v, unit) {   // three digits that count
    if (v === null || v === undefined) return '';
    if (unit === '' && v < 1000) return String(v);
    if (v === 0) return `0 ${unit}`;
    const at = Math.max(-4, Math.min(6, Math.floor(Math.log10(Math.abs(v)*1.0005)/3)));
    return `${(v/1000**at).toPrecision(3)} ${'pnµm kMGTPE'[at + 4].trim()}${unit}`;
  }
  const ceil = (w, s) => w.counts[s.dtype], at = (w, s, k) => w.bounds[s.dtype][k][s.device];
  function limit(w, s) {   // of the model joined: whichever takes longer
    const c = ceil(w, s), d = table.devices[s.device];
    if (c.boundary_bytes === null || !d.flop_per_s[s.dtype]) return '';
    return c.flops/d.flop_per_s[s.dtype] >= c.boundary_bytes/d.byte_per_s ? 'compute' : 'memory';
  }
  const columns = [   // heading, what it is, value, unit
    ['work', 'source and name', w => w.name],
    ['FLOPs', 'of all operations', (w, s) => ceil(w, s).flops, ''],
    ['bytes', 'operation by operation', (w, s) => ceil(w, s).bytes_moved, 'B'],
    ['at the boundary', 'bytes that cross the boundary of the model', (w, s) => ceil(w, s).boundary_bytes, 'B'],
    ['operations', 'that do arithmetic or move data: each a kernel at most', (w, s) => ceil(w, s).operations, ''],
    ['one by one', 'seconds at least, one operation after the other', (w, s) => at(w, s, 'roof_s'), 's'],
    ['rows joined', 'seconds at least, what a module does itself as one kernel', (w, s) => at(w, s, 'fused_s'), 's'],
    ['model joined', 'seconds at least, the model as one kernel', (w, s) => at(w, s, 'joined_s'), 's'],
    ['likely', 'seconds, a forecast of eager code', (w, s) => at(w, s, 'likely_s'), 's'],
    ['limit', 'what sets the bound of the model joined', limit]];

  function choice(label, options, value) {
    const select = make('select', ''), box = make('label', label + ' ');
    select.append(...options.map(([v, t]) => make('option', t, {value: v, selected: v === value})));
    box.append(select);
    form.append(box);
    select.onchange = show;
    return select;
  }
  const form = make('form', '', {className: 'choices', onsubmit: () => false}), sources = [...new Set(table.works.map(w => w.source))];
  const text = make('input', '', {type: 'search', placeholder: 'resnet, level1, GRU …', oninput: show}), box = make('label', 'Search ');
  box.append(text);
  form.append(box);
  const source = choice('Source', [['', 'all'], ...sources.map(o => [o, o])], '');
  const dtype = choice('Dtype', table.dtypes.map(o => [o, o]), table.dtypes[0]);
  const device = choice('Device', table.devices.map((o, i) => [String(i), o.name]), String(table.devices.findIndex(o => o.name === 'H100-SXM')));
  const limited = choice('Limit', [['', 'any'], ['compute', 'compute'], ['memory', 'memory']], '');
  const said = make('p', '', {className: 'said'}), head = make('tr', ''), body = make('tbody', ''), grid = make('table', ''), wide = make('div', '', {className: 'wide'});
  let by = null, down = true;
  columns.forEach(([name, title, , unit], i) => head.append(make('th', name, {title, scope: 'col', className: unit === undefined ? '' : 'n',
    onclick: () => { down = by === i ? !down : unit !== undefined; by = i; show(); }})));
  const top = make('thead', '');
  top.append(head);
  grid.append(top, body);
  wide.append(grid);
  root.replaceChildren(form, said, wide);

  function compare(a, b) {   // what is not known is last
    if (a === b) return 0;
    if (a === null || a === '') return 1;
    if (b === null || b === '') return -1;
    return ((typeof a === 'string' ? a.localeCompare(b, 'en', {numeric: true}) : a - b))*(down ? -1 : 1);
  }
  function named(name) {   // may be divided behind its dashes
    const td = make('td', '');
    td.append(...name.split(/(?<=[_/])/).flatMap(o => [o, make('wbr', '')]));
    return td;
  }
  function cells(w, s) {
    const tr = make('tr', ''), inputs = w.inputs && w.inputs.map(([shape, dtype]) => `${shape.join('×')} ${dtype}`).join(', ');
    if (w.error) tr.append(named(w.name), make('td', w.error, {colSpan: columns.length - 1, className: 'error'}));
    else tr.append(named(w.name), ...columns.slice(1).map(([, , f, unit]) => unit === undefined ? make('td', f(w, s)) : make('td', si(f(w, s), unit), {className: 'n'})));
    const low = w.bounds && at(w, s, 'likely_low_s'), high = w.bounds && at(w, s, 'likely_high_s');
    const within = low && high ? `likely in 80 % of runs ${si(low, 's')} to ${si(high, 's')}` : '';
    const by = w.bounds ? table.evidence[at(w, s, 'likely_by')] : '';
    tr.title = [w.config, inputs && `inputs ${inputs}`, within, by && `forecast: ${by}`].filter(Boolean).join('\n');
    return tr;
  }
  function show() {
    const s = {dtype: dtype.value, device: Number(device.value)}, wanted = text.value.toLowerCase().split(/\s+/), d = table.devices[s.device];
    const fits = w => wanted.every(o => w.name.toLowerCase().includes(o)) && (!source.value || w.source === source.value)
      && (!limited.value || !w.error && limit(w, s) === limited.value);
    const found = table.works.filter(fits), f = by === null ? null : columns[by][2], value = w => w.error && by ? null : f(w, s);
    if (f) found.sort((a, b) => compare(value(a), value(b)));
    [...head.cells].forEach((h, i) => { h.ariaSort = i === by ? (down ? 'descending' : 'ascending') : null; });
    body.replaceChildren(...found.map(w => cells(w, s)));
    said.textContent = `${found.length} of ${table.works.length} works, under ${d.name}: ${si(d.flop_per_s[s.dtype], 'FLOP/s')} in ${s.dtype}, ${si(d.byte_per_s, 'B/s')}; by ${d.source}`;
  }
  show();
})();
