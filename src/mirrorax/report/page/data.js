// What the page knows: decoded once; views of it (scores and errors of every cell) are kept.
const ALL = JSON.parse(document.getElementById("data").textContent);
// Algorithms that have no cell in common are several groups; the address says which one is shown.
const GROUPS = ALL.groups ?? [ALL];
const GROUP = Math.max(0, GROUPS.findIndex((_, k) => String(k) === new URLSearchParams(location.hash.slice(1)).get("group")));
const DATA = GROUPS[GROUP];
// The choices that the page starts with.
const STARTED = { evaluation: "stochastic", statistic: "mean", cells: "positive", threshold: DATA.threshold, environment: DATA.shared.length ? "shared" : "0" };
const STATES = ["missing", "done", "diverged", "failed"];

function bytes(text) {
  const raw = atob(text), out = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k += 1) out[k] = raw.charCodeAt(k);
  return out.buffer;
}

const ALGORITHMS = DATA.algorithms.map((a, index) => ({
  ...a,
  index,
  A: a.alphas.length,
  L: a.lams.length,
  E: a.envs.length,
  N: a.seeds,
  runs: { stochastic: new Float32Array(bytes(a.stochastic)), greedy: new Float32Array(bytes(a.greedy)) },
  state: a.state === null ? null : new Uint8Array(bytes(a.state)),
  // As text where one does not fit into 32 bits.
  seedNames: a.seed_names === null || Array.isArray(a.seed_names)
    ? a.seed_names : new Int32Array(bytes(a.seed_names)),
  curve: a.curve === null ? null : { ...a.curve, y: new Float32Array(bytes(a.curve.y)) },
  views: new Map(),
  masks: new Map(),
}));
DATA.algorithms = null;

// "shared" is the mean over the environments that every algorithm has; else one environment.
function environmentsOf(algorithm, environment) {
  const wanted = environment === "shared" ? DATA.shared : [Number(environment)];
  const at = wanted.map((e) => algorithm.envs.indexOf(e));
  return at.some((k) => k < 0) ? [] : at;
}

const environmentLabel = (environment) => (environment === "shared"
  ? `mean over ${DATA.shared.map((e) => DATA.environments[e].label).join(", ")}`
  : DATA.environments[Number(environment)].label);

function cellRuns(a, cell, places, evaluation) {
  const source = a.runs[evaluation];
  return places.map((e) => {
    const group = [], start = (cell * a.E + e) * a.N;
    for (let n = 0; n < a.N; n += 1) if (Number.isFinite(source[start + n])) group.push(source[start + n]);
    return group;
  });
}

// Scores d and numbers of runs of every cell; null where an environment lacks.
function viewOf(a, { evaluation, statistic, environment }) {
  const key = `${evaluation}|${statistic}|${environment}`;
  if (a.views.has(key)) return a.views.get(key);
  const places = environmentsOf(a, environment);
  let view = null;
  if (places.length > 0) {
    const runs = (cell) => cellRuns(a, cell, places, evaluation);
    const cells = a.A * a.L, d = new Float64Array(cells), count = new Int32Array(cells);
    for (let c = 0; c < cells; c += 1) {
      const groups = runs(c);
      d[c] = cellScore(groups, statistic);
      count[c] = sum(groups.map((g) => g.length));
    }
    view = { a, d, count, wanted: places.length * a.N, places, runs, statistic, known: boundsKnown(a, places), grids: new WeakMap() };
  }
  a.views.set(key, view);
  return view;
}

const boundsKnown = (a, places) => places.every((e) => DATA.environments[a.envs[e]].bounds !== "estimated");

// What the seeds of the cells of a mask say, kept for as long as the mask is.
function gridOf(view, mask) {
  if (!view.grids.has(mask)) view.grids.set(mask, gridScores(view.runs, view.a.A, view.a.L, mask, view.statistic));
  return view.grids.get(mask);
}

function maskOf(a, cells) {
  if (!a.masks.has(cells)) {
    const mask = new Uint8Array(a.A * a.L);
    for (let i = 0; i < a.A; i += 1) for (let j = 0; j < a.L; j += 1) mask[i * a.L + j] = cells === "all" || (a.alphas[i] > 0 && a.lams[j] > 0) ? 1 : 0;
    a.masks.set(cells, mask);
  }
  return a.masks.get(cells);
}

// The cells over which the rows of the table are compared: those that all algorithms of an axis
// have a score for, as analysis.summary. Without any each has its own, and they are not ranked.
const comparisons = new Map();

function comparedCells(state) {
  const key = `${state.environment}|${state.evaluation}|${state.cells}`;
  if (!comparisons.has(key)) comparisons.set(key, new Map(["alpha", "w"].flatMap((axis) => compareGroup(ALGORITHMS.filter((a) => a.axis === axis), state))));
  return comparisons.get(key);
}

function compareGroup(group, state) {
  const members = group.map((a) => {
    const view = viewOf(a, { ...state, statistic: "mean" }), mask = maskOf(a, state.cells);
    return { a, own: view ? [...mask.keys()].filter((k) => mask[k] && Number.isFinite(view.d[k])) : [] };
  }).filter(({ own }) => own.length);
  const name = (a, k) => `${a.alphas[Math.floor(k / a.L)]}|${a.lams[k % a.L]}`, counts = new Map();
  for (const { a, own } of members) for (const k of own) counts.set(name(a, k), (counts.get(name(a, k)) || 0) + 1);
  const comparable = [...counts.values()].includes(members.length);
  return members.map(({ a, own }) => {
    const kept = comparable ? own.filter((k) => counts.get(name(a, k)) === members.length) : own, mask = new Uint8Array(a.A * a.L);
    for (const k of kept) mask[k] = 1;
    return [a.index, { mask, comparable, members: members.length, elsewhere: own.length - kept.length }];
  });
}

const number = (x, digits = 3) => (Number.isFinite(x) ? x.toFixed(digits) : "–");
const plain = (x) => (x !== 0 && Math.abs(x) < 1e-3 ? x.toExponential(3).replace(/\.?0*e/, "e") : String(Number(x.toPrecision(4))));
const interval = (e, digits = 4) => (e.why ? "no interval" : `[${number(e.low, digits)}, ${number(e.high, digits)}]`);
// Where Rbst would be with infinitely many seeds; without a lower end only the upper one is shown.
function limitText({ limit }) {
  if (!limit) return "no interval";
  return limit.low === 0 && limit.high > 0 ? `<= ${number(limit.high, 4)}` : interval(limit);
}

// Elements from text only: nothing from a study or a store is ever read as HTML.
function element(tag, options = {}, ...children) {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") out.textContent = value;
    else if (name === "class") out.className = value;
    else if (name.startsWith("on")) out.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) out.setAttribute(name, value === true ? "" : value);
  }
  out.append(...children);
  return out;
}
const $ = (id) => document.getElementById(id);
