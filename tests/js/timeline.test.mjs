// The timeline's pure parts, on bytes that Python wrote (tests/golden/frame.bin, frame.json).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { lastAtOrBefore, ticks, timeScale } from "../../widgets/static/shared/axis.js";
import { cardSentence, placeCard } from "../../widgets/static/shared/card.js";
import { duration, number3, percent } from "../../widgets/static/shared/format.js";
import { cardContent, stepContent } from "../../widgets/static/timeline/card.js";
import { DEAD, DECODE, PREFILL, decodeFrame } from "../../widgets/static/shared/decode.js";
import {
  autoWindow, hit, layout, rowPitch, shiftWindow, zoomWindow,
} from "../../widgets/static/timeline/layout.js";
import { readerIn, stalls, usefulAt, usualStep, wastedRows } from "../../widgets/static/timeline/stalls.js";
import { LaneModel, chooseRows } from "../../widgets/static/shared/lane.js";
import { luminance } from "../../widgets/static/shared/theme.js";

const golden = (name) => new URL(`../golden/${name}`, import.meta.url);
const bytes = () => new Uint8Array(readFileSync(golden("frame.bin")));
const { message, frame: expected } = JSON.parse(readFileSync(golden("frame.json"), "utf8"));

function lane() {
  const model = new LaneModel();
  assert.equal(model.apply(message, bytes()), "ok");
  return model;
}

/** A frame as Python would write it: steps [t0, t1], rows [step, req, tokens, padding, kind, flags]. */
function encode({ kind = 1, stream = message.stream, first, steps, rows = [] }) {
  const view = new DataView(new ArrayBuffer(24 + steps.length * 24 + rows.length * 16));
  [..."MLF1"].forEach((c, i) => view.setUint8(i, c.charCodeAt(0)));
  view.setUint8(4, 1);
  view.setUint8(5, kind);
  [stream, first, steps.length, rows.length].forEach((value, i) => view.setUint32(8 + 4 * i, value, true));
  steps.forEach(([t0, t1], i) => {
    view.setFloat64(24 + 24 * i, t0, true);
    view.setFloat64(32 + 24 * i, t1, true);
  });
  rows.forEach(([step, req, tokens, padding, rowKind, flags], i) => {
    const at = 24 + steps.length * 24 + i * 16;
    view.setUint32(at, step, true);
    view.setUint32(at + 4, req, true);
    view.setUint16(at + 8, tokens, true);
    view.setUint16(at + 10, padding, true);
    view.setUint8(at + 12, rowKind);
    view.setUint8(at + 13, flags);
  });
  return view;
}

function delta(first, count, more = {}) {
  const steps = Array.from({ length: count }, (_, i) => [10 + first + i, 11 + first + i]);
  const rows = steps.map((_, i) => [first + i, 1, 1, 0, DECODE, 1]);
  const text = {
    ...message, kind: "delta", header: undefined, requests: {}, events: [], next_step: first + count,
    first_event: message.next_event, ...more,
  };
  return [text, encode({ first, steps, rows })];
}

test("the golden frame decodes to what Python put in", () => {
  const frame = decodeFrame(bytes());
  assert.equal(frame.kind, expected.kind);
  assert.equal(frame.streamId, expected.stream_id);
  assert.equal(frame.firstStep, expected.first_step);
  const steps = frame.steps.map((s) => [s.t0, s.t1, s.waiting, s.running, s.kvUsed]);
  assert.deepEqual(steps, expected.steps);
  const rows = frame.rows.map((r) => [r.step, r.req, r.tokens, r.padding, r.kind, r.flags]);
  assert.deepEqual(rows, expected.rows);
});

test("a frame may lie anywhere in its buffer", () => {
  const data = bytes();
  const shifted = new Uint8Array(data.length + 7);
  shifted.set(data, 5);
  const view = new DataView(shifted.buffer, 5, data.length);
  assert.deepEqual(decodeFrame(view), decodeFrame(data));
  assert.deepEqual(decodeFrame(data.buffer.slice(0, data.length)), decodeFrame(data));
});

test("what is no frame is refused", () => {
  const data = bytes();
  assert.throws(() => decodeFrame(data.subarray(0, 20)), /too short/);
  assert.throws(() => decodeFrame(data.subarray(0, data.length - 1)), /came with 327/);
  data[4] = 2;
  assert.throws(() => decodeFrame(data), /not a frame/);
});

test("the model keeps steps, segments and events of the golden run", () => {
  const model = lane();
  assert.equal(model.stepCount, 6);
  assert.equal(model.origin, 0.5);
  assert.deepEqual(model.t0, [0.5, 0.625, 0.75, 1, 1.25, 1.5]);
  const kinds = (req) => model.requests.get(req).segments.map((s) => [s.kind, s.first, s.last]);
  assert.deepEqual(kinds(0), [[PREFILL, 0, 0], [DECODE, 1, 2], [DEAD, 3, 4]]);
  assert.deepEqual(kinds(1), [[PREFILL, 0, 0], [DECODE, 1, 1], [PREFILL, 3, 3], [PREFILL, 4, 4], [DECODE, 5, 5]]);
  const one = model.requests.get(1);
  assert.deepEqual(one.segments.map((s) => s.recompute), [false, false, true, true, false]);
  assert.deepEqual(one.preempts, [{ t: 0.75, lost: 21, cached: 16 }]);
  assert.equal(one.end, 1.625);
  assert.equal(one.nickname, "Ada");
  assert.ok(Math.abs(model.useful[0] - (1 + 2 / 3)) < 1e-12);
  assert.ok(Math.abs(model.padded[0] - 1 / 3) < 1e-12);
  assert.deepEqual([model.useful[3], model.padded[3]], [1, 1]);
  assert.equal(model.maxRows, 2);
});

test("tokens are counted as they are sampled", () => {
  const model = lane();
  const counts = (req) => [0, 1, 2, 3, 4, 5].map((step) => model.tokensAfter(model.requests.get(req), step));
  assert.deepEqual(counts(0), [1, 2, 3, 3, 3, 3]);
  assert.deepEqual(counts(1), [1, 2, 2, 2, 3, 4]);
});

test("steps are found by time and by number", () => {
  const model = lane();
  assert.equal(model.stepAt(0.4), null);
  assert.equal(model.stepAt(0.5), 0);
  assert.equal(model.stepAt(0.9), 2);
  assert.equal(model.stepAt(99), 5);
  assert.equal(model.step(3).rows, 2);
  assert.equal(model.step(6), null);
  assert.equal(model.step(null), null);
  assert.equal(model.stepsBetween(0.55, 0.75), 2);
  assert.equal(model.stepsBetween(0, 0.5), 0);
  assert.equal(lastAtOrBefore([], 1), -1);
});

test("a row keeps its slot while it runs; who comes takes the lowest free one", () => {
  const model = lane();
  const slots = (req) => model.requests.get(req).segments.map((s) => s.slot);
  assert.deepEqual(slots(0), [0, 0, 0]);
  assert.deepEqual(slots(1), [1, 1, 1, 1, 1]);
  model.apply(...delta(6, 1));
  model.apply({ ...delta(7, 1)[0], next_step: 8 }, encode({
    first: 7, steps: [[20, 21]], rows: [[7, 5, 3, 0, PREFILL, 1], [7, 1, 1, 0, DECODE, 1]],
  }));
  assert.equal(model.requests.get(5).segments[0].slot, 0);
  assert.equal(model.slots.size, 2);
});

test("deltas extend, duplicates change nothing, gaps are noticed", () => {
  const model = lane();
  assert.equal(model.apply(message, bytes()), "ok"); // a snapshot again
  assert.equal(model.stepCount, 6);
  assert.equal(model.apply(...delta(6, 3)), "ok");
  assert.equal(model.apply(...delta(6, 3)), "same");
  assert.equal(model.apply(...delta(8, 2)), "ok"); // overlaps by one
  assert.equal(model.nextStep, 10);
  assert.equal(model.apply(...delta(11, 1)), "gap");
  assert.equal(model.stepCount, 10);
  const run = model.requests.get(1).segments;
  assert.deepEqual([run[run.length - 1].first, run[run.length - 1].last], [5, 9]);
});

test("a heartbeat tells of steps that were missed", () => {
  const model = lane();
  const beat = [{ ...message, kind: "heartbeat", requests: {}, events: [], first_event: message.next_event }, encode({ kind: 2, first: 6, steps: [] })];
  assert.equal(model.apply(...beat), "same");
  beat[1] = encode({ kind: 2, first: 9, steps: [] });
  assert.equal(model.apply(...beat), "gap");
});

test("missing events are a gap too", () => {
  const model = lane();
  const [text, data] = delta(6, 1);
  assert.equal(model.apply({ ...text, first_event: message.next_event + 2 }, data), "gap");
});

test("another run is taken with its snapshot only", () => {
  const model = lane();
  const [text, data] = delta(6, 1);
  const other = new DataView(data.buffer.slice(0));
  other.setUint32(8, 77, true);
  assert.equal(model.apply(text, other), "gap");
  assert.equal(model.stepCount, 6);
  const fresh = { ...message, events: [], requests: {}, first_event: 0, next_event: 0, next_step: 2, origin: 0 };
  assert.equal(model.apply(fresh, encode({ kind: 0, stream: 77, first: 0, steps: [[0, 1], [1, 2]] })), "ok");
  assert.equal(model.stepCount, 2);
  assert.equal(model.requests.size, 0);
});

test("a run that never ends is forgotten from the front", () => {
  const model = lane();
  for (let first = 6; first < 20006; first += 500) model.apply(...delta(first, 500));
  assert.ok(model.stepCount <= 8192 * 1.25);
  assert.equal(model.nextStep, 20006);
  assert.equal(model.base + model.stepCount, model.nextStep);
  assert.ok(!model.requests.has(0)); // it ended long ago
  assert.equal(model.tokensAfter(model.requests.get(1), 20005), 4 + 20000);
});

test("any cut of a run into messages gives the same model", () => {
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  for (let round = 0; round < 50; round++) {
    const model = lane();
    let next = 6;
    while (next < 60) {
      const first = Math.max(6, next - random(3));
      const count = random(6) + 1;
      model.apply(...delta(first, count));
      next = Math.max(next, first + count);
    }
    assert.equal(model.stepCount, next);
    assert.equal(model.requests.get(1).tokens, 4 + next - 6);
    assert.equal(model.rowCount.slice(6).every((n) => n === 1), true);
  }
});

test("rows: all requests, of too many those in the window, of still more the newest", () => {
  const crowd = { requests: new Map() };
  for (let idx = 0; idx < 50; idx++) {
    crowd.requests.set(idx, { idx, arrive: idx, end: idx + 2, segments: [{ t0: idx + 1, t1: idx + 2 }] });
  }
  crowd.requests.set(50, { idx: 50, arrive: 3, segments: [] }); // still queued
  const names = (...args) => chooseRows([crowd, lane()], ...args);
  assert.equal(names([0, 99], 60).length, 51);
  assert.equal(names([0, 1], 80, 70).length, 70);
  assert.deepEqual(names([10, 12], 20), [8, 9, 10, 11, 12, 50]);
  assert.deepEqual(names([0, 99], 4), [47, 48, 49, 50]);
  // A long queue does not hide those who run: a quarter of the rows is for who comes next.
  for (let idx = 51; idx < 90; idx++) crowd.requests.set(idx, { idx, arrive: 60, segments: [] });
  assert.deepEqual(names([0, 99], 8), [44, 45, 46, 47, 48, 49, 50, 51]);
});

test("layout: wide, narrow, many rows", () => {
  const wide = layout({ width: 1200, panels: [{ lane: 0, rows: 14 }, { lane: 1, rows: 14 }] });
  assert.equal(wide.panels[0].pitch, 15.5);
  assert.equal(wide.figuresX, wide.x1 + 16);
  assert.ok(wide.panels[1].top > wide.panels[0].stripBottom);
  const narrow = layout({ width: 640, panels: [{ lane: 0, rows: 14 }] });
  assert.equal(narrow.figuresX, null);
  assert.equal(narrow.x1, 632);
  assert.equal(rowPitch(41, null), 6);
  assert.ok(rowPitch(256, null) * 256 <= 521);
  assert.equal(rowPitch(10, 100), 10);
  assert.ok(layout({ width: 70, panels: [{ lane: 0, rows: 1 }] }).x1 > 34);
});

test("hit finds rows, strips and the axis", () => {
  const g = layout({ width: 1200, panels: [{ lane: 0, rows: 4 }, { lane: 1, rows: 4 }] });
  const at = (y, x = 400) => hit(g, x, y);
  assert.deepEqual(at(g.panels[0].top + 20), { panel: g.panels[0], index: 1 });
  assert.deepEqual(at(g.panels[1].stripBottom - 2), { panel: g.panels[1], index: -1 });
  assert.deepEqual(at(g.axisY + 5), { axis: true });
  assert.equal(at(2), null);
});

test("time scale, ticks and windows", () => {
  const scale = timeScale(1, 3, 100, 300);
  assert.equal(scale.x(2), 200);
  assert.equal(scale.t(250), 2.5);
  assert.deepEqual(ticks(0, 2.5, 1000).map((t) => t.label), ["0", "0.25", "0.50", "0.75", "1.00", "1.25", "1.50", "1.75", "2.00", "2.25", "2.50"]);
  assert.ok(Object.is(ticks(0, 30, 100)[0].t, 0), "0, and not -0");
  assert.deepEqual(ticks(0.4, 1.1, 300).map((t) => t.label), ["0.4", "0.6", "0.8", "1.0"]);
  assert.deepEqual(autoWindow([2, 1], false), [0, 2.12]);
  const [, early] = autoWindow([0.1], true);
  assert.equal(early, 0.5);
  const [v0, v1] = autoWindow([200], true, 60);
  assert.equal(v1 - v0, 60);
  assert.ok(v1 >= 200 && v1 < 210);
  assert.deepEqual(zoomWindow([0, 10], 5, 0.5, 10), [2.5, 7.5]);
  assert.deepEqual(zoomWindow([2, 4], 3, 100, 10), [0, 10]);
  assert.deepEqual(shiftWindow([2, 4], 50, 10), [8, 10]);
  assert.deepEqual(shiftWindow([2, 4], -50, 10), [0, 2]);
});

test("figures as text", () => {
  assert.deepEqual([null, 0, 0.0372, 1.374, 15.1, 151.4, 12345].map(number3), ["n/a", "0", "0.0372", "1.37", "15.1", "151", "12,300"]);
  assert.deepEqual([null, 0.624, 0.9999, 1].map(percent), ["n/a", "62\u2009%", "99\u2009%", "100\u2009%"]);
  assert.equal(duration(0.0148), "14.8\u2009ms");
  assert.equal(duration(1.188, true), "1,188\u2009ms");
  assert.equal(duration(1.374), "1.37\u2009s");
  assert.equal(duration(undefined), "n/a");
});

test("the card says what a request did in a step", () => {
  const model = lane();
  const other = { title: "Continuous", lane: lane() };
  other.lane.requests.get(1).firstToken = 0.3;
  const at = (req, step) => cardContent(model, model.requests.get(req), model.step(step), other);
  const decoding = at(1, 1);
  assert.equal(decoding.state, "step 1 · decoding");
  assert.deepEqual(decoding.lines[0], ["Tokens so far", "2 of ≤ 9"]);
  assert.deepEqual(decoding.lines[1], ["Waited in queue", "250\u2009ms (0 steps)"]);
  assert.deepEqual(decoding.lines[2], ["TTFT", "375\u2009ms", "continuous: 50\u2009ms"]);
  assert.deepEqual(decoding.lines[3], ["In this step", "2 rows, 125\u2009ms"]);
  assert.equal(at(1, 0).lines[1][1], "20 of 20 tokens + 10 padding");
  assert.equal(at(1, 2).state, "step 2 · preempted, queued again");
  assert.equal(at(1, 3).state, "step 3 · reading its tokens again");
  assert.equal(at(0, 3).state, "step 3 · finished, thrown away");
  assert.equal(at(0, 5).state, "step 5 · finished (length)");
  assert.match(cardSentence(decoding), /^Request B, step 1 · decoding\. Tokens so far: 2 of ≤ 9\./);
  assert.deepEqual(stepContent(model, model.step(3)).lines[0], ["Rows", "2, 1 useful"]);
});

test("the card stands beside the cursor, off the data where there is room, inside the figure", () => {
  const bounds = { left: 0, right: 1000, top: 0, bottom: 400 };
  const size = { width: 250, height: 120, bounds };
  const free = placeCard({ x: 300, y: 200, ...size });
  assert.equal(free.side, "left");
  assert.ok(free.left >= 322 && free.left < 340);
  const busy = placeCard({ x: 300, y: 200, ...size, taken: [[0, 0, 600, 400]] });
  assert.ok(busy.left >= 600);
  const edge = placeCard({ x: 990, y: 395, ...size });
  assert.equal(edge.side, "right");
  assert.ok(edge.left + 250 <= 990 && edge.top + 120 <= 400);
});

test("lightness of colours decides the theme", () => {
  assert.equal(luminance("#fff"), 1);
  assert.equal(luminance("white"), 1);
  assert.ok(luminance("rgb(16, 20, 25)") < 0.05);
  assert.ok(luminance(" #111111 ") < 0.05);
  assert.equal(luminance("var(--x)"), null);
  assert.equal(luminance(""), null);
});

test("a stall is a step in which others wait three times as long as usual for a prompt", () => {
  const model = new LaneModel();
  const steps = Array.from({ length: 12 }, (_, i) => [i, i + 1]);
  steps[6] = [6, 6.9];
  const rows = steps.flatMap((_, i) => [[i, 0, 1, 0, DECODE, 1], [i, 1, 1, 0, DECODE, 1]]);
  const prompt = (step, tokens) => [step, 2, tokens, 0, PREFILL, 0];
  const long = steps.map(([t0, t1], i) => (i === 8 ? [t0, t0 + 3.5] : i > 8 ? [t0 + 2.5, t1 + 2.5] : [t0, t1]));
  const withPrompts = [...rows, prompt(4, 10), prompt(8, 900)].sort((a, b) => a[0] - b[0]);
  const text = {
    ...message, kind: "snapshot", origin: 0, now: 14.5, done: true, events: [], first_event: 0, next_event: 0, next_step: 12,
    requests: { 2: ["r2", "P", ""] },
  };
  assert.equal(model.apply(text, encode({ kind: 0, first: 0, steps: long, rows: withPrompts })), "ok");
  assert.equal(usualStep(model), 1);
  assert.deepEqual(stalls(model).map(({ number, waiting, tokens }) => [number, waiting, tokens]), [[8, 2, 900]]);
  assert.equal(readerIn(model, 8).letter, "P");
  assert.equal(readerIn(model, 5), null);
});

test("what is usual is not guessed from a few steps, and a run without decodes has no stall", () => {
  const model = lane();
  assert.equal(usualStep(model), null);
  assert.deepEqual(stalls(model), []);
});

test("dead rows are counted as wasted, and at the cursor the useful ones", () => {
  const model = lane();
  assert.equal(wastedRows(model.requests.get(0)), 2);
  assert.equal(wastedRows(model.requests.get(1)), 0);
  const step = model.step(3);
  assert.deepEqual(usefulAt(model, (step.t0 + step.t1) / 2), { useful: 1, rows: 2, number: 3 });
  assert.equal(usefulAt(model, -1), null);
});
