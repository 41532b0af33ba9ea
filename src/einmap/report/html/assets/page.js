// What moves on the page: the theme, tabs, plots that are drawn when they come into view, the choice in a plot.
const root = document.documentElement;
const settings = JSON.parse(document.getElementById("settings").textContent);

document.getElementById("theme").addEventListener("click", () => {
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
});

// pictures as files: names of colours become the colours that are seen
function download(svg, name) {
  const look = getComputedStyle(root);
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const text = copy.outerHTML.replace(/var\((--[\w-]+)\)/g, (_, colour) => look.getPropertyValue(colour).trim());
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  link.download = name + ".svg";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function button(text, title, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.title = title;
  made.addEventListener("click", act);
  return made;
}

function withTools(figure, name, ...buttons) {
  const tools = document.createElement("div");
  tools.className = "tools";
  tools.append(...buttons, button("SVG", "save as a file", () => download(figure.querySelector("svg"), name)));
  figure.querySelector("h3").after(tools);
}

// plots
const plots = new Map();
const narrow = window.matchMedia("(max-width: 560px)");

function adapted(spec, width) {
  const fitted = structuredClone(spec);
  const columns = Math.max(1, Math.floor(width / 150));
  fitted.config = structuredClone(settings.config);
  fitted.config.legend.columns = columns;
  fitted.config.axisY = { labelLimit: Math.min(190, Math.round(width * 0.3)) };
  fitted.config.axisX = { ...fitted.config.axisX, tickCount: Math.max(3, Math.round(width / 110)) };
  return fitted;
}

async function draw(figure) {
  if (plots.get(figure)) return plots.get(figure);
  const canvas = figure.querySelector(".canvas");
  const { name, spec } = JSON.parse(figure.querySelector("script").textContent);
  const embed = () =>
    window.vegaEmbed(canvas, adapted(spec, canvas.clientWidth), {
      actions: false, ast: true, renderer: "svg", tooltip: { theme: "custom", disableDefaultStyle: false },
    });
  const drawing = embed().then((result) => {
    if (!figure.querySelector(".tools")) withTools(figure, name);
    result.view.addEventListener("click", (event, item) => {
      const index = item && item.datum && item.datum.index;
      const choices = figure.closest(".choices");
      if (choices && Number.isInteger(index)) choose(choices, index);
    });
    return result;
  });
  plots.set(figure, drawing);
  return drawing;
}

function redraw() {
  for (const [figure, drawing] of [...plots]) {
    drawing.then((result) => result.finalize());
    plots.delete(figure);
    if (figure.querySelector(".canvas").clientWidth) draw(figure);
  }
}
narrow.addEventListener("change", redraw);

const watcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting || !entry.target.querySelector(".canvas").clientWidth) continue;
      watcher.unobserve(entry.target);
      draw(entry.target);
    }
  },
  { rootMargin: "300px" },
);

// the rest is drawn one by one, so that everything is there to be printed and the page answers meanwhile
async function drawRest() {
  for (const figure of document.querySelectorAll("figure.plot")) {
    if (plots.get(figure) || !figure.querySelector(".canvas").clientWidth) continue;
    await new Promise((done) => setTimeout(done));
    await draw(figure);
  }
  root.dataset.drawn = "all";
}

// tabs
for (const tabs of document.querySelectorAll(".tabs")) {
  const names = [...tabs.querySelectorAll(":scope > .names > [role=tab]")];
  const panels = [...tabs.querySelectorAll(":scope > .panel")];
  const show = (chosen) => {
    names.forEach((name, i) => {
      name.setAttribute("aria-selected", String(i === chosen));
      name.tabIndex = i === chosen ? 0 : -1;
      panels[i].hidden = i !== chosen;
    });
    panels[chosen].querySelectorAll("figure.plot").forEach((figure) => {
      if (figure.querySelector(".canvas").clientWidth) draw(figure);
    });
  };
  names.forEach((name, i) => {
    name.addEventListener("click", () => show(i));
    name.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = (i + step + names.length) % names.length;
      show(next);
      names[next].focus();
    });
  });
}

// choices
function choose(choices, index) {
  const templates = choices.querySelectorAll(":scope > template");
  if (!templates[index]) return;
  choices.querySelector("select").value = String(index);
  choices.querySelector(".chosen").replaceChildren(templates[index].content.cloneNode(true));
  equipAll(choices.querySelector(".chosen"));
  const drawing = plots.get(choices.querySelector("figure.plot"));
  if (drawing) drawing.then((result) => result.view.signal("chosen", index).runAsync());
}
for (const choices of document.querySelectorAll(".choices")) {
  choices.querySelector("select").addEventListener("change", (event) => choose(choices, Number(event.target.value)));
}

// drawings; the large ones come out of their templates when they are unfolded
function equip(figure) {
  const picture = figure.querySelector(".picture");
  const { name } = picture.dataset;
  if (figure.querySelector(".tools")) return;
  // the root of a wide tree is in its middle
  if (picture.scrollWidth > 2 * picture.clientWidth) picture.scrollLeft = (picture.scrollWidth - picture.clientWidth) / 2;
  withTools(figure, name, button("full size", "full size, or as wide as the page", () => picture.classList.toggle("full")));
}
function unfold(details) {
  for (const late of details.querySelectorAll("template.late")) late.replaceWith(late.content.cloneNode(true));
  equipAll(details);
  details.querySelectorAll("figure.plot").forEach(draw);
}
function equipAll(within) {
  const around = within.closest && within.closest("figure.drawing");
  if (around && around.querySelector(".picture")) equip(around);
  within.querySelectorAll("figure.drawing").forEach((figure) => figure.querySelector(".picture") && equip(figure));
  within.querySelectorAll("details").forEach((details) => details.addEventListener("toggle", () => unfold(details), { once: true }));
}
equipAll(document);

document.querySelectorAll("figure.plot").forEach((figure) => watcher.observe(figure));
setTimeout(drawRest);
