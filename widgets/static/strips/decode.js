// A strip chart's frames (docs/contracts.md, "Strips"); little-endian. NaN comes back as null.

const STRIP_HEADER = 24;
export const STRIP_SNAPSHOT = 0;

/** {kind, group, stream, first, t: [seconds], columns: [[value or null] a series]}; throws if it is none. */
export function decodeStrips(bytes) {
  const view = bytes instanceof ArrayBuffer
    ? new DataView(bytes)
    : new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.byteLength < STRIP_HEADER) throw new Error(`a frame of ${view.byteLength} bytes is too short`);
  const magic = String.fromCharCode(...[0, 1, 2, 3].map((i) => view.getUint8(i)));
  if (magic !== "MLS1" || view.getUint8(4) !== 1) throw new Error(`not a strip frame of version 1: ${magic}`);
  const series = view.getUint16(6, true);
  const count = view.getUint32(16, true);
  const size = 8 + 4 * series;
  const expected = STRIP_HEADER + count * size;
  if (view.byteLength !== expected) throw new Error(`a frame of ${expected} bytes came with ${view.byteLength}`);
  const t = new Array(count);
  const columns = Array.from({ length: series }, () => new Array(count));
  for (let i = 0, at = STRIP_HEADER; i < count; i++, at += size) {
    t[i] = view.getFloat64(at, true);
    for (let k = 0; k < series; k++) {
      const value = view.getFloat32(at + 8 + 4 * k, true);
      columns[k][i] = Number.isNaN(value) ? null : value;
    }
  }
  return { kind: view.getUint8(5), group: view.getUint32(20, true), stream: view.getUint32(8, true), first: view.getUint32(12, true), t, columns };
}
