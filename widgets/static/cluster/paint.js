// The router, the lines to the replicas, each one's figures and its load over time.

import { ticks } from "../shared/axis.js";
import { duration, number3, percent, whole } from "../shared/format.js";
import { cross, cursorLine, fitted, line, roundRect, text, timeAxis } from "../shared/pen.js";
import { font } from "../shared/theme.js";
import { curvePoint } from "./layout.js";

const FLIGHT = 0.02; // of the shown time: a request's dot travels so long from router to replica
const MOST_DOTS = 40; // on one line

/** The router's box, with its name and how many requests a second it sends. */
export function paintRouter(ctx, { router, wide }, model, t, span, theme) {
  const from = t - span * 0.05;
  const rates = Array.from({ length: model.replicas }, (_, replica) => model.sentBetween(replica, from, t));
  roundRect(ctx, router.x + 0.75, router.y + 0.75, router.width - 1.5, router.height - 1.5, 8);
  ctx.fillStyle = theme.panel;
  ctx.fill();
  ctx.strokeStyle = theme.ink;
  ctx.lineWidth = 1.5;
  ctx.stroke();
  const known = rates.every((rate) => rate !== null) && t > 0;
  const sum = rates.reduce((total, rate) => total + (rate ?? 0), 0);
  const pace = known ? `${number3(sum / Math.min(span * 0.05, Math.max(t, 1e-9)))} requests/s` : "";
  ctx.font = font(12.5, 650);
  const name = fitted(ctx, model.header.router.replaceAll("_", " "), router.width - 20);
  const middle = router.y + router.height / 2;
  text(ctx, name, router.x + 12, pace ? middle - (wide ? 9 : 8) : middle, { size: 12.5, weight: 650, color: theme.ink });
  if (pace) text(ctx, pace, router.x + 12, middle + (wide ? 10 : 9), { size: 11, color: theme.ink2 });
}

/** A line to each replica, as strong as its share of what was sent lately; dots in flight. */
export function paintLinks(ctx, geometry, model, t, span, { theme, calm }) {
  const { router } = geometry;
  const from = [router.x + router.width, router.y + router.height / 2];
  const lately = geometry.rows.map(({ replica }) => model.sentBetween(replica, t - span * 0.05, t) ?? 0);
  const sum = Math.max(1, lately.reduce((total, n) => total + n, 0));
  const now = model.loads[model.at(t)];
  geometry.rows.forEach((row, i) => {
    const to = [row.nameX - 12, row.middle];
    const up = now?.[row.replica]?.up ?? true;
    const middle = (from[0] + to[0]) / 2;
    ctx.beginPath();
    ctx.moveTo(...from);
    ctx.bezierCurveTo(middle, from[1], middle, to[1], ...to);
    ctx.strokeStyle = up ? theme.queue : theme.waste;
    ctx.globalAlpha = up ? 0.35 + 0.5 * (lately[i] / sum) : 0.8;
    ctx.lineWidth = 1 + 5 * (lately[i] / sum);
    if (!up) ctx.setLineDash([4, 4]);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.globalAlpha = 1;
    if (!up) cross(ctx, ...curvePoint(from, to, 0.82), 4, theme.waste);
    if (!calm) paintFlight(ctx, model, row.replica, t, span * FLIGHT, (s) => curvePoint(from, to, s), theme);
  });
}

/** A dot for each request sent within the last flight time, as far as it has come. */
function paintFlight(ctx, model, replica, t, flight, point, theme) {
  ctx.fillStyle = theme.decode;
  let drawn = 0;
  for (let i = model.at(t); i > 0 && model.times[i] > t - flight && drawn < MOST_DOTS; i--) {
    const [a, b] = [model.loads[i - 1][replica].sent, model.loads[i][replica].sent];
    const count = a === null || b === null ? 0 : b - a;
    for (let k = 0; k < count && drawn < MOST_DOTS; k++, drawn++) {
      const at = model.times[i - 1] + ((k + 0.5) / count) * (model.times[i] - model.times[i - 1]);
      const s = (t - at) / flight;
      if (s <= 0 || s >= 1) continue;
      ctx.beginPath();
      ctx.arc(...point(s), 3, 0, 7);
      ctx.fill();
    }
  }
}

/** A replica's name, state and figures at a tick. */
export function paintReplica(ctx, row, model, load, { theme, chosen, wide, names }) {
  const { nameX, x0 } = row;
  const name = names ? `${row.replica} · ${model.header.names[row.replica]}` : String(row.replica);
  if (chosen) {
    ctx.fillStyle = theme.panel;
    ctx.fillRect(wide ? nameX - 8 : 0, row.top, row.x1 - (wide ? nameX - 8 : 0), row.height - 4);
  }
  if (!names && row.height < 24 && row.replica % Math.ceil(22 / row.height)) return;
  const y = wide && names ? row.middle - 15 : row.top + (names ? 10 : row.height / 2 - 1);
  ctx.font = font(12, 650);
  const room = (wide ? x0 - nameX : row.x1) - 30;
  text(ctx, fitted(ctx, name, room), nameX, y, { size: names ? 12 : 10, weight: chosen ? 750 : 650, color: theme.ink });
  if (!load || !names) return;
  const words = load.up
    ? `${known(load.running)} running · ${known(load.waiting)} waiting`
    : "down";
  const second = wide ? row.middle + 3 : row.top + 26;
  const across = text(ctx, words, nameX, second, { size: 11.5, weight: load.up ? 400 : 650, color: load.up ? theme.ink2 : theme.wasteText });
  if (row.height >= 60 || !wide) paintKv(ctx, wide ? nameX : nameX + across + 18, wide ? row.middle + 20 : row.top + 26, load, theme);
}

function known(value) {
  return value === null ? "n/a" : whole(value);
}

function paintKv(ctx, x, y, load, theme) {
  if (!load.up) return;
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  roundRect(ctx, x + 0.5, y - 4.5, 70, 9, 2.5);
  ctx.stroke();
  if (load.kv !== null) {
    ctx.fillStyle = theme.decode;
    roundRect(ctx, x + 0.5, y - 4.5, Math.max(1, 70 * load.kv), 9, 2.5);
    ctx.fill();
  }
  text(ctx, `KV ${load.kv === null ? "n/a" : percent(load.kv)}`, x + 78, y + 0.5, { size: 11, color: theme.ink3 });
}

/** A replica's load over time: running in blue, waiting stacked in grey, down hatched. */
export function paintStrip(ctx, row, model, scale, { theme, hatch, limit, ratio, lost }) {
  const { stripTop: top, stripBottom: bottom } = row;
  const y = (n) => bottom - (n / limit) * (bottom - top);
  const first = Math.max(0, model.at(scale.v0));
  const each = Math.max(1, Math.floor((model.times.length - first) / (2 * (scale.x1 - scale.x0))));
  const running = [];
  const both = [];
  for (let i = first; i < model.times.length && model.times[i] <= scale.v1; i += each) {
    const load = model.loads[i][row.replica];
    const x = scale.x(model.times[i]);
    running.push([x, y(load.running ?? 0)]);
    both.push([x, y((load.running ?? 0) + (load.waiting ?? 0))]);
  }
  if (running.length > 1) {
    for (const [points, fill, alpha] of [[both, theme.queue, 0.4], [running, theme.bg, 1], [running, theme.decodeSoft, 1]]) {
      ctx.globalAlpha = alpha;
      ctx.fillStyle = fill;
      ctx.beginPath();
      ctx.moveTo(points[0][0], bottom);
      for (const [px, py] of points) ctx.lineTo(px, py);
      ctx.lineTo(points[points.length - 1][0], bottom);
      ctx.fill();
    }
    ctx.globalAlpha = 1;
    for (const [points, color] of [[both, theme.queue], [running, theme.decode]]) {
      ctx.strokeStyle = color;
      ctx.lineWidth = 1.2;
      ctx.beginPath();
      points.forEach(([px, py], i) => (i ? ctx.lineTo(px, py) : ctx.moveTo(px, py)));
      ctx.stroke();
    }
  }
  const slots = model.header.slots?.[row.replica];
  if (slots && slots <= limit) {
    ctx.strokeStyle = theme.ink3;
    ctx.lineWidth = 0.7;
    ctx.setLineDash([2, 3]);
    line(ctx, scale.x0, y(slots), scale.x1, y(slots));
    ctx.setLineDash([]);
    if (row.height >= 40) text(ctx, whole(slots), scale.x0 - 5, y(slots), { size: 9.5, color: theme.ink3, align: "right" });
  }
  paintDown(ctx, row, model, scale, { theme, hatch, lost });
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  line(ctx, scale.x0, bottom + 0.5, scale.x1, bottom + 0.5);
}

function paintDown(ctx, row, model, scale, { theme, hatch, lost }) {
  for (const [from, to] of model.downSpells(row.replica)) {
    const x = Math.max(scale.x0, scale.x(from));
    const wide = Math.max(2, Math.min(scale.x1, scale.x(to)) - x);
    if (wide <= 0 || x > scale.x1) continue;
    ctx.globalAlpha = theme.dark ? 0.2 : 0.08;
    ctx.fillStyle = theme.waste;
    ctx.fillRect(x, row.stripTop, wide, row.stripBottom - row.stripTop);
    ctx.globalAlpha = 1;
    ctx.fillStyle = hatch;
    ctx.fillRect(x, row.stripTop, wide, row.stripBottom - row.stripTop);
    if (row.height < 40) continue;
    const event = model.events.find((each) => each.replica === row.replica && each.kind === "fail" && Math.abs(each.t - from) <= lost);
    const words = event?.lost ? `down, ${whole(event.lost)} lost` : "down";
    ctx.font = font(11, 650);
    if (ctx.measureText(words).width + 12 > wide) continue;
    text(ctx, words, x + wide / 2, (row.stripTop + row.stripBottom) / 2, { size: 11, weight: 650, color: theme.wasteText, align: "center", halo: theme.bg });
  }
}

/** Axis and cursor under all strips. */
export function paintFoot(ctx, geometry, scale, cursor, width, theme) {
  timeAxis(ctx, theme, scale, geometry.axisY, ticks(scale.v0, scale.v1, scale.x1 - scale.x0), width < 480 ? "seconds" : "seconds since the first request");
  if (cursor === null || cursor < scale.v0 || cursor > scale.v1) return;
  const x = scale.x(cursor);
  cursorLine(ctx, theme, x, geometry.rows[0].stripTop - 3, geometry.axisY - 4, geometry.axisY);
  const flip = x > scale.x1 - 60;
  text(ctx, duration(cursor), x + (flip ? -6 : 6), geometry.axisY - 10, { size: 10.5, weight: 600, color: theme.ink2, halo: theme.bg, align: flip ? "right" : "left" });
}
