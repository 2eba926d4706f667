// The tables beside the chart: the line that is being measured, and each line's sweet spot.

import { element } from "../shared/dom.js";
import { number3, plain } from "../shared/format.js";
import { meets, sweetSpot } from "./findings.js";

/** Rebuild the tables in `el`; cheap, and only called when something was painted. */
export function paintTables(el, data, slo) {
  const shown = JSON.stringify([data, slo]);
  if (el.dataset.shown === shown) return;
  el.dataset.shown = shown;
  el.replaceChildren();
  const walked = data.lines.find((line) => line.provenance === "measured") ?? data.lines.find((line) => line.key === data.focus);
  if (walked) pointTable(el, walked, slo);
  if (data.lines.some((line) => line.points.length)) spotTable(el, data, slo);
  if (data.note) element(el, "p", "mlc-note", data.note);
}

function pointTable(el, line, slo) {
  element(el, "div", "mlc-title", `${line.name}, ${line.provenance}`);
  const runs = line.planned_runs;
  if (runs > 1) element(el, "div", "mlc-sub", `${runs} runs each, median; bars show min to max`);
  if (!line.done) progress(el, line);
  const body = table(el, [line.load_name, "ms p50", "ms p99", "tok/s", slo === null ? "" : "SLO"]);
  const best = sweetSpot(line, slo)?.point;
  for (const point of line.points) {
    const running = line.running?.[0] === point.load;
    const keeps = meets(point, slo);
    const kind = running ? "mlc-now" : keeps ? "" : "mlc-over";
    const state = running ? `${point.runs} of ${runs}` : slo === null ? "" : keeps ? "✓ meets" : "✕ over";
    const cells = [plain(point.load) + (point === best ? " ★" : ""), number3(point.ms), point.p99_ms === null ? "n/a" : number3(point.p99_ms), number3(point.tok_s), state];
    row(body, cells, kind, keeps && !running ? "mlc-ok" : "");
  }
  for (const load of line.failed) row(body, [plain(load), "n/a", "n/a", "n/a", "failed"], "mlc-over");
  const begun = line.running && !line.points.some((point) => point.load === line.running[0]);
  if (begun) row(body, [plain(line.running[0]), "…", "…", "…", "running"], "mlc-now");
  if (line.next !== null) row(body, [plain(line.next), "", "", "", "next"], "mlc-over");
}

function progress(el, line) {
  if (line.next === null && !line.running) return;
  element(el, "div", "mlc-sub", line.running ? `running ${line.load_name} ${plain(line.running[0])}` : `next: ${line.load_name} ${plain(line.next)}`);
}

function spotTable(el, data, slo) {
  element(el, "div", "mlc-title", slo === null ? "Most throughput" : "Sweet spot under the SLO");
  const body = table(el, ["device", "load", "ms/token", "tok/s"]);
  for (const line of data.lines) {
    if (!line.points.length) continue;
    const spot = sweetSpot(line, slo);
    if (!spot) row(body, [line.name, "none", "n/a", "n/a"], "mlc-over");
    else row(body, [line.name, (spot.atEnd && slo !== null ? "≥ " : "") + plain(spot.point.load), number3(spot.point.ms), number3(spot.point.tok_s)]);
  }
}

function table(el, heads) {
  const made = element(el, "table", "mlc-table");
  const head = element(element(made, "thead", ""), "tr", "");
  heads.forEach((name) => element(head, "th", "", name).setAttribute("scope", "col"));
  return element(made, "tbody", "");
}

function row(body, cells, kind = "", last = "") {
  const tr = element(body, "tr", kind);
  cells.forEach((cell, i) => element(tr, "td", i === cells.length - 1 ? last : "", cell));
}
