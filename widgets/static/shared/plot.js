// What charts share: marks of provenance, labels that keep out of each other's way, points to hover
// and to step through with keys.
//
// A subclass of Plot gives heightFor(width), draw(ctx, width, height), table() → [columns, rows],
// and fills this.points: [{key, group, x, y, card}], in the order in which keys step.

import { Figure } from "./figure.js";
import { text } from "./pen.js";
import { saveTools } from "./save.js";
import { font } from "./theme.js";

const NEAR_PX = 22; // how near the pointer must come to a point

// ── drawing ─────────────────────────────────────────────────────────────────────────────────────

/** A point: "measured" ●, "simulated" ◐, "published" ◇, "star" ★. */
export function mark(ctx, theme, kind, x, y, color, r = 4.5) {
  ctx.save();
  ctx.setLineDash([]);
  ctx.lineWidth = kind === "star" ? 3 : 1.7;
  ctx.strokeStyle = kind === "star" ? theme.bg : color;
  ctx.fillStyle = kind === "measured" || kind === "star" ? color : theme.bg;
  ctx.beginPath();
  if (kind === "published" || kind === "star") cornered(ctx, kind, x, y, r);
  else ctx.arc(x, y, r, 0, 2 * Math.PI);
  if (kind === "star") ctx.stroke();
  ctx.fill();
  if (kind !== "star" && kind !== "measured") ctx.stroke();
  if (kind === "simulated") {
    ctx.fillStyle = color;
    ctx.beginPath();
    ctx.arc(x, y, r, Math.PI / 2, 1.5 * Math.PI);
    ctx.fill();
  }
  ctx.restore();
}

function cornered(ctx, kind, x, y, r) {
  const [count, inner, radius] = kind === "published" ? [4, 1, r * 1.3] : [10, 0.44, r * 1.7];
  for (let i = 0; i < count; i++) {
    const length = radius * (i % 2 ? inner : 1);
    const angle = (2 * Math.PI * i) / count;
    ctx.lineTo(x + length * Math.sin(angle), y - length * Math.cos(angle));
  }
  ctx.closePath();
}

/** Labels that keep out of each other's way and inside the bounds. */
export class Labels {
  constructor(ctx, theme, [left, top, right, bottom]) {
    Object.assign(this, { ctx, theme, left, top, right, bottom, taken: [], lines: [] });
  }

  /** A line through [[x, y], …] that labels rather stay off. */
  avoid(places) {
    for (let i = 1; i < places.length; i++) {
      const [[x0, y0], [x1, y1]] = [places[i - 1], places[i]];
      const steps = Math.ceil(Math.hypot(x1 - x0, y1 - y0) / 6);
      for (let k = 0; k <= steps; k++) {
        const [x, y] = [x0 + ((x1 - x0) * k) / steps, y0 + ((y1 - y0) * k) / steps];
        this.lines.push([x - 1, y - 1, x + 1, y + 1]);
      }
    }
  }

  /** Keep a box free: [left, top, right, bottom]. */
  block(box) {
    this.taken.push(box);
  }

  /**
   * Write a label beside (x, y) where there is room; whether there was. places: which sides to try,
   * of "e w n s ne se nw sw"; gap: pixels from the point; force: write it even over something.
   */
  beside(string, x, y, { size = 11, weight = 400, color, gap = 9, places = "se ne e sw nw w s n", force = false }) {
    const { ctx } = this;
    ctx.font = font(size, weight);
    const wide = ctx.measureText(string).width;
    const boxes = places.split(" ").map((side) => {
      const left = side.includes("e") ? x + gap : side.includes("w") ? x - gap - wide : x - wide / 2;
      const diagonal = side.length > 1 ? gap : gap + size / 2;
      const middle = side.includes("s") ? y + diagonal : side.includes("n") ? y - diagonal : y;
      return [left - 2, middle - size * 0.65, left + wide + 2, middle + size * 0.65];
    });
    const inside = boxes.filter((each) => this.inside(each));
    const free = inside.filter((each) => this.isFree(each));
    const box = free.find((each) => this.isFree(each, this.lines)) ?? free[0] ?? (force ? inside[0] ?? boxes[0] : null);
    if (!box) return false;
    this.taken.push(box);
    text(ctx, string, box[0] + 2, (box[1] + box[3]) / 2, { size, weight, color: color ?? this.theme.ink2, halo: this.theme.bg });
    return true;
  }

  inside([left, top, right, bottom]) {
    return left >= this.left && right <= this.right && top >= this.top && bottom <= this.bottom;
  }

  isFree([left, top, right, bottom], boxes = this.taken) {
    return boxes.every((box) => right <= box[0] || left >= box[2] || bottom <= box[1] || top >= box[3]);
  }
}

// ── the figure ──────────────────────────────────────────────────────────────────────────────────

export class Plot extends Figure {
  /** options: as buildFigure's, and name: of the files it saves. */
  constructor(model, el, options) {
    super(model, el, options);
    this.points = [];
    this.chosen = null; // key of the point that the reader looks at
    this.kept = false; // … and that stays when the pointer leaves
    saveTools(this, options.name);
    this.bindPoints();
    this.bindKeys(this.keyActions());
  }

  get data() {
    return this.model.get("data");
  }

  get originBelow() {
    return true;
  }

  start(traits = []) {
    this.on("change:data", () => { this.heard = performance.now(); });
    super.start(["data", ...traits]);
  }

  receive(message) {
    if (message?.kind === "heartbeat") [this.heard, this.beats] = [performance.now(), true];
  }

  paint(ctx, width, height) {
    this.points = [];
    this.taken = [];
    this.draw(ctx, width, height);
    const point = this.points.find((each) => each.key === this.chosen);
    if (point) {
      ctx.strokeStyle = this.theme.ink;
      ctx.lineWidth = 1.6;
      ctx.beginPath();
      ctx.arc(point.x, point.y, 8.5, 0, 2 * Math.PI);
      ctx.stroke();
    }
    const around = this.points.map(({ x, y }) => [x - 7, y - 7, x + 7, y + 7]);
    this.showCard(point?.card ?? null, point?.x, point?.y, [...this.taken, ...around]);
  }

  // ── what the reader does ──────────────────────────────────────────────────────────────────

  bindPoints() {
    const { over } = this.dom;
    over.addEventListener("pointermove", (event) => {
      if (!this.kept) this.choose(this.nearest(...this.at(event))?.key ?? null);
    });
    over.addEventListener("pointerleave", () => { if (!this.kept) this.choose(null); });
    over.addEventListener("click", (event) => {
      const point = this.nearest(...this.at(event));
      this.kept = Boolean(point);
      this.choose(point?.key ?? null, true);
    });
  }

  nearest(x, y) {
    let best = null;
    for (const point of this.points) {
      const away = Math.hypot(point.x - x, point.y - y);
      if (away < NEAR_PX && (!best || away < best.away)) best = { ...point, away };
    }
    return best;
  }

  choose(key, aloud = false) {
    if (aloud) this.sayCard(this.points.find((point) => point.key === key)?.card);
    if (key === this.chosen) return;
    this.chosen = key;
    this.request();
  }

  keyActions() {
    return {
      ArrowRight: (far) => this.stepPoint(far),
      ArrowLeft: (far) => this.stepPoint(-far),
      ArrowDown: () => this.stepGroup(1),
      ArrowUp: () => this.stepGroup(-1),
      Home: () => this.stepPoint(-Infinity),
      End: () => this.stepPoint(Infinity),
      Escape: () => {
        this.kept = false;
        this.choose(null);
      },
    };
  }

  keep(point) {
    if (!point) return;
    this.kept = true;
    this.choose(point.key, true);
  }

  stepPoint(by) {
    const now = this.points.find((point) => point.key === this.chosen);
    if (!now) return this.keep(this.points[0]);
    const group = this.points.filter((point) => point.group === now.group);
    const to = Math.min(Math.max(group.indexOf(now) + by, 0), group.length - 1);
    return this.keep(group[to]);
  }

  stepGroup(by) {
    const now = this.points.find((point) => point.key === this.chosen);
    if (!now) return this.keep(this.points[0]);
    const groups = [...new Set(this.points.map((point) => point.group))];
    const to = Math.min(Math.max(groups.indexOf(now.group) + by, 0), groups.length - 1);
    const row = this.points.filter((point) => point.group === groups[to]);
    const away = (point) => Math.hypot(point.x - now.x, point.y - now.y);
    return this.keep(row.reduce((best, point) => (away(point) < away(best) ? point : best)));
  }
}
