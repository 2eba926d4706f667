// Cells, owners' bars and the use over time of a block map.

import { lastAtOrBefore, ticks } from "../shared/axis.js";
import { count, whole } from "../shared/format.js";
import { cross, cursorLine, fitted, line, roundRect, text, timeAxis } from "../shared/pen.js";
import { font } from "../shared/theme.js";
import { cellBox } from "./layout.js";

// Six owners' hues (a 24 % fill, a full edge, an ink letter): never vermilion, never the purple of
// preemption. On dark ground the first two are lighter.
const OWNERS = ["#0072B2", "#009E73", "#56B4E9", "#7D8896", "#8C6BB1", "#D9A100"];
const OWNERS_DARK = ["#3F9FDC", "#2BC49A", "#8CCBF2", "#96A1AE", "#AE93D0", "#E3B53A"];

export function ownerHue(theme, req) {
  return (theme.dark ? OWNERS_DARK : OWNERS)[req % OWNERS.length];
}

/** A dotted tile: content that nobody holds but a prefix may still hit. */
export function dots(ctx, color, ratio) {
  const size = Math.round(6 * ratio);
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.fillStyle = color;
  pen.beginPath();
  pen.arc(size / 2, size / 2, 0.75 * ratio, 0, 7);
  pen.fill();
  const pattern = ctx.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

/**
 * All cells of a state. look: {theme, dots, soft: others soft and the selected solid, selected,
 * letterOf, letters: whether there is room for any}.
 */
export function paintMap(ctx, { x, y, grid }, state, look) {
  const owners = state.owners();
  for (let block = 0; block < state.numBlocks; block++) {
    const box = cellBox(grid, block, x, y);
    const held = owners.get(block);
    if (held) paintHeld(ctx, box, state, block, held, look, grid);
    else if (state.taken.has(block)) paintTaken(ctx, box, state.taken.get(block), look, grid);
    else paintEmpty(ctx, box, state.cached.has(block), look, grid);
    if (held && state.taken.has(block) && grid.letters) corner(ctx, box, look.theme);
  }
}

function paintHeld(ctx, box, state, block, held, look, grid) {
  const { theme } = look;
  const chosen = look.selected !== null && held.some(({ req }) => req === look.selected);
  const radius = grid.letters ? Math.min(5, box[3] / 5) : 1;
  const hit = state.hits.has(block);
  if (held.length > 1) paintShared(ctx, box, held.length, { chosen, hit, look, grid, radius });
  else {
    const hue = ownerHue(theme, held[0].req);
    const fill = chosen || hit ? theme.decode : look.soft ? theme.decodeSoft : hue;
    roundRect(ctx, ...box, radius);
    ctx.save();
    if (grid.letters) ctx.clip();
    ctx.globalAlpha = chosen || hit || look.soft ? 1 : grid.letters ? 0.24 : 0.7;
    if (look.selected !== null && !chosen && !look.soft) ctx.globalAlpha *= 0.5;
    const share = state.filled(held) / state.blockSize; // a last block is filled as far as it is
    ctx.fillStyle = fill;
    if (grid.letters) ctx.fillRect(box[0], box[1], Math.max(2, box[2] * share), box[3]);
    else ctx.fill();
    ctx.restore();
    ctx.globalAlpha = 1;
    if (grid.letters) {
      ctx.strokeStyle = chosen || hit || look.soft ? theme.decode : hue;
      ctx.lineWidth = look.soft && !chosen ? 0.8 : 1.5;
      if (look.soft && !chosen) ctx.strokeStyle = theme.dark ? theme.line : theme.decodeSoft;
      roundRect(ctx, box[0] + 0.75, box[1] + 0.75, box[2] - 1.5, box[3] - 1.5, radius);
      ctx.stroke();
    }
    const solid = (chosen || hit) && share > 0.5;
    letter(ctx, box, look.letterOf(held[0].req), solid ? theme.onDecode : look.soft ? theme.ink2 : theme.ink, grid);
  }
}

/** Held by several: drawn once, a double outline and how many. */
function paintShared(ctx, box, owners, { chosen, hit, look, grid, radius }) {
  const { theme } = look;
  const [x, y, w, h] = box;
  roundRect(ctx, x, y, w, h, radius);
  ctx.fillStyle = chosen || hit ? theme.decode : theme.panel;
  ctx.fill();
  if (!grid.letters) {
    ctx.fillStyle = theme.ink;
    ctx.fillRect(x + 1, y + 1, w - 2, h - 2);
    return;
  }
  ctx.strokeStyle = theme.ink;
  ctx.lineWidth = 1.5;
  roundRect(ctx, x + 0.75, y + 0.75, w - 1.5, h - 1.5, radius);
  ctx.stroke();
  ctx.lineWidth = 0.8;
  const inset = w > 40 ? 4 : 3;
  roundRect(ctx, x + inset, y + inset, w - 2 * inset, h - 2 * inset, Math.max(1, radius - 2));
  ctx.stroke();
  const color = chosen || hit ? theme.onDecode : theme.ink;
  if (w > 52 && h > 34) {
    text(ctx, "shared", x + w / 2, y + h / 2 - 6, { size: 10, weight: 650, color, align: "center" });
    text(ctx, `×${owners}`, x + w / 2, y + h / 2 + 8, { size: 11, color: chosen || hit ? color : theme.ink2, align: "center" });
  } else letter(ctx, box, w > 22 ? `×${owners}` : "S", color, grid);
}

/** Just given back by a preempted request: dashed purple, its letter, a ✕. */
function paintTaken(ctx, box, req, look, grid) {
  const { theme } = look;
  const [x, y, w, h] = box;
  ctx.strokeStyle = theme.pre;
  if (!grid.letters) {
    ctx.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    return;
  }
  roundRect(ctx, x + 0.75, y + 0.75, w - 1.5, h - 1.5, Math.min(5, h / 5));
  ctx.globalAlpha = 0.12;
  ctx.fillStyle = theme.prefill;
  ctx.fill();
  ctx.globalAlpha = 1;
  ctx.lineWidth = 1.4;
  ctx.setLineDash([4, 3]);
  ctx.stroke();
  ctx.setLineDash([]);
  letter(ctx, box, look.letterOf(req), theme.ink2, grid);
  corner(ctx, box, theme);
}

function corner(ctx, [x, y, w], theme) {
  if (w > 26) cross(ctx, x + w - 8, y + 8, 3.4, theme.pre, 1.7);
}

function paintEmpty(ctx, box, cached, look, grid) {
  const { theme } = look;
  const [x, y, w, h] = box;
  if (!grid.letters) {
    ctx.fillStyle = cached ? theme.line : theme.grid;
    ctx.fillRect(x, y, w, h);
    return;
  }
  roundRect(ctx, x + 0.5, y + 0.5, w - 1, h - 1, Math.min(5, h / 5));
  ctx.strokeStyle = cached ? theme.ink3 : theme.line;
  ctx.lineWidth = 0.8;
  if (cached) {
    ctx.fillStyle = look.dots;
    ctx.fill();
    ctx.setLineDash([2, 2]);
  }
  ctx.stroke();
  ctx.setLineDash([]);
}

function letter(ctx, [x, y, w, h], string, color, grid) {
  if (!grid.letters || w < 12) return;
  const size = w > 40 ? 13 : w > 22 ? 10 : 8;
  text(ctx, string, x + w / 2, y + h / 2 + 0.5, { size, weight: 650, color, align: "center" });
}

/** Who holds the pool: the part shared with others outlined, the own part filled. */
export function paintBars(ctx, bars, state, look) {
  const { theme } = look;
  text(ctx, "Who holds the pool", bars.x, 9, { size: 13, weight: 650, color: theme.ink });
  const owners = state.owners();
  const taken = new Map();
  for (const req of state.taken.values()) taken.set(req, (taken.get(req) ?? 0) + 1);
  const rows = [...new Set([...state.tables.keys(), ...taken.keys()])].sort((a, b) => a - b);
  const held = (req) => state.tables.get(req)?.length ?? taken.get(req) ?? 0;
  const room = bars.width - 118;
  const unit = room / Math.max(8, ...rows.map(held));
  const shown = rows.slice(0, rows.length > bars.most ? bars.most - 1 : bars.most);
  shown.forEach((req, row) => {
    const y = bars.y + row * bars.pitch + bars.pitch / 2;
    const chosen = req === look.selected;
    text(ctx, look.letterOf(req), bars.x, y + 0.5, { size: 12, weight: chosen ? 750 : 600, color: theme.ink });
    const table = state.tables.get(req) ?? [];
    const shared = table.filter((block) => owners.get(block).length > 1).length;
    const own = held(req) - shared;
    const x = bars.x + 26;
    if (shared) {
      ctx.strokeStyle = theme.ink;
      ctx.lineWidth = 1.2;
      roundRect(ctx, x, y - 7, Math.max(4, shared * unit), 14, 2.5);
      ctx.stroke();
    }
    if (own) bar(ctx, x + shared * unit, y, Math.max(3, own * unit), { theme, req, chosen, soft: look.soft, gone: !table.length });
    const words = table.length ? whole(table.length) : `${whole(own)} given back`;
    text(ctx, words, x + held(req) * unit + 8, y + 0.5, { size: 11.5, weight: table.length ? 450 : 650, color: table.length ? theme.ink2 : theme.preText });
  });
  const y = bars.y + shown.length * bars.pitch + 12;
  if (rows.length > shown.length) text(ctx, `and ${count(rows.length - shown.length, "more request")}`, bars.x + 26, y, { color: theme.ink3 });
  else if (!rows.length) text(ctx, "nobody", bars.x, bars.y + 12, { size: 12, color: theme.ink3 });
  else if ([...owners.values()].some((each) => each.length > 1)) text(ctx, "outlined: shared, counted once in the pool", bars.x + 26, y, { color: theme.ink3 });
}

function bar(ctx, x, y, width, { theme, req, chosen, soft, gone }) {
  const hue = soft || chosen ? theme.decode : ownerHue(theme, req);
  roundRect(ctx, x + 0.75, y - 6.5, width, 13, 2.5);
  ctx.globalAlpha = gone ? 0.12 : chosen ? 1 : 0.28;
  ctx.fillStyle = gone ? theme.prefill : hue;
  ctx.fill();
  ctx.globalAlpha = 1;
  ctx.strokeStyle = gone ? theme.pre : hue;
  ctx.lineWidth = 1.4;
  if (gone) ctx.setLineDash([4, 3]);
  ctx.stroke();
  ctx.setLineDash([]);
}

/** Blocks in use over time, cached ones dotted above, the pool's size dashed, preemptions ✕. */
export function paintUse(ctx, strip, lane, scale, { theme, dots: pattern, width, letterOf, cursor }) {
  const { top, bottom } = strip;
  const limit = Math.max(1, lane.numBlocks);
  const y = (blocks) => bottom - (blocks / limit) * (bottom - top);
  text(ctx, "Blocks over time", 0, top - 24, { size: 13, weight: 650, color: theme.ink });
  text(ctx, whole(limit), strip.x0 - 8, top + 1, { size: 10, color: theme.ink3, align: "right" });
  text(ctx, "0", strip.x0 - 8, bottom - 1, { size: 10, color: theme.ink3, align: "right" });
  const used = stepPath(lane, scale, (i) => lane.kvUsed[i], y);
  const both = stepPath(lane, scale, (i) => lane.kvUsed[i] + lane.cachedCount[i], y);
  for (const [path, fill] of [[both, pattern], [used, theme.bg], [used, theme.decodeSoft]]) {
    if (!path.length) continue;
    area(ctx, path, bottom);
    ctx.fillStyle = fill;
    ctx.fill();
  }
  ctx.strokeStyle = theme.decode;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  used.forEach(([px, py], i) => (i ? ctx.lineTo(px, py) : ctx.moveTo(px, py)));
  ctx.stroke();
  ctx.strokeStyle = theme.ink3;
  ctx.lineWidth = 0.8;
  ctx.setLineDash([2, 3]);
  line(ctx, strip.x0, top - 0.5, strip.x1, top - 0.5);
  ctx.setLineDash([]);
  paintPreemptions(ctx, strip, lane, scale, theme, letterOf);
  if (cursor !== null) cursorLine(ctx, theme, scale.x(cursor), top - 4, bottom + 4, bottom + 6);
  const caption = width < 480 ? "seconds" : "seconds since the first request";
  timeAxis(ctx, theme, scale, bottom + 6, ticks(scale.v0, scale.v1, scale.x1 - scale.x0), caption);
}

function stepPath(lane, scale, value, y) {
  const points = [];
  const first = Math.max(0, lastAtOrBefore(lane.t0, scale.v0));
  const each = Math.max(1, Math.floor((lane.stepCount - first) / 4000));
  for (let i = first; i < lane.stepCount; i += each) {
    const x0 = Math.max(scale.x0, scale.x(lane.t0[i]));
    const x1 = Math.min(scale.x1, scale.x(lane.t0[Math.min(i + each, lane.stepCount - 1)] ?? lane.t1[i]));
    points.push([x0, y(value(i))], [Math.max(x0, i + each < lane.stepCount ? x1 : scale.x(lane.t1[lane.stepCount - 1])), y(value(i))]);
  }
  return points;
}

function area(ctx, points, bottom) {
  ctx.beginPath();
  ctx.moveTo(points[0][0], bottom);
  for (const [x, y] of points) ctx.lineTo(x, y);
  ctx.lineTo(points[points.length - 1][0], bottom);
  ctx.closePath();
}

function paintPreemptions(ctx, strip, lane, scale, theme, letterOf) {
  let free = -Infinity; // labels don't overlap: a later one that finds no room is left out
  const all = [...lane.requests.values()].flatMap((request) => request.preempts.map(({ t }) => [t, request.idx]));
  for (const [t, idx] of all.sort((a, b) => a[0] - b[0])) {
    const x = scale.x(t);
    if (x < strip.x0 || x > strip.x1) continue;
    ctx.strokeStyle = theme.pre;
    ctx.lineWidth = 1;
    line(ctx, x, strip.top, x, strip.bottom);
    cross(ctx, x, strip.top, 3.6, theme.pre);
    ctx.font = font(11, 600);
    const words = fitted(ctx, `${letterOf(idx)} preempted`, strip.x1 - x - 8);
    if (!words || x < free) continue;
    const wide = text(ctx, words, x + 8, strip.top - 10, { weight: 600, color: theme.preText, halo: theme.bg });
    free = x + wide + 20;
  }
}
