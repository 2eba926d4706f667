// Where the router, the replicas and their strips stand, in CSS pixels.

import { NARROW_FIGURE, TINY_FIGURE } from "../shared/figure.js";

/**
 * {router: {x, y, width, height}, rows: [{replica, top, height, middle, nameX, figuresX, x0, x1,
 * stripTop, stripBottom}], axisY, x0, x1, wide, height}.
 */
export function clusterLayout({ width, replicas }) {
  const wide = width >= NARROW_FIGURE;
  const tiny = width < TINY_FIGURE;
  const pitch = replicas <= 8 ? (wide ? 70 : 86) : replicas <= 20 ? (wide ? 44 : 78) : Math.max(16, 640 / replicas);
  const names = pitch >= 40;
  const top = wide ? 26 : 58;
  const nameX = wide ? 214 : 0;
  const x0 = wide ? nameX + (names ? 232 : 120) : 34;
  const x1 = width - 8;
  const rows = Array.from({ length: Math.max(1, replicas) }, (_, replica) => {
    const y = top + replica * pitch;
    const stripTop = y + (wide || !names ? 4 : 36);
    const stripBottom = y + pitch - (pitch > 30 ? 14 : 3);
    return { replica, top: y, height: pitch, middle: wide ? (stripTop + stripBottom) / 2 : y + 14, nameX, x0, x1, stripTop, stripBottom };
  });
  const bottom = top + Math.max(1, replicas) * pitch;
  const axisY = bottom + 4;
  const router = wide
    ? { x: 0, y: Math.max(top, (top + bottom) / 2 - 34), width: 118, height: 62 }
    : { x: 0, y: 0, width: tiny ? width : 240, height: 40 };
  return { router, rows, axisY, x0, x1, wide, names, height: axisY + 62 };
}

/** The replica whose row holds y, null if none does. */
export function rowAt({ rows }, y) {
  return rows.find((row) => y >= row.top && y < row.top + row.height)?.replica ?? null;
}

/** A point at share s (0 to 1) of the curve from (xa, ya) to (xb, yb): flat at both ends. */
export function curvePoint([xa, ya], [xb, yb], s) {
  const [u, middle] = [1 - s, (xa + xb) / 2];
  const x = u ** 3 * xa + 3 * u * u * s * middle + 3 * u * s * s * middle + s ** 3 * xb;
  const y = u ** 3 * ya + 3 * u * u * s * ya + 3 * u * s * s * yb + s ** 3 * yb;
  return [x, y];
}
