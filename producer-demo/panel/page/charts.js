// SPDX-License-Identifier: BSD-2-Clause
// The two charts. Chart.js draws lines and bars; what happened when, and the names at the lines' ends, are drawn here.
import { ways, colour, money, signed, onScheme } from '/ways.js';

const kept = 900;
const points = { at: [], drift: Object.fromEntries(ways.map((w) => [w.way, []])), marks: [] };
let driftChart, latencyChart;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// --- drift ---

const markLines = {
  id: 'marks',
  beforeDatasetsDraw(chart) {
    const { ctx, chartArea: a, scales: { x } } = chart;
    const ends = [];
    const texts = [];
    ctx.save();
    ctx.font = '11px ' + window.Chart.defaults.font.family;
    ctx.textBaseline = 'top';
    for (const mark of points.marks) {
      const at = x.getPixelForValue(mark.at);
      if (at < a.left || at > a.right) continue;
      const width = ctx.measureText(mark.text).width;
      const left = Math.min(at + 4, a.right - width);
      let row = 0;
      while (row < 4 && ends[row] > left) row++;
      ctx.strokeStyle = css('--quiet');
      ctx.setLineDash([2, 3]);
      ctx.beginPath();
      ctx.moveTo(at, a.top);
      ctx.lineTo(at, a.bottom);
      ctx.stroke();
      if (row === 4) continue;
      ends[row] = left + width + 8;
      texts.push({ text: mark.text, left, top: a.top + 1 + row * 14, width });
    }
    for (const { text, left, top, width } of texts) { // above all lines, so that none runs through a word
      ctx.fillStyle = css('--card');
      ctx.fillRect(left - 2, top - 1, width + 4, 13);
      ctx.fillStyle = css('--quiet');
      ctx.fillText(text, left, top);
    }
    ctx.restore();
  },
};

// Wrong, and by less than the eye sees at this scale.
function small(chart) {
  const { y } = chart.scales;
  const seen = (cents) => Math.abs(y.getPixelForValue(cents / 100) - y.getPixelForValue(0)) >= 4;
  return ways.filter((w) => points.drift[w.way].at(-1) && !seen(points.drift[w.way].at(-1)));
}

function smallShow() {
  const said = small(driftChart).map((w) => `${w.way} ${signed(points.drift[w.way].at(-1))}`);
  const note = document.getElementById('small');
  note.textContent = `Wrong, but too little to be seen at this scale: ${said.join(', ')}.`;
  note.hidden = said.length === 0;
}

// Names at the right end, pushed apart so that none covers another; lines that lie on zero share one, and so do those that lie near it.
const endNames = {
  id: 'names',
  afterDatasetsDraw(chart) {
    const { ctx, chartArea: a, scales: { y } } = chart;
    const names = [];
    const zero = [];
    const near = small(chart);
    for (const w of ways) {
      const last = points.drift[w.way].at(-1);
      if (last === null || last === undefined) continue;
      if (last === 0) zero.push(w);
      else if (!near.includes(w)) names.push({ text: w.way, at: y.getPixelForValue(last / 100), colour: colour(w) });
    }
    if (zero.length) {
      const safe = zero.every((w) => w.safe);
      names.push({ text: zero.length === 1 ? zero[0].way : `${zero.length} ways: zero`, at: y.getPixelForValue(0), colour: safe ? css('--good') : css('--quiet') });
    }
    if (near.length) names.push({ text: `near zero: ${near.length} way${near.length === 1 ? '' : 's'}`, at: y.getPixelForValue(0) + 1, colour: css('--bad') });
    names.sort((p, q) => p.at - q.at);
    for (let i = 1; i < names.length; i++) names[i].at = Math.max(names[i].at, names[i - 1].at + 13);
    for (let i = names.length, limit = a.bottom; i-- > 0; limit -= 13) names[i].at = Math.min(names[i].at, limit);
    ctx.save();
    ctx.font = '600 11px ' + window.Chart.defaults.font.family;
    ctx.textBaseline = 'middle';
    for (const name of names) {
      ctx.fillStyle = name.colour;
      ctx.fillText(name.text, a.right + 6, name.at);
    }
    ctx.restore();
  },
};

function ago(ms) {
  const minutes = (points.at.at(-1) - ms) / 60000;
  if (minutes < 0.01) return 'now';
  return minutes < 0.99 ? `${Math.round(minutes * 60)} s ago` : `${+minutes.toFixed(1)} min ago`;
}

// Whole minutes or half ones before now, four or five of them.
function timeTicks(axis) {
  const most = Math.max(2, Math.floor(axis.width / 95));
  const step = [30, 60, 120, 150, 300].find((s) => (axis.max - axis.min) / 1000 / s < most) ?? 300;
  axis.ticks = [];
  for (let at = axis.max; at >= axis.min; at -= step * 1000) axis.ticks.unshift({ value: at });
}

const wayDataset = (w) => ({
  label: w.way, data: [], borderColor: colour(w), backgroundColor: colour(w), borderWidth: w.safe ? 2.5 : 2, borderDash: w.dash, pointRadius: 0,
  stepped: 'before', spanGaps: false, order: w.safe ? 1 : 0,
});

function driftOptions() {
  return {
    animation: false, parsing: false, maintainAspectRatio: false, interaction: { mode: 'index', intersect: false, axis: 'x' },
    layout: { padding: { right: 128, top: 4 } },
    scales: {
      x: { type: 'linear', grid: { display: false }, border: { display: false }, afterBuildTicks: timeTicks, ticks: { color: css('--quiet'), maxRotation: 0, autoSkip: false, callback: ago } },
      y: { grid: { color: (c) => (c.tick.value === 0 ? css('--quiet') : css('--line')) }, suggestedMin: -5, suggestedMax: 20,
        ticks: { color: css('--quiet'), maxTicksLimit: 6, callback: (v) => (v === 0 ? '$0' : (v > 0 ? '+' : '') + money(v * 100).replace(/\.00$/, '')) } },
    },
    plugins: {
      legend: { display: false },
      tooltip: {
        filter: (i) => i.parsed.y !== null,
        itemSort: (p, q) => q.parsed.y - p.parsed.y,
        callbacks: { title: (items) => (items.length ? ago(items[0].parsed.x) : ''), label: (i) => ` ${i.dataset.label}: ${signed(Math.round(i.parsed.y * 100))}` },
      },
    },
  };
}

function driftShow() {
  const now = points.at.at(-1) ?? Date.now();
  const first = points.at[0] ?? now;
  const span = Math.min(600000, Math.max(120000, now - first));
  ways.forEach((w, i) => {
    driftChart.data.datasets[i].data = points.at.map((x, k) => ({ x, y: points.drift[w.way][k] === null ? null : points.drift[w.way][k] / 100 }));
  });
  Object.assign(driftChart.options.scales.x, { min: now - span, max: now });
  driftChart.update('none');
  smallShow();
  const drifted = ways.filter((w) => points.drift[w.way].at(-1));
  driftChart.canvas.setAttribute('aria-label', drifted.length
    ? 'Drift over time. Now: ' + drifted.map((w) => `${w.way} ${signed(points.drift[w.way].at(-1))}`).join(', ') + '; all others zero.'
    : 'Drift over time. Now: zero for all ways.');
}

export function historySet(history) {
  points.at = history.at;
  for (const w of ways) points.drift[w.way] = history.drift[w.way];
  points.marks = history.marks;
  driftShow();
}

export function driftAdd(snapshot) {
  points.marks = snapshot.marks;
  if (snapshot.books_at > (points.at.at(-1) ?? 0)) {
    points.at.push(snapshot.books_at);
    for (const row of snapshot.ways) points.drift[row.way].push(row.known ? row.drift_cents : null);
    if (points.at.length > kept) {
      points.at.shift();
      for (const w of ways) points.drift[w.way].shift();
    }
  }
  driftShow();
}

export function driftForget() {
  points.at = [];
  for (const w of ways) points.drift[w.way] = [];
}

export function driftEmphasise(way) {
  ways.forEach((w, i) => { driftChart.data.datasets[i].borderWidth = way === w.way ? 5 : w.safe ? 2.5 : 2; });
  driftChart.update('none');
}

// --- latency ---

const bar = (label, alpha) => ({ label, data: [], backgroundColor: [], borderColor: [], borderWidth: 1, barPercentage: 0.95, categoryPercentage: 0.75, alpha });

function latencyOptions() {
  return {
    animation: false, maintainAspectRatio: false, indexAxis: 'y',
    scales: {
      x: { type: 'logarithmic', min: 1, grid: { color: css('--line') }, ticks: { color: css('--quiet'), maxRotation: 0, callback: (v) => ({ 1: '1 ms', 10: '10 ms', 100: '100 ms', 1000: '1 s', 10000: '10 s', 100000: '100 s' }[v] ?? null) } },
      y: { grid: { display: false }, ticks: { color: css('--text'), autoSkip: false } },
    },
    plugins: {
      legend: { labels: { color: css('--text'), boxWidth: 12, boxHeight: 10 }, onClick: () => {} },
      tooltip: { callbacks: { label: (i) => ` ${i.dataset.label}: ${i.parsed.x.toFixed(1)} ms` } },
    },
  };
}

export function latencyShow(rows) {
  const shown = ways.map((w) => [w, rows.find((r) => r.way === w.way)]).filter(([, r]) => r && r.counts.p99_us > 0);
  const [half, most] = latencyChart.data.datasets;
  latencyChart.data.labels = shown.map(([w]) => w.way);
  half.data = shown.map(([, r]) => r.counts.p50_us / 1000);
  most.data = shown.map(([, r]) => r.counts.p99_us / 1000);
  half.backgroundColor = half.borderColor = most.borderColor = shown.map(([w]) => colour(w));
  most.backgroundColor = shown.map(([w]) => colour(w) + '44');
  latencyChart.canvas.parentElement.hidden = shown.length === 0;
  document.getElementById('latency-empty').hidden = shown.length > 0;
  latencyChart.update('none');
  latencyChart.canvas.setAttribute('aria-label', 'Latency. ' + shown.map(([w, r]) => `${w.way}: half within ${(r.counts.p50_us / 1000).toFixed(1)} ms, 99 of 100 within ${(r.counts.p99_us / 1000).toFixed(1)} ms`).join('; '));
}

export function chartsOpen() {
  const { Chart } = window;
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.font.size = 11;
  driftChart = new Chart(document.getElementById('drift'), { type: 'line', data: { datasets: ways.map(wayDataset) }, options: driftOptions(), plugins: [markLines, endNames] });
  latencyChart = new Chart(document.getElementById('latencies'), { type: 'bar', data: { labels: [], datasets: [bar('p50, half of all', 1), bar('p99, 99 of 100', 0.3)] }, options: latencyOptions() });
  onScheme(() => {
    driftChart.options = driftOptions();
    latencyChart.options = latencyOptions();
    ways.forEach((w, i) => { driftChart.data.datasets[i].borderColor = colour(w); });
    driftShow();
  });
}
