// The robustness table: one row per algorithm, sortable, live with the threshold. Rows that are not
// over the same cells are in the order of their names.
const sorting = { key: null, down: true };

function bestCell(a, view, mask) {
  let best = -1;
  for (let k = 0; k < view.d.length; k += 1) if (mask[k] && Number.isFinite(view.d[k]) && (best < 0 || view.d[k] > view.d[best])) best = k;
  return best < 0 ? null : { cell: best, alpha: a.alphas[Math.floor(best / a.L)], lam: a.lams[best % a.L], score: view.d[best] };
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
    const best = bestCell(a, view, mask), groups = view.runs(best.cell), mean = state.statistic === "mean";
    rows.push({ a, label: a.label, best, range: cellInterval(groups, state.statistic, view.known), words: mean ? seedsInWords(groups, "mean", view.known).replace("95% interval ", "") : "", rbst, freq, comparable, elsewhere, members,
      reference: theirs ? theirs[1] : NaN, gap: theirs ? rbst.value - theirs[1] : NaN, cells: rbst.n, grid: counted.size, runs, wanted, unlike: theirs && a.reference.cells !== null && a.reference.cells !== rbst.n, otherwise: theirs ? a.reference.otherwise : "" });
  }
  // A rank is as sure as the differences that the data support, among rows over the same cells.
  for (const row of rows) {
    const group = rows.filter((o) => o.a.axis === row.a.axis), gaps = group.filter((o) => o !== row).map((o) => differenceOf(row.rbst, o.rbst));
    row.rankLow = 1 + gaps.filter((g) => g.supported && g.high < 0).length;
    row.rankHigh = group.length - gaps.filter((g) => g.supported && g.low > 0).length;
    row.rank = !row.comparable || group.some((o) => o.rbst.why) ? "-" : (row.rankLow === row.rankHigh ? String(row.rankLow) : `${row.rankLow}-${row.rankHigh}`);
  }
  return rows;
}

// The columns are those of figures/robustness_table.py, which also gives their values for the choices
// the page starts with. These are computed for other choices, too: [value, text]. A value may be a
// pair: the ends of an interval.
const ends = (e) => (e.why ? null : [e.low, e.high]);
const LIVE = {
  label: (r) => [r.label, r.label],
  "best.alpha": (r) => [r.best.alpha, `(${plain(r.best.alpha)}, ${plain(r.best.lam)})`],
  "best.lam": (r) => [r.best.lam, ""],
  "best.score": (r) => [r.best.score, `${number(r.best.score)} ${r.words && !r.words.startsWith("[") ? `(${r.words})` : r.words}`.trimEnd()],
  "best.interval": (r) => [r.range ? [r.range.low, r.range.high] : null, ""],
  "best.seeds": (r) => [r.words, ""],
  freq: (r) => [r.freq.value, number(r.freq.value)],
  freq_interval: (r) => [ends(r.freq), interval(r.freq, 3)],
  rbst: (r) => [r.rbst.value, number(r.rbst.value, 4)],
  rbst_interval: (r) => [ends(r.rbst), interval(r.rbst)],
  rbst_limit: (r) => [r.rbst.limit && [r.rbst.limit.low, r.rbst.limit.high], limitText(r.rbst)],
  no_interval: (r) => [r.rbst.why, ""],
  no_limit: (r) => [r.rbst.noLimit, ""],
  rank: (r) => [r.rank === "-" ? null : [r.rankLow, r.rankHigh], r.rank],
  reference: (r) => [r.reference, Number.isFinite(r.reference) ? number(r.reference, 4) : ""],
  difference: (r) => [r.gap, Number.isFinite(r.gap) ? (r.gap < 0 ? "" : "+") + number(r.gap, 4) : ""],
  cells: (r) => [r.cells, `${r.cells}/${r.grid}`],
  elsewhere: (r) => [r.elsewhere, ""],
  grid: (r) => [r.grid, ""],
  runs: (r) => [r.runs, `${r.runs}/${r.wanted}`],
  wanted: (r) => [r.wanted, ""],
};
const COLUMNS = DATA.table.columns.map((c, k) => ({ ...c, value: LIVE[c.key] ?? ((r, state) => {
  const cells = DATA.table.rows[r.label];
  return cells && (c.fixed || asStarted(state)) ? cells[k] : [null, "-"];
}) }));
if (DATA.reference && ALGORITHMS.some((a) => a.reference)) COLUMNS.unshift({ key: "reference_label", name: "#", fixed: true, value: (r) => [r.a.reference?.label ?? "", r.a.reference?.label ?? ""] });
const SHOWN = COLUMNS.filter((c) => c.name);

const asStarted = (state) => ["evaluation", "statistic", "cells", "threshold", "environment"].every((name) => state[name] === STARTED[name]);

function sortRows(rows, state) {
  const column = COLUMNS.find((c) => c.key === (sorting.key ?? "rbst")), sign = sorting.down ? -1 : 1;
  const missing = (v) => v === null || v === "" || (typeof v === "number" && !Number.isFinite(v));
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
  return [...rows].sort((p, q) => {
    const [a, b] = [p, q].map((r) => column.value(r, state)[0]);
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    return sign * (Array.isArray(a) ? compare(a[0], b[0]) || compare(a[1], b[1]) : compare(a, b));
  });
}

// Rows are made once and refilled: the slider changes their numbers, rarely their order.
const madeRows = new Map();

function rowOf(row, columns, choose) {
  if (!madeRows.has(row.a.index)) {
    madeRows.set(row.a.index, element("tr", { "data-algorithm": row.a.index }, ...columns.map((c) => {
      const cell = element("td", { class: c.fixed ? "" : "number" });
      if (c.key === "label") cell.append(element("button", { type: "button", title: "Show its landscapes", onclick: () => choose(row.a.index) }));
      return cell;
    })));
  }
  return madeRows.get(row.a.index);
}

function showTable(rows, state, choose) {
  if (sorting.key === null && rows.length) Object.assign(sorting, rows.every((r) => r.comparable) ? { key: "rbst", down: true } : { key: "label", down: false });
  const table = $("table"), columns = SHOWN;
  const head = element("tr", {}, ...columns.map((c) => {
    const on = sorting.key === c.key;
    const button = element("button", { type: "button", text: c.name + (on ? (sorting.down ? " ▼" : " ▲") : ""), "data-key": c.key,
      onclick: () => {
        sorting.down = on ? !sorting.down : !c.fixed;
        sorting.key = c.key;
        showTable(rows, state, choose);
        table.querySelector(`button[data-key="${c.key}"]`).focus();
      } });
    return element("th", { scope: "col", class: c.fixed ? "" : "number", "aria-sort": on ? (sorting.down ? "descending" : "ascending") : "none" }, button);
  }));
  const body = sortRows(rows, state).map((row) => {
    const tr = rowOf(row, columns, choose);
    tr.className = row.a.index === state.pair ? "chosen" : "";
    columns.forEach((c, k) => {
      const [, text] = c.value(row, state), place = c.key === "label" ? tr.cells[k].firstChild : tr.cells[k];
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
  const still = SHOWN.filter((c) => !LIVE[c.key] && !c.fixed).map((c) => c.name);
  if (still.length && !asStarted(state)) notes.push(`Only for the choices the page starts with, threshold ${STARTED.threshold.toFixed(2)}: ${still.join(", ")}.`);
  const left = DATA.environments.filter((_, e) => !DATA.shared.includes(e)).map((e) => e.label);
  if (state.environment === "shared" && left.length) notes.push(`Not averaged over: ${left.join(", ")}.`);
  return notes;
}

// The columns of `mirrorax robustness --format csv`, at one threshold and with the choices.
function tableCsv(rows, state) {
  const choices = ["environment", "evaluation", "statistic", "threshold"], name = (c) => c.key.replace(".", "_");
  const head = COLUMNS.flatMap((c) => (c.ends ? ["low", "high"].map((end) => `${name(c).replace(/_interval$/, "")}_${end}`) : [name(c)]));
  const cells = (r) => COLUMNS.flatMap((c) => {
    const [value] = c.value(r, state);
    if (c.ends) return value ?? ["", ""];
    return [Array.isArray(value) ? value.join(" ") : value];
  });
  return [[...choices, ...head], ...sortRows(rows, state).map((r) => [environmentLabel(state.environment), state.evaluation, state.statistic, state.threshold, ...cells(r)])];
}
