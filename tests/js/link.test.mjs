// The shared cursor in the browser: who hears of a move, and when the kernel does.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Link } from "../../widgets/static/shared/link.js";

function fakeModel(name) {
  const calls = {};
  const state = { cursor_name: name };
  return {
    sent: [],
    get: (key) => state[key],
    set(key, value) {
      state[key] = value;
      calls[`change:${key}`]?.forEach((call) => call());
    },
    send(content) { this.sent.push(content); },
    on: (event, call) => (calls[event] ??= new Set()).add(call),
    off: (event, call) => calls[event]?.delete(call),
    emit: (event, ...args) => calls[event]?.forEach((call) => call(...args)),
    count: () => Object.values(calls).reduce((sum, set) => sum + set.size, 0),
  };
}

function linked(name) {
  const model = fakeModel(name);
  const heard = [];
  const link = new Link(model, ({ t, req }, mine) => heard.push([t, req, mine]));
  heard.length = 0;
  return { model, heard, link };
}

test("views of one name point together, others and nameless ones do not", () => {
  const [a, b, other, alone, alone2] = ["s1", "s1", "s2", "", ""].map(linked);
  a.link.point({ t: 0.5 });
  b.link.point({ req: 3 });
  assert.deepEqual(a.heard, [[0.5, null, true], [0.5, 3, false]]);
  assert.deepEqual(b.heard, [[0.5, null, false], [0.5, 3, true]]);
  b.link.point({ req: 3 }); // no change
  assert.equal(b.heard.length, 2);
  alone.link.point({ t: 9 });
  assert.deepEqual([other.heard, alone2.heard], [[], []]);
  assert.deepEqual([alone.link.t, other.link.t], [9, null]);
  for (const each of [a, b, other, alone, alone2]) each.link.destroy();
});

test("a view that comes later, or is named later, takes the place over", () => {
  const a = linked("s3");
  a.link.point({ t: 2, req: 1 });
  const late = linked("s3");
  assert.deepEqual([late.link.t, late.link.req], [2, 1]);
  const unnamed = linked("");
  unnamed.model.set("cursor_name", "s3");
  assert.deepEqual(unnamed.heard, [[2, 1, false]]);
  for (const each of [a, late, unnamed]) each.link.destroy();
});

test("the kernel moves all, and hears of many moves once, the last", async () => {
  const [a, b] = ["s4", "s4"].map(linked);
  a.model.emit("msg:custom", { kind: "cursor", t: 1, req: null });
  assert.deepEqual(b.heard, [[1, null, false]]);
  assert.deepEqual(a.model.sent, []);
  for (let i = 0; i < 50; i++) a.link.point({ t: i });
  a.link.point({ req: 7 });
  await new Promise((done) => setTimeout(done, 50));
  assert.deepEqual(a.model.sent, [{ cursor: { t: 49, req: 7 } }]);
  a.link.point({ t: null });
  assert.equal(a.model.sent.length, 1); // not again within 200 ms
  a.link.destroy();
  b.link.destroy();
});

test("a view that is gone hears nothing and leaves nothing", () => {
  const [a, b] = ["s5", "s5"].map(linked);
  b.link.destroy();
  a.link.point({ t: 1 });
  assert.deepEqual(b.heard, []);
  assert.equal(b.model.count(), 0);
  a.link.destroy();
});

test("while the kernel plays the pointer in passing moves nothing; who points on purpose takes over", async () => {
  const [a, b] = ["s6", "s6"].map(linked);
  a.model.emit("msg:custom", { kind: "cursor", t: 1, req: null, playing: 3 });
  b.link.hover({ t: 9 });
  assert.equal(b.link.t, 1);
  b.link.unhover();
  assert.equal(b.link.t, 1);
  b.link.keep({ t: 1 }); // the same place
  await new Promise((done) => setTimeout(done, 30));
  assert.deepEqual(b.model.sent, [{ cursor: { t: 1, req: null } }]);
  a.model.emit("msg:custom", { kind: "cursor", t: 1.1, req: null, playing: 3 }); // on its way still
  assert.equal(a.link.t, 1);
  b.link.hover({ t: 4 });
  assert.equal(a.link.t, 4);
  a.model.emit("msg:custom", { kind: "cursor", t: 5, req: null, playing: 4 }); // another playback
  assert.equal(a.link.t, 5);
  a.model.emit("msg:custom", { kind: "cursor", t: 6, req: null }); // it has ended
  b.link.hover({ t: 2 });
  assert.equal(a.link.t, 2);
  for (const each of [a, b]) each.link.destroy();
});

test("one view may conduct all", () => {
  const [a, b] = ["s7", "s7"].map(linked);
  const conductor = { toggle() {} };
  a.link.conductor = conductor;
  assert.equal(b.link.conductor, conductor);
  for (const each of [a, b]) each.link.destroy();
});
