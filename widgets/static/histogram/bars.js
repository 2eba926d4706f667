// From the kernel's fine logarithmic bins to the bars of an axis. widgets/distribution.py does the
// same; both read tests/golden/histogram.json.

import { niceLimit } from "../shared/axis.js";
import { logRange } from "../shared/scale.js";

const CLIP = 1.6; // a linear axis ends at this many times the p99, and says what lies beyond

/** The low end of a fine bin, in seconds. */
export function binEdge(index, perDecade) {
  return 10 ** (index / perDecade);
}

/** Counts between neighbouring edges (seconds, ascending); a bin is spread over its width. */
export function barCounts(bins, edges, perDecade) {
  const counts = new Array(edges.length - 1).fill(0);
  let bar = 0;
  for (const [index, count] of bins) {
    const [low, high] = [binEdge(index, perDecade), binEdge(index + 1, perDecade)];
    while (bar < counts.length - 1 && edges[bar + 1] <= low) bar++;
    for (let k = bar; k < counts.length && edges[k] < high; k++) {
      const inside = Math.min(high, edges[k + 1]) - Math.max(low, edges[k]);
      if (inside > 0) counts[k] += (count * inside) / (high - low);
    }
  }
  return counts;
}

/** The ends of `count` bars from low to high. */
export function barEdges(low, high, log, count) {
  return Array.from({ length: count + 1 }, (_, i) => (
    log ? low * (high / low) ** (i / count) : low + ((high - low) * i) / count
  ));
}

/** [low, high] seconds of a metric's axis, shared by the runs; null when there is no value. */
export function axisSpan(lanes, name, limit, log, perDecade) {
  const found = lanes.map((lane) => lane.metrics[name]).filter((figures) => figures.n);
  if (!found.length) return null;
  if (log) {
    const ends = found.flatMap(({ bins }) => bins.map(([index]) => binEdge(index, perDecade)));
    return logRange([...ends, limit ?? 0], 1.1);
  }
  const most = Math.max(...found.map((figures) => figures.most));
  const p99 = Math.max(...found.map((figures) => figures.p99));
  return [0, niceLimit(Math.min(most, Math.max(p99 * CLIP, (limit ?? 0) * 1.15)))];
}

/** A share as a percentage that is never rounded up: 99.9 %, 85 %. */
export function flooredShare(share) {
  if (share === null || share === undefined) return "n/a";
  const percent = Math.floor(share * 1000 + 1e-9) / 10;
  return `${percent >= 99 && percent !== 100 ? percent : Math.floor(percent)}\u2009%`;
}
