// Where the queue's scene and its panels stand, in CSS pixels.

import { TINY_FIGURE } from "../shared/figure.js";

const STEP = 26; // px from one dot to the next
export const RADIUS = 11;
export const STACKED = 640; // px: below, panels stand one under the other

/**
 * {scene: {top, middle, bottom, queue: [x0, x1], slots: [[x, y, size]], done: [x0, x1]}, panels:
 * [{lane, x0, x1, titleY, top, bottom}], height} for so many slots and lanes.
 */
export function queueLayout({ width, slots, lanes }) {
  const tiny = width < TINY_FIGURE;
  const columns = Math.min(slots, slots <= 3 ? slots : Math.ceil(slots / Math.ceil(slots / (tiny ? 3 : 6))));
  const size = 34;
  const rows = Math.ceil(slots / columns);
  const top = 26;
  const high = Math.max(56, rows * (size + 8) + 6);
  const middle = top + high / 2;
  const box = columns * (size + 8);
  const doneWide = tiny ? 40 : Math.max(70, width * 0.2);
  const slotsX = width - doneWide - box - 12;
  const queueWide = Math.max(60, Math.min(slotsX * 0.6, 12 * STEP));
  const queue = [slotsX - queueWide - 18, slotsX - 18];
  const boxes = Array.from({ length: slots }, (_, slot) => [
    slotsX + (slot % columns) * (size + 8), middle - (rows * (size + 8) - 8) / 2 + Math.floor(slot / columns) * (size + 8), size,
  ]);
  const bottom = top + high + 22;
  const stacked = width < STACKED;
  const gap = 38;
  const each = stacked ? width : (width - gap * (lanes - 1)) / lanes;
  const tall = stacked && lanes > 1 ? 74 : 96;
  const panels = Array.from({ length: lanes }, (_, lane) => {
    const y = bottom + 38 + (stacked ? lane * (tall + 76) : 0);
    const x = stacked ? 0 : lane * (each + gap);
    return { lane, x0: x + 26, x1: x + each - 4, left: x, titleY: y, top: y + 18, bottom: y + 18 + tall };
  });
  const last = panels[panels.length - 1].bottom;
  return {
    width, height: last + 76, captionY: bottom + 12,
    scene: { top, middle, bottom: top + high, arriving: [0, queue[0] - 16], queue, slots: boxes, slotsX, done: [slotsX + box + 8, width - 6] },
    panels,
  };
}

/**
 * Where each dot stands: Map of request index → {x, y, state, waited, fade}, and how many of each
 * kind found no room: {arriving, waiting, done}.
 */
export function dotPlaces({ scene }, found) {
  const places = new Map();
  const more = { arriving: 0, waiting: 0, done: 0 };
  const row = (kind, from, to, direction) => {
    const room = Math.max(1, Math.floor(Math.abs(to - from) / STEP));
    const list = found[kind];
    const shown = list.length > room ? list.slice(0, Math.max(1, room - (kind === "waiting" ? 1 : 0))) : list;
    shown.forEach((request, i) => {
      places.set(request.idx, { x: from + direction * (i + 0.5) * STEP, y: scene.middle, state: kind, request, fade: 1 });
    });
    more[kind] = list.length - shown.length;
  };
  row("arriving", scene.arriving[1], scene.arriving[0], -1);
  row("waiting", scene.queue[1], scene.queue[0], -1);
  row("done", scene.done[0], scene.done[1], 1);
  for (const { request, slot } of found.served) {
    const [x, y, size] = scene.slots[slot] ?? scene.slots[scene.slots.length - 1];
    places.set(request.idx, { x: x + size / 2, y: y + size / 2, state: "served", request, fade: 1 });
  }
  return { places, more };
}
