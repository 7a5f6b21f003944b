// The page: what is shown of each experiment, and the controls for it. Text from the data goes
// through textContent alone.

const data = JSON.parse(document.getElementById('data').textContent);
const root = document.documentElement;
const views = [];

/** An element with attributes; `text` becomes its text, `on…` its listeners. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'text') element.textContent = value;
    else if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** The colours of the theme, as the browser computes them. */
function inks(host) {
  const probe = host.appendChild(make('span', { hidden: '' }));
  const of = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const names = ['text', 'muted', 'grid', 'line', 'surface', 'accent', 'strip'];
  const found = Object.fromEntries(names.map((name) => [name, of(name)]));
  found.methods = (count) => Array.from({ length: count }, (_, i) => of(`m${i}`));
  return { found, done: () => probe.remove() };
}

// One experiment -------------------------------------------------------------------------------

class View {
  constructor(host, section, kept) {
    Object.assign(this, { host, section });
    this.state = {
      methods: section.methods.map(() => true),
      seeds: section.seeds.map(() => true),
      level: 0,
      metric: section.main,
      zoom: null,
      drag: 'zoom',
      ...this.fitting(kept),
    };
    this.cursor = this.brush = this.hot = null;
    this.grids = section.grids.map((text) => numbers(text, Float64Array));
    this.boundaries = [...numbers(section.boundaries, Float64Array)];
    this.strips = section.strips.map((strip) => {
      const values = numbers(strip.values, Float64Array);
      const width = this.boundaries.length;
      const rows = Array.from({ length: values.length / width }, (_, i) =>
        values.subarray(i * width, (i + 1) * width),
      );
      return { ...strip, rows };
    });
    this.metrics = new Map(section.groups.flatMap((g) => g.metrics.map((m) => [m.name, m])));
    this.decoded = new Map();
    this.charts = [];
    this.waiting = new Set();
    this.recolour();
    this.build();
    this.watchSize();
  }

  /** What was kept of a view, unless the study is not the same any more. */
  fitting(kept) {
    const fits =
      kept &&
      kept.methods.length === this.section.methods.length &&
      kept.seeds.length === this.section.seeds.length &&
      this.section.levels[kept.level] !== undefined;
    return fits ? kept : {};
  }

  recolour() {
    const { found, done } = inks(this.host);
    this.ink = found;
    this.colours = found.methods(this.section.methods.length);
    done();
  }

  get extent() {
    return this.state.zoom ?? [0, this.section.extent];
  }

  /** The lines of a metric at the chosen level, decoded when they are first needed. */
  lines(metric) {
    const key = `${metric.name} ${this.state.level}`;
    if (!this.decoded.has(key)) {
      const found = metric.lines[this.state.level].map((line, method) => {
        if (!line) return null;
        const values = unpack(line.seeds, metric.log);
        return {
          method,
          steps: this.grids[line.grid],
          each: line.each,
          seeds: this.section.methods[method].seeds.map((seed, i) => [seed, values[i]]),
          centre: unpack(line.centre, metric.log),
          count: numbers(line.count, Uint16Array),
        };
      });
      this.decoded.set(key, found.filter(Boolean));
    }
    const on = this.decoded.get(key).filter((line) => this.state.methods[line.method]);
    return on.map((line) => ({ ...line, colour: this.colours[line.method] }));
  }

  scene(chart) {
    const [x0, x1] = this.extent;
    const { log, share } = chart.metric;
    const { seeds } = this.state;
    const { boundaries, cursor, hot, ink } = this;
    const brush = this.brush;
    const lines = this.lines(chart.metric);
    return { x0, x1, log, share, small: chart.small, lines, seeds, boundaries, cursor, brush, hot, ink };
  }

  // What is on the page

  build() {
    const bar = make('div', { class: 'controls' });
    this.host.append(bar);
    bar.append(this.methodButtons(), this.seedButtons(), this.choices());
    this.stage = make('div', { class: 'stage' });
    this.host.append(this.stage);
    const title = make('h3');
    const text = make('p', { class: 'note' });
    this.stage.append(title, text);
    this.stripCanvases = this.strips.map((strip) => {
      const says = strip.same ? 'the same for all seeds' : 'a row for each seed that is shown';
      const label = `${strip.name} of each task, from ${shown(strip.low)} (light) to ${shown(strip.high)} (dark); ${says}`;
      const canvas = make('canvas', { class: 'strip', role: 'img', 'aria-label': label });
      this.stage.append(make('p', { class: 'note strip-note', text: label }), canvas);
      return canvas;
    });
    this.main = this.chart(this.stage, this.metrics.get(this.state.metric), false);
    this.tip = make('div', { class: 'tip', hidden: '' });
    this.stage.append(this.tip);
    this.spoken = make('p', { class: 'spoken', role: 'status', 'aria-live': 'polite' });
    this.stage.append(this.spoken);
    this.heading = () => {
      title.textContent = this.main.metric.title + (this.main.metric.log ? ', log scale' : '');
      text.textContent = `${this.main.metric.text} Thick: IQM over seeds, where every seed has a value; band: 25th to 75th percentile; thin: seeds.`;
    };
    this.heading();
    for (const group of this.section.groups) {
      this.host.append(make('h3', { text: group.title }));
      const grid = make('div', { class: 'multiples' });
      this.host.append(grid);
      for (const metric of group.metrics) {
        const figure = make('figure', {}, make('figcaption', {}, make('strong', { text: metric.title + (metric.log ? ', log scale' : '') }), make('span', { text: metric.text })));
        grid.append(figure);
        this.chart(figure, metric, true);
      }
    }
  }

  methodButtons() {
    const group = make('div', { class: 'chips', role: 'group', 'aria-label': 'Methods' });
    this.section.methods.forEach((method, i) => {
      const button = make(
        'button',
        { type: 'button', class: 'chip method', 'aria-pressed': `${this.state.methods[i]}` },
        make('i', { class: `swatch c${i}` }),
        make('span', { text: method.name }),
      );
      const hot = (value) => () => {
        this.hot = value;
        this.draw();
      };
      button.addEventListener('click', () => {
        this.state.methods[i] = !this.state.methods[i];
        button.setAttribute('aria-pressed', `${this.state.methods[i]}`);
        this.draw();
      });
      button.addEventListener('pointerenter', (event) => event.pointerType === 'mouse' && this.state.methods[i] && hot(i)());
      button.addEventListener('pointerleave', hot(null));
      group.append(button);
    });
    return group;
  }

  seedButtons() {
    const { seeds } = this.state;
    const summary = make('summary');
    const list = make('div', { class: 'chips', role: 'group', 'aria-label': 'Seeds' });
    const show = () => {
      const on = seeds.filter(Boolean).length;
      summary.textContent = `Seeds: ${on === seeds.length ? `all ${on}` : `${on} of ${seeds.length}`} drawn`;
      buttons.forEach((button, i) => button.setAttribute('aria-pressed', `${seeds[i]}`));
      this.draw();
    };
    const all = (value) => () => {
      seeds.fill(value);
      show();
    };
    list.append(
      make('button', { type: 'button', class: 'chip', text: 'all', 'aria-label': 'All seeds', onclick: all(true) }),
      make('button', { type: 'button', class: 'chip', text: 'none', 'aria-label': 'No seeds', onclick: all(false) }),
    );
    const buttons = this.section.seeds.map((seed, i) =>
      make('button', {
        type: 'button',
        class: 'chip seed',
        text: `${seed}`,
        'aria-label': `Seed ${seed}`,
        onclick: () => {
          seeds[i] = !seeds[i];
          show();
        },
      }),
    );
    list.append(...buttons);
    show();
    const note = make('p', { class: 'note', text: 'Which thin lines are drawn. The IQM and its band are of all seeds, whichever are drawn.' });
    return make('details', { class: 'seeds' }, summary, note, list);
  }

  choices() {
    const select = (label, options, chosen, change) => {
      const box = make('select', { onchange: () => change(box.value) });
      box.append(...options);
      box.value = chosen;
      return make('label', { class: 'choice' }, make('span', { text: label }), box);
    };
    const option = (value, text) => make('option', { value, text });
    const metric = select(
      'Metric',
      this.section.groups.map((group) =>
        make('optgroup', { label: group.title }, ...group.metrics.map((m) => option(m.name, m.title))),
      ),
      this.state.metric,
      (name) => {
        this.state.metric = name;
        this.main.metric = this.metrics.get(name);
        this.main.label();
        this.heading();
        this.draw();
      },
    );
    const level = select(
      'Smoothing',
      this.section.levels.map((text, i) => option(`${i}`, text)),
      `${this.state.level}`,
      (value) => {
        this.state.level = +value;
        this.draw();
      },
    );
    const drag = select('Drag to', [option('zoom', 'zoom'), option('pan', 'move')], this.state.drag, (value) => {
      this.state.drag = value;
    });
    const press = (text, label, act, name = '') =>
      make('button', { type: 'button', class: `chip ${name}`, text, 'aria-label': label, onclick: act });
    this.where = make('output', { class: 'where' });
    const zoom = make(
      'div',
      { class: 'chips zoom', role: 'group', 'aria-label': 'Zoom' },
      press('+', 'Zoom in', () => this.scale(0.5)),
      press('−', 'Zoom out', () => this.scale(2)),
      press('◀', 'Earlier', () => this.pan(-0.25)),
      press('▶', 'Later', () => this.pan(0.25)),
      press('Reset zoom', 'Reset zoom', () => this.zoom(null), 'reset'),
      this.where,
    );
    return make('div', { class: 'choices' }, metric, level, drag, zoom);
  }

  /** A canvas that is drawn while it can be seen. */
  chart(parent, metric, small) {
    const canvas = make('canvas', { class: small ? 'chart small' : 'chart', tabindex: '0', role: 'img' });
    const chart = { canvas, metric, small, seen: false };
    chart.label = () =>
      canvas.setAttribute(
        'aria-label',
        `Chart of ${chart.metric.title} over steps. Arrow keys move the readout, with Shift the range; plus and minus zoom, 0 resets. The tables below have the numbers.`,
      );
    chart.label();
    parent.append(canvas);
    this.charts.push(chart);
    this.listen(chart);
    return chart;
  }

  // Drawing

  /** Draws what can be seen: the large chart at once, the others one a frame. */
  draw() {
    for (const chart of this.charts) if (chart.seen) this.waiting.add(chart);
    if (this.frame) return;
    const next = () => {
      const until = performance.now() + 12;
      this.frame = null;
      for (const chart of this.waiting) {
        this.waiting.delete(chart);
        this.drawOne(chart);
        if (performance.now() > until) break;
      }
      if (this.waiting.size) this.frame = requestAnimationFrame(next);
    };
    this.frame = requestAnimationFrame(next);
  }

  drawOne(chart) {
    const scene = this.scene(chart);
    drawChart(chart.canvas, scene);
    if (chart.small) return;
    this.strips.forEach((strip, i) => {
      const canvas = this.stripCanvases[i];
      const rows = strip.same ? 1 : this.state.seeds.filter(Boolean).length;
      canvas.style.height = `${rows ? clamp(rows * 16, 18, 56) : 0}px`;
      if (rows) drawStrip(canvas, strip, { ...scene, names: this.section.seeds });
    });
    const [from, to] = this.extent;
    this.where.textContent = `steps ${short(from)} – ${short(to)}`;
    chart.canvas.dataset.from = from;
    chart.canvas.dataset.to = to;
  }

  drawAll() {
    this.recolour();
    for (const chart of this.charts) this.drawOne(chart);
  }

  watchSize() {
    const seen = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          this.charts.find((chart) => chart.canvas === entry.target).seen = entry.isIntersecting;
        }
        this.draw();
      },
      { rootMargin: '200px' },
    );
    const size = new ResizeObserver(() => this.draw());
    for (const chart of this.charts) seen.observe(chart.canvas);
    size.observe(this.host);
  }

  // Zoom and readout

  zoom(range) {
    const most = this.section.extent;
    if (range) {
      const width = clamp(range[1] - range[0], most / 5000, most);
      const from = clamp(range[0], 0, most - width);
      range = width >= most * 0.9999 ? null : [from, from + width];
    }
    this.state.zoom = range;
    this.draw();
  }

  scale(factor, about = null) {
    const [from, to] = this.extent;
    const centre = about ?? (from + to) / 2;
    this.zoom([centre - (centre - from) * factor, centre + (to - centre) * factor]);
  }

  pan(share) {
    const [from, to] = this.extent;
    this.zoom([from + share * (to - from), to + share * (to - from)]);
  }

  /** The measured step that is nearest. */
  nearest(chart, step) {
    let best = null;
    for (const { steps } of this.lines(chart.metric)) {
      for (const each of steps) if (best === null || Math.abs(each - step) < Math.abs(best - step)) best = each;
    }
    return best;
  }

  point(chart, step, speak = false) {
    this.cursor = step === null ? null : this.nearest(chart, step);
    this.tip.hidden = this.cursor === null;
    if (this.cursor !== null) this.readout(chart, speak);
    this.draw();
  }

  /** Writes the values at the cursor beside it. */
  readout(chart, speak) {
    const { metric, canvas } = chart;
    const task = Math.max(0, this.boundaries.findIndex((end) => this.cursor <= end));
    const head = [`Step ${this.cursor.toLocaleString('en')}`, `task ${task + 1}`];
    for (const strip of this.strips) {
      const of = strip.same ? strip.rows : strip.rows.filter((_, i) => this.state.seeds[i]);
      const values = of.map((row) => row[task]).filter(Number.isFinite);
      const ends = [Math.min(...values), Math.max(...values)].map((value) => shown(value));
      if (values.length) head.push(`${strip.name} ${ends[0] === ends[1] ? ends[0] : ends.join(' to ')}`);
    }
    const rows = this.lines(metric).map((line) => {
      const at = line.steps.indexOf(this.cursor);
      const [centre, low, high] = line.centre.map((values) => shown(values[at] ?? NaN, metric.share));
      const all = line.seeds.length;
      const have = at < 0 ? 0 : line.count[at];
      const text = have === all ? `${centre} [${low}, ${high}]` : `${have} of ${all} seeds`;
      return [line.method, this.section.methods[line.method].name, text];
    });
    this.tip.replaceChildren(
      make('p', { text: head.join(' · ') }),
      make('p', { class: 'what', text: metric.title }),
      ...rows.map(([i, name, text]) =>
        make('div', {}, make('i', { class: `swatch c${i}` }), make('span', { text: name }), make('b', { text })),
      ),
    );
    canvas.parentElement.append(this.tip);
    const box = plot(canvas, chart.small);
    const [from, to] = this.extent;
    const x = canvas.offsetLeft + box.left + ((this.cursor - from) / (to - from)) * box.width;
    const right = x + 14 + this.tip.offsetWidth < canvas.parentElement.clientWidth;
    const left = right ? x + 14 : x - 14 - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, left)}px`;
    this.tip.style.top = `${canvas.offsetTop + box.top + 8}px`;
    if (speak) this.spoken.textContent = [...head, ...rows.map(([, name, text]) => `${name} ${text}`)].join(', ');
  }

  listen(chart) {
    const { canvas, small } = chart;
    const stepAt = (event) => {
      const box = plot(canvas, small);
      const [from, to] = this.extent;
      const share = clamp((event.clientX - canvas.getBoundingClientRect().left - box.left) / box.width, 0, 1);
      return from + share * (to - from);
    };
    const fingers = new Map();
    let start = null;
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button) return;
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, event.clientX);
      start = { step: stepAt(event), x: event.clientX, extent: this.extent };
    });
    canvas.addEventListener('pointermove', (event) => {
      const box = plot(canvas, small);
      if (fingers.size === 2 && fingers.has(event.pointerId)) {
        const apart = () => Math.abs([...fingers.values()].reduce((a, b) => a - b));
        const before = apart();
        fingers.set(event.pointerId, event.clientX);
        this.scale(clamp(before / Math.max(1, apart()), 0.8, 1.25), stepAt(event));
      } else if (start && Math.abs(event.clientX - start.x) > 4) {
        const [from, to] = start.extent;
        const moved = ((event.clientX - start.x) / box.width) * (to - from);
        if (this.state.drag === 'pan') this.zoom([from - moved, to - moved]);
        else this.brush = [start.step, stepAt(event)].sort((a, b) => a - b);
        this.tip.hidden = true;
        this.cursor = null;
        this.draw();
        return;
      }
      if (fingers.size < 2) this.point(chart, stepAt(event));
    });
    const end = (event) => {
      fingers.delete(event.pointerId);
      const chosen = this.brush;
      start = this.brush = null;
      if (chosen && event.type === 'pointerup') this.zoom(chosen);
      else this.draw();
    };
    canvas.addEventListener('pointerup', end);
    canvas.addEventListener('pointercancel', end);
    canvas.addEventListener('pointerleave', () => start === null && this.point(chart, null));
    canvas.addEventListener('blur', () => this.point(chart, null));
    canvas.addEventListener('dblclick', () => this.zoom(null));
    canvas.addEventListener(
      'wheel',
      (event) => {
        const across = Math.abs(event.deltaX) > Math.abs(event.deltaY);
        if (!event.ctrlKey && !across) return; // the page scrolls
        event.preventDefault();
        if (across) this.pan(event.deltaX / 800);
        else this.scale(Math.exp(clamp(event.deltaY, -50, 50) / 100), stepAt(event));
      },
      { passive: false },
    );
    canvas.addEventListener('keydown', (event) => this.key(event, chart));
  }

  key(event, chart) {
    const [from, to] = this.extent;
    const move = (sign) => {
      if (event.shiftKey) return this.pan(sign * 0.1);
      return this.point(chart, clamp((this.cursor ?? (from + to) / 2) + (sign * (to - from)) / 100, from, to), true);
    };
    const acts = {
      ArrowLeft: () => move(-1),
      ArrowRight: () => move(1),
      '+': () => this.scale(0.5, this.cursor),
      '=': () => this.scale(0.5, this.cursor),
      '-': () => this.scale(2, this.cursor),
      0: () => this.zoom(null),
      Escape: () => this.point(chart, null),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  }
}

// The whole page -------------------------------------------------------------------------------

/** Storage may be forbidden, as on some file systems. */
function keep(storage, key, value) {
  try {
    if (value === undefined) return JSON.parse(window[storage].getItem(key));
    window[storage].setItem(key, JSON.stringify(value));
  } catch {
    // Then nothing is kept.
  }
  return null;
}

const redraw = () => views.forEach((view) => view.drawAll());

function theme(name) {
  if (name === 'auto') delete root.dataset.theme;
  else root.dataset.theme = name;
  redraw();
}

function sortable(table) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  heads.forEach((head, column) => {
    const button = make('button', { type: 'button', class: 'sort', text: head.textContent });
    head.replaceChildren(button);
    button.addEventListener('click', () => {
      const up = head.getAttribute('aria-sort') === 'descending';
      heads.forEach((each) => each.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const order = (a, b) => {
        const [x, y] = [+value(a), +value(b)];
        if (Number.isNaN(x) || Number.isNaN(y)) return value(a).localeCompare(value(b)) || 0;
        return x - y;
      };
      body.append(...[...body.rows].sort((a, b) => (up ? order(a, b) : order(b, a))));
    });
  });
}

/** Asks the server now and then whether there are new rows, and loads the page anew if so. */
function live(version) {
  const state = document.getElementById('live');
  const check = async () => {
    try {
      const answer = await fetch('version', { cache: 'no-store' });
      if (answer.ok && (await answer.text()) !== version) return location.reload();
      state.textContent = 'live';
      state.className = 'live';
    } catch {
      state.textContent = 'not live: the server has ended';
      state.className = 'live gone';
    }
    setTimeout(check, data.every);
  };
  setTimeout(check, data.every);
  addEventListener('pagehide', () => keep('sessionStorage', 'views', views.map((view) => view.state)));
}

const kept = data.version ? keep('sessionStorage', 'views') : null;
data.sections.forEach((section, i) => {
  const host = document.getElementById(`curves-${i}`);
  if (host) views.push(new View(host, section, kept?.[views.length]));
});
document.querySelectorAll('table.sortable').forEach(sortable);

const themes = document.getElementById('theme');
themes.value = keep('localStorage', 'continual-theme') ?? 'auto';
if (themes.selectedIndex < 0) themes.value = 'auto';
themes.addEventListener('change', () => {
  keep('localStorage', 'continual-theme', themes.value);
  theme(themes.value);
});
if (themes.value !== 'auto') theme(themes.value);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
// Paper is light.
addEventListener('beforeprint', () => theme('light'));
addEventListener('afterprint', () => theme(themes.value));
if (data.version) live(data.version);
root.dataset.ready = 'true';
