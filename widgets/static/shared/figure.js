// The base of every canvas figure: one element of the page that paints when something changed,
// follows theme, size and pixel ratio, shares the cursor, says what it shows, and goes without trace.
//
// A subclass gives heightFor(width), paint(ctx, width, height) and describe() → sentences, and may
// override headers(), running, pointed(mine), finding() and receive(). It ends its constructor with
// this.start(names of its own traits that change the picture).

import { cardSentence, fillCard, placeCard } from "./card.js";
import { buildFigure, provenance } from "./dom.js";
import { keepKeys, leavesWidget } from "./keys.js";
import { Link } from "./link.js";
import { readTheme, watchTheme } from "./theme.js";

const QUIET_S = 6; // without any message while a run is on: say so
export const NARROW_FIGURE = 760; // px: below, figures beside the data move or go
export const TINY_FIGURE = 480; // px: below, one panel, short words

export class Figure {
  constructor(model, el, options) {
    this.model = model;
    this.cleanup = [];
    this.dom = buildFigure(el, options);
    keepKeys(this.dom.root);
    this.heard = performance.now();
    this.stats = { frames: 0, full: 0, messages: 0, gaps: 0 };
    this.theme = readTheme(this.dom.root);
    this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  /** Bind what every figure binds, and paint for the first time. traits: those that repaint. */
  start(traits = []) {
    this.on("msg:custom", (message, buffers) => {
      if (message?.kind !== "cursor") this.receive(message, buffers);
    });
    for (const name of ["headline", "lead", "subtitle", "stale_message", "frozen", ...traits]) {
      this.on(`change:${name}`, () => this.refreshTexts());
    }
    this.link = new Link(this.model, (_, mine) => this.pointed(mine));
    this.link.figure = this;
    const sizes = new ResizeObserver(() => this.repaint());
    sizes.observe(this.dom.figure);
    const stopTheme = watchTheme(() => this.retheme());
    const ticker = setInterval(() => this.everySecond(), 1000);
    const onRatio = () => this.repaint();
    window.addEventListener("resize", onRatio);
    this.cleanup.push(() => {
      sizes.disconnect();
      stopTheme();
      clearInterval(ticker);
      window.removeEventListener("resize", onRatio);
      this.link.destroy();
    });
    this.retheme();
    this.refreshTexts();
  }

  /** Listen to the widget's model for as long as the view lives. */
  on(name, call) {
    this.model.on(name, call);
    this.cleanup.push(() => this.model.off(name, call));
  }

  destroy() {
    this.destroyed = true;
    this.cleanup.forEach((call) => call());
    cancelAnimationFrame(this.frame);
    this.dom.root.remove();
  }

  // ── what a subclass may say otherwise ─────────────────────────────────────────────────────

  receive(_message, _buffers) {}

  get running() {
    return false;
  }

  headers() {
    return [];
  }

  describe() {
    return "";
  }

  /** The shared cursor moved. */
  pointed(_mine) {
    this.request();
  }

  /** Whether provenance and subtitle stand below the headline, not beside it. */
  get originBelow() {
    return false;
  }

  /** The sentence above: what was found; a subclass may add how far a run has come. */
  finding() {
    return this.model.get("headline");
  }

  // ── text ──────────────────────────────────────────────────────────────────────────────────

  retheme() {
    this.theme = readTheme(this.dom.root);
    for (const [name, value] of Object.entries(this.theme)) {
      if (typeof value === "string") this.dom.root.style.setProperty(`--mlt-${name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`, value);
    }
    this.brush = null;
    this.repaint();
  }

  /** Bring all text up to date with the widget's traits and the runs' headers. */
  refreshTexts() {
    const { dom, model } = this;
    const frozen = model.get("frozen") || "";
    dom.root.classList.toggle("mlt-frozen", Boolean(frozen));
    if (frozen !== this.frozenShown) {
      this.frozenShown = frozen;
      dom.frozen.innerHTML = frozen; // made by our kernel: an SVG and a table, escaped there
    }
    this.showHeadline();
    dom.subtitle.textContent = model.get("subtitle") || "";
    dom.lead.textContent = model.get("lead") || "";
    dom.lead.hidden = !dom.lead.textContent;
    provenance(dom.provenance, this.headers());
    dom.root.classList.toggle("mlt-below", this.originBelow || dom.provenance.childElementCount > 1);
    this.repaint();
  }

  showHeadline() {
    const { headline, root } = this.dom;
    const text = this.finding() || "";
    if (headline.textContent !== text) headline.textContent = text;
    root.classList.toggle("mlt-running", !this.model.get("headline"));
    headline.hidden = !text && !root.classList.contains("mlt-two"); // two lines are kept free
  }

  /** Is the kernel still there, and what does the figure say to those who do not see it. */
  everySecond() {
    const { dom } = this;
    const quiet = (performance.now() - this.heard) / 1000;
    const lost = this.running && quiet > QUIET_S;
    const message = this.model.get("stale_message")
      || (lost ? `No news for ${Math.round(quiet)} s: the kernel is busy or gone.` : "");
    if (dom.stale.textContent !== message) dom.stale.textContent = message;
    dom.stale.hidden = !message;
    dom.root.classList.toggle("mlt-stale", Boolean(message));
    this.showHeadline();
    this.seconds = (this.seconds ?? 0) + 1;
    if (this.seconds % 5 === 1) {
      const words = this.describe();
      if (words) dom.over.setAttribute("aria-label", words);
    }
  }

  /** Say something in the polite live region. */
  say(words) {
    this.dom.live.textContent = words;
  }

  // ── painting ──────────────────────────────────────────────────────────────────────────────

  /** All has to be painted anew. */
  repaint() {
    this.request();
  }

  /** Paint with the next frame of the screen. */
  request() {
    if (this.frame || this.destroyed) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const width = Math.floor(this.dom.figure.clientWidth);
      if (width < 60) return;
      this.paintAll(width);
      this.stats.frames += 1;
    });
  }

  paintAll(width) {
    const height = this.heightFor(width);
    if (this.resizeCanvases([this.dom.over], width, height)) this.brush = null;
    const ctx = this.dom.over.getContext("2d");
    ctx.clearRect(0, 0, width, height);
    ctx.save(); // each frame begins with the same pen
    this.paint(ctx, width, height);
    ctx.restore();
  }

  /** Give the canvases that size on this screen; whether that changed anything. */
  resizeCanvases(canvases, width, height) {
    const ratio = window.devicePixelRatio || 1;
    const size = `${width}x${height}@${ratio}`;
    if (size === this.size) return false;
    for (const canvas of canvases) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.dom.figure.style.height = `${height}px`;
    this.size = size;
    this.ratio = ratio;
    return true;
  }

  // ── pointer, keys, card ───────────────────────────────────────────────────────────────────

  /** A pointer event's place on the canvas, in its own pixels (a page may be scaled). */
  at(event) {
    const { over } = this.dom;
    const box = over.getBoundingClientRect();
    return [(event.clientX - box.left) * (over.clientWidth / box.width), (event.clientY - box.top) * (over.clientHeight / box.height)];
  }

  /** Keys of the focused figure: {key: (far: 1, or 10 with Shift) => …}. */
  bindKeys(actions) {
    this.dom.over.addEventListener("keydown", (event) => {
      const act = leavesWidget(event) ? null : actions[event.key];
      if (!act) return;
      act(event.shiftKey ? 10 : 1);
      event.preventDefault();
    });
  }

  /** Show a card (null: none) for what stands at (x, y), over as little of `taken` as can be. */
  showCard(content, x = 0, y = 0, taken = [], quoted = null) {
    const { card, over } = this.dom;
    card.hidden = !content;
    if (!content) {
      this.cardLeft = null;
      return;
    }
    fillCard(card, content, quoted);
    const [width, height] = [over.clientWidth, over.clientHeight];
    if (width < TINY_FIGURE) { // no room beside the data: under it
      card.dataset.side = "none";
      card.style.left = "0";
      card.style.top = `${height + 4}px`;
      return;
    }
    const place = placeCard({
      x, y, width: card.offsetWidth, height: card.offsetHeight,
      bounds: { left: 0, right: width, top: -20, bottom: height }, taken, last: this.cardLeft,
    });
    this.cardLeft = place.left;
    card.style.left = `${place.left}px`;
    card.style.top = `${place.top}px`;
    card.dataset.side = place.side;
    card.style.setProperty("--mlt-notch", `${place.notchY}px`);
  }

  sayCard(content) {
    if (content) this.say(cardSentence(content));
  }
}
