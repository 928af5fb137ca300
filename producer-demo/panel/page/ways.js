// SPDX-License-Identifier: BSD-2-Clause
// What is said about each way, and how its line looks: a colour, a dash, so that neither is needed to tell two apart.

export const ways = [
  { way: 'unique', safe: true, what: 'message id and money in one database transaction', dash: [], light: '#00795c', dark: '#2fc79a' },
  { way: 'version', safe: true, what: 'newest total of each order; older versions ignored', dash: [7, 3], light: '#00795c', dark: '#2fc79a' },
  { way: 'passthrough', safe: true, what: 'customer’s key passed on; a key is charged once', dash: [2, 3], light: '#00795c', dark: '#2fc79a' },
  { way: 'kafka-to-kafka', safe: true, what: 'Kafka in, Kafka out, one transaction of Kafka', dash: [10, 3, 2, 3], light: '#00795c', dark: '#2fc79a' },
  { way: 'none', safe: false, what: 'books whatever arrives', dash: [], light: '#c44e00', dark: '#ff8a3d' },
  { way: 'seen-cache', safe: false, what: 'remembers ids in memory: a restart forgets them', dash: [7, 3], light: '#8a6100', dark: '#f0b429' },
  { way: 'check-then-act', safe: false, what: 'looks first, books second: two at once slip by', dash: [2, 3], light: '#a8437c', dark: '#e79ac4' },
  { way: 'redis-before', safe: false, what: 'notes the id in Redis, then books: a crash loses', dash: [10, 3, 2, 3], light: '#00679e', dark: '#62b8ec' },
  { way: 'redis-after', safe: false, what: 'books, then notes the id in Redis: a crash repeats', dash: [4, 4], light: '#3d5a98', dark: '#9bb7f0' },
  { way: 'kafka-eos', safe: false, what: 'Kafka’s “exactly once”, the money in a database', dash: [12, 4], light: '#6a4a9c', dark: '#bfa2ee' },
  { way: 'at-most-once', safe: false, what: 'says “done” first, then books: a crash loses', dash: [1, 3], light: '#5b6169', dark: '#b4bcc6' },
];

const dark = matchMedia('(prefers-color-scheme: dark)');
export const colour = (w) => (dark.matches ? w.dark : w.light);
export const onScheme = (f) => dark.addEventListener('change', f);

const dollars = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' });
const whole = new Intl.NumberFormat('en-US');
export const count = (n) => whole.format(n);
export const money = (cents) => dollars.format(cents / 100).replace('-', '\u2212');
export const signed = (cents) => (cents > 0 ? '+' : '') + money(cents);
export const clock = (ms) => new Date(ms).toLocaleTimeString('en-GB');
export const some = (n, one, many) => `${count(n)} ${n === 1 ? one : many ?? one + 's'}`;

export const duration = (us) =>
  us === 0 ? '\u2013' : us < 10000 ? `${(us / 1000).toFixed(1)} ms` : us < 1000000 ? `${Math.round(us / 1000)} ms` : `${(us / 1e6).toFixed(1)} s`;
