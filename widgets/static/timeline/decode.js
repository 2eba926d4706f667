// Frames: the binary part of a message (docs/contracts.md, "Frames"); little-endian.

export const SNAPSHOT = 0;
export const DELTA = 1;
export const HEARTBEAT = 2;
export const PREFILL = 0;
export const DECODE = 1;
export const DEAD = 2;
export const SAMPLED = 1; // row flags
export const RECOMPUTE = 2;

const HEADER_BYTES = 24;
const STEP_BYTES = 24;
const ROW_BYTES = 16;

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
  const expected = rowsAt + nRows * ROW_BYTES;
  if (view.byteLength !== expected) throw new Error(`a frame of ${expected} bytes came with ${view.byteLength}`);
  return {
    kind: view.getUint8(5),
    streamId: view.getUint32(8, true),
    firstStep: view.getUint32(12, true),
    steps: readSteps(view, nSteps),
    rows: readRows(view, rowsAt, nRows),
  };
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
