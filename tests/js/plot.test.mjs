// Scales and marks of the plots, and what a curve comes to, on content that Python wrote.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { front, meets, pointName, sweetSpot } from "../../widgets/static/curve/findings.js";
import { Labels } from "../../widgets/static/shared/plot.js";
import { logRange, logTicks, minorTicks, plotScale, plotTicks, tickLabel } from "../../widgets/static/shared/scale.js";
import { csvText } from "../../widgets/static/shared/save.js";

const golden = (name) => JSON.parse(readFileSync(new URL(`../golden/${name}.json`, import.meta.url), "utf8"));

test("a log scale has its decades evenly spaced, and goes back", () => {
  const scale = plotScale(1, 1000, 0, 300, true);
  assert.deepEqual([1, 10, 100, 1000].map((v) => Math.round(scale.at(v))), [0, 100, 200, 300]);
  assert.ok(Math.abs(scale.value(scale.at(37)) - 37) < 1e-9);
  const upside = plotScale(0, 10, 200, 100);
  assert.equal(upside.at(5), 150);
  assert.equal(upside.value(125), 7.5);
});

test("short log axes are labelled 1, 2, 5, long ones by decades", () => {
  assert.deepEqual(logTicks(4.5, 100), [5, 10, 20, 50, 100]);
  assert.deepEqual(minorTicks(4.5, 31), [6, 7, 8, 9, 30]);
  assert.deepEqual(logTicks(0.9, 2000), [1, 10, 100, 1000]);
  assert.equal(tickLabel(10000), "10,000");
  assert.equal(tickLabel(0.01), "0.01");
  assert.deepEqual(plotTicks(plotScale(0, 2000, 0, 400)).map((t) => t.label), ["0", "500", "1,000", "1,500", "2,000"]);
});

test("a log range holds its values and is never too narrow", () => {
  const [low, high] = logRange([10, 10.1]);
  assert.ok(low < 10 && high > 10.1 && high / low >= 2 - 1e-9);
  assert.deepEqual(logRange([0, NaN]), [1, 10]);
});

test("CSV quotes what it must and leaves null empty", () => {
  assert.equal(csvText(["a", "b"], [["x,y", null], ['say "hi"', 1.5]]), 'a,b\n"x,y",\n"say ""hi""",1.5\n');
});

test("labels keep out of each other's way", () => {
  const ctx = { measureText: (s) => ({ width: 6 * s.length }), fillText() {}, strokeText() {} };
  const labels = new Labels(ctx, { bg: "#fff", ink2: "#000" }, [0, 0, 200, 60]);
  const placed = Array.from({ length: 12 }, () => labels.beside("a label", 60, 30, {}));
  const count = placed.filter(Boolean).length;
  assert.ok(count >= 2 && count < 12, String(count));
  labels.taken.forEach((a, i) => labels.taken.slice(0, i).forEach((b) => {
    assert.ok(a[2] <= b[0] || a[0] >= b[2] || a[3] <= b[1] || a[1] >= b[3]);
  }));
});

test("the sweet spot and the front are what Python finds", () => {
  const { data, spots, front: ahead } = golden("curve");
  for (const [limit, expected] of Object.entries(spots)) {
    const slo = limit === "None" ? null : Number(limit);
    for (const line of data.lines) {
      const spot = sweetSpot(line, slo);
      assert.deepEqual(spot && [spot.point.load, spot.atEnd], expected[line.key], `${line.key} at ${limit}`);
    }
  }
  assert.deepEqual(front(data.lines).map(([line, point]) => [line.key, point.load]), ahead);
  assert.ok(meets({ ms: 99 }, null) && !meets({ ms: 31 }, 30));
});

test("loads are named as a reader would", () => {
  assert.equal(pointName({ load_name: "rate" }, { load: 2.5 }), "2.5");
  assert.equal(pointName({ load_name: "batch" }, { load: 1 }), "1 user");
  assert.equal(pointName({ load_name: "rate" }, { load: 1 }), "1");
});
