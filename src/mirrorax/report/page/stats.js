// The formulas of mirrorax.analysis, for one page: scores, freq, Rbst, and intervals over seeds.

// 0.975 quantiles of Student's distribution for 1 to 30 degrees of freedom; then 40, 60, 120, oo.
const STUDENT = [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.306, 2.2622, 2.2281,
  2.201, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.093, 2.086, 2.0796, 2.0739,
  2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423, 2.0211, 2.0003, 1.9799, 1.96];
const FREEDOM = [...Array(30).keys()].map((k) => k + 1).concat([40, 60, 120, Infinity]);
const Z95 = 1.959964;

// Runs come as 32-bit numbers, so a mean that is 0.9 may come out as 0.8999999: it has reached 0.9.
const ROUNDING = 1e-6;
const reaches = (d, T) => d >= T - ROUNDING;

function student(df) {
  if (!(df > 1)) return STUDENT[0];
  let k = 0;
  while (FREEDOM[k + 1] < df) k += 1;
  // Linear in 1 / df, in which the quantile is nearly straight.
  const a = 1 / FREEDOM[k], b = 1 / FREEDOM[k + 1], x = 1 / df;
  return STUDENT[k] + (STUDENT[k + 1] - STUDENT[k]) * ((a - x) / (a - b));
}

function normalCdf(z) {
  // Abramowitz and Stegun 7.1.26: to 1e-7, far below what a plot or an interval shows.
  const x = Math.abs(z) / Math.SQRT2, t = 1 / (1 + 0.3275911 * x);
  const poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const half = 0.5 * poly * Math.exp(-x * x);
  return z > 0 ? 1 - half : half;
}

// Equally likely values of a standard normal, scaled to variance 1: its distribution, summed over.
const NODES = (() => {
  const out = [];
  for (let k = 0; k < 101; k += 1) {
    const p = (k + 0.5) / 101;
    let low = -8, high = 8;
    for (let i = 0; i < 60; i += 1) {
      const mid = (low + high) / 2;
      if (normalCdf(mid) < p) low = mid; else high = mid;
    }
    out.push((low + high) / 2);
  }
  const scale = Math.sqrt(out.reduce((s, z) => s + z * z, 0) / out.length);
  return out.map((z) => z / scale);
})();

function bend(d, s, at) {
  const z = (d - at) / s;
  return (d - at) * normalCdf(z) + s * Math.exp(-0.5 * z * z) / Math.sqrt(2 * Math.PI);
}

// The score of one cell from its runs by environment: the mean over environments of the means over
// seeds, or the interquartile mean of all runs. NaN where an environment has no run.
function cellScore(groups, statistic) {
  if (groups.length === 0 || groups.some((g) => g.length === 0)) return NaN;
  if (statistic === "mean") {
    let total = 0;
    for (const g of groups) total += g.reduce((a, b) => a + b, 0) / g.length;
    return total / groups.length;
  }
  const all = groups.flat().sort((a, b) => a - b);
  const cut = Math.floor(all.length / 4);
  const kept = all.slice(cut, all.length - cut);
  return kept.reduce((a, b) => a + b, 0) / kept.length;
}

// The unbiased variance of the mean of some numbers; NaN for fewer than two.
function varianceOfMean(g) {
  if (g.length < 2) return NaN;
  const mean = g.reduce((a, b) => a + b, 0) / g.length;
  return g.reduce((a, b) => a + (b - mean) ** 2, 0) / (g.length - 1) / g.length;
}

// The variance of an interquartile mean, from the winsorised variance.
function varianceOfIqm(groups) {
  const all = groups.flat().sort((a, b) => a - b);
  const n = all.length, cut = Math.floor(n / 4);
  if (groups.some((g) => g.length < 2)) return NaN;
  const flat = all.map((x) => Math.min(Math.max(x, all[cut]), all[n - 1 - cut]));
  const kept = 1 - (2 * cut) / n;
  return varianceOfMean(flat) / (kept * kept);
}

// Student's interval of a cell's score with Welch's degrees of freedom; null without two seeds.
function cellInterval(groups, statistic) {
  const score = cellScore(groups, statistic);
  if (!Number.isFinite(score) || groups.some((g) => g.length < 2)) return null;
  const parts = groups.map(varianceOfMean);
  const total = parts.reduce((a, b) => a + b, 0);
  const down = parts.reduce((a, v, k) => a + (v * v) / (groups[k].length - 1), 0);
  const df = down > 0 ? (total * total) / down : groups.reduce((a, g) => a + g.length - 1, 0);
  const variance = statistic === "mean" ? total / groups.length ** 2 : varianceOfIqm(groups);
  const half = student(df) * Math.sqrt(variance);
  return { low: score - half, high: score + half, half, variance, df };
}

// Average over the 3 x 3 cells around each, weights 1-2-1, NaN left out (as analysis.noise does).
function smooth(values, A, L) {
  let total = values.map((v) => (Number.isFinite(v) ? v : 0));
  let weight = values.map((v) => (Number.isFinite(v) ? 1 : 0));
  const count = weight.reduce((a, b) => a + b, 0);
  const overall = count ? total.reduce((a, b) => a + b, 0) / count : NaN;
  const blur = (x, along) => x.map((v, k) => {
    const i = Math.floor(k / L), j = k % L;
    if (along) return 2 * v + (i > 0 ? x[k - L] : 0) + (i < A - 1 ? x[k + L] : 0);
    return 2 * v + (j > 0 ? x[k - 1] : 0) + (j < L - 1 ? x[k + 1] : 0);
  });
  for (const along of [true, false]) { total = blur(total, along); weight = blur(weight, along); }
  return total.map((v, k) => (weight[k] > 0 ? v / weight[k] : overall));
}

// With u = (d - T) / s a cell's contribution varies under its noise as s^2 V(u) / (1 - T)^2 for Rbst
// and as V(u) for freq: one curve each, tabulated once, for all cells and thresholds.
const LOW = -6, HIGH = 8, STEP = 0.01;
const SPREAD = (() => {
  const size = Math.round((HIGH - LOW) / STEP) + 1;
  const rbst = new Float64Array(size), freq = new Float64Array(size);
  for (let k = 0; k < size; k += 1) {
    const u = LOW + k * STEP, sums = [0, 0, 0, 0];
    for (const z of NODES) {
      const v = u + z, bent = 2 * Math.max(v, 0) - bend(v, 1, 0), step = 2 * (v >= 0 ? 1 : 0) - normalCdf(v);
      sums[0] += bent; sums[1] += bent * bent; sums[2] += step; sums[3] += step * step;
    }
    const n = NODES.length;
    rbst[k] = Math.max(sums[1] / n - (sums[0] / n) ** 2, 0);
    freq[k] = Math.max(sums[3] / n - (sums[2] / n) ** 2, 0);
  }
  return { rbst, freq };
})();

function spread(kind, u) {
  const x = (u - LOW) / STEP, k = Math.floor(x), table = SPREAD[kind];
  return table[k] + (table[k + 1] - table[k]) * (x - k);
}

// freq(T) or Rbst_T over the cells of a mask, with the corrected interval of analysis.estimates.
function estimate(kind, view, mask, T) {
  const { d, s } = view, width = 1 - T;
  let n = 0, value = 0, corrected = 0, variance = 0, bias = 0;
  for (let k = 0; k < d.length; k += 1) {
    if (!mask[k] || !Number.isFinite(d[k])) continue;
    n += 1;
    const plain = kind === "rbst" ? Math.min(Math.max((d[k] - T) / width, 0), 1) : (reaches(d[k], T) ? 1 : 0);
    value += plain;
    if (view.why) continue;
    const e = Math.max(s[k], 1e-12), u = (d[k] - T) / e;
    if (u <= LOW) continue;
    // Far above the bend the correction is a straight line: its variance is known.
    const v = u >= HIGH - STEP ? (kind === "rbst" ? 1 : 0) : spread(kind, u);
    variance += kind === "rbst" ? v * (e / width) ** 2 : v;
    corrected += kind === "rbst" && u < HIGH ? 2 * plain - bend(d[k], e, T) / width : plain;
    // The bias of a step has no sign of its own, but a size: what smoothing once more moves.
    if (kind === "freq") bias += normalCdf(u) - plain;
  }
  if (n === 0) return null;
  const out = { value: value / n, n, why: view.why };
  if (view.why) return { ...out, corrected: out.value, se: NaN, low: NaN, high: NaN };
  const unit = (x) => Math.min(Math.max(x, 0), 1), moved = kind === "freq" && variance > 0 ? bias * bias : 0;
  const se = Math.sqrt(variance + moved) / n, centre = corrected / n;
  return { ...out, corrected: unit(centre), centre, se, low: unit(centre - Z95 * se), high: unit(centre + Z95 * se) };
}

// The plain values alone: freq(T) and Rbst_T without intervals.
function plainValues(view, mask, T) {
  let n = 0, freq = 0, rbst = 0;
  for (let k = 0; k < view.d.length; k += 1) {
    const d = view.d[k];
    if (!mask[k] || !(d === d)) continue;
    n += 1;
    if (reaches(d, T)) { freq += 1; rbst += Math.min(Math.max((d - T) / (1 - T), 0), 1); }
  }
  return n ? { freq: freq / n, rbst: rbst / n } : null;
}

function differenceOf(a, b) {
  const value = a.value - b.value;
  if (a.why || b.why) return { value, why: a.why || b.why, supported: false, low: NaN, high: NaN };
  const se = Math.hypot(a.se, b.se), centre = a.centre - b.centre;
  const low = centre - Z95 * se, high = centre + Z95 * se;
  return { value, centre, se, low, high, supported: low > 0 || high < 0, above: se > 0 ? normalCdf(centre / se) : (centre > 0 ? 1 : 0) };
}
