// Line plots: the frequency curves, the runs of a cell, learning curves.
// Curves and bands are kept for as long as the mask of cells is.
function keep(store, mask, make) {
  if (!store.has(mask)) store.set(mask, make());
  return store.get(mask);
}

function frequencyCurve(view, mask) {
  view.curves ??= new WeakMap();
  return keep(view.curves, mask, () => {
    const kept = Array.from(view.d).filter((x, k) => mask[k] && Number.isFinite(x)).sort((x, y) => x - y);
    let k = 0;
    return LEVELS.map((t) => {
      while (k < kept.length && !reaches(kept[k], t)) k += 1;
      return kept.length ? 1 - k / kept.length : NaN;
    });
  });
}

function frequencyBand(view, mask) {
  view.bands ??= new WeakMap();
  return keep(view.bands, mask, () => {
    const grid = gridOf(view, mask);
    return grid.why ? null : BAND.map((t) => estimate("freq", grid, t));
  });
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

const FROM = 0.3;
const LEVELS = [...Array(141).keys()].map((k) => FROM + k * 0.005);
const BAND = [...Array(36).keys()].map((k) => FROM + k * 0.02);
const curveLook = (k, colours) => ({ colour: colours.lines[k % 7], dash: DASHES[(k + Math.floor(k / 7)) % 6] });
const curveX = (box, t) => box.left + ((t - FROM) / (1 - FROM)) * box.width;
const curveBox = (room) => ({ left: 58, top: 30, width: Math.min(620, Math.max(220, room - 80)), height: 300 });

// curves: [{label, values, band, strong, k}]; with a legend in an export, else the page has one.
function frequencyFigure(curves, threshold, { room = 700, legend = false, title = "" } = {}) {
  const box = curveBox(room);
  const most = Math.max(0.01, ...curves.flatMap((c) => c.values.filter(Number.isFinite).concat((c.band || []).map((b) => b.high))));
  const x = (t) => curveX(box, t), y = (v) => box.top + box.height * (1 - v / (most * 1.04));
  const right = box.left + box.width + 24;
  return {
    box,
    width: legend ? right + 60 + 6.6 * Math.max(...curves.map((c) => c.label.length)) : right,
    height: Math.max(box.top + box.height + 44, legend ? 40 + curves.length * 16 : 0),
    draw(surface, colours) {
      const ys = roundTicks(0, most * 1.04, 5).map((v) => ({ at: y(v), text: shortNumber(v) }));
      surface.text(box.left, 16, title, { size: 12.5, fill: colours.ink, weight: "600" });
      const levels = (box.width > 380 ? [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1] : [0.4, 0.6, 0.8, 1]);
      axes(surface, colours, box, levels.map((t) => ({ at: x(t), text: String(t) })), ys, "performance level τ", "share of cells with d ≥ τ");
      for (const c of curves) {
        if (!c.band) continue;
        const up = c.band.map((b, i) => [x(BAND[i]), y(b.high)]), down = c.band.map((b, i) => [x(BAND[i]), y(b.low)]).reverse();
        surface.area(up.concat(down), curveLook(c.k, colours).colour, 0.2);
      }
      curves.forEach((c, n) => {
        const points = c.values.map((v, i) => [x(LEVELS[i]), y(v)]).filter((p) => Number.isFinite(p[1])), { colour, dash } = curveLook(c.k, colours);
        if (points.length) surface.line(points, colour, c.strong ? 2.8 : 1.5, dash);
        if (!legend) return;
        surface.line([[right, 40 + n * 16], [right + 32, 40 + n * 16]], colour, c.strong ? 2.8 : 1.5, dash);
        surface.text(right + 38, 44 + n * 16, c.label, { size: 11.5, fill: colours.ink, weight: c.strong ? "600" : "normal" });
      });
      if (threshold >= FROM) {
        surface.line([[x(threshold), box.top], [x(threshold), box.top + box.height]], colours.ink, 1.4, "5 4");
        surface.text(x(threshold) - 4, box.top + 11, `threshold ${threshold.toFixed(2)}`, { size: 10.5, fill: colours.ink, anchor: "end" });
      }
    },
  };
}

// Round numbers from low to high, about `parts` of them.
function roundTicks(low, high, parts) {
  const step = niceStep(high - low || 1, parts), out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9; k += 1) out.push(Number((k * step).toPrecision(12)));
  return out;
}

// rows: [{label, runs: [{score, seed, state}]}]
function stripFigure(rows, threshold, room) {
  const left = 14 + 7 * Math.max(...rows.map((r) => r.label.length)), width = Math.min(420, Math.max(120, room - left - 30));
  const scores = rows.flatMap((r) => r.runs.map((run) => run.score)).filter(Number.isFinite);
  const low = Math.min(0, ...scores), high = Math.max(1, ...scores);
  const x = (v) => left + ((v - low) / (high - low)) * width;
  return {
    width: left + width + 20,
    height: 34 + rows.length * 26,
    draw(surface, colours) {
      const bottom = 6 + rows.length * 26;
      for (const v of roundTicks(low, high, 4)) {
        surface.line([[x(v), 4], [x(v), bottom]], colours.line, 0.6);
        surface.text(x(v), bottom + 14, signed(v), { size: 11, fill: colours.soft, anchor: "middle" });
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
function curveFigure(groups, x, xLabel, room) {
  const box = { left: 58, top: 12, width: Math.min(480, Math.max(200, room - 90)), height: 220 };
  const all = groups.flatMap((g) => g.series.flat()).filter(Number.isFinite);
  const low = Math.min(0, ...all), high = Math.max(1, ...all);
  const px = (v) => box.left + ((v - x[0]) / (x[x.length - 1] - x[0] || 1)) * box.width;
  const py = (v) => box.top + box.height * (1 - (v - low) / (high - low));
  return {
    width: box.left + box.width + 24,
    height: 272 + 16 * groups.length,
    draw(surface, colours) {
      const xs = roundTicks(x[0], x[x.length - 1], 4).map((v) => ({ at: px(v), text: shortNumber(v) }));
      axes(surface, colours, box, xs, roundTicks(low, high, 4).map((v) => ({ at: py(v), text: signed(v) })), xLabel, "normalised return");
      groups.forEach((g, k) => {
        const colour = colours.lines[k % 7];
        g.series.forEach((values) => {
          const points = values.map((v, i) => [px(x[i]), py(v)]).filter((p) => Number.isFinite(p[1]));
          if (points.length) surface.line(points, colour, 0.7, "");
        });
        const mean = x.map((v, i) => [px(v), g.series.map((s) => s[i]).filter(Number.isFinite)]).filter(([, all]) => all.length).map(([at, all]) => [at, py(average(all))]);
        if (mean.length) surface.line(mean, colour, 2.2, DASHES[k % 6]);
        surface.line([[box.left, 278 + 16 * k], [box.left + 28, 278 + 16 * k]], colour, 2, DASHES[k % 6]);
        surface.text(box.left + 34, 282 + 16 * k, g.label, { size: 11.5, fill: colours.ink });
      });
    },
  };
}
