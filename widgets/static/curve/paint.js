// The chart itself: region, front, lines, error bars, points, names.

import { plain } from "../shared/format.js";
import { line, text } from "../shared/pen.js";
import { Labels, mark } from "../shared/plot.js";
import { minorTicks, plotTicks } from "../shared/scale.js";
import { front, meets, pointName, sweetSpot } from "./findings.js";

/** The colour of a line: measured blue, the one in focus ink, others grey. */
export function lineColor(theme, series, focus) {
  if (series.provenance === "measured") return theme.decode;
  return series.key === focus ? theme.ink : theme.ink3;
}

export function paintFrame(ctx, theme, x, y, narrow) {
  ctx.lineWidth = 0.6;
  ctx.strokeStyle = theme.grid;
  for (const { value } of plotTicks(x)) line(ctx, x.at(value), y.end, x.at(value), y.start);
  for (const { value } of plotTicks(y)) line(ctx, x.start, y.at(value), x.end, y.at(value));
  ctx.lineWidth = 1;
  ctx.strokeStyle = theme.line;
  line(ctx, x.start, y.start + 0.5, x.end, y.start + 0.5);
  for (const value of minorTicks(x.low, x.high)) line(ctx, x.at(value), y.start, x.at(value), y.start + 3);
  for (const value of minorTicks(y.low, y.high)) line(ctx, x.start - 3, y.at(value), x.start, y.at(value));
  for (const { value, label } of plotTicks(x)) {
    line(ctx, x.at(value), y.start, x.at(value), y.start + 5);
    text(ctx, label, x.at(value), y.start + 15, { color: theme.ink3, align: "center" });
  }
  for (const { value, label } of plotTicks(y)) text(ctx, label, x.start - 8, y.at(value), { color: theme.ink3, align: "right" });
  text(ctx, "output tokens per second, all users (log) ↑", x.start, y.end - 12, { color: theme.ink2 });
  const caption = narrow ? "ms per token (log) → slower" : "ms per token for each user (log) → slower";
  text(ctx, caption, x.end, y.start + 36, { color: theme.ink2, align: "right" });
}

export function paintLimit(ctx, theme, x, y, slo, grabbed) {
  if (slo === null) return;
  const at = Math.min(Math.max(x.at(slo), x.start), x.end);
  ctx.save();
  ctx.globalAlpha = theme.dark ? 0.14 : 0.08;
  ctx.fillStyle = theme.ok;
  ctx.fillRect(x.start, y.end, at - x.start, y.start - y.end);
  ctx.restore();
  ctx.strokeStyle = theme.ok;
  ctx.lineWidth = grabbed ? 3 : 1.6;
  ctx.setLineDash([6, 4]);
  line(ctx, at, y.end, at, y.start);
  ctx.setLineDash([]);
}

/** The words at the limit; they are labels too, so that others keep off. */
function limitWords(theme, labels, x, y, slo) {
  if (slo === null) return;
  const at = x.at(slo);
  const limit = `ITL ≤ ${plain(slo)}\u2009ms`;
  const style = { size: 11.5, weight: 650, color: theme.okText, gap: 6 };
  for (const [places, words] of [["w", `meets the SLO: ${limit}`], ["w", limit], ["e", limit]]) {
    for (let down = 12; down < 100; down += 18) {
      if (!labels.beside(words, at, y.end + down, { ...style, places })) continue;
      labels.beside("too slow per user", at, y.end + down, { size: 11.5, color: theme.ink3, places: "e", gap: 6 });
      return;
    }
  }
}

function paintFront(ctx, theme, ahead, place) {
  if (ahead.length < 2) return;
  ctx.save();
  ctx.globalAlpha = theme.dark ? 0.16 : 0.13;
  ctx.strokeStyle = theme.ink;
  ctx.lineWidth = 13;
  ctx.lineJoin = ctx.lineCap = "round";
  path(ctx, ahead.map(([, point]) => place(point)));
  ctx.stroke();
  ctx.restore();
}

function path(ctx, places) {
  ctx.beginPath();
  places.forEach(([px, py], i) => (i ? ctx.lineTo(px, py) : ctx.moveTo(px, py)));
}

function errorBars(ctx, x, y, point, color) {
  const [px, py] = [x.at(point.ms), y.at(point.tok_s)];
  ctx.strokeStyle = color;
  ctx.lineWidth = 1.3;
  const [left, right] = point.ms_range.map(x.at);
  const [bottom, top] = point.tok_range.map(y.at);
  if (right - left > 2) {
    line(ctx, left, py, right, py);
    for (const end of [left, right]) line(ctx, end, py - 4, end, py + 4);
  }
  if (bottom - top > 2) {
    line(ctx, px, top, px, bottom);
    for (const end of [top, bottom]) line(ctx, px - 4, end, px + 4, end);
  }
}

/** Paint lines and points; returns what can be pointed at: [{series, point|published, x, y, star}]. */
export function paintLines(ctx, theme, { data, slo, x, y }) {
  const place = (point) => [x.at(point.ms), y.at(point.tok_s)];
  const labels = new Labels(ctx, theme, [x.start, y.end, x.end, y.start]);
  const found = [];
  const ahead = front(data.lines);
  paintFront(ctx, theme, ahead, place);
  for (const series of data.lines) {
    strokeLine(ctx, theme, series, data.focus, place);
    labels.avoid(series.points.map(place));
  }
  if (slo !== null) labels.avoid([[x.at(slo), y.end], [x.at(slo), y.start]]);
  for (const series of data.lines) {
    const color = lineColor(theme, series, data.focus);
    const best = sweetSpot(series, slo)?.point;
    for (const point of series.points) {
      errorBars(ctx, x, y, point, color);
      const [px, py] = place(point);
      const size = series.running?.[0] === point.load ? 13 : 6;
      labels.block([px - size, py - size, px + size, py + size]);
      found.push({ series, point, x: px, y: py, star: point === best });
    }
    paintRunning(ctx, theme, series, color, place);
  }
  for (const one of found) {
    const color = lineColor(theme, one.series, data.focus);
    if (one.star) mark(ctx, theme, "star", one.x, one.y, theme.ok);
    else mark(ctx, theme, one.series.provenance, one.x, one.y, color);
  }
  for (const one of data.published) {
    const [px, py] = place(one);
    mark(ctx, theme, "published", px, py, theme.ink);
    labels.block([px - 6, py - 6, px + 6, py + 6]);
    found.push({ published: one, x: px, y: py });
  }
  nameLines(labels, theme, data, ahead, place);
  limitWords(theme, labels, x, y, slo);
  numberPoints(labels, theme, data, found);
  return found;
}

function strokeLine(ctx, theme, series, focus, place) {
  ctx.strokeStyle = lineColor(theme, series, focus);
  ctx.lineWidth = series.provenance === "measured" || series.key === focus ? 1.9 : 1.5;
  ctx.setLineDash(series.provenance === "simulated" ? [5, 3.5] : []);
  ctx.lineJoin = "round";
  path(ctx, series.points.map(place));
  ctx.stroke();
  ctx.setLineDash([]);
}

/** A dashed ring around the point whose next run is on. */
function paintRunning(ctx, theme, series, color, place) {
  const point = series.running && series.points.find((each) => each.load === series.running[0]);
  if (!point) return;
  const [px, py] = place(point);
  ctx.strokeStyle = color;
  ctx.lineWidth = 1.6;
  ctx.setLineDash([4, 3]);
  ctx.beginPath();
  ctx.arc(px, py, 12, 0, 2 * Math.PI);
  ctx.stroke();
  ctx.setLineDash([]);
}

function nameLines(labels, theme, data, ahead, place) {
  const alone = ahead.length > 2 && new Set(ahead.map(([series]) => series.key)).size === 1 ? ahead[0][0] : null;
  for (const series of data.lines) {
    const last = series.points[series.points.length - 1];
    if (!last) continue;
    const strong = series.key === data.focus || series.provenance === "measured" || series === alone;
    const color = series.provenance === "measured" ? theme.decode : strong ? theme.ink : theme.ink2;
    const [px, py] = place(last);
    const style = { size: 12.5, weight: 650, color, gap: 11, places: "ne e nw se n w sw s" };
    const long = `${series.name}: Pareto front, best at every load`;
    if (series === alone && data.lines.length > 1 && labels.beside(long, px, py, style)) continue;
    labels.beside(series.name, px, py, { ...style, force: true });
  }
}

function numberPoints(labels, theme, data, found) {
  const numbered = found.filter(({ series }) => series && (series.key === data.focus || series.provenance === "measured"));
  for (const { series, point, x, y, star } of numbered) {
    const running = series.running?.[0] === point.load ? `, run ${series.running[1]} of ${series.planned_runs}` : "";
    const color = series.provenance === "measured" ? theme.decode : theme.ink2;
    labels.beside(`${pointName(series, point)}${running}`, x, y, { color, gap: running ? 14 : 8, places: "se ne e sw nw w s n" });
    if (star && series.key === data.focus) {
      labels.beside("sweet spot", x, y, { size: 11.5, weight: 650, color: theme.okText, places: "nw n w sw ne", gap: 10 });
    }
  }
  for (const { published, x, y } of found.filter((one) => one.published)) {
    labels.beside(published.name, x, y, { color: theme.ink3, places: "e w se sw ne nw" });
  }
}

/** Whether a point keeps the limit, as a short text with a sign. */
export function verdict(point, slo) {
  if (slo === null) return "";
  return meets(point, slo) ? "✓ meets" : "✕ over";
}
