// The cluster's view: a replay of a simulated one, or a running one live.

import { niceLimit, timeScale } from "../shared/axis.js";
import { Figure } from "../shared/figure.js";
import { count, duration, percent, whole } from "../shared/format.js";
import { text } from "../shared/pen.js";
import { Player } from "../shared/player.js";
import { hatch } from "../shared/theme.js";
import { ClusterModel } from "./decode.js";
import { clusterLayout, rowAt } from "./layout.js";
import { paintFoot, paintLinks, paintReplica, paintRouter, paintStrip } from "./paint.js";

const LIVE_S = 120; // a running cluster shows so much, the newest at the right edge
const LEGEND = [["runs", "running"], ["waiting", "waiting"], ["slots", "max_num_seqs"], ["down", "down"]];

export class ClusterFigure extends Figure {
  constructor(model, el) {
    super(model, el, { label: "Cluster", legend: LEGEND, keys: "← → in time · Shift ×10 · ↑ ↓ replica · Esc clears" });
    this.cluster = new ClusterModel();
    this.replica = null; // the chosen one
    this.pointer = null;
    this.player = new Player(this, () => (this.cluster.done && this.cluster.times.length ? this.cluster.now : null));
    this.bindPointer();
    this.bindKeys({
      ArrowRight: (far) => this.move(far), ArrowLeft: (far) => this.move(-far),
      Home: () => this.move(-Infinity), End: () => this.move(Infinity),
      ArrowDown: () => this.choose(1), ArrowUp: () => this.choose(-1),
      " ": () => this.player.toggle(),
      Escape: () => {
        this.replica = null;
        this.link.keep({ t: null, req: null });
        this.request();
      },
    });
    this.start();
    this.hello();
  }

  hello() {
    this.model.send({ hello: this.cluster.next, stream: this.cluster.stream });
  }

  receive(message, buffers) {
    if (!buffers?.length) return;
    this.heard = performance.now();
    this.stats.messages += 1;
    if (this.cluster.apply(message, buffers[0]) === "gap") {
      this.stats.gaps += 1;
      this.hello();
    }
    if (message.header) this.refreshTexts();
    this.request();
  }

  get running() {
    return this.cluster.times.length > 0 && !this.cluster.done;
  }

  headers() {
    return [this.cluster.header];
  }

  get t() {
    return this.link.t ?? this.cluster.now;
  }

  // ── painting ──────────────────────────────────────────────────────────────────────────────

  heightFor(width) {
    this.geometry = clusterLayout({ width, replicas: this.cluster.replicas || 3 });
    return this.geometry.height;
  }

  paint(ctx, width) {
    this.player.show();
    const { theme, geometry, cluster, t } = this;
    if (!cluster.header) {
      text(ctx, "No cluster yet", 0, 9, { size: 13, weight: 650, color: theme.ink3 });
      return;
    }
    this.brush ??= hatch(ctx, theme.waste, this.ratio);
    const end = Math.max(0.05, cluster.now);
    const from = cluster.done ? 0 : Math.max(0, end - LIVE_S);
    this.scale = timeScale(from, cluster.done ? end : Math.max(end, from + 10), geometry.x0, geometry.x1);
    const span = this.scale.v1 - this.scale.v0;
    const limit = niceLimit(Math.max(4, cluster.most, ...(cluster.header.slots ?? []).map((n) => (n && n <= 2 * cluster.most ? n : 0))));
    const loads = cluster.loads[cluster.at(t)];
    if (geometry.wide) {
      text(ctx, "Router", 0, 9, { size: 13, weight: 650, color: theme.ink });
      text(ctx, count(cluster.replicas, "replica"), geometry.rows[0].nameX, 9, { size: 13, weight: 650, color: theme.ink });
      text(ctx, `Requests on each, up to ${whole(limit)}`, geometry.x0, 9, { size: 13, weight: 650, color: theme.ink });
      text(ctx, this.link.t === null ? (cluster.done ? "at the end" : "now") : duration(t), geometry.x1, 9, { size: 11.5, color: theme.ink3, align: "right" });
      paintLinks(ctx, geometry, cluster, t, span, { theme, calm: this.calm });
    }
    paintRouter(ctx, geometry, cluster, t, span, theme);
    const tick = cluster.times.length > 1 ? (cluster.times[1] - cluster.times[0]) * 1.01 : 1;
    for (const row of geometry.rows) {
      paintReplica(ctx, row, cluster, loads?.[row.replica], { theme, chosen: row.replica === this.replica, wide: geometry.wide, names: geometry.names });
      paintStrip(ctx, row, cluster, this.scale, { theme, hatch: this.brush, limit, ratio: this.ratio, lost: tick });
    }
    paintFoot(ctx, geometry, this.scale, this.link.t, width, theme);
    this.paintCard();
  }

  paintCard() {
    const { pointer, geometry, scale } = this;
    const replica = pointer && !this.scrubbing && pointer[0] > geometry.x0 - 6 ? rowAt(geometry, pointer[1]) : null;
    if (replica === null) {
      this.showCard(null);
      return;
    }
    const t = scale.t(Math.min(Math.max(pointer[0], scale.x0), scale.x1));
    const row = geometry.rows[replica];
    const taken = [[scale.x0, row.top, scale.x1, row.top + row.height], [0, 0, scale.x0, geometry.axisY]];
    this.showCard(replicaContent(this.cluster, replica, t), scale.x(t), row.middle, taken);
  }

  // ── what the reader does ──────────────────────────────────────────────────────────────────

  bindPointer() {
    const { over } = this.dom;
    const scrub = (x) => this.link.keep({ t: Math.max(0, this.scale.t(Math.min(Math.max(x, this.scale.x0), this.scale.x1))) });
    over.addEventListener("pointermove", (event) => {
      this.pointer = this.at(event);
      if (this.scrubbing) scrub(this.pointer[0]);
      this.request();
    });
    over.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !this.scale) return;
      over.focus({ preventScroll: true });
      const [x, y] = this.at(event);
      if (x >= this.geometry.x0 - 6) {
        this.scrubbing = true;
        over.setPointerCapture(event.pointerId);
        scrub(x);
      } else {
        const replica = rowAt(this.geometry, y);
        this.replica = replica === this.replica ? null : replica;
        this.request();
      }
    });
    const stop = () => { this.scrubbing = false; };
    over.addEventListener("pointerup", stop);
    over.addEventListener("pointercancel", stop);
    over.addEventListener("pointerleave", () => {
      this.pointer = null;
      this.request();
    });
  }

  /** A two-hundredth of what is shown, or to the ends. */
  move(by) {
    const { cluster } = this;
    if (!cluster.times.length) return;
    const [from, to] = [cluster.times[0], cluster.now];
    const hop = ((this.scale?.v1 ?? to) - (this.scale?.v0 ?? from)) / 200;
    const t = Number.isFinite(by) ? this.t + by * hop : by * Infinity;
    this.link.keep({ t: Math.min(Math.max(t, from), to) });
    this.say(this.sentence());
  }

  choose(by) {
    const { replicas } = this.cluster;
    if (!replicas) return;
    const at = this.replica ?? (by > 0 ? -1 : replicas);
    this.replica = Math.min(Math.max(at + by, 0), replicas - 1);
    this.say(this.sentence());
    this.request();
  }

  sentence() {
    const { cluster, t } = this;
    const loads = cluster.loads[cluster.at(t)];
    if (!loads) return "No cluster yet.";
    const one = (replica) => {
      const { up, running, waiting } = loads[replica];
      return `replica ${replica} ${up ? `runs ${running ?? "n/a"}, ${waiting ?? "n/a"} wait` : "is down"}`;
    };
    const which = this.replica === null ? loads.map((_, replica) => replica).slice(0, 8) : [this.replica];
    return `At ${duration(t)}: ${which.map(one).join("; ")}.`.replaceAll("\u2009", " ");
  }

  describe() {
    const { header, events } = this.cluster;
    if (!header) return "Cluster. Nothing has run yet.";
    const fails = events.filter((event) => event.kind === "fail").map(({ t, replica }) => `Replica ${replica} fails at ${duration(t)}.`);
    const words = [this.model.get("headline"), `${count(header.names.length, "replica")} behind ${header.router}.`, ...fails.slice(0, 5), this.sentence()];
    return `Cluster. ${words.filter(Boolean).join(" ")}`.replaceAll("\u2009", " ").replaceAll("\n", " ");
  }
}

/** What a replica's card says at time t. */
export function replicaContent(cluster, replica, t) {
  const load = cluster.loads[cluster.at(t)]?.[replica];
  const lines = [];
  const figure = (value) => (value === null ? "n/a" : whole(value));
  if (load?.up) {
    const slots = cluster.header.slots?.[replica];
    lines.push(["Running", figure(load.running), slots ? `of ${whole(slots)} at most` : ""]);
    lines.push(["Waiting", figure(load.waiting)]);
    lines.push(["KV blocks in use", load.kv === null ? "n/a" : percent(load.kv)]);
  }
  if (load && load.sent !== null) lines.push(["Sent here so far", count(load.sent, "request")]);
  const state = load ? (load.up ? "up" : "down") : "not there yet";
  return { letter: "", preview: cluster.header.names[replica], state: `Replica ${replica} · ${state} at ${duration(t)}`, lines };
}

export default {
  render({ model, el }) {
    const view = new ClusterFigure(model, el);
    el.figureView = view; // for tests and the console
    return () => view.destroy();
  },
};
