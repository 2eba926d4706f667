// Where things stand: pure functions of sizes and times, in CSS pixels and seconds.

import { NARROW_FIGURE } from "../shared/figure.js";

const MANY_ROWS = 40; // above: 6 px rows, letters on hover only
const MAX_ROWS_HEIGHT = 520;
const STRIP = 26;

/** Height of a row for `count` rows; `height`: what the rows shall fill, null for what they need. */
export function rowPitch(count, height) {
  const rows = Math.max(1, count);
  if (height) return Math.max(2, Math.min(20, height / rows));
  const wanted = rows > MANY_ROWS ? 6 : 15.5;
  return Math.max(2, Math.min(wanted, MAX_ROWS_HEIGHT / rows));
}

/**
 * Geometry of the canvas. panels: [{lane, rows}] from top to bottom; names: room for the rows'.
 * Returns {width, height, x0, x1, figuresX (null when narrow), axisY, panels: [{lane, rows, top,
 * bottom, pitch, titleY, stripTop, stripBottom}]}.
 */
export function layout({ width, panels, height = null, names = 34 }) {
  const narrow = width < NARROW_FIGURE; // margin figures move beside the title
  const x0 = names;
  const x1 = Math.max(x0 + 40, narrow ? width - 8 : width - 150);
  let y = 0;
  const placed = panels.map(({ lane, rows }, index) => {
    if (index > 0) y += 30;
    const titleY = y + 13;
    const top = y + 24;
    const pitch = rowPitch(rows, height);
    const bottom = top + Math.max(1, rows) * pitch;
    const stripTop = bottom + 9;
    const stripBottom = stripTop + STRIP;
    y = stripBottom;
    return { lane, rows, top, bottom, pitch, titleY, stripTop, stripBottom };
  });
  const axisY = y + 10;
  return { width, height: axisY + 52, x0, x1, figuresX: narrow ? null : x1 + 16, axisY, panels: placed };
}

/**
 * The times to show when nobody has zoomed. `ends`: seconds reached by each lane; running: some
 * lane still runs. Grows in jumps, so that a view repaints all only now and then; a run longer
 * than `span` scrolls, "now" at the right edge.
 */
export function autoWindow(ends, running, span = 60) {
  const end = Math.max(0.05, ...ends);
  if (!running) return [0, end * 1.06];
  const now = ends[ends.length - 1];
  if (end <= span) {
    let limit = 0.5;
    while (limit < end * 1.02) limit *= 1.5;
    return [0, limit];
  }
  const hop = span / 16;
  const right = Math.ceil((now + hop * 0.2) / hop) * hop;
  return [Math.max(0, right - span), Math.max(right, span)];
}

/** Zoom a window by `factor` (< 1: closer) around time t, within 0…limit. */
export function zoomWindow([v0, v1], t, factor, limit) {
  const span = Math.min(Math.max((v1 - v0) * factor, 0.002), limit);
  const left = t - ((t - v0) / (v1 - v0)) * span;
  return shiftWindow([left, left + span], 0, limit);
}

/** Move a window by dt seconds, within 0…limit. */
export function shiftWindow([v0, v1], dt, limit) {
  const span = v1 - v0;
  const left = Math.min(Math.max(0, v0 + dt), Math.max(0, limit - span));
  return [left, left + span];
}

/** What is at (x, y): {panel, index} of the row (index −1 on the strip), "axis", or null. */
export function hit(geometry, x, y) {
  if (y >= geometry.axisY - 8 && x >= geometry.x0 - 4) return { axis: true };
  for (const panel of geometry.panels) {
    if (y >= panel.top && y < panel.bottom) {
      return { panel, index: Math.min(panel.rows - 1, Math.floor((y - panel.top) / panel.pitch)) };
    }
    if (y >= panel.bottom && y <= panel.stripBottom) return { panel, index: -1 };
  }
  return null;
}
