// The numbers: totals, bars by component and tensor, memories over time, the four cases, the roofline.
import { h, s, title, percent } from "./dom.js";

const LABELS = { energy: "energy", latency: "latency", edp: "EDP" };

export function numbersView(app) {
  const totals = h("div", { class: "totals" });
  const bars = h("div", {});
  const use = h("div", {});
  const problem = h("p", { class: "problem", role: "alert" });
  const more = ["Memories over time", "Reuse: the four cases", "Roofline"].map((name) => {
    const box = h("details", {}, h("summary", {}, name), h("div", { class: "scrolls" }));
    box.addEventListener("toggle", () => box.open && app.details());
    return box;
  });
  const explained = h("pre", { class: "scrolls", tabindex: 0 });
  const explanation = h("details", { class: "explanation" }, h("summary", {}, "Explanation"), explained);
  const notes = h("ul", { class: "notes" });
  const noted = h("details", {}, h("summary", {}, "Notes and advice"), notes);
  noted.addEventListener("toggle", () => noted.open && app.notes());
  const root = h("section", { class: "numbers", "aria-label": "Numbers" }, problem, totals, bars, use, explanation, ...more, noted);
  const view = { root, wantsDetails: () => more.some((box) => box.open), wantsNotes: () => noted.open };
  view.show = (state) => {
    problem.textContent = state.problem;
    problem.hidden = !state.problem;
    totals.replaceChildren(...(state.numbers ?? []).map(total));
    const { energy = [], latency = [] } = state.bars ?? {};
    bars.replaceChildren(chart(app, "Energy", energy), chart(app, "Busy time", latency));
    use.replaceChildren(...usage(state.usage ?? []));
  };
  view.notes = (texts) => notes.replaceChildren(...(texts.length ? texts : ["nothing to note"]).map((text) => h("li", {}, text)));
  view.explain = (text) => {
    explained.textContent = text;
    explanation.open = true;
  };
  view.details = (found) => {
    more[0].lastChild.replaceChildren(...found.occupancy.map(occupancy));
    more[1].lastChild.replaceChildren(cases(app, found.cases));
    more[2].lastChild.replaceChildren(roofline(found.roofline));
  };
  return view;
}

function total(row) {
  const change = row.change ? h("span", { class: `change ${row.tone}` }, row.change === "equal" ? "as before" : `${row.change} by the last step`) : h("span", { class: "change" }, " ");
  const gap = row.gap ? h("span", { class: "gap" }, `${row.gap} above the optimum`) : null;
  return h("div", { class: "total", "data-name": row.name, "data-value": row.value }, h("span", {}, LABELS[row.name]), h("b", {}, row.text), change, gap);
}

function chart(app, name, rows) {
  const most = Math.max(...rows.map((row) => Math.max(row.value, row.before ?? 0)), 0);
  const names = [...new Set(rows.flatMap((row) => row.parts.map((part) => part.name)))];
  const box = h("div", { class: "chart" }, h("h3", {}, name));
  for (const row of rows) {
    const bar = h("div", { class: "bar" });
    const parts = row.parts.length ? row.parts : [{ name: row.name, id: null, value: row.value, text: row.text }];
    for (const part of parts) {
      const width = most ? (100 * part.value) / most : 0;
      const colour = row.parts.length ? names.indexOf(part.name) % 11 : 4;
      bar.append(h("button", {
        type: "button", class: "part", style: `width:${width}%;background:var(--series-${colour})`,
        title: `${row.name}, ${part.name}: ${part.text}`, "aria-label": `${name} of ${row.name}, ${part.name}: ${part.text}`,
        onclick: () => app.explain({ component: row.id, tensor: part.id }),
      }));
    }
    if (row.before !== null && most) bar.append(h("span", { class: "was", style: `left:${(100 * row.before) / most}%`, title: "before the last step" }));
    const changed = row.before ? change(row.value, row.before) : "";
    box.append(h("div", { class: "barred" }, h("button", { type: "button", class: "name", onclick: () => app.explain({ component: row.id }) }, row.name), bar, h("span", { class: "value" }, row.text, changed && h("i", {}, ` ${changed}`))));
  }
  if (names.length > 1) box.append(h("p", { class: "legend" }, names.slice(0, 24).map((n, i) => h("span", {}, h("i", { style: `background:var(--series-${i % 11})` }), n))));
  return box;
}

function change(value, before) {
  const part = value / before - 1;
  if (Math.abs(part) < 0.0005) return "";
  return `${part > 0 ? "+" : "-"}${Math.abs(part) < 0.01 ? "<1%" : percent(Math.abs(part))}`;
}

function usage(rows) {
  if (!rows.length) return [];
  return [h("h3", {}, "In use at the fullest moment"), ...rows.map((row) =>
    h("div", { class: "barred" }, h("span", { class: "name" }, row.name),
      h("div", { class: "bar" }, h("span", { class: "part", style: `width:${Math.min(100, 100 * row.value)}%;background:var(--series-${row.value > 0.9 ? 5 : 2})` })), h("span", { class: "value" }, row.text)))];
}

function occupancy(memory) {
  const width = 320, height = 90;
  const most = Math.max(...memory.steps.map((step) => step.bits), memory.capacity && memory.steps.some((t) => t.bits > memory.capacity / 5) ? memory.capacity : 0, 1);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "plot" });
  const step = width / memory.steps.length;
  const names = [...new Set(memory.steps.flatMap((one) => one.parts.map((part) => part.name)))];
  memory.steps.forEach((one, i) => {
    let below = height;
    for (const part of one.parts) {
      const tall = (height * part.bits) / most;
      below -= tall;
      svg.append(title(s("rect", { x: i * step, y: below, width: Math.max(step - 1, 0.5), height: tall, fill: `var(--series-${names.indexOf(part.name) % 11})` }), `while ${one.einsum} runs: ${part.name} ${part.text}`));
    }
  });
  if (memory.capacity && memory.capacity <= most) {
    const y = height - (height * memory.capacity) / most + 0.5;
    svg.append(s("line", { x1: 0, x2: width, y1: y, y2: y, stroke: "var(--ink)", "stroke-dasharray": "4 3" }));
  }
  return h("figure", {}, h("figcaption", {}, `${memory.memory} (${memory.text}): ${memory.steps.map((one) => one.einsum).slice(0, 12).join(", ")}`), svg);
}

function cases(app, rows) {
  const head = ["", "above, rank not in it: fetched again", "above, rank in it: chunks", "below, rank not in it: used again", "below, rank in it: the tile"];
  const body = rows.slice(0, 120).map((row) =>
    h("tr", {}, h("th", {}, h("button", { type: "button", class: "link", onclick: () => app.explain({ tensor: row.tensor, component: row.component }) }, `${row.tensor} in ${row.component}`), h("br"), h("i", {}, row.einsum)),
      h("td", {}, row.above_other || "-", h("br"), `each chunk fetched ${row.fetches.toLocaleString("en")} x`), h("td", {}, row.above_own || "-", h("br"), row.chunks === null ? "" : `${row.chunks.toLocaleString("en")} chunks`),
      h("td", {}, row.below_other || "-", h("br"), `each value used ${row.used} x`), h("td", {}, row.below_own || "-", h("br"), `tile ${row.tile.replaceAll("x", "×")}`)));
  return h("table", {}, h("thead", {}, h("tr", {}, head.map((text) => h("th", {}, text)))), h("tbody", {}, body));
}

function roofline({ points, bandwidths, peaks }) {
  if (!points.length) return h("p", { class: "muted" }, "nothing that limits");
  const width = 340, height = 200, edge = 8;
  const peak = Math.max(...peaks.map((p) => p.rate), ...points.map((p) => p.y));
  const xs = points.map((p) => p.x), ys = points.map((p) => p.y);
  const ridges = bandwidths.map((roof) => peak / roof.rate);
  const [left, right] = [Math.log10(Math.min(...xs, ...ridges)) - 0.4, Math.log10(Math.max(...xs, ...ridges)) + 0.4];
  const [low, high] = [Math.log10(Math.min(...ys)) - 0.5, Math.log10(peak) + 0.3];
  const x = (v) => edge + ((Math.log10(v) - left) / (right - left)) * (width - 2 * edge);
  const y = (v) => height - edge - ((Math.log10(v) - low) / (high - low)) * (height - 2 * edge);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "plot" });
  for (const one of peaks) svg.append(title(s("line", { x1: edge, x2: width - edge, y1: y(one.rate), y2: y(one.rate), stroke: "var(--ink)", "stroke-dasharray": "5 3" }), `peak of ${one.name}`));
  bandwidths.forEach((roof, i) => {
    const end = Math.min(10 ** right, peak / roof.rate), begin = Math.max(10 ** left, 10 ** low / roof.rate);
    if (begin < end) svg.append(title(s("line", { x1: x(begin), y1: y(begin * roof.rate), x2: x(end), y2: y(end * roof.rate), stroke: `var(--series-${i % 11})`, "stroke-width": 2 }), `bandwidth of ${roof.name}`));
  });
  for (const p of points) {
    const i = bandwidths.findIndex((roof) => roof.name === p.memory);
    svg.append(title(s("circle", { cx: x(p.x), cy: y(p.y), r: 4, fill: `var(--series-${Math.max(i, 0) % 11})`, stroke: "var(--paper)" }), `${p.einsum} at ${p.memory}: ${p.x.toPrecision(3)} operations a byte, ${p.y.toPrecision(3)} a second`));
  }
  return h("figure", {}, svg, h("figcaption", {}, "operations a second over operations a byte; a point for each Einsum and memory"));
}
