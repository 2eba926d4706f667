// What the reader points at: the cursor, the cell under it, and the card that tells about it.

import { cardContent, stepContent } from "./card.js";
import { personsRequest } from "./people.js";

/** The view's cursor with what it points at now: its step, and the cell's box if it has a row. */
export function locate(view) {
  const { cursor } = view;
  if (!cursor) return null;
  const lane = view.lanes[cursor.lane];
  const step = lane.step(lane.stepAt(cursor.t));
  const near = step && cursor.t <= step.t1 + Math.max(0.02, step.t1 - step.t0);
  cursor.step = near ? step : null;
  cursor.box = null;
  const request = requestAt(view, cursor);
  if (request && cursor.step && lane.segmentAt(request, step.number)) cursor.box = step;
  return cursor;
}

export function requestAt(view, { lane, row, step, t }) {
  if (row === null || row < 0) return null;
  const { requests } = view.lanes[lane];
  if (view.mode === "people") return personsRequest(view.lanes[lane], view.rows[lane][row], t);
  if (view.mode !== "slots") return requests.get(view.rows[lane][row]) ?? null;
  if (!step) return null;
  for (const request of requests.values()) {
    if (view.lanes[lane].segmentAt(request, step.number)?.slot === row) return request;
  }
  return null;
}

/** Point there (null: nowhere), in every view that shares the cursor. */
export function setCursor(view, cursor, speak = false) {
  view.cursor = cursor;
  if (cursor === null) view.link.unhover();
  else if (cursor.kept) view.link.keep({ t: cursor.t });
  else view.link.hover({ t: cursor.t });
  if (speak) {
    locate(view);
    view.sayCard(cardText(view));
  }
  view.request();
}

function cardText(view) {
  const { cursor } = view;
  if (!cursor) return null;
  const lane = view.lanes[cursor.lane];
  const request = requestAt(view, cursor);
  if (!request) return cursor.step && cursor.row < 0 ? stepContent(lane, cursor.step) : null;
  const beside = 1 - cursor.lane;
  const other = view.lanes[beside]?.stepCount
    ? { title: view.titles[beside] || "other", lane: view.lanes[beside] } : null;
  return cardContent(lane, request, cursor.step, other);
}

/** Fill and place the card of this frame, or hide it. */
export function paintCard(view) {
  const { cursor, geometry, scale } = view;
  const content = view.drag?.moved && !view.drag.scrub ? null : cardText(view);
  const panel = content && geometry.panels.find((each) => each.lane === cursor.lane);
  if (!panel) {
    view.showCard(null);
    return;
  }
  const request = requestAt(view, cursor);
  const x = Math.min(Math.max(scale.x(cursor.t), geometry.x0), geometry.x1);
  const y = cursor.row < 0 ? panel.stripTop + 12 : panel.top + (cursor.row + 0.5) * panel.pitch;
  view.showCard(content, x, y, takenBoxes(view), request && cursor.step ? askText(view, cursor, request) : null);
}

/** Where rows are drawn, as boxes [left, top, right, bottom]: a card should not cover them. */
function takenBoxes(view) {
  const { geometry, scale } = view;
  const boxes = [];
  for (const panel of geometry.panels) {
    const lane = view.lanes[panel.lane];
    if (panel.rows > 60 || view.mode === "people") boxes.push([scale.x0, panel.top, scale.x(lane.now), panel.bottom]);
    else {
      view.rows[panel.lane].forEach((idx, row) => {
        const segments = view.mode === "slots" ? null : lane.requests.get(idx)?.segments;
        if (!segments?.length) return;
        const y = panel.top + row * panel.pitch;
        const note = view.model.get("notes").find((each) => each.lane === panel.lane && each.req === idx);
        const words = note ? 16 + note.text.length * 6 : 0;
        const end = scale.x(segments[segments.length - 1].t1) + words;
        boxes.push([scale.x(segments[0].t0), y, end, y + panel.pitch]);
      });
    }
    boxes.push([scale.x0, panel.stripTop, scale.x(lane.now), panel.stripBottom]);
    boxes.push([0, panel.titleY - 10, scale.x0 + 200, panel.titleY + 10]);
  }
  if (geometry.figuresX !== null) boxes.push([geometry.figuresX, 0, geometry.width, geometry.axisY]);
  return boxes;
}

/** The request's text up to a step: asked of the kernel once, shown when it comes. */
function askText(view, cursor, request) {
  const { lane, step } = cursor;
  const key = `${lane}:${request.idx}:${step.number}`;
  if (!view.texts.has(key)) {
    if (view.texts.size > 500) view.texts.clear();
    view.texts.set(key, null);
    view.model.send({ text: { lane, req: request.idx, step: step.number } });
  }
  return view.texts.get(key);
}
