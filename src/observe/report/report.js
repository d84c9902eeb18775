// Draws the report's curves from the numbers embedded in the page. The table and tiles do not depend on this script.
(function () {
  'use strict';
  const words = JSON.parse(document.getElementById('words').textContent);
  const run = JSON.parse(document.getElementById('run').textContent);
  const state = { axis: 'step', log: false, smooth: true };
  const drawn = [];

  const known = (values) => values.filter((v) => v !== null);
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Seconds are shown in the largest unit that leaves two of it.
  const lastTime = Math.max(0, ...[run.train, run.validation].map((part) => known(part.time).slice(-1)[0] || 0));
  const timeUnit = lastTime > 7200 ? { label: words.hours, seconds: 3600 }
    : lastTime > 120 ? { label: words.minutes, seconds: 60 } : { label: words.seconds, seconds: 1 };
  const axes = {
    step: { label: words.steps, of: (part, i) => part.step[i] },
    tokens: { label: words.tokens, of: (part, i) => part.tokens[i] },
    time: { label: timeUnit.label, of: (part, i) => part.time[i] === null ? null : part.time[i] / timeUnit.seconds },
  };

  function short(value) {
    const size = Math.abs(value);
    if (size >= 1e9) return trim(value / 1e9) + 'B';
    if (size >= 1e6) return trim(value / 1e6) + 'M';
    if (size >= 1e4) return trim(value / 1e3) + 'k';
    if (size >= 1e-3 || size === 0) return trim(value);
    return value.toExponential(1).replace('e-', 'e−');
  }
  function trim(value) {
    return String(Number(value.toPrecision(3))).replace('-', '−');
  }
  function exact(value) {
    const size = Math.abs(value);
    if (size >= 1e6) return Math.round(value).toLocaleString('en-US');
    if (size >= 1e-3 || size === 0) return Number(value.toPrecision(5)).toLocaleString('en-US', { maximumFractionDigits: 6 });
    return value.toExponential(3);
  }

  function points(part, column) {
    const result = [];
    for (let i = 0; i < part.step.length; ++i) {
      const x = axes[state.axis].of(part, i);
      if (x === null) continue;
      const y = part[column][i];
      result.push({ x: x, y: y === null ? NaN : y, step: part.step[i] });
    }
    return result;
  }

  // Mean over a window of about a thirtieth of the curve around each point; the window shrinks towards both ends, so that
  // the mean does not lag where the curve is steep.
  function smoothed(curve) {
    const valid = curve.filter((point) => !Number.isNaN(point.y));
    const sums = [0];
    for (const point of valid) sums.push(sums[sums.length - 1] + point.y);
    const widest = Math.ceil(valid.length / 60);
    return valid.map((point, i) => {
      const half = Math.min(widest, i, valid.length - 1 - i);
      return { x: point.x, y: (sums[i + half + 1] - sums[i - half]) / (2 * half + 1), step: point.step };
    });
  }

  function line(label, data, stroke, width) {
    const single = data.filter((p) => !Number.isNaN(p.y)).length === 1;
    return { label: label, data: data, borderColor: stroke, backgroundColor: stroke, borderWidth: width,
      pointRadius: single ? 3 : 0, pointHitRadius: 8, tension: 0, spanGaps: false, clip: 0 };
  }

  // Validations are few: each is marked, also at the edge of the plot.
  function withDots(one) {
    if (one.data.length <= 60) Object.assign(one, { pointRadius: 3, clip: 5 });
    return one;
  }

  function lossLines() {
    const lines = [];
    const raw = points(run.train, 'loss');
    const smooth = state.smooth && raw.length > 30;
    if (run.validation.step.length > 0) {
      lines.push(withDots(line(words.validation, points(run.validation, 'loss'), color('--validation'), 2)));
    }
    if (smooth) lines.push(line(words.smoothed, smoothed(raw), color('--train'), 2));
    lines.push(line(words.train, raw, smooth ? color('--train-faint') : color('--train'), smooth ? 1 : 1.6));
    return lines;
  }

  function metricLines(column, part, label) {
    const stroke = color(part === run.validation ? '--validation' : '--train');
    const only = line(label, points(part, column), stroke, 1.6);
    return [part === run.validation ? withDots(only) : only];
  }

  const charts = [
    { id: 'loss', title: words.loss, unit: words.loss_unit, wide: true, canLog: true, legend: true, lines: lossLines,
      has: () => known(run.train.loss).length + known(run.validation.loss).length > 0 },
    metric('bits_per_byte', words.bits_per_byte, words.bits_unit, run.validation, { optional: true }),
    metric('grad_norm', words.grad_norm, words.grad_norm_unit, run.train, { canLog: true }),
    metric('lr', words.lr, words.lr_unit, run.train, { fromZero: true }),
    metric('tokens_per_second', words.throughput, words.throughput_unit, run.train, { fromZero: true }),
    metric('mfu', words.mfu, words.mfu_unit, run.train, { fromZero: true }),
    metric('memory_gib', words.memory, words.memory_unit, run.train, { fromZero: true }),
    metric('step_ms', words.step_time, words.step_time_unit, run.train, { fromZero: true, firstIsSpecial: true }),
    metric('data_wait_ms', words.data_wait, words.data_wait_unit, run.train, { fromZero: true, firstIsSpecial: true }),
  ].filter((chart) => !chart.optional || chart.has());

  function metric(column, title, unit, part, extra) {
    return Object.assign({ id: column, title: title, unit: unit, lines: () => metricLines(column, part, title),
      has: () => known(part[column]).length > 0 }, extra);
  }

  // The first step pays for warming up; the vertical axis fits the others, or nothing could be seen of them.
  function highest(chart, lines) {
    if (!chart.firstIsSpecial) return undefined;
    const others = lines[0].data.slice(1).map((point) => point.y).filter((y) => !Number.isNaN(y));
    return others.length > 1 ? 1.1 * Math.max(...others) || undefined : undefined;
  }

  // One range for all charts, so that they can be compared.
  function horizontal() {
    const xs = [run.train, run.validation]
      .flatMap((part) => part.step.map((_, i) => axes[state.axis].of(part, i)))
      .filter((x) => x !== null);
    const first = xs.reduce((a, b) => Math.min(a, b), Infinity);
    const last = xs.reduce((a, b) => Math.max(a, b), 0);
    return { min: first < last / 20 ? 0 : first, max: last };
  }

  function options(chart, lines) {
    const log = chart.canLog && state.log;
    const ticks = { color: color('--muted'), font: { size: 12 }, maxRotation: 0, autoSkipPadding: 18,
      includeBounds: false, callback: short };
    const grid = { color: color('--grid'), borderColor: color('--line'), tickLength: 4 };
    return {
      animation: false,
      maintainAspectRatio: false,
      parsing: false,
      normalized: true,
      interaction: { mode: 'nearest', axis: 'x', intersect: false },
      layout: { padding: { right: 6 } },
      scales: {
        x: Object.assign(horizontal(), { type: 'linear', ticks: ticks, grid: grid,
          title: { display: true, text: axes[state.axis].label, color: color('--muted'), font: { size: 12 } } }),
        y: { type: log ? 'logarithmic' : 'linear', beginAtZero: !log && Boolean(chart.fromZero),
          max: highest(chart, lines),
          ticks: Object.assign({ maxTicksLimit: 7 }, ticks), grid: grid,
          title: { display: chart.unit !== '', text: chart.unit, color: color('--muted'), font: { size: 12 } } },
      },
      plugins: {
        legend: { display: false },
        tooltip: {
          displayColors: Boolean(chart.legend),
          callbacks: {
            title: (items) => items.length ? words.step_title.replace('{}', items[0].raw.step.toLocaleString('en-US')) : '',
            label: (item) => (chart.legend ? item.dataset.label + ': ' : '') + exact(item.parsed.y),
          },
        },
      },
    };
  }

  function element(parent, tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  function build(chart) {
    const figure = element(document.getElementById('charts'), 'figure', chart.wide ? 'card chart wide' : 'card chart');
    const caption = element(figure, 'figcaption', '', chart.title);
    if (chart.unit) element(caption, 'small', '', chart.unit);
    if (chart.legend) chart.legendBox = element(caption, 'span', 'legend');
    const plot = element(figure, 'div', 'plot');
    if (!chart.has()) {
      element(plot, 'p', 'empty', words.no_values);
      return;
    }
    chart.canvas = element(plot, 'canvas');
    chart.canvas.id = 'chart-' + chart.id;
    chart.canvas.setAttribute('role', 'img');
    chart.canvas.setAttribute('aria-label', [chart.title, chart.unit].filter(Boolean).join(', '));
  }

  function drawLegend(chart, lines) {
    if (!chart.legendBox) return;
    chart.legendBox.textContent = '';
    for (const one of lines) {
      const entry = element(chart.legendBox, 'span');
      element(entry, 'i').style.background = one.borderColor;
      entry.appendChild(document.createTextNode(one.label));
    }
  }

  function draw() {
    while (drawn.length > 0) drawn.pop().destroy();
    for (const chart of charts) {
      if (!chart.canvas) continue;
      const lines = chart.lines();
      drawLegend(chart, lines);
      drawn.push(new Chart(chart.canvas, { type: 'line', data: { datasets: lines }, options: options(chart, lines) }));
      chart.canvas.dataset.points = lines.reduce((sum, one) => sum + one.data.length, 0);
    }
    document.body.dataset.charts = drawn.length;
  }

  function toggle(id, key) {
    const button = document.getElementById(id);
    button.addEventListener('click', () => {
      state[key] = !state[key];
      button.setAttribute('aria-pressed', String(state[key]));
      draw();
    });
  }

  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  charts.forEach(build);
  for (const button of document.querySelectorAll('[data-axis]')) {
    button.addEventListener('click', () => {
      state.axis = button.dataset.axis;
      for (const other of document.querySelectorAll('[data-axis]')) {
        other.setAttribute('aria-pressed', String(other === button));
      }
      draw();
    });
  }
  toggle('log-scale', 'log');
  toggle('smooth', 'smooth');
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  draw();
})();
