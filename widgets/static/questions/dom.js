// Builds elements: make("div", {class: "x", text: "y"}, child, …). Text only, never markup.

export function make(tag, options = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") el.textContent = value;
    else if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) el.setAttribute(name, value === true ? "" : value);
  }
  el.append(...children.filter((child) => child !== null && child !== undefined));
  return el;
}

/** A name for a group of radio buttons: widgets on one page do not know of each other. */
export function groupName(kind) {
  return `ml-${kind}-${Math.random().toString(36).slice(2)}`;
}
