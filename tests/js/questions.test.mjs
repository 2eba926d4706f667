import assert from "node:assert/strict";
import { test } from "node:test";

import { clockTime, shownNumber } from "../../widgets/static/questions/predict.js";

test("a number has the digits of its step, and a gap before its unit", () => {
  assert.equal(shownNumber(3, 0.1, "×"), "3.0×");
  assert.equal(shownNumber("2.25", 0.05, ""), "2.25");
  assert.equal(shownNumber(0.75, 0.25, "s"), "0.75\u202fs");
  assert.equal(shownNumber(45, 5, "%"), "45\u202f%");
  assert.equal(shownNumber(1500, 100, "ms"), "1,500\u202fms");
});

test("the time of locking has two digits each", () => {
  assert.equal(clockTime(new Date(2026, 0, 1, 9, 5)), "09:05");
  assert.equal(clockTime(new Date(2026, 0, 1, 14, 7)), "14:07");
});
