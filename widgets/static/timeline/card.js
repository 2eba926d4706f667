// The hover card: what one request did in one step. Text first, so that it can also be spoken.

import { DEAD, PREFILL } from "../shared/decode.js";
import { count, duration } from "../shared/format.js";

/**
 * The card of a request at a step as {letter, id, state, preview, lines: [[label, value, aside]]}.
 * other: {title, lane} of the lane beside it, or null.
 */
export function cardContent(lane, request, step, other) {
  const segment = step ? lane.segmentAt(request, step.number) : null;
  const lines = [];
  const tokens = step ? lane.tokensAfter(request, step.number) : request.tokens;
  const limit = request.maxTokens ? ` of ≤ ${request.maxTokens.toLocaleString("en-US")}` : "";
  lines.push(["Tokens so far", `${tokens.toLocaleString("en-US")}${limit}`]);
  if (segment?.kind === PREFILL) lines.push(["Prompt", prefillText(lane, request, segment)]);
  lines.push(["Waited in queue", waited(lane, request, step)]);
  lines.push(["TTFT", ttft(request), otherTtft(request, other)]);
  if (step) lines.push(["In this step", `${count(step.rows, "row")}, ${duration(step.t1 - step.t0)}`]);
  return {
    letter: request.letter, id: request.nickname || request.id, preview: request.preview,
    state: stateText(request, segment, step), lines,
  };
}

function stateText(request, segment, step) {
  const at = step ? `step ${step.number} · ` : "";
  if (segment?.kind === PREFILL) return `${at}${segment.recompute ? "reading its tokens again" : "reading its prompt"}`;
  if (segment?.kind === DEAD) return `${at}finished, thrown away`;
  if (segment) return `${at}decoding`;
  const t = step ? step.t0 : Infinity;
  if (request.end !== undefined && t >= request.end - 1e-9) return `${at}finished (${request.reason || request.ended})`;
  if (request.arrive !== undefined && t < request.arrive) return `${at}not here yet`;
  if (request.preempts.some((preempt) => preempt.t <= t + 1e-9)) return `${at}preempted, queued again`;
  return request.segments.length && t >= request.segments[0].t0 ? `${at}no row in this step` : `${at}queued`;
}

function prefillText(lane, request, segment) {
  const padding = segment.padding ? ` + ${segment.padding.toLocaleString("en-US")} padding` : "";
  const all = request.promptLen ? ` of ${request.promptLen.toLocaleString("en-US")}` : "";
  return `${segment.tokens.toLocaleString("en-US")}${segment.recompute ? "" : all} tokens${padding}`;
}

function waited(lane, request, step) {
  if (request.arrive === undefined) return "n/a";
  const started = request.admit ?? request.segments[0]?.t0;
  const until = started ?? (step ? step.t1 : lane.now);
  const passed = Math.max(0, until - request.arrive);
  const steps = lane.stepsBetween(request.arrive, until);
  return `${duration(passed)} (${count(steps, "step")})${started === undefined ? " so far" : ""}`;
}

function ttft(request) {
  if (request.firstToken === undefined || request.arrive === undefined) return "not yet";
  return duration(request.firstToken - request.arrive, true);
}

function otherTtft(request, other) {
  if (!other) return "";
  const twin = other.lane.requests.get(request.idx);
  if (twin?.firstToken === undefined || twin.arrive === undefined) return "";
  return `${other.title.toLowerCase()}: ${duration(twin.firstToken - twin.arrive, true)}`;
}

/** The card of a step as a whole (the strip). */
export function stepContent(lane, step) {
  const waiting = count(step.waiting, "request");
  return {
    letter: "", id: "", preview: "", state: `step ${step.number}`,
    lines: [
      ["Rows", `${step.rows}, ${round1(step.useful)} useful`],
      ["Took", duration(step.t1 - step.t0)],
      ["Queued", waiting],
      ["KV blocks in use", step.kvUsed.toLocaleString("en-US")],
    ],
  };
}

function round1(value) {
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}
