// The chart of a Predict: click or arrow keys place a point; two sliders do the same.
import { make } from "../questions/dom.js";
import { number3 } from "../shared/format.js";
import { leavesWidget } from "../shared/keys.js";
import { plotScale, plotTicks } from "../shared/scale.js";

const SIZE = { width: 560, height: 300, left: 76, right: 16, top: 22, bottom: 46 };
const STEPS = 200; // positions along an axis

/** The axes' scales on the chart's pixels. */
export function chartScales({ x, y }) {
  const { width, height, left, right, top, bottom } = SIZE;
  return {
    x: plotScale(x.low, x.high, left, width - right, x.log),
    y: plotScale(y.low, y.high, height - bottom, top, y.log),
  };
}

/** A value's position on its axis, 0…STEPS, and back; three digits, never off the axis. */
export function stepOf(scale, value) {
  return Math.round(((scale.at(value) - scale.start) / (scale.end - scale.start)) * STEPS);
}

export function valueAt(scale, step) {
  const inside = Math.min(Math.max(step, 0), STEPS);
  const value = Number(scale.value(scale.start + (scale.end - scale.start) * (inside / STEPS)).toPrecision(3));
  return Math.min(Math.max(value, scale.low), scale.high);
}

/** A value in words: "23.8 ms". */
export function axisText(axis, value) {
  return axis.unit ? `${number3(value)}\u202f${axis.unit}` : number3(value);
}

/** Build the input: {el, show(answer)}. place([x, y]) is called when the reader moves the point. */
export function chartInput(chart, question, locked, place) {
  const scales = chartScales(chart);
  const svg = svgElement("svg", {
    viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, class: "ml-chart", role: "img", "aria-label": question,
    tabindex: locked ? -1 : 0,
  });
  drawFrame(svg, chart, scales);
  const guides = svgElement("path", { class: "ml-guide" });
  const dot = svgElement("circle", { r: 7, class: "ml-dot" });
  svg.append(guides, dot);
  const shown = make("output", { class: "ml-value" });
  const sliders = ["x", "y"].map((name) => slider(chart[name], scales[name], locked, (value) => {
    place(name === "x" ? [value, current[1]] : [current[0], value]);
  }));
  const middle = ["x", "y"].map((name) => valueAt(scales[name], STEPS / 2));
  let current = middle;

  const show = (answer) => {
    current = answer ?? middle;
    dot.style.display = guides.style.display = answer ? "" : "none";
    const [px, py] = [scales.x.at(current[0]), scales.y.at(current[1])];
    dot.setAttribute("cx", px);
    dot.setAttribute("cy", py);
    guides.setAttribute("d", `M${scales.x.start} ${py}H${px}V${scales.y.start}`);
    shown.textContent = answer ? `${axisText(chart.x, current[0])}, ${axisText(chart.y, current[1])}` : "click into the chart, or use the arrow keys";
    sliders.forEach((each, i) => each.show(current[i]));
  };
  if (!locked) bindChart(svg, scales, () => current, place);
  return { el: make("div", { class: "ml-drawn ml-fit" }, svg, shown, make("div", { class: "ml-sliders" }, ...sliders.map((each) => each.el))), show };
}

function bindChart(svg, scales, current, place) {
  const put = (event) => {
    const box = svg.getBoundingClientRect();
    const [px, py] = [((event.clientX - box.left) / box.width) * SIZE.width, ((event.clientY - box.top) / box.height) * SIZE.height];
    const at = (scale, pixel) => valueAt(scale, ((pixel - scale.start) / (scale.end - scale.start)) * STEPS);
    place([at(scales.x, px), at(scales.y, py)]);
  };
  svg.addEventListener("pointerdown", (event) => {
    svg.focus({ preventScroll: true });
    svg.setPointerCapture(event.pointerId);
    put(event);
  });
  svg.addEventListener("pointermove", (event) => { if (svg.hasPointerCapture(event.pointerId)) put(event); });
  const moves = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  svg.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (!move || leavesWidget(event)) return;
    event.preventDefault();
    const far = event.shiftKey ? 20 : 4;
    const [x, y] = current();
    place([valueAt(scales.x, stepOf(scales.x, x) + move[0] * far), valueAt(scales.y, stepOf(scales.y, y) + move[1] * far)]);
  });
}

function slider(axis, scale, locked, moved) {
  const input = make("input", { type: "range", min: 0, max: STEPS, step: 1, disabled: locked, oninput: () => moved(valueAt(scale, Number(input.value))) });
  const el = make("label", { class: "ml-slider" }, make("span", { class: "ml-note", text: axis.label }), input);
  return {
    el,
    show(value) {
      input.value = stepOf(scale, value);
      input.setAttribute("aria-valuetext", axisText(axis, value));
    },
  };
}

function drawFrame(svg, chart, { x, y }) {
  const line = (x1, y1, x2, y2, kind) => svg.append(svgElement("line", { x1, y1, x2, y2, class: kind }));
  const write = (px, py, words, anchor = "start") => {
    const el = svgElement("text", { x: px, y: py, "text-anchor": anchor });
    el.textContent = words;
    svg.append(el);
  };
  line(x.start, y.start, x.end, y.start, "ml-rule");
  for (const { value, label } of plotTicks(x)) {
    line(x.at(value), y.start, x.at(value), y.start + 4, "ml-rule");
    write(x.at(value), y.start + 18, label, "middle");
  }
  for (const { value, label } of plotTicks(y)) {
    line(x.start, y.at(value), x.end, y.at(value), "ml-grid");
    write(x.start - 8, y.at(value) + 4, label, "end");
  }
  write(x.end, SIZE.height - 8, `${chart.x.label} →`, "end");
  write(x.start, SIZE.top - 8, `${chart.y.label} ↑`);
  for (const [name, points] of chart.lines) {
    const places = points.map(([a, b]) => [x.at(a), y.at(b)]);
    svg.append(svgElement("polyline", { points: places.map((place) => place.join(",")).join(" "), class: "ml-known" }));
    const [px, py] = places[0];
    write(px + 8, py + 4, name);
  }
}

function svgElement(tag, attributes) {
  const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) el.setAttribute(name, value);
  return el;
}
