// The pointer and the keys on a chart: readout, zoom and move.

/** Returns the step under the pointer. */
function stepAt(view, { canvas, small }, event) {
  const box = plot(canvas, small);
  const [from, to] = view.extent;
  const x = event.clientX - canvas.getBoundingClientRect().left - box.left;
  return from + clamp(x / box.width, 0, 1) * (to - from);
}

/** Moves the readout to the nearest measured step, or hides it. */
function point(view, chart, step, speak = false) {
  view.cursor = null;
  if (step !== null) {
    for (const { steps } of view.lines(chart.metric)) {
      for (const each of steps) {
        if (view.cursor === null || Math.abs(each - step) < Math.abs(view.cursor - step)) view.cursor = each;
      }
    }
  }
  view.tip.hidden = view.cursor === null;
  if (view.cursor !== null) readout(view, chart, speak);
  view.mark();
}

/** Returns the step, the task and its parameters at the cursor. */
function where(view) {
  const { cursor, boundaries, strips } = view;
  const task = Math.max(0, boundaries.findIndex((end) => cursor <= end));
  const called = view.section.tasks[task];
  const found = [`Step ${cursor.toLocaleString('en')}`, `task ${task + 1}${called ? `, ${called}` : ''}`];
  for (const strip of strips) {
    const rows = strip.same ? strip.rows : strip.rows.filter((_, i) => view.state.seeds[i]);
    const values = rows.map((row) => row[task]).filter(Number.isFinite);
    const ends = [Math.min(...values), Math.max(...values)].map((value) => shown(value));
    if (values.length) found.push(`${strip.name} ${ends[0] === ends[1] ? ends[0] : ends.join(' to ')}`);
  }
  return found.join(' · ');
}

/** Writes the values at the cursor next to it. */
function readout(view, chart, speak) {
  const { metric, canvas, small } = chart;
  const head = where(view);
  const rows = view.lines(metric).map((line) => {
    const at = line.steps.indexOf(view.cursor);
    const [center, low, high] = line.center.map((values) => shown(values[at] ?? NaN, metric.share));
    const all = line.seeds.length;
    const have = at < 0 ? 0 : line.count[at];
    const text = have === all ? `${center} [${low}, ${high}]` : `${have} of ${all} seeds`;
    return { method: line.method, name: view.section.methods[line.method].name, text };
  });
  view.tip.replaceChildren(
    make('p', { text: head }),
    make('p', { class: 'what', text: `${metric.title}: IQM [25th, 75th percentile]` }),
    ...rows.map(({ method, name, text }) =>
      make('div', {}, make('i', { class: `swatch c${method}` }), make('span', { text: name }), make('b', { text })),
    ),
  );
  const parent = canvas.parentElement;
  parent.append(view.tip);
  const box = plot(canvas, small);
  const [from, to] = view.extent;
  const x = canvas.offsetLeft + box.left + ((view.cursor - from) / (to - from)) * box.width;
  const fits = x + 14 + view.tip.offsetWidth < parent.clientWidth;
  view.tip.style.left = `${Math.max(0, fits ? x + 14 : x - 14 - view.tip.offsetWidth)}px`;
  view.tip.style.top = `${canvas.offsetTop + box.top + 8}px`;
  if (speak) view.spoken.textContent = [head, ...rows.map(({ name, text }) => `${name} ${text}`)].join(', ');
}

/** Makes a chart respond to dragging, pinching and the wheel. */
function listen(view, chart) {
  const { canvas, small } = chart;
  const fingers = new Map();
  let start = null;
  const on = (names, act, options) => names.split(' ').forEach((name) => canvas.addEventListener(name, act, options));
  on('pointerdown', (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, event.clientX);
    start = { step: stepAt(view, chart, event), x: event.clientX, extent: view.extent };
  });
  on('pointermove', (event) => {
    const step = stepAt(view, chart, event);
    if (fingers.size === 2 && fingers.has(event.pointerId)) {
      const apart = () => Math.abs([...fingers.values()].reduce((a, b) => a - b));
      const before = apart();
      fingers.set(event.pointerId, event.clientX);
      view.brush = null;
      view.scale(clamp(before / Math.max(1, apart()), 0.8, 1.25), step);
    } else if (fingers.size === 1 && Math.abs(event.clientX - start.x) > 4) {
      const [from, to] = start.extent;
      const moved = ((event.clientX - start.x) / plot(canvas, small).width) * (to - from);
      if (view.state.drag === 'move') view.zoom([from - moved, to - moved], true);
      else view.brush = [start.step, step].sort((a, b) => a - b);
      point(view, chart, null);
    } else point(view, chart, step);
  });
  on('pointerup pointercancel', (event) => {
    fingers.delete(event.pointerId);
    const chosen = view.brush;
    view.brush = null;
    if (chosen && event.type === 'pointerup') view.zoom(chosen);
    view.mark();
  });
  on('pointerleave', (event) => event.pointerType === 'mouse' && !fingers.size && point(view, chart, null));
  on('blur', () => point(view, chart, null));
  on('dblclick', () => view.zoom(null));
  on(
    'wheel',
    (event) => {
      const across = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!event.ctrlKey && !across) return; // the page may scroll
      event.preventDefault();
      if (across) view.pan(event.deltaX / 800);
      else view.scale(Math.exp(clamp(event.deltaY, -50, 50) / 100), stepAt(view, chart, event));
    },
    { passive: false },
  );
  on('keydown', (event) => keys(view, chart, event));
}

/** Handles keys: arrows move the readout, with Shift the range; plus and minus zoom, 0 resets. */
function keys(view, chart, event) {
  const [from, to] = view.extent;
  const move = (sign) => {
    if (event.shiftKey) return view.pan(sign * 0.1);
    const step = (view.cursor ?? (from + to) / 2) + (sign * (to - from)) / 100;
    return point(view, chart, clamp(step, from, to), true);
  };
  const acts = {
    ArrowLeft: () => move(-1),
    ArrowRight: () => move(1),
    '+': () => view.scale(0.5, view.cursor),
    '=': () => view.scale(0.5, view.cursor),
    '-': () => view.scale(2, view.cursor),
    0: () => view.zoom(null),
    Escape: () => point(view, chart, null),
  };
  if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  acts[event.key]();
}
