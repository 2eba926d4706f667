// Keys that stay inside a widget. JupyterLab takes plain letters and arrows for commands on cells
// (a and b insert one, d d deletes one) wherever the focus is, so they must not reach its page.

/** Whether a key is for the page and the browser: with Ctrl, Alt or Meta, Tab, F1 to F12, Shift+Enter. */
export function leavesWidget({ key, ctrlKey, altKey, metaKey, shiftKey }) {
  if (ctrlKey || altKey || metaKey) return true;
  return key === "Tab" || /^F\d+$/.test(key) || (key === "Enter" && shiftKey);
}

/** Keep every other key inside `el`; returns it. */
export function keepKeys(el) {
  el.addEventListener("keydown", (event) => {
    if (!leavesWidget(event)) event.stopPropagation();
  });
  return el;
}
