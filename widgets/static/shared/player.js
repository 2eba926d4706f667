// Plays a finished run again: moves the shared cursor, so that every view of the session moves.
// Where something else plays all views already (link.conductor), it leaves that to it.

import { toolButton } from "./dom.js";

const WANTED_S = 14; // a replay lasts about so long
const CALM_MS = 500; // with reduced motion it goes on in jumps

/** A round pace (simulated seconds a second) at which `span` seconds take about 14. */
export function replayPace(span) {
  const rough = Math.max(span, 1e-9) / WANTED_S;
  const power = 10 ** Math.floor(Math.log10(rough));
  for (const factor of [1, 2, 5]) if (factor * power >= rough * 0.75) return factor * power;
  return 10 * power;
}

export class Player {
  /** end(): the last second of what can be played, null while there is nothing (or it still runs). */
  constructor(figure, end) {
    this.figure = figure;
    this.end = end;
    this.button = toolButton(figure.dom, "Play", () => this.toggle());
    this.button.hidden = true;
    figure.cleanup.push(() => this.stop());
  }

  get playing() {
    return Boolean(this.timer);
  }

  toggle() {
    const conductor = this.figure.link?.conductor;
    if (conductor) conductor.toggle();
    else if (this.playing) this.stop();
    else this.play();
  }

  play() {
    const end = this.end();
    if (end === null || this.playing) return;
    const { link } = this.figure;
    const from = link.t === null || link.t >= end * 0.999 ? 0 : link.t;
    const pace = replayPace(end);
    const began = performance.now();
    const tick = () => {
      const t = from + ((performance.now() - began) / 1000) * pace;
      if (this.expected !== undefined && link.t !== this.expected) { // the reader took over
        this.stop();
        return;
      }
      this.expected = Math.min(t, end);
      link.keep({ t: this.expected });
      if (t >= end) this.stop();
      else this.timer = this.figure.calm ? setTimeout(tick, CALM_MS) : requestAnimationFrame(tick);
    };
    this.expected = undefined;
    this.timer = -1;
    tick();
    this.show();
  }

  stop() {
    if (this.figure.calm) clearTimeout(this.timer);
    else cancelAnimationFrame(this.timer);
    this.timer = null;
    this.show();
  }

  /** Bring the button up to date; once a painted frame. */
  show() {
    const end = this.end();
    this.button.hidden = end === null || Boolean(this.figure.link?.conductor);
    if (this.button.hidden) return;
    const words = this.playing ? "Pause" : `Play at ${Number(replayPace(end).toPrecision(3))}×`;
    if (this.button.textContent !== words) this.button.textContent = words;
  }
}
