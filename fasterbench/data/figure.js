(figure => {   // what there is room for: the lines of the head, and the names of what the legend shows
  const own = {shapes: o => o.type === 'line', annotations: o => o.xref === 'paper'};   // what is not a name
  const fixed = {}, {names, heads} = figure.layout.meta;
  for (const k in own) fixed[k] = (figure.layout[k] ?? []).filter(o => !names || own[k](o));
  const fitting = all => all.filter(o => o.start <= figure.clientWidth).pop() ?? all[0];
  function fit() {
    const head = fitting(heads), found = names ? fitting(names) : {shapes: [], annotations: []};
    const off = new Set(figure.data.filter(t => t.visible === 'legendonly').map(t => t.legendgroup));
    const shown = found.shapes.map(o => ({...o, visible: off.has(o.legendgroup) ? 'legendonly' : true}));
    const notes = fixed.annotations.map(o => o.name === 'said' ? {...o, text: head.said} : o);
    figure.parentElement.style.height = 'auto';   // which plotly sets for a usual width
    figure.style.height = `${head.height}px`;
    Plotly.relayout(figure, {'title.text': head.title, 'title.pad.t': head.lower, 'margin.t': head.top, height: head.height,
      shapes: [...fixed.shapes, ...shown], annotations: [...notes, ...found.annotations]});
  }
  fit();
  addEventListener('resize', fit);
  for (const e of ['plotly_restyle', 'plotly_update']) figure.on(e, fit);
})(document.getElementById('{plot_id}'));
