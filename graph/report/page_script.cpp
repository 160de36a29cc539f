#include "graph/report/page_parts.h"

namespace kumiko::graph {

const char *const page_rules = R"(
body { max-width: 80rem } h1 { overflow-wrap: anywhere }
.view { border: 1px solid var(--line); border-radius: 6px } svg.graph { display: block }
.sheet .view { height: 34rem; max-height: 75vh; overflow: hidden }
.sheet svg.graph { width: 100%; height: 100%; touch-action: none; cursor: grab }
svg.graph[hidden] { display: none }
.box { cursor: pointer } .box rect, .end rect { fill: var(--box); stroke: var(--soft); stroke-width: 1 }
.end rect { fill: var(--page); stroke-dasharray: 4 3 }
.box .heat { fill: var(--chance); stroke: none } .box text, .end text { fill: var(--ink) }
.box text.time { text-anchor: end; font-weight: 600 } .box text.name { font-weight: 600 }
.box.on rect:first-of-type { stroke: var(--best); stroke-width: 3 }
.edge { fill: none; stroke: var(--soft); opacity: .55 } .edge.on { stroke: var(--best); opacity: 1 }
.tools { display: flex; flex-wrap: wrap; gap: .4rem; margin-bottom: .5rem }
.tools button, .tools select, .tools input { font: inherit; color: inherit; background: var(--box); padding: .15rem .7rem;
  border: 1px solid var(--line); border-radius: 6px; max-width: 100% }
.buffer { stroke: var(--page); stroke-width: .5; fill: var(--best) } .buffer:hover { fill: var(--good) }
.b0 { opacity: .85 } .b1 { opacity: .65 } .b2 { opacity: .5 } .b3 { opacity: .75 }
figure.wide { min-width: 56rem; margin-bottom: 0 } i.best { opacity: .7 }
.sortable thead th { cursor: pointer; vertical-align: bottom } .sortable th[aria-sort=ascending]::after { content: " ↑" }
.sortable th[aria-sort=descending]::after { content: " ↓" }
.step { border-top: 1px solid var(--line); overflow-wrap: anywhere } .step th { font-weight: 400; color: var(--soft); white-space: nowrap }
.step pre { max-height: 22rem; white-space: pre-wrap } summary { cursor: pointer; margin: 1rem 0 }
@media (min-width: 60rem) { .sheet { display: grid; grid-template-columns: 1fr 24rem; gap: 1.2rem }
  .sheet #details { overflow-y: auto; height: 34rem; max-height: 75vh } .sheet .step { border: none }
  .sheet .step h3 { margin-top: 0 } }
)";

// With scripts, the details stand beside the drawing, and only those of the selected step are
// shown.
const char *const page_script = R"(
'use strict';
const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
const view = document.querySelector('.view'), details = document.getElementById('details');
const none = document.getElementById('none'), graphs = all('svg.graph'), list = document.getElementById('list');
const sheet = document.createElement('div');
sheet.className = 'sheet';
view.before(sheet);
sheet.append(view, details);
const whole = new Map(graphs.map(g => [g, { x: g.viewBox.baseVal.x, y: g.viewBox.baseVal.y,
  w: g.viewBox.baseVal.width, h: g.viewBox.baseVal.height }]));
const part = new Map();
let graph = graphs[0], selected = null;

function look(p) {
  part.set(graph, p);
  graph.setAttribute('viewBox', [p.x, p.y, p.w, p.h].join(' '));
}
// The part around a point, at a scale in pixels for each unit of the drawing.
function around(x, y, scale) {
  const w = view.clientWidth / scale, h = view.clientHeight / scale;
  look({ x: x - w / 2, y: y - h / 2, w, h });
}
function scale() { return view.clientWidth / part.get(graph).w; }
function show_all() {
  const a = whole.get(graph);
  around(a.x + a.w / 2, a.y + a.h / 2, Math.min(view.clientWidth / a.w, view.clientHeight / a.h));
}
function box_of(step) { return document.querySelector('.box[data-step="' + step + '"]'); }
function middle(box) {
  const r = box.querySelector('rect');
  return [+r.getAttribute('x') + r.getAttribute('width') / 2, +r.getAttribute('y') + r.getAttribute('height') / 2];
}
// The first boxes at the size of the page's text; a small graph as a whole.
function show_text() {
  if (selected !== null && box_of(selected).closest('svg') === graph) return around(...middle(box_of(selected)), 1);
  const a = whole.get(graph), fit = Math.min(view.clientWidth / a.w, view.clientHeight / a.h);
  if (fit >= 0.8) return around(a.x + a.w / 2, a.y + a.h / 2, Math.min(fit, 1.2));
  const middles = all('.box, .end', graph).map(middle), top = Math.min(...middles.map(m => m[1]));
  const first = middles.filter(m => m[1] === top);
  around(first.reduce((sum, m) => sum + m[0], 0) / first.length, a.y + view.clientHeight / 2, 1);
}
function open_graph(g) {
  graph = g;
  for (const other of graphs) other.toggleAttribute('hidden', other !== g);
  if (list) list.value = graphs.indexOf(g);
  if (!part.has(g)) show_text();
}
function zoom(factor, x, y) {
  const p = part.get(graph), a = whole.get(graph);
  const least = 0.5 * Math.min(view.clientWidth / a.w, view.clientHeight / a.h), now = scale();
  const k = Math.min(Math.max(now * factor, Math.min(least, 1)), 4) / now;
  look({ x: p.x + x * p.w * (1 - 1 / k), y: p.y + y * p.h * (1 - 1 / k), w: p.w / k, h: p.h / k });
}
function select(step, move) {
  const box = box_of(step), section = document.getElementById('step' + step);
  if (!box || !section) return;
  selected = step;
  open_graph(box.closest('svg'));
  for (const b of all('.box.on, .edge.on')) b.classList.remove('on');
  box.classList.add('on');
  for (const e of all('.edge', graph)) if (e.dataset.a === String(step) || e.dataset.b === String(step)) e.classList.add('on');
  for (const s of all('.step')) s.hidden = s !== section;
  none.hidden = true;
  if (move) around(...middle(box), Math.max(scale(), 0.8));
}
for (const s of all('.step')) s.hidden = true;

// Pointers: one moves, two zoom. A click without a move selects.
const pointers = new Map();
let moved = 0;
function place(e) {
  const r = view.getBoundingClientRect();
  return { x: (e.clientX - r.left) / r.width, y: (e.clientY - r.top) / r.height };
}
view.addEventListener('pointerdown', e => { pointers.set(e.pointerId, place(e)); moved = 0; });
addEventListener('pointermove', e => {
  const before = pointers.get(e.pointerId);
  if (!before) return;
  const now = place(e), p = part.get(graph);
  const other = Array.from(pointers).find(([id]) => id !== e.pointerId);
  pointers.set(e.pointerId, now);
  moved += Math.abs(now.x - before.x) * view.clientWidth + Math.abs(now.y - before.y) * view.clientHeight;
  if (other) {
    const gap = q => Math.hypot((q.x - other[1].x) * view.clientWidth, (q.y - other[1].y) * view.clientHeight);
    zoom(gap(now) / Math.max(gap(before), 1), other[1].x, other[1].y);
  } else {
    look({ x: p.x - (now.x - before.x) * p.w, y: p.y - (now.y - before.y) * p.h, w: p.w, h: p.h });
  }
});
for (const end of ['pointerup', 'pointercancel']) addEventListener(end, e => pointers.delete(e.pointerId));
view.addEventListener('click', e => {
  const box = e.target.closest('.box');
  if (box && moved < 6) history.replaceState(null, '', '#step' + box.dataset.step), select(box.dataset.step, false);
});
view.addEventListener('wheel', e => {
  e.preventDefault();
  const at = place(e);
  zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0015)), at.x, at.y);
}, { passive: false });
for (const b of all('[data-zoom]')) b.addEventListener('click', () => {
  if (b.dataset.zoom === 'all') show_all();
  else if (b.dataset.zoom === 'text') show_text();
  else zoom(+b.dataset.zoom, 0.5, 0.5);
});
if (list) list.addEventListener('change', () => open_graph(graphs[list.value]));
document.getElementById('find').addEventListener('change', e => {
  const text = e.target.value.toLowerCase();
  const found = text && all('.step').filter(s => s.textContent.toLowerCase().includes(text));
  if (!found || !found.length) return;
  const next = found.find(s => +s.id.slice(4) > +(selected === null ? -1 : selected)) || found[0];
  select(next.id.slice(4), true);
});

// Tables: a click on a head sorts, a second one the other way round.
for (const table of all('.sortable')) all('thead th', table).forEach((head, column) => head.addEventListener('click', () => {
  const up = head.getAttribute('aria-sort') === 'descending';
  for (const h of all('thead th', table)) h.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const key = r => { const c = r.cells[column]; return c.dataset.v === undefined ? c.textContent : +c.dataset.v; };
  const body = table.tBodies[0], order = (a, b) => a < b ? -1 : a > b ? 1 : 0;
  body.append(...Array.from(body.rows).sort((a, b) => (up ? 1 : -1) * order(key(a), key(b))));
}));

function follow() {
  if (!/^#step\d+$/.test(location.hash)) return;
  select(location.hash.slice(5), true);
  document.getElementById('graph').scrollIntoView();
}
addEventListener('hashchange', follow);
addEventListener('resize', () => { const p = part.get(graph); around(p.x + p.w / 2, p.y + p.h / 2, scale()); });
open_graph(graph);
follow();
)";

} // namespace kumiko::graph
