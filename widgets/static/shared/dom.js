// The elements around a figure's canvas: text stays text, so that it wraps, scales, can be copied.

import { FONT } from "./theme.js";

const GLYPHS = { measured: "●", simulated: "◐", published: "◇" };

export function element(parent, tag, className, string) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (string !== undefined) made.textContent = string;
  parent.append(made);
  return made;
}

/**
 * Build a figure inside `el`; returns its parts. label: what the canvas is called before there is
 * more to say; legend: [[swatch class, words]]; keys: the hint about keys.
 */
export function buildFigure(el, { label, legend = [], keys = "" }) {
  const root = element(el, "div", "mlt");
  root.style.setProperty("--mlt-font", FONT);
  const top = element(root, "div", "mlt-top");
  const words = element(top, "div", "mlt-words");
  const headline = element(words, "div", "mlt-headline");
  headline.setAttribute("role", "heading");
  headline.setAttribute("aria-level", "3");
  const lead = element(words, "div", "mlt-lead");
  const origin = element(top, "div", "mlt-origin");
  const provenance = element(origin, "div", "mlt-provenance");
  const subtitle = element(origin, "div", "mlt-subtitle");
  const stale = element(root, "div", "mlt-stale-note");
  stale.hidden = true;
  stale.setAttribute("role", "status");
  const frozen = element(root, "div", "mlt-frozen-figure");
  const figure = element(root, "div", "mlt-figure");
  const over = element(figure, "canvas", "mlt-over");
  over.tabIndex = 0;
  over.setAttribute("role", "img");
  over.setAttribute("aria-label", `${label}. Nothing has run yet.`);
  const card = element(figure, "div", "mlt-card");
  card.hidden = true;
  const tools = element(figure, "div", "mlt-tools");
  const bottom = element(root, "div", "mlt-bottom");
  const key = element(bottom, "div", "mlt-legend");
  for (const [swatch, words] of legend) {
    const item = element(key, "span", "mlt-key");
    element(item, "i", `mlt-swatch mlt-${swatch}`).setAttribute("aria-hidden", "true");
    element(item, "span", "", words);
  }
  const live = element(root, "div", "mlt-live");
  live.setAttribute("aria-live", "polite");
  const dom = { root, headline, lead, provenance, subtitle, stale, frozen, figure, over, card, tools, bottom, legend: key, live };
  dom.hint = element(tools, "div", "mlt-keys", keys);
  return dom;
}

/** A button among the figure's tools, before the hint about keys. */
export function toolButton(dom, label, clicked) {
  const made = element(dom.tools, "button", "mlt-button", label);
  made.type = "button";
  dom.tools.insertBefore(made, dom.hint);
  made.addEventListener("click", clicked);
  return made;
}

/** "◐ simulated A100 80 GB, Llama-3.1-8B bf16", from the headers of the runs shown. */
export function provenance(el, headers) {
  el.replaceChildren();
  const seen = new Set();
  for (const header of headers.filter(Boolean)) {
    const model = [header.model, header.dtype].filter(Boolean).join(" ");
    const where = [header.device, model].filter(Boolean).join(", ");
    if (seen.has(header.provenance + where)) continue;
    seen.add(header.provenance + where);
    const line = element(el, "div", "");
    element(line, "span", `mlt-glyph mlt-glyph-${header.provenance}`, GLYPHS[header.provenance] ?? "").setAttribute("aria-hidden", "true");
    element(line, "b", "", header.provenance);
    element(line, "span", "", ` ${where}`);
  }
}
