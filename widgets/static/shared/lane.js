// LaneModel: a run as the view keeps it. Steps as columns; per request its events and its
// segments: runs of consecutive steps of one kind, so that painting 2,000 decode steps is one
// rectangle. Fed by messages alone; it says when something is missing.

import { lastAtOrBefore } from "./axis.js";
import { DEAD, DECODE, PREFILL, RECOMPUTE, SAMPLED, SNAPSHOT, decodeFrame } from "./decode.js";

const KEEP_STEPS = 8192; // of a run that does not end; twice what the kernel keeps

export class LaneModel {
  constructor() {
    this.clear(0);
    this.stream = null;
  }

  clear(firstStep) {
    this.base = firstStep; // number of the oldest step kept
    this.nextStep = firstStep;
    this.nextEvent = 0;
    this.t0 = [];
    this.t1 = [];
    this.useful = []; // rows of useful work in the step; a padded prefill counts its real share
    this.padded = [];
    this.rowCount = [];
    this.dead = []; // of those, dead rows
    this.decoding = []; // rows that decode
    this.prefilled = []; // prompt tokens computed
    this.waiting = [];
    this.kvUsed = [];
    this.requests = new Map();
    this.header = null;
    this.figures = {};
    this.origin = 0;
    this.now = 0;
    this.done = false;
    this.slots = new SlotTable();
  }

  get stepCount() {
    return this.t0.length;
  }

  /** Take a message and its frame. Returns "ok", "same" (nothing new) or "gap" (say hello). */
  apply(message, bytes) {
    const frame = decodeFrame(bytes);
    if (frame.streamId !== this.stream) {
      if (frame.kind !== SNAPSHOT) return "gap";
      this.clear(frame.firstStep);
      this.stream = frame.streamId;
    } else if (frame.firstStep > this.nextStep || message.first_event > this.nextEvent) {
      if (frame.kind !== SNAPSHOT) return "gap";
      this.clear(frame.firstStep);
    }
    const before = this.nextStep + this.nextEvent;
    this.takeMessage(message, frame.kind === SNAPSHOT);
    this.takeSteps(frame);
    if (this.nextStep < message.next_step) return "gap";
    const changed = this.nextStep + this.nextEvent !== before || frame.kind === SNAPSHOT;
    return changed ? "ok" : "same";
  }

  takeMessage(message, whole) {
    for (const [idx, [id, letter, preview]] of Object.entries(message.requests)) {
      Object.assign(this.request(Number(idx)), { id, letter, preview });
    }
    if (message.header) this.header = message.header;
    this.figures = message.figures || {};
    this.origin = message.origin ?? 0;
    this.now = Math.max(0, message.now - this.origin);
    this.done = Boolean(message.done);
    if (whole) for (const request of this.requests.values()) Object.assign(request, { admits: [], preempts: [] });
    const skip = whole ? 0 : this.nextEvent - message.first_event;
    for (const event of message.events.slice(Math.max(0, skip))) this.takeEvent(event);
    this.nextEvent = Math.max(this.nextEvent, message.next_event);
  }

  takeEvent([t, idx, event, data]) {
    const request = this.request(idx);
    const at = t - this.origin;
    if (event === "arrive") {
      request.arrive = at;
      request.promptLen = data.prompt_len;
      request.maxTokens = data.max_tokens;
      request.nickname = data.nickname;
    } else if (event === "admit") {
      request.admit ??= at;
      request.admits.push(at);
    } else if (event === "first_token") {
      request.firstToken = at;
    } else if (event === "preempt") {
      request.preempts.push({ t: at, lost: data.tokens_lost, cached: data.tokens_cached });
    } else if (event === "finish" || event === "abort" || event === "refuse") {
      request.end = at;
      request.ended = event;
      request.reason = data.reason;
    }
  }

  request(idx) {
    let request = this.requests.get(idx);
    if (!request) {
      request = { idx, id: String(idx), letter: "?", preview: "", admits: [], preempts: [], segments: [], tokens: 0 };
      this.requests.set(idx, request);
    }
    return request;
  }

  takeSteps(frame) {
    let row = 0;
    for (let i = 0; i < frame.steps.length; i++) {
      const number = frame.firstStep + i;
      const start = row;
      while (row < frame.rows.length && frame.rows[row].step === number) row++;
      if (number !== this.nextStep) continue; // had it already
      const rows = frame.rows.slice(start, row);
      const slots = this.slots.assign(rows.map((each) => each.req));
      this.pushStep(frame.steps[i]);
      rows.forEach((each, at) => this.pushRow(number, each, slots[at]));
      this.nextStep = number + 1;
    }
    if (this.stepCount > KEEP_STEPS * 1.25) this.trim(this.stepCount - KEEP_STEPS);
  }

  pushStep(step) {
    this.t0.push(step.t0 - this.origin);
    this.t1.push(step.t1 - this.origin);
    this.waiting.push(step.waiting);
    this.kvUsed.push(step.kvUsed);
    for (const column of [this.useful, this.padded, this.rowCount, this.dead, this.decoding, this.prefilled]) column.push(0);
  }

  pushRow(number, row, slot) {
    const last = this.stepCount - 1;
    const request = this.request(row.req);
    const real = row.kind === DEAD ? 0 : row.tokens / (row.tokens + row.padding || 1);
    this.useful[last] += real;
    this.padded[last] += 1 - real;
    this.rowCount[last] += 1;
    if (row.kind === PREFILL) this.prefilled[last] += row.tokens;
    else (row.kind === DEAD ? this.dead : this.decoding)[last] += 1;
    const segments = request.segments;
    const open = segments[segments.length - 1];
    const sampled = row.flags & SAMPLED ? 1 : 0;
    if (open && row.kind !== PREFILL && open.kind === row.kind && open.last === number - 1) {
      open.last = number;
      open.t1 = this.t1[last];
    } else {
      segments.push({
        kind: row.kind, first: number, last: number, t0: this.t0[last], t1: this.t1[last],
        tokens: row.tokens, padding: row.padding, before: request.tokens, sampled,
        recompute: Boolean(row.flags & RECOMPUTE), slot,
      });
    }
    request.tokens += sampled;
  }

  /** Forget the oldest `count` steps, and the requests that lie wholly in them. */
  trim(count) {
    const columns = [
      this.t0, this.t1, this.useful, this.padded, this.rowCount, this.dead, this.decoding, this.prefilled, this.waiting, this.kvUsed,
    ];
    for (const column of columns) column.splice(0, count);
    this.base += count;
    for (const [idx, request] of this.requests) {
      const last = request.segments[request.segments.length - 1];
      if (request.end !== undefined && (last ? last.last < this.base : request.end < this.t0[0])) this.requests.delete(idx);
      else request.segments = request.segments.filter((segment) => segment.last >= this.base);
    }
  }

  // ── questions ─────────────────────────────────────────────────────────────────────────────

  /** Number of the step that runs at time t (or the last one before it); null if there is none. */
  stepAt(t) {
    const position = lastAtOrBefore(this.t0, t);
    return position < 0 ? null : this.base + position;
  }

  step(number) {
    const i = number - this.base;
    if (number === null || i < 0 || i >= this.stepCount) return null;
    return {
      number, t0: this.t0[i], t1: this.t1[i], useful: this.useful[i], padded: this.padded[i],
      rows: this.rowCount[i], waiting: this.waiting[i], kvUsed: this.kvUsed[i],
    };
  }

  /** A request's segment in a step, null when it had no row there. */
  segmentAt(request, number) {
    const segments = request.segments;
    let low = 0;
    let high = segments.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (segments[middle].last < number) low = middle + 1;
      else if (segments[middle].first > number) high = middle - 1;
      else return segments[middle];
    }
    return null;
  }

  /** Output tokens a request has after step `number`. */
  tokensAfter(request, number) {
    let count = 0;
    for (const segment of request.segments) {
      if (segment.first > number) break;
      count = segment.before;
      if (segment.kind === DECODE) count += Math.min(segment.last, number) - segment.first + 1;
      else count += segment.sampled;
    }
    return count;
  }

  /** Steps that ran, in whole or in part, between two times. */
  stepsBetween(from, to) {
    let count = 0;
    for (let i = lastAtOrBefore(this.t0, to - 1e-9); i >= 0 && this.t1[i] > from + 1e-9; i--) count++;
    return count;
  }

  get maxRows() {
    return this.header?.config?.max_num_seqs ?? null;
  }
}

/**
 * The requests that panels show, by arrival: all of them, up to `most`; of more, those seen in the
 * window [v0, v1]; of more than that, the newest that have run, and a quarter of the rows or more
 * for those who wait next. One list for all lanes, so that rows line up.
 */
export function chooseRows(lanes, [v0, v1], most, expected = 0) {
  const seen = new Map(); // request → whether it is in the window, in any lane
  const started = new Set();
  for (const lane of lanes) {
    for (const request of lane.requests.values()) {
      const last = request.segments[request.segments.length - 1];
      if (last) started.add(request.idx);
      const from = request.arrive ?? request.segments[0]?.t0 ?? 0;
      const to = Math.max(last?.t1 ?? 0, request.end ?? (last ? 0 : Infinity));
      seen.set(request.idx, seen.get(request.idx) || (from <= v1 && to >= v0));
    }
  }
  for (let idx = 0; idx < expected; idx++) if (!seen.has(idx)) seen.set(idx, true);
  const all = [...seen.keys()].sort((a, b) => a - b);
  if (all.length <= most) return all;
  const shown = all.filter((idx) => seen.get(idx));
  if (shown.length <= most) return shown;
  // Those who have run, and whoever comes next in the queue: a long queue shall not hide the work.
  const queued = shown.filter((idx) => !started.has(idx));
  const next = queued.slice(0, Math.max(Math.ceil(most / 4), most - (shown.length - queued.length)));
  const ran = shown.filter((idx) => started.has(idx)).slice(next.length - most);
  return [...ran, ...next].sort((a, b) => a - b);
}

/** Which slot each row sits in: it keeps its slot while it has rows, a new one takes the lowest free. */
class SlotTable {
  constructor() {
    this.slotOf = new Map();
    this.size = 0;
  }

  /** The slots of a step's requests, in their order. */
  assign(reqs) {
    const held = new Map();
    const taken = new Set();
    for (const req of reqs) {
      const slot = this.slotOf.get(req);
      if (slot === undefined) continue;
      held.set(req, slot);
      taken.add(slot);
    }
    let free = 0;
    for (const req of reqs) {
      if (held.has(req)) continue;
      while (taken.has(free)) free++;
      held.set(req, free);
      taken.add(free);
    }
    this.slotOf = held;
    for (const slot of held.values()) this.size = Math.max(this.size, slot + 1);
    return reqs.map((req) => held.get(req));
  }
}
