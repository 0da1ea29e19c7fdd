const figure = document.getElementById('roofline'), body = document.querySelector('#rows tbody'), rows = [...body.rows];
const heads = [...document.querySelectorAll('#rows th')], filter = document.getElementById('filter');
let chosen = null;   // names of rows: a mark may be of several
let names_narrow;
rows.forEach((tr, i) => { tr.row = names[i]; tr.onclick = () => choose([tr.row], false); });

function value(tr, i) {
  const c = tr.cells[i], v = c.dataset.v;
  return v === undefined ? c.textContent : v === '' ? null : Number(v);
}
function sort(i) {
  const up = heads[i].ariaSort === 'descending' || heads[i].ariaSort === null && !heads[i].classList.contains('n');
  const less = (a, b) => a === b ? 0 : a === null ? 1 : b === null ? -1 : (a < b) === up ? -1 : 1;   // null is last
  const keyed = rows.map(tr => [value(tr, i), tr]).sort((a, b) => less(a[0], b[0]));
  body.append(...keyed.map(o => o[1]));
  heads.forEach((h, j) => { h.ariaSort = j === i ? (up ? 'ascending' : 'descending') : null; });
}
function show() {
  const want = filter.value.toLowerCase();
  rows.forEach(tr => { tr.hidden = !tr.textContent.toLowerCase().includes(want); });
  document.getElementById('shown').textContent = `${rows.filter(tr => !tr.hidden).length} of ${rows.length} rows`;
}
const of = (t, i) => t.meta ? t.meta[i] : [t.customdata[i]];   // the rows of a mark
function choose(names, scroll) {
  chosen = JSON.stringify(names) === JSON.stringify(chosen) ? null : names;
  const has = name => chosen !== null && chosen.includes(name);
  const own = rows.filter(tr => { tr.classList.toggle('chosen', has(tr.row)); return has(tr.row); });
  if (scroll && own.length) { own[0].hidden = false; own[0].scrollIntoView({block: 'center'}); }
  if (!figure) return;
  const places = t => [...t.customdata.keys()].filter(i => of(t, i).some(has));
  const at = figure.data.map(t => t.customdata && chosen !== null ? places(t) : null);
  const drawn = at.some(o => o && o.length);   // rows of unknown cost have no mark
  Plotly.restyle(figure, {selectedpoints: drawn ? at : at.map(() => null), 'unselected.marker.opacity': 0.12});
}
function fit() {   // the names that there is room for, of what the legend shows
  const {shapes, meta} = figure.layout, off = new Set();
  names_narrow ??= shapes.filter(o => o.legendgroup);
  figure.data.forEach(t => { if (t.visible === 'legendonly') off.add(t.legendgroup); });
  const named = figure.clientWidth < meta.wide ? names_narrow : meta.names, fixed = shapes.filter(o => !o.legendgroup);
  const shown = named.map(o => ({...o, visible: off.has(o.legendgroup) ? 'legendonly' : true}));
  Plotly.relayout(figure, {shapes: [...fixed, ...shown]});
}
heads.forEach((h, i) => { h.onclick = () => sort(i); });
filter.oninput = show; show();
if (figure) { fit(); addEventListener('resize', fit); }
if (figure) for (const e of ['plotly_restyle', 'plotly_update']) figure.on(e, fit);
if (figure) figure.on('plotly_click', e => {
  const {data, pointNumber} = e.points[0];
  if (data.customdata) choose(of(data, pointNumber), true);
});
