// The page: one state, kept in the address, and what follows from it.
const state = {
  ...STARTED, layout: "pair", pair: 0, first: 0,
  second: Math.min(1, ALGORITHMS.length - 1), zoom: 1, filter: "", hidden: new Set(), picked: null, cursor: null,
};
const nameOf = (a) => (a.reference && a.reference.label ? `${a.reference.label}  ` : "") + a.label;
const matches = (a) => nameOf(a).toLowerCase().includes(state.filter.toLowerCase());
// A map is never wider than the window.
const mapRoom = (room) => Math.min(room, innerWidth - 100) * state.zoom;
let maps = [], compareMaps = [], rows = [];

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const choose = (name, allowed) => { if (allowed.includes(given.get(name))) state[name] = given.get(name); };
  choose("evaluation", ["stochastic", "greedy"]);
  choose("statistic", ["mean", "iqm"]);
  choose("cells", ["positive", "all"]);
  choose("layout", ["pair", "environment"]);
  choose("environment", [...(DATA.shared.length ? ["shared"] : []), ...DATA.environments.map((_, k) => String(k))]);
  for (const name of ["pair", "first", "second"]) {
    const k = Number(given.get(name) ?? NaN);
    if (Number.isInteger(k) && k >= 0 && k < ALGORITHMS.length) state[name] = k;
  }
  const t = Number(given.get("threshold") ?? NaN), zoom = Number(given.get("zoom") ?? NaN);
  if (t >= 0 && t <= 0.99) state.threshold = t;
  if (zoom >= 1 && zoom <= 3) state.zoom = zoom;
  state.filter = (given.get("filter") ?? "").slice(0, 80);
}

let addressTimer = 0;

// Browsers slow pages down that change their address at every move of a slider.
function keepAddress() {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(writeAddress, 250);
}

function writeAddress() {
  const keep = ["evaluation", "statistic", "cells", "layout", "environment", "pair", "first", "second", "threshold", "zoom", "filter"];
  const text = new URLSearchParams([...(GROUPS.length > 1 ? [["group", String(GROUP)]] : []), ...keep.map((name) => [name, String(state[name])])]).toString();
  try { history.replaceState(null, "", `#${text}`); } catch { /* an address that cannot be changed is no loss */ }
}

function showStudy() {
  const { facts } = DATA;
  $("title").textContent = facts.title;
  $("headline").replaceChildren(...DATA.headline.map((text) => element("p", { text })));
  $("subtitle").textContent = `${ALGORITHMS.length} algorithm${ALGORITHMS.length === 1 ? "" : "s"}, ${DATA.environments.length} environment${DATA.environments.length === 1 ? "" : "s"} · made ${facts.made}`;
  const estimated = DATA.environments.filter((e) => e.bounds === "estimated");
  if (estimated.length) {
    const list = estimated.map((e) => `${e.label} (${number(e.low, 2)} to ${number(e.high, 2)})`).join(", ");
    $("subtitle").textContent += ` · bounds of returns estimated, 0 a random policy and 1 the best run here: ${list}`;
  }
  const fact = (value, name, alarm) => element("div", { class: alarm ? "fact alarm" : "fact" }, element("b", { text: value }), element("span", { text: name }));
  const text = (n) => n.toLocaleString("en");
  const cards = [fact(text(facts.done), "runs done"),
    fact(text(facts.failed), "failed", facts.failed > 0), fact(text(facts.diverged), "diverged", facts.diverged > 0)];
  if (facts.core_hours !== null) {
    const short = facts.core_hours < 1, time = short ? 60 * facts.core_hours : facts.core_hours;
    cards.push(fact(time < 10 ? time.toFixed(1) : text(Math.round(time)), short ? "minutes of running" : "hours of running"));
  }
  $("facts").replaceChildren(...cards);
  if (facts.planned) {
    const share = facts.reached / facts.planned, fill = element("i", {});
    fill.style.width = `${100 * share}%`;
    $("progress").replaceChildren(element("p", { class: "hint", text: `${text(facts.reached)} of the ${text(facts.planned)} runs of the study are done` }),
      element("div", { class: "bar", role: "progressbar", "aria-valuenow": Math.round(100 * share), "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": "Runs done" }, fill));
  }
  const list = (host, pairs) => host.querySelector("table").replaceChildren(...pairs.map(([a, b]) => element("tr", {}, element("th", { scope: "row", text: a }), element("td", { text: b }))));
  if (facts.failures.length) {
    $("failures").hidden = false;
    $("failures").querySelector("summary").textContent = `Why ${text(facts.failed)} runs failed`;
    list($("failures"), facts.failures.map(([why, n]) => [text(n), why]));
  }
  list($("machine"), facts.versions.map(([name, values]) => [name, values.join(", ")]));
  $("machine").hidden = facts.versions.length === 0;
  if (facts.study) { $("declaration").hidden = false; $("declaration").querySelector("pre").textContent = facts.study; }
  if (facts.refresh > 0) setTimeout(() => location.reload(), facts.refresh * 1000);
}

// The pairs that the filter leaves, and the chosen ones.
function fillPairs() {
  for (const id of ["pair", "first", "second"]) {
    $(id).replaceChildren(...ALGORITHMS.filter((a) => matches(a) || a.index === state[id]).map((a) => element("option", { value: a.index, text: nameOf(a) })));
    $(id).value = state[id];
  }
}

function fillSelects() {
  fillPairs();
  $("group-label").hidden = GROUPS.length < 2;
  $("comparison").hidden = ALGORITHMS.length < 2;
  $("group").replaceChildren(...GROUPS.map((g, k) => element("option", { value: k, text: g.name })));
  $("group").value = GROUP;
  const environments = DATA.environments.map((e, k) => element("option", { value: String(k), text: e.label }));
  if (DATA.shared.length) environments.unshift(element("option", { value: "shared", text: DATA.shared.length > 1 ? `mean over ${DATA.shared.length}` : `${DATA.environments[DATA.shared[0]].label} (all there is in common)` }));
  $("environment").replaceChildren(...environments);
  for (const id of ["evaluation", "statistic", "cells", "layout", "environment"]) $(id).value = state[id];
  for (const id of ["threshold", "zoom", "filter"]) $(id).value = state[id];
}

// --- maps ---------------------------------------------------------------------------------------

function mapSpecs(titled, zoomed = true) {
  const out = [], wanted = state.layout === "pair" ? 290 : 240, room = zoomed ? mapRoom(wanted) : wanted;
  const add = (a, environment, title) => {
    const view = viewOf(a, { ...state, environment });
    if (!view) return;
    const grid = gridValues(a, environment), mask = comparedCells({ ...state, environment }).get(a.index)?.mask;
    const values = mask ? plainValues(view, mask, state.threshold) : null, off = offGrid(a, grid, view.d);
    const note = (values ? `freq ${number(values.freq)}, Rbst ${number(values.rbst, 4)}` : "no score") + (off ? `; ${off} more cells off this grid` : "");
    out.push({ algorithm: a, environment, grid, values: view.d, view, kind: "score", threshold: state.threshold, cell: cellSize(grid, room, 48 * (zoomed ? state.zoom : 1)), titled, title, note });
  };
  if (state.layout === "pair") {
    const a = ALGORITHMS[state.pair];
    if (DATA.shared.length > 1) add(a, "shared", environmentLabel("shared"));
    a.envs.forEach((e) => add(a, String(e), DATA.environments[e].label));
  } else ALGORITHMS.filter(matches).forEach((a) => add(a, state.environment, nameOf(a)));
  return out;
}

// While the slider moves only the maps in view are painted; the others follow when it rests or when
// they come into view.
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const map = entry.target.map;
    map.inView = entry.isIntersecting;
    if (map.inView && map.stale) map.paint();
  }
}, { rootMargin: "150px" });
let restTimer = 0;

function paintLater() {
  clearTimeout(restTimer);
  restTimer = setTimeout(() => { for (const map of [...maps, ...compareMaps]) if (map.stale) map.paint(); }, 200);
}

class HeatMap {
  constructor(spec, host) {
    this.spec = spec;
    this.inView = true;
    this.figure = heatFigure({ ...spec, titled: false });
    this.title = element("h3", { text: spec.title });
    this.note = element("p", { text: spec.note || "" });
    this.canvas = element("canvas", { tabindex: "0", role: "img", "data-map": spec.title });
    host.append(element("div", { class: "map" }, this.title, this.note, this.canvas));
    const here = (event) => { const r = this.canvas.getBoundingClientRect(); return cellAt(this.figure.box, event.clientX - r.left, event.clientY - r.top); };
    this.canvas.addEventListener("pointermove", (event) => point(this, here(event), event.clientX, event.clientY));
    this.canvas.addEventListener("pointerleave", () => point(this, null));
    this.canvas.addEventListener("click", (event) => { const at = here(event); if (at) pick(this, at); });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => point(this, null));
    this.canvas.map = this;
    watcher.observe(this.canvas);
    this.paint();
  }

  paint() {
    this.stale = false;
    const scale = window.devicePixelRatio || 1;
    this.base = figureCanvas(this.figure, theme(), scale, this.base);
    if (this.canvas.width !== this.base.width) this.canvas.width = this.base.width;
    if (this.canvas.height !== this.base.height) this.canvas.height = this.base.height;
    this.canvas.style.width = `${this.figure.width}px`;
    this.canvas.style.height = `${this.figure.height}px`;
    this.describe();
    this.show();
  }

  describe() {
    this.title.textContent = this.spec.title;
    this.note.textContent = this.spec.note || "";
    this.canvas.setAttribute("aria-label", `${this.spec.title}. ${this.spec.note || ""}. Arrow keys move between cells, Enter shows the runs of one.`);
  }

  update(spec) {
    this.spec = spec;
    this.figure = heatFigure({ ...spec, titled: false });
    if (this.inView) { this.paint(); return; }
    this.stale = true;
    this.describe();
    paintLater();
  }

  // The base picture, with the linked cell outlined.
  show() {
    const context = this.canvas.getContext("2d"), a = this.spec.algorithm, scale = window.devicePixelRatio || 1;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.base, 0, 0);
    const c = state.cursor;
    if (!c || c.axis !== a.axis) return;
    const { grid } = this.spec, i = grid.alphas.indexOf(c.alpha), j = grid.lams.indexOf(c.lam);
    if (i < 0 || j < 0) return;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    const { x, y } = cellBox(this.figure.box, i, j), size = this.figure.box.cell;
    context.lineWidth = 3.5; context.strokeStyle = "#000"; context.strokeRect(x - 1.5, y - 1.5, size + 3, size + 3);
    context.lineWidth = 1.8; context.strokeStyle = "#fff"; context.strokeRect(x - 1.5, y - 1.5, size + 3, size + 3);
  }

  key(event) {
    const step = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const c = state.cursor, { grid } = this.spec;
    let r = c ? grid.alphas.indexOf(c.alpha) : -1, k = c ? grid.lams.indexOf(c.lam) : -1;
    if (event.key === "Escape") { point(this, null); return; }
    if (event.key === "Enter" || event.key === " ") { if (r >= 0 && k >= 0) { event.preventDefault(); pick(this, { i: grid.rows[r], j: grid.columns[k] }); } return; }
    if (!step) return;
    event.preventDefault();
    if (r < 0 || k < 0) { r = 0; k = 0; } else { r = Math.min(Math.max(r + step[0], 0), grid.rows.length - 1); k = Math.min(Math.max(k + step[1], 0), grid.columns.length - 1); }
    const box = this.canvas.getBoundingClientRect(), at = cellBox(this.figure.box, r, k);
    point(this, { i: grid.rows[r], j: grid.columns[k] }, box.left + at.x + 10, box.top + at.y + 10);
  }
}

function point(map, at, x, y) {
  const tip = $("tip"), a = map.spec.algorithm;
  state.cursor = at ? { axis: a.axis, alpha: a.alphas[at.i], lam: a.lams[at.j] } : null;
  for (const other of [...maps, ...compareMaps]) other.show();
  if (!at) { tip.hidden = true; return; }
  let lines;
  if (map.spec.kind === "difference") {
    const k = at.i * a.L + at.j, v = map.spec.values[k];
    lines = [cellLines(a, at.i, at.j, state)[0], Number.isFinite(v) ? `first − second = ${number(v)}` : "not in both", map.spec.marks[k] ? "supported by the data" : "not supported"];
  } else lines = cellLines(a, at.i, at.j, { ...state, environment: map.spec.environment ?? state.environment });
  tip.replaceChildren(element("b", { text: a.label }), ...lines.map((t) => element("div", { text: t })));
  tip.hidden = false;
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = `${Math.max(4, Math.min(x + 16, innerWidth - w - 8))}px`;
  tip.style.top = `${y + 16 + h > innerHeight ? Math.max(4, y - h - 12) : y + 16}px`;
}

function pick(map, at) {
  if (map.spec.kind === "difference") return;
  state.picked = { algorithm: map.spec.algorithm.index, ...at };
  showDetail(state);
  $("detail").scrollIntoView({ block: "nearest" });
}

// Forget the maps, so that they are made anew in another size.
function redo(list) {
  for (const map of list) watcher.unobserve(map.canvas);
  return [];
}

function sync(list, specs, host) {
  // Keep the elements where the same maps are shown: a reader's focus must survive the slider.
  const same = list.length === specs.length && list.every((m, k) => m.spec.algorithm === specs[k].algorithm && m.spec.kind === specs[k].kind && m.spec.environment === specs[k].environment);
  if (same) { list.forEach((m, k) => m.update(specs[k])); return list; }
  for (const map of list) watcher.unobserve(map.canvas);
  host.replaceChildren();
  return specs.map((spec) => new HeatMap(spec, host));
}

// --- everything that follows from the state -----------------------------------------------------

// The curves that are not hidden, with bands for the chosen pair and the one it is compared with.
function frequencyCurves() {
  const compared = comparedCells(state);
  return rows.filter(({ a }) => matches(a) && !state.hidden.has(a.index)).map(({ a }) => {
    const view = viewOf(a, state), { mask } = compared.get(a.index), strong = a.index === state.pair;
    const band = strong || a.index === state.second ? frequencyBand(view, mask) : null;
    return { label: nameOf(a), values: frequencyCurve(view, mask), band, strong, k: a.index };
  });
}

// Only the line at the threshold moves with the slider.
let drawn = "";

function showFrequency() {
  const room = $("frequency").parentElement.clientWidth - (innerWidth > 900 ? 320 : 0);
  const key = [state.evaluation, state.statistic, state.environment, state.cells, state.pair, state.second, state.filter, [...state.hidden], room, theme().dark].join("|");
  if (key !== drawn) {
    showSvg($("frequency"), figureSvg(frequencyFigure(frequencyCurves(), NaN, { room }), theme()));
    showLegend();
  }
  drawn = key;
  const svg = $("frequency").querySelector("svg"), box = curveBox(room), x = curveX(box, state.threshold);
  svg.querySelector(".threshold")?.remove();
  if (state.threshold < FROM) return;
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  for (const [name, value] of Object.entries({ class: "threshold", x1: x, x2: x, y1: box.top, y2: box.top + box.height, stroke: theme().ink, "stroke-width": 1.4, "stroke-dasharray": "5 4" })) line.setAttribute(name, value);
  svg.append(line);
}

// A legend by pair; each curve can be hidden.
function showLegend() {
  $("curve-legend").replaceChildren(...rows.filter(({ a }) => matches(a)).map(({ a }) => {
    const { colour, dash } = curveLook(a.index, theme()), sample = element("span", { class: "sample" });
    showSvg(sample, figureSvg({ width: 34, height: 10, draw: (surface) => surface.line([[0, 5], [34, 5]], colour, a.index === state.pair ? 2.8 : 1.6, dash) }, theme()));
    const shown = !state.hidden.has(a.index);
    return element("button", { type: "button", "aria-pressed": String(shown), class: shown ? "" : "off", title: shown ? "Hide this curve" : "Show this curve", "data-algorithm": a.index,
      onclick: () => { if (shown) state.hidden.add(a.index); else state.hidden.delete(a.index); render(); $("curve-legend").querySelector(`[data-algorithm="${a.index}"]`).focus(); } },
    sample, element("span", { text: nameOf(a) }));
  }));
}

function render() {
  const start = performance.now();
  $("threshold-value").textContent = state.threshold.toFixed(2);
  rows = tableRows(state);
  maps = sync(maps, mapSpecs(false), $("maps"));
  if (!maps.length) $("maps").replaceChildren(element("p", { text: "No runs here." }));
  showTable(rows.filter((r) => matches(r.a)), state, (index) => { state.pair = index; state.layout = "pair"; $("pair").value = index; $("layout").value = "pair"; render(); $("landscapes").scrollIntoView(); });
  showFrequency();
  const mine = rows.find((r) => r.a.index === state.pair);
  $("live").textContent = mine ? `${mine.label}: freq ${number(mine.freq.value)} ${interval(mine.freq, 3)}, Rbst ${number(mine.rbst.value, 4)} ${interval(mine.rbst)} at threshold ${state.threshold.toFixed(2)}` : "The pair has no score on this environment.";
  $("robustness-note").textContent = `Scores: ${state.statistic === "mean" ? "mean" : "interquartile mean"} of normalised ${state.evaluation} returns, ${environmentLabel(state.environment)}. 95%: as many seeds: of what studies of these cells with as many seeds report on average. Infinitely many: of Rbst if every cell's mean were known, which is lower, as noise can only raise it; “<= x”: no lower end shown, ${ENOUGH} seeds per cell or more may. Tuned: the best cell of each environment; held out: on seeds not used to choose. Good: a score that reaches the threshold; area in square decades, bands in decades; L: 1 is a perfect L.`;
  const comparison = compareOf(state);
  $("verdict").textContent = verdict(comparison, state);
  compareMaps = sync(compareMaps, compareSpecs(comparison, state), $("compare-maps"));
  if ($("matrix").open) showMatrix(rows);
  $("pair-label").hidden = state.layout !== "pair";
  keepAddress();
  state.lastRender = performance.now() - start;
  document.documentElement.dataset.rendered = String(Number(document.documentElement.dataset.rendered || 0) + 1);
  document.documentElement.dataset.renderMs = state.lastRender.toFixed(1);
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "Light" : "Dark";
  $("theme").setAttribute("aria-pressed", String(dark));
  showSvg($("scale"), figureSvg(scaleFigure("score"), theme()));
  showSvg($("difference-scale"), figureSvg(scaleFigure("difference", LIMIT), theme()));
  watcher.disconnect();
  maps = []; compareMaps = [];
  render();
  showDetail(state);
}

// What an exported picture says of itself.
const choices = () => `threshold ${state.threshold.toFixed(2)} (outlined), ${state.statistic === "mean" ? "mean" : "interquartile mean"} of normalised ${state.evaluation} returns`;
const subject = () => (state.layout === "pair" ? ALGORITHMS[state.pair].label : environmentLabel(state.environment));
const thresholdName = () => `threshold-${state.threshold.toFixed(2)}`;

function landscapeCsv() {
  const out = [["label", "environment", "evaluation", "statistic", "axis", "alpha_or_w", "lam", "score", "low", "high", "runs", "wanted", "threshold", "good"]];
  for (const spec of mapSpecs(false)) {
    const a = spec.algorithm;
    for (let k = 0; k < a.A * a.L; k += 1) {
      const groups = spec.view.runs(k), range = fewest(groups) > 0 ? cellInterval(groups, state.statistic, spec.view.known) : null;
      out.push([a.label, environmentLabel(spec.environment), state.evaluation, state.statistic, a.axis, a.alphas[Math.floor(k / a.L)], a.lams[k % a.L], spec.view.d[k], range ? range.low : NaN, range ? range.high : NaN, spec.view.count[k], spec.view.wanted, state.threshold, Number.isFinite(spec.view.d[k]) ? Number(reaches(spec.view.d[k], state.threshold)) : ""]);
    }
  }
  return out;
}

const frequencyCsv = () => [["label", "environment", "evaluation", "statistic", "level", "share"],
  ...frequencyCurves().flatMap((c) => c.values.map((v, k) => [ALGORITHMS[c.k].label, environmentLabel(state.environment), state.evaluation, state.statistic, Number(LEVELS[k].toFixed(3)), v]))];

function wire() {
  // Another group is another page: only the group is kept.
  $("group").addEventListener("change", () => { clearTimeout(addressTimer); location.hash = `group=${$("group").value}`; location.reload(); });
  for (const id of ["evaluation", "statistic", "cells", "layout", "environment"]) $(id).addEventListener("change", () => { state[id] = $(id).value; render(); showDetail(state); });
  for (const id of ["pair", "first", "second"]) $(id).addEventListener("change", () => { state[id] = Number($(id).value); render(); });
  let waiting = false;
  $("threshold").addEventListener("input", () => {
    state.threshold = Number($("threshold").value);
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; render(); showDetail(state); });
  });
  $("zoom").addEventListener("input", () => { state.zoom = Number($("zoom").value); maps = redo(maps); compareMaps = redo(compareMaps); render(); });
  $("filter").addEventListener("input", () => { state.filter = $("filter").value; fillPairs(); render(); });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; maps = redo(maps); compareMaps = redo(compareMaps); render(); } });
  $("matrix").addEventListener("toggle", () => { if ($("matrix").open) showMatrix(rows); });
  $("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme !== "dark";
    try { localStorage.setItem("mirrorax-theme", dark ? "dark" : "light"); } catch { /* not kept, then */ }
    setTheme(dark);
  });
  const scores = scaleFigure("score"), pairNames = () => [ALGORITHMS[state.first].label, "and", ALGORITHMS[state.second].label];
  wireDownloads({
    landscapes: { figure: () => composite(mapSpecs(true, false).map(heatFigure), 4, { title: subject(), note: choices(), scale: scores }), rows: landscapeCsv, name: () => [subject(), thresholdName()] },
    frequency: { figure: () => frequencyFigure(frequencyCurves(), state.threshold, { legend: true, title: `Share of cells that reach a score: ${environmentLabel(state.environment)}` }), rows: frequencyCsv, name: () => [environmentLabel(state.environment), thresholdName()] },
    table: { rows: () => tableCsv(rows.filter((r) => matches(r.a)), state), name: () => [environmentLabel(state.environment), thresholdName()] },
    comparison: { figure: () => composite(compareSpecs(compareOf(state), state).map(heatFigure), 3, { title: pairNames().join(" "), note: choices(), scale: bothScales() }), rows: () => compareCsv(compareOf(state), state), name: () => [...pairNames(), thresholdName()] },
  });
}

// The scales of scores and of differences, side by side.
function bothScales() {
  const first = scaleFigure("score"), second = scaleFigure("difference", LIMIT);
  return { width: 720, height: 36, draw(surface, colours) { first.draw(surface, colours); surface.at(360, 0, (inner) => second.draw(inner, colours)); } };
}

function startDark() {
  try { const kept = localStorage.getItem("mirrorax-theme"); if (kept) return kept === "dark"; } catch { /* ask the system */ }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

readAddress();
showStudy();
fillSelects();
wire();
setTheme(startDark());
