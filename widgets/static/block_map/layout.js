// Where the parts of a block map stand, in CSS pixels.

import { NARROW_FIGURE } from "../shared/figure.js";

const MANY = 400; // blocks: above, 6 px cells, no letters
export const SMALL = 640; // px: below, the map, the use over time and one sentence

/** Columns, cell size and height of a grid of `count` blocks, `width` wide. */
export function grid(count, width, { small = false, mini = false } = {}) {
  let columns;
  let gap;
  if (count > MANY) {
    gap = 1;
    columns = Math.max(8, Math.floor((width + gap) / (6 + gap)));
  } else if (mini) {
    gap = 3;
    columns = count <= 64 ? 12 : 32;
  } else {
    columns = small ? 16 : count <= 64 ? 12 : 32;
    gap = width / columns > 40 ? 7 : 3;
  }
  columns = Math.min(columns, Math.max(1, count));
  const wanted = count > MANY ? 6 : (width - gap * (columns - 1)) / columns;
  const cell = Math.min(wanted, 76);
  const high = count > MANY ? 6 : mini ? Math.min(20, cell * 0.72) : Math.min(46, Math.max(20, cell * 0.78));
  const rows = Math.ceil(count / columns);
  return { columns, rows, gap, cell, high, width: columns * (cell + gap) - gap, height: rows * (high + gap) - gap, letters: count <= MANY };
}

/** Where block `number` stands in a grid whose corner is (x, y). */
export function cellBox(g, number, x, y) {
  const column = number % g.columns;
  const row = Math.floor(number / g.columns);
  return [x + column * (g.cell + g.gap), y + row * (g.high + g.gap), g.cell, g.high];
}

/**
 * The figure: {map: {x, y, grid}, bars: {x, y, width, rows} or null, frames: [{x, y, grid}] or
 * null, strip: {x0, x1, top, bottom}, height}. story: three frames are wanted.
 */
export function blockLayout({ width, numBlocks, owners, story }) {
  const small = width < SMALL;
  const wide = width >= NARROW_FIGURE + 60;
  const mapWidth = wide ? Math.round(width * 0.635) : width;
  const main = grid(numBlocks, mapWidth, { small });
  const map = { x: 0, y: 26, grid: main };
  let bottom = map.y + main.height;
  let bars = null;
  if (wide) {
    const x = mapWidth + 46;
    const pitch = 26;
    const most = Math.max(6, Math.floor((main.height + 8) / pitch));
    const rows = Math.min(owners, most);
    bars = { x, y: 26, width: width - x, pitch, most: rows };
    bottom = Math.max(bottom, 26 + Math.min(most, Math.max(6, rows)) * pitch + 18);
  }
  let frames = null;
  if (story && wide && numBlocks <= 128) {
    const gap = Math.max(96, width * 0.09);
    const each = (width - 2 * gap) / 3;
    const g = grid(numBlocks, each, { mini: true });
    const y = bottom + 48;
    frames = [0, 1, 2].map((i) => ({ x: i * (each + gap), y, width: each, grid: g }));
    bottom = y + g.height;
  }
  if (small) bottom += 18; // a sentence under the map
  const x0 = 14 + 7 * numBlocks.toLocaleString("en-US").length;
  const strip = { x0, x1: width - 8, top: bottom + 50, bottom: bottom + (small ? 112 : 128) };
  return { width, small, map, bars, frames, strip, height: strip.bottom + 58 };
}

/** The block at (x, y), null if there is none. */
export function blockAt({ map }, numBlocks, x, y) {
  const g = map.grid;
  const column = Math.floor((x - map.x) / (g.cell + g.gap));
  const row = Math.floor((y - map.y) / (g.high + g.gap));
  if (column < 0 || column >= g.columns || row < 0 || row >= g.rows) return null;
  const number = row * g.columns + column;
  return number < numBlocks ? number : null;
}
