// The formulas of mirrorax.analysis, for one page: scores, freq, Rbst, and intervals over seeds.
// tests/browser feeds both the same runs and compares.

const Z95 = 1.959963984540054;
// As in analysis: seeds that agree (scores), runs behind a score and shares (estimates).
const AGREE = 0.1, ENOUGH = 10, SHARE = 0.25, AGAIN = Math.SQRT2 - 1;

// Runs come as 32-bit numbers, so a mean that is 0.9 may come out as 0.8999999: it has reached 0.9.
const ROUNDING = 1e-6;
const reaches = (d, T) => d >= T - ROUNDING;
const sum = (values) => values.reduce((a, b) => a + b, 0);
const average = (values) => sum(values) / values.length;

// Hart's rational approximation (Computer Approximations, 1968, number 5666), to about 1e-15;
// further out a continued fraction.
const UPPER = [3.52624965998911e-2, 0.700383064443688, 6.37396220353165, 33.912866078383, 112.079291497871, 221.213596169931, 220.206867912376];
const LOWER = [8.83883476483184e-2, 1.75566716318264, 16.064177579207, 86.7807322029461, 296.564248779674, 637.333633378831, 793.826512519948, 440.413735824752];
function normalCdf(z) {
  const a = Math.abs(z), height = Math.exp(-a * a / 2);
  let tail;
  if (a < 7.07) {
    let up = 0, down = 0;
    for (const c of UPPER) up = up * a + c;
    for (const c of LOWER) down = down * a + c;
    tail = height * up / down;
  } else tail = height / Math.sqrt(2 * Math.PI) / (a + 1 / (a + 2 / (a + 3 / (a + 4 / (a + 0.65)))));
  return z > 0 ? 1 - tail : tail;
}

// The 0.975 quantile of Student's distribution for two or more degrees of freedom: with
// t = sqrt(df) tan(x) the density is that of cos(x)^(df - 1), summed by Simpson's rule.
const students = new Map();
function student(df) {
  if (df > 1e6) return Z95;
  if (students.has(df)) return students.get(df);
  const steps = 2000, width = Math.PI / 2 / steps, area = new Float64Array(steps / 2 + 1);
  const height = (k) => Math.cos(k * width) ** (df - 1);
  for (let k = 0; k < steps; k += 2) area[k / 2 + 1] = area[k / 2] + (height(k) + 4 * height(k + 1) + (k + 2 < steps ? height(k + 2) : 0)) * width / 3;
  const wanted = 0.95 * area[steps / 2];
  let at = 0;
  while (area[at + 1] < wanted) at += 1;
  // Newton's method inside the strip, from its start; the rest of the area by Simpson's rule again.
  const start = 2 * at * width;
  let x = start;
  for (let k = 0; k < 8; k += 1) {
    const part = (x - start) / 6 * (Math.cos(start) ** (df - 1) + 4 * Math.cos((start + x) / 2) ** (df - 1) + Math.cos(x) ** (df - 1));
    x += (wanted - area[at] - part) / Math.cos(x) ** (df - 1);
  }
  students.set(df, Math.sqrt(df) * Math.tan(x));
  return students.get(df);
}

// The score of one cell from its runs by environment: the mean over environments of the means over
// seeds, or the interquartile mean of all runs. NaN where an environment has no run.
function cellScore(groups, statistic) {
  if (groups.length === 0 || groups.some((g) => g.length === 0)) return NaN;
  if (statistic === "mean") return average(groups.map(average));
  const all = groups.flat().sort((a, b) => a - b);
  const cut = Math.floor(all.length / 4);
  return average(all.slice(cut, all.length - cut));
}

// The unbiased variance of the mean of some numbers; NaN for fewer than two.
function varianceOfMean(g) {
  if (g.length < 2) return NaN;
  const mean = average(g);
  return sum(g.map((x) => (x - mean) ** 2)) / (g.length - 1) / g.length;
}

// The variance of a cell's mean and Welch's degrees of freedom; null with fewer than three seeds.
function cellSpread(groups) {
  if (groups.length === 0 || groups.some((g) => g.length < 3)) return null;
  const parts = groups.map(varianceOfMean), total = sum(parts);
  const down = sum(parts.map((v, k) => (v * v) / (groups[k].length - 1)));
  return { variance: total / groups.length ** 2, df: down > 0 ? (total * total) / down : Infinity };
}

const fewest = (groups) => (groups.length ? Math.min(...groups.map((g) => g.length)) : 0);

// As scores.mean_intervals: null with fewer than three seeds, or where they agree.
function cellInterval(groups, statistic, known = true) {
  const lowest = groups.map((g) => Math.min(...g)), highest = groups.map((g) => Math.max(...g));
  const apart = Math.max(...highest.map((x, e) => x - lowest[e]));
  const spread = statistic === "mean" && apart > AGREE ? cellSpread(groups) : null;
  if (!spread) return null;
  const score = cellScore(groups, statistic), half = student(spread.df) * Math.sqrt(spread.variance);
  const least = known && Math.min(...lowest) >= 0 ? 0 : -Infinity, most = known && Math.max(...highest) <= 1 ? 1 : Infinity;
  return { low: Math.max(score - half, least), high: Math.min(score + half, most) };
}

// The interval in words, or what stands in its place.
function seedsInWords(groups, statistic, known = true) {
  if (statistic !== "mean") return "no interval for the interquartile mean of one cell";
  const count = fewest(groups);
  if (count < 2) return "one seed: no interval";
  const each = [...Array(count).keys()].map((n) => average(groups.map((g) => g[n])));
  if (count === 2) return `two seeds: ${each[0].toFixed(3)} and ${each[1].toFixed(3)}`;
  const range = cellInterval(groups, statistic, known);
  if (!range) return `${count} seeds agree: ${Math.min(...each).toFixed(3)} to ${Math.max(...each).toFixed(3)}`;
  const beyond = range.low < 0 || range.high > 1;
  return `95% interval [${range.low.toFixed(3)}, ${range.high.toFixed(3)}]${beyond ? ", beyond [0, 1], as scores can be" : ""}`;
}

// Neighbours along an axis, both of the mask: a cell, the next one, a cell, the next one.
function neighbours(axis, A, L, mask) {
  const out = [], step = axis === 0 ? L : 1;
  for (let i = 0; i < A - (axis === 0 ? 1 : 0); i += 1) {
    for (let j = 0; j < L - (axis === 1 ? 1 : 0); j += 1) {
      const k = i * L + j;
      if (mask[k] && mask[k + step]) out.push(k, k + step);
    }
  }
  return Int32Array.from(out);
}

// The scores of a cell without each of its first seeds in turn.
function withoutOne(groups, count, statistic) {
  if (count < 2) return [];
  if (statistic !== "mean") return [...Array(count).keys()].map((n) => cellScore(groups.map((g) => g.filter((_, k) => k !== n)), statistic));
  const totals = groups.map(sum);
  return [...Array(count).keys()].map((n) => groups.reduce((a, g, e) => a + (totals[e] - g[n]) / (g.length - 1), 0) / groups.length);
}

// What the seeds of a grid's cells say of their noise, as analysis.estimates.
// `runs` gives the runs of a cell by environment. Rows and columns without a cell are no gaps.
function gridScores(runs, height, width, cells, statistic) {
  const scored = [...cells.keys()].filter((k) => cells[k] && fewest(runs(k)) > 0);
  const rows = [...new Set(scored.map((k) => Math.floor(k / width)))], columns = [...new Set(scored.map((k) => k % width))].sort((a, b) => a - b);
  const A = rows.length, L = columns.length, size = A * L, kept = new Set(scored);
  const all = rows.flatMap((i) => columns.map((j) => (kept.has(i * width + j) ? runs(i * width + j) : [])));
  const d = Float64Array.from(all, (groups) => cellScore(groups, statistic));
  const mask = Uint8Array.from(d, (x) => (Number.isFinite(x) ? 1 : 0)), used = [...mask.keys()].filter((k) => mask[k]);
  const count = Int32Array.from(all, (groups, k) => (mask[k] ? fewest(groups) : 0));
  const pairs = [0, 1].map((axis) => neighbours(axis, A, L, mask));
  const leftOut = all.map((groups, k) => Float64Array.from(withoutOne(groups, count[k], statistic)));
  const ends = all.map((groups, k) => (mask[k] ? groups.map((g) => [Math.min(...g), Math.max(...g)]) : null));
  const best = new Float64Array(size), worst = new Float64Array(size), noisy = new Uint8Array(size);
  for (const k of used) {
    const near = [], i = Math.floor(k / L), j = k % L;
    for (let p = Math.max(i - 1, 0); p <= Math.min(i + 1, A - 1); p += 1) for (let q = Math.max(j - 1, 0); q <= Math.min(j + 1, L - 1); q += 1) if (mask[p * L + q]) near.push(ends[p * L + q]);
    best[k] = cellScore(ends[k].map((_, e) => [Math.max(...near.map((n) => n[e][1]))]), statistic);
    worst[k] = cellScore(ends[k].map((_, e) => [Math.min(...near.map((n) => n[e][0]))]), statistic);
    noisy[k] = ends[k].some(([low, high]) => high - low > ROUNDING) ? 1 : 0;
  }
  const spread = used.map((k) => sum(all[k].map(varianceOfMean)) / all[k].length ** 2), known = spread.filter(Number.isFinite);
  const variance = new Float64Array(size);
  used.forEach((k, n) => { variance[k] = Number.isFinite(spread[n]) ? spread[n] : (known.length ? average(known) : 0); });
  const grid = { A, L, d, mask, used: Int32Array.from(used), count, pairs, leftOut, best, worst, noisy, statistic, why: whyNone(all, used) };
  if (used.length === 0 || grid.why) return grid;
  const sorted = used.map((k) => count[k]).sort((a, b) => a - b), half = sorted.length >> 1;
  grid.seeds = sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  grid.variance = exchange(variance, grid);
  const ones = exchange(Float64Array.from(mask), grid, 2);
  grid.behind = average(used.map((k) => 1 / ones[k]));
  const plain = Float64Array.from(d, (x, k) => (mask[k] ? x : 0));
  grid.levels = [];
  if (grid.seeds >= ENOUGH || !noisy.includes(1)) grid.levels.push({ x: plain, spread: grid.variance, averaged: false });
  if (grid.seeds * grid.behind >= ENOUGH) grid.levels.push({ x: exchange(plain, grid), spread: exchange(grid.variance, grid, 2), averaged: true });
  return grid;
}

function whyNone(all, used) {
  if (used.length === 0) return "no cell has a run in every environment";
  const most = all[used[0]].map((_, e) => Math.max(...used.map((k) => all[k][e].length)));
  if (Math.max(...most) < 2) return "one seed per cell: no interval";
  if (Math.min(...most) < 2) return "an environment has one seed per cell: no interval";
  if (used.filter((k) => fewest(all[k]) >= 2).length < used.length / 2) return "most cells have a single seed: no interval";
  return "";
}

// Average each cell with its neighbours, as analysis.estimates.
function exchange(values, { pairs, mask }, power = 1, back = false) {
  let from = values;
  for (const axis of back ? [1, 0] : [0, 1]) {
    const kept = new Float64Array(from.length).fill(1), out = new Float64Array(from.length);
    const both = pairs[axis], share = SHARE ** power;
    for (const k of both) kept[k] -= SHARE;
    for (let k = 0; k < out.length; k += 1) if (mask[k]) out[k] = kept[k] ** power * from[k];
    for (let n = 0; n < both.length; n += 2) {
      out[both[n]] += share * from[both[n + 1]];
      out[both[n + 1]] += share * from[both[n]];
    }
    from = out;
  }
  return from;
}

// The standard error of the mean over cells of what each contributes, as analysis.estimates
function errorOfMean(grid, part, values, more) {
  const { used, pairs, leftOut, best, worst, noisy } = grid, size = values.length;
  const total = new Float64Array(size), number = new Float64Array(size);
  for (const both of pairs) {
    for (let n = 0; n < both.length; n += 2) {
      const k = both[n], m = both[n + 1], gap = values[k] - values[m], half = gap * gap / 2;
      total[k] += half; number[k] += 1;
      total[m] += half; number[m] += 1;
    }
  }
  let between = 0, beside = 0, within = 0, several = 0, most = 0;
  for (const k of used) {
    if (number[k] > 0) { between += total[k] / number[k]; beside += 1; }
    const n = leftOut[k].length;
    if (n >= 2) {
      let mean = 0, squares = 0;
      for (let m = 0; m < n; m += 1) { const v = part(leftOut[k][m]); mean += v / n; squares += v * v; }
      within += Math.max(squares - n * mean * mean, 0) * n / (n - 1);
      several += 1;
    }
    if (noisy[k]) most = Math.max(most, part(best[k]) - part(worst[k]));
  }
  between = 2 * beside < used.length ? Infinity : between / beside * used.length;
  within *= used.length / Math.max(several, 1);
  return Math.sqrt(Math.min(between, within) + more * most * most) / used.length;
}

// The lower end of Rbst with infinitely many seeds, as analysis.estimates.
function lowerEnd(grid, { x, spread, averaged }, T) {
  const { used } = grid, slope = new Float64Array(x.length);
  let corrected = 0;
  for (const k of used) {
    const s = Math.max(Math.sqrt(spread[k]), 1e-12), gap = x[k] - T, z = gap / s, above = Math.max(gap, 0);
    if (z < -9) continue;  // it adds less than 1e-17
    const below = normalCdf(z), bend = gap * below + s * Math.exp(-0.5 * z * z) / Math.sqrt(2 * Math.PI);
    corrected += above - (bend - above) / AGAIN;
    slope[k] = (gap > 0 ? 1 + 1 / AGAIN : 0) - below / AGAIN;
  }
  const weight = averaged ? exchange(slope, grid, 1, true) : slope;
  const error = Math.sqrt(used.reduce((a, k) => a + weight[k] ** 2 * grid.variance[k], 0));
  return (corrected - Z95 * error) / used.length / (1 - T);
}

const unit = (x) => Math.min(Math.max(x, 0), 1);

// freq(T) or Rbst_T of a grid: the value, its interval with as many seeds, and, for Rbst, the
// interval with infinitely many. null without any score.
function estimate(kind, grid, T) {
  const part = kind === "rbst" ? (d) => unit((d - T) / (1 - T)) : (d) => (reaches(d, T) ? 1 : 0);
  const { used, why } = grid;
  if (used.length === 0) return null;
  const values = new Float64Array(grid.d.length);
  for (const k of used) values[k] = part(grid.d[k]);
  const out = { value: sum(values) / used.length, n: used.length, why, low: NaN, high: NaN, error: NaN, limit: null, noLimit: why };
  if (why) return out;
  out.error = errorOfMean(grid, part, values, kind === "rbst" ? 1 : 2);
  out.low = unit(out.value - Z95 * out.error);
  out.high = unit(out.value + Z95 * out.error);
  if (kind === "freq") out.noLimit = "infinitely many seeds: only for Rbst, not for freq";
  else if (grid.statistic !== "mean") out.noLimit = `infinitely many seeds: only for the mean, not for the ${grid.statistic}`;
  else if (grid.used.some((k) => grid.d[k] > 1 + ROUNDING)) out.noLimit = "infinitely many seeds: only where no cell scores above 1";
  else if (grid.levels.length === 0) out.noLimit = `infinitely many seeds: ${Math.ceil(ENOUGH / grid.behind)} per cell are needed`;
  else {
    const low = Math.max(...grid.levels.map((level) => lowerEnd(grid, level, T)));
    out.limit = { low: Math.min(Math.max(low, 0), out.high), high: out.high };
  }
  return out;
}

// The plain values alone: freq(T) and Rbst_T without intervals.
function plainValues(view, mask, T) {
  let n = 0, freq = 0, rbst = 0;
  for (let k = 0; k < view.d.length; k += 1) {
    const d = view.d[k];
    if (!mask[k] || !(d === d)) continue;
    n += 1;
    if (reaches(d, T)) { freq += 1; rbst += unit((d - T) / (1 - T)); }
  }
  return n ? { freq: freq / n, rbst: rbst / n } : null;
}

function differenceOf(a, b) {
  const value = a.value - b.value;
  if (a.why || b.why) return { value, why: a.why || b.why, supported: false, low: NaN, high: NaN };
  const half = Z95 * Math.hypot(a.error, b.error), low = value - half, high = value + half;
  return { value, low, high, supported: low > 0 || high < 0 };
}
