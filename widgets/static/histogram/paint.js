// One histogram: title and figures, bars, limit, percentile marks, axis.

import { duration, fixed, plain, whole } from "../shared/format.js";
import { line, text } from "../shared/pen.js";
import { Labels } from "../shared/plot.js";
import { plotScale, plotTicks } from "../shared/scale.js";
import { font } from "../shared/theme.js";
import { barCounts, barEdges, flooredShare } from "./bars.js";

const CHART_TALL = 92;
const FOOT_TALL = 48; // axis, and what lies beyond it
const CELL_TALL = 38; // a figure and its name

/** What stands above a histogram: [[name, figure]]. */
function headFigures(figures, name, limited) {
  const time = (value) => duration(value, name === "ttft");
  const p99 = figures.n && figures.few ? "too few" : time(figures.p99);
  const shown = [["p50", time(figures.p50)], ["p95", time(figures.p95)], ["p99", p99]];
  return limited ? [...shown, ["in SLO", flooredShare(figures.within)]] : shown;
}

/**
 * How the heads stand in so much width each, so that no figure touches the next: {perRow, size, tall}.
 * limits: by metric; names: of the metrics shown.
 */
export function headLayout(ctx, lanes, names, limits, wide) {
  const all = lanes.flatMap((lane) => names.map((name) => headFigures(lane.metrics[name], name, limits[name] !== undefined)));
  ctx.font = font(15, 650);
  const widest = Math.max(...all.flat().map(([, words]) => ctx.measureText(words).width));
  const count = Math.max(...all.map((figures) => figures.length));
  const room = wide / count - 10;
  const perRow = room >= (widest * 12.5) / 15 ? count : 2;
  return { perRow, size: room >= widest || perRow === 2 ? 15 : 12.5, tall: 36 + CELL_TALL * Math.ceil(count / perRow) };
}

/** Height of a histogram with its head. */
export function panelTall(head) {
  return head.tall + CHART_TALL + FOOT_TALL;
}

export const METRIC_NAMES = {
  ttft: ["Time to first token", "TTFT"], itl: ["Time between tokens", "ITL"], e2e: ["Whole answer", "E2E"],
};

/** Paint a metric of a lane into left…left + wide; returns its bars: [{x, y, low, high, count}]. */
export function paintHistogram(ctx, theme, { lane, name, span, log, limit, left, top, wide, head, tallest, perDecade }) {
  const figures = lane.metrics[name];
  paintHead(ctx, theme, { figures, name, limit, left, top, wide, head });
  if (!span) {
    text(ctx, "nothing yet", left, top + head.tall + 40, { color: theme.ink3 });
    return [];
  }
  const y0 = top + head.tall + 12;
  const y1 = y0 + CHART_TALL;
  const x = plotScale(span[0], span[1], left, left + wide, log);
  const bars = barsOf(figures, x, { perDecade, wide, tallest, y1 });
  if (limit !== null) {
    ctx.save();
    ctx.globalAlpha = theme.dark ? 0.14 : 0.08;
    ctx.fillStyle = theme.ok;
    ctx.fillRect(left, y0, x.at(Math.min(limit, x.high)) - left, CHART_TALL);
    ctx.restore();
  }
  for (const bar of bars) {
    ctx.fillStyle = limit !== null && bar.low >= limit - 1e-12 ? theme.waste : theme.decode;
    ctx.fillRect(bar.left, bar.y, Math.max(0.8, bar.right - bar.left - 1), y1 - bar.y);
  }
  paintAxisOf(ctx, theme, x, y1);
  paintMarks(ctx, theme, x, { figures, limit, y0, y1 });
  paintBeyond(ctx, theme, x, figures, bars, y1);
  return bars;
}

/** The largest root of a count among the lanes: they share one height. */
export function tallestRoot(lanes, name, span, log, wide, perDecade) {
  const edges = barEdges(...span, log, barNumber(wide));
  const most = lanes.map((lane) => Math.max(...barCounts(lane.metrics[name].bins, edges, perDecade)));
  return Math.sqrt(Math.max(1, ...most));
}

function barNumber(wide) {
  return Math.max(12, Math.min(60, Math.round(wide / 6)));
}

function barsOf(figures, x, { perDecade, wide, tallest, y1 }) {
  const edges = barEdges(x.low, x.high, x.log, barNumber(wide));
  return barCounts(figures.bins, edges, perDecade).map((count, i) => ({
    count, low: edges[i], high: edges[i + 1], left: x.at(edges[i]), right: x.at(edges[i + 1]),
    y: y1 - Math.max(1, (Math.sqrt(count) / tallest) * (CHART_TALL - 4)),
  })).filter((bar) => bar.count > 0);
}

function paintHead(ctx, theme, { figures, name, limit, left, top, wide, head }) {
  const [title, short] = METRIC_NAMES[name];
  const width = text(ctx, title, left, top + 10, { size: 13, weight: 650, color: theme.ink });
  if (wide > width + 130) text(ctx, short, left + width + 8, top + 10.5, { size: 11.5, color: theme.ink3 });
  text(ctx, `n = ${whole(figures.n)}`, left + wide, top + 10, { color: theme.ink3, align: "right" });
  headFigures(figures, name, limit !== null).forEach(([label, value], i) => {
    const x = left + ((i % head.perRow) * wide) / head.perRow;
    const y = top + 32 + CELL_TALL * Math.floor(i / head.perRow);
    text(ctx, label, x, y, { color: theme.ink3 });
    text(ctx, value, x, y + 18, { size: head.size, weight: 650, color: theme.ink });
  });
}

function paintAxisOf(ctx, theme, x, y) {
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  line(ctx, x.start, y + 0.5, x.end, y + 0.5);
  const [factor, unit] = x.high >= 2 ? [1, "s"] : [1000, "ms"];
  const ticked = plotTicks(plotScale(x.low * factor, x.high * factor, x.start, x.end, x.log), 64);
  ticked.forEach(({ value, label }, i) => {
    const px = x.at(value / factor);
    const words = i === ticked.length - 1 ? `${label}\u2009${unit}` : label;
    const [atStart, atEnd] = [px < x.start + 6, px > x.end - 22];
    line(ctx, px, y, px, y + 4);
    text(ctx, words, atEnd ? x.end : px, y + 14, { color: theme.ink3, align: atEnd ? "right" : atStart ? "left" : "center" });
  });
}

function paintMarks(ctx, theme, x, { figures, limit, y0, y1 }) {
  const labels = new Labels(ctx, theme, [x.start - 4, y0 - 22, x.end + 3, y1]);
  if (limit !== null && limit < x.high) {
    ctx.strokeStyle = theme.ok;
    ctx.lineWidth = 1.5;
    ctx.setLineDash([5, 3]);
    line(ctx, x.at(limit), y0 - 4, x.at(limit), y1);
    ctx.setLineDash([]);
  }
  if (limit !== null) {
    const words = `SLO ${plain(limit * 1000)}\u2009ms${limit < x.high ? "" : " →"}`;
    labels.beside(words, Math.min(x.at(limit), x.end + 2), y0 - 10, { weight: 650, color: theme.okText, places: "e w", gap: 2, force: true });
  }
  const marks = [["p50", figures.p50], ["p95", figures.p95], ...(figures.few ? [] : [["p99", figures.p99]])];
  marks.forEach(([label, value], i) => {
    if (value === null || value > x.high) return;
    ctx.strokeStyle = theme.ink;
    ctx.lineWidth = 1.5;
    const from = y0 + 4 + 16 * i;
    line(ctx, x.at(value), from, x.at(value), y1);
    labels.beside(label, x.at(value), from + 5, { weight: 650, color: theme.ink, places: "e w", gap: 4, force: true });
  });
}

function paintBeyond(ctx, theme, x, figures, bars, y) {
  const beyond = figures.n - bars.reduce((sum, bar) => sum + bar.count, 0);
  if (beyond < 0.5) return;
  text(ctx, `${fixed(beyond)} beyond, up to ${duration(figures.most)}`, x.end, y + 30, { size: 10.5, color: theme.ink3, align: "right" });
}
