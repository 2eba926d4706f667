// What every figure draws with: text with a halo, lines, round boxes, the cursor.

import { font } from "./theme.js";

/** Draw a string with its middle at y (textBaseline is set); returns its width. */
export function text(ctx, string, x, y, { size = 11, weight = 400, color, align = "left", halo = null }) {
  ctx.font = font(size, weight);
  ctx.textAlign = align;
  ctx.textBaseline = "middle";
  if (halo) {
    ctx.strokeStyle = halo;
    ctx.lineWidth = 4;
    ctx.lineJoin = "round";
    ctx.strokeText(string, x, y);
  }
  ctx.fillStyle = color;
  ctx.fillText(string, x, y);
  return ctx.measureText(string).width;
}

/** The string, cut with "…" where it is wider than `width` (in the pen's font); "" if nothing fits. */
export function fitted(ctx, string, width) {
  if (width <= 0) return "";
  if (ctx.measureText(string).width <= width) return string;
  let cut = string.length;
  while (cut > 0 && ctx.measureText(`${string.slice(0, cut)}…`).width > width) cut--;
  return cut > 3 ? `${string.slice(0, cut).trimEnd()}…` : "";
}

export function line(ctx, x0, y0, x1, y1) {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

/** A path, to be filled or stroked. */
export function roundRect(ctx, x, y, width, height, radius) {
  ctx.beginPath();
  ctx.roundRect(x, y, width, height, radius);
}

/** Points left (size < 0: right) with its tip at (x, y). */
export function arrowHead(ctx, x, y, size) {
  ctx.beginPath();
  ctx.moveTo(x + size, y - 3.5);
  ctx.lineTo(x, y);
  ctx.lineTo(x + size, y + 3.5);
  ctx.stroke();
}

/** The ✕ of a preemption or a failure, `arm` pixels from its middle. */
export function cross(ctx, x, y, arm, color, width = 2) {
  ctx.strokeStyle = color;
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.moveTo(x - arm, y - arm);
  ctx.lineTo(x + arm, y + arm);
  ctx.moveTo(x - arm, y + arm);
  ctx.lineTo(x + arm, y - arm);
  ctx.stroke();
}

/** The cursor: a line from top to bottom, its foot a triangle on the axis at `footY` (null: none). */
export function cursorLine(ctx, theme, x, top, bottom, footY = null) {
  const at = Math.round(x) + 0.5;
  ctx.strokeStyle = theme.ink;
  ctx.lineWidth = 1.4;
  line(ctx, at, top, at, bottom);
  if (footY !== null) cursorFoot(ctx, theme, at, footY);
}

export function cursorFoot(ctx, theme, x, axisY) {
  ctx.fillStyle = theme.ink;
  ctx.beginPath();
  ctx.moveTo(x, axisY - 5);
  ctx.lineTo(x - 5, axisY + 1);
  ctx.lineTo(x + 5, axisY + 1);
  ctx.fill();
}

/** A time axis at y: a rule, ticks, labels below, a caption at the right end. */
export function timeAxis(ctx, theme, scale, y, marks, caption) {
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  line(ctx, scale.x0, y + 0.5, scale.x1, y + 0.5);
  for (const tick of marks) {
    const x = scale.x(tick.t);
    line(ctx, Math.round(x) + 0.5, y, Math.round(x) + 0.5, y + 4);
    text(ctx, tick.label, x, y + 14, { color: theme.ink3, align: "center" });
  }
  if (caption) text(ctx, caption, scale.x1, y + 30, { color: theme.ink3, align: "right" });
}
