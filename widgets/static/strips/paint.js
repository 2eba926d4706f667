// Paints strips: a stair line over a soft area, its name above, its value and limit at the right.

import { niceLimit } from "../shared/axis.js";
import { whole } from "../shared/format.js";
import { fitted, line, text } from "../shared/pen.js";
import { font } from "../shared/theme.js";
import { stripValue } from "./group.js";

export const STRIP_PITCH = 50;
const STRIP_TALL = 26;
const LABEL_TALL = 15;

function tones(theme, tone) {
  if (tone === "work") return [theme.decode, theme.decodeSoft];
  return [tone === "queue" ? theme.queue : theme.ink3, theme.grid];
}

/** Paint one strip at `top`; index: of the sample whose value stands at the right. */
export function paintOneStrip(ctx, theme, { strip, group, top, scale, right, index, clip }) {
  const [low, high] = [top + LABEL_TALL + STRIP_TALL, top + LABEL_TALL];
  const range = group.range(scale.v0, Math.min(scale.v1, clip));
  const limit = strip.limit || niceLimit(group.most(range, strip.index) ?? 1);
  const [color, soft] = tones(theme, strip.tone);
  stairs(ctx, { strip, group, range, scale, low, limit, color, soft, clip });
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  line(ctx, scale.x0, low + 0.5, scale.x1, low + 0.5);
  ctx.lineWidth = 0.7;
  ctx.setLineDash([3, 3]);
  line(ctx, scale.x0, high + 0.5, scale.x1, high + 0.5);
  ctx.setLineDash([]);
  const value = stripValue(group.value(index, strip.index), strip.unit);
  const of = strip.key === "running" || strip.key === "kv" ? ` of ${whole(limit)}` : "";
  const aside = strip.limit && (strip.unit === "B" || strip.unit === "W") ? `of ${stripValue(strip.limit, strip.unit)}` : strip.aside;
  if (right === null) {
    ctx.font = font(12, 650);
    const wide = ctx.measureText(value + of).width;
    text(ctx, value + of, scale.x1, top + 5, { size: 12, weight: 650, color: theme.ink, align: "right" });
    ctx.font = font(11.5);
    text(ctx, fitted(ctx, strip.label, scale.x1 - scale.x0 - wide - 12), scale.x0, top + 5, { size: 11.5, color: theme.ink });
    return;
  }
  text(ctx, strip.label, scale.x0, top + 5, { size: 11.5, color: theme.ink });
  text(ctx, strip.limit || strip.unit === "%" ? "" : stripValue(limit, strip.unit), scale.x1, top + 6, { size: 10, color: theme.ink3, align: "right" });
  text(ctx, value + of, right, low - STRIP_TALL + 7, { size: 13, weight: 650, color: theme.ink });
  text(ctx, aside, right, low - STRIP_TALL + 23, { size: 11, color: theme.ink3 });
}

/** The stair line; where many samples share a pixel, their least and most. */
function stairs(ctx, { strip, group, range: [first, last], scale, low, limit, color, soft, clip }) {
  const values = group.columns[strip.index];
  if (!values || last < first) return;
  const y = (value) => low - Math.min(1, Math.max(0, value / limit)) * STRIP_TALL;
  const x = (t) => Math.min(Math.max(scale.x(Math.min(t - group.origin, clip)), scale.x0), scale.x1);
  const runs = [];
  let run = null;
  for (let i = first; i <= last; i++) {
    const value = values[i];
    if (value === null) {
      run = null;
      continue;
    }
    const since = group.t[i - 1] ?? (strip.group === 0 ? group.origin : group.t[i]); // steps begin at once
    const [from, to] = [x(since), x(group.t[i])];
    if (!run) runs.push(run = [[from, y(value)]]);
    const previous = run[run.length - 1];
    if (to - from < 0.5 && run.length > 2 && to - run[run.length - 3][0] < 0.5) { // pixel is full already
      previous[1] = Math.min(previous[1], y(value));
      continue;
    }
    run.push([from, y(value)], [to, y(value)]);
  }
  for (const points of runs) {
    ctx.beginPath();
    points.forEach(([px, py], i) => (i ? ctx.lineTo(px, py) : ctx.moveTo(px, py)));
    ctx.strokeStyle = color;
    ctx.lineWidth = 1.4;
    ctx.lineJoin = "round";
    ctx.save();
    ctx.lineTo(points[points.length - 1][0], low);
    ctx.lineTo(points[0][0], low);
    ctx.closePath();
    ctx.fillStyle = soft;
    ctx.fill();
    ctx.restore();
    ctx.beginPath();
    points.forEach(([px, py], i) => (i ? ctx.lineTo(px, py) : ctx.moveTo(px, py)));
    ctx.stroke();
  }
}
