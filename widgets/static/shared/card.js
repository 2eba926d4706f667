// The hover card of every figure. Its content comes first as text, so that it can also be spoken:
// {letter, state, preview, lines: [[label, value, aside]]}; each part may be empty.

import { element } from "./dom.js";

/** The content as one sentence, for the live region. */
export function cardSentence(content) {
  const head = content.letter ? `Request ${content.letter}, ${content.state}` : content.state;
  const parts = content.lines.map(([label, value, aside]) => `${label}: ${value}${aside ? ` (${aside})` : ""}`);
  return `${head}. ${parts.join(". ")}.`.replaceAll("\u2009", " ");
}

/** Fill the card's element. Only text nodes: prompts are other people's words. */
export function fillCard(el, content, quoted) {
  el.replaceChildren();
  const head = element(el, "div", "mlt-card-head");
  if (content.letter) element(head, "b", "", content.letter);
  element(head, "span", "", `${content.letter ? " · " : ""}${content.state}`);
  if (content.preview) element(el, "div", "mlt-card-quote", `“${content.preview}”`);
  const list = element(el, "dl", "");
  for (const [label, value, aside] of content.lines) {
    element(list, "dt", "", label);
    const cell = element(list, "dd", "", value);
    if (aside) element(cell, "span", "mlt-aside", ` ${aside}`);
  }
  if (quoted?.text || quoted?.token) {
    const quote = element(el, "div", "mlt-card-text", quoted.text.slice(-70));
    element(quote, "mark", "", quoted.token);
  }
  element(el, "i", "mlt-notch");
}

/**
 * Where the card goes: left or right of the cursor, its notch at the row, over as little of
 * what is `taken` (boxes [left, top, right, bottom]) as there is room for, then as near as can be.
 * Returns {left, top, side: the card's edge that has the notch, notchY}.
 */
export function placeCard({ x, y, width, height, bounds, taken = [], last = null }) {
  const room = 22;
  const [low, high] = [bounds.left, Math.max(bounds.left, bounds.right - width)];
  let best = null;
  for (const notch of [0.5, 0.82, 0.18]) {
    const top = clamp(y - height * notch, bounds.top, Math.max(bounds.top, bounds.bottom - height));
    for (let left = low; left <= high; left += 12) {
      const beside = left >= x + room || left + width <= x - room;
      const overlap = taken.reduce((sum, box) => sum + overlapOf(box, left, top, width, height), 0);
      const away = Math.min(Math.abs(left - x), Math.abs(left + width - x));
      const cost = overlap + away * 4 + Math.abs(notch - 0.5) * 120 + (beside ? 0 : 1e6)
        - (left === last ? 600 : 0); // stay where it is rather than jump about
      if (!best || cost < best.cost) best = { cost, left, top };
    }
  }
  const { left, top } = best;
  const notchY = clamp(y - top, 16, height - 16);
  return { left, top, side: left > x ? "left" : "right", notchY };
}

function overlapOf([left, top, right, bottom], x, y, width, height) {
  const wide = Math.min(right, x + width) - Math.max(left, x);
  const high = Math.min(bottom, y + height) - Math.max(top, y);
  return wide > 0 && high > 0 ? wide * high : 0;
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}
