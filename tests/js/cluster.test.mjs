// The cluster's pure parts, on bytes that Python wrote (tests/golden/cluster.bin, cluster.json).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { ClusterModel, decodeCluster } from "../../widgets/static/cluster/decode.js";
import { clusterLayout, curvePoint, rowAt } from "../../widgets/static/cluster/layout.js";
import { replicaContent } from "../../widgets/static/cluster/view.js";

const golden = (name) => new URL(`../golden/${name}`, import.meta.url);
const bytes = () => new Uint8Array(readFileSync(golden("cluster.bin")));
const { message, ticks } = JSON.parse(readFileSync(golden("cluster.json"), "utf8"));

test("the golden bytes decode to what Python wrote; what can't be read is null", () => {
  const frame = decodeCluster(bytes());
  assert.equal(frame.replicas, 2);
  frame.ticks.forEach(({ t, loads }, i) => {
    assert.equal(t, ticks[i][0]);
    loads.forEach((load, r) => {
      const [running, waiting, kv, up, sent] = ticks[i][1][r];
      assert.deepEqual([load.running, load.waiting, load.up, load.sent], [running, waiting, up, sent]);
      if (kv === null) assert.equal(load.kv, null);
      else assert.ok(kv - load.kv < 0.001 && load.kv <= kv);
    });
  });
  assert.throws(() => decodeCluster(bytes().slice(0, -1)), /came with/);
  assert.throws(() => decodeCluster(bytes().slice(0, 9)), /too short/);
  assert.throws(() => decodeCluster(new Uint8Array(40)), /not a cluster/);
});

test("a model keeps every tick once, notices gaps, and knows who was down and when", () => {
  const model = new ClusterModel();
  assert.equal(model.apply({ ...message, kind: "delta" }, Uint8Array.from(bytes(), (b, i) => (i === 5 ? 1 : b))), "gap");
  assert.equal(model.apply(message, bytes()), "ok");
  assert.equal(model.apply(message, bytes()), "ok"); // the same again
  assert.deepEqual(model.times, ticks.map(([t]) => t));
  assert.deepEqual(model.downSpells(1), [[0.5, 1.5]]);
  assert.deepEqual(model.downSpells(0), []);
  assert.equal(model.sentBetween(0, 0.5, 1.5), 5);
  assert.equal(model.sentBetween(1, 0.5, 1.0), null);
  assert.equal(model.most, 17);
  assert.equal(model.base, 1); // the oldest had left the kernel's ring
});

test("the card says n/a for what was not read", () => {
  const model = new ClusterModel();
  model.apply(message, bytes());
  const said = (replica, t) => {
    const { state, lines } = replicaContent(model, replica, t);
    return `${state}: ${lines.map((parts) => parts.join(" ").trim()).join("; ")}`.replaceAll("\u2009", " ");
  };
  assert.equal(said(0, 1.2), "Replica 0 · up at 1.20 s: Running 8 of 8 at most; Waiting 9; KV blocks in use 99 %; Sent here so far 9 requests");
  assert.equal(said(1, 1.2), "Replica 1 · down at 1.20 s: ");
  assert.match(said(1, 1.5), /KV blocks in use n\/a/);
  assert.match(said(0, 0.1), /not there yet/);
});

test("rows fit, a point finds its row, links end where they should", () => {
  for (const [width, replicas] of [[1200, 1], [1200, 3], [700, 8], [400, 20], [1200, 64]]) {
    const place = clusterLayout({ width, replicas });
    assert.equal(place.rows.length, replicas);
    for (const row of place.rows) {
      assert.ok(row.stripBottom > row.stripTop + 5, `${width} ${replicas}`);
      assert.equal(rowAt(place, (row.stripTop + row.stripBottom) / 2), row.replica);
    }
    assert.ok(place.axisY >= place.rows[replicas - 1].stripBottom);
    assert.ok(place.x1 - place.x0 > 200);
    assert.equal(rowAt(place, place.height), null);
  }
  assert.deepEqual(curvePoint([0, 0], [10, 4], 0), [0, 0]);
  assert.deepEqual(curvePoint([0, 0], [10, 4], 1), [10, 4]);
});
