// SPDX-License-Identifier: BSD-2-Clause
// What the server says, put where it belongs. Every event of the stream is the whole state: a page that missed some is right again with the next.
import { ways, colour, onScheme, count, money, signed, clock, duration, some } from '/ways.js';
import { chartsOpen, historySet, driftAdd, driftForget, driftEmphasise, latencyShow } from '/charts.js';
import { tourOpen, tourLook } from '/tour.js';

const $ = (id) => document.getElementById(id);
const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };

function make(tag, classes, ...children) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  element.append(...children);
  return element;
}

let state = null; // the newest snapshot
let last = 0;     // when it came

// --- buttons ---

export async function press(button, given = {}) {
  try {
    const answer = await fetch('/press/' + button, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(given) });
    const said = await answer.json();
    if (answer.ok) return said.number;
    notice(`${said.title}: ${said.detail}`);
  } catch {
    notice('The demo does not answer.');
  }
  return 0;
}

function notice(text) {
  $('log').prepend(make('li', 'failed', make('time', '', clock(Date.now())), make('span', '', text)));
}

function isDown(place) {
  return state?.places.find((p) => p.name === place)?.state === 'down';
}

function hintShow(button) {
  put($('hint'), button.title);
}

function buttonsOpen() {
  for (const button of document.querySelectorAll('[data-press]'))
    for (const event of ['mouseenter', 'focus']) button.addEventListener(event, () => hintShow(button));
  for (const button of document.querySelectorAll('[data-press]'))
    button.addEventListener('click', () => press(button.dataset.press, button.dataset.toggle ? { down: !isDown(button.dataset.toggle) } : {}));
  addEventListener('resize', logFit);
  for (const input of document.querySelectorAll('input[name=percent]'))
    input.addEventListener('change', () => press('redeliver', { percent: Number(input.value) }));
}

// A key is poisoned if a relay says that one is held up, or if the last of these buttons poisoned one.
function isPoisoned(s) {
  const last = s.presses.findLast((p) => ['poison', 'release', 'reset'].includes(p.button) && p.state === 'done');
  return last?.button === 'poison' || s.pipeline.relays.some((r) => r.held_keys > 0);
}

function buttonsShow(s) {
  const doing = new Set(s.presses.filter((p) => p.state === 'doing').map((p) => p.button));
  for (const button of document.querySelectorAll('[data-press]')) {
    const busy = doing.has(button.dataset.press);
    button.classList.toggle('busy', busy);
    button.disabled = busy || (button.dataset.toggle === 'broker' && s.places.find((p) => p.name === 'broker').state === 'absent') ||
      (button.dataset.press === 'release' && !isPoisoned(s));
    if (button.dataset.toggle) put(button, `${isDown(button.dataset.toggle) ? 'Start' : 'Stop'} the ${button.dataset.press}`);
  }
  for (const input of document.querySelectorAll('input[name=percent]')) input.checked = Number(input.value) === s.redeliver;
}

function logShow(s) {
  const lines = s.presses.toReversed().map((p) => {
    const said = p.state === 'doing' ? `${buttonName(p.button)} ...` : p.text;
    return make('li', p.state, make('time', '', clock(p.at)), make('span', '', said));
  });
  const text = JSON.stringify(s.presses);
  if ($('log').dataset.shown === text) return;
  $('log').dataset.shown = text;
  $('log').replaceChildren(...(lines.length ? lines : [make('li', 'empty', 'Nothing pressed yet. Restart the consumers, and watch the lines.')]));
  logFit();
}

// As many whole messages as have room; the others are scrolled to.
function logFit() {
  const room = 92;
  let whole = 0;
  for (const line of $('log').children) {
    const bottom = line.offsetTop + line.offsetHeight;
    if (whole && bottom > room) break;
    whole = bottom;
  }
  $('log').style.height = `${whole + 2}px`;
  $('log').style.marginBottom = `${Math.max(0, room - whole)}px`;
}

const buttonName = (name) => document.querySelector(`[data-press="${name}"]`)?.textContent ?? 'Deliver again';

// --- ways ---

const rows = new Map();

function swatch(w) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
  svg.setAttribute('class', 'mark');
  svg.setAttribute('aria-hidden', 'true');
  for (const [name, value] of Object.entries({ x1: 0, x2: 26, y1: 5, y2: 5, 'stroke-width': 3, 'stroke-dasharray': w.dash.join(' ') })) line.setAttribute(name, value);
  line.setAttribute('stroke', colour(w));
  onScheme(() => line.setAttribute('stroke', colour(w)));
  svg.append(line);
  return svg;
}

function kindRow(text) {
  const cell = make('th', 'kind', text);
  cell.colSpan = 6;
  cell.scope = 'colgroup';
  return make('tr', '', cell);
}

function wayRow(w) {
  const what = make('span', 'what', w.what);
  const head = make('th', '', make('span', 'name', swatch(w), w.way), what);
  const cells = { intended: make('td', 'number'), actual: make('td', 'number'), drift: make('td', 'number drift'), verdict: make('td', 'verdict'), repeats: make('td', 'number') };
  const row = make('tr', 'way', head, ...Object.values(cells));
  head.scope = 'row';
  row.dataset.way = w.way;
  row.addEventListener('mouseenter', () => driftEmphasise(w.way));
  row.addEventListener('mouseleave', () => driftEmphasise(null));
  const should = make('span'), behind = make('span', 'behind');
  cells.intended.append(should, behind);
  return { w, row, cells, what, should, behind, drift: 0 };
}

function waysOpen() {
  $('ways-safe').append(kindRow('Safe: the money and the proof that it was booked are one step'));
  $('ways-unsafe').append(kindRow('Not safe: two steps, and something can come between them'));
  $('ways-absent').append(kindRow('Not shown here'));
  for (const w of ways) rows.set(w.way, wayRow(w));
}

function verdict(w, drift) {
  if (drift > 0) return make('span', 'verdict-word bad', '\u25b2 too much');
  if (drift < 0) return make('span', 'verdict-word bad', '\u25bc too little');
  return w.safe ? make('span', 'verdict-word good', '\u2713 exact') : make('span', 'verdict-word open', '\u25cb not yet wrong');
}

// Repeats refused, and in the title why that is not always all that came twice.
function repeatsShow(cell, counts) {
  put(cell, count(counts.suppressed));
  cell.title = `${some(counts.duplicates, 'message')} came to it a second time. ` + (counts.duplicates > counts.suppressed
    ? 'Not all were refused: right where the first delivery died before its money was booked, and wrong otherwise.'
    : 'Whether that was right, the ledger says: where the first delivery died before its money was booked, a refusal loses it.');
}

function wayShow(entry, data, furthest) {
  const { w, row, cells } = entry;
  const body = $(data.state === 'absent' && !data.known ? 'ways-absent' : w.safe ? 'ways-safe' : 'ways-unsafe');
  if (row.parentElement !== body) body.append(row);
  const absent = data.state === 'absent' && !data.known;
  row.classList.toggle('absent', absent);
  put(entry.what, absent ? `${w.what} \u2013 not here: ${absentWhy(w.way)}` : w.what);
  for (const cell of Object.values(cells)) cell.hidden = absent;
  row.firstChild.colSpan = absent ? 6 : 1;
  if (absent) return;
  put(entry.should, data.known ? money(data.intended_cents) : '\u2013');
  put(entry.behind, data.known && data.intended_cents < furthest ? `${money(furthest - data.intended_cents)} unread` : '');
  put(cells.actual, data.known ? money(data.actual_cents) : '\u2013');
  put(cells.drift, data.known ? signed(data.drift_cents) : '\u2013');
  cells.drift.className = 'number drift ' + (data.drift_cents ? 'bad' : w.safe ? 'good' : '');
  cells.verdict.replaceChildren(data.known ? verdict(w, data.drift_cents) : '');
  repeatsShow(cells.repeats, data.counts);
  row.classList.toggle('jumped', Math.abs(data.drift_cents - entry.drift) > 5000);
  entry.drift = data.drift_cents;
}

function absentWhy(way) {
  return state.absent.split('\n').find((line) => line.startsWith(way + '|'))?.slice(way.length + 1) ?? 'it was not started';
}

function missingShow(s) {
  const missing = s.ways.filter((d) => d.state === 'absent' && !d.known).map((d) => d.way);
  put($('missing'), missing.length ? `Not shown here: ${missing.join(' and ')} (why: at the end of the table).` : '');
}

function waysShow(s) {
  const furthest = Math.max(...s.ways.filter((d) => d.known).map((d) => d.intended_cents));
  for (const data of s.ways) wayShow(rows.get(data.way), data, furthest);
  $('ways-absent').hidden = !s.ways.some((d) => d.state === 'absent' && !d.known);
  missingShow(s);
}

// --- pipeline ---

const words = { absent: 'not here', dead: 'starting', down: 'stopped', frozen: 'paused', running: '' };

function box(who, places, figure, unit, more, extra = '') {
  const troubled = places.find((p) => p.state !== 'running' && p.state !== 'absent');
  const said = extra || (troubled ? words[troubled.state] : '');
  const sign = said ? make('span', 'state', said) : make('span', 'dot');
  if (!said) sign.title = 'running';
  const item = make('li', said ? 'trouble' : '', make('div', 'who', make('span', '', who), sign));
  item.append(make('div', 'figure', figure + ' ', make('small', '', unit)), make('div', 'more', more));
  return item;
}

const percent = (part, whole) => (whole ? (100 * part / whole).toFixed(1) : '0.0') + ' %';

function relayBox(s, place) {
  const p = s.pipeline;
  const both = [place('relay'), place('relay-2')].filter((x) => x.state !== 'absent');
  const leader = p.relays.find((r) => r.leads);
  const waits = both.find((x) => x.state === 'running' && x.name !== leader?.name);
  const troubled = both.filter((x) => x.state !== 'running');
  const trouble = troubled.map((x) => `${x.name} ${words[x.state]}`).join(', ');
  const held = p.relays.reduce((sum, r) => sum + (r.leads ? r.held_keys : 0), 0);
  const who = (leader ? `${leader.name} publishes` : 'nobody publishes') + (waits ? `, ${waits.name} waits to take over` : '');
  return box('Relays', [], count(p.events - p.backlog), 'rows sent', held ? `${some(held, 'key')} held up; ${who}` : who, leader ? trouble : trouble || 'no leader');
}

function pipelineShow(s) {
  const p = s.pipeline;
  const place = (name) => s.places.find((x) => x.name === name);
  const consumers = s.places.filter((x) => x.name.startsWith('consumer-') && x.state !== 'absent');
  const running = consumers.filter((x) => x.state === 'running').length;
  const unique = s.ways.find((w) => w.way === 'unique').counts;
  $('pipe').replaceChildren(
    box('Customers', [place('client')], count(p.orders_minute), 'orders/min', 'each with its own key'),
    box('Order service', [place('order-service')], count(p.orders), some(p.orders, 'order').replace(/^\S+ /, ''), `since the last reset; ${some(p.service.replays, 'retry', 'retries')} recognised`),
    box('Outbox', [place('postgres')], count(p.backlog), 'waiting', p.backlog ? `the oldest for ${duration(p.backlog_age_ms * 1000)}` : 'everything is sent', s.database.up ? '' : words[place('postgres').state] || 'no answer'),
    relayBox(s, place),
    box('Kafka', [place('broker')], count(p.records), 'messages', `seen since this panel began; ${some(p.copies, 'copy', 'copies')} by the relays`, s.broker_up ? '' : words[place('broker').state] || 'no answer'),
    box('Consumers', [], `${running} of ${consumers.length}`, 'running', `${percent(unique.suppressed, unique.deliveries)} of all so far were repeats, those of restarts included`, running < consumers.length ? 'restarting' : ''));
  $('doubled').hidden = !p.intents_doubled;
  $('doubled').replaceChildren(make('strong', '', money(p.doubled_cents)), ` was ordered twice by clients that retried with a new key (${some(p.intents_doubled, 'order')}). Every ledger has it: no consumer can know.`);
}

// --- journey ---

const short = (id) => (id.length > 18 ? id.slice(0, 13) + '\u2026' : id);

function keyChip(key, keys) {
  const chip = make('code', 'key' + (keys.indexOf(key) > 0 ? ' second' : ''), short(key));
  chip.title = key;
  return chip;
}

function hop(done, name, ...lines) {
  return make('div', 'hop ' + done, make('h3', '', name), ...lines.map((line) => make('p', '', ...[line].flat())));
}

function requestHop(requests, keys) {
  const lines = requests.flatMap((r) => [
    [`${r.status ? `answer ${r.status}` : 'no answer'}${r.replayed ? ', the same one again' : ''} in ${duration(r.took_us)}`], ['key ', keyChip(r.key, keys)]]);
  return hop(requests.every((r) => r.status === 201) ? 'done' : 'wrong', requests.length > 1 ? `${requests.length} requests` : 'Request', ...lines);
}

function outboxHop(o, keys) {
  const lines = o.events.flatMap((e) => [
    [`${e.type === 'poison' ? 'a row too large for Kafka' : e.type}: ${e.sent === 'true' ? `sent after ${count(Number(e.sent_ms))} ms` : 'waits'}`],
    ...(e.key ? [['key ', keyChip(e.key, keys)]] : [])]);
  return hop(o.events.length && o.events.every((e) => e.sent === 'true') ? 'done' : 'wait', 'Outbox', ...(lines.length ? lines : [['not there yet']]));
}

function kafkaHop(o, keys) {
  const lines = o.records.flatMap((r) => [[`partition ${r.partition}, offset ${count(r.offset)}`], ...(r.key ? [['key ', keyChip(r.key, keys)]] : [])]);
  return hop(o.records.length ? 'done' : 'wait', 'Kafka', ...(lines.length ? lines : [['not there yet']]));
}

function ledgersHop(o, row) {
  const intended = Number(row?.intended_cents ?? 0);
  const chips = ways.filter((w) => w.way in o.ledgers).map((w) => {
    const cents = o.ledgers[w.way];
    const right = cents === intended;
    return make('span', cents === null ? '' : right ? 'good' : 'bad', `${w.way} ${cents === null ? '\u2026' : right ? '\u2713' : money(cents) + (cents > intended ? ' \u25b2' : ' \u25bc')}`);
  });
  const there = Object.values(o.ledgers).filter((c) => c !== null);
  const item = hop(there.length < chips.length ? 'wait' : there.every((c) => c === intended) ? 'done' : 'wrong', 'Ledgers', [`${there.length} of ${chips.length} have booked ${money(intended)}`]);
  item.append(make('div', 'books', ...chips));
  return item;
}

function trip(o, requests, keys) {
  const row = o.row[0];
  return make('li', 'trip', requestHop(requests, keys),
    hop(row ? 'done' : 'wait', 'Order + event', [row ? `${money(Number(row.amount_cents))}, in one transaction` : 'not there yet'], ['order ', make('code', '', short(o.order))]),
    outboxHop(o, keys), kafkaHop(o, keys), ledgersHop(o, row));
}

function journeyShow(s) {
  const j = s.journey;
  const text = JSON.stringify(j);
  if ($('hops').dataset.shown === text) return;
  $('hops').dataset.shown = text;
  $('journey-empty').hidden = j !== null;
  $('hops').hidden = j === null;
  if (j === null) return;
  const keys = [...new Set(j.requests.map((r) => r.key))];
  $('hops').replaceChildren(...(j.orders.length
    ? j.orders.map((o) => trip(o, j.requests.filter((r) => r.order === o.order), keys))
    : [make('li', 'trip', requestHop(j.requests, keys))]));
}

// --- alarms ---

function alarms(s) {
  const said = [];
  if (!s) return ['The demo does not answer; this page tries again by itself.'];
  if (!s.database.up) said.push(`PostgreSQL does not answer${s.books_at ? `: amounts are those of ${clock(s.books_at)}` : ''}.`);
  if (!s.broker_up) said.push('The Kafka broker does not answer: orders are taken all the same, and wait in the outbox.');
  const relays = s.places.filter((p) => p.name.startsWith('relay') && p.state !== 'absent');
  if (relays.length && !relays.some((p) => p.state === 'running')) said.push('No relay is running: orders wait in the outbox.');
  if (s.places.find((p) => p.name === 'order-service').state !== 'running') said.push('The order service does not run.');
  return said;
}

function alarmShow(s) {
  const said = alarms(s).join(' ');
  put($('alarm'), said);
  $('alarm').hidden = !said;
  document.body.classList.toggle('stale', !s || !s.database.up);
}

// --- the stream ---

function show(s) {
  if (state && s.books_at && s.ways.every((w) => !w.known || w.orders === 0) && state.ways.some((w) => w.orders > 0)) driftForget();
  state = s;
  last = Date.now();
  put($('freshness'), `As of ${clock(s.at)}.`);
  alarmShow(s);
  buttonsShow(s);
  logShow(s);
  waysShow(s);
  pipelineShow(s);
  journeyShow(s);
  driftAdd(s);
  latencyShow(s.ways);
  tourLook(s);
}

async function open() {
  chartsOpen();
  waysOpen();
  buttonsOpen();
  tourOpen(press, () => state);
  const stream = new EventSource('/events');
  stream.onmessage = (event) => show(JSON.parse(event.data));
  stream.onopen = () => fetch('/history').then((answer) => answer.json()).then(historySet, () => {}); // without it the lines begin now
  setInterval(() => { if (Date.now() - last > 6000) alarmShow(null); }, 1000);
}

open();
