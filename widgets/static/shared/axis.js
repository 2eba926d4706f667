// Axes: times (or anything) ↔ pixels, and round ticks.

/** Times ↔ pixels: v0…v1 seconds over x0…x1. */
export function timeScale(v0, v1, x0, x1) {
  const factor = (x1 - x0) / (v1 - v0);
  return {
    v0, v1, x0, x1, factor,
    x: (t) => x0 + (t - v0) * factor,
    t: (x) => v0 + (x - x0) / factor,
  };
}

/** A round step so that ticks are at least `apart` pixels from each other; shapes.tick_step in Python. */
export function tickStep(span, pixels, apart = 84) {
  const rough = span / Math.max(1, pixels / apart);
  const power = 10 ** Math.floor(Math.log10(rough));
  for (const factor of [1, 2, 2.5, 5, 10]) {
    if (factor * power >= rough * 0.999) return factor * power;
  }
  return 10 * power;
}

/** Ticks of an axis as [{t, label}]: one number of decimals for all. */
export function ticks(v0, v1, pixels, apart = 84) {
  const step = tickStep(v1 - v0, pixels, apart);
  let decimals = Math.max(0, -Math.floor(Math.log10(step)));
  if (Math.abs(step * 10 ** decimals - Math.round(step * 10 ** decimals)) > 1e-6) decimals += 1;
  const out = [];
  for (let i = Math.ceil(v0 / step - 1e-9); i * step <= v1 + step * 1e-6; i++) {
    const t = i * step + 0; // ceil gives -0 for an axis that begins at 0
    out.push({ t, label: i === 0 ? "0" : t.toFixed(decimals) });
  }
  return out;
}

/** The lowest round number (1, 1.5, 2, 3, 4, 5, 6, 8 or 10 × 10ⁿ) that is at least `value`: an axis' end. */
export function niceLimit(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  for (const factor of [1, 1.5, 2, 3, 4, 5, 6, 8]) {
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/** Index of the last value ≤ t in an ascending list, −1 if there is none. */
export function lastAtOrBefore(values, t) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
