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

// landscapes_tsallis-0.5-kl_threshold-0.90.svg
const slug = (text) => String(text).replace(/[^A-Za-z0-9.]+/g, "-").replace(/^[-.]+|[-.]+$/g, "").slice(0, 80);
const fileName = (...parts) => `${parts.slice(0, -1).map(slug).filter(Boolean).join("_")}.${parts.at(-1)}`;

// Figures in rows of at most `columns`, below a title and a line on what they show, above a scale.
function composite(figures, columns, { title, note, scale }) {
  const rows = [], gap = 12, top = 52;
  for (let k = 0; k < figures.length; k += columns) rows.push(figures.slice(k, k + columns));
  const heights = rows.map((row) => Math.max(...row.map((f) => f.height)));
  const widths = figures.slice(0, columns).map((_, k) => Math.max(...rows.map((row) => (row[k] ? row[k].width : 0))));
  const total = (list) => list.reduce((a, b) => a + b + gap, 0);
  return {
    width: Math.max(total(widths) + gap, 10 * title.length + gap, 7 * note.length + gap, scale.width + 2 * gap),
    height: top + total(heights) + gap + scale.height,
    draw(surface, colours) {
      surface.text(gap, 22, title, { size: 15, fill: colours.ink, weight: "600" });
      surface.text(gap, 40, note, { size: 11.5, fill: colours.soft });
      rows.forEach((row, r) => row.forEach((figure, k) => {
        surface.at(gap + total(widths.slice(0, k)), top + total(heights.slice(0, r)), (inner) => figure.draw(inner, colours));
      }));
      surface.at(gap, top + total(heights), (inner) => scale.draw(inner, colours));
    },
  };
}

// sources: {name: {figure() or null, rows(), name()}}; name() gives the parts of the file's name.
function wireDownloads(sources) {
  for (const place of document.querySelectorAll(".downloads")) {
    const source = sources[place.dataset.figure], name = place.dataset.figure;
    const file = (kind) => fileName(name, ...source.name(), kind);
    const button = (kind, run) => place.append(element("button", { type: "button", text: kind, "aria-label": `Download ${name} as ${kind}`, "data-kind": kind.toLowerCase(), onclick: run }));
    if (source.figure) {
      button("SVG", () => save(file("svg"), new Blob([figureSvg(source.figure(), theme(), theme().back)], { type: "image/svg+xml" })));
      button("PNG", () => {
        const colours = theme(), figure = source.figure();
        const filled = { ...figure, draw(surface, c) { surface.rect(0, 0, figure.width, figure.height, c.back); figure.draw(surface, c); } };
        figureCanvas(filled, colours, 3).toBlob((blob) => save(file("png"), blob), "image/png");
      });
    }
    button("CSV", () => save(file("csv"), new Blob([csv(source.rows())], { type: "text/csv" })));
  }
}
