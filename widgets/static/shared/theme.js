// Colours and type of every widget, and how they follow the page's theme.
// The page's colour comes from JupyterLab's --jp-layout-color0 where there is one, and its lightness
// chooses between a light and a dark set of ours: one meaning a hue (contrast: marks ≥ 3, text ≥ 4.5).

const LIGHT = {
  dark: false,
  bg: "#FFFFFF", panel: "#F6F7F9", ink: "#14181D", ink2: "#434C58", ink3: "#5F6976",
  line: "#C5CCD5", grid: "#E8EBEF",
  decode: "#0072B2", decodeSoft: "#D3E6F3", prefill: "#E69F00", prefillEdge: "#855700",
  waste: "#D55E00", wasteText: "#AD4A00", pre: "#A8457F", preText: "#93366D",
  ok: "#009E73", okText: "#006B4E", queue: "#7A8694",
  onDecode: "#FFFFFF", onPrefill: "#14181D", card: "#FFFFFF", shadow: "rgba(20,24,29,0.16)",
};

const DARK = {
  dark: true,
  bg: "#101419", panel: "#181D24", ink: "#E9EDF2", ink2: "#B7C0CB", ink3: "#929DAB",
  line: "#3A4450", grid: "#242C35",
  decode: "#56B4E9", decodeSoft: "#173449", prefill: "#EDAE2E", prefillEdge: "#EDAE2E",
  waste: "#F0803C", wasteText: "#F59A62", pre: "#DF8FBD", preText: "#E8A6CC",
  ok: "#2BC49A", okText: "#55D6B2", queue: "#8793A0",
  onDecode: "#0B1218", onPrefill: "#14181D", card: "#1D232C", shadow: "rgba(0,0,0,0.5)",
};

export const FONT = 'Inter, system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';

/** A canvas font: font(13, 650) → "650 13px Inter, …". */
export function font(size, weight = 400) {
  return `${weight} ${size}px ${FONT}`;
}

/** Relative luminance (0…1) of "#rgb", "#rrggbb", "rgb()" or "rgba()"; null for anything else. */
export function luminance(color) {
  const rgb = parseColor(color);
  if (!rgb) return null;
  const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function parseColor(color) {
  const text = String(color || "").trim();
  const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(text);
  if (hex) {
    const full = hex[1].length === 3 ? [...hex[1]].map((c) => c + c).join("") : hex[1];
    return [0, 2, 4].map((i) => parseInt(full.slice(i, i + 2), 16));
  }
  const rgb = /^rgba?\(\s*([\d.]+)[\s,]+([\d.]+)[\s,]+([\d.]+)/i.exec(text);
  if (rgb) return rgb.slice(1, 4).map(Number);
  const name = { white: [255, 255, 255], black: [0, 0, 0] }[text.toLowerCase()];
  return name || null;
}

/** The palette for an element: on JupyterLab's page its background, else by what the system prefers. */
export function readTheme(el) {
  const style = getComputedStyle(el.isConnected ? el : document.body); // a view may be made before it is shown
  const jp = (name) => style.getPropertyValue(name).trim();
  const page = luminance(jp("--jp-layout-color0"));
  if (page === null) {
    const asked = document.documentElement.dataset.theme;
    const dark = asked ? asked === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    return dark ? DARK : LIGHT;
  }
  const base = page < 0.4 ? DARK : LIGHT;
  return { ...base, bg: jp("--jp-layout-color0") };
}

/** Call `changed` when the page's theme may have changed; returns a function that stops it. */
export function watchTheme(changed) {
  const observer = new MutationObserver(changed);
  const filter = { attributes: true, attributeFilter: ["data-jp-theme-name", "data-jp-theme-light", "data-theme", "class", "style"] };
  observer.observe(document.body, filter);
  observer.observe(document.documentElement, filter);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", changed);
  // JupyterLab swaps a style sheet after it has set the attribute.
  document.addEventListener("load", changed, true);
  return () => {
    observer.disconnect();
    scheme.removeEventListener("change", changed);
    document.removeEventListener("load", changed, true);
  };
}

/** 45° hatch in `color`: period 5 px, stripe 1.7 px, at the given device pixel ratio. */
export function hatch(ctx, color, ratio) {
  const size = Math.round(7 * ratio);
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.strokeStyle = color;
  pen.lineWidth = 1.7 * ratio;
  pen.beginPath();
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift - 2, size + 2);
    pen.lineTo(shift + size + 2, -2);
  }
  pen.stroke();
  const pattern = ctx.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}
