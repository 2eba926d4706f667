// Where panels stand, what their axes span, and figures as text.

import { fixed, number3 } from "../shared/format.js";
import { logRange } from "../shared/scale.js";

export const ROOF_TALL = 300;
export const ROOF_HEAD = 58; // name, provenance
const ROOF_GAP = 26;
const AXIS_ROOM = 58; // left of the first column

/** FLOP per byte at which both limits meet; null while they are not known. */
export function ridgeOf(device) {
  return device.peak_flops && device.bandwidth ? device.peak_flops / device.bandwidth : null;
}

/** Panels in rows: {columns, rows, height, panels: [{left, top, wide, first}]}. */
export function roofPanels(count, width) {
  const columns = Math.max(1, Math.min(count, width < 460 ? 1 : width < 760 ? 2 : 4));
  const wide = (width - AXIS_ROOM - 8 - ROOF_GAP * (columns - 1)) / columns;
  const tall = ROOF_HEAD + ROOF_TALL + 40;
  const panels = Array.from({ length: count }, (_, i) => ({
    left: AXIS_ROOM + (i % columns) * (wide + ROOF_GAP), top: Math.floor(i / columns) * tall, wide, first: i % columns === 0,
  }));
  const rows = Math.ceil(Math.max(1, count) / columns);
  return { columns, rows, height: rows * tall + 42, panels };
}

/** {x: [low, high], y: [low, high]} for all devices together. */
export function roofRanges(devices) {
  const dots = devices.flatMap((device) => device.dots);
  const xs = [...dots.map((dot) => dot.intensity), ...devices.map(ridgeOf).filter(Boolean)];
  const low = dots.map((dot) => dot.flops / 2); // room for the share below the lowest dot
  const ys = [...low, ...dots.map((dot) => dot.flops), ...devices.map((device) => device.peak_flops).filter(Boolean)];
  return { x: logRange(xs, 1.6), y: logRange(ys, 2.2) };
}

/** 312 TFLOP/s, 21.0 GFLOP/s. */
export function flopsText(flops) {
  return flops >= 1e12 ? `${number3(flops / 1e12)}\u2009TFLOP/s` : `${number3(flops / 1e9)}\u2009GFLOP/s`;
}

/** A share of the peak: 0.6 %, 19 %, never rounded up to 100. */
export function peakShare(share) {
  if (share === null) return "n/a";
  const percent = share * 100;
  if (percent >= 10) return `${percent > 99 && percent < 100 ? 99 : fixed(percent)}\u2009%`;
  return `${percent >= 0.1 ? fixed(percent, 1) : number3(percent)}\u2009%`;
}
