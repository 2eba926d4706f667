// The queue's view: dots that move from arrival to the queue, to a slot, and out.

import { timeScale } from "../shared/axis.js";
import { Feed } from "../shared/feed.js";
import { Figure } from "../shared/figure.js";
import { count, duration, number3, whole } from "../shared/format.js";
import { LaneModel } from "../shared/lane.js";
import { text } from "../shared/pen.js";
import { Player } from "../shared/player.js";
import { font } from "../shared/theme.js";
import { RADIUS, dotPlaces, queueLayout } from "./layout.js";
import { DONE, QueueRun, SERVED, WAITING, spent, stateAt } from "./model.js";
import { paintDot, paintPanel, paintStage, sharedLimit } from "./paint.js";

const GLIDE_MS = 90; // a dot covers two thirds of its way in this time
const LEGEND = [["arriving", "still to arrive"], ["waits", "waits"], ["served", "in a slot"], ["left", "done"]];

export class QueueFigure extends Figure {
  constructor(model, el) {
    super(model, el, { label: "Queue", legend: LEGEND, keys: "← → arrival or end · Shift jumps 10 · Esc clears" });
    this.lanes = Array.from({ length: model.get("lanes") }, () => new LaneModel());
    this.feed = new Feed(this, this.lanes);
    this.runs = []; // per lane: {key, run}
    this.shownLane = 0;
    this.glide = new Map(); // request → {x, y} where its dot is now
    this.player = new Player(this, () => (this.over ? Math.max(...this.lanes.map((lane) => lane.now)) : null));
    this.bindPointer();
    this.bindKeys({
      ArrowRight: (far) => this.move(far), ArrowLeft: (far) => this.move(-far),
      Home: () => this.move(-Infinity), End: () => this.move(Infinity),
      ArrowDown: () => this.showLane(this.shownLane + 1), ArrowUp: () => this.showLane(this.shownLane - 1),
      " ": () => this.player.toggle(),
      Escape: () => this.link.keep({ t: null, req: null }),
    });
    this.start(["titles", "subtitles", "measure"]);
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
    return this.lanes.some((lane) => lane.nextEvent > 0 && !lane.done);
  }

  get over() {
    return !this.running && this.lanes.some((lane) => lane.nextEvent > 0);
  }

  headers() {
    return this.lanes.map((lane) => lane.header);
  }

  /** What a lane's run says, computed anew only when something came. */
  run(lane) {
    const model = this.lanes[lane];
    const key = `${model.stream}:${model.nextEvent}:${model.now}`;
    if (this.runs[lane]?.key !== key) this.runs[lane] = { key, run: new QueueRun(model) };
    return this.runs[lane].run;
  }

  /** The time of the scene: where the cursor is; else now, or of a run that is over its busiest moment. */
  get t() {
    return this.link.t ?? (this.over ? this.run(this.shownLane).busiest : this.lanes[this.shownLane].now);
  }

  showLane(lane) {
    if (lane < 0 || lane >= this.lanes.length || lane === this.shownLane) return;
    this.shownLane = lane;
    this.glide.clear();
    this.request();
    this.say(this.sentence());
  }

  // ── painting ──────────────────────────────────────────────────────────────────────────────

  heightFor(width) {
    const slots = Math.min(24, Math.max(...this.lanes.map((_, lane) => this.run(lane).slots)));
    this.geometry = queueLayout({ width, slots, lanes: this.lanes.length });
    return this.geometry.height;
  }

  paint(ctx, width) {
    this.player.show();
    const { theme, geometry, t } = this;
    const run = this.run(this.shownLane);
    const found = run.scene(t);
    const { places, more } = dotPlaces(geometry, found);
    this.places = places;
    const title = this.lanes.length > 1 ? this.titleOf(this.shownLane) : "Arriving";
    paintStage(ctx, geometry, { theme, found, more, title, slots: run.slots });
    this.moveDots(places);
    for (const [idx, place] of places) {
      const at = this.glide.get(idx);
      paintDot(ctx, { ...place, x: at.x, y: at.y }, { theme, t, selected: this.link.req });
    }
    this.paintPanels(ctx, width);
    this.paintCard();
  }

  /** Let the dots glide towards their places; ask for more frames while one still moves. */
  moveDots(places) {
    const now = performance.now();
    const passed = Math.min(100, now - (this.lastMove ?? now));
    this.lastMove = now;
    const part = this.calm ? 1 : 1 - Math.exp(-passed / GLIDE_MS);
    let moving = false;
    for (const [idx, { x, y }] of places) {
      const at = this.glide.get(idx) ?? { x, y };
      at.x += (x - at.x) * part;
      at.y += (y - at.y) * part;
      if (Math.hypot(x - at.x, y - at.y) > 0.4) moving = true;
      else Object.assign(at, { x, y });
      this.glide.set(idx, at);
    }
    for (const idx of this.glide.keys()) if (!places.has(idx)) this.glide.delete(idx);
    this.moving = moving;
    if (moving) this.request();
    else this.lastMove = undefined;
  }

  paintPanels(ctx) {
    const { theme, geometry, model } = this;
    const measure = model.get("measure");
    const runs = this.lanes.map((_, lane) => this.run(lane));
    const limit = sharedLimit(runs, measure);
    const end = Math.max(0.05, ...runs.map((run) => run.now));
    const what = measure === "waiting" ? "Requests waiting over time" : "In the system over time";
    const scaleWords = this.lanes.length > 1 ? "; one shared scale" : "";
    ctx.font = font(13, 650);
    const caption = ctx.measureText(what + scaleWords).width > geometry.width ? what : what + scaleWords;
    const wide = text(ctx, caption, 0, geometry.captionY, { size: 13, weight: 650, color: theme.ink });
    if (this.over && this.link.t === null) this.tellMoment(ctx, geometry, geometry.width - wide - 20);
    this.scales = geometry.panels.map((panel) => timeScale(0, end, panel.x0, panel.x1));
    geometry.panels.forEach((panel, lane) => {
      paintPanel(ctx, panel, runs[lane], this.scales[lane], {
        theme, measure, limit, title: this.titleOf(lane), inScene: this.lanes.length > 1 && lane === this.shownLane, aside: model.get("subtitles")[lane] || "",
        cursor: this.link.t ?? (this.over && lane === this.shownLane ? this.t : null), done: this.lanes[lane].done && runs[lane].requests.length > 0,
      });
    });
  }

  /** Which moment of a run that is over the scene shows, as far as there is room to say it. */
  tellMoment(ctx, geometry, room) {
    const at = `${this.titleOf(this.shownLane)} at ${duration(this.t)}`;
    ctx.font = font(11.5);
    const words = [`shown above: ${at}, its longest queue`, `above: ${at}`].find((each) => ctx.measureText(each).width <= room);
    if (words) text(ctx, words, geometry.width, geometry.captionY, { size: 11.5, color: this.theme.ink3, align: "right" });
  }

  titleOf(lane) {
    return this.model.get("titles")[lane] || this.lanes[lane].header?.policy || `Run ${lane + 1}`;
  }

  // ── card, words ───────────────────────────────────────────────────────────────────────────

  dotAt([x, y]) {
    for (const [idx, place] of this.places ?? []) {
      if (Math.hypot(place.x - x, place.y - y) <= RADIUS + 2) return { idx, ...place };
    }
    return null;
  }

  paintCard() {
    const dot = this.pointer && !this.scrubbing && this.dotAt(this.pointer);
    if (!dot) {
      this.showCard(null);
      return;
    }
    const { scene } = this.geometry;
    this.showCard(dotContent(dot.request, this.t), dot.x, dot.y, [[0, scene.top, this.geometry.width, scene.bottom]]);
  }

  sentence() {
    const run = this.run(this.shownLane);
    if (!run.requests.length) return "Nobody has arrived yet.";
    const { waiting, served, done } = run.scene(this.t);
    return `${this.titleOf(this.shownLane)}, at ${duration(this.t)}: ${whole(waiting.length)} waiting, ${whole(served.length)} of ${count(run.slots, "slot")} taken, ${whole(done.length)} done.`.replaceAll("\u2009", " ");
  }

  describe() {
    const parts = this.lanes.map((_, lane) => {
      const figures = this.run(lane).figures();
      if (!figures) return `${this.titleOf(lane)}: nobody has arrived yet.`;
      return `${this.titleOf(lane)}: ${count(figures.count, "request")}, ${number3(figures.mean)} in the system on average, each for ${duration(figures.stay)}, of that ${duration(figures.wait)} waiting.`;
    });
    return `Queue. ${[this.model.get("headline"), ...parts, this.sentence()].filter(Boolean).join(" ")}`.replaceAll("\u2009", " ").replaceAll("\n", " ");
  }

  // ── what the reader does ──────────────────────────────────────────────────────────────────

  bindPointer() {
    const { over } = this.dom;
    const panelAt = ([x, y]) => this.geometry?.panels.findIndex((panel) => y > panel.top - 8 && y < panel.bottom + 20 && x >= panel.x0 - 6 && x <= panel.x1 + 6) ?? -1;
    const scrub = (lane, x) => {
      const scale = this.scales[lane];
      this.link.keep({ t: Math.max(0, scale.t(Math.min(Math.max(x, scale.x0), scale.x1))) });
    };
    over.addEventListener("pointermove", (event) => {
      this.pointer = this.at(event);
      if (this.scrubbing !== undefined && this.scrubbing !== null) scrub(this.scrubbing, this.pointer[0]);
      this.request();
    });
    over.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      over.focus({ preventScroll: true });
      const place = this.at(event);
      const lane = panelAt(place);
      if (lane >= 0) {
        this.scrubbing = lane;
        this.shownLane = lane;
        over.setPointerCapture(event.pointerId);
        scrub(lane, place[0]);
        return;
      }
      const dot = this.dotAt(place);
      this.link.keep({ req: dot && dot.idx !== this.link.req ? dot.idx : null });
    });
    const stop = () => { this.scrubbing = null; };
    over.addEventListener("pointerup", stop);
    over.addEventListener("pointercancel", stop);
    over.addEventListener("pointerleave", () => {
      this.pointer = null;
      this.request();
    });
  }

  /** To the next instant at which somebody comes, starts or leaves. */
  move(by) {
    const { times } = this.run(this.shownLane);
    if (!times.length) return;
    let at = times.findIndex((t) => t >= this.t - 1e-12);
    if (at < 0) at = times.length;
    if (by > 0 && times[at] !== undefined && times[at] > this.t + 1e-12) at -= 1;
    const next = Math.min(Math.max(at + by, 0), times.length - 1);
    this.link.keep({ t: Math.max(0, times[next]) });
    this.say(this.sentence());
  }
}

/** What a dot's card says at time t. */
export function dotContent(request, t) {
  const found = stateAt(request, t);
  const state = { [WAITING]: "waits", [SERVED]: "in a slot", [DONE]: "done" }[found?.state] ?? "still to arrive";
  const lines = [["Arrives", duration(request.arrive)]];
  if (found) {
    lines.push(["Waited", duration(spent(request, WAITING, t))]);
    if (found.state !== WAITING || request.preempts.length) lines.push(["In a slot", duration(spent(request, SERVED, t))]);
  }
  if (request.maxTokens) lines.push(["Wants", `${count(request.maxTokens, "token")} at most`]);
  if (found?.state === DONE) lines.push(["Left", `${duration(request.end)} (${request.reason || request.ended})`]);
  return { letter: request.letter, preview: request.preview, state, lines };
}

export default {
  render({ model, el }) {
    const view = new QueueFigure(model, el);
    el.figureView = view; // for tests and the console
    return () => view.destroy();
  },
};
