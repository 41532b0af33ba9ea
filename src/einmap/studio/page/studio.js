// The studio on one element: it asks a session through a transport, and shows what it answers. The transport is all that
// differs between a page and a notebook: `ask(message)` gives a promise of the answer, `heard` is told of new states.
import { h, picture } from "./dom.js";
import { treeView } from "./tree.js";
import { movesView } from "./moves.js";
import { numbersView } from "./numbers.js";
import { playView } from "./play.js";

export function mount(root, transport) {
  root.classList.add("einmap-studio");
  const app = { root, state: null, selected: null, pending: null, busy: false, timer: null };
  const said = h("p", { class: "said", role: "status", "aria-live": "polite" });
  app.say = (text, tone = "") => {
    said.textContent = text;
    said.className = `said ${tone}`;
  };
  app.ask = async (message) => {
    const answer = await transport.ask(message);
    if (answer.kind === "error") app.say(answer.hint ? `${answer.message} (${answer.hint})` : answer.message, "bad");
    else if (answer.kind === "state") app.show(answer);
    return answer;
  };
  app.move = async (text) => {
    const begin = performance.now();
    const answer = await app.ask({ do: "move", text });
    if (answer.kind === "state") app.say(answer.last, "good");
    root.dataset.took = String(performance.now() - begin);
    if (app.selected) tree.focus(app.selected.at);
    return answer;
  };
  // A slider asks for many shapes in a row: the last one counts, and is a step of its own only when it is the last.
  app.latest = async (text, instead) => {
    app.pending = { text, instead: instead || !!app.pending?.instead };
    if (app.busy) return;
    app.busy = true;
    while (app.pending) {
      const next = app.pending;
      app.pending = null;
      const answer = await app.ask({ do: "move", ...next });
      if (answer.kind === "state") app.say(answer.last, "good");
    }
    app.busy = false;
  };
  app.select = async (node) => {
    app.selected = node;
    root.querySelectorAll(".block.selected").forEach((element) => element.classList.remove("selected"));
    root.querySelector(`.block[data-at="${CSS.escape(node.at)}"]`)?.classList.add("selected");
    if (node.kind === "compute") return app.explain({ einsum: node.einsum });
    return app.options();
  };
  app.options = async (tensor = null) => {
    const node = app.selected;
    if (!node) return moves.clear();
    const answer = await transport.ask({ do: "moves", node: node.at, tensor });
    if (answer.kind === "moves" && node === app.selected) moves.show(node, answer.options, tensor);
    return answer;
  };
  app.shift = async (node, side) => {
    app.selected = node;
    const answer = await app.ask({ do: "moves", node: node.at });
    const places = (answer.options ?? []).filter((option) => option.kind === "place" && option.side === side);
    if (places[0]?.why) app.say(places[0].why, "bad");
    else if (places[0]) await app.move(places[0].text);
    else app.say(`this node cannot go further ${side === "above" ? "up" : "down"}`, "bad");
  };
  app.reshape = async (node, step) => {
    app.selected = node;
    const answer = await app.ask({ do: "moves", node: node.at });
    const shapes = (answer.options ?? []).filter((option) => option.kind === "shape");
    const next = shapes[shapes.findIndex((option) => String(option.value) === node.shape) + step];
    if (next && !next.why) await app.move(next.text);
    else app.say(next?.why ?? "there is no other tile shape in this direction", "bad");
  };
  app.explain = async (about) => {
    const answer = await app.ask({ do: "explain", ...Object.fromEntries(Object.entries(about).filter(([, v]) => v)) });
    if (answer.kind === "explanation") numbers.explain(answer.text);
  };
  app.notes = async () => {
    const answer = await transport.ask({ do: "notes" });
    numbers.notes(answer.kind === "notes" ? answer.notes : []);
  };
  app.details = async () => {
    const answer = await transport.ask({ do: "details" });
    if (answer.kind === "details") numbers.details(answer);
    else numbers.details({ occupancy: [], cases: [], roofline: { points: [], bandwidths: [], peaks: [] } });
  };
  app.show = (state) => {
    const later = app.state !== null && state.revision !== app.state.revision;
    app.state = state;
    const kept = tree.show(state.tree);
    app.selected = kept?.node ?? null;
    numbers.show(state);
    left.show(state);
    bar.show(state);
    lesson.replaceChildren(...(state.lesson ? taught(app, state.lesson) : []));
    if (later && numbers.wantsDetails()) app.details();
    if (later && numbers.wantsNotes()) app.notes();
    app.options();
    root.dataset.revision = state.revision;
    if (state.search?.runs) watch(app);
  };
  const tree = treeView(app), moves = movesView(app), numbers = numbersView(app), left = leftView(app), bar = barView(app);
  const shown = h("dialog", { class: "shown" });
  app.dialog = (...children) => {
    shown.replaceChildren(h("form", { method: "dialog" }, h("button", { class: "close", "aria-label": "close" }, "close")), ...children.filter(Boolean));
    shown.showModal();
    return shown;
  };
  const lesson = h("div", { class: "lesson", "aria-live": "polite" });
  const middle = h("section", { class: "middle", "aria-label": "Mapping" }, lesson, tree.root, moves.root);
  root.replaceChildren(bar.root, said, h("main", {}, left.root, middle, numbers.root), shown);
  root.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || event.target.matches("input, textarea")) return;
    event.preventDefault();
    app.ask({ do: event.shiftKey ? "redo" : "undo" });
  });
  transport.heard = (answer) => answer.kind === "state" && answer.revision !== app.state?.revision && app.show(answer);
  transport.lost = () => app.say("the studio has ended, or the connection is lost: reload to look again", "bad");
  moves.clear();
  app.ask({ do: "look" }).then(() => fromLink(app));
  return app;
}

// Progress of a search, several times a second, until it has ended.
function watch(app) {
  clearTimeout(app.timer);
  app.timer = setTimeout(async () => {
    const answer = await app.ask({ do: "progress" });
    if (answer.kind !== "progress") return;
    app.bar(answer.search);
    watch(app);
  }, 300);
}

const SEARCHED = { edp: "EDP", energy: "energy", latency: "latency", front: "energy and latency" };

function barView(app) {
  const button = (name, message, label) => h("button", { type: "button", "data-do": name, onclick: () => app.ask(message ?? { do: name }) }, label ?? name);
  const undo = button("undo"), redo = button("redo"), reset = button("reset", null, "begin again");
  const metric = h("select", { "aria-label": "metric" }, Object.entries(SEARCHED).map(([value, name]) => h("option", { value }, name)));
  const seconds = h("input", { type: "number", min: 1, max: 3600, value: 60, "aria-label": "seconds at most" });
  const begin = (pinned) => app.ask({ do: "search", metric: metric.value, pinned, seconds: Number(seconds.value) || 60 });
  const best = h("button", { type: "button", "data-do": "search", onclick: () => begin(false) }, "find the best");
  const complete = h("button", { type: "button", "data-do": "complete", onclick: () => begin(true) }, "complete what is pinned");
  const stop = button("stop");
  const points = h("select", { "aria-label": "mapping of the front" });
  points.addEventListener("change", () => app.ask({ do: "keep", index: Number(points.value) }));
  const keep = h("button", { type: "button", "data-do": "keep", onclick: () => app.ask({ do: "keep", index: Number(points.value) || 0 }) }, "keep it");
  const compare = h("button", { type: "button", "data-do": "compare", onclick: () => differ(app) }, "why not this one");
  const changed = h("button", { type: "button", "data-do": "differences", onclick: () => differences(app) }, "what changed");
  const told = h("span", { class: "told", role: "status" });
  const yaml = h("button", { type: "button", "data-do": "text", onclick: () => written(app) }, "YAML");
  const files = h("button", { type: "button", "data-do": "files", onclick: () => opened(app) }, "open, save");
  const lessons = h("button", { type: "button", "data-do": "lessons", onclick: () => listLessons(app) }, "lessons");
  const play = h("button", { type: "button", "data-do": "play", onclick: () => played(app) }, "play");
  const root = h("header", {}, h("h1", {}, "einmap studio"), h("div", { class: "group" }, undo, redo, reset, changed), h("div", { class: "group" }, yaml, files, lessons, play),
    h("div", { class: "group" }, best, complete, metric, h("label", {}, seconds, " s"), stop, points, keep, compare), told);
  const show = (state) => {
    undo.disabled = !state.undo;
    redo.disabled = !state.redo;
    reset.disabled = changed.disabled = !state.undo;
    complete.disabled = !state.pins;
    app.bar(state.search);
  };
  app.bar = (search) => {
    const runs = !!search?.runs, front = search?.front ?? [], has = search && !runs && (search.value !== undefined || front.length > 0);
    points.hidden = !front.length;
    if (points.childElementCount !== front.length) points.replaceChildren(...front.map((one, i) => h("option", { value: i }, one.text)));
    best.disabled = runs;
    stop.hidden = !runs;
    keep.hidden = compare.hidden = !has;
    app.bar.found = !!has;
    told.textContent = search ? progress(search) : "";
  };
  return { root, show };
}

function progress(search) {
  if (search.problem) return search.problem;
  if (search.stopping) return "stopping with the best so far; stop once more to end it at once";
  if (search.runs) return [`searching for ${search.seconds} s${search.other ? ", of what was here before" : ""}`, search.what, search.best && `best so far: ${search.best}`].filter(Boolean).join("; ");
  if (search.front) return `found ${search.front.length} that no other one beats in both, in ${search.seconds} s${search.optimal ? "" : ", not proven to be all"}`;
  if (search.optimal) return `found the optimum in ${search.seconds} s`;
  const gap = search.gap === null || search.gap === undefined ? "how far it is from the optimum is not known" : `at most ${(100 * search.gap).toPrecision(2)}% above the optimum`;
  return `found one in ${search.seconds} s, ${gap}`;
}

async function differ(app) {
  const answer = await app.ask({ do: "compare", other: "found" });
  if (answer.kind === "difference") app.dialog(h("h2", {}, "What was found (A), and this mapping (B)"), h("pre", {}, answer.text));
}

// Any two steps, or what a search has found and a step.
function differences(app) {
  const steps = app.state.steps.map((text, i) => [i, i ? `after ${i}: ${text}` : text]);
  const found = app.bar.found ? [["found", "what the search found"]] : [];
  const select = (label, options, value) => h("select", { "aria-label": label, onchange: () => look() }, options.map(([one, text]) => h("option", { value: one, selected: one === value }, text)));
  const last = steps.length - 1;
  const one = select("from", [...steps, ...found], last - 1), other = select("to", steps, last);
  const told = h("pre", {});
  const look = async () => {
    const answer = await app.ask({ do: "compare", other: one.value === "found" ? "found" : Number(one.value), step: Number(other.value) });
    if (answer.kind === "difference") told.textContent = answer.text;
  };
  app.dialog(h("h2", {}, "From one mapping (A) to another (B)"), h("div", { class: "row" }, one, other), told);
  return look();
}

async function written(app) {
  const answer = await app.ask({ do: "text" });
  if (answer.kind !== "text") return;
  const fragment = await link(app);
  const buttons = h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => download(app, "html", "mapping.html", "text/html") }, "HTML report"), h("button", { type: "button", onclick: () => download(app, "c", "mapping.c", "text/plain") }, "code in C"));
  app.dialog(h("h2", {}, "The mapping"), h("pre", { class: "yaml" }, answer.yaml), buttons, answer.command && h("h3", {}, "The command that gives it"), answer.command && h("pre", { class: "command" }, answer.command),
    fragment && h("h3", {}, "All of it in a link: put this behind the address of a studio"), fragment && h("pre", { class: "link scrolls" }, fragment));
}

// A lesson: its text, its numbers, its task or question, and whether that is done.
function taught(app, lesson) {
  const end = h("button", { type: "button", "data-do": "end-lesson", onclick: () => app.ask({ do: "lesson" }) }, "end the lesson");
  const passed = h("p", { class: lesson.passed ? "passed" : "task" }, lesson.passed ? "Done: the task is solved." : `Task: ${lesson.task}`);
  const listing = lesson.listing && h("details", {}, h("summary", {}, "Listing"), h("pre", { class: "scrolls" }, lesson.listing));
  const asked = lesson.choices.map((text) =>
    h("button", { type: "button", "data-answer": text, "aria-pressed": String(text === lesson.answer), onclick: () => app.ask({ do: "answer", text }) }, text));
  const wrong = lesson.answer && !lesson.passed && h("p", { class: "wrong" }, `${lesson.answer}: no, it is another one.`);
  const other = lesson.other && h("p", { class: "wrong" }, "The architecture or the workload is not that of the lesson: undo, or begin again.");
  return [h("h2", {}, lesson.title), h("p", {}, lesson.text), ...lesson.tables.map(tabled), listing, passed, other, asked.length && h("div", { class: "buttons" }, asked), wrong, end].filter(Boolean);
}

function tabled([head, ...rows]) {
  return h("div", { class: "scrolls" }, h("table", {}, h("thead", {}, h("tr", {}, head.map((cell) => h("th", {}, cell)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))));
}

async function played(app) {
  const answer = await app.ask({ do: "play" });
  if (answer.kind !== "run") return;
  const hues = Object.fromEntries([...app.state.tree.flatMap(function inner(node) {
    return node.kind === "storage" ? [[node.memory, node.hue]] : (node.branches ?? []).flat().flatMap(inner);
  })]);
  app.dialog(h("h2", {}, "The mapping, executed"), playView(answer, hues));
}

function listLessons(app) {
  const shown = app.dialog(h("h2", {}, "Lessons"), h("ol", {}, app.state.lessons.map((one) =>
    h("li", {}, h("button", { type: "button", class: "link", "data-lesson": one.name, onclick: () => (shown.close(), app.ask({ do: "lesson", name: one.name })) }, one.title)))));
}

async function download(app, what, name, type) {
  const answer = await app.ask({ do: "export", what });
  if (answer.kind !== "export") return;
  const url = URL.createObjectURL(new Blob([answer.text], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const LONGEST = 1000000; // characters that a link may unpack to

// The whole specification in the fragment of a link, which a browser sends to nobody.
async function link(app) {
  const answer = await app.ask({ do: "export", what: "spec" });
  if (answer.kind !== "export") return null;
  const packed = new Blob([answer.text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(packed).arrayBuffer());
  const text = btoa(String.fromCharCode(...bytes.slice(0, 30000)));
  if (bytes.length > 30000) return null;
  return `#s=${text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

async function fromLink(app) {
  if (!location.hash.startsWith("#s=")) return;
  const packed = location.hash.slice(3);
  history.replaceState(null, "", location.pathname);
  try {
    const bytes = Uint8Array.from(atob(packed.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let part = await reader.read(); !part.done && text.length < LONGEST; part = await reader.read()) text += part.value;
    await app.ask({ do: "open", text });
  } catch {
    app.say("the link cannot be read", "bad");
  }
}

async function opened(app) {
  const answer = await app.ask({ do: "files" });
  if (answer.kind !== "files") return;
  const told = h("p", { role: "status" });
  const then = async (message, word) => {
    const done = await app.ask(message);
    if (done.kind === "error") told.textContent = done.hint ? `${done.message}: ${done.hint}` : done.message;
    else app.say((told.textContent = word(done)), "good");
  };
  const names = h("div", { class: "buttons" }, answer.names.map((name) => h("button", { type: "button", onclick: () => then({ do: "open", file: name }, () => `opened ${name}`) }, name)));
  const name = h("input", { value: "mapping.yaml", "aria-label": "name of the file" });
  const force = h("input", { type: "checkbox" });
  const text = h("textarea", { rows: 8, "aria-label": "YAML text", placeholder: "mapping:\n  nodes: ..." });
  app.dialog(h("h2", {}, "Open"), answer.names.length ? names : h("p", { class: "muted" }, "no YAML files in the folders of the studio"),
    h("h3", {}, "or a text"), text, h("button", { type: "button", "data-do": "open-text", onclick: () => then({ do: "open", text: text.value }, () => "opened the text") }, "open the text"),
    app.state.writes && h("h2", {}, "Save"), app.state.writes && h("div", { class: "row" }, name, h("label", {}, force, " replace"), h("button", { type: "button", "data-do": "save", onclick: () => then({ do: "save", file: name.value, force: force.checked }, (done) => `wrote ${done.file}`) }, "save")), told);
}

function leftView(app) {
  const fields = h("div", {});
  const drawing = (what, name) => {
    const box = h("details", {}, h("summary", {}, name), h("div", { class: "drawing scrolls", tabindex: 0 }));
    const draw = async () => {
      const answer = box.open ? await app.ask({ do: "draw", what }) : null;
      if (answer?.kind === "drawing") box.lastChild.replaceChildren(picture(answer.svg));
    };
    box.addEventListener("toggle", draw);
    return { box, draw };
  };
  const workload = drawing("workload", "Workload"), arch = drawing("arch", "Architecture as a tree");
  const numbers = h("details", { open: innerWidth > 900 }, h("summary", {}, "Architecture: numbers"), fields);
  const root = h("section", { class: "left", "aria-label": "Workload and architecture" }, workload.box, arch.box, numbers);
  let shown = "";
  const show = (state) => {
    const text = JSON.stringify(state.architecture);
    if (text === shown) return;
    shown = text;
    arch.draw();
    fields.replaceChildren(...state.architecture.filter((one) => one.fields.length).map((one) => h("fieldset", {}, h("legend", {}, one.name, h("i", {}, ` ${one.kind}`)), one.fields.map((field) => edited(app, field)))));
  };
  return { root, show };
}

function edited(app, field) {
  const unit = field.unit ? `in ${field.unit}, such as ${field.example}, or an expression` : "a number or an expression";
  const input = h("input", { value: field.value, "data-path": field.path, title: unit });
  input.addEventListener("change", async () => {
    const answer = await app.ask({ do: "set", path: field.path, value: input.value });
    if (answer.kind === "error") input.value = field.value;
    else app.say(`${field.name} is ${input.value} now`, "good");
  });
  return h("label", { class: "field" }, h("span", {}, field.name, field.shown && h("i", {}, ` ${field.shown}`)), input);
}
