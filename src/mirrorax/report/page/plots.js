// Line plots: the frequency curves, the runs of a cell, learning curves.
const LEVELS = [...Array(101).keys()].map((k) => 0.5 + k * 0.005);
const BAND = [...Array(26).keys()].map((k) => 0.5 + k * 0.02);

function frequencyCurve(a, view, cells) {
  view.curves ??= new Map();
  if (!view.curves.has(cells)) {
    const mask = maskOf(a, cells);
    const kept = Array.from(view.d).filter((x, k) => mask[k] && Number.isFinite(x)).sort((x, y) => x - y);
    let k = 0;
    view.curves.set(cells, LEVELS.map((t) => {
      while (k < kept.length && !reaches(kept[k], t)) k += 1;
      return kept.length ? 1 - k / kept.length : NaN;
    }));
  }
  return view.curves.get(cells);
}

function frequencyBand(a, view, cells) {
  view.bands ??= new Map();
  if (!view.bands.has(cells)) {
    const grid = gridOf(view, maskOf(a, cells));
    view.bands.set(cells, grid.why ? null : BAND.map((t) => estimate("freq", grid, t)));
  }
  return view.bands.get(cells);
}

function axes(surface, colours, box, xs, ys, xLabel, yLabel) {
  const { left, top, width, height } = box;
  for (const { at, text } of xs) {
    surface.line([[at, top], [at, top + height]], colours.line, 0.6);
    surface.text(at, top + height + 14, text, { size: 11, fill: colours.soft, anchor: "middle" });
  }
  for (const { at, text } of ys) {
    surface.line([[left, at], [left + width, at]], colours.line, 0.6);
    surface.text(left - 6, at + 4, text, { size: 11, fill: colours.soft, anchor: "end" });
  }
  surface.text(left + width / 2, top + height + 31, xLabel, { size: 12, fill: colours.ink, anchor: "middle" });
  surface.text(14, top + height / 2, yLabel, { size: 12, fill: colours.ink, anchor: "middle", turn: -90 });
}

function niceStep(range, parts) {
  const raw = range / parts, base = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((m) => m * base).find((m) => m >= raw);
}

const FREQUENCY = { left: 58, top: 12, width: 560, height: 330 };

// curves: [{label, values, band, strong}]
function frequencyFigure(curves, threshold) {
  const box = FREQUENCY;
  const most = Math.max(0.01, ...curves.flatMap((c) => c.values.filter(Number.isFinite).concat((c.band || []).map((b) => b.high))));
  const x = (t) => box.left + ((t - 0.5) / 0.5) * box.width;
  const y = (v) => box.top + box.height * (1 - v / (most * 1.04));
  const rows = curves.length;
  return {
    width: 1000,
    height: Math.max(box.top + box.height + 44, 30 + rows * 16),
    draw(surface, colours) {
      const step = niceStep(most, 5), ys = [];
      for (let v = 0; v <= most * 1.04 + 1e-12; v += step) ys.push({ at: y(v), text: String(Number(v.toFixed(6))) });
      axes(surface, colours, box, [0.5, 0.6, 0.7, 0.8, 0.9, 1].map((t) => ({ at: x(t), text: String(t) })), ys, "performance level τ", "share of pairs with d ≥ τ");
      curves.forEach((c, k) => {
        if (!c.band) return;
        const up = c.band.map((b, i) => [x(BAND[i]), y(b.high)]), down = c.band.map((b, i) => [x(BAND[i]), y(b.low)]).reverse();
        surface.area(up.concat(down), colours.lines[k % 7], 0.2);
      });
      curves.forEach((c, k) => {
        const points = c.values.map((v, i) => [x(LEVELS[i]), y(v)]).filter((p) => Number.isFinite(p[1]));
        if (!points.length) return;
        const dash = DASHES[(k + Math.floor(k / 7)) % 6];
        surface.line(points, colours.lines[k % 7], c.strong ? 2.6 : 1.2, dash);
        const row = 22 + k * 16;
        surface.line([[640, row - 4], [672, row - 4]], colours.lines[k % 7], c.strong ? 2.6 : 1.4, dash);
        surface.text(678, row, c.label.length > 52 ? `${c.label.slice(0, 51)}…` : c.label, { size: 11.5, fill: colours.ink, weight: c.strong ? "600" : "normal" });
      });
      if (threshold >= 0.5) surface.line([[x(threshold), box.top], [x(threshold), box.top + box.height]], colours.ink, 1.4, "5 4");
    },
  };
}

// rows: [{label, runs: [{score, seed, state}]}]
function stripFigure(rows, threshold) {
  const left = 130, width = 420;
  const scores = rows.flatMap((r) => r.runs.map((run) => run.score)).filter(Number.isFinite);
  const low = Math.min(0, ...scores), high = Math.max(1, ...scores);
  const x = (v) => left + ((v - low) / (high - low)) * width;
  return {
    width: left + width + 20,
    height: 34 + rows.length * 26,
    draw(surface, colours) {
      const bottom = 6 + rows.length * 26;
      for (const v of [0, 0.25, 0.5, 0.75, 1]) {
        surface.line([[x(v), 4], [x(v), bottom]], colours.line, 0.6);
        surface.text(x(v), bottom + 14, String(v), { size: 11, fill: colours.soft, anchor: "middle" });
      }
      surface.line([[x(threshold), 4], [x(threshold), bottom]], colours.ink, 1.2, "5 4");
      rows.forEach((row, k) => {
        const y = 18 + k * 26;
        surface.text(left - 8, y + 4, row.label, { size: 12, fill: colours.ink, anchor: "end" });
        row.runs.forEach((run, n) => {
          if (!Number.isFinite(run.score)) return;
          const fill = run.state === "diverged" ? colours.lines[1] : colours.lines[0];
          surface.circle(x(run.score), y + ((n % 3) - 1) * 4, 4, fill, colours.ink);
        });
      });
    },
  };
}

// groups: [{label, series: [[y, ...], ...]}] over the same x
function curveFigure(groups, x, xLabel) {
  const box = { left: 58, top: 12, width: 480, height: 220 };
  const all = groups.flatMap((g) => g.series.flat()).filter(Number.isFinite);
  const low = Math.min(0, ...all), high = Math.max(1, ...all);
  const px = (v) => box.left + ((v - x[0]) / (x[x.length - 1] - x[0] || 1)) * box.width;
  const py = (v) => box.top + box.height * (1 - (v - low) / (high - low));
  return {
    width: 760,
    height: 280,
    draw(surface, colours) {
      const step = niceStep(x[x.length - 1] - x[0] || 1, 5), xs = [];
      for (let v = Math.ceil(x[0] / step) * step; v <= x[x.length - 1]; v += step) xs.push({ at: px(v), text: plain(v) });
      axes(surface, colours, box, xs, [0, 0.25, 0.5, 0.75, 1].map((v) => ({ at: py(v), text: String(v) })), xLabel, "normalised return");
      groups.forEach((g, k) => {
        const colour = colours.lines[k % 7];
        g.series.forEach((values) => {
          const points = values.map((v, i) => [px(x[i]), py(v)]).filter((p) => Number.isFinite(p[1]));
          if (points.length) surface.line(points, colour, 1.1, DASHES[k % 6]);
        });
        surface.line([[556, 22 + 16 * k], [584, 22 + 16 * k]], colour, 2, DASHES[k % 6]);
        surface.text(590, 26 + 16 * k, g.label, { size: 11.5, fill: colours.ink });
      });
    },
  };
}
