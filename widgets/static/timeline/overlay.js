// The layer above the data: titles, letters, axis, figures, notes, cursor. Repainted whole; small.

import { ticks } from "../shared/axis.js";
import { TINY_FIGURE } from "../shared/figure.js";
import { count, duration, fixed, number3, percent, whole } from "../shared/format.js";
import { arrowHead, cursorFoot, fitted, line, roundRect, text, timeAxis } from "../shared/pen.js";
import { font } from "../shared/theme.js";
import { cellHeights, paintVeil } from "./paint.js";
import { paintStalls, usefulAt, wastedRows } from "./stalls.js";
import { stripLimit } from "./strip.js";

/** Paint everything that stands over the data. `s`: the view's state for this frame. */
export function paintOverlay(ctx, s) {
  ctx.clearRect(0, 0, s.geometry.width, s.geometry.height);
  ctx.textBaseline = "middle";
  for (const panel of s.geometry.panels) {
    const lane = s.lanes[panel.lane];
    const free = paintTitle(ctx, s, panel, lane);
    paintUseful(ctx, s, panel, lane, free);
    paintLetters(ctx, s, panel, lane);
    paintStripScale(ctx, s, panel, lane);
    if (s.geometry.figuresX !== null) paintFigures(ctx, s, panel, lane);
  }
  paintAxis(ctx, s);
  paintSooner(ctx, s);
  for (const panel of s.geometry.panels) {
    if (s.running) paintNow(ctx, s, panel, s.lanes[panel.lane]);
    paintNotes(ctx, s, panel, s.lanes[panel.lane]);
    paintWasted(ctx, s, panel, s.lanes[panel.lane]);
    paintStalls(ctx, s, panel, s.lanes[panel.lane]);
  }
  if (s.veil && s.cursor) paintVeil(ctx, s, s.cursor.t);
  paintCursor(ctx, s);
}

function paintTitle(ctx, s, panel, lane) {
  const { theme, geometry } = s;
  const title = s.titles[panel.lane] || lane.header?.policy || "";
  const width = text(ctx, title, 0, panel.titleY, { size: 13, weight: 650, color: theme.ink });
  const narrow = geometry.figuresX === null;
  const figures = lane.figures;
  const words = narrow && lane.stepCount
    ? [`${number3(figures.tok_s)} tok/s`, `${percent(figures.row_padding_fraction)} of rows padding`,
      lane.done ? `done in ${duration(figures.elapsed_s)}` : duration(figures.elapsed_s)]
    : [s.subtitles[panel.lane] || (lane.stepCount ? "" : "has not run yet")];
  ctx.font = font(11.5);
  const left = s.mode !== "requests" ? 0 : lane.requests.size - s.rows[panel.lane].length;
  const some = left > 0 ? `${count(s.rows[panel.lane].length, "request")} of ${whole(lane.requests.size)}` : "";
  const parts = [...words, some].filter(Boolean);
  const x = title ? width + 18 : 0;
  while (parts.length > 1 && ctx.measureText(parts.join(" · ")).width > geometry.x1 - x) parts.pop();
  const shown = fitted(ctx, parts.join(" · "), geometry.x1 - x);
  return x + text(ctx, shown, x, panel.titleY + 0.5, { size: 11.5, color: theme.ink3 });
}

/** Over the cursor, where a step carries dead rows: how many are of use. free: where there is room. */
function paintUseful(ctx, { cursor, scale, theme, geometry }, panel, lane, free) {
  const found = cursor && usefulAt(lane, cursor.t);
  if (!found || found.useful === found.rows) return;
  const words = `step ${found.number}: ${found.useful} of ${count(found.rows, "row")} useful`;
  ctx.font = font(11, 650);
  const half = ctx.measureText(words).width / 2;
  const x = Math.min(scale.x(cursor.t), geometry.x1 - half);
  if (x - half < free + 10) return;
  text(ctx, words, x, panel.titleY + 1, { size: 11, weight: 650, color: theme.ink, align: "center" });
}

/** Behind a row's end: how many rows it wasted. All of a short single run; else the marked ones. */
function paintWasted(ctx, s, panel, lane) {
  if (s.mode === "slots" || panel.pitch < 12 || !lane.done) return;
  const { theme, scale, geometry } = s;
  const noted = new Set(s.notes.filter((note) => note.lane === panel.lane).map((note) => note.req));
  const all = s.lanes.length === 1 && panel.rows <= 24;
  s.rows[panel.lane].forEach((idx, row) => {
    const request = lane.requests.get(idx);
    if (!request?.segments.length || noted.has(idx) || !(all || idx === s.pinned)) return;
    const wasted = wastedRows(request);
    if (!wasted) return;
    const words = `${wasted.toLocaleString("en-US")} wasted`;
    const end = scale.x(request.segments[request.segments.length - 1].t1);
    ctx.font = font(11, 600);
    const wide = ctx.measureText(words).width;
    const room = end + 8 + wide <= geometry.x1;
    if (end < geometry.x0 || (!room && end - wide - 12 < scale.x(request.end ?? 0))) return;
    const y = panel.top + (row + 0.5) * panel.pitch + 0.5;
    if (!room) { // over the hatch, on ground of its own
      ctx.fillStyle = theme.bg;
      ctx.fillRect(Math.min(end, geometry.x1) - wide - 11, y - 6, wide + 12, 12);
    }
    text(ctx, words, Math.min(end, geometry.x1) + (room ? 8 : -6), y, { size: 11, weight: 600, color: theme.wasteText, halo: theme.bg, align: room ? "left" : "right" });
  });
}

function paintLetters(ctx, s, panel, lane) {
  const { theme, geometry } = s;
  if (s.mode === "people") {
    paintNames(ctx, s, panel);
    return;
  }
  const x = geometry.x0 - 17;
  s.rows[panel.lane].forEach((idx, row) => {
    const y = panel.top + (row + 0.5) * panel.pitch;
    const chosen = isChosen(s, panel.lane, row, idx);
    if (panel.pitch < 9 && !chosen) return;
    const name = s.mode === "slots" ? String(idx + 1) : lane.requests.get(idx)?.letter ?? s.letterOf(idx);
    if (chosen) {
      const height = Math.max(13, Math.min(16, panel.pitch));
      ctx.font = font(11, 650);
      const wide = Math.max(20, ctx.measureText(name).width + 8);
      ctx.fillStyle = theme.ink;
      roundRect(ctx, x - wide / 2, y - height / 2, wide, height, 3.5);
      ctx.fill();
      text(ctx, name, x, y + 0.5, { size: 11, weight: 700, color: theme.bg, align: "center" });
    } else {
      const marked = s.marked.has(idx) && s.mode !== "slots";
      text(ctx, name, x, y + 0.5, {
        size: 11, weight: marked ? 700 : 400, color: marked ? theme.ink : theme.ink2, align: "center",
      });
    }
  });
}

/** Who sent the requests of a row; the first row of somebody with several bears the name. */
function paintNames(ctx, { theme, geometry, rows, cursor }, panel) {
  const right = geometry.x0 - 10;
  rows[panel.lane].forEach(({ name, first }, row) => {
    const chosen = cursor && cursor.lane === panel.lane && cursor.row === row;
    if (!chosen && (!first || panel.pitch < 9)) return;
    const y = panel.top + (row + 0.5) * panel.pitch + 0.5;
    ctx.font = font(11, chosen ? 700 : 400);
    const color = chosen ? theme.ink : theme.ink2;
    text(ctx, fitted(ctx, name, right), right, y, { size: 11, weight: chosen ? 700 : 400, color, align: "right" });
  });
}

/** Room that the names of the rows take, at most a good part of a narrow figure. */
export function nameRoom(ctx, rows, width) {
  ctx.font = font(11, 700);
  const widest = Math.max(0, ...rows.map(({ name }) => ctx.measureText(name).width));
  return Math.round(Math.min(Math.max(34, widest + 14), 170, width / 4));
}

function isChosen(s, lane, row, idx) {
  if (s.mode !== "slots" && s.pinned !== null && s.pinned === idx) return true;
  return Boolean(s.cursor && s.cursor.lane === lane && s.cursor.row === row);
}

function paintStripScale(ctx, s, panel, lane) {
  const { theme, geometry } = s;
  if (!lane.stepCount) return;
  const limit = stripLimit(lane);
  const x = geometry.x0 - 10;
  text(ctx, String(limit), x, panel.stripTop + 3, { size: 10, color: theme.ink3, align: "right" });
  text(ctx, "0", x, panel.stripBottom - 2, { size: 10, color: theme.ink3, align: "right" });
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 0.7;
  ctx.setLineDash([3, 3]);
  line(ctx, geometry.x0, panel.stripTop, geometry.x1, panel.stripTop);
  ctx.setLineDash([]);
}

function paintFigures(ctx, s, panel, lane) {
  if (!lane.stepCount) return;
  const { theme, geometry } = s;
  const x = geometry.figuresX;
  const figures = lane.figures;
  const big = (string, unit, y, size, color) => {
    const width = text(ctx, string, x, y, { size, weight: 650, color });
    ctx.font = font(11);
    const words = unit.find((each) => x + width + 6 + ctx.measureText(each).width <= geometry.width) ?? "";
    text(ctx, words, x + width + 6, y + size * 0.16, { size: 11, color: theme.ink2 });
  };
  big(number3(figures.tok_s), ["tok/s"], panel.top + 10, 22, theme.ink);
  const time = duration(figures.elapsed_s);
  text(ctx, lane.done ? `done in ${time}` : `${time} so far`, x, panel.top + 34, { size: 11, color: theme.ink3 });
  const wasted = figures.row_padding_fraction;
  const y = Math.max(panel.stripTop + 4, panel.top + 60);
  big(percent(wasted), ["of rows padding", "padding"], y, 16, wasted > 0.005 ? theme.wasteText : theme.ink);
  const useful = `${fixed(figures.useful_rows ?? 0, 1)} of ${stripLimit(lane)} rows useful`;
  text(ctx, useful, x, y + 19, { size: 11, color: theme.ink3 });
}

function paintAxis(ctx, { theme, geometry, scale }) {
  const caption = geometry.width < TINY_FIGURE ? "seconds" : "seconds since the first request";
  timeAxis(ctx, theme, scale, geometry.axisY, ticks(scale.v0, scale.v1, geometry.x1 - geometry.x0), caption);
}

/** The empty right half is the result: name it. Two finished lanes only. */
function paintSooner(ctx, s) {
  const { theme, geometry, scale, lanes } = s;
  if (geometry.panels.length < 2 || !lanes.every((lane) => lane.done && lane.stepCount)) return;
  const [a, b] = geometry.panels.map((panel) => lanes[panel.lane].now);
  const [early, late] = a < b ? [0, 1] : [1, 0];
  const [from, to] = [Math.min(a, b), Math.max(a, b)];
  const slow = geometry.panels[late];
  const quick = geometry.panels[early];
  const x = Math.round(scale.x(to)) + 0.5;
  if (x > geometry.x1 || x < geometry.x0) return;
  ctx.strokeStyle = theme.ink3;
  ctx.lineWidth = 0.8;
  ctx.setLineDash([2, 3]);
  line(ctx, x, Math.min(slow.stripBottom, quick.top), x, Math.max(geometry.axisY, slow.stripBottom));
  ctx.setLineDash([]);
  const same = lanes[0].requests.size === lanes[1].requests.size;
  const label = `${duration(to - from)} sooner${same ? `, same ${count(lanes[0].requests.size, "request")}` : ""}`;
  ctx.font = font(11.5, 550);
  const wide = ctx.measureText(label).width;
  const left = Math.max(scale.x(from), geometry.x0) + 6;
  const right = x - 3;
  if (geometry.figuresX === null || right - left < wide + 60) return;
  const y = (quick.stripTop + quick.stripBottom) / 2;
  const middle = (left + right) / 2;
  ctx.strokeStyle = theme.ink3;
  ctx.lineWidth = 1;
  line(ctx, left, y, middle - wide / 2 - 12, y);
  line(ctx, middle + wide / 2 + 12, y, right, y);
  arrowHead(ctx, left, y, 5);
  arrowHead(ctx, right, y, -5);
  text(ctx, label, middle, y + 0.5, { size: 11.5, weight: 550, color: theme.ink, align: "center", halo: theme.bg });
}

/** While it runs: the edge of the present, and how much each running request has so far. */
function paintNow(ctx, s, panel, lane) {
  if (lane.done || !lane.stepCount) return;
  const { theme, scale, geometry } = s;
  const x = Math.round(scale.x(Math.min(lane.now, s.until))) + 0.5;
  if (x < geometry.x0 || x > geometry.x1 + 1) return;
  ctx.strokeStyle = theme.ink3;
  ctx.lineWidth = 1;
  line(ctx, x, panel.top - 2, x, panel.stripBottom);
  const room = geometry.x1 - x > 50;
  text(ctx, s.paused ? "paused" : "now", room ? x + 5 : x - 5, panel.stripTop + 7, {
    size: 10, weight: 550, color: theme.ink2, align: room ? "left" : "right", halo: theme.bg,
  });
  if (s.paused || panel.pitch < 12 || s.mode !== "requests" || geometry.x1 - x < 26) return;
  s.rows[panel.lane].forEach((idx, row) => {
    const request = lane.requests.get(idx);
    if (!request?.segments.length || request.end !== undefined) return;
    const y = panel.top + (row + 0.5) * panel.pitch;
    text(ctx, String(request.tokens), x + 5, y + 0.5, { size: 10, color: theme.ink3, halo: theme.bg });
  });
}

/** Sentences at a row: on the dotted line where they fit, else behind the row's end. */
function paintNotes(ctx, s, panel, lane) {
  if (s.mode !== "requests") return;
  const { theme, scale, geometry } = s;
  for (const note of s.notes) {
    if (note.lane !== panel.lane) continue;
    const row = s.rows[panel.lane].indexOf(note.req);
    const request = lane.requests.get(note.req);
    if (row < 0 || !request?.segments.length || panel.pitch < 9) continue;
    if (note.tone === "pre" && geometry.figuresX === null) continue;
    const color = note.tone === "pre" ? theme.preText : theme.ink;
    const weight = note.tone === "pre" ? 400 : 650;
    const y = panel.top + (row + 0.5) * panel.pitch + 0.5;
    ctx.font = font(11, weight);
    const wide = ctx.measureText(note.text).width;
    const from = scale.x(request.arrive ?? request.segments[0].t0);
    const to = scale.x(request.segments[0].t0);
    if (note.tone !== "pre" && to - from > wide + 44) {
      const middle = Math.min(Math.max((from + to) / 2, geometry.x0 + wide / 2), geometry.x1 - wide / 2);
      ctx.fillStyle = s.marked.has(note.req) ? theme.panel : theme.bg;
      ctx.fillRect(middle - wide / 2 - 8, y - 6, wide + 16, 12);
      text(ctx, note.text, middle, y, { size: 11, weight, color, align: "center" });
      continue;
    }
    const last = request.segments[request.segments.length - 1];
    const x = scale.x(Math.max(last.t1, request.end ?? 0)) + 8;
    if (x + wide > geometry.x1 || x < geometry.x0) continue;
    text(ctx, note.text, x, y, { size: 11, weight, color, halo: theme.bg });
  }
}

function paintCursor(ctx, s) {
  if (!s.cursor) return;
  const { theme, scale, geometry, cursor } = s;
  const x = Math.round(scale.x(cursor.t)) + 0.5;
  if (x < geometry.x0 || x > geometry.x1) return;
  ctx.strokeStyle = theme.ink;
  ctx.lineWidth = 1.4;
  for (const panel of geometry.panels) line(ctx, x, panel.top - 3, x, panel.stripBottom);
  cursorFoot(ctx, theme, x, geometry.axisY);
  if (cursor.box) {
    const panel = geometry.panels.find((each) => each.lane === cursor.lane);
    const { full } = cellHeights(panel.pitch);
    const y = panel.top + (cursor.row + 0.5) * panel.pitch;
    const left = Math.max(geometry.x0, scale.x(cursor.box.t0));
    const wide = Math.max(5, scale.x(cursor.box.t1) - left);
    ctx.lineWidth = 1.6;
    ctx.strokeRect(left - 0.5, y - full / 2 - 0.5, wide, full + 1);
  }
  if (s.drag) {
    const [a, b] = [Math.min(s.drag.from, s.drag.to), Math.max(s.drag.from, s.drag.to)];
    ctx.globalAlpha = 0.14;
    ctx.fillRect(a, geometry.panels[0].top, b - a, geometry.axisY - geometry.panels[0].top);
    ctx.globalAlpha = 1;
  }
}
