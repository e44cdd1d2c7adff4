// Downloads: every figure as SVG, PNG and CSV, made when asked for.
const csvCell = (value) => {
  if (value === null || value === undefined || (typeof value === "number" && !Number.isFinite(value))) return "";
  const text = String(value);
  // A leading = + - @ would be run as a formula by some programs; numbers are left alone.
  const safe = typeof value === "string" && /^[=+\-@\t]/.test(text) ? `'${text}` : text;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
const csv = (rows) => `${rows.map((row) => row.map(csvCell).join(",")).join("\n")}\n`;

function save(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = element("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// figures: [{figure}] put together in rows of at most `columns`.
function composite(figures, columns) {
  const rows = [];
  for (let k = 0; k < figures.length; k += columns) rows.push(figures.slice(k, k + columns));
  const heights = rows.map((row) => Math.max(...row.map((f) => f.height)));
  const widths = figures.slice(0, columns).map((_, k) => Math.max(...rows.map((row) => (row[k] ? row[k].width : 0))));
  const sum = (list) => list.reduce((a, b) => a + b + 12, 0);
  return {
    width: sum(widths) + 12,
    height: sum(heights) + 12,
    draw(surface, colours) {
      rows.forEach((row, r) => row.forEach((figure, k) => {
        surface.at(12 + sum(widths.slice(0, k)), 12 + sum(heights.slice(0, r)), (inner) => figure.draw(inner, colours));
      }));
    },
  };
}

// sources: {name: {figure() or null, rows()}}
function wireDownloads(sources) {
  for (const place of document.querySelectorAll(".downloads")) {
    const name = place.dataset.figure, source = sources[name];
    const button = (kind, run) => place.append(element("button", { type: "button", text: kind, "aria-label": `Download ${name} as ${kind}`, "data-kind": kind.toLowerCase(), onclick: run }));
    if (source.figure) {
      button("SVG", () => save(`${name}.svg`, new Blob([figureSvg(source.figure(), theme(), theme().back)], { type: "image/svg+xml" })));
      button("PNG", () => {
        const colours = theme(), figure = source.figure();
        const filled = { ...figure, draw(surface, c) { surface.rect(0, 0, figure.width, figure.height, c.back); figure.draw(surface, c); } };
        figureCanvas(filled, colours, 3).toBlob((blob) => save(`${name}.png`, blob), "image/png");
      });
    }
    button("CSV", () => save(`${name}.csv`, new Blob([csv(source.rows())], { type: "text/csv" })));
  }
}
