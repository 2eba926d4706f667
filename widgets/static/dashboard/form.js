// A form of the page's own elements, so that each has its label, its keys and its focus ring.
//
// fields: [{name, kind, label, …}], kinds: choice, range, select, text, buttons, note.
// values: name → value. off: name → why it does nothing now.
// A change goes out as the trait `values`; buttons and Enter as {"press": name}, {"submit": name}.

import { element } from "../shared/dom.js";

let forms = 0;

export class FormView {
  constructor(model, el) {
    this.model = model;
    this.prefix = `mld-${(forms += 1)}`;
    this.root = element(el, "form", "mld-form");
    this.root.setAttribute("aria-label", model.get("title") || "Settings");
    element(this.root, "h2", "mld-unseen", model.get("title") || "Settings"); // between the page's h1 and the figures' h3
    this.root.addEventListener("submit", (event) => event.preventDefault());
    this.parts = new Map();
    for (const field of model.get("fields")) this.add(field);
    this.refresh = () => this.show();
    for (const name of ["values", "off"]) model.on(`change:${name}`, this.refresh);
    this.show();
  }

  destroy() {
    for (const name of ["values", "off"]) this.model.off(`change:${name}`, this.refresh);
    this.root.remove();
  }

  add(field) {
    const made = MAKERS[field.kind](this, field);
    this.parts.set(field.name, { field, ...made });
  }

  /** A labelled row; returns [row, label]. */
  row(field, tag = "div") {
    const row = element(this.root, tag, `mld-field mld-${field.kind}`);
    row.dataset.name = field.name;
    const label = element(row, tag === "fieldset" ? "legend" : "label", "mld-label", field.label);
    if (tag !== "fieldset") label.htmlFor = this.idOf(field);
    return [row, label];
  }

  idOf(field) {
    return `${this.prefix}-${field.name}`;
  }

  set(name, value) {
    const values = this.model.get("values");
    if (values[name] === value) return;
    this.model.set("values", { ...values, [name]: value });
    this.model.save_changes();
  }

  send(kind, name) {
    this.model.send({ [kind]: name });
  }

  show() {
    const values = this.model.get("values");
    const off = this.model.get("off");
    for (const [name, part] of this.parts) {
      part.show?.(values[name], off);
      if (part.field.kind !== "buttons") {
        for (const input of part.inputs ?? []) input.disabled = name in off;
        part.row?.classList.toggle("mld-off", name in off);
        if (part.row) part.row.title = off[name] ?? "";
      }
    }
  }
}

/** One of a few: radio buttons that look like one switch. */
function choice(form, field) {
  const [row] = form.row(field, "fieldset");
  if (field.wide) row.classList.add("mld-wide");
  const box = element(row, "div", "mld-switch");
  const inputs = field.options.map(([value, words]) => {
    const label = element(box, "label", "mld-option");
    const input = element(label, "input");
    Object.assign(input, { type: "radio", name: form.idOf(field), value: String(value) });
    element(label, "span", "", words);
    input.addEventListener("change", () => input.checked && form.set(field.name, value));
    return input;
  });
  const show = (value) => field.options.forEach(([each], i) => { inputs[i].checked = each === value; });
  return { row, inputs, show };
}

/** A slider over the given values. */
function range(form, field) {
  const [row, label] = form.row(field);
  const output = element(label, "output", "mld-value");
  const input = element(row, "input");
  Object.assign(input, { type: "range", id: form.idOf(field), min: 0, max: field.options.length - 1, step: 1 });
  const say = () => {
    const words = field.options[Number(input.value)]?.[1] ?? "";
    output.textContent = words;
    input.setAttribute("aria-valuetext", words);
    input.style.setProperty("--at", `${(100 * input.value) / Math.max(1, input.max)}%`);
  };
  let held = false; // while it is dragged, what others set waits
  input.addEventListener("pointerdown", () => { held = true; });
  input.addEventListener("input", say);
  input.addEventListener("change", () => {
    held = false;
    form.set(field.name, field.options[Number(input.value)][0]);
  });
  const show = (value) => {
    if (held) return;
    const known = field.options.findIndex(([each]) => each === value);
    input.value = known >= 0 ? known : nearest(field.options, value);
    say();
    if (known < 0 && value !== undefined) output.textContent = String(value);
  };
  return { row, inputs: [input], show };
}

function nearest(options, value) {
  let best = 0;
  options.forEach(([each], i) => {
    if (Math.abs(each - value) < Math.abs(options[best][0] - value)) best = i;
  });
  return best;
}

function select(form, field) {
  const [row] = form.row(field);
  const input = element(row, "select");
  input.id = form.idOf(field);
  field.options.forEach(([value, words], i) => {
    const option = element(input, "option", "", words);
    option.value = String(i);
  });
  input.addEventListener("change", () => form.set(field.name, field.options[Number(input.value)][0]));
  const show = (value) => { input.value = String(field.options.findIndex(([each]) => each === value)); };
  return { row, inputs: [input], show };
}

/** A line, or a few; Enter sends it. */
function text(form, field) {
  const [row] = form.row(field);
  const input = element(row, field.rows ? "textarea" : "input");
  input.id = form.idOf(field);
  if (!field.rows) input.type = field.secret ? "password" : "text";
  else input.rows = field.rows;
  input.placeholder = field.placeholder ?? "";
  input.maxLength = field.most ?? 400;
  input.autocomplete = "off";
  input.spellcheck = false;
  input.addEventListener("input", () => form.set(field.name, input.value));
  input.addEventListener("keydown", (event) => {
    event.stopPropagation(); // a notebook has keys of its own
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.send("submit", field.name);
  });
  const show = (value) => {
    if (input.value !== (value ?? "") && (document.activeElement !== input || !value)) input.value = value ?? "";
  };
  return { row, inputs: [input], show };
}

function buttons(form, field) {
  const row = element(form.root, "div", "mld-field mld-buttons");
  const inputs = field.options.map(([name, words, kind]) => {
    const made = element(row, "button", `mld-button ${kind ? `mld-${kind}` : ""}`, words);
    made.type = "button";
    made.dataset.press = name;
    made.addEventListener("click", () => form.send("press", name));
    return made;
  });
  const show = (values, off) => field.options.forEach(([name, words], i) => {
    inputs[i].disabled = name in off;
    inputs[i].title = off[name] ?? "";
    const said = values?.[name];
    if (said) inputs[i].textContent = said;
    else if (inputs[i].textContent !== words) inputs[i].textContent = words;
  });
  return { row: null, inputs, show };
}

/** A sentence of the kernel's, read out when it changes. */
function note(form, field) {
  const row = element(form.root, "p", "mld-note");
  row.setAttribute("role", "status");
  const show = (value) => {
    if (row.textContent !== (value ?? "")) row.textContent = value ?? "";
    row.hidden = !value;
  };
  return { row, show };
}

const MAKERS = { choice, range, select, text, buttons, note };

export default {
  render({ model, el }) {
    const view = new FormView(model, el);
    return () => view.destroy();
  },
};
