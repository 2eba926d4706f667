// Histograms of TTFT, ITL and E2E: side by side, a row a run, on shared axes.

import { toolButton } from "../shared/dom.js";
import { duration, whole } from "../shared/format.js";
import { text } from "../shared/pen.js";
import { Plot } from "../shared/plot.js";
import { axisSpan, flooredShare } from "./bars.js";
import { METRIC_NAMES, headLayout, paintHistogram, panelTall, tallestRoot } from "./paint.js";

const GAP_WIDE = 34;
const COLUMN_LEAST = 220; // px: narrower, and the metrics stand below each other
const LANE_HEAD = 26;

export class HistogramView extends Plot {
  constructor(model, el) {
    super(model, el, { label: "Histograms of latency", name: "latencies", keys: "← → bar · ↑ ↓ chart · Esc" });
    this.button = toolButton(this.dom, "", () => {
      model.set("scale", this.log ? "linear" : "log");
      model.save_changes();
    });
    this.start(["scale"]);
  }

  get log() {
    return this.model.get("scale") === "log";
  }

  headers() {
    return this.data.lanes.map((lane) => lane.header);
  }

  refreshTexts() {
    super.refreshTexts();
    this.button.textContent = this.log ? "Linear axis" : "Log axis";
  }

  get names() {
    const some = Object.keys(METRIC_NAMES).filter((name) => this.data.lanes.some((lane) => lane.metrics[name].n));
    return some.length ? some : ["ttft", "itl", "e2e"];
  }

  /** {columns, wide: px of each, head: layout of the figures, tall: of a panel}. */
  grid(width) {
    const { names, data } = this;
    const most = names.length;
    const columns = (width - GAP_WIDE * (most - 1)) / most >= COLUMN_LEAST ? most : 1;
    const wide = (width - GAP_WIDE * (columns - 1)) / columns;
    const head = headLayout(this.dom.over.getContext("2d"), data.lanes, names, data.slo_ms, wide);
    return { columns, wide, head, tall: panelTall(head) };
  }

  get laneHead() {
    return this.data.lanes.length > 1 ? LANE_HEAD : 0;
  }

  heightFor(width) {
    const { columns, tall } = this.grid(width);
    const rows = Math.ceil(this.names.length / columns);
    return this.data.lanes.length * (rows * tall + this.laneHead) + 34;
  }

  draw(ctx, width) {
    const { data, theme, log, names } = this;
    const { columns, wide, head, tall } = this.grid(width);
    const perDecade = data.per_decade;
    let top = 0;
    data.lanes.forEach((lane, number) => {
      if (this.laneHead) text(ctx, lane.title || `Run ${number + 1}`, 0, top + 12, { size: 14, weight: 650, color: theme.ink });
      names.forEach((name, i) => {
        const limit = data.slo_ms[name] === undefined ? null : data.slo_ms[name] / 1000;
        const span = axisSpan(data.lanes, name, limit, log, perDecade);
        const place = {
          lane, name, span, log, limit, head, wide, perDecade, left: (i % columns) * (wide + GAP_WIDE),
          top: top + this.laneHead + Math.floor(i / columns) * tall,
          tallest: span && tallestRoot(data.lanes, name, span, log, wide, perDecade),
        };
        const bars = paintHistogram(ctx, theme, place);
        this.pointAt(bars, lane, number, name);
      });
      top += this.laneHead + Math.ceil(names.length / columns) * tall;
    });
  }

  pointAt(bars, lane, number, name) {
    const { n } = lane.metrics[name];
    bars.forEach((bar) => {
      const count = Math.round(bar.count);
      this.points.push({
        key: `${number}:${name}:${bar.low.toPrecision(6)}`, group: `${number}:${name}`, x: (bar.left + bar.right) / 2, y: bar.y,
        card: {
          letter: "", state: `${METRIC_NAMES[name][1]} · ${duration(bar.low)} to ${duration(bar.high)}`, preview: "",
          lines: [["values", `${whole(Math.max(count, bar.count > 0 ? 1 : 0))} of ${whole(n)}`], ["share", flooredShare(bar.count / n)]],
        },
      });
    });
  }

  describe() {
    const parts = this.data.lanes.flatMap((lane) => this.names.map((name) => {
      const figures = lane.metrics[name];
      const p99 = figures.few ? `n is ${figures.n}, too few for p99` : `p99 ${duration(figures.p99)}`;
      const within = figures.within === null ? "" : `, ${flooredShare(figures.within)} within the limit`;
      return `${lane.title ? `${lane.title}, ` : ""}${METRIC_NAMES[name][0]}: ${figures.n ? `p50 ${duration(figures.p50)}, p95 ${duration(figures.p95)}, ${p99}${within}` : "nothing yet"}`;
    }));
    return `Histograms of latency. ${parts.join(". ")}.`.replaceAll("\u2009", " ");
  }

  table() {
    const rows = this.data.lanes.flatMap((lane) => Object.keys(METRIC_NAMES).flatMap((name) => (
      lane.metrics[name].bins.map(([index, count]) => (
        [lane.title, name, 10 ** (index / this.data.per_decade), 10 ** ((index + 1) / this.data.per_decade), count]
      ))
    )));
    return [["run", "latency", "from_s", "to_s", "count"], rows];
  }
}

export default {
  render({ model, el }) {
    const view = new HistogramView(model, el);
    el.figureView = view; // for tests and the console
    return () => view.destroy();
  },
};
