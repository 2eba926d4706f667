// Stalls: steps in which requests that decode wait for somebody's prompt. A step is one when some
// decode, somebody reads a prompt, and it takes at least three times a usual decode step.

import { lastAtOrBefore } from "../shared/axis.js";
import { DEAD, PREFILL } from "../shared/decode.js";
import { duration } from "../shared/format.js";
import { fitted, line, text } from "../shared/pen.js";
import { font } from "../shared/theme.js";

const LONG = 3; // times a usual decode step
const ENOUGH = 5; // decode steps, to know what is usual
const SAMPLES = 512;

/** Seconds of a usual (median) step that only decodes; null while too few are known. */
export function usualStep(lane) {
  const plain = [];
  const each = Math.max(1, Math.floor(lane.stepCount / SAMPLES));
  for (let i = 0; i < lane.stepCount; i += each) {
    if (lane.decoding[i] && !lane.prefilled[i]) plain.push(lane.t1[i] - lane.t0[i]);
  }
  if (plain.length < ENOUGH) return null;
  return plain.sort((a, b) => a - b)[plain.length >> 1];
}

/** The stalls of a run as [{number, t0, t1, waiting: how many decode, tokens}], in order. */
export function stalls(lane) {
  if (lane.stallsOf?.step === lane.nextStep) return lane.stallsOf.found;
  const usual = usualStep(lane);
  const found = [];
  for (let i = 0; usual !== null && i < lane.stepCount; i++) {
    const long = lane.t1[i] - lane.t0[i] >= LONG * usual;
    if (long && lane.decoding[i] && lane.prefilled[i]) {
      found.push({ number: lane.base + i, t0: lane.t0[i], t1: lane.t1[i], waiting: lane.decoding[i], tokens: lane.prefilled[i] });
    }
  }
  lane.stallsOf = { step: lane.nextStep, found };
  return found;
}

/** Whose prompt a step reads: the request with the most tokens in it. */
export function readerIn(lane, number) {
  let most = null;
  for (const request of lane.requests.values()) {
    const segment = lane.segmentAt(request, number);
    if (segment?.kind === PREFILL && (!most || segment.tokens > most.tokens)) most = { request, tokens: segment.tokens };
  }
  return most?.request ?? null;
}

/** A bracket over each stall, between rows and strip, and words at the longest. */
export function paintStalls(ctx, { theme, scale, geometry, until }, panel, lane) {
  const shown = stalls(lane).filter(({ t0, t1 }) => t1 >= scale.v0 && t0 <= Math.min(scale.v1, until));
  if (!shown.length) return;
  const y = panel.stripTop - 4.5;
  ctx.strokeStyle = theme.waste;
  ctx.lineWidth = 1.4;
  const longest = shown.reduce((a, b) => (b.t1 - b.t0 > a.t1 - a.t0 ? b : a));
  for (const stall of shown) {
    const x0 = Math.max(scale.x0, scale.x(stall.t0));
    const x1 = Math.min(scale.x1, Math.max(scale.x(stall.t1), x0 + 2));
    line(ctx, x0, y, x1, y);
    if (x1 - x0 < 5) continue;
    line(ctx, x0, y, x0, y + 3.5);
    line(ctx, x1, y, x1, y + 3.5);
  }
  const reader = readerIn(lane, longest.number);
  const who = longest.waiting === 1 ? "1 waits" : `${longest.waiting} wait`;
  const words = `${who} ${duration(longest.t1 - longest.t0)} for ${reader ? `${reader.letter}’s` : "a"} prompt`;
  ctx.font = font(10.5, 600);
  const x = Math.max(scale.x0, scale.x(longest.t1)) + 6;
  const short = fitted(ctx, words, scale.x1 - x);
  if (geometry.width >= 480 && short === words) text(ctx, words, x, y + 0.5, { size: 10.5, weight: 600, color: theme.wasteText, halo: theme.bg });
  else if (geometry.width >= 480) text(ctx, words, scale.x(longest.t0) - 6, y + 0.5, { size: 10.5, weight: 600, color: theme.wasteText, halo: theme.bg, align: "right" });
}

/** Rows that a request had for nothing, after its last token. */
export function wastedRows(request) {
  return request.segments.reduce((sum, { kind, first, last }) => sum + (kind === DEAD ? last - first + 1 : 0), 0);
}

/** How many rows of the step at time t are useful (not dead): {useful, rows, number}; null between steps. */
export function usefulAt(lane, t) {
  const i = lastAtOrBefore(lane.t0, t);
  if (i < 0 || t > lane.t1[i] + 1e-9) return null;
  return { useful: lane.rowCount[i] - lane.dead[i], rows: lane.rowCount[i], number: lane.base + i };
}
