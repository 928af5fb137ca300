// SPDX-License-Identifier: BSD-2-Clause
// Run in the page: texts whose contrast to what is behind them is below 4.5 to 1.
const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parts = (text) => text.match(/[\d.]+/g).map(Number);
const behind = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const c = parts(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c;
  }
  return [255, 255, 255];
};
const weak = [];
for (const element of document.querySelectorAll('body *')) {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !element.offsetParent || element.disabled || element.closest('.stale')) continue;
  const a = light(parts(getComputedStyle(element).color)), b = light(behind(element));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) weak.push(`${ratio.toFixed(2)} ${element.tagName} ${element.className} "${element.textContent.trim().slice(0, 40)}"`);
}
return weak;
