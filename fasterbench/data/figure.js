(figure => {   // the names that there is room for, of what the legend shows
  const own = {shapes: o => o.type === 'line', annotations: o => o.xref === 'paper'};   // what is not a name
  const fixed = {}, {names} = figure.layout.meta;
  for (const k in own) fixed[k] = figure.layout[k].filter(own[k]);
  function fit() {
    const off = new Set(figure.data.filter(t => t.visible === 'legendonly').map(t => t.legendgroup));
    const found = names.filter(o => o.start <= figure.clientWidth).pop() ?? names[0];
    const shown = found.shapes.map(o => ({...o, visible: off.has(o.legendgroup) ? 'legendonly' : true}));
    Plotly.relayout(figure, {shapes: [...fixed.shapes, ...shown], annotations: [...fixed.annotations, ...found.annotations]});
  }
  fit();
  addEventListener('resize', fit);
  for (const e of ['plotly_restyle', 'plotly_update']) figure.on(e, fit);
})(document.getElementById('{plot_id}'));
