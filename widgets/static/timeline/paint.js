// The data layer: what happened, panel by panel. Only times in [from, to] are painted, so a live
// view repaints the new edge and leaves the past as it is.

import { DEAD, DECODE, PREFILL } from "../shared/decode.js";
import { cross } from "../shared/pen.js";
import { font, hatch } from "../shared/theme.js";
import { lastAtOrBefore } from "../shared/axis.js";
import { paintStrip } from "./strip.js";

const GAP_FROM = 3.6; // px a step: below, cells are one solid run (thinner gaps alias)
const COUNT_FROM = 24; // px a prefill block: from here its token count stands in it

/** Brushes of a theme at a device pixel ratio: hatch patterns are made once. */
export function brushes(ctx, theme, ratio) {
  return { theme, ratio, hatch: hatch(ctx, theme.waste, ratio) };
}

/** Clear and paint the times [from, to] of one panel. rows: request indices, or slots. */
export function paintPanel(ctx, { panel, lane, rows, mode, scale, brush, from, to, until, marked }) {
  // Whole pixels: a soft edge of the clip would show as a seam.
  const left = Math.floor(Math.max(scale.x0 - 8, scale.x(from) - 4));
  const right = Math.ceil(Math.min(scale.x1 + 3, scale.x(to) + 3));
  if (right <= left) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, panel.top - 1, right - left, panel.stripBottom - panel.top + 2);
  ctx.clip();
  ctx.clearRect(left, panel.top - 1, right - left, panel.stripBottom - panel.top + 2);
  const view = { ctx, panel, lane, scale, brush, from: scale.t(left), until, snap: snapper(brush.ratio) };
  const list = placed(view, rows, mode);
  paintDecode(view, list);
  for (const item of list) paintRow(view, item, mode);
  for (const item of list) paintEnd(view, item, mode);
  paintStrip(view);
  paintGround(view, rows, marked);
  ctx.restore();
}

function snapper(ratio) {
  return (x) => Math.round(x * ratio) / ratio;
}

/** Each request to paint, with the y of its row (its segments' own rows in slot mode). */
function placed({ panel, lane }, rows, mode) {
  const half = panel.pitch / 2;
  const y = (row) => panel.top + row * panel.pitch + half;
  if (mode === "slots") {
    return [...lane.requests.values()].map((request) => ({ request, y: (segment) => y(segment.slot) }));
  }
  const out = [];
  rows.forEach((shown, row) => {
    for (const idx of mode === "people" ? shown.requests : [shown]) {
      const request = lane.requests.get(idx);
      if (request) out.push({ request, y: () => y(row) });
    }
  });
  return out;
}

/** Heights of full blocks and of decode cells for a row pitch. */
export function cellHeights(pitch) {
  const full = pitch >= 10 ? pitch - 4 : Math.max(1.2, pitch * 0.84);
  return { full, decode: full * 0.75 };
}

/** The segments that reach into the painted times, newest first. */
function* recent(view, request) {
  for (let i = request.segments.length - 1; i >= 0; i--) {
    const segment = request.segments[i];
    if (segment.t1 < view.from) return;
    if (segment.t0 <= view.until && segment.t0 <= view.scale.v1) yield segment;
  }
}

/** A time's x, on a device pixel; nothing is drawn later than `until` (a paused view). */
function edge(view, t) {
  return view.snap(view.scale.x(Math.min(t, view.until)));
}

function paintDecode(view, list) {
  const { ctx, panel, scale, brush, snap } = view;
  const { decode } = cellHeights(panel.pitch);
  ctx.fillStyle = brush.theme.decode;
  for (const { request, y } of list) {
    for (const segment of recent(view, request)) {
      if (segment.kind !== DECODE) continue;
      const x = edge(view, segment.t0);
      const width = Math.max(1 / brush.ratio, edge(view, segment.t1) - x);
      ctx.fillRect(x, snap(y(segment) - decode / 2), width, snap(decode));
    }
  }
  // The gaps between cells: one cut through all rows at each step's end.
  const { t0, t1 } = view.lane;
  if (panel.pitch < 5 || stepWidth(view.lane, scale) < GAP_FROM) return;
  const gap = Math.max(0.8, Math.round(0.9 * brush.ratio) / brush.ratio);
  for (let i = Math.max(0, lastAtOrBefore(t0, view.from)); i < t0.length && t0[i] <= scale.v1; i++) {
    if ((t1[i] - t0[i]) * scale.factor < GAP_FROM * 0.8) continue;
    ctx.clearRect(snap(scale.x(t1[i])) - gap, panel.top, gap, panel.bottom - panel.top);
  }
}

/** The usual width of a step in the window, in pixels: all cells have gaps, or none. */
function stepWidth({ t0, t1 }, scale) {
  const first = Math.max(0, lastAtOrBefore(t0, scale.v0));
  const last = lastAtOrBefore(t0, scale.v1);
  if (last < first) return 0;
  const widths = [];
  for (let i = first; i <= last; i += Math.max(1, Math.floor((last - first) / 64))) widths.push(t1[i] - t0[i]);
  return widths.sort((a, b) => a - b)[widths.length >> 1] * scale.factor;
}

function paintRow(view, { request, y }, mode) {
  const { ctx, panel, brush } = view;
  const { full } = cellHeights(panel.pitch);
  if (mode !== "slots") paintQueue(view, request, y());
  for (const segment of recent(view, request)) {
    const middle = y(segment);
    if (segment.kind === PREFILL) paintPrefill(view, segment, middle, full);
    else if (segment.kind === DEAD) {
      const x = edge(view, segment.t0);
      paintHatch(view, x, middle, edge(view, segment.t1) - x, cellHeights(panel.pitch).decode);
    }
  }
  if (mode !== "slots") for (const preempt of request.preempts) paintPreempt(view, request, preempt, y(), full);
}

/** The tick at a request's end; among slots also its letter, since the row does not name it. */
function paintEnd(view, { request, y }, mode) {
  const { ctx, panel, brush, scale, snap } = view;
  const { full } = cellHeights(panel.pitch);
  if (panel.pitch < 3) return;
  const last = lastUseful(request);
  if (last && request.end !== undefined && request.end <= view.until) {
    ctx.fillStyle = brush.theme.ink;
    ctx.fillRect(snap(scale.x(request.end)) - 1, snap(y(last) - full / 2 - 0.5), 2, full + 1);
  }
  if (mode !== "slots" || panel.pitch < 12) return;
  const cells = request.segments.find((segment) => segment.kind === DECODE);
  if (!cells || edge(view, cells.t1) - edge(view, cells.t0) < 18) return;
  ctx.font = font(9, 700);
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.lineWidth = 2;
  ctx.strokeStyle = brush.theme.decode;
  ctx.fillStyle = brush.theme.onDecode;
  const x = edge(view, cells.t0) + 4;
  ctx.strokeText(request.letter, x, y(cells) + 0.5);
  ctx.fillText(request.letter, x, y(cells) + 0.5);
}

function lastUseful(request) {
  for (let i = request.segments.length - 1; i >= 0; i--) {
    if (request.segments[i].kind !== DEAD) return request.segments[i];
  }
  return null;
}

/** Dotted from the arrival's tick to the first row. */
function paintQueue(view, request, y) {
  const { ctx, scale, brush, panel } = view;
  if (request.arrive === undefined || request.arrive > view.until) return;
  const first = request.segments[0];
  const to = Math.min(first ? first.t0 : request.end ?? view.lane.now, view.until);
  if (to < view.from || panel.pitch < 3) return;
  ctx.strokeStyle = brush.theme.queue;
  ctx.lineWidth = 1;
  const x = view.snap(scale.x(request.arrive));
  const tick = Math.min(3.5, panel.pitch / 3);
  ctx.beginPath();
  ctx.moveTo(x, y - tick);
  ctx.lineTo(x, y + tick);
  ctx.stroke();
  dotted(ctx, x + 3, scale.x(to) - 1, y);
}

/** Dots every 4 px, at places that don't depend on where painting starts. */
function dotted(ctx, from, to, y) {
  if (to <= from) return;
  ctx.save();
  ctx.setLineDash([1.1, 2.9]);
  ctx.beginPath();
  ctx.moveTo(from, y);
  ctx.lineTo(to, y);
  ctx.stroke();
  ctx.restore();
}

/** A chunk: amber for its real share, hatched for the prompt padding. */
function paintPrefill(view, segment, y, height) {
  const { ctx, brush, snap, panel } = view;
  const { theme } = brush;
  const x = edge(view, segment.t0);
  const width = Math.max(2 / brush.ratio, edge(view, segment.t1) - x);
  const share = segment.tokens / (segment.tokens + segment.padding || 1);
  const real = Math.max(Math.min(2, width), snap(width * share));
  const top = snap(y - height / 2);
  if (width > real) paintHatch(view, x + real, y, width - real, cellHeights(panel.pitch).decode);
  ctx.fillStyle = theme.prefill;
  ctx.fillRect(x, top, real, height);
  if (panel.pitch >= 5 && real >= 2) {
    ctx.strokeStyle = theme.dark ? theme.bg : theme.prefillEdge;
    ctx.lineWidth = 0.8;
    ctx.strokeRect(x + 0.4, top + 0.4, real - 0.8, height - 0.8);
  }
  if (segment.recompute) {
    ctx.fillStyle = theme.pre;
    const foot = Math.max(1.5, height * 0.2);
    ctx.fillRect(x, top + height - foot, real, foot);
  }
  if (real >= COUNT_FROM && panel.pitch >= 12 && view.scale.x1 - view.scale.x0 > 560) {
    ctx.fillStyle = theme.onPrefill;
    ctx.font = font(9, 650);
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    ctx.fillText(segment.tokens.toLocaleString("en-US"), x + 4, y + 0.5);
  }
}

function paintHatch(view, x, y, width, height) {
  const { ctx, brush, snap } = view;
  if (width <= 0) return;
  const top = snap(y - height / 2);
  ctx.globalAlpha = brush.theme.dark ? 0.2 : 0.08;
  ctx.fillStyle = brush.theme.waste;
  ctx.fillRect(x, top, width, height);
  ctx.globalAlpha = 1;
  ctx.fillStyle = brush.hatch;
  ctx.fillRect(x, top, width, height);
}

/** ✕ where its blocks were taken, then a hollow tube until it has a row again. */
function paintPreempt(view, request, preempt, y, height) {
  const { ctx, scale, brush, snap } = view;
  if (preempt.t > view.until) return;
  const next = request.segments.find((segment) => segment.t0 >= preempt.t - 1e-9);
  const to = Math.min(next ? next.t0 : request.end ?? view.lane.now, view.until);
  if (to < view.from) return;
  const x = scale.x(preempt.t);
  const tube = height * 0.5;
  ctx.strokeStyle = brush.theme.pre;
  ctx.lineWidth = 1.2;
  if (scale.x(to) - x > 3) {
    ctx.fillStyle = brush.theme.bg;
    ctx.fillRect(x, snap(y - tube / 2), scale.x(to) - x, tube);
    ctx.strokeRect(x + 0.6, snap(y - tube / 2) + 0.6, scale.x(to) - x - 1.2, tube - 1.2);
  }
  cross(ctx, x, y, Math.min(3.6, height / 2.6), brush.theme.pre);
}

/** Grid and the marked rows, under what is painted already. */
function paintGround(view, rows, marked) {
  const { ctx, panel, scale, brush } = view;
  ctx.save();
  ctx.globalCompositeOperation = "destination-over";
  ctx.strokeStyle = brush.theme.grid;
  ctx.lineWidth = 0.6;
  ctx.beginPath();
  if (panel.pitch >= 10) {
    for (let row = 1; row <= panel.rows; row++) {
      const y = panel.top + row * panel.pitch;
      ctx.moveTo(scale.x0, y);
      ctx.lineTo(scale.x1, y);
    }
  }
  ctx.stroke();
  ctx.strokeStyle = brush.theme.line;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(scale.x0, panel.stripBottom + 0.5);
  ctx.lineTo(scale.x1, panel.stripBottom + 0.5);
  ctx.stroke();
  ctx.fillStyle = brush.theme.panel;
  rows.forEach((idx, row) => {
    if (!marked.has(idx)) return;
    ctx.fillRect(scale.x0 - 8, panel.top + row * panel.pitch, scale.x1 - scale.x0 + 8, panel.pitch);
  });
  ctx.restore();
}

/** Dim what comes after time t, in every panel: a replay has not come there yet. */
export function paintVeil(ctx, { theme, geometry, scale }, t) {
  const left = Math.max(geometry.x0, scale.x(t));
  if (left >= geometry.x1) return;
  ctx.globalAlpha = 0.72;
  ctx.fillStyle = theme.bg;
  for (const { top, stripBottom } of geometry.panels) ctx.fillRect(left, top - 2, geometry.x1 + 1 - left, stripBottom - top + 3);
  ctx.globalAlpha = 1;
}
