// The words around the figure: headline, provenance, what is stale, what a screen reader hears.

import { provenance } from "./dom.js";
import { count } from "./layout.js";

const QUIET_S = 6; // without any message while a run is on: say so

/** Bring all text up to date with the widget's traits and the runs' headers. */
export function showTexts(view) {
  const { dom, model } = view;
  const frozen = model.get("frozen");
  dom.root.classList.toggle("mlt-frozen", Boolean(frozen));
  if (frozen !== view.frozenShown) {
    view.frozenShown = frozen;
    dom.frozen.innerHTML = frozen || ""; // made by our kernel: an SVG and a table, escaped there
  }
  dom.root.classList.toggle("mlt-two", view.lanes.length > 1);
  showHeadline(view);
  dom.subtitle.textContent = model.get("subtitle");
  provenance(dom.provenance, view.lanes.map((lane) => lane.header));
}

/** The finding; while it runs, how far it has come. */
function showHeadline(view) {
  const finding = view.model.get("headline");
  const text = finding || progress(view);
  const { headline, root } = view.dom;
  if (headline.textContent !== text) headline.textContent = text;
  root.classList.toggle("mlt-running", !finding);
  headline.hidden = view.lanes.length === 1 && !text;
}

function progress(view) {
  const lines = view.lanes.map((lane, i) => {
    if (!lane.stepCount) return "";
    const all = Math.max(lane.requests.size, view.model.get("expected_requests"));
    const ended = [...lane.requests.values()].filter((request) => request.end !== undefined).length;
    return `${nameOf(view, i)}: ${ended} of ${count(all, "request")} finished`;
  });
  return lines.filter(Boolean).join("\n");
}

function nameOf(view, i) {
  return view.titles[i] || view.lanes[i].header?.policy || `Run ${i + 1}`;
}

/** Is the kernel still there, and what does the figure say to those who do not see it. */
export function everySecond(view) {
  const { dom } = view;
  const quiet = (performance.now() - view.heard) / 1000;
  const lost = view.running && quiet > QUIET_S;
  const message = view.model.get("stale_message")
    || (lost ? `No news for ${Math.round(quiet)} s: the kernel is busy or gone.` : "");
  dom.stale.textContent = message;
  dom.stale.hidden = !message;
  dom.root.classList.toggle("mlt-stale", Boolean(message));
  showHeadline(view);
  view.seconds = (view.seconds ?? 0) + 1;
  if (view.seconds % 5 === 1) dom.over.setAttribute("aria-label", summary(view));
  const over = !view.running && view.lanes.some((lane) => lane.stepCount);
  if (over && !view.saidOver) dom.live.textContent = summary(view);
  view.saidOver = over;
}

/** The whole figure in sentences. */
function summary(view) {
  const parts = view.lanes.map((lane, i) => {
    const name = nameOf(view, i);
    if (!lane.stepCount) return `${name}: nothing has run yet`;
    const { tok_s: pace, row_padding_fraction: padding } = lane.figures;
    const words = [
      count(lane.requests.size, "request"), count(lane.figures.steps, "step"),
      `${lane.done ? "done in" : "running for"} ${lane.now.toFixed(2)} seconds`,
    ];
    if (pace !== null) words.push(`${pace.toFixed(1)} tokens per second`);
    if (padding !== null) words.push(`${Math.round(padding * 100)} % of rows padding`);
    return `${name}: ${words.join(", ")}`;
  });
  const finding = view.model.get("headline").replaceAll("\n", " ");
  return `Batch timeline. ${finding ? `${finding} ` : ""}${parts.join(". ")}.`;
}
