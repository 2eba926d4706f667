// The strip chart's pure parts, on bytes that Python wrote (tests/golden/strips.bin, strips.json).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { decodeStrips } from "../../widgets/static/strips/decode.js";
import { StripGroup, stripValue } from "../../widgets/static/strips/group.js";

const golden = (name) => readFileSync(new URL(`../golden/${name}`, import.meta.url));
const bytes = () => new Uint8Array(golden("strips.bin"));
const { message, frame: expected, strips } = JSON.parse(golden("strips.json"));

/** A frame as Python would write it: samples [t, value …]. */
function encode(first, samples, { kind = 1, stream = expected.stream, group = 0 } = {}) {
  const series = samples[0]?.length - 1 || 9;
  const view = new DataView(new ArrayBuffer(24 + samples.length * (8 + 4 * series)));
  [..."MLS1"].forEach((c, i) => view.setUint8(i, c.charCodeAt(0)));
  view.setUint8(4, 1);
  view.setUint8(5, kind);
  view.setUint16(6, series, true);
  [stream, first, samples.length, group].forEach((value, i) => view.setUint32(8 + 4 * i, value, true));
  samples.forEach(([t, ...values], i) => {
    const at = 24 + i * (8 + 4 * series);
    view.setFloat64(at, t, true);
    values.forEach((value, k) => view.setFloat32(at + 8 + 4 * k, value, true));
  });
  return view;
}

function group() {
  const made = new StripGroup();
  assert.equal(made.apply(message, bytes()), "ok");
  return made;
}

const next = (count) => ({ ...message, next_step: count });

test("a frame is what Python wrote", () => {
  const frame = decodeStrips(bytes());
  assert.deepEqual([frame.kind, frame.group, frame.stream, frame.first], [expected.kind, expected.group, expected.stream, expected.first]);
  assert.deepEqual(frame.t, expected.samples.map(([t]) => t));
  expected.samples.forEach(([, values], i) => assert.deepEqual(frame.columns.map((column) => column[i]), values));
});

test("what is no frame is refused", () => {
  assert.throws(() => decodeStrips(new Uint8Array(3)), /too short/);
  assert.throws(() => decodeStrips(golden("frame.bin")), /not a strip frame/);
  assert.throws(() => decodeStrips(bytes().slice(0, -1)), /came with/);
});

test("a value holds from the sample before to its own", () => {
  const made = group();
  const column = strips.find((strip) => strip.key === "running").index;
  const times = made.t.map((t) => t - made.origin);
  times.forEach((t, i) => {
    assert.equal(made.at(t), i, `at the end of sample ${i}`);
    if (i) assert.equal(made.at((times[i - 1] + t) / 2), i);
  });
  assert.equal(made.at(times.at(-1) + 9), -1);
  assert.equal(made.value(made.at(times[1]), column), expected.samples[1][1][column]);
});

test("deltas follow, what is known is not taken twice, a gap is seen", () => {
  const made = group();
  const count = made.nextStep;
  const sample = (t) => [t, 1, 0, 5, 4, 50, 1e9, NaN, NaN, NaN];
  assert.equal(made.apply(next(count + 2), encode(count, [sample(3), sample(4)])), "ok");
  assert.equal(made.apply(next(count + 2), encode(count, [sample(3), sample(4)])), "same");
  assert.equal(made.t.length, count + 2);
  assert.equal(made.value(count + 1, 6), null);
  assert.equal(made.apply(next(count + 9), encode(count + 8, [sample(9)])), "gap");
  assert.equal(made.apply(next(count + 2), encode(count + 2, [], { stream: 5 })), "gap");
  assert.equal(made.apply(next(1), encode(0, [sample(1)], { stream: 5, kind: 0 })), "ok");
  assert.equal(made.t.length, 1);
});

test("a long run is kept within bounds", () => {
  const made = group();
  for (let part = 0; part < 40; part++) {
    const first = made.nextStep;
    const samples = Array.from({ length: 500 }, (_, i) => [3 + (first + i) * 0.1, 1, 0, 5, 4, 50, 1e9, 0, 0, 0]);
    made.apply(next(first + 500), encode(first, samples));
  }
  assert.ok(made.t.length < 15_000, String(made.t.length));
  assert.equal(made.columns[0].length, made.t.length);
  const [first, last] = made.range(1900, 1910);
  assert.ok(last - first < 120 && made.t[last] - made.origin >= 1909.9);
});

test("figures have the unit that fits", () => {
  const shown = (value, unit) => stripValue(value, unit);
  assert.equal(shown(98.2, "%"), "98\u2009%");
  assert.equal(shown(99.7, "%"), "99\u2009%");
  assert.equal(shown(11.4e9, "B/s"), "11.4\u2009GB/s");
  assert.equal(shown(742e6, "B"), "742\u2009MB");
  assert.equal(shown(512, "W"), "512\u2009W");
  assert.equal(shown(null, "W"), "n/a");
});
