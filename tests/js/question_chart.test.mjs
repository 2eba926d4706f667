// The chart of a Predict: positions, values, words.

import assert from "node:assert/strict";
import { test } from "node:test";

import { axisText, chartScales, stepOf, valueAt } from "../../widgets/static/questions/chart.js";

const chart = { x: { label: "ms", low: 5, high: 100, log: true, unit: "ms" }, y: { label: "tok/s", low: 0, high: 1000, log: false, unit: "" } };

test("a position and its value are each other's", () => {
  const { x, y } = chartScales(chart);
  for (const scale of [x, y]) {
    assert.equal(Math.abs(stepOf(scale, scale.low)), 0);
    assert.equal(stepOf(scale, scale.high), 200);
    for (const step of [1, 50, 133, 199]) assert.ok(Math.abs(stepOf(scale, valueAt(scale, step)) - step) <= 1);
  }
  assert.equal(valueAt(x, 100), 22.4);
  assert.equal(valueAt(y, 100), 500);
});

test("nothing is placed off the chart", () => {
  const { x, y } = chartScales(chart);
  assert.equal(valueAt(x, -40), 5);
  assert.equal(valueAt(x, 1e6), 100);
  assert.equal(valueAt(y, 240), 1000);
});

test("a value in words", () => {
  assert.equal(axisText(chart.x, 23.81), "23.8\u202fms");
  assert.equal(axisText(chart.y, 5380), "5,380");
});
