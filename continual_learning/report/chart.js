// Curves over steps on a canvas. Statistics come from Python; this file draws them.

const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

/** Returns the numbers that a base64 text holds. */
function numbers(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Kind(bytes.buffer);
}

/** Returns rows of 16-bit numbers as values: {low, high: ranges of rows, values} -> [Float64Array]. */
function unpack({ low, high, values }, log) {
  const from = numbers(low, Float64Array);
  const to = numbers(high, Float64Array);
  const codes = numbers(values, Uint16Array);
  const width = from.length ? codes.length / from.length : 0;
  return Array.from(from, (_, row) =>
    Float64Array.from(codes.subarray(row * width, (row + 1) * width), (code) => {
      if (code === 65535) return NaN;
      const value = from[row] + ((to[row] - from[row]) * code) / 65534;
      return log ? Math.exp(value) : value;
    }),
  );
}

// Numbers as text ------------------------------------------------------------------------------

const UNITS = [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'k']];

/** Returns a number of steps in short form: 20M. */
function short(value) {
  for (const [size, name] of UNITS) {
    if (Math.abs(value) >= size) return `${+(value / size).toPrecision(4)}${name}`;
  }
  return `${+value.toPrecision(4)}`;
}

/** Returns a value of a metric with about four digits. */
function shown(value, share) {
  if (!Number.isFinite(value)) return '—';
  if (share) return `${(100 * value).toFixed(2)} %`.replace('-', '−');
  const size = Math.abs(value);
  const far = size !== 0 && (size >= 1e6 || size < 1e-3);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4;
  const text = far
    ? value.toExponential(2)
    : value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return text.replace(/-/g, '−');
}

/** Returns round numbers from low to high, about as many as requested. */
function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((n) => n * power >= rough * 0.8);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return found;
}

/** Returns the powers of ten from low to high, or round numbers if there are too few of them. */
function decades(low, high, count) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  if (last - first < 1) return ticks(low, high, count).filter((value) => value > 0);
  const every = Math.ceil((last - first + 1) / (count + 1));
  const found = [];
  for (let i = first; i <= last; i += every) found.push(10 ** i);
  return found;
}

function tick(value, share, step, small) {
  if (share) return `${+(100 * value).toFixed(step < 0.01 ? 1 : 0)} %`.replace('-', '−');
  const size = Math.abs(value);
  if (size && (size < 1e-3 || size >= 1e6)) return value.toExponential(0).replace(/-/g, '−');
  if (small && size >= 1e4) return short(value).replace('-', '−');
  return (+value.toPrecision(6)).toLocaleString('en').replace('-', '−');
}

// Drawing --------------------------------------------------------------------------------------

/** Fits the bitmap to the canvas on the screen; returns its context and the size in px. */
function begin(canvas) {
  const printing = document.documentElement.classList.contains('printing');
  const ratio = printing ? 3 : clamp(window.devicePixelRatio || 1, 1, 3);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext('2d');
  context.scale(ratio, ratio);
  context.font = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
  context.lineJoin = 'round';
  return { context, width, height };
}

/** Returns the box of the plot in a canvas. */
function plot(canvas, small) {
  const left = small ? 44 : 54;
  const [top, right, bottom] = small ? [6, 8, 18] : [28, 12, 24];
  return {
    left,
    top,
    width: Math.max(1, canvas.clientWidth - left - right),
    height: Math.max(1, canvas.clientHeight - top - bottom),
  };
}

/** Returns the first and last index of the steps in [x0, x1] and of one more on either side. */
function within(steps, x0, x1) {
  let low = 0;
  while (low < steps.length - 1 && steps[low + 1] < x0) low++;
  let high = steps.length - 1;
  while (high > 0 && steps[high - 1] > x1) high--;
  return [low, high];
}

/** Adds a line to the path: missing values are gaps, lone points dots. Pairs have two values a step. */
function trace(context, steps, values, X, Y, [low, high], each = 1) {
  const first = low * each;
  const last = (high + 1) * each - 1;
  for (let i = first; i <= last; i++) {
    const value = values[i];
    if (Number.isNaN(value)) continue;
    const x = X(steps[each === 1 ? i : i >> 1]);
    const y = Y(value);
    const joined = i > first && !Number.isNaN(values[i - 1]);
    if (joined) context.lineTo(x, y);
    else {
      context.moveTo(x, y);
      if (i === last || Number.isNaN(values[i + 1])) context.lineTo(x + 0.01, y + 1);
    }
  }
}

/** Fills the area between low and high, interrupted where values are missing. */
function band(context, steps, low, high, X, Y, [first, last]) {
  for (let i = first; i <= last; i++) {
    if (Number.isNaN(low[i])) continue;
    let end = i;
    while (end < last && !Number.isNaN(low[end + 1])) end++;
    context.beginPath();
    for (let k = i; k <= end; k++) context.lineTo(X(steps[k]), Y(high[k]));
    for (let k = end; k >= i; k--) context.lineTo(X(steps[k]), Y(low[k]));
    context.fill();
    i = end;
  }
}

/** Returns the smallest and the largest value in view, with some margin. */
function range(lines, scene) {
  let [low, high] = [Infinity, -Infinity];
  const see = (values, [first, last], each = 1) => {
    for (let i = first * each; i < (last + 1) * each; i++) {
      const value = values[i];
      if (value < low) low = value;
      if (value > high) high = value;
    }
  };
  for (const line of lines) {
    const part = within(line.steps, scene.x0, scene.x1);
    for (const values of line.center) see(values, part);
    for (const [index, values] of line.seeds) if (scene.seeds[index]) see(values, part, line.each);
  }
  if (low > high) return null;
  if (scene.log) {
    const room = Math.max(1.05, (high / low) ** 0.04);
    return [low / room, high * room];
  }
  const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 0.5;
  const [least, most] = [low - room, high + room];
  // A share lies between 0 and 1.
  return scene.share && low >= 0 && high <= 1 ? [Math.max(0, least), Math.min(1, most)] : [least, most];
}

/**
 * Draws a chart.
 *
 * scene: {x0, x1, log, share, small, lines, seeds, boundaries, tasks, hot, quick, ink}; a line is
 * {color, steps, seeds: [[index, values]], each, center: [iqm, q25, q75], method}.
 */
function drawChart(canvas, scene) {
  const { context, width, height } = begin(canvas);
  const { ink, small } = scene;
  const box = plot(canvas, small);
  const found = range(scene.lines, scene);
  const bottom = box.top + box.height;
  const X = (step) => box.left + ((step - scene.x0) / (scene.x1 - scene.x0)) * box.width;
  context.textBaseline = 'middle';
  context.fillStyle = ink.muted;
  if (!found) {
    context.textAlign = 'center';
    context.fillText('nothing to show here', width / 2, height / 2);
    return;
  }
  const [low, high] = scene.log ? found.map(Math.log) : found;
  const Y = (value) =>
    bottom - (((scene.log ? Math.log(value) : value) - low) / (high - low)) * box.height;

  const marks = (scene.log ? decades : ticks)(...found, clamp(Math.round(box.height / 44), 2, 8));
  context.strokeStyle = ink.grid;
  context.lineWidth = 1;
  context.textAlign = 'right';
  for (const value of marks) {
    const y = Math.round(Y(value)) + 0.5;
    context.beginPath();
    context.moveTo(box.left, y);
    context.lineTo(box.left + box.width, y);
    context.stroke();
    context.fillText(tick(value, scene.share, marks[1] - marks[0], small), box.left - 6, y);
  }
  drawTasks(context, scene, box, X);
  context.fillStyle = ink.muted;
  context.textAlign = 'center';
  for (const step of ticks(scene.x0, scene.x1, clamp(box.width / 90, 2, 8))) {
    const text = short(step);
    const half = context.measureText(text).width / 2;
    context.fillText(text, clamp(X(step), half, width - half), bottom + (small ? 11 : 14));
  }

  context.save();
  context.beginPath();
  context.rect(box.left, box.top - 2, box.width, box.height + 4); // so that a line at the edge is not cut
  context.clip();
  drawLines(context, scene, X, Y);
  context.restore();
}

/** Draws the bands first, then the seeds, and the IQMs on top. */
function drawLines(context, scene, X, Y) {
  const lines = scene.lines.map((line) => ({
    ...line,
    part: within(line.steps, scene.x0, scene.x1),
    seeds: line.seeds.filter(([index]) => scene.seeds[index]),
    strength: scene.hot === null || scene.hot === line.method ? 1 : 0.15,
  }));
  const paint = (line, alpha, width) => {
    context.strokeStyle = context.fillStyle = line.color;
    context.globalAlpha = alpha * line.strength;
    context.lineWidth = width;
  };
  for (const line of lines) {
    paint(line, 0.16, 1);
    band(context, line.steps, line.center[1], line.center[2], X, Y, line.part);
  }
  // Seed by seed rather than method by method, so that no method covers the others.
  const most = scene.quick ? 0 : Math.max(0, ...lines.map((line) => line.seeds.length));
  for (let i = 0; i < most; i++) {
    for (const line of lines) {
      if (i >= line.seeds.length) continue;
      paint(line, clamp(2.5 / line.seeds.length, 0.1, 0.5), scene.small ? 0.5 : 0.8);
      context.beginPath();
      trace(context, line.steps, line.seeds[i][1], X, Y, line.part, line.each);
      context.stroke();
    }
  }
  for (const line of lines) {
    for (const halo of [true, false]) {
      paint(line, halo ? 0.7 : 1, (scene.small ? 1.6 : 2.2) + (halo ? 2 : 0));
      if (halo) context.strokeStyle = scene.ink.surface;
      context.beginPath();
      trace(context, line.steps, line.center[0], X, Y, line.part);
      context.stroke();
    }
  }
}

/**
 * Marks where tasks change if there is room; a large chart also has the names of the tasks, or
 * their numbers from 1 if a name is missing or does not fit.
 */
function drawTasks(context, scene, box, X) {
  const { small, ink } = scene;
  const ends = scene.boundaries;
  const gap = (box.width * (ends[0] || 1)) / (scene.x1 - scene.x0);
  const every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((n) => n * gap >= 30) ?? 5000;
  context.textAlign = 'center';
  ends.forEach((end, task) => {
    const start = task ? ends[task - 1] : 0;
    if (end > scene.x0 && end < scene.x1 && gap >= 9) {
      context.strokeStyle = ink.line;
      context.beginPath();
      context.setLineDash([2, 3]);
      context.moveTo(Math.round(X(end)) + 0.5, box.top);
      context.lineTo(Math.round(X(end)) + 0.5, box.top + box.height);
      context.stroke();
      context.setLineDash([]);
    }
    const center = X((Math.max(start, scene.x0) + Math.min(end, scene.x1)) / 2);
    const named = (task + 1) % every === 0 || (task === 0 && every > 2);
    if (small || !named || end <= scene.x0 || start >= scene.x1) return;
    const called = scene.tasks[task] ?? '';
    const fits = called && context.measureText(called).width + 8 < Math.abs(X(end) - X(start));
    context.fillStyle = ink.muted;
    context.fillText(fits ? called : `${task + 1}`, center, box.top - 16);
  });
  if (small) return;
  context.textAlign = 'right';
  context.fillText('task', box.left - 6, box.top - 16);
}

/**
 * Draws a parameter of the tasks: a row for each visible seed, in a stronger color for larger
 * values; if there are few rows, it also writes the values.
 */
function drawStrip(canvas, strip, scene) {
  const rows = strip.same ? [0] : strip.rows.map((_, i) => i).filter((i) => scene.seeds[i]);
  const { context, height } = begin(canvas);
  const box = plot(canvas, false);
  const X = (step) => box.left + ((step - scene.x0) / (scene.x1 - scene.x0)) * box.width;
  const scale = strip.log ? Math.log : (value) => value;
  const [low, high] = [scale(strip.low), scale(strip.high)];
  const tall = height / Math.max(1, rows.length);
  context.textBaseline = 'middle';
  context.textAlign = 'center';
  context.save();
  context.beginPath();
  context.rect(box.left, 0, box.width, height);
  context.clip();
  rows.forEach((row, place) => {
    scene.boundaries.forEach((end, task) => {
      const start = task ? scene.boundaries[task - 1] : 0;
      const value = strip.rows[row][task];
      if (end <= scene.x0 || start >= scene.x1 || !Number.isFinite(value)) return;
      const strength = high > low ? (scale(value) - low) / (high - low) : 0.5;
      const [from, to] = [X(Math.max(start, scene.x0)), X(Math.min(end, scene.x1))];
      context.fillStyle = scene.ink.strip;
      context.globalAlpha = 0.08 + 0.82 * strength;
      const gap = to - from > 6 ? 1 : 0;
      context.fillRect(from, place * tall, to - from - gap, tall - (tall > 6 ? 1 : 0));
      const text = `${+value.toPrecision(2)}`;
      if (tall < 13 || context.measureText(text).width + 4 > to - from) return;
      context.globalAlpha = 1;
      context.fillStyle = strength > 0.5 ? scene.ink.surface : scene.ink.text;
      context.fillText(text, (from + to) / 2, (place + 0.5) * tall);
    });
  });
  context.restore();
  context.fillStyle = scene.ink.muted;
  context.textAlign = 'right';
  const label = rows.length === 1 ? `seed ${scene.names[rows[0]]}` : 'seeds';
  if (!strip.same) context.fillText(label, box.left - 6, height / 2);
}
