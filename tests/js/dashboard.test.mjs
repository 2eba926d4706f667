// The dashboard's head: what its banner says, where the keys of its tabs lead.

import assert from "node:assert/strict";
import { test } from "node:test";

import { bannerWords, tabFor } from "../../widgets/static/dashboard/frame.js";

test("a silent kernel is told before what the kernel last said", () => {
  assert.equal(bannerWords("", ""), "");
  assert.equal(bannerWords("", "The engine is gone."), "The engine is gone.");
  const words = bannerWords("14:07:03", "The engine is gone.");
  assert.match(words, /^Stale since 14:07:03: .* Reload the page\.$/);
});

test("arrows, Home and End lead through the tabs and round", () => {
  assert.equal(tabFor("ArrowRight", 4, 5), 0);
  assert.equal(tabFor("ArrowLeft", 0, 5), 4);
  assert.equal(tabFor("ArrowLeft", 3, 5), 2);
  assert.equal(tabFor("Home", 3, 5), 0);
  assert.equal(tabFor("End", 0, 5), 4);
  assert.equal(tabFor("a", 0, 5), null);
});
