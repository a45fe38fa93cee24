"use strict";
const { columns, begin, slice, shares, rows } = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const step = 100;
let shown = step, order = -1, down = false, list = []; // order: by a column, or -1 as they are ranked

const percent = x => x == null ? "" : +(100 * x).toPrecision(3) + "%";
const cpus = x => x == null ? "" : String(+x.toFixed(2) || +x.toPrecision(2));

function element(name, text, attributes) {
  const e = svg.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  if (text != null) e.textContent = text;
  for (const a in attributes) e.setAttribute(a, attributes[a]);
  return e;
}
const svg = new Set(["svg", "rect", "polyline", "circle", "line", "text"]);

// What a column shows, and by what it is sorted.
const cells = [
  r => [r.namespace + "/" + r.name + "/" + r.container],
  r => [percent(r.all), r.finding == "throttled"],
  r => [percent(r.timer)],
  r => [cpus(r.mean)],
  r => [cpus(r.limit)],
  r => [cpus(r.request)],
  r => [cpus(r.freed)],
  r => [r.advice],
];
const keys = [r => r.namespace + "/" + r.name, r => r.all, r => r.timer, r => r.mean, r => r.limit, r => r.request, r => r.freed, r => r.advice];

function chart(r) {
  const width = 480, height = 130, left = 40, bottom = 105, top = 12, n = r.slices.length;
  const most = Math.max(0.02, ...r.slices.map(s => s[0] ?? 0)), high = Math.max(r.limit ?? 0, 0.01, ...r.slices.map(s => s[1] ?? 0));
  const x = i => left + (i + 0.5) * (width - 2 * left) / n, y = share => bottom - share * (bottom - top);
  const e = element("svg", null, { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Throttled periods and CPUs used over time" });
  e.append(element("line", null, { class: "axis", x1: left, x2: width - left, y1: bottom, y2: bottom }));
  const points = [];
  r.slices.forEach(([throttled, used], i) => {
    const when = new Date(begin + (i + 0.5) * slice);
    if (throttled != null) e.append(element("rect", null, { class: "bar", x: x(i) - 12, width: 24, y: y(throttled / most), height: bottom - y(throttled / most) }));
    if (used != null) {
      points.push(`${x(i)},${y(used / high)}`);
      e.append(element("circle", null, { class: "dot", cx: x(i), cy: y(used / high), r: 3 }));
    }
    e.append(element("text", slice >= 864e5 ? when.toISOString().slice(5, 10) : when.toISOString().slice(11, 16), { x: x(i), y: height - 10, "text-anchor": "middle" }));
  });
  e.append(element("polyline", null, { class: "line", points: points.join(" ") }));
  for (const [at, share, used] of [[top + 4, most, high], [bottom, 0, 0]]) {
    e.append(element("text", percent(share), { x: left - 4, y: at, "text-anchor": "end" }));
    e.append(element("text", cpus(used) || "0", { x: width - left + 4, y: at }));
  }
  return e;
}

// What one container wanted in a period, and its limit.
function demandChart(r) {
  const width = 480, height = 40 + 22 * r.demand.length, left = 120, right = 430, bottom = height - 18;
  const most = Math.max(r.limit ?? 0, ...r.demand), x = cpus => left + cpus / most * (right - left);
  const e = element("svg", null, { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Demand of one container in a period" });
  if (r.limit) {
    e.append(element("line", null, { class: "limit", x1: x(r.limit), x2: x(r.limit), y1: 4, y2: bottom }));
    e.append(element("text", "limit " + cpus(r.limit), { x: x(r.limit), y: height - 5, "text-anchor": "middle" }));
  }
  r.demand.forEach((demand, i) => {
    const y = 10 + 22 * i;
    e.append(element("text", percent(shares[i]) + " of periods", { x: left - 6, y: y + 11, "text-anchor": "end" }));
    e.append(element("rect", null, { class: "demand", x: left, width: x(demand) - left, y, height: 14 }));
    e.append(element("text", "up to " + (cpus(demand) || "0"), { x: x(demand) + 4, y: y + 11 }));
  });
  return e;
}

function evidence(r) {
  const row = element("tr", null, { class: "evidence" }), cell = element("td", null, { colspan: columns.length });
  for (const text of r.evidence) cell.append(element("p", text));
  for (const [limit, without, burst] of r.effects ?? [])
    cell.append(element("p", `A limit of ${cpus(limit)} throttles ${percent(without)} of independent periods of this demand, and ${percent(burst)} with a burst of one quota.`));
  if (r.slices.length > 0) cell.append(chart(r), element("p", "Bars: share of throttled periods (left). Line: CPUs used by one container (right" + (r.limit ? ", up to its limit)." : ").")));
  if (r.demand) cell.append(demandChart(r), element("p", "CPUs that one container wanted in a period, as agents know."));
  row.append(cell);
  return row;
}

function draw() {
  const body = $("rows");
  body.textContent = "";
  for (const r of list.slice(0, shown)) {
    const row = element("tr");
    cells.forEach((cell, i) => {
      const [text, alert] = cell(r), td = element("td", null, i > 0 ? { "data-name": columns[i] } : {});
      if (i > 0) {
        td.textContent = text;
        if (alert) td.className = "alert";
      } else {
        const open = element("button", null, { type: "button", "aria-expanded": "false" });
        open.append(element("span", r.namespace + "/", { class: "namespace" }), r.kind + "/" + r.name + " " + r.container);
        open.onclick = () => {
          const is = open.getAttribute("aria-expanded") == "true";
          open.setAttribute("aria-expanded", String(!is));
          if (is) row.nextSibling.remove(); else row.after(evidence(r));
        };
        td.append(open);
      }
      row.append(td);
    });
    body.append(row);
  }
  $("more").hidden = shown >= list.length;
  $("count").textContent = `${list.length} of ${rows.length}`;
}

function select() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(w => w), show = $("show").value;
  list = rows.filter(r => (show == "all" || show == "throttled" && r.finding == "throttled" || show == "advice" && r.advice) &&
    words.every(w => (r.namespace + "/" + r.kind + "/" + r.name + "/" + r.container).toLowerCase().includes(w)));
  if (order >= 0) {
    const key = keys[order];
    list.sort((a, b) => {
      const p = key(a) ?? -1, q = key(b) ?? -1;
      return (p < q ? -1 : p > q ? 1 : 0) * (down ? -1 : 1);
    });
  }
  shown = step;
  draw();
}

columns.forEach((name, i) => {
  const th = element("th"), button = element("button", name, { type: "button" });
  button.onclick = () => {
    down = order == i ? !down : i > 0 && i < columns.length - 1;
    order = i;
    for (const other of $("head").children) other.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", down ? "descending" : "ascending");
    select();
  };
  th.append(button);
  $("head").append(th);
});
$("search").oninput = $("show").onchange = select;
$("more").onclick = () => { shown += step; draw(); };
document.forms[0].onsubmit = e => e.preventDefault();
if (!rows.some(r => r.advice)) $("show").value = "all";
select();
