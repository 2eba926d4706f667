// The words around the figure: its key, how far a run has come, what a screen reader hears.

import { count, number3, percent } from "../shared/format.js";

export const LEGEND = [
  ["queued", "queued"],
  ["prefill", "prefill chunk"],
  ["decode", "decode, one token a step"],
  ["waste", "padding: computed, thrown away"],
  ["pre", "preempted"],
  ["end", "finished"],
];

/** While no finding is there: how many requests are through, a line a run. */
export function progress(view) {
  const lines = view.lanes.map((lane, i) => {
    if (!lane.stepCount) return "";
    const all = Math.max(lane.requests.size, view.model.get("expected_requests"));
    const ended = [...lane.requests.values()].filter((request) => request.end !== undefined).length;
    return `${nameOf(view, i)}: ${ended} of ${count(all, "request")} finished`;
  });
  return lines.filter(Boolean).join("\n");
}

function nameOf(view, i) {
  return view.titles[i] || view.lanes[i].header?.policy || `Run ${i + 1}`;
}

/** The whole figure in sentences. */
export function summary(view) {
  const parts = view.lanes.map((lane, i) => {
    const name = nameOf(view, i);
    if (!lane.stepCount) return `${name}: nothing has run yet`;
    const { tok_s: pace, row_padding_fraction: padding } = lane.figures;
    const words = [
      count(lane.requests.size, "request"), count(lane.figures.steps, "step"),
      `${lane.done ? "done in" : "running for"} ${lane.now.toFixed(2)} seconds`,
    ];
    if (pace !== null) words.push(`${number3(pace)} tokens per second`);
    if (padding !== null) words.push(`${percent(padding)} of rows padding`);
    return `${name}: ${words.join(", ")}`;
  });
  const finding = view.model.get("headline").replaceAll("\n", " ");
  return `Batch timeline. ${finding ? `${finding} ` : ""}${parts.join(". ")}.`.replaceAll("\u2009", " ");
}
