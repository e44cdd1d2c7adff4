// A heat map of one algorithm: equal columns for the tested values, zero set apart, lambda to the
// right, alpha (or w) upwards. A map shows the rows and columns of its grid; other cells are counted.
const GAP = 0.5;

const place = (values, k) => k + (k > 0 && values[0] === 0 && values.length > 1 ? GAP : 0);
const span = (values) => place(values, values.length - 1) + 1;

// At most three digits: 0.316, 2.5e-4, 5e4.
function shortNumber(v) {
  if (v !== 0 && (v < 1e-3 || v >= 1e4)) return String(Number(v.toPrecision(3)).toExponential()).replace("e+", "e");
  return String(Number(v.toPrecision(3)));
}

const signed = (v) => (v < 0 ? `−${shortNumber(-v)}` : shortNumber(v));

// Every value of a small grid, else zero and the decades; none nearer than `room(text)` columns to the last.
function tickList(values, room) {
  const out = [];
  let end = -Infinity;
  values.forEach((v, k) => {
    const power = v > 0 ? Math.log10(v) : 0;
    if (v !== 0 && values.length > 8 && Math.abs(power - Math.round(power)) > 1e-9) return;
    const x = place(values, k) + 0.5, text = shortNumber(v), half = room(text) / 2;
    if (x - half < end) return;
    end = x + half;
    out.push({ x, text });
  });
  return out;
}

function gridValues(a, environment) {
  const [rows, columns] = a.grids[environment] ?? [[...a.alphas.keys()], [...a.lams.keys()]];
  return { rows, columns, alphas: rows.map((i) => a.alphas[i]), lams: columns.map((j) => a.lams[j]) };
}

// Cells with a score that are not on the grid of a map.
function offGrid(a, grid, values) {
  const inside = new Set(grid.rows.flatMap((i) => grid.columns.map((j) => i * a.L + j)));
  let count = 0;
  values.forEach((v, k) => { if (Number.isFinite(v) && !inside.has(k)) count += 1; });
  return count;
}

// An even number of pixels per cell keeps every edge on a pixel; small grids get larger cells.
const cellSize = (grid, room, most = 48) => Math.min(most, Math.max(6, 2 * Math.floor(room / (2 * Math.max(grid.rows.length, grid.columns.length)))));

// spec: {algorithm, grid, values, threshold, cell (px), title, note, kind, marks}
function heatFigure(spec) {
  const { grid, cell } = spec;
  const longest = Math.max(...tickList(grid.alphas, () => 0).map(({ text }) => text.length));
  // Digits are 6.4 wide at size 10; before them is the name of the axis.
  const left = Math.max(44, Math.ceil(22 + 6.4 * (longest - 1))), top = spec.titled ? 34 : 4, bottom = 32, right = 8;
  const plotWidth = cell * span(grid.lams), plotHeight = cell * span(grid.alphas);
  const box = { left, top, cell, grid, plotWidth, plotHeight };
  const words = spec.titled ? Math.max(spec.title.length * 6.8, (spec.note || "").length * 5.8) : 0;
  return {
    box,
    width: Math.max(left + plotWidth + right, 180, words),
    height: top + plotHeight + bottom,
    draw(surface, colours) { drawHeat(surface, colours, spec, box); },
  };
}

// Where the cell in row r and column c of the grid is.
const cellBox = (box, r, c) => ({
  x: box.left + box.cell * place(box.grid.lams, c),
  y: box.top + box.plotHeight - box.cell * (place(box.grid.alphas, r) + 1),
});

// The cell at a point, as its place in the algorithm's own lists.
function cellAt(box, x, y) {
  const find = (values, u) => values.findIndex((_, k) => u >= place(values, k) && u < place(values, k) + 1);
  const c = find(box.grid.lams, (x - box.left) / box.cell), r = find(box.grid.alphas, (box.top + box.plotHeight - y) / box.cell);
  return r < 0 || c < 0 ? null : { i: box.grid.rows[r], j: box.grid.columns[c] };
}

// The parts of the grid between the gaps, by row from the top and by column.
function gridBlocks(box) {
  const { alphas, lams } = box.grid, A = alphas.length, L = lams.length;
  const columns = lams[0] === 0 && L > 1 ? [[0, 1], [1, L - 1]] : [[0, L]];
  const rows = alphas[0] === 0 && A > 1 ? [[0, A - 1], [A - 1, 1]] : [[0, A]];
  return rows.flatMap(([row, rowCount]) => columns.map(([column, columnCount]) => ({ row, rows: rowCount, column, columns: columnCount, ...cellBox(box, A - 1 - row, column) })));
}

function drawHeat(surface, colours, spec, box) {
  const a = spec.algorithm, { grid, cell } = box, A = grid.rows.length, L = grid.columns.length, score = spec.kind === "score";
  const ramp = rampColours(spec.kind), hole = paint(colours.hole);
  const at = (r, c) => grid.rows[r] * a.L + grid.columns[c], value = (r, c) => spec.values[at(r, c)];
  const level = (v) => (score ? step256(v) : step256(0.5 + v / (2 * spec.limit)));
  surface.grid(A, L, (r, c) => { const v = value(A - 1 - r, c); return Number.isFinite(v) ? ramp[level(v)] : hole; }, gridBlocks(box), cell);
  const good = (r, c) => r >= 0 && c >= 0 && r < A && c < L && reaches(value(r, c), spec.threshold);
  const lines = [], text = cell >= 26;
  for (let r = 0; r < A; r += 1) {
    for (let c = 0; c < L; c += 1) {
      const { x, y } = cellBox(box, r, c), v = value(r, c);
      if (text && Number.isFinite(v)) surface.text(x + cell / 2, y + cell / 2 + 3.5, v.toFixed(2).replace("-0.00", "0.00"), { size: cell >= 34 ? 11 : 9, fill: ramp[level(v)].ink, anchor: "middle" });
      if (spec.marks && spec.marks[at(r, c)]) surface.circle(x + cell * (text ? 0.82 : 0.5), y + cell * (text ? 0.18 : 0.5), Math.max(1.1, cell * (text ? 0.08 : 0.15)), "#000000", "#ffffff");
      if (!score || !good(r, c)) continue;
      if (!good(r, c - 1)) lines.push([[x, y], [x, y + cell]]);
      if (!good(r, c + 1)) lines.push([[x + cell, y], [x + cell, y + cell]]);
      if (!good(r + 1, c)) lines.push([[x, y], [x + cell, y]]);
      if (!good(r - 1, c)) lines.push([[x, y + cell], [x + cell, y + cell]]);
    }
  }
  surface.segments(lines, "#ffffff", 3.6);
  surface.segments(lines, "#000000", 1.6);
  const low = box.top + box.plotHeight;
  for (const { x, text: t } of tickList(grid.lams, (s) => (6 * s.length + 4) / cell)) surface.text(box.left + cell * x, low + 12, t, { size: 10, fill: colours.soft, anchor: "middle" });
  for (const { x, text: t } of tickList(grid.alphas, () => 11 / cell)) surface.text(box.left - 4, low - cell * x + 3.5, t, { size: 10, fill: colours.soft, anchor: "end" });
  surface.text(box.left + box.plotWidth / 2, low + 26, "λ (drift)", { size: 11, fill: colours.ink, anchor: "middle" });
  surface.text(11, box.top + box.plotHeight / 2, a.axis === "w" ? "w (target weight)" : "α (MDP)", { size: 11, fill: colours.ink, anchor: "middle", turn: -90 });
  if (spec.titled) {
    surface.text(2, 13, spec.title, { size: 12, fill: colours.ink, weight: "600" });
    surface.text(2, 27, spec.note || "", { size: 10.5, fill: colours.soft });
  }
}

function scaleFigure(kind, limit) {
  return {
    width: 350,
    height: 36,
    draw(surface, colours) {
      for (let k = 0; k < 220; k += 1) surface.rect(70 + k, 4, 1.2, 12, rampColours(kind)[step256(k / 219)].text);
      const ends = kind === "score" ? ["0", "0.5", "1"] : [`≤ −${plain(limit)}`, "0", `≥ ${plain(limit)}`];
      ends.forEach((text, k) => surface.text(70 + 110 * k, 29, text, { size: 10.5, fill: colours.soft, anchor: "middle" }));
      surface.text(66, 14, kind === "score" ? "score" : "difference", { size: 10.5, fill: colours.soft, anchor: "end" });
    },
  };
}
