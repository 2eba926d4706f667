// The view: one element of the page, its canvases, and what the reader does with them.

import { Feed } from "../shared/feed.js";
import { Figure, TINY_FIGURE } from "../shared/figure.js";
import { timeScale } from "../shared/axis.js";
import { locate, paintCard } from "./cursor.js";
import { addTimelineParts } from "./dom.js";
import { bindPointer, timelineKeys } from "./interact.js";
import { autoWindow, layout } from "./layout.js";
import { LaneModel, chooseRows } from "../shared/lane.js";
import { nameRoom, paintOverlay } from "./overlay.js";
import { brushes, paintPanel } from "./paint.js";
import { peopleRows } from "./people.js";
import { LEGEND, progress, summary } from "./words.js";
import { stripLimit } from "./strip.js";

const MODES = { requests: "requests", slots: "slots", people: "names" };
const PERSON = 15.5; // px a row of names
const PEOPLE = 640; // px for all of them
const KEYS = "← → step · Shift jumps 10 · Home End · Esc clears";

export class TimelineView extends Figure {
  constructor(model, el) {
    super(model, el, { label: "Batch timeline", legend: LEGEND, keys: KEYS });
    addTimelineParts(this);
    this.lanes = Array.from({ length: model.get("lanes") }, () => new LaneModel());
    this.dom.root.classList.toggle("mlt-two", this.lanes.length > 1);
    this.feed = new Feed(this, this.lanes);
    this.modes = model.get("by_name") ? ["people", "requests", "slots"] : ["requests", "slots"];
    this.mode = this.modes[0];
    this.window = null; // [v0, v1] chosen by the reader; null: automatic
    this.pausedAt = null;
    this.cursor = null; // {lane, row, t, step, box}
    this.shownLane = 0; // where only one panel fits
    this.drag = null;
    this.painted = null; // what the data layer holds: {key, until: [per lane]}
    this.texts = new Map(); // "lane:req:step" → {text, token}
    bindPointer(this);
    this.bindKeys(timelineKeys(this));
    this.start(["titles", "subtitles", "notes", "height", "expected_requests", "veil"]);
    this.feed.hello();
  }

  receive(message, buffers) {
    if (message.kind === "text") {
      this.texts.set(`${message.lane}:${message.req}:${message.step}`, message);
      this.request();
    } else {
      this.feed.receive(message, buffers);
    }
  }

  destroy() {
    this.feed.destroy();
    super.destroy();
  }

  // ── words ─────────────────────────────────────────────────────────────────────────────────

  headers() {
    return this.lanes.map((lane) => lane.header);
  }

  finding() {
    return this.model.get("headline") || progress(this);
  }

  describe() {
    return summary(this);
  }

  everySecond() {
    super.everySecond();
    const over = !this.running && this.lanes.some((lane) => lane.stepCount);
    if (over && !this.saidOver) this.say(summary(this));
    this.saidOver = over;
    const follows = this.running && !this.window && this.pausedAt === null && this.scale;
    // A time that was pointed at has left a live view: the views that share it are live again too.
    if (follows && this.link.t !== null && this.link.t < this.scale.v0) this.link.keep({ t: null });
  }

  // ── state in numbers ──────────────────────────────────────────────────────────────────────

  get titles() {
    return this.model.get("titles");
  }

  /** The highlighted request, in this view or another: an index, or null. */
  get pinned() {
    return this.link?.req ?? null;
  }

  get running() {
    return this.lanes.some((lane) => lane.stepCount > 0 && !lane.done);
  }

  get limit() {
    return autoWindow(this.lanes.map((lane) => lane.now), false)[1];
  }

  /** Another view, or the kernel, points at a time: our cursor goes there. */
  pointed() {
    const t = this.link?.t ?? null;
    if (t !== (this.cursor?.t ?? null)) {
      this.cursor = t === null ? null : { lane: this.cursor?.lane ?? this.shownLane, row: null, t };
    }
    this.request();
  }

  setWindow(window) {
    this.window = window;
    this.request();
  }

  togglePause() {
    this.pausedAt = this.pausedAt === null ? Math.max(...this.lanes.map((lane) => lane.now)) : null;
    if (this.pausedAt === null) this.window = null;
    else this.window ??= this.scale ? [this.scale.v0, this.scale.v1] : null;
    this.repaint();
  }

  get nextMode() {
    return this.modes[(this.modes.indexOf(this.mode) + 1) % this.modes.length];
  }

  toggleMode() {
    this.mode = this.nextMode;
    this.cursor = null;
    this.repaint();
  }

  // ── painting ──────────────────────────────────────────────────────────────────────────────

  repaint() {
    this.painted = null;
    super.repaint();
  }

  paintAll(width) {
    const { dom, model } = this;
    const one = width < TINY_FIGURE && this.lanes.length > 1;
    const ends = this.lanes.filter((lane) => lane.stepCount).map((lane) => lane.now);
    const [v0, v1] = this.window ?? autoWindow(ends.length ? ends : [0.5], this.running, model.get("span_s"));
    const rows = this.chosenRows([v0, v1]);
    const shown = this.lanes.map((_, lane) => lane).filter((lane) => !one || lane === this.shownLane);
    const panels = shown.map((lane) => ({ lane, rows: Math.max(1, rows[lane].length) }));
    const people = this.mode === "people";
    const names = people ? nameRoom(dom.over.getContext("2d"), rows.flat(), width) : undefined;
    const tall = people ? Math.min(PERSON * panels[0].rows, PEOPLE) : null;
    const geometry = layout({ width, panels, height: model.get("height") ?? tall, names });
    const until = this.pausedAt ?? Infinity;
    const notes = model.get("notes");
    const marked = new Set(notes.filter((note) => note.mark).map((note) => note.req));
    if (this.pinned !== null) marked.add(this.pinned);
    this.geometry = geometry;
    this.scale = timeScale(v0, v1, geometry.x0, geometry.x1);
    this.rows = rows;
    if (this.resizeCanvases([dom.data, dom.over], geometry.width, geometry.height) || !this.brush) {
      this.brush = brushes(dom.data.getContext("2d"), this.theme, this.ratio);
      this.painted = null;
    }
    this.paintData(geometry, rows, marked, until);
    paintOverlay(dom.over.getContext("2d"), {
      theme: this.theme, geometry, scale: this.scale, lanes: this.lanes, rows, mode: this.mode,
      titles: this.titles, subtitles: model.get("subtitles"), notes, marked, pinned: this.pinned,
      cursor: locate(this), drag: this.drag?.moved && !this.drag.scrub && !this.drag.pan ? this.drag : null, running: this.running,
      veil: model.get("veil"), paused: this.pausedAt !== null, until, letterOf: (idx) => this.letterOf(idx),
    });
    this.paintTools(one);
    paintCard(this);
  }

  /** What each lane's rows are: request indices, slots, or people's rows. */
  chosenRows(window) {
    if (this.mode === "people") return this.lanes.map((lane) => peopleRows(lane, window));
    if (this.mode === "slots") return this.lanes.map((lane) => Array.from({ length: lane.slots.size }, (_, slot) => slot));
    const chosen = chooseRows(this.lanes, window, this.model.get("most_rows"), this.model.get("expected_requests"));
    return this.lanes.map(() => chosen);
  }

  /** The data layer: all of it when anything but time has changed, else the new edge only. */
  paintData(geometry, rows, marked, until) {
    const ctx = this.dom.data.getContext("2d");
    const { scale } = this;
    const streams = this.lanes.map((lane) => [lane.stream, lane.base, stripLimit(lane), lane.done]);
    const key = JSON.stringify([geometry, scale.v0, scale.v1, rows, [...marked], this.mode, until === Infinity ? 0 : until, streams]);
    const whole = this.painted?.key !== key;
    if (whole) {
      ctx.clearRect(0, 0, geometry.width, geometry.height);
      this.painted = { key, until: this.lanes.map(() => -Infinity) };
      this.stats.full += 1;
    }
    if (!whole && this.pausedAt !== null) return;
    for (const panel of geometry.panels) {
      const lane = this.lanes[panel.lane];
      const from = whole ? scale.v0 : this.painted.until[panel.lane];
      paintPanel(ctx, {
        panel, lane, rows: rows[panel.lane], mode: this.mode, scale, brush: this.brush,
        from: Math.max(scale.v0, from), to: whole ? scale.v1 : lane.now + 4 / scale.factor, until, marked,
      });
      // The last step again next time: its end, ticks and dead rows come with what follows.
      this.painted.until[panel.lane] = lane.t0[lane.stepCount - 2] ?? -Infinity;
    }
  }

  letterOf(idx) {
    for (const lane of this.lanes) {
      const known = lane.requests.get(idx);
      if (known) return known.letter;
    }
    return "";
  }

  paintTools(one) {
    const { dom } = this;
    const paused = this.pausedAt !== null;
    // Only what is new: rewritten in every frame, buttons stood empty after a time off screen.
    const say = (button, words) => button.textContent !== words && (button.textContent = words);
    dom.pause.hidden = !this.running && !paused;
    say(dom.pause, paused ? "Follow live" : "Pause");
    say(dom.mode, `Show ${MODES[this.nextMode]}`);
    dom.mode.hidden = !this.lanes.some((lane) => lane.stepCount);
    dom.fit.hidden = this.window === null;
    dom.lane.hidden = !one;
    say(dom.lane, one ? `Show ${this.titles[1 - this.shownLane] || "the other run"}` : "");
  }
}

export default {
  render({ model, el }) {
    const view = new TimelineView(model, el);
    el.figureView = view; // for tests and the console
    return () => view.destroy();
  },
};
