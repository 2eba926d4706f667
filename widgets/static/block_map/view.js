// The block map's view: which step it shows, what the pointer and the keys do.

import { timeScale } from "../shared/axis.js";
import { Feed } from "../shared/feed.js";
import { Figure } from "../shared/figure.js";
import { count, duration, whole } from "../shared/format.js";
import { fitted, arrowHead, line, text } from "../shared/pen.js";
import { Player } from "../shared/player.js";
import { font } from "../shared/theme.js";
import { SMALL, blockAt, blockLayout } from "./layout.js";
import { BlockLane } from "./model.js";
import { dots, paintBars, paintMap, paintUse } from "./paint.js";

const BEFORE = 7; // steps: the first of the three frames
const MANY_OWNERS = 6; // more at once are not told apart by hue
const LEGEND = [
  ["owned", "held by one request, filled by its tokens"],
  ["shared", "shared prefix, read by several"],
  ["hit", "found by a prefix in this step"],
  ["taken", "given back when preempted"],
  ["cached", "cached, can be evicted"],
  ["free", "free"],
];

export class BlockMapView extends Figure {
  constructor(model, el) {
    super(model, el, { label: "KV blocks", legend: LEGEND, keys: "← → step · Shift jumps 10 · ↑ ↓ request · Esc clears" });
    this.lane = new BlockLane();
    this.feed = new Feed(this, [this.lane]);
    this.pointer = null;
    this.player = new Player(this, () => (this.lane.done && this.lane.stepCount ? this.lane.now : null));
    this.bindPointer();
    this.bindKeys({
      ArrowRight: (far) => this.move(far), ArrowLeft: (far) => this.move(-far),
      Home: () => this.move(-Infinity), End: () => this.move(Infinity),
      ArrowDown: () => this.select(1), ArrowUp: () => this.select(-1),
      " ": () => this.player.toggle(),
      Escape: () => this.link.keep({ t: null, req: null }),
    });
    this.start(["notes", "colors"]);
    this.feed.hello();
  }

  receive(message, buffers) {
    this.feed.receive(message, buffers);
  }

  destroy() {
    this.feed.destroy();
    super.destroy();
  }

  get running() {
    return this.lane.stepCount > 0 && !this.lane.done;
  }

  headers() {
    return [this.lane.header];
  }

  letterOf = (req) => this.lane.requests.get(req)?.letter ?? "?";

  /** The step shown: at the cursor; else the newest of a run, the told one of a run that is over. */
  get shown() {
    const { lane, link } = this;
    if (!lane.stepCount) return null;
    const told = this.model.get("notes")?.[0]?.t;
    const t = link.t ?? (lane.done && told !== undefined ? told : lane.now);
    return lane.stepAt(t) ?? lane.base;
  }

  get state() {
    const { shown } = this;
    return shown === null ? this.lane.before : this.lane.stateAt(shown);
  }

  // ── painting ──────────────────────────────────────────────────────────────────────────────

  geometryFor(width) {
    const { lane } = this;
    this.story = lane.done && [...lane.requests.values()].some((request) => request.preempts.length);
    const slots = lane.maxRows ?? lane.slots.size;
    const numBlocks = lane.numBlocks || 48; // room for the usual, until it is known
    return blockLayout({ width, numBlocks, owners: Math.max(slots, 1) + 1, story: this.story });
  }

  heightFor(width) {
    this.geometry = this.geometryFor(width);
    return this.geometry.height;
  }

  paint(ctx, width) {
    const { lane, geometry, theme, state, shown } = this;
    this.player.show();
    const busy = new Set([...state.tables.keys(), ...state.taken.values()]).size;
    const colors = this.model.get("colors");
    this.look = {
      theme, dots: (this.brush ??= dots(ctx, theme.ink3, this.ratio)), selected: this.link.req,
      soft: colors === "soft" || (colors !== "owners" && (this.running || busy > MANY_OWNERS)), letterOf: this.letterOf,
    };
    if (!lane.numBlocks) {
      text(ctx, "KV pool: nothing has run yet", 0, 9, { size: 13, weight: 650, color: theme.ink3 });
      return;
    }
    this.paintTitle(ctx, width, state, shown);
    paintMap(ctx, geometry.map, state, this.look);
    if (geometry.bars) paintBars(ctx, geometry.bars, state, this.look);
    if (geometry.frames && shown !== null) this.paintFrames(ctx, shown);
    const end = Math.max(0.001, lane.now) * (this.running ? 1.02 : 1);
    this.scale = timeScale(0, end, geometry.strip.x0, geometry.strip.x1);
    const cursor = this.link.t ?? (this.running || shown === null ? null : lane.step(shown).t0);
    paintUse(ctx, geometry.strip, lane, this.scale, { ...this.look, width, cursor: cursor !== null && cursor <= end ? cursor : null });
    this.paintCard();
  }

  /** In a narrow figure the sentence takes the place of bars and frames. */
  paintTitle(ctx, width, state, shown) {
    const { theme, lane, geometry } = this;
    const right = geometry.map.grid.width;
    const title = `KV pool, ${whole(lane.numBlocks)} blocks of ${lane.blockSize} tokens`;
    const wide = text(ctx, title, 0, 9, { size: 13, weight: 650, color: theme.ink });
    if (shown === null) return;
    const at = `step ${whole(shown)}, ${duration(lane.step(shown).t0, true)}`;
    const use = `${whole(state.numUsed)} in use, ${whole(state.cached.size)} cached, ${whole(state.numFree)} free`;
    ctx.font = font(11.5);
    const words = width < SMALL ? at : `${use} · ${at}`;
    text(ctx, fitted(ctx, words, right - wide - 14), right, 9.5, { size: 11.5, color: theme.ink3, align: "right" });
    if (width < SMALL) text(ctx, use, 0, geometry.map.y + geometry.map.grid.height + 14, { size: 11.5, color: theme.ink2 });
  }

  paintFrames(ctx, shown) {
    const { lane, geometry, theme } = this;
    const first = Math.max(lane.base, shown - BEFORE);
    const last = Math.min(lane.base + lane.stepCount - 1, shown + 1);
    const names = [`${count(shown - first, "step")} before`, "This step", last > shown ? "Next step" : "The last step"];
    [first, shown, last].forEach((number, i) => {
      const frame = geometry.frames[i];
      const state = lane.stateAt(number);
      const wide = text(ctx, names[i], frame.x, frame.y - 16, { size: 12, weight: 650, color: theme.ink });
      ctx.font = font(11);
      const words = fitted(ctx, `step ${whole(number)} · ${whole(state.numFree + state.cached.size)} to be had`, frame.grid.width - wide - 10);
      text(ctx, words, frame.x + frame.grid.width, frame.y - 16, { color: theme.ink3, align: "right" });
      paintMap(ctx, frame, state, this.look);
      if (i === 0) return;
      const y = frame.y + frame.grid.height / 2;
      const before = geometry.frames[i - 1];
      ctx.strokeStyle = theme.ink3;
      ctx.lineWidth = 1;
      line(ctx, before.x + before.grid.width + 12, y, frame.x - 12, y);
      arrowHead(ctx, frame.x - 12, y, -5);
    });
    lane.stateAt(shown); // the one asked for next
  }

  // ── card ──────────────────────────────────────────────────────────────────────────────────

  paintCard() {
    const { pointer, geometry, lane } = this;
    const block = pointer && blockAt(geometry, lane.numBlocks, ...pointer);
    if (block === null || block === undefined) {
      this.showCard(null);
      return;
    }
    const { x, y, grid } = geometry.map;
    const row = Math.floor(block / grid.columns);
    const column = block % grid.columns;
    const left = x + column * (grid.cell + grid.gap) + grid.cell / 2;
    const top = y + row * (grid.high + grid.gap);
    const taken = [[0, top - grid.high, grid.width, top + 2 * grid.high]];
    this.showCard(blockContent(this.state, block, lane), left, top + grid.high / 2, taken);
  }

  // ── what the reader does ──────────────────────────────────────────────────────────────────

  bindPointer() {
    const { over } = this.dom;
    let scrubbing = false;
    const scrub = (x) => {
      const t = this.scale.t(Math.min(Math.max(x, this.scale.x0), this.scale.x1));
      this.link.keep({ t: Math.max(0, t) });
    };
    const onStrip = (y) => this.scale && y > this.geometry.strip.top - 14;
    over.addEventListener("pointermove", (event) => {
      this.pointer = this.at(event);
      if (scrubbing) scrub(this.pointer[0]);
      this.request();
    });
    over.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !this.geometry) return;
      over.focus({ preventScroll: true });
      const [x, y] = this.at(event);
      if (onStrip(y)) {
        scrubbing = true;
        over.setPointerCapture(event.pointerId);
        scrub(x);
        return;
      }
      const block = blockAt(this.geometry, this.lane.numBlocks, x, y);
      const held = block === null ? [] : this.state.owners().get(block) ?? [];
      const at = held.findIndex(({ req }) => req === this.link.req);
      this.link.keep({ req: held[at + 1]?.req ?? null }); // again: the next owner, then nobody
    });
    over.addEventListener("pointerup", () => { scrubbing = false; });
    over.addEventListener("pointercancel", () => { scrubbing = false; });
    over.addEventListener("pointerleave", () => {
      this.pointer = null;
      this.request();
    });
  }

  move(by) {
    const { lane, shown } = this;
    if (shown === null) return;
    const last = lane.base + lane.stepCount - 1;
    const step = lane.step(Math.min(Math.max(shown + by, lane.base), last));
    this.link.keep({ t: (step.t0 + step.t1) / 2 });
    this.say(this.sentence());
  }

  /** The next request that holds blocks, in order; past the last, nobody. */
  select(by) {
    const holders = [...this.state.tables.keys()].sort((a, b) => a - b);
    const at = holders.indexOf(this.link.req);
    const next = at < 0 ? (by > 0 ? 0 : holders.length - 1) : at + by;
    this.link.keep({ req: holders[next] ?? null });
    this.say(this.sentence());
  }

  sentence() {
    const { lane, state, shown } = this;
    if (shown === null) return "Nothing has run yet.";
    const parts = [`Step ${shown}: ${whole(state.numUsed)} of ${count(lane.numBlocks, "block")} in use, ${whole(state.cached.size)} cached, ${whole(state.numFree)} free.`];
    const table = state.tables.get(this.link.req);
    if (table) parts.push(`${this.letterOf(this.link.req)} holds ${count(table.length, "block")} for ${count(state.computed.get(this.link.req) ?? 0, "token")}.`);
    for (const req of new Set(state.taken.values())) {
      const given = [...state.taken.values()].filter((each) => each === req).length;
      parts.push(`${this.letterOf(req)} was preempted and gave ${count(given, "block")} back.`);
    }
    return parts.join(" ");
  }

  describe() {
    const finding = [this.model.get("headline"), this.model.get("lead")].filter(Boolean).join(" ").replaceAll("\n", " ");
    return `KV blocks. ${finding ? `${finding} ` : ""}${this.sentence()}`;
  }
}

/** What a block's card says: {state, lines}. */
export function blockContent(state, block, lane) {
  const held = state.owners().get(block) ?? [];
  const letterOf = (req) => lane.requests.get(req)?.letter ?? "?";
  const lines = [];
  if (held.length) {
    lines.push([held.length > 1 ? "Shared by" : "Held by", held.map(({ req }) => letterOf(req)).join(", ")]);
    const { place } = held[0];
    lines.push(["Tokens filled", `${state.filled(held)} of ${state.blockSize}`]);
    lines.push(["Holds tokens", `${whole(place * state.blockSize)}–${whole((place + 1) * state.blockSize - 1)}`, held.length > 1 ? "of each" : `of ${letterOf(held[0].req)}`]);
  }
  if (state.hits.has(block)) lines.push(["In this step", `found by ${letterOf(state.hits.get(block))}’s prefix`]);
  if (state.evicted.has(block)) lines.push(["In this step", "evicted: what it cached is gone"]);
  if (state.taken.has(block)) lines.push(["In this step", `taken back from ${letterOf(state.taken.get(block))}`]);
  const what = held.length > 1 ? `shared by ${held.length}` : held.length ? "in use" : state.cached.has(block) ? "cached, can be evicted" : "free";
  return { letter: "", preview: "", state: `Block ${whole(block)} · ${what}`, lines };
}

export default {
  render({ model, el }) {
    const view = new BlockMapView(model, el);
    el.figureView = view; // for tests and the console
    return () => view.destroy();
  },
};
