// A figure as files: its picture as PNG, its table as CSV. Made in the browser, without the kernel.

import { toolButton } from "./dom.js";
import { text } from "./pen.js";

/** A table as CSV text; null is an empty cell. */
export function csvText(columns, rows) {
  const cell = (value) => {
    const string = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(string) ? `"${string.replaceAll('"', '""')}"` : string;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

/** Have the browser save a blob as a file. */
export function saveBlob(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Buttons PNG and CSV among a figure's tools. The view gives table() → [columns, rows]. */
export function saveTools(view, name) {
  toolButton(view.dom, "PNG", () => savePicture(view, `${name}.png`));
  toolButton(view.dom, "CSV", () => saveBlob(new Blob([csvText(...view.table())], { type: "text/csv" }), `${name}.csv`));
}

/** Headline, provenance and canvases of a figure as one PNG. */
export function savePicture({ dom, theme }, name) {
  const { figure, over, headline, provenance, subtitle } = dom;
  const [ratio, margin] = [2, 24];
  const lines = headline.textContent.split("\n").filter(Boolean);
  const small = [...[...provenance.children].map((each) => each.textContent), subtitle.textContent].filter(Boolean);
  const top = margin + lines.length * 26 + small.length * 17 + 10;
  const canvas = document.createElement("canvas");
  canvas.width = (over.clientWidth + 2 * margin) * ratio;
  canvas.height = (top + over.clientHeight - 34 + margin) * ratio;
  const ctx = canvas.getContext("2d");
  ctx.scale(ratio, ratio);
  ctx.fillStyle = theme.bg;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  let y = margin + 8;
  for (const words of lines) {
    text(ctx, words, margin, y, { size: 19, weight: 650, color: theme.ink });
    y += 26;
  }
  for (const words of small) {
    text(ctx, words, margin, y, { size: 11.5, color: theme.ink2 });
    y += 17;
  }
  for (const layer of figure.querySelectorAll("canvas")) ctx.drawImage(layer, margin, top, over.clientWidth, over.clientHeight);
  canvas.toBlob((blob) => saveBlob(blob, name), "image/png");
}
