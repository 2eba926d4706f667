// Figures as text: 3 significant digits, a comma for thousands, thin gaps before units.

const GAP = "\u2009";

/** A number with three significant digits: 151, 12.4, 0.0372, 12,300. */
export function number3(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "n/a";
  if (value === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  const rounded = Number(value.toPrecision(3));
  return rounded.toLocaleString("en-US", { minimumFractionDigits: Math.min(digits, 4), maximumFractionDigits: Math.min(digits, 4) });
}

/** Seconds as text: 1.37 s, 14.8 ms; `whole`: milliseconds without decimals (TTFT). */
export function duration(seconds, whole = false) {
  if (seconds === null || seconds === undefined) return "n/a";
  const ms = seconds * 1000;
  if (whole && ms < 10000) return `${Math.round(ms).toLocaleString("en-US")}${GAP}ms`;
  if (ms < 1000) return `${ms < 100 ? ms.toFixed(1) : Math.round(ms)}${GAP}ms`;
  return `${number3(seconds)}${GAP}s`;
}

/** A share as a whole percentage that never rounds up to 100. */
export function percent(share) {
  if (share === null || share === undefined) return "n/a";
  const rounded = Math.round(share * 100);
  return `${rounded === 100 && share < 1 ? 99 : rounded}${GAP}%`;
}

/** A whole number with commas. */
export function whole(n) {
  return n.toLocaleString("en-US");
}

/** "1 step", "2 steps". */
export function count(n, one, many = `${one}s`) {
  return `${whole(n)} ${n === 1 ? one : many}`;
}
