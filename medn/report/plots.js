"use strict";

// Draws every plot of the page from the data beside it, with Observable Plot. Dragging, + and - zoom; 0 shows all again.

const SMALLEST_DRAG = 8;
const ZOOM_STEP = 1.5;
const LETTER = 6.3;
const NUMERIC = ["linear", "log"];

function digits(value) {
  return String(Number(value.toPrecision(3)));
}

function scaled(value, units) {
  const [scale, unit] = units.find(([size]) => Math.abs(value) >= 0.9995 * size) ?? units.at(-1);
  return `${digits(value / scale)}${unit}`;
}

const FORMATS = {
  number: (value) => (Math.abs(value) < 1e4 ? digits(value) : scaled(value, [[1e9, "G"], [1e6, "M"], [1e3, "k"]])),
  percent: (value) => `${digits(100 * value)} %`,
  latency: (value) => (value === 0 ? "0" : scaled(value, [[1, " s"], [1e-3, " ms"], [1e-6, " us"], [1e-9, " ns"]])),
  none: () => "",
  bytes: (value) => scaled(value, [[1e9, " GB"], [1e6, " MB"], [1e3, " kB"], [1, " B"]]),
};

// The roundest numbers of a logarithmic axis that are enough to read it by.
function logTicks(low, high, most) {
  const steps = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 7]];
  let ticks = [];
  for (const digitsOfStep of steps) {
    const powers = d3.range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)) + 1);
    ticks = powers.flatMap((power) => digitsOfStep.map((digit) => digit * 10 ** power));
    ticks = ticks.filter((tick) => low <= tick && tick <= high);
    if (ticks.length >= 3) break;
  }
  if (ticks.length < 3) return d3.ticks(low, high, most - 1);
  const every = Math.ceil(ticks.length / most);
  return ticks.filter((_, number) => number % every === 0);
}

function scaleOf(axis, zoomed) {
  const common = { type: axis.type, label: axis.label || null, domain: zoomed ?? axis.domain };
  return NUMERIC.includes(axis.type) ? { ...common, axis: null, nice: false } : common;
}

// The ticks of a numeric axis, as marks of their own: the axes of Plot leave out most labels of a logarithmic scale.
function ticksOf(axis, zoomed, letter, pixels, room) {
  if (!NUMERIC.includes(axis.type) || axis.format === "none") return [];
  const [low, high] = zoomed ?? axis.domain;
  const most = Math.max(2, Math.floor(pixels / room));
  const ticks = axis.type === "log" ? logTicks(low, high, most) : d3.ticks(low, high, most);
  return [Plot[`grid${letter}`](ticks), Plot[`axis${letter}`](ticks, { text: FORMATS[axis.format], label: axis.label || null })];
}

function isInside(value, domain) {
  return domain === null || (domain[0] <= value && value <= domain[1]);
}

// The texts of bars that have room for them, at the part of the bar that is shown.
function labels({ x1, x2, y, text, fill }, zoom, domain, width) {
  const [low, high] = zoom.x ?? domain;
  const left = (row) => Math.max(x1[row], low);
  const room = (row) => ((Math.min(x2[row], high) - left(row)) / (high - low)) * width;
  const shown = d3.range(text.length).filter((row) => room(row) > LETTER * text[row].length + 8);
  const options = { textAnchor: "start", dx: 5, fill: colored("fill", fill), pointerEvents: "none" };
  return Plot.text(shown, { x: left, y: (row) => y[row], text: (row) => text[row], ...options });
}

// A mark of Plot: lists are values by row, everything else holds for all rows. A tip has room on one side or the other.
function markOf(mark, zoom, width) {
  const { mark: name, tip, ...options } = mark;
  const rows = Object.values(options).find(Array.isArray)?.length ?? 1;
  const channels = Object.fromEntries(
    Object.entries(options).map(([key, value]) => [key, Array.isArray(value) ? (row) => value[row] : colored(key, value)]),
  );
  if (Array.isArray(options.fill)) channels.fill = (row) => colored("fill", options.fill[row]);
  let shown = d3.range(rows);
  if (["dot", "text"].includes(name)) {
    const isShown = (axis, row) => !Array.isArray(options[axis]) || isInside(options[axis][row], zoom[axis]);
    shown = shown.filter((row) => isShown("x", row) && isShown("y", row));
  }
  const tips = tip ? { tip: { lineHeight: 1.25, lineWidth: Math.min(22, Math.max(10, width / 2 / LETTER / 2 - 2)) } } : {};
  return Plot[name](shown, { ...channels, ...tips, clip: Boolean(zoom.x || zoom.y) });
}

function colored(key, value) {
  return ["fill", "stroke"].includes(key) && value !== "none" ? `var(--${value})` : value;
}

function leftMargin(axis, width) {
  if (axis.format === "none") return 4;
  if (NUMERIC.includes(axis.type)) return 52;
  const longest = Math.max(...axis.domain.map((name) => String(name).length));
  return Math.min(LETTER * longest + 14, 0.45 * width);
}

function draw(view) {
  const { box, spec, zoom } = view;
  const width = box.clientWidth;
  if (width === 0) return;
  const height = view.height();
  const marginLeft = leftMargin(spec.y, width);
  const inner = width - marginLeft - 16;
  const slant = slanted(spec.x, inner);
  view.width = width;
  view.plot = Plot.plot({
    width,
    height,
    marginLeft,
    marginRight: 16,
    marginTop: 24,
    marginBottom: slant.room,
    style: { fontSize: "11px", background: "none" },
    ariaLabel: spec.label,
    x: { ...scaleOf(spec.x, zoom.x), ...slant.axis },
    y: { ...scaleOf(spec.y, zoom.y), ...shortened(spec.y, marginLeft) },
    marks: [
      ...ticksOf(spec.x, zoom.x, "X", inner, 52),
      ...ticksOf(spec.y, zoom.y, "Y", height - 62, 34),
      ...spec.marks.map((mark) => (mark.mark === "labels" ? labels(mark, zoom, spec.x.domain, inner) : markOf(mark, zoom, width))),
    ],
  });
  view.plot.setAttribute("role", "img");
  box.replaceChildren(view.plot);
  view.reset.hidden = zoom.x === null && zoom.y === null;
}

// Names below a plot that would cover one another stand aslant.
function slanted(axis, width) {
  if (NUMERIC.includes(axis.type)) return { room: 38, axis: {} };
  const longest = Math.max(...axis.domain.map((name) => String(name).length));
  if (LETTER * (longest + 1) * axis.domain.length < width) return { room: 38, axis: {} };
  return { room: 38 + Math.min(LETTER * longest * 0.6, 90), axis: { tickRotate: -35, labelOffset: 30 } };
}

// Names that are longer than their margin end in dots.
function shortened(axis, margin) {
  if (NUMERIC.includes(axis.type)) return {};
  const most = Math.floor((margin - 14) / LETTER) + 1;
  return { tickFormat: (name) => (name.length > most ? `${name.slice(0, most - 1)}…` : name) };
}

// Show what lies between two places of the plot, in pixels; null leaves an axis as it is.
function zoomTo(view, horizontal, vertical) {
  for (const [axis, ends] of [["x", horizontal], ["y", vertical]]) {
    if (ends === null || !NUMERIC.includes(view.spec[axis].type)) continue;
    const found = ends.map((pixel) => view.plot.scale(axis).invert(pixel)).sort(d3.ascending);
    if (view.spec[axis].format === "none") continue; // the levels of a flame graph
    const [low, high] = view.spec[axis].domain;
    const isWhole = found[0] <= low && found[1] >= high;
    view.zoom[axis] = isWhole ? null : [Math.max(found[0], low), Math.min(found[1], high)];
  }
  draw(view);
}

function zoomBy(view, factor, shift = [0, 0]) {
  const around = (axis, moved) => {
    const [first, last] = view.plot.scale(axis).range;
    const middle = (first + last) / 2 + (moved * Math.abs(last - first)) / 5;
    const half = Math.abs(last - first) / 2 / factor;
    return [middle - half, middle + half];
  };
  zoomTo(view, around("x", shift[0]), around("y", shift[1]));
}

function showAll(view) {
  view.zoom = { x: null, y: null };
  draw(view);
}

function onKey(view, event) {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const isZoomed = view.zoom.x || view.zoom.y;
  if (event.key === "+") zoomBy(view, ZOOM_STEP);
  else if (event.key === "-") zoomBy(view, 1 / ZOOM_STEP);
  else if (event.key === "0") showAll(view);
  else if (isZoomed && event.key in moves) zoomBy(view, 1, moves[event.key]);
  else return;
  event.preventDefault();
}

// A mouse drags a frame around what it wants to see; a finger scrolls the page, as everywhere.
function onPress(view, event) {
  if (event.button !== 0 || event.pointerType === "touch") return;
  const bounds = view.box.getBoundingClientRect();
  const place = (at) => [at.clientX - bounds.x, at.clientY - bounds.y];
  const start = place(event);
  const frame = document.createElement("div");
  frame.className = "frame";
  const size = (end) => [Math.abs(end[0] - start[0]), Math.abs(end[1] - start[1])];
  const move = (moved) => {
    const end = place(moved);
    const [width, height] = size(end);
    if (Math.max(width, height) < SMALLEST_DRAG) return;
    view.box.append(frame);
    Object.assign(frame.style, {
      left: `${Math.min(start[0], end[0])}px`,
      top: `${Math.min(start[1], end[1])}px`,
      width: `${width}px`,
      height: `${height}px`,
    });
  };
  const release = (released) => {
    window.removeEventListener("pointermove", move);
    window.removeEventListener("pointerup", release);
    frame.remove();
    const end = place(released);
    const [width, height] = size(end);
    if (Math.max(width, height) < SMALLEST_DRAG) return;
    zoomTo(view, width < SMALLEST_DRAG ? null : [start[0], end[0]], height < SMALLEST_DRAG ? null : [start[1], end[1]]);
  };
  window.addEventListener("pointermove", move);
  window.addEventListener("pointerup", release);
}

function button(text, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "small";
  made.textContent = text;
  made.addEventListener("click", action);
  return made;
}

function makeView(box, spec, height) {
  const view = { box, spec, height, zoom: { x: null, y: null }, width: 0 };
  view.reset = button("Show all", () => showAll(view));
  view.reset.hidden = true;
  box.tabIndex = 0;
  box.addEventListener("keydown", (event) => onKey(view, event));
  box.addEventListener("pointerdown", (event) => onPress(view, event));
  box.addEventListener("dblclick", () => showAll(view));
  return view;
}

function enlarge(figure, spec) {
  const dialog = document.createElement("dialog");
  const heading = document.createElement("h2");
  heading.textContent = figure.querySelector("h4").textContent;
  const box = document.createElement("div");
  box.className = "plot";
  const view = makeView(box, spec, () => Math.max(spec.height, 0.68 * window.innerHeight));
  const tools = document.createElement("p");
  tools.className = "tools";
  tools.append(view.reset, button("Close", () => dialog.close()));
  const about = figure.querySelector("figcaption").cloneNode(true);
  const legend = figure.querySelector(".legend")?.cloneNode(true);
  dialog.append(heading, tools, ...(legend ? [legend] : []), box, about);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  draw(view);
}

const views = new Map();
for (const figure of document.querySelectorAll("figure")) {
  const written = figure.querySelector("script");
  if (written === null) continue;
  const spec = JSON.parse(written.textContent);
  const view = makeView(figure.querySelector(".plot"), spec, () => spec.height);
  figure.querySelector(".tools").append(view.reset, button("Enlarge", () => enlarge(figure, spec)));
  views.set(view.box, view);
}

// Hundreds of plots take seconds: each is drawn when it comes near the window, and again when its width changes.
const nearby = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting && !views.get(target).plot) draw(views.get(target));
  },
  { rootMargin: "600px" },
);
const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const view = views.get(target);
    if (view.plot && target.clientWidth !== view.width) draw(view);
  }
});
for (const box of views.keys()) {
  nearby.observe(box);
  resized.observe(box);
}

window.addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details.kind")) folded.open = true;
  for (const view of views.values()) if (!view.plot) draw(view);
});
