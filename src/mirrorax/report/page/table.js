// The robustness table: one row per algorithm, sortable, live with the threshold. Rows that are not
// over the same cells are in the order of their names.
const sorting = { key: null, down: true };

function bestCell(a, view, mask) {
  let best = -1;
  for (let k = 0; k < view.d.length; k += 1) if (mask[k] && Number.isFinite(view.d[k]) && (best < 0 || view.d[k] > view.d[best])) best = k;
  return best < 0 ? null : { alpha: a.alphas[Math.floor(best / a.L)], lam: a.lams[best % a.L], score: view.d[best] };
}

function tableRows(state) {
  const rows = [], compared = comparedCells(state);
  for (const a of ALGORITHMS) {
    const view = viewOf(a, state), { mask, comparable, elsewhere, members } = compared.get(a.index) ?? {};
    if (!view || !mask) continue;
    const grid = gridOf(view, mask), rbst = estimate("rbst", grid, state.threshold), freq = estimate("freq", grid, state.threshold);
    const allowed = maskOf(a, state.cells), counted = new Set([...mask.keys()].filter((k) => mask[k]));
    const own = gridValues(a, state.environment);
    for (const i of own.rows) for (const j of own.columns) if (allowed[i * a.L + j]) counted.add(i * a.L + j);
    const runs = sum([...counted].map((k) => view.count[k])), wanted = counted.size * view.wanted;
    const like = state.environment === "shared" && state.evaluation === "stochastic" && state.statistic === "mean" && state.cells === "positive";
    const theirs = like && a.reference ? a.reference.rbst.find(([t]) => Math.abs(t - state.threshold) < 1e-9) : null;
    rows.push({ a, label: a.label, referenceLabel: a.reference ? a.reference.label : "", best: bestCell(a, view, mask), rbst, freq, comparable, elsewhere, members,
      reference: theirs ? theirs[1] : NaN, gap: theirs ? rbst.value - theirs[1] : NaN, cells: rbst.n, grid: counted.size, runs, wanted, unlike: theirs && a.reference.cells !== null && a.reference.cells !== rbst.n, otherwise: theirs ? a.reference.otherwise : "" });
  }
  // A rank is as sure as the differences that the data support, among rows over the same cells.
  for (const row of rows) {
    const group = rows.filter((o) => o.a.axis === row.a.axis), gaps = group.filter((o) => o !== row).map((o) => differenceOf(row.rbst, o.rbst));
    row.rankLow = 1 + gaps.filter((g) => g.supported && g.high < 0).length;
    row.rankHigh = group.length - gaps.filter((g) => g.supported && g.low > 0).length;
    row.rank = !row.comparable || group.some((o) => o.rbst.why) ? "" : (row.rankLow === row.rankHigh ? String(row.rankLow) : `${row.rankLow}–${row.rankHigh}`);
  }
  return rows;
}

const COLUMNS = [
  { key: "referenceLabel", name: "#", value: (r) => r.referenceLabel },
  { key: "label", name: "(h, D) and schedule", value: (r) => r.label },
  { key: "alpha", name: "best α or w", number: true, value: (r) => r.best.alpha, show: (r) => plain(r.best.alpha) },
  { key: "lam", name: "best λ", number: true, value: (r) => r.best.lam, show: (r) => plain(r.best.lam) },
  { key: "score", name: "its score", number: true, value: (r) => r.best.score, show: (r) => number(r.best.score) },
  { key: "freq", name: "freq", number: true, value: (r) => r.freq.value, show: (r) => number(r.freq.value) },
  { key: "freqInterval", name: "95%: as many seeds", number: true, value: (r) => r.freq.low, show: (r) => interval(r.freq, 3) },
  { key: "rbst", name: "Rbst", number: true, value: (r) => r.rbst.value, show: (r) => number(r.rbst.value, 4) },
  { key: "interval", name: "95%: as many seeds", number: true, value: (r) => r.rbst.low, show: (r) => interval(r.rbst) },
  { key: "limit", name: "infinitely many", number: true, value: (r) => (r.rbst.limit ? r.rbst.limit.high : NaN), show: (r) => limitText(r.rbst) },
  { key: "rank", name: "rank", number: true, value: (r) => r.rankLow + r.rankHigh / 1000, show: (r) => r.rank },
  { key: "reference", name: DATA.reference, number: true, value: (r) => r.reference, show: (r) => (Number.isFinite(r.reference) ? number(r.reference, 4) : "") },
  { key: "gap", name: `ours − ${DATA.reference}`, number: true, value: (r) => r.gap, show: (r) => (Number.isFinite(r.gap) ? (r.gap < 0 ? "−" : "+") + number(Math.abs(r.gap), 4) : "") },
  { key: "cells", name: "cells", number: true, value: (r) => r.cells / r.grid, show: (r) => `${r.cells}/${r.grid}` },
  { key: "runs", name: "runs", number: true, value: (r) => r.runs / r.wanted, show: (r) => `${r.runs}/${r.wanted}` },
];

function shownColumns() {
  const reference = ALGORITHMS.some((a) => a.reference);
  return COLUMNS.filter((c) => reference || !["referenceLabel", "reference", "gap"].includes(c.key));
}

function sortRows(rows) {
  const column = COLUMNS.find((c) => c.key === (sorting.key ?? "rbst")), sign = sorting.down ? -1 : 1;
  const missing = (v) => (typeof v === "number" && !Number.isFinite(v)) || v === "";
  return [...rows].sort((p, q) => {
    const a = column.value(p), b = column.value(q);
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    return sign * (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
  });
}

// Rows are made once and refilled: the slider changes their numbers, rarely their order.
const madeRows = new Map();

function rowOf(row, columns, choose) {
  if (!madeRows.has(row.a.index)) {
    madeRows.set(row.a.index, element("tr", { "data-algorithm": row.a.index }, ...columns.map((c) => {
      const cell = element("td", { class: c.number ? "number" : "" });
      if (c.key === "label") cell.append(element("button", { type: "button", title: "Show its landscapes", onclick: () => choose(row.a.index) }));
      return cell;
    })));
  }
  return madeRows.get(row.a.index);
}

function showTable(rows, state, choose) {
  if (sorting.key === null && rows.length) Object.assign(sorting, rows.every((r) => r.comparable) ? { key: "rbst", down: true } : { key: "label", down: false });
  const table = $("table"), columns = shownColumns();
  const head = element("tr", {}, ...columns.map((c) => {
    const on = sorting.key === c.key;
    const button = element("button", { type: "button", text: c.name + (on ? (sorting.down ? " ▼" : " ▲") : ""), "data-key": c.key,
      onclick: () => {
        sorting.down = on ? !sorting.down : Boolean(c.number);
        sorting.key = c.key;
        showTable(rows, state, choose);
        table.querySelector(`button[data-key="${c.key}"]`).focus();
      } });
    return element("th", { scope: "col", class: c.number ? "number" : "", "aria-sort": on ? (sorting.down ? "descending" : "ascending") : "none" }, button);
  }));
  const body = sortRows(rows).map((row) => {
    const tr = rowOf(row, columns, choose);
    tr.className = row.a.index === state.pair ? "chosen" : "";
    columns.forEach((c, k) => {
      const text = String(c.show ? c.show(row) : c.value(row)), place = c.key === "label" ? tr.cells[k].firstChild : tr.cells[k];
      if (place.textContent !== text) place.textContent = text;
    });
    return tr;
  });
  if (table.tHead) table.tHead.replaceChildren(head);
  else table.append(element("thead", {}, head), element("tbody"));
  const shown = table.tBodies[0].children;
  if (shown.length !== body.length || body.some((tr, k) => shown[k] !== tr)) table.tBodies[0].replaceChildren(...body);
  $("table-notes").textContent = tableNotes(rows, state).join(" · ");
}

function tableNotes(rows, state) {
  const notes = [];
  for (const axis of ["alpha", "w"]) {
    const group = rows.filter((r) => r.a.axis === axis);
    if (!group.length || group[0].members < 2) continue;
    if (!group[0].comparable) notes.push("The algorithms have no cell in common: their rows are not comparable or ranked.");
    else notes.push(`All ${axis === "w" ? "rows with a learned alpha" : "rows"} are over the ${group[0].cells} cells that all ${group[0].members} have.`);
    const extra = group.filter((r) => r.elsewhere);
    if (extra.length) notes.push(`Cells that only some have are left out: ${extra.map((r) => `${r.label} ${r.elsewhere}`).join(", ")}.`);
  }
  for (const row of rows) if (row.runs < row.wanted) notes.push(`${row.label}: ${row.wanted - row.runs} of ${row.wanted} runs are missing or failed`);
  notes.push(...new Set(rows.map((r) => r.rbst.why || (r.rbst.noLimit ? `no interval for ${r.rbst.noLimit}` : "")).filter(Boolean)));
  if (rows.some((r) => r.unlike)) notes.push("The reference's values are over another number of cells than ours: not like for like.");
  for (const how of new Set(rows.map((r) => r.otherwise).filter(Boolean))) {
    const alike = rows.filter((r) => r.otherwise === how), beside = rows.filter((r) => Number.isFinite(r.reference));
    const which = alike.length === beside.length ? "" : ` (${alike.map((r) => r.label).join(", ")})`;
    notes.push(`Other settings than the reference's${which}: ${how}.`);
  }
  const left = DATA.environments.filter((_, e) => !DATA.shared.includes(e)).map((e) => e.label);
  if (state.environment === "shared" && left.length) notes.push(`Not averaged over: ${left.join(", ")}.`);
  return notes;
}

const tableCsv = (rows, state) => [
  ["reference_label", "label", "environment", "evaluation", "statistic", "threshold", "best_alpha_or_w", "best_lam", "best_score", "freq", "freq_low", "freq_high", "rbst", "rbst_low", "rbst_high", "rbst_limit_low", "rbst_limit_high", "rank_low", "rank_high", "reference", "difference", "cells", "grid", "runs", "wanted"],
  ...sortRows(rows).map((r) => [r.referenceLabel, r.label, environmentLabel(state.environment), state.evaluation, state.statistic, state.threshold, r.best.alpha, r.best.lam, r.best.score, r.freq.value, r.freq.low, r.freq.high, r.rbst.value, r.rbst.low, r.rbst.high, r.rbst.limit ? r.rbst.limit.low : "", r.rbst.limit ? r.rbst.limit.high : "", r.rank ? r.rankLow : "", r.rank ? r.rankHigh : "", r.reference, r.gap, r.cells, r.grid, r.runs, r.wanted]),
];
