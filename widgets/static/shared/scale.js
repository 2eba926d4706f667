// Scales of charts: values ↔ pixels, linear or logarithmic, and round ticks. widgets/axes.py has the same.

import { ticks } from "./axis.js";
import { fixed } from "./format.js";

/** Values low…high ↔ pixels start…end, linear or logarithmic. */
export function plotScale(low, high, start, end, log = false) {
  const of = log ? (value) => Math.log(Math.max(value, low * 1e-6)) : (value) => value;
  const factor = (end - start) / (of(high) - of(low));
  const back = log ? Math.exp : (value) => value;
  return {
    low, high, start, end, log,
    at: (value) => start + (of(value) - of(low)) * factor,
    value: (px) => back(of(low) + (px - start) / factor),
  };
}

const DIGITS = [1, 2, 3, 4, 5, 6, 7, 8, 9];

/**
 * Powers of 10; 1, 2 and 5 of each where the axis spans less than 2.2 decades; round steps where
 * that gives fewer than three.
 */
export function logTicks(low, high) {
  const few = ofDecades(low, high, Math.log10(high / low) < 2.2 ? [1, 2, 5] : [1]);
  return few.length > 2 ? few : ticks(low, high, 400, 100).map(({ t }) => t);
}

/** 1 to 9 of each decade, without those that have a label. */
export function minorTicks(low, high) {
  const labelled = new Set(logTicks(low, high));
  return ofDecades(low, high, DIGITS).filter((value) => !labelled.has(value));
}

function ofDecades(low, high, factors) {
  const found = [];
  const first = Math.floor(Math.log10(low) - 1e-9);
  for (let power = first; power <= Math.ceil(Math.log10(high)); power++) {
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) found.push(value);
    }
  }
  return found;
}

/** A log axis' ends around the values above 0, a factor `margin` wider, at least 1/3 decade. */
export function logRange(values, margin = 1.15) {
  const known = values.filter((value) => value > 0 && Number.isFinite(value));
  if (!known.length) return [1, 10];
  const [low, high] = [Math.min(...known) / margin, Math.max(...known) * margin];
  if (high / low >= 2) return [low, high];
  const middle = Math.sqrt(low * high);
  return [middle / Math.SQRT2, middle * Math.SQRT2];
}

/** Ticks of a plot's scale as [{value, label}]. */
export function plotTicks(scale, apart = 84) {
  if (scale.log) return logTicks(scale.low, scale.high).map((value) => ({ value, label: tickLabel(value) }));
  const pixels = Math.abs(scale.end - scale.start);
  return ticks(scale.low, scale.high, pixels, apart).map(({ t, label }) => (
    { value: t, label: t === 0 ? "0" : fixed(t, (label.split(".")[1] ?? "").length) }
  ));
}

/** A tick's text: 0.01, 5, 1,000. */
export function tickLabel(value) {
  if (value >= 100) return fixed(value);
  return value.toLocaleString("en-US", { maximumSignificantDigits: 6 });
}
