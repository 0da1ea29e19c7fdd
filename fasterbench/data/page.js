const figure = document.getElementById('roofline'), body = document.querySelector('#rows tbody'), rows = [...body.rows];
const heads = [...document.querySelectorAll('#rows th')], filter = document.getElementById('filter');
let chosen = null;   // names of rows: a mark may be of several
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
heads.forEach((h, i) => { h.onclick = () => sort(i); });
filter.oninput = show; show();
if (figure) figure.on('plotly_click', e => {
  const {data, pointNumber} = e.points[0];
  if (data.customdata) choose(of(data, pointNumber), true);
});
