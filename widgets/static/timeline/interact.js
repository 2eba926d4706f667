// What the reader does: pointer, wheel and keys.

import { locate, requestAt, setCursor } from "./cursor.js";
import { hit, shiftWindow, zoomWindow } from "./layout.js";

const DRAG_FROM = 5; // px: less is a click

/** Hover shows the cursor, a click pins a request, a drag zooms (on the axis: scrubs). */
export function bindPointer(view) {
  const { over } = view.dom;
  const ready = (call) => (event) => view.geometry && call(view, event, ...view.at(event));
  over.addEventListener("pointermove", ready(pointerMove));
  over.addEventListener("pointerdown", ready(pointerDown));
  over.addEventListener("pointerup", ready(pointerUp));
  over.addEventListener("pointercancel", () => { view.drag = null; });
  over.addEventListener("pointerleave", () => {
    if (!view.drag && view.cursor && !view.cursor.kept) setCursor(view, null);
  });
  over.addEventListener("dblclick", () => view.setWindow(null));
  over.addEventListener("wheel", ready(wheel), { passive: false });
}

function pointed(view, x, y) {
  const target = hit(view.geometry, x, y);
  if (!target) return null;
  const t = view.scale.t(Math.min(Math.max(x, view.scale.x0), view.scale.x1));
  if (target.axis) {
    const { lane = view.geometry.panels[0].lane, row = null } = view.cursor ?? {};
    return { lane, row, t };
  }
  return { lane: target.panel.lane, row: target.index, t };
}

function pointerMove(view, event, x, y) {
  const { drag } = view;
  if (drag) {
    drag.to = Math.min(Math.max(x, view.scale.x0), view.scale.x1);
    drag.moved ||= Math.abs(x - drag.start) > DRAG_FROM;
    if (drag.pan && drag.moved) {
      view.setWindow(shiftWindow(drag.window, (drag.start - x) / view.scale.factor, view.limit));
    } else if (drag.scrub) {
      setCursor(view, { ...pointed(view, x, view.geometry.axisY), kept: true });
    }
    view.request();
    return;
  }
  if (view.cursor?.kept && view.pinned !== null) return;
  setCursor(view, x >= 0 && x <= view.geometry.x1 + 4 ? pointed(view, x, y) : null);
}

function pointerDown(view, event, x, y) {
  if (event.button !== 0) return;
  view.dom.over.focus({ preventScroll: true });
  view.dom.over.setPointerCapture(event.pointerId);
  const scrub = y >= view.geometry.axisY - 8;
  const pan = event.shiftKey && view.window !== null;
  view.drag = { start: x, from: x, to: x, moved: false, scrub, pan, window: [view.scale.v0, view.scale.v1] };
  if (scrub) setCursor(view, { ...pointed(view, x, y), kept: true });
}

function pointerUp(view, event, x, y) {
  const { drag } = view;
  view.drag = null;
  if (!drag) return;
  if (drag.moved && !drag.scrub && !drag.pan) {
    const [a, b] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)].map((px) => view.scale.t(px));
    view.setWindow([Math.max(0, a), Math.max(b, a + 0.002)]);
  } else if (!drag.moved && !drag.scrub) click(view, x, y);
  view.request();
}

function click(view, x, y) {
  const found = pointed(view, x, y);
  if (!found) return;
  view.cursor = found;
  locate(view);
  const request = requestAt(view, found);
  const req = request && view.pinned !== request.idx ? request.idx : null;
  found.kept = req !== null;
  view.link.keep({ t: found.t, req });
  setCursor(view, found, true);
  view.repaint();
}

/** Zooms with Ctrl or ⌘ (a plain wheel scrolls the page), or plainly once the figure has focus. */
function wheel(view, event, x) {
  const focused = document.activeElement === view.dom.over;
  if (!(event.ctrlKey || event.metaKey || focused)) return;
  const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
  if (!sideways && view.window === null && event.deltaY > 0) return; // nothing wider to show
  event.preventDefault();
  event.stopPropagation();
  const now = [view.scale.v0, view.scale.v1];
  if (sideways) view.setWindow(shiftWindow(now, event.deltaX / view.scale.factor, view.limit));
  else zoom(view, view.scale.t(x), Math.exp(Math.min(60, Math.max(-60, event.deltaY)) * 0.006));
}

function zoom(view, t, factor) {
  const next = zoomWindow([view.scale.v0, view.scale.v1], t, factor, view.limit);
  view.setWindow(next[1] - next[0] >= view.limit * 0.999 ? null : next);
}

export function timelineKeys(view) {
  const ready = (call) => (far) => view.scale && call(far);
  return {
    ArrowRight: ready((far) => moveStep(view, far)),
    ArrowLeft: ready((far) => moveStep(view, -far)),
    ArrowDown: ready((far) => moveRow(view, far)),
    ArrowUp: ready((far) => moveRow(view, -far)),
    Home: ready(() => moveStep(view, -Infinity)),
    End: ready(() => moveStep(view, Infinity)),
    Escape: () => clear(view),
    " ": () => (view.link.conductor ? view.link.conductor.toggle() : view.togglePause()),
    "+": ready(() => zoom(view, middle(view), 0.7)),
    "=": ready(() => zoom(view, middle(view), 0.7)),
    "-": ready(() => zoom(view, middle(view), 1 / 0.7)),
  };
}

function middle(view) {
  return view.cursor?.t ?? (view.scale.v0 + view.scale.v1) / 2;
}

function clear(view) {
  view.window = null;
  view.pausedAt = null;
  view.cursor = null;
  view.link.keep({ t: null, req: null });
  view.repaint();
}

function moveStep(view, by) {
  const cursor = view.cursor ?? { lane: view.geometry.panels[0].lane, row: 0, t: null };
  const lane = view.lanes[cursor.lane];
  if (!lane.stepCount) return;
  const last = lane.base + lane.stepCount - 1;
  const now = cursor.t === null ? lane.base - 1 : lane.stepAt(cursor.t) ?? lane.base - 1;
  const step = lane.step(Math.min(Math.max(now + by, lane.base), last));
  const t = (step.t0 + step.t1) / 2;
  if (t < view.scale.v0 || t > view.scale.v1) {
    const half = (view.scale.v1 - view.scale.v0) / 2;
    view.window = shiftWindow([t - half, t + half], 0, view.limit);
  }
  setCursor(view, { ...cursor, row: cursor.row ?? 0, t, kept: true }, true);
}

/** Up and down the rows, and on into the other panel. */
function moveRow(view, by) {
  const { cursor } = view;
  if (!cursor) {
    moveStep(view, 1);
    return;
  }
  const { panels } = view.geometry;
  let at = Math.max(0, panels.findIndex((panel) => panel.lane === cursor.lane));
  let row = (cursor.row ?? 0) + by;
  if (row >= panels[at].rows && at + 1 < panels.length) [at, row] = [at + 1, 0];
  else if (row < 0 && at > 0) [at, row] = [at - 1, panels[at - 1].rows - 1];
  row = Math.min(Math.max(row, 0), panels[at].rows - 1);
  setCursor(view, { ...cursor, lane: panels[at].lane, row, kept: true }, true);
}
