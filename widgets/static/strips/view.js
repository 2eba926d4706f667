// The strip chart: strips over the time axis of the timeline above it, following its cursor.

import { ticks, timeScale } from "../shared/axis.js";
import { element } from "../shared/dom.js";
import { Feed } from "../shared/feed.js";
import { Figure, NARROW_FIGURE } from "../shared/figure.js";
import { duration } from "../shared/format.js";
import { cursorLine, text, timeAxis } from "../shared/pen.js";
import { saveTools } from "../shared/save.js";
import { autoWindow } from "../timeline/layout.js";
import { StripGroup, stripValue } from "./group.js";
import { STRIP_PITCH, paintOneStrip } from "./paint.js";

const AXIS_TALL = 44;
const TOP = 6;

export class StripView extends Figure {
  constructor(model, el) {
    super(model, el, { label: "Strips over time", keys: "← → sample · Shift jumps 10 · Home End · Esc clears" });
    this.groups = [new StripGroup(), new StripGroup()];
    this.feed = new Feed(this, this.groups);
    this.dom.missing = element(this.dom.bottom, "div", "mls-missing");
    const { over } = this.dom;
    over.addEventListener("pointermove", (event) => this.hover(this.at(event)[0]));
    over.addEventListener("pointerleave", () => this.link.unhover());
    over.addEventListener("click", (event) => this.link.keep({ t: this.timeAt(this.at(event)[0]) }));
    saveTools(this, "strips");
    const move = (by) => this.step(by);
    this.bindKeys({
      ArrowRight: move, ArrowLeft: (far) => move(-far), Home: () => move(-Infinity), End: () => move(Infinity),
      Escape: () => this.link.keep({ t: null }),
    });
    this.cleanup.push(() => this.feed.destroy());
    this.start(["strips", "missing", "header"]);
    this.feed.hello();
  }

  receive(message, buffers) {
    this.feed.receive(message, buffers);
  }

  get running() {
    const [engine] = this.groups;
    return engine.t.length > 0 && !engine.done;
  }

  headers() {
    return [this.model.get("header")];
  }

  get strips() {
    return this.model.get("strips");
  }

  refreshTexts() {
    super.refreshTexts();
    const parts = this.model.get("missing").map(([reason, labels]) => `${labels.join(", ")}: n/a (${reason})`);
    this.dom.missing.textContent = parts.join(" · ");
  }

  // ── painting ──────────────────────────────────────────────────────────────────────────────

  heightFor() {
    return TOP + Math.max(1, this.strips.length) * STRIP_PITCH + AXIS_TALL + 12;
  }

  paint(ctx, width, height) {
    const { theme } = this;
    const narrow = width < NARROW_FIGURE;
    const [x0, x1] = [34, narrow ? width - 8 : width - 150];
    const end = Math.max(...this.groups.map((group) => group.now));
    const scale = timeScale(...autoWindow([end || 0.5], this.running, this.model.get("span_s")), x0, x1);
    this.scale = scale;
    if (!this.strips.length) text(ctx, "Nothing has run yet.", x0, 20, { size: 12, color: theme.ink3 });
    const { t } = this.link;
    this.strips.forEach((strip, i) => {
      const group = this.groups[strip.group];
      const index = t === null ? group.t.length - 1 : group.at(t);
      paintOneStrip(ctx, theme, { strip, group, top: TOP + i * STRIP_PITCH, scale, right: narrow ? null : x1 + 14, index, clip: end });
    });
    const y = TOP + Math.max(1, this.strips.length) * STRIP_PITCH;
    const caption = narrow ? "seconds" : "seconds since the first request";
    timeAxis(ctx, theme, scale, y, ticks(scale.v0, scale.v1, x1 - x0), caption);
    if (t !== null && t >= scale.v0 && t <= scale.v1) {
      cursorLine(ctx, theme, scale.x(t), TOP + 12, y, y);
      text(ctx, duration(t), scale.x(t) + 6, y - 8, { size: 10.5, weight: 600, color: theme.ink, halo: theme.bg });
    }
  }

  // ── the cursor ────────────────────────────────────────────────────────────────────────────

  timeAt(x) {
    const { scale } = this;
    return scale ? Math.min(Math.max(scale.t(Math.min(Math.max(x, scale.x0), scale.x1)), 0), Math.max(...this.groups.map((each) => each.now))) : null;
  }

  hover(x) {
    if (this.scale && x >= this.scale.x0 - 6 && x <= this.scale.x1 + 6) this.link.hover({ t: this.timeAt(x) });
    else this.link.unhover();
  }

  /** One sample of the engine on or back. */
  step(by) {
    const [engine] = this.groups;
    if (!engine.t.length) return;
    const last = engine.t.length - 1;
    const now = this.link.t === null ? -1 : engine.at(this.link.t);
    const to = Math.min(Math.max(now + by, 0), last);
    const from = engine.t[to - 1] ?? engine.t[to];
    this.link.keep({ t: Math.max(0, (from + engine.t[to]) / 2 - engine.origin) });
    this.say(this.sentence());
  }

  sentence() {
    const { t } = this.link;
    const parts = this.strips.map((strip) => {
      const group = this.groups[strip.group];
      const index = t === null ? group.t.length - 1 : group.at(t);
      return `${strip.label}: ${stripValue(group.value(index, strip.index), strip.unit)}`;
    });
    return `At ${duration(t ?? this.groups[0].now)}. ${parts.join(". ")}.`.replaceAll("\u2009", " ");
  }

  /** A row a sample of the engine's; the machine's figures are those that held then. */
  table() {
    const [engine] = this.groups;
    const rows = engine.t.map((t, i) => {
      const at = t - engine.origin;
      return [at, ...this.strips.map(({ group, index }) => (
        this.groups[group].value(group === 0 ? i : this.groups[group].at(at), index)
      ))];
    });
    return [["t_s", ...this.strips.map((strip) => strip.key)], rows];
  }

  describe() {
    if (!this.strips.length) return "Strips over time. Nothing has run yet.";
    const missing = this.dom.missing.textContent;
    return `Strips over time. ${this.model.get("headline")} ${this.sentence()}${missing ? ` Not read: ${missing}.` : ""}`;
  }
}

export default {
  render({ model, el }) {
    const view = new StripView(model, el);
    el.figureView = view; // for tests and the console
    return () => view.destroy();
  },
};
