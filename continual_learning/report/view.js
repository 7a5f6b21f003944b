// The curves of one experiment: the choice of what is shown, and the drawing of what is in view.

/** Returns the colors of the theme and of the methods as the browser computes them. */
function inks(host, methods) {
  const probe = host.appendChild(make('span', { hidden: '' }));
  const of = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const names = ['text', 'muted', 'grid', 'line', 'surface', 'accent', 'strip'];
  const found = Object.fromEntries(names.map((name) => [name, of(name)]));
  found.methods = Array.from({ length: methods }, (_, i) => of(`m${i}`));
  probe.remove();
  return found;
}

class View {
  /** host: an empty element; section: its data; kept: the state of an earlier view of it. */
  constructor(host, section, kept) {
    Object.assign(this, { host, section });
    this.metrics = new Map(section.groups.flatMap((g) => g.metrics.map((m) => [m.name, m])));
    this.state = {
      methods: section.methods.map(() => true),
      seeds: section.seeds.map(() => true),
      level: 0,
      metric: section.main,
      zoom: null,
      drag: 'zoom',
      ...(this.fits(kept) ? kept : {}),
    };
    this.cursor = this.brush = this.hot = null;
    this.grids = section.grids.map((text) => numbers(text, Float64Array));
    this.boundaries = [...numbers(section.boundaries, Float64Array)];
    this.strips = section.strips.map((strip) => {
      const values = numbers(strip.values, Float64Array);
      const tasks = this.boundaries.length;
      const row = (_, i) => values.subarray(i * tasks, (i + 1) * tasks);
      return { ...strip, rows: Array.from({ length: values.length / tasks }, row) };
    });
    this.decoded = new Map();
    this.charts = [];
    this.waiting = new Set();
    this.ink = inks(host, section.methods.length);
    this.build();
    this.look();
  }

  /** Returns whether the state of an earlier view fits these studies. */
  fits(kept) {
    const { methods, seeds, levels } = this.section;
    return (
      kept?.methods.length === methods.length &&
      kept.seeds.length === seeds.length &&
      kept.level < levels.length &&
      this.metrics.has(kept.metric)
    );
  }

  get extent() {
    return this.state.zoom ?? [0, this.section.extent];
  }

  /** Returns the lines of a metric at the chosen level; they are decoded when first needed. */
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
          center: unpack(line.center, metric.log),
          count: numbers(line.count, Uint16Array),
        };
      });
      this.decoded.set(key, found.filter(Boolean));
    }
    const on = this.decoded.get(key).filter((line) => this.state.methods[line.method]);
    return on.map((line) => ({ ...line, color: this.ink.methods[line.method] }));
  }

  // What is on the page

  build() {
    this.host.append(
      make('div', { class: 'controls' }, methodButtons(this), seedButtons(this), choices(this)),
    );
    this.title = make('h4');
    this.range = make('output', { class: 'where' });
    this.text = make('p', { class: 'note' });
    const stage = make('div', { class: 'stage' }, make('div', { class: 'top' }, this.title, this.range), this.text);
    this.host.append(stage);
    this.stripCanvases = this.strips.map((strip) => {
      const says = strip.same ? 'the same for all seeds' : 'a row for each seed that is drawn';
      const label = `${strip.name} of each task, from ${shown(strip.low)} (faint) to ${shown(strip.high)} (strong), ${says}`;
      const canvas = make('canvas', { class: 'strip', role: 'img', 'aria-label': label });
      stage.append(make('p', { class: 'note strip-note', text: label }), canvas);
      return canvas;
    });
    this.main = this.chart(stage, this.metrics.get(this.state.metric), false);
    this.tip = make('div', { class: 'tip', hidden: '' });
    this.spoken = make('p', { class: 'spoken', role: 'status', 'aria-live': 'polite' });
    stage.append(this.tip, this.spoken);
    this.choose(this.state.metric);
    for (const group of this.section.groups) {
      const grid = make('div', { class: 'multiples' });
      this.host.append(make('h4', { text: group.title }), grid);
      for (const metric of group.metrics) {
        const caption = [make('strong', { text: this.name(metric) }), make('span', { text: metric.text })];
        const figure = make('figure', {}, make('figcaption', {}, ...caption));
        grid.append(figure);
        this.chart(figure, metric, true);
      }
    }
  }

  name(metric) {
    return metric.title + (metric.log ? ', log scale' : '');
  }

  /** Shows a metric in the large chart. */
  choose(name) {
    const metric = this.metrics.get(name);
    this.state.metric = name;
    this.main.metric = metric;
    this.label(this.main);
    this.title.textContent = this.name(metric);
    this.text.textContent = `${metric.text} Thick: IQM over seeds, where every seed has a value; band: 25th to 75th percentile; thin: seeds.`;
    this.draw();
  }

  chart(parent, metric, small) {
    const canvas = make('canvas', { class: small ? 'chart small' : 'chart', tabindex: '0', role: 'img' });
    const chart = { canvas, metric, small, seen: false };
    this.label(chart);
    chart.marks = { cursor: make('i', { class: 'cursor', hidden: '' }), brush: make('i', { class: 'brush', hidden: '' }) };
    parent.append(canvas, ...Object.values(chart.marks));
    this.charts.push(chart);
    listen(this, chart);
    return chart;
  }

  label({ canvas, metric }) {
    const keys = 'Arrow keys move the readout, with Shift the range; plus and minus zoom, 0 resets.';
    canvas.setAttribute('aria-label', `Chart of ${metric.title} over steps. ${keys} The tables below have the numbers.`);
  }

  // Drawing

  /**
   * Draws the charts in view, the large one first, as many in a frame as time allows. If drawing is
   * slow, `quick` leaves out the seeds until nothing moves any more.
   */
  draw(quick = false) {
    this.quick = quick && this.slow;
    clearTimeout(this.later);
    if (this.quick) this.later = setTimeout(() => this.draw(), 150);
    for (const chart of this.charts) if (chart.seen) this.waiting.add(chart);
    if (this.frame || !this.waiting.size) return;
    this.host.dataset.drawing = 'true';
    const next = () => {
      const until = performance.now() + 12;
      this.frame = null;
      for (const chart of this.waiting) {
        this.waiting.delete(chart);
        this.paint(chart);
        if (performance.now() > until) break;
      }
      if (this.waiting.size) this.frame = requestAnimationFrame(next);
      else delete this.host.dataset.drawing;
    };
    this.frame = requestAnimationFrame(next);
  }

  paint(chart) {
    const [x0, x1] = this.extent;
    const { boundaries, hot, ink, quick } = this;
    const { tasks } = this.section;
    const { seeds } = this.state;
    const { log, share } = chart.metric;
    const lines = this.lines(chart.metric);
    const { small } = chart;
    const scene = { x0, x1, log, share, small, lines, seeds, boundaries, tasks, hot, ink, quick };
    const begin = performance.now();
    drawChart(chart.canvas, scene);
    if (chart.small) return;
    if (!quick) this.slow = performance.now() - begin > 20;
    this.strips.forEach((strip, i) => {
      const rows = strip.same ? 1 : seeds.filter(Boolean).length;
      this.stripCanvases[i].style.height = `${rows ? clamp(rows * 16, 18, 56) : 0}px`;
      if (rows) drawStrip(this.stripCanvases[i], strip, { ...scene, names: this.section.seeds });
    });
    this.range.textContent = `Steps ${short(x0)} to ${short(x1)}`;
  }

  /** Places the cursor and the range being chosen over the charts in view. */
  mark() {
    const [from, to] = this.extent;
    const ranges = { cursor: this.cursor === null ? null : [this.cursor, this.cursor], brush: this.brush };
    for (const { canvas, small, seen, marks } of this.charts) {
      if (!seen) continue;
      const box = plot(canvas, small);
      for (const [name, element] of Object.entries(marks)) {
        const [low, high] = (ranges[name] ?? []).map((step) => ((step - from) / (to - from)) * box.width);
        element.hidden = !(low >= 0 && high <= box.width + 1);
        if (element.hidden) continue;
        element.style.left = `${canvas.offsetLeft + box.left + low}px`;
        element.style.width = `${Math.max(1, high - low)}px`;
        element.style.top = `${canvas.offsetTop + box.top}px`;
        element.style.height = `${box.height}px`;
      }
    }
  }

  /** Draws all charts at once, in the current colors. */
  repaint() {
    this.ink = inks(this.host, this.section.methods.length);
    for (const chart of this.charts) this.paint(chart);
  }

  /** Watches which charts are in view and how wide the page is. */
  look() {
    const seen = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          this.charts.find((chart) => chart.canvas === target).seen = isIntersecting;
        }
        this.draw();
      },
      { rootMargin: '200px' },
    );
    for (const chart of this.charts) seen.observe(chart.canvas);
    new ResizeObserver(() => this.draw()).observe(this.host);
  }

  // The range of steps

  zoom(range, quick = false) {
    const most = this.section.extent;
    if (range) {
      const width = clamp(range[1] - range[0], most / 5000, most);
      const from = clamp(range[0], 0, most - width);
      range = width >= most * 0.9999 ? null : [from, from + width];
    }
    this.state.zoom = range;
    this.tip.hidden = true;
    this.mark();
    this.draw(quick);
  }

  scale(factor, about) {
    const [from, to] = this.extent;
    const center = about ?? (from + to) / 2;
    this.zoom([center - (center - from) * factor, center + (to - center) * factor], true);
  }

  pan(share) {
    const [from, to] = this.extent;
    this.zoom([from + share * (to - from), to + share * (to - from)], true);
  }
}
