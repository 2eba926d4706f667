// Who arrives, waits, is served and is done, at any time of a run; and Little's law on the sample.
// Fed by a LaneModel's requests (their events alone); nothing here draws.

import { lastAtOrBefore } from "../shared/axis.js";

export const WAITING = "waiting";
export const SERVED = "served";
export const DONE = "done";

/** A request's states as [[t, state]], in order of time; [] when it has not arrived. */
export function changes(request) {
  if (request.arrive === undefined) return [];
  const later = [
    ...request.admits.map((t) => [t, SERVED]),
    ...request.preempts.map(({ t }) => [t, WAITING]),
  ].sort((a, b) => a[0] - b[0] || (a[1] === WAITING ? -1 : 1));
  const out = [[request.arrive, WAITING], ...later];
  if (request.end !== undefined) out.push([request.end, DONE]);
  return out;
}

/** {state, since} of a request at time t; null before it arrives. */
export function stateAt(request, t) {
  let found = null;
  for (const [since, state] of changes(request)) {
    if (since > t) break;
    found = { state, since };
  }
  return found;
}

/** Seconds that a request has spent in a state, up to time t. */
export function spent(request, state, t) {
  const all = changes(request);
  return all.reduce((sum, [from, each], i) => {
    if (each !== state) return sum;
    return sum + Math.max(0, Math.min(all[i + 1]?.[0] ?? Infinity, t) - Math.min(from, t));
  }, 0);
}

/** What the whole run says, computed once for what has come: series, slots, figures. */
export class QueueRun {
  constructor(lane) {
    this.requests = [...lane.requests.values()].filter((request) => request.arrive !== undefined)
      .sort((a, b) => a.arrive - b.arrive || a.idx - b.idx);
    this.now = Math.max(lane.now, ...this.requests.map((request) => request.end ?? 0));
    this.countSeries();
    this.assignSlots(lane.maxRows);
  }

  /** Numbers in the system and waiting, from each instant on. */
  countSeries() {
    const moves = []; // [t, system, waiting]
    const weight = { [WAITING]: [1, 1], [SERVED]: [1, 0], [DONE]: [0, 0] };
    for (const request of this.requests) {
      let before = [0, 0];
      for (const [t, state] of changes(request)) {
        const now = weight[state];
        moves.push([t, now[0] - before[0], now[1] - before[1]]);
        before = now;
      }
    }
    moves.sort((a, b) => a[0] - b[0]);
    this.times = [];
    this.system = [];
    this.waiting = [];
    let [system, waiting] = [0, 0];
    for (const [t, a, b] of moves) {
      system += a;
      waiting += b;
      if (this.times[this.times.length - 1] !== t) this.times.push(t);
      this.system[this.times.length - 1] = system;
      this.waiting[this.times.length - 1] = waiting;
    }
  }

  /** Each spell of service takes the lowest free slot. */
  assignSlots(known) {
    const spells = [];
    for (const request of this.requests) {
      const all = changes(request);
      all.forEach(([from, state], i) => {
        if (state === SERVED) spells.push({ idx: request.idx, from, to: all[i + 1]?.[0] ?? Infinity });
      });
    }
    spells.sort((a, b) => a.from - b.from || a.idx - b.idx);
    const until = []; // per slot: when it is free again
    for (const spell of spells) {
      let slot = until.findIndex((t) => t <= spell.from);
      if (slot < 0) slot = until.length;
      until[slot] = spell.to;
      spell.slot = slot;
    }
    this.spells = spells;
    this.slots = Math.max(1, known ?? 0, until.length);
  }

  /** When most waited for the first time (when most were here, if nobody ever did): the moment to show. */
  get busiest() {
    const most = Math.max(0, ...this.waiting);
    const series = most > 0 ? this.waiting : this.system;
    return this.times[series.indexOf(Math.max(0, ...series))] ?? this.now;
  }

  /**
   * The scene at time t: {arriving: the next, waiting: head of the queue first, served: [{request,
   * slot}], done: the last to leave first}.
   */
  scene(t) {
    const out = { arriving: [], waiting: [], served: [], done: [] };
    for (const request of this.requests) {
      const found = stateAt(request, t);
      if (!found) out.arriving.push(request);
      else if (found.state === WAITING) out.waiting.push(request);
      else if (found.state === DONE) out.done.push(request);
    }
    out.done.sort((a, b) => b.end - a.end || b.idx - a.idx);
    // A preempted request stands at the front: it was here before.
    const again = (request) => (request.preempts.some((preempt) => preempt.t <= t) ? 0 : 1);
    out.waiting.sort((a, b) => again(a) - again(b) || a.arrive - b.arrive || a.idx - b.idx);
    const byIndex = new Map(this.requests.map((request) => [request.idx, request]));
    for (const { idx, from, to, slot } of this.spells) {
      if (from <= t && t < to) out.served.push({ request: byIndex.get(idx), slot });
    }
    return out;
  }

  /** How many there are at time t, in the system or ("waiting") in the queue. */
  countAt(measure, t) {
    const i = lastAtOrBefore(this.times, t);
    return i < 0 ? 0 : this[measure][i];
  }

  /**
   * Little's law on this sample, from the first arrival to `now`: {count, rate λ a second, stay W,
   * mean L, wait}; seconds of those still here count as far as they go. null without a request.
   */
  figures() {
    const from = this.requests[0]?.arrive;
    const span = this.now - from;
    if (!(span > 0)) return null;
    const count = this.requests.length;
    const wait = this.requests.reduce((sum, request) => sum + spent(request, WAITING, this.now), 0);
    const served = this.requests.reduce((sum, request) => sum + spent(request, SERVED, this.now), 0);
    return { count, rate: count / span, stay: (wait + served) / count, mean: (wait + served) / span, wait: wait / count };
  }
}
