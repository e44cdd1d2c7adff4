// A heat map of one algorithm: equal columns for the tested values, zero set apart, lambda to the
// right, alpha (or w) upwards.
const GAP = 0.5;

const place = (values, k) => k + (k > 0 && values[0] === 0 && values.length > 1 ? GAP : 0);
const span = (values) => place(values, values.length - 1) + 1;

function tickList(values, room) {
  const out = [];
  values.forEach((v, k) => {
    const power = v > 0 ? Math.log10(v) : 0;
    const label = v === 0 || values.length <= 8 || Math.abs(power - Math.round(power)) < 1e-9;
    if (!label) return;
    const x = place(values, k) + 0.5;
    if (out.length && x - out[out.length - 1].x < room) return;
    let text = String(v);
    if (values.length > 8 && v > 0) {
      const p = Math.round(power);
      text = p >= -2 && p <= 3 ? String(10 ** p) : `1e${p}`;
    }
    out.push({ x, text });
  });
  return out;
}

// An even number of pixels per cell keeps every edge on a pixel; small grids get larger cells.
const cellSize = (a, room) => Math.min(48, Math.max(6, 2 * Math.floor(room / (2 * Math.max(a.A, a.L)))));

// spec: {algorithm, view, threshold, cell (px), title, note, kind, marks}
function heatFigure(spec) {
  const { algorithm: a, cell } = spec;
  const left = 44, top = spec.titled ? 34 : 4, bottom = 32, right = 8;
  const plotWidth = cell * span(a.lams), plotHeight = cell * span(a.alphas);
  const box = { left, top, cell, a, plotWidth, plotHeight };
  return {
    box,
    width: Math.max(left + plotWidth + right, 180),
    height: top + plotHeight + bottom,
    draw(surface, colours) { drawHeat(surface, colours, spec, box); },
  };
}

const cellBox = (box, i, j) => ({
  x: box.left + box.cell * place(box.a.lams, j),
  y: box.top + box.plotHeight - box.cell * (place(box.a.alphas, i) + 1),
});

function cellAt(box, x, y) {
  const find = (values, u) => values.findIndex((_, k) => u >= place(values, k) && u < place(values, k) + 1);
  const j = find(box.a.lams, (x - box.left) / box.cell);
  const i = find(box.a.alphas, (box.top + box.plotHeight - y) / box.cell);
  return i < 0 || j < 0 ? null : { i, j };
}

// The parts of the grid between the gaps, by row from the top and by column.
function gridBlocks(box) {
  const { a } = box;
  const columns = a.lams[0] === 0 && a.L > 1 ? [[0, 1], [1, a.L - 1]] : [[0, a.L]];
  const rows = a.alphas[0] === 0 && a.A > 1 ? [[0, a.A - 1], [a.A - 1, 1]] : [[0, a.A]];
  return rows.flatMap(([row, rowCount]) => columns.map(([column, columnCount]) => ({ row, rows: rowCount, column, columns: columnCount, ...cellBox(box, a.A - 1 - row, column) })));
}

function drawHeat(surface, colours, spec, box) {
  const { a } = box;
  const full = rampTexts(spec.kind, colours.back, 1), faded = rampTexts(spec.kind, colours.back, 0.45), hole = paint(colours.hole);
  const values = spec.values, good = (k) => spec.kind === "score" && reaches(values[k], spec.threshold);
  const fill = (r, j) => {
    const k = (a.A - 1 - r) * a.L + j, v = values[k];
    if (!Number.isFinite(v)) return hole;
    if (spec.kind === "score") return (good(k) ? full : faded)[step256(v)];
    return full[step256(0.5 + v / (2 * spec.limit))];
  };
  surface.grid(a.A, a.L, fill, gridBlocks(box), box.cell);
  for (let i = 0; i < a.A; i += 1) {
    for (let j = 0; j < a.L; j += 1) {
      const k = i * a.L + j;
      if (Number.isFinite(values[k]) && !(spec.marks && spec.marks[k])) continue;
      const { x, y } = cellBox(box, i, j);
      if (!Number.isFinite(values[k]) && box.cell >= 5) surface.line([[x + 1, y + 1], [x + box.cell - 1, y + box.cell - 1]], colours.soft, 0.7);
      if (spec.marks && spec.marks[k]) surface.circle(x + box.cell / 2, y + box.cell / 2, Math.max(1.1, box.cell * 0.15), "#000000", "#ffffff");
    }
  }
  if (spec.kind === "score") {
    const lines = [];
    const isGood = (i, j) => i >= 0 && j >= 0 && i < a.A && j < a.L && good(i * a.L + j);
    for (let i = 0; i < a.A; i += 1) {
      for (let j = 0; j < a.L; j += 1) {
        if (!isGood(i, j)) continue;
        const { x, y } = cellBox(box, i, j), c = box.cell;
        if (!isGood(i, j - 1)) lines.push([[x, y], [x, y + c]]);
        if (!isGood(i, j + 1)) lines.push([[x + c, y], [x + c, y + c]]);
        if (!isGood(i + 1, j)) lines.push([[x, y], [x + c, y]]);
        if (!isGood(i - 1, j)) lines.push([[x, y + c], [x + c, y + c]]);
      }
    }
    surface.segments(lines, "#ffffff", 2.4);
    surface.segments(lines, "#000000", 1.1);
  }
  const low = box.top + box.plotHeight;
  for (const { x, text } of tickList(a.lams, 30 / box.cell)) surface.text(box.left + box.cell * x, low + 12, text, { size: 10, fill: colours.soft, anchor: "middle" });
  for (const { x, text } of tickList(a.alphas, 11 / box.cell)) surface.text(box.left - 4, low - box.cell * x + 3.5, text, { size: 10, fill: colours.soft, anchor: "end" });
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
      for (let k = 0; k < 220; k += 1) {
        const t = k / 219;
        surface.rect(70 + k, 4, 1.2, 12, hex(kind === "score" ? viridis(t) : puor(t)));
      }
      const ends = kind === "score" ? ["0", "0.5", "1"] : [`−${plain(limit)}`, "0", `+${plain(limit)}`];
      ends.forEach((text, k) => surface.text(70 + 110 * k, 29, text, { size: 10.5, fill: colours.soft, anchor: "middle" }));
      surface.text(66, 14, kind === "score" ? "score" : "difference", { size: 10.5, fill: colours.soft, anchor: "end" });
    },
  };
}
