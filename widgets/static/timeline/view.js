// The view: one element of the page, its canvases, and what the reader does with them.

import { FONT, readTheme, watchTheme } from "../shared/theme.js";
import { locate, paintCard } from "./cursor.js";
import { buildDom } from "./dom.js";
import { bindKeys, bindPointer } from "./interact.js";
import { TINY, autoWindow, layout, timeScale } from "./layout.js";
import { LaneModel, chooseRows } from "./model.js";
import { paintOverlay } from "./overlay.js";
import { brushes, paintPanel } from "./paint.js";
import { stripLimit } from "./strip.js";
import { everySecond, showTexts } from "./words.js";

const MOST_ROWS = 256; // of more requests, those in the window, the newest first

export class TimelineView {
  constructor(model, el) {
    this.model = model;
    this.dom = buildDom(el, FONT);
    this.lanes = Array.from({ length: model.get("lanes") }, () => new LaneModel());
    this.mode = "requests";
    this.window = null; // [v0, v1] chosen by the reader; null: automatic
    this.pausedAt = null;
    this.cursor = null; // {lane, row, t, step, box}
    this.pinned = null; // request index
    this.shownLane = 0; // where only one panel fits
    this.drag = null;
    this.painted = null; // what the data layer holds: {key, until: [per lane]}
    this.texts = new Map(); // "lane:req:step" → {text, token}
    this.heard = performance.now();
    this.hellos = []; // per lane: when we said hello last, and the timer of the next one
    this.retries = [];
    this.stats = { frames: 0, full: 0, messages: 0, gaps: 0 };
    this.cleanup = [];
    this.retheme();
    this.bindModel();
    this.bindPage();
    bindPointer(this);
    bindKeys(this);
    this.refreshTexts();
    this.lanes.forEach((_, lane) => this.hello(lane));
  }

  // ── messages ──────────────────────────────────────────────────────────────────────────────

  bindModel() {
    const on = (name, call) => {
      this.model.on(name, call);
      this.cleanup.push(() => this.model.off(name, call));
    };
    on("msg:custom", (message, buffers) => this.receive(message, buffers));
    for (const name of ["headline", "subtitle", "titles", "subtitles", "notes", "stale_message", "frozen"]) {
      on(`change:${name}`, () => this.refreshTexts());
    }
    for (const name of ["height", "expected_requests"]) on(`change:${name}`, () => this.repaint());
  }

  /** Ask for what comes after the last step; at most every 300 ms, so that parts come at a pace. */
  hello(lane) {
    const wait = (this.hellos[lane] ?? -Infinity) + 300 - performance.now();
    if (wait > 0) {
      clearTimeout(this.retries[lane]);
      this.retries[lane] = setTimeout(() => this.hello(lane), wait);
      return;
    }
    this.hellos[lane] = performance.now();
    const { nextStep, nextEvent, stream } = this.lanes[lane];
    this.model.send({ hello: nextStep - 1, event: nextEvent, stream, lane });
  }

  receive(message, buffers) {
    this.heard = performance.now();
    if (message.kind === "text") {
      this.texts.set(`${message.lane}:${message.req}:${message.step}`, message);
      this.request();
      return;
    }
    const lane = this.lanes[message.lane];
    if (!lane || !buffers?.length) return;
    this.stats.messages += 1;
    const outcome = lane.apply(message, buffers[0]);
    if (outcome === "gap") this.stats.gaps += 1;
    const more = message.more && lane.nextStep === message.next_step;
    if (outcome === "gap" || more) this.hello(message.lane);
    if (message.header) this.refreshTexts();
    this.request();
  }

  // ── the page ──────────────────────────────────────────────────────────────────────────────

  bindPage() {
    const sizes = new ResizeObserver(() => this.repaint());
    sizes.observe(this.dom.figure);
    const stopTheme = watchTheme(() => this.retheme());
    const ticker = setInterval(() => everySecond(this), 1000);
    this.onRatio = () => this.repaint();
    window.addEventListener("resize", this.onRatio);
    this.cleanup.push(() => {
      sizes.disconnect();
      stopTheme();
      clearInterval(ticker);
      this.retries.forEach(clearTimeout);
      window.removeEventListener("resize", this.onRatio);
      cancelAnimationFrame(this.frame);
    });
    this.dom.pause.addEventListener("click", () => this.togglePause());
    this.dom.mode.addEventListener("click", () => this.toggleMode());
    this.dom.fit.addEventListener("click", () => this.setWindow(null));
    this.dom.lane.addEventListener("click", () => {
      this.shownLane = 1 - this.shownLane;
      this.repaint();
    });
  }

  destroy() {
    this.cleanup.forEach((call) => call());
    this.dom.root.remove();
  }

  retheme() {
    this.theme = readTheme(this.dom.root);
    for (const [name, value] of Object.entries(this.theme)) {
      if (typeof value === "string") this.dom.root.style.setProperty(`--mlt-${name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`, value);
    }
    this.brush = null;
    this.repaint();
  }

  refreshTexts() {
    showTexts(this);
    this.repaint();
  }

  // ── state in numbers ──────────────────────────────────────────────────────────────────────

  get titles() {
    return this.model.get("titles");
  }

  get running() {
    return this.lanes.some((lane) => lane.stepCount > 0 && !lane.done);
  }

  get limit() {
    return autoWindow(this.lanes.map((lane) => lane.now), false)[1];
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

  toggleMode() {
    this.mode = this.mode === "requests" ? "slots" : "requests";
    this.cursor = null;
    this.repaint();
  }

  // ── painting ──────────────────────────────────────────────────────────────────────────────

  repaint() {
    this.painted = null;
    this.request();
  }

  request() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  paint() {
    const { dom, model } = this;
    const width = Math.floor(dom.figure.clientWidth);
    if (width < 60) return;
    const one = width < TINY && this.lanes.length > 1;
    const ends = this.lanes.filter((lane) => lane.stepCount).map((lane) => lane.now);
    const [v0, v1] = this.window ?? autoWindow(ends.length ? ends : [0.5], this.running);
    const chosen = chooseRows(this.lanes, [v0, v1], MOST_ROWS, model.get("expected_requests"));
    const slots = (lane) => Array.from({ length: lane.slots.size }, (_, slot) => slot);
    const rows = this.lanes.map((lane) => (this.mode === "slots" ? slots(lane) : chosen));
    const shown = this.lanes.map((_, lane) => lane).filter((lane) => !one || lane === this.shownLane);
    const panels = shown.map((lane) => ({ lane, rows: Math.max(1, rows[lane].length) }));
    const geometry = layout({ width, panels, height: model.get("height") });
    const until = this.pausedAt ?? Infinity;
    const notes = model.get("notes");
    const marked = new Set(notes.filter((note) => note.mark).map((note) => note.req));
    if (this.pinned !== null) marked.add(this.pinned);
    this.geometry = geometry;
    this.scale = timeScale(v0, v1, geometry.x0, geometry.x1);
    this.rows = rows;
    this.resizeCanvases(geometry);
    this.paintData(geometry, rows, marked, until);
    paintOverlay(dom.over.getContext("2d"), {
      theme: this.theme, geometry, scale: this.scale, lanes: this.lanes, rows, mode: this.mode,
      titles: this.titles, subtitles: model.get("subtitles"), notes, marked, pinned: this.pinned,
      cursor: locate(this), drag: this.drag?.moved && !this.drag.scrub && !this.drag.pan ? this.drag : null, running: this.running,
      paused: this.pausedAt !== null, until, letterOf: (idx) => this.letterOf(idx),
    });
    this.paintTools(one);
    paintCard(this);
    this.stats.frames += 1;
  }

  resizeCanvases(geometry) {
    const ratio = window.devicePixelRatio || 1;
    const size = `${geometry.width}x${geometry.height}@${ratio}`;
    if (size === this.size && this.brush) return;
    for (const canvas of [this.dom.data, this.dom.over]) {
      canvas.width = Math.round(geometry.width * ratio);
      canvas.height = Math.round(geometry.height * ratio);
      canvas.style.width = `${geometry.width}px`;
      canvas.style.height = `${geometry.height}px`;
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.dom.figure.style.height = `${geometry.height}px`;
    this.brush = brushes(this.dom.data.getContext("2d"), this.theme, ratio);
    this.size = size;
    this.painted = null;
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
    dom.pause.hidden = !this.running && !paused;
    dom.pause.textContent = paused ? "Follow live" : "Pause";
    dom.mode.textContent = this.mode === "requests" ? "Show slots" : "Show requests";
    dom.mode.hidden = !this.lanes.some((lane) => lane.stepCount);
    dom.fit.hidden = this.window === null;
    dom.lane.hidden = !one;
    dom.lane.textContent = one ? `Show ${this.titles[1 - this.shownLane] || "the other run"}` : "";
  }
}

export default {
  render({ model, el }) {
    const view = new TimelineView(model, el);
    el.timelineView = view; // for tests and the console
    return () => view.destroy();
  },
};
