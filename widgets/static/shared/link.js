// The cursor that views share: one time (seconds since the first request, null: nowhere) and one
// highlighted request (index, null: nobody). Views whose models have the same `cursor_name` point
// at the same; without a name a view points alone. The kernel hears at most five times a second.
//
// A playback of the kernel moves it too, under a number. While it does, the pointer in passing moves
// nothing; who points on purpose takes over, and what that playback still had on its way is ignored.

const CURSORS = Symbol.for("minillm.cursors"); // one a page, whichever widget's module came first
const TELL_MS = 200;

function cursorNamed(name) {
  const fresh = () => ({ t: null, req: null, playing: 0, refused: 0, conductor: null, links: new Set() });
  if (!name) return fresh();
  const all = (globalThis[CURSORS] ??= new Map());
  if (!all.has(name)) all.set(name, fresh());
  return all.get(name);
}

export class Link {
  /** changed(link, mine): called after each move; mine: this view made it. */
  constructor(model, changed) {
    this.model = model;
    this.changed = changed;
    this.told = -Infinity;
    this.onMessage = (message) => {
      if (message?.kind === "cursor") this.hear(message);
    };
    this.onName = () => this.join();
    model.on("msg:custom", this.onMessage);
    model.on("change:cursor_name", this.onName);
    this.join();
  }

  get t() {
    return this.cursor.t;
  }

  get req() {
    return this.cursor.req;
  }

  /** What plays all views of this cursor, {toggle()}; null where each may play by itself. */
  get conductor() {
    return this.cursor.conductor;
  }

  set conductor(conductor) {
    this.cursor.conductor = conductor;
  }

  /** The reader points: {t}, {req} or both. */
  point(change) {
    if (this.set(change)) this.tell();
  }

  /** The pointer shows something in passing: unhover() gives back what was before. */
  hover(change) {
    if (this.cursor.playing) return;
    this.before ??= { t: this.t, req: this.req };
    this.point(change);
  }

  unhover() {
    const { before } = this;
    this.before = null;
    if (before && !this.cursor.playing) this.point(before);
  }

  /** The reader means it: what the pointer shows now stays. */
  keep(change) {
    const { cursor } = this;
    this.before = null;
    if (cursor.playing) {
      cursor.refused = cursor.playing;
      cursor.playing = 0;
      this.tell(); // also when it is the place where the playback was
    }
    this.point(change);
  }

  /** The kernel points. */
  hear({ t, req, playing = 0 }) {
    if (playing && playing === this.cursor.refused) return;
    this.cursor.playing = playing;
    this.set({ t, req });
  }

  /** Take a position over and show it in every view that shares it; whether that was a change. */
  set({ t = this.cursor.t, req = this.cursor.req }) {
    const { cursor } = this;
    if (t === cursor.t && req === cursor.req) return false;
    Object.assign(cursor, { t, req });
    for (const link of cursor.links) link.changed(link, link === this);
    return true;
  }

  tell() {
    if (!this.model.get("cursor_name") || this.timer) return;
    const wait = Math.max(0, this.told + TELL_MS - performance.now());
    this.timer = setTimeout(() => {
      this.timer = null;
      this.told = performance.now();
      this.model.send({ cursor: { t: this.t, req: this.req } });
    }, wait);
  }

  join() {
    this.cursor?.links.delete(this);
    this.cursor = cursorNamed(this.model.get("cursor_name"));
    this.cursor.links.add(this);
    this.changed(this, false);
  }

  destroy() {
    clearTimeout(this.timer);
    this.cursor.links.delete(this);
    this.model.off("msg:custom", this.onMessage);
    this.model.off("change:cursor_name", this.onName);
  }
}
