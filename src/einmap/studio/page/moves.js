// The moves of the selected node: sliders for tile shapes, buttons for the rest, each with the reason where it is barred.
import { h } from "./dom.js";

export function movesView(app) {
  const chosen = h("div", {});
  const root = h("section", { class: "moves", "aria-label": "Moves of the selected node" }, chosen, anyRewrite(app));
  return { root, show: (node, options, tensor) => showMoves(app, chosen, node, options, tensor), clear: () => chosen.replaceChildren(hint()) };
}

// Any rewrite as the command line takes it.
function anyRewrite(app) {
  const input = h("input", { "aria-label": "a rewrite", placeholder: "tile m 8 n 4", spellcheck: "false", maxlength: 2000, "data-do": "rewrite" });
  const go = async () => (await app.move(input.value.trim())).kind === "state" && (input.value = "");
  input.addEventListener("keydown", (event) => event.key === "Enter" && input.value.trim() && go());
  return h("label", { class: "row written" }, "or any rewrite: ", input);
}

function hint() {
  return h("p", { class: "muted" }, "Drag a block, or choose one: arrows walk, Alt + arrows move, [ and ] change a tile shape, Delete removes a storage node, P pins.");
}

function showMoves(app, root, node, options, tensor) {
  const focused = document.activeElement?.dataset?.move;
  // a slider that is being moved stays: a new one would end the movement
  const held = focused === "shape" && root.querySelector("label.slider")?.dataset.at === node.at ? root.querySelector("label.slider") : null;
  root.replaceChildren(h("h3", {}, node.text || "split", h("code", {}, ` ${node.at}`)), ...(held ? [held] : []));
  if (node.kind === "storage" && node.tensors.length > 1) root.append(part(app, node, tensor));
  const shapes = options.filter((o) => o.kind === "shape");
  const splits = options.filter((o) => o.kind === "split");
  if (shapes.length > 1 && shapes.some((o) => !o.why) && !held) root.append(slider(app, node, shapes));
  if (splits.some((o) => !o.why)) root.append(chooser(app, "a loop above, of tiles of", splits, (o) => o.value));
  for (const [kind, words] of [["first", "the first tile of"], ["group", "as one branch"], ["past", "past this memory"]]) {
    const offered = options.filter((o) => o.kind === kind);
    if (offered.some((o) => !o.why)) root.append(chooser(app, words, offered, (o) => o.value ?? o.label));
  }
  const kept = options.filter((o) => o.kind === "keep");
  if (kept.some((o) => !o.why)) root.append(chooser(app, "also", kept, (o) => o.label));
  const places = options.filter((o) => o.judged === false).length;
  const merges = options.filter((o) => o.kind === "merge" && !o.why);
  if (merges.length > 2) root.append(chooser(app, "merge", merges, (o) => o.label));
  const others = options.filter((o) => !CHOSEN.includes(o.kind) && o.judged !== false && !(merges.length > 2 && merges.includes(o)));
  const list = h("div", { class: "buttons" });
  if (node.kind !== "split") list.append(h("button", { type: "button", "data-move": "pin", onclick: () => app.ask({ do: "pin", node: node.at }) }, node.pinned ? "unpin" : "pin"));
  for (const option of others.filter((o) => !o.why)) list.append(button(app, option));
  root.append(list);
  if (places) root.append(h("p", { class: "muted" }, `${places} further places: drag the block there`));
  const barred = [...others, ...shapes.slice(0, 1), ...splits.slice(0, 1), ...options.filter((o) => o.kind === "group" || o.kind === "first").slice(0, 1)].filter((o) => o.why);
  if (barred.length)
    root.append(h("details", {}, h("summary", {}, `${barred.length} that do not apply`), h("ul", {}, barred.map((o) => h("li", {}, h("code", {}, o.shown), `: ${o.why}`)))));
  if (focused && !held) root.querySelector(`[data-move="${CSS.escape(focused)}"]`)?.focus();
}

// Kinds of moves that are chosen from a list.
const CHOSEN = ["shape", "split", "keep", "first", "group", "past"];

// All tensors of a storage node, or one: the moves below are of what is chosen.
function part(app, node, tensor) {
  const select = h("select", { "aria-label": "tensors to move", "data-move": "part" }, h("option", { value: "" }, "all of them"), node.tensors.map((one) => h("option", { value: one.id, selected: one.id === tensor }, one.name)));
  select.addEventListener("change", () => app.options(select.value || null));
  return h("label", { class: "row" }, "move ", select);
}

function button(app, option) {
  return h("button", { type: "button", "data-move": option.text, title: option.shown, onclick: () => app.move(option.text) }, option.label);
}

function slider(app, node, shapes) {
  const at = Math.max(0, shapes.findIndex((o) => String(o.value) === node.shape || o.text.endsWith(` ${node.shape}`)));
  const said = h("output", {}, node.shape);
  let moved = false;
  const input = h("input", { type: "range", min: 0, max: shapes.length - 1, step: 1, value: at, "aria-label": "tile shape", "data-move": "shape" });
  input.addEventListener("input", () => {
    const option = shapes[Number(input.value)];
    said.textContent = option.why ? `${option.value}: ${option.why}` : option.value;
    if (option.why) return;
    app.latest(option.text, moved);
    moved = true;
  });
  return h("label", { class: "slider", "data-at": node.at }, "tile shape ", input, said);
}

function chooser(app, words, options, name) {
  const select = h("select", { "aria-label": words }, options.map((o, i) => h("option", { value: i, disabled: !!o.why, title: o.why ?? "" }, String(name(o)))));
  select.value = String(Math.max(0, options.findIndex((o) => !o.why)));
  const go = () => app.move(options[Number(select.value)].text);
  return h("div", { class: "row" }, words, select, h("button", { type: "button", "data-move": words, onclick: go }, "do"));
}
