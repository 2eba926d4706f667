// Rows by who sent the requests: a row a nickname, more where someone has several in flight.

const EPSILON = 1e-6;

/**
 * The rows of a lane in the window [v0, v1] as [{name, first, requests: [idx, …]}], by name.
 * Somebody who asks for nothing in the window keeps an empty row; requests of nobody come last.
 * A request takes the first of its sender's rows that is free; one that was refused needs no room.
 */
export function peopleRows(lane, [v0, v1]) {
  const people = new Map(); // name → its rows as [{until, requests, seen}]
  for (const request of [...lane.requests.values()].sort((a, b) => a.idx - b.idx)) {
    const name = request.nickname || "";
    if (!people.has(name)) people.set(name, [{ until: -Infinity, requests: [], seen: false }]);
    const rows = people.get(name);
    const [from, to] = spanOf(request);
    const refused = request.ended === "refuse";
    let row = refused ? rows[0] : rows.find((each) => each.until <= from + EPSILON);
    if (!row) rows.push((row = { until: -Infinity, requests: [], seen: false }));
    if (!refused) row.until = to;
    if (from > v1 || to < v0) continue;
    row.requests.push(request.idx);
    row.seen = true;
  }
  const names = [...people.keys()].sort((a, b) => (a === "") - (b === "") || a.localeCompare(b));
  return names.flatMap((name) => {
    const shown = people.get(name).filter((row) => row.seen);
    const rows = shown.length ? shown : people.get(name).slice(0, 1);
    return rows.map(({ requests }, i) => ({ name: name || "no name", first: i === 0, requests }));
  });
}

/** The request of a row that is there at time t, the newest where they meet; null for none. */
export function personsRequest(lane, row, t) {
  for (let i = (row?.requests.length ?? 0) - 1; i >= 0; i--) {
    const request = lane.requests.get(row.requests[i]);
    const [from, to] = request ? spanOf(request) : [Infinity, -Infinity];
    if (from <= t + EPSILON && t <= to + EPSILON) return request;
  }
  return null;
}

/** From a request's arrival to its end; Infinity while it lasts. */
function spanOf(request) {
  const last = request.segments[request.segments.length - 1];
  const from = request.arrive ?? request.segments[0]?.t0 ?? 0;
  return [from, request.end === undefined ? Infinity : Math.max(request.end, last?.t1 ?? 0)];
}
