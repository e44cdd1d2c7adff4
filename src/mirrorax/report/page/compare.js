// Two algorithms: their maps, the difference, and what the data support. Only cells that both have
// are compared, matched by the values of their temperatures.
function sharedCells(a, b, viewA, viewB, cells) {
  const maskA = new Uint8Array(a.A * a.L), maskB = new Uint8Array(b.A * b.L), pairs = [];
  if (a.axis === b.axis) {
    const positiveA = maskOf(a, cells);
    a.alphas.forEach((alpha, i) => {
      const p = b.alphas.indexOf(alpha);
      if (p < 0) return;
      a.lams.forEach((lam, j) => {
        const q = b.lams.indexOf(lam), k = i * a.L + j, m = p * b.L + q;
        if (q < 0 || !Number.isFinite(viewA.d[k]) || !Number.isFinite(viewB.d[m])) return;
        pairs.push([k, m]);
        if (positiveA[k]) { maskA[k] = 1; maskB[m] = 1; }
      });
    });
  }
  return { maskA, maskB, pairs, number: maskA.reduce((x, y) => x + y, 0) };
}

// What does not depend on the threshold is cached while the slider moves.
let cached = { key: "" };

function compareOf(state) {
  const key = [state.first, state.second, state.evaluation, state.statistic, state.environment, state.cells].join("|");
  if (cached.key !== key) cached = { key, comparison: compareCells(state) };
  const { comparison } = cached;
  if (comparison.why) return comparison;
  const first = estimate("rbst", gridOf(comparison.viewA, comparison.common.maskA), state.threshold), second = estimate("rbst", gridOf(comparison.viewB, comparison.common.maskB), state.threshold);
  return { ...comparison, first, second, gap: differenceOf(first, second) };
}

function compareCells(state) {
  const a = ALGORITHMS[state.first], b = ALGORITHMS[state.second];
  const viewA = viewOf(a, state), viewB = viewOf(b, state);
  if (!viewA || !viewB) return { a, b, viewA, viewB, why: "One of the two has no runs on this environment." };
  const common = sharedCells(a, b, viewA, viewB, state.cells);
  if (common.number === 0) {
    const why = a.axis === b.axis ? "Their grids have no cell in common." : `One varies ${a.axis}, the other ${b.axis}: their grids have no cell in common.`;
    return { a, b, viewA, viewB, why };
  }
  const values = new Float64Array(a.A * a.L).fill(NaN), marks = new Uint8Array(a.A * a.L);
  let marked = 0;
  for (const [k, m] of common.pairs) {
    values[k] = viewA.d[k] - viewB.d[m];
    const p = cellSpread(viewA.runs(k)), q = cellSpread(viewB.runs(m));
    if (!p || !q || state.statistic !== "mean") continue;
    const variance = p.variance + q.variance;
    const df = variance > 0 ? variance ** 2 / (p.variance ** 2 / p.df + q.variance ** 2 / q.df) : Infinity;
    if (Math.abs(values[k]) > student(df) * Math.sqrt(variance) && variance > 0) { marks[k] = 1; marked += 1; }
  }
  return { a, b, viewA, viewB, values, marks, marked, common };
}

function verdict(comparison, state) {
  if (comparison.why) return comparison.why;
  const { first, second, gap, common } = comparison, T = plain(state.threshold);
  const start = `Rbst at ${T} over ${common.number} common cells: ${number(first.value, 4)} for the first, ${number(second.value, 4)} for the second; difference ${gap.value < 0 ? "−" : "+"}${number(Math.abs(gap.value), 4)}`;
  if (gap.why) return `${start}. ${gap.why}, so nothing can be said about which is better.`;
  const range = `, 95% interval [${number(gap.low, 4)}, ${number(gap.high, 4)}]`;
  if (!gap.supported) return `${start}${range}. The data do not support a difference.`;
  return `${start}${range}. The data support that the ${gap.low > 0 ? "first" : "second"} is more robust. ${comparison.marked} of ${common.pairs.length} cells differ on their own.`;
}

const LIMIT = 0.5;

function compareSpecs(comparison, state) {
  const look = (algorithm) => { const grid = gridValues(algorithm, state.environment); return { algorithm, grid, cell: cellSize(grid, mapRoom(290)), threshold: state.threshold, titled: true }; };
  const spec = (algorithm, values, letter) => ({ ...look(algorithm), values, kind: "score", title: `${letter}: ${algorithm.label}`, note: environmentLabel(state.environment) });
  const out = [];
  if (comparison.viewA) out.push(spec(comparison.a, comparison.viewA.d, "First"));
  if (comparison.viewB) out.push(spec(comparison.b, comparison.viewB.d, "Second"));
  if (!comparison.why) out.push({ ...look(comparison.a), values: comparison.values, marks: comparison.marks, kind: "difference", limit: LIMIT, title: "First − second", note: "dots: supported cell by cell" });
  return out;
}

function compareCsv(comparison, state) {
  const head = [["axis", "alpha_or_w", "lam", "first", "first_score", "second", "second_score", "difference", "supported", "environment", "evaluation", "statistic"]];
  if (comparison.why) return head;
  const { a, b, viewA, viewB } = comparison;
  return head.concat(comparison.common.pairs.map(([k, m]) => [a.axis, a.alphas[Math.floor(k / a.L)], a.lams[k % a.L], a.label, viewA.d[k], b.label, viewB.d[m], comparison.values[k], comparison.marks[k], environmentLabel(state.environment), state.evaluation, state.statistic]));
}

// Row against column: ▲ more robust, ▼ less, · not supported.
function showMatrix(rows) {
  const sorted = [...rows].sort((p, q) => q.rbst.value - p.rbst.value);
  const head = element("tr", {}, element("th", {}), ...sorted.map((r, k) => element("th", { scope: "col", text: String(k + 1), title: r.label })));
  const body = sorted.map((r, k) => element("tr", {}, element("th", { scope: "row", text: `${k + 1}  ${r.label}` }), ...sorted.map((c) => {
    if (c === r) return element("td", { text: "" });
    const gap = differenceOf(r.rbst, c.rbst);
    if (gap.why || !r.comparable || r.a.axis !== c.a.axis) return element("td", { text: "?", title: gap.why || "not over the same cells" });
    const sign = !gap.supported ? "·" : (gap.low > 0 ? "▲" : "▼");
    return element("td", { text: sign, class: { "▲": "up", "▼": "down" }[sign] || "", title: `${r.label} − ${c.label}: [${number(gap.low, 4)}, ${number(gap.high, 4)}]` });
  })));
  const table = $("matrix").querySelector("table");
  table.className = "matrix";
  table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
}
