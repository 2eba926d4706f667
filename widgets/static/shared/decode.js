// Frames: the binary part of a message (docs/contracts.md, "Frames"); little-endian.

export const SNAPSHOT = 0;
export const DELTA = 1;
export const HEARTBEAT = 2;
export const PREFILL = 0;
export const DECODE = 1;
export const DEAD = 2;
export const SAMPLED = 1; // row flags
export const RECOMPUTE = 2;

const WITH_BLOCKS = 1; // frame flags
const OPS = ["a", "f", "s", "e", "c"];
const HEADER_BYTES = 24;
const STEP_BYTES = 24;
const ROW_BYTES = 16;
const OP_BYTES = 12;

/** Read a frame (DataView, ArrayBuffer or Uint8Array); throws with the reason if it is not one. */
export function decodeFrame(bytes) {
  const view = bytes instanceof ArrayBuffer
    ? new DataView(bytes)
    : new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.byteLength < HEADER_BYTES) throw new Error(`a frame of ${view.byteLength} bytes is too short`);
  const magic = String.fromCharCode(view.getUint8(0), view.getUint8(1), view.getUint8(2), view.getUint8(3));
  if (magic !== "MLF1" || view.getUint8(4) !== 1) throw new Error(`not a frame of version 1: ${magic}`);
  const nSteps = view.getUint32(16, true);
  const nRows = view.getUint32(20, true);
  const rowsAt = HEADER_BYTES + nSteps * STEP_BYTES;
  const blocksAt = rowsAt + nRows * ROW_BYTES;
  const blocks = Boolean(view.getUint16(6, true) & WITH_BLOCKS);
  const expected = blocks ? blocksEnd(view, blocksAt, nSteps, nRows) : blocksAt;
  if (view.byteLength !== expected) throw new Error(`a frame of ${expected} bytes came with ${view.byteLength}`);
  const frame = {
    kind: view.getUint8(5),
    streamId: view.getUint32(8, true),
    firstStep: view.getUint32(12, true),
    steps: readSteps(view, nSteps),
    rows: readRows(view, rowsAt, nRows),
  };
  if (blocks) readBlocks(view, blocksAt, frame);
  return frame;
}

/** Where the blocks' part ends: per step {u32 cached, u32 ops}, per row u32 start, then the ops. */
function blocksEnd(view, at, nSteps, nRows) {
  const opsAt = at + 8 * nSteps + 4 * nRows;
  if (opsAt > view.byteLength) return opsAt;
  let ops = 0;
  for (let i = 0; i < nSteps; i++) ops += view.getUint32(at + 8 * i + 4, true);
  return opsAt + ops * OP_BYTES;
}

/** Adds to steps {kvCached, ops: [{op, block, req}]} and to rows {start}; req −1: nobody's. */
function readBlocks(view, start, { steps, rows }) {
  let opAt = start + 8 * steps.length + 4 * rows.length;
  steps.forEach((step, i) => {
    step.kvCached = view.getUint32(start + 8 * i, true);
    step.ops = Array.from({ length: view.getUint32(start + 8 * i + 4, true) }, () => {
      const op = { op: OPS[view.getUint8(opAt + 8)], block: view.getUint32(opAt, true), req: view.getInt32(opAt + 4, true) };
      opAt += OP_BYTES;
      return op;
    });
  });
  rows.forEach((row, i) => { row.start = view.getUint32(start + 8 * steps.length + 4 * i, true); });
}

function readSteps(view, count) {
  const steps = new Array(count);
  for (let i = 0, at = HEADER_BYTES; i < count; i++, at += STEP_BYTES) {
    steps[i] = {
      t0: view.getFloat64(at, true),
      t1: view.getFloat64(at + 8, true),
      waiting: view.getUint16(at + 16, true),
      running: view.getUint16(at + 18, true),
      kvUsed: view.getUint32(at + 20, true),
    };
  }
  return steps;
}

function readRows(view, start, count) {
  const rows = new Array(count);
  for (let i = 0, at = start; i < count; i++, at += ROW_BYTES) {
    rows[i] = {
      step: view.getUint32(at, true),
      req: view.getUint32(at + 4, true),
      tokens: view.getUint16(at + 8, true),
      padding: view.getUint16(at + 10, true),
      kind: view.getUint8(at + 12),
      flags: view.getUint8(at + 13),
    };
  }
  return rows;
}
