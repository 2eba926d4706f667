// The queue's pure parts, on the run that Python wrote (tests/golden/blocks.bin, blocks.json).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { LaneModel } from "../../widgets/static/shared/lane.js";
import { dotPlaces, queueLayout } from "../../widgets/static/queue/layout.js";
import { QueueRun, changes, spent, stateAt } from "../../widgets/static/queue/model.js";
import { dotContent } from "../../widgets/static/queue/view.js";

const golden = (name) => new URL(`../golden/${name}`, import.meta.url);
const { message, queue: expected } = JSON.parse(readFileSync(golden("blocks.json"), "utf8"));

function lane() {
  const model = new LaneModel();
  assert.equal(model.apply(message, new Uint8Array(readFileSync(golden("blocks.bin")))), "ok");
  return model;
}

const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);

test("numbers over time and Little's law are Python's", () => {
  const run = new QueueRun(lane());
  for (const measure of ["system", "waiting"]) {
    assert.deepEqual(run.times, expected[measure].map(([t]) => t));
    assert.deepEqual(run[measure], expected[measure].map(([, n]) => n));
  }
  const figures = run.figures();
  assert.equal(figures.count, expected.figures.count);
  for (const name of ["rate", "stay", "mean", "wait"]) near(figures[name], expected.figures[name]);
  near(figures.mean, figures.rate * figures.stay);
});

test("at every instant each request stands in one place, and no slot holds two", () => {
  const run = new QueueRun(lane());
  for (const t of [-1, 0, ...run.times, run.now + 1].flatMap((at) => [at, at + 1e-6])) {
    const { arriving, waiting, served, done } = run.scene(t);
    const all = [...arriving, ...waiting, ...served.map(({ request }) => request), ...done];
    assert.equal(new Set(all.map((request) => request.idx)).size, run.requests.length);
    assert.equal(all.length, run.requests.length);
    assert.equal(new Set(served.map(({ slot }) => slot)).size, served.length);
    assert.equal(run.countAt("waiting", t), waiting.length);
    assert.equal(run.countAt("system", t), waiting.length + served.length);
  }
});

test("a preempted request waits again, ahead of those who came after", () => {
  const run = new QueueRun(lane());
  const victim = run.requests.find((request) => request.preempts.length);
  const states = changes(victim).map(([, state]) => state);
  assert.deepEqual(states, ["waiting", "served", "waiting", "served", "done"]);
  const [{ t }] = victim.preempts;
  assert.equal(stateAt(victim, t).state, "waiting");
  assert.equal(run.scene(t).waiting[0].idx, victim.idx);
  near(spent(victim, "waiting", 1e9) + spent(victim, "served", 1e9), victim.end - victim.arrive);
  assert.equal(stateAt(victim, victim.arrive - 1), null);
});

test("dots keep apart, stay on the stage, and those without room are counted", () => {
  const requests = Array.from({ length: 90 }, (_, idx) => ({ idx, letter: "A", admits: [], preempts: [], arrive: 0 }));
  const found = {
    arriving: requests.slice(0, 30), waiting: requests.slice(30, 60), done: requests.slice(60, 84),
    served: requests.slice(84).map((request, slot) => ({ request, slot })),
  };
  for (const width of [420, 640, 1200]) {
    for (const slots of [1, 6, 16]) {
      const place = queueLayout({ width, slots, lanes: 3 });
      const { places, more } = dotPlaces(place, { ...found, served: found.served.slice(0, slots) });
      const dots = [...places.values()];
      assert.equal(dots.length + more.arriving + more.waiting + more.done, 84 + Math.min(slots, 6));
      for (const { x, y } of dots) assert.ok(x > 0 && x < width && y > 0 && y < place.height, `${width} ${x}`);
      dots.forEach((a, i) => dots.slice(i + 1).forEach((b) => assert.ok(Math.hypot(a.x - b.x, a.y - b.y) > 21, `${width} ${slots}`)));
      assert.equal(place.panels.length, 3);
    }
  }
});

test("the card tells the wait, and of what has not come yet only when it comes", () => {
  const run = new QueueRun(lane());
  const victim = run.requests.find((request) => request.preempts.length);
  const { state, lines } = dotContent(victim, run.now);
  assert.equal(state, "done");
  assert.deepEqual(lines.map(([label]) => label), ["Arrives", "Waited", "In a slot", "Wants", "Left"]);
  assert.equal(dotContent(victim, victim.arrive - 1).state, "still to arrive");
});

test("a run that is over is shown when most waited", () => {
  const run = new QueueRun(lane());
  const t = run.busiest;
  assert.equal(run.countAt("waiting", t), Math.max(...run.waiting));
});
