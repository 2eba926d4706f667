// Bars of a histogram, on content that Python wrote.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { axisSpan, barCounts, barEdges, flooredShare } from "../../widgets/static/histogram/bars.js";

const { data, bars, shares } = JSON.parse(readFileSync(new URL("../golden/histogram.json", import.meta.url), "utf8"));

const near = (a, b) => Math.abs(a - b) <= 1e-6 * Math.max(1, Math.abs(b));

test("axes and bars are what Python makes of them", () => {
  for (const [name, expected] of Object.entries(bars)) {
    const [metric, scale] = name.split("-");
    const limit = data.slo_ms[metric] === undefined ? null : data.slo_ms[metric] / 1000;
    const span = axisSpan(data.lanes, metric, limit, scale === "log", data.per_decade);
    assert.ok(span.every((end, i) => near(end, expected.span[i])), `${name}: ${span}`);
    const edges = barEdges(...span, scale === "log", 20);
    data.lanes.forEach((lane, i) => {
      const counts = barCounts(lane.metrics[metric].bins, edges, data.per_decade);
      assert.ok(counts.every((count, k) => near(count, expected.counts[i][k])), `${name} lane ${i}: ${counts}`);
    });
  }
});

test("an axis without values is none", () => {
  const empty = { metrics: { ttft: { n: 0, bins: [] } } };
  assert.equal(axisSpan([empty], "ttft", 0.5, false, 200), null);
});

test("shares are never rounded up", () => {
  for (const [share, text] of Object.entries(shares)) assert.equal(flooredShare(Number(share)), text);
  assert.equal(flooredShare(null), "n/a");
});
