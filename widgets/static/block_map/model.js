// BlockLane: a run with its KV blocks. Operations are kept per step, the whole state every 64
// steps, so that any step's blocks are a short replay away (widgets/blocks.py does the same fold).

import { DEAD } from "../shared/decode.js";
import { LaneModel } from "../shared/lane.js";

const CHECKPOINT = 64; // steps between two kept states
const SAME = 1e-9;

/** The blocks after some step: tables, what is cached, and what this step alone did (marks). */
export class BlockState {
  constructor({ num_blocks = 0, block_size = 1, tables = {}, computed = {}, cached = [] } = {}) {
    const numbered = (object, copy) => new Map(Object.entries(object).map(([key, value]) => [Number(key), copy(value)]));
    this.numBlocks = num_blocks;
    this.blockSize = block_size;
    this.tables = numbered(tables, (table) => [...table]); // request → blocks, in order of tokens
    this.computed = numbered(computed, (n) => n); // request → tokens whose KV is written
    this.cached = new Set(cached);
    this.forgetMarks();
  }

  forgetMarks() {
    this.taken = new Map(); // block → the preempted request that gave it back
    this.hits = new Map(); // block → who found it cached or in use by others
    this.evicted = new Set();
    this.fresh = new Set(); // blocks handed out
  }

  clone() {
    const copy = new BlockState({ num_blocks: this.numBlocks, block_size: this.blockSize });
    copy.tables = new Map([...this.tables].map(([req, table]) => [req, [...table]]));
    copy.computed = new Map(this.computed);
    copy.cached = new Set(this.cached);
    for (const name of ["taken", "hits"]) copy[name] = new Map(this[name]);
    for (const name of ["evicted", "fresh"]) copy[name] = new Set(this[name]);
    return copy;
  }

  take({ ops, rows }, preempted) {
    this.forgetMarks();
    for (const { op, block, req } of ops) {
      if (op === "a" || op === "s") {
        if (!this.tables.has(req)) this.tables.set(req, []);
        this.tables.get(req).push(block);
        this.cached.delete(block);
        if (op === "s") this.hits.set(block, req);
        else this.fresh.add(block);
      } else if (op === "f") {
        this.release(block, req);
        if (preempted.has(req)) this.taken.set(block, req);
      } else if (op === "e") {
        this.cached.delete(block);
        this.evicted.add(block);
      } else {
        this.cached.add(block);
      }
    }
    for (const { req, kind, tokens, start } of rows) {
      if (kind !== DEAD && this.tables.has(req)) this.computed.set(req, start + tokens);
    }
  }

  release(block, req) {
    const table = this.tables.get(req) ?? [];
    const at = table.indexOf(block);
    if (at >= 0) table.splice(at, 1); // a stream begun in the middle frees what it did not see
    if (table.length) return;
    this.tables.delete(req);
    this.computed.delete(req);
  }

  /** Block → [{req, place in its table}], by request. */
  owners() {
    const owners = new Map();
    for (const req of [...this.tables.keys()].sort((a, b) => a - b)) {
      this.tables.get(req).forEach((block, place) => {
        if (!owners.has(block)) owners.set(block, []);
        owners.get(block).push({ req, place });
      });
    }
    return owners;
  }

  /** Tokens whose KV stands in a block that these [{req, place}] hold. */
  filled(held) {
    const tokens = held.map(({ req, place }) => (this.computed.get(req) ?? 0) - place * this.blockSize);
    return Math.min(this.blockSize, Math.max(0, ...tokens));
  }

  get numUsed() {
    return new Set([...this.tables.values()].flat()).size;
  }

  get numFree() {
    return this.numBlocks - this.numUsed - this.cached.size;
  }
}

export class BlockLane extends LaneModel {
  clear(firstStep) {
    super.clear(firstStep);
    this.cachedCount = []; // blocks cached after each step
    this.changes = []; // {ops, rows} of each step
    this.before = new BlockState(); // before the oldest step
    this.kept = new Map(); // step number → state after it
    this.last = null; // {number, state} asked for last
  }

  takeMessage(message, isSnapshot) {
    if (message.blocks && this.stepCount === 0) this.before = new BlockState(message.blocks);
    super.takeMessage(message, isSnapshot);
  }

  pushStep(step) {
    super.pushStep(step);
    this.cachedCount.push(step.kvCached);
    this.changes.push({ ops: step.ops, rows: [] });
  }

  pushRow(number, row, slot) {
    super.pushRow(number, row, slot);
    this.changes[this.changes.length - 1].rows.push(row);
  }

  trim(count) {
    const before = this.stateAt(this.base + count - 1);
    super.trim(count);
    this.before = before;
    this.cachedCount.splice(0, count);
    this.changes.splice(0, count);
    for (const number of this.kept.keys()) if (number < this.base) this.kept.delete(number);
    this.last = null;
  }

  get numBlocks() {
    return this.before.numBlocks;
  }

  get blockSize() {
    return this.before.blockSize;
  }

  /** The requests that a step threw out. */
  preemptedIn(number) {
    const t0 = this.t0[number - this.base];
    const out = new Set();
    for (const request of this.requests.values()) {
      if (request.preempts.some(({ t }) => Math.abs(t - t0) < SAME)) out.add(request.idx);
    }
    return out;
  }

  /** The blocks after step `number` (before the oldest: base − 1). Not to be changed by the caller. */
  stateAt(number) {
    if (this.last?.number === number) return this.last.state;
    let at = this.base - 1;
    let state = this.before;
    const checkpoint = number - (number % CHECKPOINT);
    for (let kept = checkpoint; kept >= this.base; kept -= CHECKPOINT) {
      if (!this.kept.has(kept)) continue;
      [at, state] = [kept, this.kept.get(kept)];
      break;
    }
    if (this.last && this.last.number < number && this.last.number > at) [at, state] = [this.last.number, this.last.state];
    state = state.clone();
    while (at < number) {
      at += 1;
      state.take(this.changes[at - this.base], this.preemptedIn(at));
      if (at % CHECKPOINT === 0 && !this.kept.has(at)) this.kept.set(at, state.clone());
    }
    this.last = { number, state };
    return state;
  }
}
