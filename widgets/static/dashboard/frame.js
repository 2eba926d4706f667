// The page's head: its tabs, what is served, and the banner that says what is gone.
//
// The kernel beats once a second and hears from the page every two; each notices when the other
// one falls silent: the page then says so, the kernel stops working for nobody.

import { element } from "../shared/dom.js";
import { readTheme, watchTheme } from "../shared/theme.js";

const ORIGINS = { measured: "●", simulated: "◐" };
export const SILENT_S = 4; // without a beat: the kernel is gone, or the way to it
const HERE_S = 2;

/** What the banner says: of the kernel first, without it nobody knows of the engine. */
export function bannerWords(silentSince, trouble) {
  if (silentSince) return `Stale since ${silentSince}: this page's own process does not answer. Reload the page.`;
  return trouble;
}

/** The tab that a key leads to, of `count` tabs; null for another key. */
export function tabFor(key, at, count) {
  if (key === "ArrowRight") return (at + 1) % count;
  if (key === "ArrowLeft") return (at + count - 1) % count;
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  return null;
}

export class FrameView {
  constructor(model, el) {
    this.model = model;
    this.heard = performance.now();
    this.silentSince = "";
    this.root = element(el, "header", "mld-head");
    element(this.root, "h1", "mld-title", "Batching, live");
    this.addTabs();
    const right = element(this.root, "div", "mld-right");
    this.origin = element(right, "span", "mld-origin");
    this.status = element(right, "span", "mld-status");
    this.addTheme(right);
    this.banner = element(el, "div", "mld-banner");
    this.banner.setAttribute("role", "alert");
    this.banner.hidden = true;
    this.calls = [];
    this.on("change:selected", () => this.showTabs());
    this.on("change:origin", () => this.showWords());
    this.on("change:status", () => this.showWords());
    this.on("change:trouble", () => this.showBanner());
    this.on("msg:custom", (message) => message?.kind === "beat" && this.beat());
    const ticker = setInterval(() => this.everySecond(), 500);
    const stopTheme = watchTheme(() => this.retheme());
    const onShown = () => { this.said = -Infinity; this.everySecond(); };
    document.addEventListener("visibilitychange", onShown);
    this.cleanup = () => {
      clearInterval(ticker);
      stopTheme();
      document.removeEventListener("visibilitychange", onShown);
    };
    this.said = 0;
    this.retheme();
    this.showTabs();
    this.showWords();
    this.showBanner();
    this.everySecond();
  }

  on(name, call) {
    this.model.on(name, call);
    this.calls.push(() => this.model.off(name, call));
  }

  destroy() {
    this.cleanup();
    this.calls.forEach((call) => call());
  }

  addTabs() {
    const list = element(this.root, "div", "mld-tabs");
    list.setAttribute("role", "tablist");
    list.setAttribute("aria-label", "Views");
    this.tabs = this.model.get("tabs").map((name, i) => {
      const tab = element(list, "button", "mld-tab", name);
      tab.type = "button";
      tab.setAttribute("role", "tab");
      tab.addEventListener("click", () => this.choose(i));
      return tab;
    });
    list.addEventListener("keydown", (event) => {
      const to = tabFor(event.key, this.model.get("selected"), this.tabs.length);
      if (to === null) return;
      event.preventDefault();
      event.stopPropagation();
      this.choose(to);
      this.tabs[to].focus();
    });
  }

  /** Light or dark, where the page has no way of its own for it (dashboardColours: our template). */
  addTheme(parent) {
    if (!window.dashboardColours) return;
    document.title = "Batching, live";
    this.theme = element(parent, "button", "mld-theme");
    this.theme.type = "button";
    this.theme.addEventListener("click", () => window.dashboardColours(!this.dark));
  }

  get dark() {
    return document.body.dataset.jpThemeLight === "false";
  }

  showTheme() {
    if (!this.theme) return;
    const other = this.dark ? "Light" : "Dark";
    if (this.theme.textContent !== other) this.theme.textContent = other;
    this.theme.setAttribute("aria-label", `${other} colours`);
  }

  choose(index) {
    if (index === this.model.get("selected")) return;
    this.model.set("selected", index);
    this.model.save_changes();
    this.showTabs();
  }

  showTabs() {
    const at = this.model.get("selected");
    this.tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === at));
      tab.tabIndex = i === at ? 0 : -1;
    });
  }

  showWords() {
    const { provenance, where } = this.model.get("origin");
    this.origin.replaceChildren();
    if (provenance) {
      element(this.origin, "span", "mld-glyph", ORIGINS[provenance] ?? "◇").setAttribute("aria-hidden", "true");
      element(this.origin, "b", "", provenance);
      element(this.origin, "span", "", ` ${where}`);
    }
    this.status.textContent = this.model.get("status");
  }

  // ── who is there ──────────────────────────────────────────────────────────────────────────

  beat() {
    this.heard = performance.now();
    if (this.silentSince) {
      this.silentSince = "";
      this.showBanner();
    }
  }

  everySecond() {
    const now = performance.now();
    if (now - this.said >= HERE_S * 1000) {
      this.said = now;
      this.model.send({ here: true });
    }
    if (!this.silentSince && now - this.heard > SILENT_S * 1000) {
      this.silentSince = new Date(Date.now() - (now - this.heard)).toLocaleTimeString([], { hour12: false });
      this.showBanner();
    }
  }

  showBanner() {
    const words = bannerWords(this.silentSince, this.model.get("trouble"));
    if (this.banner.textContent !== words) this.banner.textContent = words;
    this.banner.hidden = !words;
    document.documentElement.classList.toggle("mld-stale", Boolean(words));
  }

  retheme() {
    this.showTheme();
    const style = document.documentElement.style;
    for (const [name, value] of Object.entries(readTheme(this.root))) {
      const property = `--mld-${name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`;
      if (typeof value === "string" && style.getPropertyValue(property) !== value) style.setProperty(property, value);
    }
  }
}

export default {
  render({ model, el }) {
    const view = new FrameView(model, el);
    el.frameView = view; // for tests and the console
    return () => view.destroy();
  },
};
