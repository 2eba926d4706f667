// Figures, axes' ends and ticks are Python's (tests/golden/numbers.json).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { flooredShare } from "../../widgets/static/histogram/bars.js";
import { axisText } from "../../widgets/static/questions/chart.js";
import { shownNumber } from "../../widgets/static/questions/predict.js";
import { flopsText, peakShare } from "../../widgets/static/roofline/layout.js";
import { niceLimit } from "../../widgets/static/shared/axis.js";
import { duration, fixed, number3, percent, plain, stepDigits } from "../../widgets/static/shared/format.js";
import { logRange, logTicks, minorTicks, plotScale, plotTicks, tickLabel } from "../../widgets/static/shared/scale.js";
import { stripValue } from "../../widgets/static/strips/group.js";

const golden = JSON.parse(readFileSync(new URL("../golden/numbers.json", import.meta.url), "utf8"));
const near = (a, b) => a === b || Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b));
const axis = { unit: "ms" };

const SAME = {
  fixed, number3, plain, percent, seconds: (value) => duration(value), value_text: stripValue,
  share_text: peakShare, floored: flooredShare, flops_text: flopsText, step_digits: stepDigits,
  predicted: shownNumber, axis_text: (value) => axisText(axis, value), tick_label: tickLabel,
};

for (const [name, call] of Object.entries(SAME)) {
  test(`${name} is Python's`, () => {
    assert.ok(golden[name].length > 3);
    for (const row of golden[name]) assert.equal(call(...row.slice(0, -1)), row.at(-1), JSON.stringify(row));
  });
}

test("axes end where Python's end", () => {
  for (const [value, limit] of golden.nice_limit) assert.ok(near(niceLimit(value), limit), `${value}`);
  for (const [values, range] of golden.log_range) assert.ok(logRange(values).every((end, i) => near(end, range[i])), `${values}`);
});

test("ticks are Python's", () => {
  for (const [low, high, pixels, expected] of golden.ticks) {
    const found = plotTicks(plotScale(low, high, 0, pixels), 70);
    assert.deepEqual(found.map(({ label }) => label), expected.map(([, label]) => label), `${low} to ${high} on ${pixels}`);
    assert.ok(found.every(({ value }, i) => near(value, expected[i][0])));
  }
  for (const [low, high, ticks, minor] of golden.log_ticks) {
    assert.ok(logTicks(low, high).every((value, i) => near(value, ticks[i])), `${low} to ${high}`);
    assert.equal(logTicks(low, high).length, ticks.length);
    assert.equal(minorTicks(low, high).length, minor.length, `${low} to ${high}`);
  }
});
