// What a replay is steered with. The kernel plays and loads; this asks, shows, and scrubs: the
// slider moves the shared cursor in the page at once, as every figure does.

import { lastAtOrBefore } from "../shared/axis.js";
import { element, provenance } from "../shared/dom.js";
import { duration, whole } from "../shared/format.js";
import { keepKeys, leavesWidget } from "../shared/keys.js";
import { Link } from "../shared/link.js";
import { savePicture } from "../shared/save.js";
import { FONT, readTheme, watchTheme } from "../shared/theme.js";
import { Fetcher, sendFile } from "./transfer.js";

const EXPORTS = [["csv", "CSV", "A line for each request in each step"], ["png", "PNG", "The timeline as a picture"], ["chrome", "Perfetto JSON", "Open it in ui.perfetto.dev or chrome://tracing"]];
const SCALE = 10_000; // of the slider: the run's length in so many parts

let bars = 0;

export class ReplayBarView {
  constructor(model, el) {
    this.model = model;
    this.cleanup = [];
    this.name = `replay-${(bars += 1)}`;
    this.by = `${this.name}-${Math.random().toString(36).slice(2)}`;
    this.fetcher = new Fetcher(model, this.by);
    this.root = element(el, "div", "mlt mlr");
    this.root.style.setProperty("--mlt-font", FONT);
    this.root.setAttribute("role", "group");
    this.root.setAttribute("aria-label", "Replay of a recorded run");
    keepKeys(this.root);
    this.build();
    for (const name of ["runs", "chosen", "own"]) this.on(`change:${name}`, () => this.showRuns());
    this.on("change:about", () => this.showAbout());
    for (const name of ["starts", "end", "playing", "pace"]) this.on(`change:${name}`, () => this.showTime());
    this.on("change:note", () => this.showNote());
    this.on("msg:custom", (message, buffers) => this.receive(message, buffers));
    this.link = new Link(model, () => this.showTime());
    this.cleanup.push(watchTheme(() => this.retheme()), () => {
      if (this.link.conductor === this) this.link.conductor = null;
      this.link.destroy();
    });
    this.retheme();
    this.showRuns();
    this.showAbout();
    this.showTime();
    this.showNote();
  }

  on(name, call) {
    this.model.on(name, call);
    this.cleanup.push(() => this.model.off(name, call));
  }

  destroy() {
    this.cleanup.forEach((call) => call());
    this.root.remove();
  }

  ask(what, more = {}) {
    this.model.send({ ask: what, ...more });
  }

  // ── its parts ─────────────────────────────────────────────────────────────────────────────

  build() {
    const top = element(this.root, "div", "mlr-row");
    this.select = this.labelled(top, "Recorded run", "select", "mlr-runs");
    this.select.addEventListener("change", () => {
      if (this.select.value) this.ask("choose", { name: this.select.value });
    });
    this.buildFile(top);
    this.about = element(this.root, "div", "mlr-about");
    const time = element(this.root, "div", "mlr-row mlr-time");
    this.play = this.button(time, "Play", () => this.toggle());
    this.play.classList.add("mlr-play");
    this.pace = this.labelled(time, "Pace", "select", "mlr-pace");
    for (const [value, words] of this.model.get("paces")) element(this.pace, "option", "", words).value = String(value);
    this.pace.addEventListener("change", () => this.ask("pace", { pace: Number(this.pace.value) }));
    this.buildSlider(time);
    this.clock = element(time, "output", "mlr-clock");
    const bottom = element(this.root, "div", "mlr-row");
    element(bottom, "span", "mlr-label", "Save as");
    for (const [to, words, title] of EXPORTS) {
      const made = this.button(bottom, words, () => {
        this.say(`Making ${words} …`);
        this.ask("export", { to, by: this.by });
      });
      made.title = title;
      made.dataset.to = to;
    }
    this.note = element(bottom, "span", "mlr-note");
    this.note.setAttribute("role", "status");
  }

  buildFile(parent) {
    this.file = element(parent, "input", "mlr-file");
    Object.assign(this.file, { type: "file", accept: ".jsonl,.gz,.json,.txt", tabIndex: -1, hidden: true });
    this.file.setAttribute("aria-hidden", "true");
    this.button(parent, "Open a trace file…", () => this.file.click()).title = "JSON lines, plain or packed with gzip";
    this.file.addEventListener("change", async () => {
      const [file] = this.file.files;
      this.file.value = ""; // the same file again is a change too
      if (!file) return;
      this.say(`Reading ${file.name} …`);
      const wrong = await sendFile(this.model, file).catch((error) => `${file.name} cannot be read: ${error.message}.`);
      if (wrong) this.say(wrong, true);
    });
  }

  buildSlider(parent) {
    this.slider = element(parent, "input", "mlr-slider");
    Object.assign(this.slider, { type: "range", min: 0, max: SCALE, step: 1 });
    this.slider.setAttribute("aria-label", "Time in the run");
    this.slider.addEventListener("input", () => this.link.keep({ t: (this.slider.value / SCALE) * this.model.get("end") }));
    const keys = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10, Home: -Infinity, End: Infinity };
    this.slider.addEventListener("keydown", (event) => {
      if (leavesWidget(event)) return;
      if (event.key === " ") this.toggle();
      else if (event.key === "Escape") this.link.keep({ t: null, req: null });
      else if (event.key in keys) this.step(keys[event.key] * (event.shiftKey ? 10 : 1));
      else return;
      event.preventDefault();
    });
  }

  /** A control with its visible label before it. */
  labelled(parent, words, tag, className) {
    const label = element(parent, "label", "mlr-label", words);
    const made = element(parent, tag, className);
    made.id = `${this.name}-${className}`;
    label.htmlFor = made.id;
    return made;
  }

  button(parent, words, clicked) {
    const made = element(parent, "button", "mlt-button", words);
    made.type = "button";
    made.addEventListener("click", clicked);
    return made;
  }

  // ── time ──────────────────────────────────────────────────────────────────────────────────

  toggle() {
    this.ask(this.model.get("playing") ? "pause" : "play");
  }

  /** Number of the step at the cursor; −1 before the first. */
  get at() {
    const starts = this.model.get("starts");
    return this.link.t === null ? starts.length - 1 : lastAtOrBefore(starts, this.link.t + 1e-9);
  }

  /** So many steps on or back. Where the cursor is nowhere, the first one. */
  step(by) {
    const [starts, end] = [this.model.get("starts"), this.model.get("end")];
    if (!starts.length) return;
    const from = this.link.t === null ? -1 : this.at;
    const to = Math.min(Math.max(from + by, 0), starts.length - 1);
    this.link.keep({ t: (starts[to] + (starts[to + 1] ?? end)) / 2 });
  }

  showTime() {
    if (!this.link) return; // it calls while it is made
    this.link.conductor ??= this; // where another view of the bar has gone
    const { model, link } = this;
    const [end, starts, playing] = [model.get("end"), model.get("starts"), model.get("playing")];
    const t = link.t === null ? end : Math.min(link.t, end);
    const part = end > 0 ? Math.round((t / end) * SCALE) : 0;
    if (Number(this.slider.value) !== part) this.slider.value = part;
    this.slider.style.setProperty("--at", `${(100 * part) / SCALE}%`);
    const words = `${duration(t)} of ${duration(end)}`;
    const step = starts.length ? ` · step ${whole(Math.max(0, this.at + 1))} of ${whole(starts.length)}` : "";
    this.clock.textContent = words + step;
    this.slider.setAttribute("aria-valuetext", (words + step).replaceAll("\u2009", " "));
    this.play.textContent = playing ? "Pause" : "Play";
    if (Number(this.pace.value) !== model.get("pace")) this.pace.value = String(model.get("pace"));
  }

  // ── words ─────────────────────────────────────────────────────────────────────────────────

  showRuns() {
    const { model, select } = this;
    select.replaceChildren();
    const own = model.get("own");
    if (own) {
      const group = element(select, "optgroup");
      group.label = "your file";
      element(group, "option", "", own).value = "";
    }
    let group = null;
    for (const run of model.get("runs")) {
      if (group?.label !== run.group) {
        group = element(select, "optgroup");
        group.label = run.group;
      }
      element(group, "option", "", run.title).value = run.name;
    }
    select.value = model.get("chosen");
  }

  showAbout() {
    const { text = "", made = "", header = null } = this.model.get("about");
    this.about.replaceChildren();
    element(this.about, "span", "", text);
    provenance(element(this.about, "div", "mlt-provenance mlr-origin"), [header]);
    if (!made) return;
    const details = element(this.about, "details", "mlr-made");
    element(details, "summary", "", "How it was recorded");
    element(details, "span", "", made);
  }

  /** What the kernel says. */
  showNote() {
    const { text, wrong } = this.model.get("note");
    this.say(text, wrong);
  }

  say(words, wrong = false) {
    this.note.textContent = words ?? "";
    this.note.classList.toggle("mlr-wrong", Boolean(words) && wrong);
  }

  retheme() {
    for (const [name, value] of Object.entries(readTheme(this.root))) {
      if (typeof value === "string") this.root.style.setProperty(`--mlt-${name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`, value);
    }
  }

  // ── files that come ───────────────────────────────────────────────────────────────────────

  async receive(message, buffers) {
    if (message?.by !== this.by) return;
    if (message.kind === "file") this.fetcher.begin(message);
    else if (message.kind === "part") {
      const saved = await this.fetcher.take(message, buffers[0]);
      if (saved) this.say(`Saved as ${saved}.`);
    } else if (message.kind === "picture") this.savePainted(message.name);
  }

  /** The timeline of this page as it is painted: where the kernel draws no pictures. */
  savePainted(name) {
    const figures = [...this.link.cursor.links].map((link) => link.figure).filter(Boolean);
    const timeline = figures.find((figure) => figure.dom.data);
    if (!timeline) {
      this.say("There is no timeline on this page to be saved.", true);
      return;
    }
    savePicture(timeline, name);
    this.say(`Saved as ${name}.`);
  }
}

export default {
  render({ model, el }) {
    const view = new ReplayBarView(model, el);
    el.figureView = view; // for tests and the console
    return () => view.destroy();
  },
};
