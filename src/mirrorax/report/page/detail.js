// One cell: what the tooltip says, and its runs one by one after a click.
function cellFacts(a, cell, state) {
  const places = environmentsOf(a, state.environment);
  if (!places.length) return null;
  const groups = cellRuns(a, cell, places, state.evaluation);
  const score = cellScore(groups, state.statistic);
  const count = groups.reduce((n, g) => n + g.length, 0);
  return { score, count, words: Number.isFinite(score) ? seedsInWords(groups, state.statistic, boundsKnown(a, places)) : "", wanted: places.length * a.N };
}

function cellLines(a, i, j, state) {
  const facts = cellFacts(a, i * a.L + j, state);
  const lines = [`${a.axis === "w" ? "w" : "α"} = ${plain(a.alphas[i])}, ${a.lam_axis === "v" ? "v" : "λ"} = ${plain(a.lams[j])}`];
  if (!facts || facts.count === 0) return [...lines, "no runs here"];
  if (!Number.isFinite(facts.score)) lines.push("no score: an environment has no run");
  else lines.push(`${state.statistic === "mean" ? "mean" : "interquartile mean"} ${number(facts.score)}`);
  if (facts.words) lines.push(facts.words);
  lines.push(`${facts.count} of ${facts.wanted} runs, ${state.evaluation}`);
  lines.push(environmentLabel(state.environment));
  return lines;
}

function runsOf(a, cell, state) {
  return a.envs.map((env, e) => ({
    label: DATA.environments[env].label,
    runs: [...Array(a.N).keys()].map((n) => {
      const at = (cell * a.E + e) * a.N + n;
      const status = STATES[a.state ? a.state[at] : 1];
      return { seed: a.seedNames ? a.seedNames[at] : n, state: status, stochastic: a.runs.stochastic[at], greedy: a.runs.greedy[at], score: a.runs[state.evaluation][at] };
    }).filter((run) => run.state !== "missing"),
  }));
}

function detailCsv(a, cell, state) {
  const i = Math.floor(cell / a.L), j = cell % a.L;
  return [["label", a.axis, "lam", "environment", "seed", "state", "stochastic", "greedy"],
    ...runsOf(a, cell, state).flatMap((row) => row.runs.map((r) => [a.label, a.alphas[i], a.lams[j], row.label, r.seed, r.state, r.stochastic, r.greedy]))];
}

// One command for each environment: it trains the runs of the cell again.
function trainCommands(a, i, j, state) {
  return runsOf(a, i * a.L + j, state).flatMap((row, e) => {
    if (!row.runs.length) return [];
    const seeds = row.runs.map((r) => r.seed).join(",") + (row.runs.length === 1 ? "," : "");
    return [`${a.command} ${DATA.environments[a.envs[e]].flags} --${a.axis} ${a.alphas[i]} --${a.lam_axis} ${a.lams[j]} --seeds ${seeds}`];
  });
}

async function copyText(text, button) {
  try { await navigator.clipboard.writeText(text); } catch {
    const field = element("textarea", { class: "offscreen" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  button.textContent = "Copied";
}

function commandBlock(text) {
  const button = element("button", { type: "button", class: "copy", text: "Copy", onclick: () => copyText(text, button) });
  return element("div", { class: "command" }, element("code", { text }), button);
}

function showDetail(state) {
  const host = $("detail");
  if (!state.picked) { host.replaceChildren(); return; }
  const a = ALGORITHMS[state.picked.algorithm], { i, j } = state.picked, cell = i * a.L + j;
  const rows = runsOf(a, cell, state), colours = theme();
  const strip = element("div", { class: "plot" });
  const room = Math.min(host.clientWidth || 600, innerWidth) - 36;
  showSvg(strip, figureSvg(stripFigure(rows, state.threshold, room), colours));
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...["environment", "seed", "stochastic", "greedy", "state"].map((t) => element("th", { scope: "col", text: t })))),
    element("tbody", {}, ...rows.flatMap((row) => row.runs.map((r) => element("tr", {}, element("td", { text: row.label }), element("td", { class: "number", text: String(r.seed) }), element("td", { class: "number", text: number(r.stochastic) }), element("td", { class: "number", text: number(r.greedy) }), element("td", { text: r.state }))))));
  const settings = element("table", {}, element("tbody", {}, ...a.settings.map(([k, v]) => element("tr", {}, element("th", { scope: "row", text: k }), element("td", { text: v })))));
  const parts = [element("h3", { text: `Runs of ${a.label}: ${cellLines(a, i, j, state).slice(0, 3).join(", ")}` }), strip];
  if (a.curve) {
    const groups = a.envs.map((env, e) => ({ label: DATA.environments[env].label, series: [...Array(a.N).keys()].map((n) => {
      const start = ((cell * a.E + e) * a.N + n) * a.curve.points;
      return Array.from(a.curve.y.slice(start, start + a.curve.points));
    }) }));
    const plot = element("div", { class: "plot", id: "curves" });
    showSvg(plot, figureSvg(curveFigure(groups, a.curve.x, "update", room), colours));
    parts.push(element("h3", { text: "Learning curves" }), plot);
  } else if (DATA.curves_left_out) parts.push(element("p", { class: "hint", text: "The store has learning curves, but too many for one page." }));
  const commands = trainCommands(a, i, j, state);
  if (commands.length) parts.push(element("h3", { text: "Train it again" }), ...commands.map(commandBlock));
  parts.push(element("details", { open: rows.reduce((n, r) => n + r.runs.length, 0) <= 12 }, element("summary", { text: "Each run" }), element("div", { class: "scroll" }, table)),
    element("details", {}, element("summary", { text: "Settings" }), element("div", { class: "scroll" }, settings)),
    element("p", {}, element("button", { type: "button", id: "detail-csv", text: "Runs as CSV", onclick: () => save(fileName("runs", a.label, `${a.axis}${a.alphas[i]}_lam${a.lams[j]}`, "csv"), new Blob([csv(detailCsv(a, cell, state))], { type: "text/csv" })) }), " ",
      element("button", { type: "button", id: "detail-close", text: "Close", onclick: () => { state.picked = null; showDetail(state); } })));
  host.replaceChildren(element("div", { class: "panel" }, ...parts));
}
