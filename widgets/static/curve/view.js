// The throughput curve: a chart that grows point by point, its tables beside it.

import { element, toolButton } from "../shared/dom.js";
import { number3, plain } from "../shared/format.js";
import { TINY_FIGURE } from "../shared/figure.js";
import { Plot } from "../shared/plot.js";
import { logRange, plotScale } from "../shared/scale.js";
import { sweetSpot } from "./findings.js";
import { paintFrame, paintLimit, paintLines, verdict } from "./paint.js";
import { paintTables } from "./tables.js";

const GRAB_PX = 7; // how near the limit the pointer grabs it
const TOLD_MS = 250; // the kernel hears of a dragged limit at most this often
const FOOT = 62; // px: axis, caption, and the tools at its left
const TINY_FOOT = 96; // … under it

function footOf(width) {
  return width < TINY_FIGURE ? TINY_FOOT : FOOT;
}

export class CurveView extends Plot {
  constructor(model, el) {
    super(model, el, {
      label: "Throughput against time per token", name: "throughput-curve",
      keys: "← → point · ↑ ↓ line · + − limit · Esc",
    });
    const row = element(this.dom.root, "div", "mlc-row");
    this.dom.root.insertBefore(row, this.dom.bottom);
    row.append(this.dom.figure);
    this.dom.side = element(row, "div", "mlc-side");
    this.slo = model.get("slo_ms");
    this.on("change:slo_ms", () => {
      if (this.grabbed) return;
      this.slo = model.get("slo_ms");
      this.refreshTexts();
    });
    toolButton(this.dom, "Clear limit", () => this.setLimit(null)).classList.add("mlc-clear");
    this.bindLimit();
    this.start();
  }

  get running() {
    return Boolean(this.beats) && this.data.lines.some((line) => !line.done);
  }

  headers() {
    const { lines, published } = this.data;
    const named = (provenance) => {
      const some = lines.filter((line) => line.provenance === provenance && line.points.length);
      const details = [...new Set(some.map((line) => line.detail).filter(Boolean))].join("; ");
      const device = [some.map((line) => line.name).join(", "), details].filter(Boolean).join(", ");
      return some.length ? { provenance, device } : null;
    };
    const sources = published.length ? { provenance: "published", device: "source in the card" } : null;
    return [named("measured"), named("simulated"), sources];
  }

  heightFor(width) {
    return Math.round(Math.min(Math.max(width * 0.58, 300), 560)) - 6 + footOf(width);
  }

  scales(width, height) {
    const points = [...this.data.lines.flatMap((line) => line.points), ...this.data.published];
    const ms = points.flatMap((point) => point.ms_range ?? [point.ms]);
    const tok = points.flatMap((point) => point.tok_range ?? [point.tok_s]);
    if (this.slo !== null && ms.length) ms.push(this.slo);
    const left = 62;
    return [
      plotScale(...logRange(ms, 1.12), left, width - 8, true),
      plotScale(...logRange(tok, 1.6), height - footOf(width), 24, true),
    ];
  }

  draw(ctx, width, height) {
    const { data, theme, slo } = this;
    const [x, y] = this.scales(width, height);
    this.x = x;
    paintLimit(ctx, theme, x, y, slo, this.grabbed);
    paintFrame(ctx, theme, x, y, width < 620);
    const found = paintLines(ctx, theme, { data, slo, x, y });
    this.points = found.map((one) => ({
      key: one.published ? `published:${one.published.name}` : `${one.series.key}:${one.point.load}`,
      group: one.published ? "published" : one.series.key, x: one.x, y: one.y, card: this.cardOf(one),
    }));
    this.dom.root.classList.toggle("mlc-unlimited", slo === null);
    paintTables(this.dom.side, data, slo);
  }

  cardOf({ series: line, point, published }) {
    if (published) {
      return {
        letter: "", state: published.name, preview: "",
        lines: [["ms per token", `${number3(published.ms)}\u2009ms`], ["tokens per second", number3(published.tok_s)], ["published", "", published.source]],
      };
    }
    const users = line.load_name === "rate" ? [] : [["tok/s per user", number3(1000 / point.ms)]];
    const spread = point.runs > 1 ? `${point.ms_range.map(number3).join(" to ")}\u2009ms` : "";
    return {
      letter: "", state: `${line.name} · ${line.load_name} ${plain(point.load)}`, preview: "",
      lines: [
        ["ms per token", `${number3(point.ms)}\u2009ms`, spread],
        ...(point.p99_ms === null ? [] : [["p99", `${number3(point.p99_ms)}\u2009ms`]]),
        ["tok/s, all users", number3(point.tok_s)], ...users,
        [line.provenance, `${point.runs} ${point.runs === 1 ? "run" : "runs"}`, verdict(point, this.slo)],
      ],
    };
  }

  // ── the limit ─────────────────────────────────────────────────────────────────────────────

  bindLimit() {
    const { over } = this.dom;
    const near = (event) => this.slo !== null && this.x && Math.abs(this.at(event)[0] - this.x.at(this.slo)) < GRAB_PX;
    over.addEventListener("pointerdown", (event) => {
      if (!near(event) || this.nearest(...this.at(event))) return;
      this.grabbed = true;
      over.setPointerCapture(event.pointerId);
    });
    over.addEventListener("pointermove", (event) => {
      over.style.cursor = this.grabbed || near(event) ? "ew-resize" : "";
      if (this.grabbed) this.setLimit(this.x.value(Math.min(Math.max(this.at(event)[0], this.x.start), this.x.end)));
    });
    const drop = () => {
      if (!this.grabbed) return;
      this.grabbed = false;
      this.tellLimit();
      this.request();
    };
    over.addEventListener("pointerup", drop);
    over.addEventListener("pointercancel", drop);
    this.cleanup.push(() => clearTimeout(this.teller));
  }

  keyActions() {
    const move = (factor) => (far) => this.setLimit((this.slo ?? this.middle()) * factor ** far, true);
    return { ...super.keyActions(), "+": move(1.05), "=": move(1.05), "-": move(1 / 1.05) };
  }

  middle() {
    return this.x ? Math.sqrt(this.x.low * this.x.high) : 30;
  }

  setLimit(limit, aloud = false) {
    this.slo = limit === null ? null : Number(limit.toPrecision(3));
    if (aloud) this.say(this.limitSentence());
    this.request();
    this.teller ??= setTimeout(() => this.tellLimit(), TOLD_MS);
  }

  tellLimit() {
    clearTimeout(this.teller);
    this.teller = null;
    this.model.set("slo_ms", this.slo);
    this.model.save_changes();
  }

  limitSentence() {
    const parts = this.data.lines.filter((line) => line.points.length).map((line) => {
      const spot = sweetSpot(line, this.slo);
      return `${line.name}: ${spot ? `${line.load_name} ${plain(spot.point.load)}, ${number3(spot.point.tok_s)} tokens per second` : "no load keeps it"}`;
    });
    return `Limit ${number3(this.slo)} ms per token. ${parts.join(". ")}.`;
  }

  // ── words ─────────────────────────────────────────────────────────────────────────────────

  describe() {
    const parts = this.data.lines.filter((line) => line.points.length).map((line) => {
      const [first, last] = [line.points[0], line.points[line.points.length - 1]];
      return `${line.name}, ${line.provenance}: from ${number3(first.tok_s)} tokens per second at ${number3(first.ms)} ms to ${number3(last.tok_s)} at ${number3(last.ms)} ms`;
    });
    return `Throughput against time per token. ${this.model.get("headline")} ${parts.join(". ")}.`;
  }

  table() {
    const rows = this.data.lines.flatMap((line) => line.points.map((point) => [
      line.name, line.load_name, point.load, point.ms, point.ms_range[0], point.ms_range[1], point.p99_ms,
      point.tok_s, point.tok_range[0], point.tok_range[1], point.runs, line.provenance, line.detail,
    ]));
    const sources = this.data.published.map((one) => [one.name, "", "", one.ms, "", "", "", one.tok_s, "", "", "", "published", one.source]);
    return [["line", "load_name", "load", "ms", "ms_min", "ms_max", "p99_ms", "tok_s", "tok_s_min", "tok_s_max", "runs", "provenance", "detail"], [...rows, ...sources]];
  }
}

export default {
  render({ model, el }) {
    const view = new CurveView(model, el);
    el.figureView = view; // for tests and the console
    return () => view.destroy();
  },
};
