// What a throughput curve comes to under a limit: the sweet spot and the front. widgets/curve_model.py
// computes the same; here it follows a limit that is being dragged. Both read tests/golden/curve.json.

import { plain } from "../shared/format.js";

/** Whether a point keeps the limit (null: there is none). */
export function meets(point, slo) {
  return slo === null || point.ms <= slo;
}

/** {point, atEnd} of the most throughput within the limit, null if none keeps it. */
export function sweetSpot(line, slo) {
  let best = null;
  for (const point of line.points) {
    if (meets(point, slo) && (!best || point.tok_s > best.tok_s)) best = point;
  }
  return best && { point: best, atEnd: best === line.points[line.points.length - 1] };
}

/** The points that no other beats in both, by rising ms: [[line, point]]. */
export function front(lines) {
  const all = lines.flatMap((line) => line.points.map((point) => [line, point]));
  all.sort(([, a], [, b]) => a.ms - b.ms || b.tok_s - a.tok_s);
  let most = 0;
  return all.filter(([, point]) => {
    if (point.tok_s <= most) return false;
    most = point.tok_s;
    return true;
  });
}

/** What the first point of a walk is called: one user, or its load. */
export function pointName(line, point) {
  return point.load === 1 && line.load_name !== "rate" ? "1 user" : plain(point.load);
}
