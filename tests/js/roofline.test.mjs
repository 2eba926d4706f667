// The roofline's pure parts, on content that Python wrote.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { flopsText, peakShare, ridgeOf, roofPanels, roofRanges } from "../../widgets/static/roofline/layout.js";

const golden = JSON.parse(readFileSync(new URL("../golden/roofline.json", import.meta.url), "utf8"));
const near = (a, b) => Math.abs(a - b) <= 1e-9 * Math.abs(b);

test("ridges, axes and figures are Python's", () => {
  const { devices } = golden.data;
  for (const device of devices) {
    const ridge = golden.ridges[device.key];
    assert.ok(ridge === null ? ridgeOf(device) === null : near(ridgeOf(device), ridge));
  }
  const { x, y } = roofRanges(devices);
  assert.ok([...x, ...y].every((end, i) => near(end, [...golden.ranges.x, ...golden.ranges.y][i])));
  const dots = devices.flatMap((device) => device.dots.map((dot) => [device, dot]));
  assert.deepEqual(dots.map(([, dot]) => flopsText(dot.flops)), golden.flops);
  assert.deepEqual(dots.map(([device, dot]) => peakShare(device.peak_flops ? dot.flops / device.peak_flops : null)), golden.shares);
});

test("panels stand beside each other where there is room", () => {
  assert.equal(roofPanels(4, 1200).columns, 4);
  assert.equal(roofPanels(4, 640).columns, 2);
  assert.equal(roofPanels(4, 400).columns, 1);
  for (const width of [400, 640, 1200]) {
    const { panels, height } = roofPanels(4, width);
    for (const panel of panels) {
      assert.ok(panel.left + panel.wide <= width, `${width}`);
      assert.ok(panel.top < height);
    }
  }
  assert.equal(roofPanels(0, 800).panels.length, 0);
});
