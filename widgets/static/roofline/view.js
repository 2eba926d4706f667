// Rooflines: small multiples on shared axes; dots appear as they are measured.

import { duration, number3 } from "../shared/format.js";
import { line, text } from "../shared/pen.js";
import { Labels, Plot, mark } from "../shared/plot.js";
import { plotScale, plotTicks, tickLabel } from "../shared/scale.js";
import { font } from "../shared/theme.js";
import { ROOF_HEAD, ROOF_TALL, flopsText, peakShare, ridgeOf, roofPanels, roofRanges } from "./layout.js";

export class RooflineView extends Plot {
  constructor(model, el) {
    super(model, el, { label: "Rooflines", name: "roofline", keys: "← → batch · ↑ ↓ device · Esc" });
    this.start();
  }

  headers() {
    const names = (provenance) => this.data.devices.filter((each) => each.provenance === provenance).map((each) => each.name);
    return ["measured", "simulated"].map((provenance) => (
      names(provenance).length ? { provenance, device: names(provenance).join(", ") } : null
    ));
  }

  heightFor(width) {
    return roofPanels(this.data.devices.length, width).height;
  }

  draw(ctx, width) {
    const { devices } = this.data;
    if (!devices.length) {
      text(ctx, "Nothing was measured yet.", 0, 20, { size: 12, color: this.theme.ink3 });
      return;
    }
    const ranges = roofRanges(devices);
    const { panels, height } = roofPanels(devices.length, width);
    devices.forEach((device, i) => this.panel(ctx, device, panels[i], ranges));
    ctx.font = font(11);
    const captions = ["FLOP per byte moved (log): for these matrices about the batch size", "FLOP per byte moved (log)"];
    const caption = captions.find((words) => panels[0].left + ctx.measureText(words).width < width) ?? "FLOP per byte";
    text(ctx, caption, panels[0].left, height - 46, { color: this.theme.ink2 });
  }

  panel(ctx, device, { left, top, wide, first }, ranges) {
    const { theme } = this;
    const x = plotScale(...ranges.x, left, left + wide, true);
    const y = plotScale(...ranges.y, top + ROOF_HEAD + ROOF_TALL, top + ROOF_HEAD, true);
    this.head(ctx, device, left, top, wide);
    this.grid(ctx, x, y, first);
    const labels = new Labels(ctx, theme, [x.start, y.end - 14, x.end + 4, y.start]);
    for (const dot of device.dots) {
      const [px, py] = [x.at(dot.intensity), y.at(dot.flops)];
      labels.block([px - 6, py - 6, px + 6, py + 6]);
    }
    if (ridgeOf(device)) this.roof(ctx, device, x, y, labels);
    ctx.strokeStyle = theme.line;
    ctx.lineWidth = 1;
    line(ctx, x.start, y.start + 0.5, x.end, y.start + 0.5);
    for (const dot of device.dots) {
      const [px, py] = [x.at(dot.intensity), y.at(dot.flops)];
      mark(ctx, theme, device.provenance, px, py, theme.decode, 5);
      this.points.push({ key: `${device.key}:${dot.batch}`, group: device.key, x: px, y: py, card: this.cardOf(device, dot) });
    }
    device.dots.forEach((dot, i) => this.nameDot(labels, device, dot, x, y, i === 0));
  }

  head(ctx, device, left, top, wide) {
    const { theme } = this;
    const width = text(ctx, device.name, left, top + 10, { size: 14, weight: 650, color: theme.ink });
    ctx.font = font(11.5);
    if (ctx.measureText(device.detail).width < wide - width - 10) {
      text(ctx, device.detail, left + width + 8, top + 10.5, { size: 11.5, color: theme.ink3 });
    }
    mark(ctx, theme, device.provenance, left + 5, top + 31, theme.ink2, 4.5);
    const said = text(ctx, device.provenance, left + 15, top + 31, { size: 11.5, weight: 650, color: theme.ink });
    const state = device.running === null ? "" : `batch ${device.running} is running`;
    text(ctx, state, left + said + 24, top + 31, { size: 11, color: theme.ink3 });
  }

  grid(ctx, x, y, first) {
    const { theme } = this;
    ctx.lineWidth = 0.6;
    for (const { value } of plotTicks(y)) {
      ctx.strokeStyle = theme.grid;
      line(ctx, x.start, y.at(value), x.end, y.at(value));
      if (first) text(ctx, tickLabel(value / 1e12), x.start - 8, y.at(value), { color: theme.ink3, align: "right" });
    }
    ctx.lineWidth = 1;
    ctx.strokeStyle = theme.line;
    for (const { value, label } of plotTicks(x)) {
      line(ctx, x.at(value), y.start, x.at(value), y.start + 4);
      text(ctx, label, x.at(value), y.start + 14, { color: theme.ink3, align: "center" });
    }
    if (!first) return;
    ctx.save();
    ctx.translate(x.start - 48, (y.start + y.end) / 2);
    ctx.rotate(-Math.PI / 2);
    text(ctx, "TFLOP/s reached (log)", 0, 0, { color: theme.ink2, align: "center" });
    ctx.restore();
  }

  roof(ctx, device, x, y, labels) {
    const { theme } = this;
    const ridge = ridgeOf(device);
    const start = Math.max(x.low, y.low / device.bandwidth);
    const slope = [[x.at(start), y.at(start * device.bandwidth)], [x.at(ridge), y.at(device.peak_flops)]];
    const [[ax, ay], [bx, by]] = slope;
    ctx.save();
    ctx.globalAlpha = theme.dark ? 0.45 : 0.4;
    ctx.fillStyle = theme.decodeSoft;
    ctx.beginPath();
    for (const [px, py] of [[ax, ay], [bx, by], [bx, y.start], [ax, y.start]]) ctx.lineTo(px, py);
    ctx.fill();
    ctx.restore();
    ctx.strokeStyle = theme.ink3;
    ctx.lineWidth = 1;
    ctx.setLineDash([2, 3]);
    line(ctx, bx, by, bx, y.start);
    ctx.setLineDash([]);
    ctx.strokeStyle = theme.ink;
    ctx.lineWidth = 2;
    ctx.beginPath();
    for (const [px, py] of [[ax, ay], [bx, by], [x.end, by]]) ctx.lineTo(px, py);
    ctx.stroke();
    labels.avoid([[ax, ay], [bx, by], [x.end, by]]);
    labels.beside(flopsText(device.peak_flops), x.end + 2, by, { color: theme.ink2, places: "nw", gap: 9, force: true });
    this.alongSlope(ctx, labels, `${number3(device.bandwidth / 1e9)}\u2009GB/s`, slope);
    labels.beside(`ridge ${number3(ridge)}`, bx, y.start - 12, { weight: 650, color: theme.ink, places: "w e", gap: 5 });
  }

  /** The bandwidth, written along the line it belongs to. */
  alongSlope(ctx, labels, words, [[ax, ay], [bx, by]]) {
    const length = Math.hypot(bx - ax, by - ay);
    if (length < 110) return;
    const [mx, my] = [ax + (bx - ax) * 0.42, ay + (by - ay) * 0.42];
    ctx.save();
    ctx.translate(mx, my);
    ctx.rotate(Math.atan2(by - ay, bx - ax));
    text(ctx, words, 0, -11, { color: this.theme.ink2, align: "center", halo: this.theme.bg });
    ctx.restore();
    labels.block([mx - 34, my - 34, mx + 8, my - 2]);
  }

  nameDot(labels, device, dot, x, y, isFirst) {
    const { theme } = this;
    const [px, py] = [x.at(dot.intensity), y.at(dot.flops)];
    const name = isFirst ? `batch ${dot.batch}` : String(dot.batch);
    labels.beside(name, px, py, { weight: 650, color: theme.ink, places: "se s e sw" });
    if (device.peak_flops && (isFirst || dot.batch === 32)) {
      const share = `${peakShare(dot.flops / device.peak_flops)} of peak`;
      const style = { color: theme.ink2, places: "se s" };
      if (labels.beside(share, px, py + 15, style)) return;
      labels.ctx.font = font(11, 650); // no room below the name: behind it
      labels.beside(share, px + 6 + labels.ctx.measureText(name).width, py, { ...style, places: "se" });
    }
  }

  cardOf(device, dot) {
    const ridge = ridgeOf(device);
    return {
      letter: "", state: `${device.name} · batch ${dot.batch}`, preview: "",
      lines: [
        ["FLOP per byte", number3(Number(dot.intensity.toPrecision(3)))],
        ["reached", flopsText(dot.flops), device.peak_flops ? peakShare(dot.flops / device.peak_flops) : ""],
        ["moved", `${number3(dot.flops / dot.intensity / 1e9)}\u2009GB/s`, device.bandwidth ? peakShare(dot.flops / dot.intensity / device.bandwidth) : ""],
        ["took", dot.seconds < 1e-3 ? `${number3(dot.seconds * 1e6)}\u2009µs` : duration(dot.seconds)],
        ...(ridge === null ? [] : [["bound by", dot.intensity < ridge ? "memory" : "compute"]]),
        ["where from", device.provenance],
      ],
    };
  }

  describe() {
    const parts = this.data.devices.map((device) => {
      const dots = device.dots.map((dot) => `batch ${dot.batch} ${flopsText(dot.flops)}`).join(", ");
      const roof = ridgeOf(device) ? `at most ${flopsText(device.peak_flops)}, ridge ${number3(ridgeOf(device))}` : "limits not measured yet";
      return `${device.name}, ${device.provenance}: ${roof}${dots ? `; ${dots}` : ""}`;
    });
    return `Rooflines. ${this.model.get("headline")} ${parts.join(". ")}.`.replaceAll("\u2009", " ");
  }

  table() {
    const rows = this.data.devices.flatMap((device) => device.dots.map((dot) => (
      [device.name, device.provenance, dot.batch, dot.intensity, dot.flops, dot.flops / dot.intensity, dot.seconds, device.peak_flops, device.bandwidth]
    )));
    return [["device", "provenance", "batch", "flop_per_byte", "flop_per_s", "bytes_per_s", "seconds", "peak_flop_per_s", "peak_bytes_per_s"], rows];
  }
}

export default {
  render({ model, el }) {
    const view = new RooflineView(model, el);
    el.figureView = view; // for tests and the console
    return () => view.destroy();
  },
};
