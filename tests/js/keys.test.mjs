// Which keys stay in a widget, and which are the page's and the browser's.

import assert from "node:assert/strict";
import { test } from "node:test";

import { keepKeys, leavesWidget } from "../../widgets/static/shared/keys.js";

const key = (name, more = {}) => ({ key: name, ctrlKey: false, altKey: false, metaKey: false, shiftKey: false, ...more });

test("letters, arrows and what figures use stay", () => {
  for (const name of ["a", "b", "d", "m", "y", "1", " ", "+", "ArrowUp", "Home", "Escape", "Enter", "Delete"]) {
    assert.ok(!leavesWidget(key(name)), name);
  }
  assert.ok(!leavesWidget(key("ArrowRight", { shiftKey: true })));
});

test("the browser's shortcuts, Tab and running a cell go on", () => {
  for (const held of ["ctrlKey", "altKey", "metaKey"]) assert.ok(leavesWidget(key("s", { [held]: true })), held);
  for (const name of ["Tab", "F5", "F12"]) assert.ok(leavesWidget(key(name)), name);
  assert.ok(leavesWidget(key("Enter", { shiftKey: true })));
});

test("an element keeps its keys", () => {
  const el = new EventTarget();
  assert.equal(keepKeys(el), el);
  const stopped = (more) => {
    const event = Object.assign(new Event("keydown"), key("a", more));
    let held = false;
    event.stopPropagation = () => { held = true; };
    el.dispatchEvent(event);
    return held;
  };
  assert.equal(stopped({}), true);
  assert.equal(stopped({ ctrlKey: true }), false);
});
