(figure => {   // what there is room for: the lines of the head, the names of what the legend shows, and the legends
  const own = {shapes: o => o.type === 'line', annotations: o => o.xref === 'paper'};   // what is not a name
  const layout = figure.layout, fixed = {}, {names, heads} = layout.meta, {t, b} = layout.margin, inner = layout.height - t - b;
  for (const k in own) fixed[k] = (layout[k] ?? []).filter(o => !names || own[k](o));
  const placed = [];   // what lies at a part of the height, and where
  for (const k in layout) {
    if (/^yaxis/.test(k)) placed.push([`${k}.domain`, [...layout[k].domain]]);
    if (/^legend/.test(k)) placed.push([`${k}.y`, layout[k].y]);
  }
  if (layout.updatemenus?.length) placed.push(['updatemenus[0].y', layout.updatemenus[0].y]);
  const fitting = all => all.filter(o => o.start <= figure.clientWidth).pop() ?? all[0];
  function fit() {
    const head = fitting(heads), found = names ? fitting(names) : {shapes: [], annotations: []};
    const spare = y => head.less.reduce((all, [at, less]) => all + (y*inner > at + 0.5 ? less : 0), 0);
    const lower = y => (y*inner - spare(y))/(inner - spare(1));   // with lower legends
    const off = new Set(figure.data.filter(t => t.visible === 'legendonly').map(t => t.legendgroup));
    const shown = found.shapes.map(o => ({...o, visible: off.has(o.legendgroup) ? 'legendonly' : true}));
    const notes = fixed.annotations.map(o => ({...o, ...(o.yref === 'paper' && {y: lower(o.y)}), ...(o.name === 'said' && {text: head.said})}));
    const moved = placed.map(([k, y]) => [k, Array.isArray(y) ? y.map(lower) : lower(y)]);
    figure.parentElement.style.height = 'auto';   // which plotly sets for a usual width
    figure.style.height = `${head.height}px`;
    Plotly.relayout(figure, {'title.text': head.title, 'title.pad.t': head.lower, 'margin.t': head.top, height: head.height,
      shapes: [...fixed.shapes, ...shown], annotations: [...notes, ...found.annotations], ...Object.fromEntries(moved)});
  }
  fit();
  addEventListener('resize', fit);
  for (const e of ['plotly_restyle', 'plotly_update']) figure.on(e, fit);
})(document.getElementById('{plot_id}'));
