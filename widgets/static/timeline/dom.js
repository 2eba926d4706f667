// The elements around the canvases: text stays text, so that it wraps, scales and can be copied.

const GLYPHS = { measured: "●", simulated: "◐", published: "◇" };

const LEGEND = [
  ["queued", "queued"],
  ["prefill", "prefill chunk"],
  ["decode", "decode, one token a step"],
  ["waste", "padding: computed, thrown away"],
  ["pre", "preempted"],
  ["end", "finished"],
];

/** Build the view inside `el`; returns its parts. */
export function buildDom(el, fontFamily) {
  const root = element(el, "div", "mlt");
  root.style.setProperty("--mlt-font", fontFamily);
  const top = element(root, "div", "mlt-top");
  const headline = element(top, "div", "mlt-headline");
  headline.setAttribute("role", "heading");
  headline.setAttribute("aria-level", "3");
  const origin = element(top, "div", "mlt-origin");
  const provenance = element(origin, "div", "mlt-provenance");
  const subtitle = element(origin, "div", "mlt-subtitle");
  const stale = element(root, "div", "mlt-stale-note");
  stale.hidden = true;
  stale.setAttribute("role", "status");
  const frozen = element(root, "div", "mlt-frozen-figure");
  const figure = element(root, "div", "mlt-figure");
  const data = element(figure, "canvas", "mlt-data");
  data.setAttribute("aria-hidden", "true");
  const over = element(figure, "canvas", "mlt-over");
  over.tabIndex = 0;
  over.setAttribute("role", "img");
  over.setAttribute("aria-label", "Batch timeline. Nothing has run yet.");
  const card = element(figure, "div", "mlt-card");
  card.hidden = true;
  const bottom = element(root, "div", "mlt-bottom");
  buildLegend(element(bottom, "div", "mlt-legend"));
  const tools = element(figure, "div", "mlt-tools");
  const button = (label) => {
    const made = element(tools, "button", "mlt-button", label);
    made.type = "button";
    made.hidden = true;
    return made;
  };
  const lane = button("");
  const fit = button("Show all");
  const mode = button("Show slots");
  const pause = button("Pause");
  element(tools, "div", "mlt-keys", "← → step · Shift jumps 10 · Home End · Esc clears");
  const live = element(root, "div", "mlt-live");
  live.setAttribute("aria-live", "polite");
  return { root, headline, provenance, subtitle, stale, frozen, figure, data, over, card, lane, fit, mode, pause, live };
}

function buildLegend(parent) {
  for (const [kind, label] of LEGEND) {
    const item = element(parent, "span", "mlt-key");
    element(item, "i", `mlt-swatch mlt-${kind}`).setAttribute("aria-hidden", "true");
    element(item, "span", "", label);
  }
}

/** "◐ simulated A100 80 GB, Llama-3.1-8B bf16", from the headers of the runs shown. */
export function provenance(el, headers) {
  const known = headers.filter(Boolean);
  el.replaceChildren();
  const seen = new Set();
  for (const header of known) {
    const where = `${header.device}, ${header.model} ${header.dtype}`;
    if (seen.has(header.provenance + where)) continue;
    seen.add(header.provenance + where);
    const line = element(el, "div", "");
    element(line, "span", `mlt-glyph mlt-glyph-${header.provenance}`, GLYPHS[header.provenance] ?? "").setAttribute("aria-hidden", "true");
    element(line, "b", "", header.provenance);
    element(line, "span", "", ` ${where}`);
  }
}

function element(parent, tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}
