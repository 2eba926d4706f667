// The queue's scene (dots, rail, slots) and its panels (how many over time).

import { lastAtOrBefore, niceLimit, ticks } from "../shared/axis.js";
import { count, duration, number3, whole } from "../shared/format.js";
import { cursorLine, fitted, line, roundRect, text } from "../shared/pen.js";
import { font } from "../shared/theme.js";
import { RADIUS } from "./layout.js";
import { WAITING, spent } from "./model.js";

/** Titles, the rail of the queue, the slots' boxes. */
export function paintStage(ctx, { scene, width }, { theme, found, more, title, slots }) {
  const head = (words, x, align = "left") => text(ctx, words, x, 9, { size: 13, weight: 650, color: theme.ink, align });
  const queue = `${whole(found.waiting.length)} ${found.waiting.length === 1 ? "waits" : "wait"}`;
  head(queue, scene.queue[0]);
  ctx.font = font(13, 650);
  const served = slots === 1
    ? ["Served, one at a time", "One at a time", "Served"]
    : [`Served, ${whole(slots)} at a time`, `${whole(slots)} at a time`, "Served"];
  const done = `${whole(found.done.length)} done`;
  const room = width - scene.slotsX - ctx.measureText(done).width - 14;
  head(served.find((words) => ctx.measureText(words).width <= room) ?? "Served", scene.slotsX);
  head(done, width, "right");
  const before = scene.queue[0] - 16;
  ctx.font = font(13, 650);
  head(fitted(ctx, title, before), 0);
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1.2;
  for (const y of [scene.middle - 22, scene.middle + 22]) line(ctx, scene.queue[0], y, scene.queue[1] + 6, y);
  ctx.strokeStyle = theme.ink;
  ctx.lineWidth = 1.5;
  for (const [x, y, size] of scene.slots.slice(0, slots)) { // another run may have more
    roundRect(ctx, x, y, size, size, 7);
    ctx.stroke();
  }
  const beyond = (kind, x, align) => more[kind] > 0 && text(ctx, `+${whole(more[kind])}`, x, scene.middle, { size: 11, color: theme.ink3, align, weight: 600 });
  beyond("waiting", scene.queue[0], "left");
}

/** One dot, with its letter and, in the queue, how long it has waited. */
export function paintDot(ctx, { x, y, state, request }, { theme, t, selected }) {
  const chosen = request.idx === selected;
  ctx.beginPath();
  ctx.arc(x, y, RADIUS, 0, 7);
  const look = {
    arriving: [theme.bg, theme.line, theme.ink3], waiting: [theme.bg, theme.queue, theme.ink],
    served: [theme.decode, theme.decode, theme.onDecode], done: [theme.decodeSoft, theme.decodeSoft, theme.ink2],
  }[state];
  ctx.fillStyle = chosen && state !== "served" ? theme.ink : look[0];
  ctx.fill();
  ctx.strokeStyle = chosen ? theme.ink : look[1];
  ctx.lineWidth = chosen ? 2.4 : 1.5;
  ctx.stroke();
  const size = request.letter.length > 2 ? 8 : 10;
  text(ctx, request.letter, x, y + 0.5, { size, weight: 650, color: chosen && state !== "served" ? theme.bg : look[2], align: "center" });
  if (state === "waiting") text(ctx, short(spent(request, WAITING, t)), x, y + 34, { size: 9, color: theme.ink3, align: "center" });
}

function short(seconds) {
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)}ms`;
  return seconds < 9.95 ? `${seconds.toFixed(1)}s` : `${whole(Math.round(seconds))}s`;
}

/** The highest count of all runs: panels share one scale. */
export function sharedLimit(runs, measure) {
  return niceLimit(Math.max(2, ...runs.map((run) => Math.max(0, ...run[measure]))));
}

/** How many over time: the area, the mean dashed, and what the sample says of Little's law. */
export function paintPanel(ctx, panel, run, scale, s) {
  const { theme, measure, limit, cursor, aside, done } = s;
  const title = s.inScene ? `▸ ${s.title}` : s.title; // whose dots are shown above
  const y = (n) => panel.bottom - (n / limit) * (panel.bottom - panel.top);
  const wide = text(ctx, title, panel.left, panel.titleY, { size: 12.5, weight: 650, color: theme.ink });
  const right = run.figures() && measure === "waiting" ? `mean wait ${duration(run.figures().wait, true)}` : aside;
  ctx.font = font(11.5);
  text(ctx, fitted(ctx, right, panel.x1 - panel.left - wide - 16), panel.x1, panel.titleY, { size: 11.5, color: theme.ink2, align: "right" });
  ctx.lineWidth = 0.6;
  for (const tick of ticks(0, limit, panel.bottom - panel.top, 26)) {
    if (!Number.isInteger(tick.t)) continue;
    ctx.strokeStyle = tick.t === 0 ? theme.line : theme.grid;
    line(ctx, panel.x0, y(tick.t), panel.x1, y(tick.t));
    text(ctx, whole(tick.t), panel.x0 - 6, y(tick.t) - (tick.t ? 0 : 3), { size: 10, color: theme.ink3, align: "right" });
  }
  paintArea(ctx, panel, run, scale, { theme, measure, y });
  text(ctx, "0", panel.x0, panel.bottom + 13, { color: theme.ink3 });
  if (!done || scale.x(run.now) < panel.x1 - 110) text(ctx, duration(scale.v1), panel.x1, panel.bottom + 13, { color: theme.ink3, align: "right" });
  paintEnd(ctx, panel, run, scale, theme, done);
  paintLaw(ctx, panel, run, { theme, measure, y, done });
  if (cursor !== null && cursor >= scale.v0 && cursor <= scale.v1) {
    cursorLine(ctx, theme, scale.x(cursor), panel.top - 4, panel.bottom, panel.bottom);
    const n = run.countAt(measure, cursor);
    const flip = scale.x(cursor) > panel.x1 - 40;
    text(ctx, whole(n), scale.x(cursor) + (flip ? -6 : 6), panel.top + 4, { weight: 650, color: theme.ink, halo: theme.bg, align: flip ? "right" : "left" });
  }
}

function paintArea(ctx, panel, run, scale, { theme, measure, y }) {
  const first = Math.max(0, lastAtOrBefore(run.times, scale.v0));
  const color = measure === "waiting" ? theme.queue : theme.decode;
  const path = new Path2D();
  let drawn = false;
  for (let i = first; i < run.times.length && run.times[i] <= scale.v1; i++) {
    const x0 = Math.max(panel.x0, scale.x(run.times[i]));
    const x1 = Math.min(panel.x1, scale.x(run.times[i + 1] ?? run.now));
    if (drawn) path.lineTo(x0, y(run[measure][i]));
    else path.moveTo(x0, y(run[measure][i]));
    path.lineTo(x1, y(run[measure][i]));
    drawn = true;
  }
  if (!drawn) return;
  const area = new Path2D(path);
  area.lineTo(Math.min(panel.x1, scale.x(run.now)), panel.bottom);
  area.lineTo(scale.x(Math.max(scale.v0, run.times[first])), panel.bottom);
  ctx.globalAlpha = measure === "waiting" ? 0.18 : 1;
  ctx.fillStyle = measure === "waiting" ? theme.queue : theme.decodeSoft;
  ctx.fill(area);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = color;
  ctx.lineWidth = 1.4;
  ctx.stroke(path);
}

function paintEnd(ctx, panel, run, scale, theme, done) {
  if (!done) return;
  const x = Math.min(scale.x(run.now), panel.x1);
  ctx.fillStyle = theme.ink;
  ctx.fillRect(x - 1, panel.bottom - 8, 2, 9);
  const words = `all done ${duration(run.now)}`;
  ctx.font = font(11);
  const half = ctx.measureText(words).width / 2;
  const middle = Math.min(Math.max(x, panel.x0 + 16 + half), panel.x1 - half);
  text(ctx, words, middle, panel.bottom + 13, { color: theme.ink2, align: "center" });
}

/** L = λ·W with this sample's own numbers, and the mean as a dashed line. */
function paintLaw(ctx, panel, run, { theme, measure, y, done }) {
  const figures = run.figures();
  if (!figures) return;
  const mean = measure === "waiting" ? figures.rate * figures.wait : figures.mean;
  ctx.strokeStyle = theme.ink;
  ctx.lineWidth = 1.2;
  ctx.setLineDash([5, 3]);
  line(ctx, panel.x0, y(mean), panel.x1, y(mean));
  ctx.setLineDash([]);
  const above = y(mean) - panel.top > 16;
  text(ctx, `mean ${number3(mean)}`, panel.x1 - 2, y(mean) + (above ? -9 : 10), { size: 11, weight: 650, color: theme.ink, align: "right", halo: theme.bg });
  const [symbol, stay] = measure === "waiting" ? ["Lq = λ·Wq", figures.wait] : ["L = λ·W", figures.stay];
  ctx.font = font(11.5);
  const words = `${symbol}: ${number3(figures.rate)}/s × ${duration(stay)} = ${number3(mean)}${done ? "" : " so far"}`;
  const wide = text(ctx, fitted(ctx, words, panel.x1 - panel.left), panel.left, panel.bottom + 34, { size: 11.5, color: theme.ink2 });
  ctx.font = font(10.5);
  const sample = [`n = ${count(figures.count, "request")}`, `n = ${whole(figures.count)}`]
    .find((each) => wide + 12 + ctx.measureText(each).width <= panel.x1 - panel.left);
  if (figures.count < 100 && sample) text(ctx, sample, panel.x1, panel.bottom + 34, { size: 10.5, color: theme.ink3, align: "right", halo: theme.bg });
}
