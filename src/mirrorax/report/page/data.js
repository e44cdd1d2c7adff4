// What the page knows: decoded once; views of it (scores and errors of every cell) are kept.
const DATA = JSON.parse(document.getElementById("data").textContent);
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

// Scores d, standard errors s and numbers of runs of every cell; null where an environment lacks.
function viewOf(a, { evaluation, statistic, environment }) {
  const key = `${evaluation}|${statistic}|${environment}`;
  if (a.views.has(key)) return a.views.get(key);
  const places = environmentsOf(a, environment);
  let view = null;
  if (places.length > 0) {
    const cells = a.A * a.L, d = new Float64Array(cells), count = new Int32Array(cells);
    const variances = places.map(() => new Array(cells).fill(NaN)), iqm = new Array(cells).fill(NaN);
    let twice = 0, used = 0;
    const most = places.map(() => 0);
    for (let c = 0; c < cells; c += 1) {
      const groups = cellRuns(a, c, places, evaluation);
      d[c] = cellScore(groups, statistic);
      groups.forEach((g, k) => { count[c] += g.length; most[k] = Math.max(most[k], g.length); });
      if (Number.isFinite(d[c])) { used += 1; if (groups.every((g) => g.length >= 2)) twice += 1; }
      if (statistic === "mean") groups.forEach((g, k) => { variances[k][c] = varianceOfMean(g); });
      else iqm[c] = groups.some((g) => g.length === 0) ? NaN : varianceOfIqm(groups);
    }
    let s;
    if (statistic === "mean") {
      const smoothed = variances.map((v) => smooth(v, a.A, a.L));
      s = d.map((_, c) => Math.sqrt(smoothed.reduce((t, v) => t + v[c], 0)) / places.length);
    } else s = Float64Array.from(smooth(iqm, a.A, a.L), Math.sqrt);
    let why = "";
    if (used === 0) why = "no cell has a run in every environment";
    else if (Math.max(...most) < 2) why = "one seed per cell: no interval";
    else if (Math.min(...most) < 2) why = "an environment has one seed per cell: no interval";
    else if (twice < used / 2) why = "most cells have a single seed: no interval";
    view = { d, s, count, wanted: places.length * a.N, why, places };
  }
  a.views.set(key, view);
  return view;
}

function maskOf(a, cells) {
  if (!a.masks.has(cells)) {
    const mask = new Uint8Array(a.A * a.L);
    for (let i = 0; i < a.A; i += 1) for (let j = 0; j < a.L; j += 1) mask[i * a.L + j] = cells === "all" || (a.alphas[i] > 0 && a.lams[j] > 0) ? 1 : 0;
    a.masks.set(cells, mask);
  }
  return a.masks.get(cells);
}

const number = (x, digits = 3) => (Number.isFinite(x) ? x.toFixed(digits) : "–");
const plain = (x) => (x !== 0 && Math.abs(x) < 1e-3 ? x.toExponential(3).replace(/\.?0*e/, "e") : String(Number(x.toPrecision(4))));
const interval = (e, digits = 4) => (e.why ? "no interval" : `[${number(e.low, digits)}, ${number(e.high, digits)}]`);

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
