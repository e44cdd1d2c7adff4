// One way to draw, two results: pixels on a canvas, or SVG text.
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const escapeXml = (text) => String(text).replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" }[c]));

class CanvasSurface {
  constructor(context) { this.c = context; }
  rect(x, y, w, h, fill) { this.c.fillStyle = fill; this.c.fillRect(x, y, w, h); }
  // A grid of cells of one size: painted one pixel each, then enlarged block by block.
  grid(rows, columns, fill, blocks, cell) {
    const image = new ImageData(columns, rows);
    for (let r = 0; r < rows; r += 1) for (let c = 0; c < columns; c += 1) image.data.set(fill(r, c).rgba, 4 * (r * columns + c));
    const small = document.createElement("canvas");
    small.width = columns;
    small.height = rows;
    small.getContext("2d").putImageData(image, 0, 0);
    this.c.imageSmoothingEnabled = false;
    for (const b of blocks) this.c.drawImage(small, b.column, b.row, b.columns, b.rows, b.x, b.y, b.columns * cell, b.rows * cell);
  }
  line(points, stroke, width = 1, dash = "") {
    this.c.strokeStyle = stroke; this.c.lineWidth = width;
    this.c.setLineDash(dash ? dash.split(" ").map(Number) : []);
    this.c.beginPath();
    points.forEach(([x, y], k) => (k ? this.c.lineTo(x, y) : this.c.moveTo(x, y)));
    this.c.stroke();
    this.c.setLineDash([]);
  }
  segments(list, stroke, width) {
    this.c.strokeStyle = stroke; this.c.lineWidth = width; this.c.beginPath();
    for (const [[x, y], [u, v]] of list) { this.c.moveTo(x, y); this.c.lineTo(u, v); }
    this.c.stroke();
  }
  area(points, fill, opacity) {
    this.c.globalAlpha = opacity; this.c.fillStyle = fill; this.c.beginPath();
    points.forEach(([x, y], k) => (k ? this.c.lineTo(x, y) : this.c.moveTo(x, y)));
    this.c.fill(); this.c.globalAlpha = 1;
  }
  circle(x, y, r, fill, stroke) {
    this.c.beginPath(); this.c.arc(x, y, r, 0, 2 * Math.PI); this.c.fillStyle = fill; this.c.fill();
    if (stroke) { this.c.strokeStyle = stroke; this.c.lineWidth = 0.7; this.c.stroke(); }
  }
  text(x, y, text, { size = 11, fill, anchor = "start", turn = 0, weight = "normal" }) {
    this.c.save(); this.c.translate(x, y); this.c.rotate((turn * Math.PI) / 180);
    this.c.font = `${weight} ${size}px ${FONT}`; this.c.fillStyle = fill;
    this.c.textAlign = { start: "left", middle: "center", end: "right" }[anchor];
    this.c.fillText(text, 0, 0); this.c.restore();
  }
  at(x, y, draw) { this.c.save(); this.c.translate(x, y); draw(this); this.c.restore(); }
}

const short = (x) => String(Math.round(x * 100) / 100);

class SvgSurface {
  constructor() { this.parts = []; }
  rect(x, y, w, h, fill) { this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" fill="${fill}"/>`); }
  grid(rows, columns, fill, blocks, cell) {
    for (const b of blocks) for (let r = 0; r < b.rows; r += 1) for (let c = 0; c < b.columns; c += 1) this.rect(b.x + c * cell, b.y + r * cell, cell, cell, fill(b.row + r, b.column + c).text);
  }
  line(points, stroke, width = 1, dash = "") {
    this.parts.push(`<polyline fill="none" stroke="${stroke}" stroke-width="${width}"${dash ? ` stroke-dasharray="${dash}"` : ""} points="${points.map(([x, y]) => `${short(x)},${short(y)}`).join(" ")}"/>`);
  }
  segments(list, stroke, width) {
    if (list.length) this.parts.push(`<path fill="none" stroke="${stroke}" stroke-width="${width}" d="${list.map(([[x, y], [u, v]]) => `M${short(x)} ${short(y)}L${short(u)} ${short(v)}`).join("")}"/>`);
  }
  area(points, fill, opacity) { this.parts.push(`<polygon fill="${fill}" fill-opacity="${opacity}" points="${points.map(([x, y]) => `${short(x)},${short(y)}`).join(" ")}"/>`); }
  circle(x, y, r, fill, stroke) { this.parts.push(`<circle cx="${short(x)}" cy="${short(y)}" r="${r}" fill="${fill}"${stroke ? ` stroke="${stroke}" stroke-width="0.7"` : ""}/>`); }
  text(x, y, text, { size = 11, fill, anchor = "start", turn = 0, weight = "normal" }) {
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" font-size="${size}" font-weight="${weight}" fill="${fill}" text-anchor="${anchor}"${turn ? ` transform="rotate(${turn} ${short(x)} ${short(y)})"` : ""}>${escapeXml(text)}</text>`);
  }
  at(x, y, draw) { this.parts.push(`<g transform="translate(${short(x)} ${short(y)})">`); draw(this); this.parts.push("</g>"); }
  finish(width, height, back) {
    const fill = back ? `<rect width="100%" height="100%" fill="${back}"/>` : "";
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${escapeXml(FONT)}">${fill}${this.parts.join("")}</svg>`;
  }
}

// A figure is {width, height, draw(surface, theme)}.
function figureSvg(figure, colours, back) {
  const surface = new SvgSurface();
  figure.draw(surface, colours);
  return surface.finish(figure.width, figure.height, back);
}

function figureCanvas(figure, colours, scale, canvas = document.createElement("canvas")) {
  const width = Math.ceil(figure.width * scale), height = Math.ceil(figure.height * scale);
  // Setting the size, even to what it is, makes a new bitmap.
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width, height);
  context.scale(scale, scale);
  figure.draw(new CanvasSurface(context), colours);
  return canvas;
}

function showSvg(place, text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  place.replaceChildren(document.importNode(parsed, true));
  return place.firstChild;
}
