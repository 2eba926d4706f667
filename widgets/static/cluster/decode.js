// ClusterModel: a cluster's ticks as columns, fed by messages (widgets/cluster_model.py).

import { lastAtOrBefore } from "../shared/axis.js";

const HEADER_BYTES = 20;
const LOAD_BYTES = 16;
const SNAPSHOT_KIND = 0;
const KEEP_TICKS = 8192; // of a cluster that does not end; twice what the kernel keeps
const NONE_16 = 0xffff;
const NONE_32 = 0xffffffff;

/** Read a frame: {kind, stream, first, replicas, ticks: [{t, loads: [{running, waiting, kv, up, sent}]}]}. */
export function decodeCluster(bytes) {
  const view = bytes instanceof ArrayBuffer ? new DataView(bytes) : new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.byteLength < HEADER_BYTES) throw new Error(`a frame of ${view.byteLength} bytes is too short`);
  const magic = String.fromCharCode(view.getUint8(0), view.getUint8(1), view.getUint8(2), view.getUint8(3));
  if (magic !== "MLC1" || view.getUint8(4) !== 1) throw new Error(`not a cluster's frame of version 1: ${magic}`);
  const replicas = view.getUint16(6, true);
  const count = view.getUint32(16, true);
  const expected = HEADER_BYTES + count * (8 + replicas * LOAD_BYTES);
  if (view.byteLength !== expected) throw new Error(`a frame of ${expected} bytes came with ${view.byteLength}`);
  const known = (value, none) => (value === none ? null : value);
  const ticks = new Array(count);
  for (let i = 0, at = HEADER_BYTES; i < count; i++) {
    const t = view.getFloat64(at, true);
    at += 8;
    const loads = new Array(replicas);
    for (let r = 0; r < replicas; r++, at += LOAD_BYTES) {
      const kv = known(view.getUint16(at + 8, true), NONE_16);
      loads[r] = {
        running: known(view.getUint32(at, true), NONE_32), waiting: known(view.getUint32(at + 4, true), NONE_32),
        kv: kv === null ? null : kv / 1000, up: view.getUint8(at + 10) === 1, sent: known(view.getUint32(at + 12, true), NONE_32),
      };
    }
    ticks[i] = { t, loads };
  }
  return { kind: view.getUint8(5), stream: view.getUint32(8, true), first: view.getUint32(12, true), replicas, ticks };
}

export class ClusterModel {
  constructor() {
    this.stream = null;
    this.clear(0);
  }

  clear(first) {
    this.base = first;
    this.next = first;
    this.times = [];
    this.loads = []; // per tick: per replica
    this.most = 0; // the highest running + waiting of one replica
    this.header = null;
    this.events = [];
    this.done = false;
  }

  /** Take a message and its frame. Returns "ok" or "gap" (say hello). */
  apply(message, bytes) {
    const frame = decodeCluster(bytes);
    const gap = frame.stream !== this.stream || frame.first > this.next;
    if (gap && frame.kind !== SNAPSHOT_KIND) return "gap";
    if (gap) this.clear(frame.first);
    this.stream = frame.stream;
    frame.ticks.forEach(({ t, loads }, i) => {
      if (frame.first + i < this.next) return; // had it already
      this.times.push(t);
      this.loads.push(loads);
      for (const { running, waiting } of loads) this.most = Math.max(this.most, (running ?? 0) + (waiting ?? 0));
      this.next = frame.first + i + 1;
    });
    if (message.header) this.header = message.header;
    this.events = message.events.map(([t, replica, kind, lost]) => ({ t, replica, kind, lost }));
    this.done = Boolean(message.done);
    this.trim();
    return this.next < message.next ? "gap" : "ok";
  }

  trim() {
    const extra = this.times.length - KEEP_TICKS;
    if (extra < KEEP_TICKS / 4) return;
    this.times.splice(0, extra);
    this.loads.splice(0, extra);
    this.base += extra;
  }

  get replicas() {
    return this.header?.names.length ?? 0;
  }

  get now() {
    return this.times[this.times.length - 1] ?? 0;
  }

  /** Position of the tick at time t, −1 if there is none. */
  at(t) {
    return lastAtOrBefore(this.times, t);
  }

  /** Requests sent to a replica between two times; null where it is not counted. */
  sentBetween(replica, from, to) {
    const [a, b] = [this.at(from), this.at(to)];
    if (b < 0) return null;
    const last = this.loads[b][replica].sent;
    const first = a < 0 ? 0 : this.loads[a][replica].sent;
    return last === null || first === null ? null : last - first;
  }

  /** Spells in which a replica was down, as [[from, to]]. */
  downSpells(replica) {
    const out = [];
    this.loads.forEach((loads, i) => {
      if (loads[replica].up) return;
      const to = this.times[i + 1] ?? this.times[i];
      const last = out[out.length - 1];
      if (last && last[1] >= this.times[i]) last[1] = to;
      else out.push([this.times[i], to]);
    });
    return out;
  }
}
