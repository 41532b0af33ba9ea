// A run, step by step: for each tensor its values as a field, the tile that each memory holds as a frame in it; counters.
import { h, s } from "./dom.js";

const FIELD = 132; // pixels of the longer side of a tensor

export function playView(run, hues) {
  const last = run.frames.length - 1;
  const slider = h("input", { type: "range", min: 0, max: last, value: 0, "aria-label": "step", "data-do": "step" });
  const said = h("output", {});
  const fields = h("div", { class: "fields" });
  const counters = h("tbody", {});
  const speed = h("select", { "aria-label": "frames a second" }, [1, 2, 5, 10, 30].map((n) => h("option", { value: n, selected: n === 5 }, `${n} a second`)));
  const play = h("button", { type: "button", "data-do": "run" }, "play");
  let timer = null;
  const stop = () => {
    clearTimeout(timer);
    timer = null;
    play.textContent = "play";
  };
  const go = () => {
    if (!root.isConnected || Number(slider.value) >= last) return stop();
    slider.value = Number(slider.value) + 1;
    show();
    timer = setTimeout(go, 1000 / Number(speed.value));
    return null;
  };
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) >= last) slider.value = 0;
    play.textContent = "stop";
    return go();
  });
  slider.addEventListener("input", () => show());
  // The next iteration of the loop above a storage node brings its next tile.
  const nodes = [...new Map(run.frames.flatMap((frame) => frame.tiles.map((tile) => [`${tile.at} ${tile.tensor}`, `${tile.tensor} in ${tile.memory}`])))];
  const jump = h("select", { "aria-label": "jump to the next tile of", "data-do": "jump" }, h("option", { value: "" }, "jump to the next tile of"), nodes.map(([key, name]) => h("option", { value: key }, name)));
  jump.addEventListener("change", () => {
    const next = run.frames.findIndex((frame, i) => i > Number(slider.value) && frame.tiles.some((tile) => `${tile.at} ${tile.tensor}` === jump.value));
    jump.value = "";
    if (next < 0) return;
    stop();
    slider.value = next;
    show();
  });
  const memories = [...new Set(run.frames.flatMap((frame) => frame.tiles.map((tile) => tile.memory)))];
  const show = () => {
    const now = Number(slider.value), held = new Map(), counts = new Map();
    run.frames.slice(0, now + 1).forEach((frame) => {
      frame.tiles.forEach((tile) => held.set(`${tile.at} ${tile.tensor}`, tile));
      frame.moves.forEach((move) => counts.set(`${move.memory}|${move.action}|${move.tensor}`, (counts.get(`${move.memory}|${move.action}|${move.tensor}`) ?? 0) + move.count));
    });
    said.textContent = `frame ${now + 1} of ${last + 1}, after ${run.frames[now].step.toLocaleString("en")} operations`;
    fields.replaceChildren(...Object.entries(run.shapes).map(([name, shape]) => field(name, shape, [...held.values()].filter((tile) => tile.tensor === name), memories, hues)));
    counters.replaceChildren(...[...counts].map(([key, count]) => h("tr", {}, key.split("|").map((word) => h("td", {}, word)), h("td", { class: "count" }, count.toLocaleString("en")))));
  };
  const head = h("tr", {}, ["memory", "action", "tensor", "values so far"].map((word) => h("th", {}, word)));
  const root = h("div", { class: "play" }, h("div", { class: "row" }, play, speed, slider, jump, said), h("p", { class: "legend" }, memories.map((name) => h("span", {}, h("i", { style: `background:var(--edge-${hues[name]})` }), name))), fields, h("table", {}, h("thead", {}, head), counters));
  show();
  return root;
}

// A tensor of more than two ranks is a field of its last two; of the others the tile says where it is.
function field(name, shape, tiles, memories, hues) {
  const [rows, columns] = shape.length > 1 ? shape.slice(-2) : [1, shape[0] ?? 1];
  const scale = FIELD / Math.max(rows, columns);
  const width = Math.max(columns * scale, 8), height = Math.max(rows * scale, 8);
  const svg = s("svg", { width: width + 4, height: height + 4, viewBox: `-2 -2 ${width + 4} ${height + 4}`, role: "img" });
  svg.append(s("rect", { width, height, fill: "var(--ground)", stroke: "var(--line)" }));
  for (const tile of tiles) {
    const ranges = tile.ranges.length > 1 ? tile.ranges.slice(-2) : [[0, 0], tile.ranges[0] ?? [0, 0]];
    const inset = 2 * memories.indexOf(tile.memory);
    const [[top, bottom], [left, right]] = ranges;
    svg.append(s("rect", {
      x: (left * width) / columns + inset, y: (top * height) / rows + inset,
      width: Math.max(((right - left + 1) * width) / columns - 2 * inset, 2), height: Math.max(((bottom - top + 1) * height) / rows - 2 * inset, 2),
      fill: `var(--edge-${hues[tile.memory]})`, "fill-opacity": memories.indexOf(tile.memory) ? 0.35 : 0.1, stroke: `var(--edge-${hues[tile.memory]})`, "stroke-width": 2,
    }));
  }
  const outer = tiles.at(-1)?.ranges.slice(0, -2) ?? [];
  const where = outer.length ? ` at ${outer.map(([a, b]) => (a === b ? a : `${a}-${b}`)).join(", ")}` : "";
  return h("figure", {}, svg, h("figcaption", {}, `${name} ${shape.join("×")}${where}`));
}
