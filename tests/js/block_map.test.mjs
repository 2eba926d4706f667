// The block map's pure parts, on bytes that Python wrote (tests/golden/blocks.bin, blocks.json).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { decodeFrame } from "../../widgets/static/shared/decode.js";
import { replayPace } from "../../widgets/static/shared/player.js";
import { blockAt, blockLayout, cellBox, grid } from "../../widgets/static/block_map/layout.js";
import { BlockLane } from "../../widgets/static/block_map/model.js";
import { blockContent } from "../../widgets/static/block_map/view.js";

const golden = (name) => new URL(`../golden/${name}`, import.meta.url);
const bytes = () => new Uint8Array(readFileSync(golden("blocks.bin")));
const expected = JSON.parse(readFileSync(golden("blocks.json"), "utf8"));

function lane() {
  const model = new BlockLane();
  assert.equal(model.apply(expected.message, bytes()), "ok");
  return model;
}

function spelt(state) {
  const object = (map) => Object.fromEntries([...map].sort(([a], [b]) => a - b));
  const ascending = (set) => [...set].sort((a, b) => a - b);
  const owners = state.owners();
  return {
    num_blocks: state.numBlocks, block_size: state.blockSize, tables: object(state.tables),
    computed: object(state.computed), cached: ascending(state.cached), used: state.numUsed,
    free: state.numFree, taken: object(state.taken), hits: object(state.hits),
    evicted: ascending(state.evicted),
    filled: object(new Map([...owners].map(([block, held]) => [block, state.filled(held)]))),
  };
}

test("a frame with blocks decodes to what Python wrote", () => {
  const frame = decodeFrame(bytes());
  assert.deepEqual(frame.steps.map((step) => step.kvCached), expected.cached);
  assert.deepEqual(frame.rows.map((row) => row.start), expected.starts);
  const ops = frame.steps.flatMap((step, i) => step.ops.map(({ op, block, req }) => [frame.firstStep + i, op, block, req]));
  assert.deepEqual(ops, expected.ops);
  for (const cut of [1, 12, 200]) assert.throws(() => decodeFrame(bytes().slice(0, -cut)), /came with/);
});

test("each step's blocks are those of the Python fold, in whatever order they are asked for", () => {
  const model = lane();
  const numbers = expected.states.map((_, i) => model.base + i);
  for (const order of [numbers, [...numbers].reverse(), [5, 1, 9, 9, 2].map((i) => model.base + i)]) {
    for (const number of order) {
      assert.deepEqual(spelt(model.stateAt(number)), expected.states[number - model.base], `step ${number}`);
    }
  }
});

test("a long run is trimmed and still right; the past is kept every 64 steps", () => {
  const model = new BlockLane();
  const whole = lane();
  model.apply(expected.message, bytes());
  model.trim(4);
  assert.equal(model.base, whole.base + 4);
  for (let i = 4; i < expected.states.length; i++) {
    assert.deepEqual(spelt(model.stateAt(whole.base + i)), expected.states[i]);
  }
});

test("the card says whose a block is and how full", () => {
  const model = lane();
  const number = expected.states.findIndex((state) => Object.keys(state.taken).length) + model.base;
  const state = model.stateAt(number);
  const said = (block) => {
    const { state: head, lines } = blockContent(state, block, model);
    return `${head}: ${lines.map((parts) => parts.join(" ").trim()).join("; ")}`;
  };
  const [taken, victim] = [...state.taken][0];
  assert.match(said(taken), new RegExp(`taken back from ${model.requests.get(victim).letter}`));
  const [block, held] = [...state.owners()].find(([, each]) => each.length === 1);
  assert.match(said(block), new RegExp(`^Block ${block} · in use: Held by [A-Z]; Tokens filled ${state.filled(held)} of 4; Holds tokens`));
});

test("blocks lie in rows that fit, and a point finds its block again", () => {
  for (const [width, count] of [[1200, 48], [1200, 128], [600, 48], [360, 300], [1200, 5000]]) {
    const place = blockLayout({ width, numBlocks: count, owners: 6, story: true });
    const { x, y, grid: g } = place.map;
    assert.ok(g.width <= width, `${width} ${count}`);
    assert.equal(g.letters, count <= 400);
    for (const block of [0, 1, Math.floor(count / 2), count - 1]) {
      const [left, top, wide, high] = cellBox(g, block, x, y);
      assert.equal(blockAt(place, count, left + wide / 2, top + high / 2), block);
    }
    assert.equal(blockAt(place, count, -5, y), null);
    assert.equal(blockAt(place, count, x, y + g.height + 30), null);
    assert.ok(place.strip.top > y + g.height);
  }
  assert.equal(grid(48, 600, { small: true }).columns, 16);
  assert.equal(blockLayout({ width: 600, numBlocks: 48, owners: 6, story: true }).bars, null);
});

test("a replay takes some 14 seconds, at a round pace", () => {
  for (const span of [0.001, 0.5, 1.2, 14, 100, 3600]) {
    const seconds = span / replayPace(span);
    assert.ok(seconds >= 7 && seconds <= 21, `${span}: ${seconds}`);
  }
  assert.equal(replayPace(1.4), 0.1);
});
