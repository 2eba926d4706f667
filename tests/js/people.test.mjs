// Rows by nickname: whose they are, how many, and who is there at a time.

import assert from "node:assert/strict";
import { test } from "node:test";

import { peopleRows, personsRequest } from "../../widgets/static/timeline/people.js";

function lane(...requests) {
  return {
    requests: new Map(requests.map(([nickname, arrive, end, ended = "finish"], idx) => [
      idx, { idx, nickname, arrive, end, ended: end === undefined ? undefined : ended, segments: [] },
    ])),
  };
}

const names = (rows) => rows.map(({ name, first }) => (first ? name : "+"));

test("requests one after the other share a row, overlapping ones do not", () => {
  const rows = peopleRows(lane(["Bob", 0, 2], ["Ada", 1, 5], ["Ada", 2, 3], ["Ada", 3, undefined], ["Bob", 2, 4]), [0, 9]);
  assert.deepEqual(names(rows), ["Ada", "+", "Bob"]);
  assert.deepEqual(rows.map(({ requests }) => requests), [[1], [2, 3], [0, 4]]);
});

test("who is quiet keeps an empty row, and requests of nobody come last", () => {
  const rows = peopleRows(lane([null, 0, 9], ["Zoë", 0, 1], ["Ada", 4, 5]), [3, 9]);
  assert.deepEqual(names(rows), ["Ada", "Zoë", "no name"]);
  assert.deepEqual(rows.map(({ requests }) => requests), [[2], [], [0]]);
});

test("a refused request takes no row of its own", () => {
  const rows = peopleRows(lane(["Ada", 0, 9], ["Ada", 1, 1, "refuse"], ["Ada", 2, 2, "refuse"]), [0, 9]);
  assert.deepEqual(rows.map(({ requests }) => requests), [[0, 1, 2]]);
});

test("the request at a time", () => {
  const model = lane(["Ada", 0, 2], ["Ada", 3, undefined]);
  const [row] = peopleRows(model, [0, 9]);
  assert.equal(personsRequest(model, row, 1).idx, 0);
  assert.equal(personsRequest(model, row, 2.5), null);
  assert.equal(personsRequest(model, row, 100).idx, 1);
  assert.equal(personsRequest(model, undefined, 1), null);
});
