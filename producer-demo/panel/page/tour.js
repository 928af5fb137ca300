// SPDX-License-Identifier: BSD-2-Clause
// Five steps. Each presses a button, waits until its effect is there, and says in one sentence what one sees, with the numbers that came out.
import { money, some } from '/ways.js';

const $ = (id) => document.getElementById(id);
const drift = (s, way) => s.ways.find((w) => w.way === way)?.drift_cents ?? 0;
const done = (s, number) => s.presses.find((p) => p.number === number && p.state !== 'doing');

const steps = [ // show: the section that is talked about; rows: of the table
  {
    title: 'Messages arrive twice', press: ['redeliver', { percent: 10 }], show: 'ledger', rows: ['none', 'seen-cache', 'unique'],
    say: 'Every network that tries again delivers some messages twice. From now on one in ten is.',
    see: (before, s) => drift(s, 'none') - drift(before, 'none') > 5000 &&
      `“none” has booked ${money(drift(s, 'none') - drift(before, 'none'))} that nobody paid; “seen-cache” and “unique” noticed the repeats.`,
  },
  {
    title: 'The consumers restart', press: ['restart-consumers'], show: 'ledger', rows: ['seen-cache', 'unique'],
    say: 'All consumers are killed with kill -9 and started again. What they had not confirmed is delivered again, all at once.',
    see: (before, s) => drift(s, 'seen-cache') > drift(before, 'seen-cache') &&
      `“seen-cache” jumped by ${money(drift(s, 'seen-cache') - drift(before, 'seen-cache'))}: its memory died when it was needed. “unique” is ${drift(s, 'unique') ? 'wrong by ' + money(drift(s, 'unique')) : 'still exact'}.`,
  },
  {
    title: 'The relay dies in the middle', press: ['kill-relay'], show: 'pipeline',
    say: 'The process that carries orders from the database to Kafka is killed. The other one takes over.',
    see: (before, s) => s.pipeline.relays.some((r) => r.leads) && s.pipeline.backlog < 50 && s.pipeline.records > before.pipeline.records &&
      `${s.pipeline.relays.find((r) => r.leads).name} publishes: nothing is lost, and ${some(s.pipeline.copies - before.pipeline.copies, 'message')} went out twice, with the same id.`,
  },
  {
    title: 'One click, two requests', press: ['twice'], show: 'journey',
    say: 'A customer’s request is sent twice at the same moment, with one key.',
    see: (before, s) => s.journey?.kind === 'twice' && s.journey.orders[0]?.row.length > 0 &&
      `${s.journey.orders.length === 1 ? 'One order' : 'Two orders'}: the second request got the first one’s answer, because the key came from the customer.`,
  },
  {
    title: 'The mistake that no consumer can repair', press: ['bad-client'], show: 'journey',
    say: 'The same purchase again, but the retry comes with a new key.',
    see: (before, s) => s.pipeline.intents_doubled > before.pipeline.intents_doubled &&
      `Two orders, charged twice, and every ledger agrees: the key must be made once, when the customer means it, and kept through every hop.`,
  },
];

let press, state, at = -1, before, number, begun;
let told = []; // what each step has shown: one that is gone back to presses nothing again

function point(step) {
  const { show = '', rows = [] } = steps[step] ?? {};
  for (const row of document.querySelectorAll('tr.way')) row.classList.toggle('told', rows.includes(row.dataset.way));
  for (const section of document.querySelectorAll('section')) section.classList.toggle('told', section.id === show && !rows.length);
  $('tour').classList.toggle('left', show === 'pipeline');
  if (show) $(show).scrollIntoView({ block: innerWidth > 900 ? 'start' : 'nearest' });
  if (rows.length && innerWidth <= 900) document.querySelector('tr.way.told:last-child, tr.way.told').scrollIntoView({ block: 'nearest' });
}

function end() {
  at = -1;
  $('tour').hidden = true;
  document.body.classList.remove('touring');
  point(-1);
  $('tour-begin').focus();
}

async function go(step) {
  if (step >= steps.length) return end();
  at = step;
  before = state();
  begun = Date.now();
  number = 0;
  const { title, say } = steps[step];
  $('tour').hidden = false;
  document.body.classList.add('touring');
  $('tour-step').textContent = `Step ${step + 1} of ${steps.length}`;
  $('tour-title').textContent = title;
  $('tour-say').textContent = say;
  $('tour-see').textContent = told[step] ?? 'Watch ...';
  $('tour-next').textContent = step + 1 < steps.length ? 'Next' : 'Finish';
  $('tour-next').disabled = told[step] === undefined;
  $('tour-back').disabled = step === 0 || told[step] === undefined; // what is under way is not left: coming back would press it again
  point(step);
  if (told[step] !== undefined) return;
  number = await press(...steps[step].press);
}

export function tourLook(s) {
  if (at < 0 || !$('tour-next').disabled) return;
  const finished = number && done(s, number);
  const saw = finished && finished.state === 'done' && steps[at].see(before, s);
  if (saw) $('tour-see').textContent = saw;
  else if (finished?.state === 'failed') $('tour-see').textContent = finished.text;
  else if (Date.now() - begun > 60000) $('tour-see').textContent = 'It takes longer than a minute; go on, and look back.';
  else return;
  told[at] = $('tour-see').textContent;
  $('tour-next').disabled = false;
  $('tour-back').disabled = at === 0;
  $('tour-next').focus({ preventScroll: true });
}

export function tourOpen(presser, stater) {
  press = presser;
  state = stater;
  $('tour-begin').addEventListener('click', () => {
    if (!state() || at >= 0) return;
    told = [];
    go(0);
  });
  $('tour-back').addEventListener('click', () => go(at - 1));
  $('tour-next').addEventListener('click', () => go(at + 1));
  $('tour-end').addEventListener('click', end);
  document.addEventListener('keydown', (event) => { if (event.key === 'Escape' && at >= 0) end(); });
}
