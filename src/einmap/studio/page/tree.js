// The LoopTree as blocks: drawn, focused, dragged. What a drop means is decided by the session, which names the moves.
import { h, percent } from "./dom.js";

const FOLDED_FROM = 12; // branches of a split from which on each is folded
const MOST_CHIPS = 30; // tensors of a storage node that are shown one by one
const FAR = 5; // pixels that a pointer moves before it drags

export function treeView(app) {
  const root = h("div", { class: "tree", role: "tree", "aria-label": "LoopTree" });
  const view = { root, blocks: [], lists: new Map(), open: new Set(), drag: null };
  root.addEventListener("keydown", (event) => onKey(app, view, event));
  root.addEventListener("pointerdown", (event) => onDown(app, view, event));
  view.show = (tree) => showTree(app, view, tree);
  view.focus = (at) => focusBlock(view, view.blocks.find((block) => block.node.at === at));
  return view;
}

function showTree(app, view, tree) {
  view.blocks = [];
  view.lists = new Map();
  view.root.replaceChildren(listed(app, view, tree, ""));
  const kept = kin(view, app.selected) ?? null;
  view.blocks.forEach((block, index) => (block.element.tabIndex = (kept ? block === kept : index === 0) ? 0 : -1));
  if (kept) kept.element.classList.add("selected");
  return kept;
}

// The block of the node that was selected: at its address if it says the same there, else the nearest that does.
function kin(view, selected) {
  if (!selected) return null;
  const same = view.blocks.filter((block) => likeness(block.node) === likeness(selected));
  const here = view.blocks.findIndex((block) => block.node.at === selected.at);
  const order = (block) => Math.abs(view.blocks.indexOf(block) - Math.max(here, 0));
  return same.sort((a, b) => order(a) - order(b))[0] ?? view.blocks.find((block) => block.node.at === selected.at);
}

function likeness(node) {
  if (node.kind === "storage") return `storage ${node.memory} ${node.tensors.map((t) => t.id).join()}`;
  if (node.kind === "loop") return `loop ${node.over} ${node.shape}`;
  return `${node.kind} ${node.text}`;
}

function listed(app, view, nodes, prefix) {
  view.lists.set(prefix, nodes);
  const list = h("div", { class: "list" });
  nodes.forEach((node, index) => list.append(node.kind === "split" ? split(app, view, node) : block(app, view, node, prefix, index)));
  return list;
}

function split(app, view, node) {
  const head = h("div", { class: "block split", role: "treeitem", "data-at": node.at }, node.text || "one after the other");
  view.blocks.push({ node, element: head, prefix: null });
  head.addEventListener("click", () => app.select(node));
  const branches = h("div", { class: "branches" });
  node.branches.forEach((nodes, number) => {
    const prefix = `${node.at}.nodes[${number}].`;
    const names = computes(nodes);
    const folds = node.branches.length >= FOLDED_FROM || view.open.has(`-${prefix}`);
    const box = h("details", { class: "branch" }, h("summary", {}, `${node.stages ? "stage " : ""}${number + 1}: ${names}`));
    const fill = () => box.childElementCount < 2 && box.append(listed(app, view, nodes, prefix));
    if (!folds || view.open.has(prefix)) {
      box.open = true;
      fill();
    }
    box.addEventListener("toggle", () => {
      fill();
      view.open[box.open ? "add" : "delete"](prefix);
      view.open[box.open ? "delete" : "add"](`-${prefix}`);
    });
    branches.append(box);
  });
  return h("div", { class: "splitting" }, head, branches);
}

function computes(nodes) {
  const names = nodes.flatMap((n) => (n.kind === "compute" ? [n.einsum] : n.kind === "split" ? n.branches.map(computes) : []));
  return names.length > 4 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");
}

function block(app, view, node, prefix, index) {
  const element = h("div", {
    class: `block ${node.kind}${node.lanes ? " lanes" : ""}${node.pinned ? " pinned" : ""}`,
    role: "treeitem",
    "data-at": node.at,
    "aria-label": `${node.text}${node.pinned ? ", pinned" : ""}`,
    title: `${node.at}: ${node.text.slice(0, 300)}`,
  });
  if (node.kind === "storage") {
    element.style.setProperty("--fill", `var(--fill-${node.hue})`);
    element.style.setProperty("--edge", `var(--edge-${node.hue})`);
    element.append(h("b", {}, node.memory));
    node.tensors.slice(0, MOST_CHIPS).forEach((tensor) =>
      element.append(h("span", { class: "chip", "data-tensor": tensor.id }, tensor.name, tensor.tile && h("i", {}, ` ${tensor.tile.replaceAll("x", "×")}`))),
    );
    if (node.tensors.length > MOST_CHIPS) element.append(h("span", {}, `and ${node.tensors.length - MOST_CHIPS} more`));
  } else if (node.kind === "loop") {
    element.append(h("b", {}, node.over), h("span", {}, ` by ${node.shape}${node.first ? `, the first ${node.first}` : ""}`));
    if (node.lanes) element.append(h("span", { class: "over" }, `on ${node.lanes}`));
  } else {
    element.append(h("b", {}, node.einsum ?? node.unit ?? ""), h("span", {}, node.einsum ? ` on ${node.unit}` : ""));
  }
  const shown = node.notes.filter((note) => !note.endsWith("of energy"));
  element.append(h("span", { class: "note" }, shown.join(" · ")));
  if (node.share > 0) element.append(h("span", { class: "share", style: `--share:${node.share}` }, percent(node.share)));
  if (node.pinned) element.append(h("span", { class: "pin" }, "pinned"));
  view.blocks.push({ node, element, prefix, index });
  return element;
}

function focusBlock(view, found) {
  if (!found) return;
  view.blocks.forEach((block) => (block.element.tabIndex = block === found ? 0 : -1));
  found.element.focus();
}

const KEYS = { Delete: "bypass", Backspace: "bypass" };

function onKey(app, view, event) {
  const here = view.blocks.findIndex((block) => block.element === event.target);
  if (here < 0) return;
  const node = view.blocks[here].node;
  const up = event.key === "ArrowUp";
  if (up || event.key === "ArrowDown") {
    event.preventDefault();
    if (event.altKey || event.shiftKey) app.shift(node, up ? "above" : "below");
    else focusBlock(view, view.blocks[Math.min(view.blocks.length - 1, Math.max(0, here + (up ? -1 : 1)))]);
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    app.select(node);
  } else if (event.key in KEYS && node.kind === "storage") {
    event.preventDefault();
    app.move(`${KEYS[event.key]} ${node.at}`);
  } else if (event.key.toLowerCase() === "p" && !(event.ctrlKey || event.metaKey || event.altKey)) app.ask({ do: "pin", node: node.at });
  else if (event.key === "[" || event.key === "]") app.reshape(node, event.key === "]" ? 1 : -1);
}

function onDown(app, view, event) {
  const element = event.target.closest(".block[data-at]");
  const found = view.blocks.find((block) => block.element === element);
  if (!found || event.button) return;
  const chip = event.target.closest(".chip");
  const tensor = found.node.kind === "storage" && chip && found.node.tensors.length > 1 ? chip.dataset.tensor : null;
  const drag = { found, tensor, x: event.clientX, y: event.clientY, options: null, ghost: null, drop: null };
  const moved = (e) => onDrag(app, view, drag, e);
  const ended = (e) => {
    removeEventListener("pointermove", moved);
    removeEventListener("pointerup", ended);
    removeEventListener("pointercancel", ended);
    removeEventListener("keydown", escaped);
    onDrop(app, view, drag, e.type === "pointerup");
  };
  const escaped = (e) => e.key === "Escape" && ended(e);
  addEventListener("pointermove", moved);
  addEventListener("pointerup", ended);
  addEventListener("pointercancel", ended);
  addEventListener("keydown", escaped);
  if (drag.found.node.kind !== "split" && event.pointerType === "mouse") event.preventDefault();
  focusBlock(view, found);
}

async function onDrag(app, view, drag, event) {
  if (!drag.ghost) {
    if (Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < FAR) return;
    const { node } = drag.found;
    if (node.kind !== "storage" && node.kind !== "loop") return;
    drag.ghost = h("div", { class: "ghost" }, drag.tensor ?? node.text, h("p", {}));
    app.root.append(drag.ghost);
    drag.found.element.classList.add("taken");
    app.ask({ do: "moves", node: node.at, tensor: drag.tensor }).then((answer) => {
      drag.options = (answer.options ?? []).filter((option) => option.kind === "place");
      mark(app, view, drag);
    });
  }
  drag.last = event;
  mark(app, view, drag);
}

function mark(app, view, drag) {
  if (!drag.ghost || !drag.last) return;
  const { clientX, clientY } = drag.last;
  drag.ghost.style.transform = `translate(${clientX + 14}px, ${clientY + 10}px)`;
  view.root.querySelectorAll("[data-drop]").forEach((element) => element.removeAttribute("data-drop"));
  drag.drop = null;
  drag.ghost.className = "ghost";
  drag.ghost.lastChild.textContent = "";
  const element = document.elementFromPoint(clientX, clientY)?.closest?.(".block[data-at]");
  const over = view.blocks.find((block) => block.element === element);
  if (!over || !over.element.isConnected || over === drag.found || drag.options === null || over.prefix === null) return;
  const box = element.getBoundingClientRect();
  const after = clientY > box.top + box.height / 2;
  const gap = gapOf(view, over.prefix, over.index + (after ? 1 : 0), drag.found.node.kind);
  const option = drag.options.find((o) => sameGap(gap, optionGap(view, o, drag.found.node.kind)));
  if (sameGap(gap, gapOf(view, drag.found.prefix, drag.found.index, drag.found.node.kind))) return;
  if (option && option.judged === false) {
    judge(app, view, drag, option);
    drag.ghost.lastChild.textContent = "…";
    return;
  }
  drag.drop = option ?? {
    why: "this cannot stand there: loops change places where nothing stands between them (move storage away first), and storage moves along its own path",
  };
  element.dataset.drop = `${after ? "after" : "before"} ${drag.drop.why ? "bad" : "good"}`;
  drag.ghost.classList.add(drag.drop.why ? "bad" : "good");
  drag.ghost.lastChild.textContent = drag.drop.why ?? drag.drop.label;
}

// Of many places only the first are judged at once: another one when the block is held over it.
async function judge(app, view, drag, option) {
  if (option.asked) return;
  option.asked = true;
  const answer = await app.ask({ do: "judge", text: option.text });
  Object.assign(option, { judged: true, why: answer.why ?? (answer.kind === "judged" ? null : answer.message) });
  if (drag.ghost?.isConnected) mark(app, view, drag);
}

// The place between two nodes of a list. Storage nodes side by side are in no order: a place among them is the first.
function gapOf(view, prefix, index, kind) {
  const nodes = view.lists.get(prefix) ?? [];
  let at = index;
  if (kind === "storage") while (at > 0 && ["storage", "toll"].includes(nodes[at - 1]?.kind)) at -= 1;
  return { prefix, at };
}

function optionGap(view, option, kind) {
  const match = /^(.*?)nodes\[(\d+)\]$/.exec(option.target);
  return match ? gapOf(view, match[1], Number(match[2]) + (option.side === "below" ? 1 : 0), kind) : null;
}

function sameGap(one, other) {
  return one && other && one.prefix === other.prefix && one.at === other.at;
}

function onDrop(app, view, drag, isDropped) {
  view.root.querySelectorAll("[data-drop]").forEach((element) => element.removeAttribute("data-drop"));
  drag.found.element.classList.remove("taken");
  drag.ghost?.remove();
  if (!isDropped) return;
  if (!drag.ghost) app.select(drag.found.node);
  else if (drag.drop?.why) app.say(drag.drop.why, "bad");
  else if (drag.drop) {
    app.selected = drag.found.node;
    app.move(drag.drop.text);
  }
}
