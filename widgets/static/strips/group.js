// One group of series as the view keeps it: columns over the same times. A value holds from the
// sample before to its own.

import { lastAtOrBefore } from "../shared/axis.js";
import { fixed, number3, whole } from "../shared/format.js";
import { STRIP_SNAPSHOT, decodeStrips } from "./decode.js";

const KEEP_SAMPLES = 12_000; // twice what the kernel keeps

export class StripGroup {
  constructor() {
    this.stream = null;
    this.nextEvent = 0; // Feed asks for it; strips have no events
    this.clear(0);
  }

  clear(first) {
    this.nextStep = first;
    this.t = [];
    this.columns = [];
    this.origin = 0;
    this.now = 0;
    this.done = false;
  }

  /** Take a message and its frame: "ok", "same" (nothing new) or "gap" (say hello). */
  apply(message, bytes) {
    const frame = decodeStrips(bytes);
    if (frame.stream !== this.stream || frame.first > this.nextStep) {
      if (frame.kind !== STRIP_SNAPSHOT) return "gap";
      this.clear(frame.first);
      this.stream = frame.stream;
    }
    this.origin = message.origin ?? 0;
    this.now = Math.max(0, message.now - this.origin);
    this.done = message.done;
    const skip = this.nextStep - frame.first;
    frame.columns.forEach((column, k) => {
      const mine = (this.columns[k] ??= []);
      for (let i = Math.max(0, skip); i < column.length; i++) mine.push(column[i]);
    });
    for (let i = Math.max(0, skip); i < frame.t.length; i++) this.t.push(frame.t[i]);
    const added = Math.max(0, frame.t.length - Math.max(0, skip));
    this.nextStep += added;
    if (this.t.length > KEEP_SAMPLES * 1.2) this.trim(this.t.length - KEEP_SAMPLES);
    if (this.nextStep < message.next_step && !message.more) return "gap";
    return added || frame.kind === STRIP_SNAPSHOT ? "ok" : "same";
  }

  trim(count) {
    this.t.splice(0, count);
    for (const column of this.columns) column.splice(0, count);
  }

  /** The number (from the oldest kept) of the sample that holds at `t` seconds since the origin; −1. */
  at(t) {
    const before = lastAtOrBefore(this.t, t + this.origin - 1e-12);
    return this.t.length && before + 1 < this.t.length ? before + 1 : t <= this.now + 1e-9 ? this.t.length - 1 : -1;
  }

  value(index, column) {
    return index < 0 ? null : this.columns[column]?.[index] ?? null;
  }

  /** [first, last] numbers of the samples that reach into v0…v1 seconds. */
  range(v0, v1) {
    const first = Math.max(0, lastAtOrBefore(this.t, v0 + this.origin));
    return [first, Math.min(this.t.length - 1, lastAtOrBefore(this.t, v1 + this.origin) + 1)];
  }

  /** The largest value of a column in a range, null when nothing is known. */
  most([first, last], column) {
    let most = null;
    for (let i = first; i <= last; i++) {
      const value = this.columns[column]?.[i] ?? null;
      if (value !== null && (most === null || value > most)) most = value;
    }
    return most;
  }
}

/** A figure as text: 98 %, 11.4 GB/s, 742 MB, 512 W; n/a for null. */
export function stripValue(value, unit) {
  if (value === null || value === undefined) return "n/a";
  if (unit === "%") return `${value > 99 && value < 100 ? 99 : fixed(value)}\u2009%`;
  if (unit === "B" || unit === "B/s") {
    const [size, name] = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"]].find(([each]) => value >= each) ?? [1e3, "kB"];
    return `${number3(value / size)}\u2009${name}${unit.slice(1)}`;
  }
  const shown = Number.isInteger(value) ? whole(value) : number3(value);
  return unit ? `${shown}\u2009${unit}` : shown;
}
