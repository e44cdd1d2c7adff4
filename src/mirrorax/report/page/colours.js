// Colours: viridis for scores, purple to orange for differences, Okabe and Ito's for lines. All are
// safe for the common kinds of colour blindness; lines differ in dash as well.
const VIRIDIS = "440154 470d60 48186a 482374 472d7b 453781 424086 3e4989 3b528b 375b8d 33638d 2f6b8e 2c728e 297a8e 26828e 23898e 21918c 1f988b 1fa088 22a785 28ae80 32b67a 3fbc73 4ec36b 5ec962 70cf57 84d44b 98d83e addc30 c2df23 d8e219 ece51b fde725".split(" ");
const PUOR = "3c0f63 5a318d 7d6da9 a39bc7 c3c0dd dfe1ee f6f6f7 fce5c5 fdca88 f4a84c dc7f13 b95e08 934607".split(" ");
const LINE_COLOURS = { light: ["#0072B2", "#D55E00", "#007a59", "#b0508a", "#a86f00", "#2b8cc4", "#222222"],
  dark: ["#56B4E9", "#ff9147", "#35c79a", "#e59cc6", "#E69F00", "#8fd0ff", "#eeeeee"] };
const DASHES = ["", "6 3", "8 3 2 3", "2 2.5", "10 2 2 2 2 2", "4 1.5"];

const parse = (hex) => [0, 2, 4].map((k) => parseInt(hex.slice(k, k + 2), 16));
const hex = (rgb) => "#" + rgb.map((x) => Math.round(x).toString(16).padStart(2, "0")).join("");
const mix = (a, b, t) => a.map((x, k) => x + (b[k] - x) * t);

// 257 colours from one end of a scale to the other, each as text, as bytes, and with the ink to write on it.
// Made once: a page paints tens of thousands of cells at every move of the slider.
const paint = (text) => ({ text, rgba: [...parse(text.slice(1)), 255] });
function ramp(list) {
  const stops = list.map(parse);
  return [...Array(257).keys()].map((k) => {
    const x = (k / 256) * (stops.length - 1), i = Math.min(Math.floor(x), stops.length - 2), rgb = mix(stops[i], stops[i + 1], x - i);
    return { ...paint(hex(rgb)), ink: 0.3 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2] > 135 ? "#000000" : "#ffffff" };
  });
}
const RAMPS = { score: ramp(VIRIDIS), difference: ramp(PUOR) };
const rampColours = (kind) => RAMPS[kind];
const step256 = (t) => Math.round(256 * Math.min(Math.max(t, 0), 1));

// Read from the style sheet once per theme: asking it forces the page to be laid out.
const themes = new Map();

function theme() {
  const name = document.documentElement.dataset.theme;
  if (!themes.has(name)) themes.set(name, readTheme());
  return themes.get(name);
}

function readTheme() {
  const css = getComputedStyle(document.documentElement);
  const get = (name) => css.getPropertyValue(name).trim();
  const dark = document.documentElement.dataset.theme === "dark";
  return { dark, back: get("--back"), ink: get("--ink"), soft: get("--soft"), line: get("--line"), hole: get("--hole"), lines: LINE_COLOURS[dark ? "dark" : "light"] };
}
