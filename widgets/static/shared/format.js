// Figures as text: 3 significant digits, a comma for thousands, thin gaps before units.
// widgets/numbers.py writes the same; both are held to tests/golden/numbers.json.

const GAP = "\u2009";

/** So many decimals, a comma for thousands: 1,234.50. */
export function fixed(value, decimals = 0) {
  const rounded = Number(value.toFixed(decimals)) + 0; // toFixed rounds the exact value; no −0
  return rounded.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/** Three significant digits: 12,300, 12.4, 1.00, 0.05; n/a for what is no number. */
export function number3(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "n/a";
  if (value === 0) return "0";
  const rounded = Number(value.toPrecision(3));
  const most = Math.min(20, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(rounded)) + 1e-12)));
  const least = Math.abs(rounded) >= 1 ? most : 0;
  return rounded.toLocaleString("en-US", { minimumFractionDigits: least, maximumFractionDigits: most });
}

/** A setting as it was given, four digits at most: 1,024, 2.5, 0.05. */
export function plain(value) {
  if (Number.isInteger(value)) return whole(value);
  return Number(value.toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 20 });
}

/** Seconds as text: 1.37 s, 824 ms, 14.8 ms; `inMs`: whole milliseconds up to 10 s (TTFT). */
export function duration(seconds, inMs = false) {
  if (seconds === null || seconds === undefined) return "n/a";
  const ms = seconds * 1000;
  if (inMs && ms < 10000) return `${fixed(ms)}${GAP}ms`;
  if (ms < 99.95) return `${fixed(ms, 1)}${GAP}ms`;
  return ms < 999.5 ? `${fixed(ms)}${GAP}ms` : `${number3(seconds)}${GAP}s`;
}

/** A share as a whole percentage that never rounds up to 100. */
export function percent(share) {
  if (share === null || share === undefined) return "n/a";
  const text = fixed(share * 100);
  return `${text === "100" && share < 1 ? "99" : text}${GAP}%`;
}

/** A whole number with commas. */
export function whole(n) {
  return n.toLocaleString("en-US");
}

/** "1 step", "2 steps". */
export function count(n, one, many = `${one}s`) {
  return `${whole(n)} ${n === 1 ? one : many}`;
}

/** Decimals that a multiple of `step` needs, four at most: 0.25 needs 2, 5 none. */
export function stepDigits(step) {
  for (let n = 0; n < 4; n++) {
    if (Math.abs(step * 10 ** n - Math.round(step * 10 ** n)) < 1e-9 * 10 ** n) return n;
  }
  return 4;
}
