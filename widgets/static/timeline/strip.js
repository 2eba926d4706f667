// The occupancy strip under a panel: how many rows each step had, and how much of them was padding.

import { lastAtOrBefore } from "../shared/axis.js";

/** Occupancy: useful rows solid, padding hatched on top, out of the slots. */
export function paintStrip(view) {
  const { ctx, panel, lane, scale, brush, snap } = view;
  const height = panel.stripBottom - panel.stripTop;
  const unit = height / stripLimit(lane);
  const hatched = new Path2D();
  let any = false;
  ctx.fillStyle = brush.theme.decode;
  let i = Math.max(0, lastAtOrBefore(lane.t0, view.from));
  while (i < lane.t0.length && lane.t0[i] <= Math.min(scale.v1, view.until)) {
    const start = i;
    // Steps of equal height, or thinner than a pixel together, are one column.
    while (i + 1 < lane.t0.length && same(lane, start, i + 1, scale)) i++;
    const x = snap(scale.x(lane.t0[start]));
    const next = lane.t0[i + 1];
    const close = next !== undefined && (next - lane.t1[i]) * scale.factor < 1.5;
    const width = Math.max(1 / brush.ratio, snap(scale.x(Math.min(close ? next : lane.t1[i], view.until))) - x);
    const useful = snap(Math.min(height, lane.useful[start] * unit));
    const padded = snap(Math.min(height - useful, lane.padded[start] * unit));
    ctx.fillRect(x, panel.stripBottom - useful, width, useful);
    if (padded > 0) {
      hatched.rect(x, panel.stripBottom - useful - padded, width, padded);
      any = true;
    }
    i++;
  }
  if (any) {
    ctx.globalAlpha = brush.theme.dark ? 0.2 : 0.08;
    ctx.fillStyle = brush.theme.waste;
    ctx.fill(hatched);
    ctx.globalAlpha = 1;
    ctx.fillStyle = brush.hatch;
    ctx.fill(hatched);
  }
}

function same(lane, a, b, scale) {
  if ((lane.t1[b] - lane.t0[a]) * scale.factor < 0.6) return true;
  const near = (lane.t0[b] - lane.t1[b - 1]) * scale.factor < 1.5;
  return near && lane.useful[a] === lane.useful[b] && lane.padded[a] === lane.padded[b];
}

/** Rows that a strip is drawn for: the slots, or the most rows seen. */
export function stripLimit(lane) {
  return lane.maxRows ?? Math.max(1, ...lane.rowCount);
}
