'use strict';
const columns = [
  {title: 'Verdict', of: r => r.verdict, sort: r => r.rank, cell: 'verdict'},
  {title: 'Workload', of: r => r.namespace + '/' + r.workload, cell: 'wide'},
  {title: 'Container', of: r => r.container, label: 'container'},
  {title: 'Pods', of: r => String(r.pods), sort: r => r.pods, number: true, label: 'pods'},
  {title: 'CPUs', of: r => r.cpus < 0 ? 'unknown' : r.cpus.toFixed(3), sort: r => r.cpus, number: true, label: 'uses CPUs'},
  {title: 'Limit', of: r => r.limit, sort: r => r.limitCPUs, number: true, label: 'limit'},
  {title: 'Throttled', of: r => r.throttled, sort: r => r.throttledShare, number: true, label: 'throttled'},
  {title: 'Set', of: r => r.set, label: 'set'},
  {title: 'Then throttled', of: r => r.predicted, sort: r => r.predictedShare, number: true, label: 'then'},
];
const step = 100;
let shown = [], drawn = 0, column = null, down = false;
const chosen = new Set(), byID = id => document.getElementById(id);

function element(name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

function draw() {
  const body = byID('rows'), part = document.createDocumentFragment();
  for (const row of shown.slice(drawn, drawn + step)) {
    const tr = element('tr', undefined, 'row');
    tr.tabIndex = 0;
    for (const c of columns) {
      const td = element('td', c.of(row), (c.number ? 'number ' : '') + (c.cell || '') + (c.cell === 'verdict' ? ' ' + row.verdict : ''));
      if (c.label) td.dataset.label = c.label;
      tr.append(td);
    }
    const toggle = () => {
      if (tr.nextSibling && tr.nextSibling.className === 'details') { tr.nextSibling.remove(); return; }
      const details = element('tr', undefined, 'details'), td = element('td');
      td.colSpan = columns.length;
      for (const text of row.details) td.append(element('p', text));
      if (row.command) { const p = element('p'); p.append(element('code', row.command)); td.append(p); }
      details.append(td);
      tr.after(details);
    };
    tr.addEventListener('click', toggle);
    tr.addEventListener('keydown', e => { if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); toggle(); } });
    part.append(tr);
  }
  body.append(part);
  drawn = Math.min(shown.length, drawn + step);
  byID('more').textContent = shown.length === 0 ? 'None.' : drawn < shown.length ? drawn + ' of ' + shown.length : '';
}

function choose() {
  const words = byID('search').value.toLowerCase().split(/\s+/);
  shown = all.filter(r => (chosen.size === 0 || chosen.has(r.verdict)) && words.every(w => r.text.includes(w)));
  if (column) {
    const key = column.sort || column.of;
    shown.sort((a, b) => { const x = key(a), y = key(b); return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1); });
  }
  byID('rows').replaceChildren();
  drawn = 0;
  draw();
}

for (const r of all) r.text = (r.namespace + '/' + r.workload + ' ' + r.container).toLowerCase();
const counts = new Map();
for (const r of all) counts.set(r.verdict, (counts.get(r.verdict) || 0) + 1);
for (const [verdict, n] of counts) {
  const b = element('button', verdict + ' ' + n, verdict);
  b.setAttribute('aria-pressed', 'false');
  b.addEventListener('click', () => {
    chosen.has(verdict) ? chosen.delete(verdict) : chosen.add(verdict);
    b.setAttribute('aria-pressed', chosen.has(verdict));
    choose();
  });
  byID('filters').append(b);
}
for (const c of columns) {
  const th = element('th', c.title, c.number ? 'number' : '');
  th.tabIndex = 0;
  const sort = () => {
    down = column === c ? !down : !!c.number;
    column = c;
    for (const other of byID('head').children) other.removeAttribute('aria-sort');
    th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    choose();
  };
  th.addEventListener('click', sort);
  th.addEventListener('keydown', e => { if (e.key === 'Enter') sort(); });
  byID('head').append(th);
}
byID('search').addEventListener('input', choose);
new IntersectionObserver(entries => { if (entries[0].isIntersecting && drawn < shown.length) draw(); }, {rootMargin: '400px'}).observe(byID('more'));
choose();
