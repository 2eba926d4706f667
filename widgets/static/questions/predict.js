// Predict: pick a choice, a number or a point on a chart, lock it before Run. The model's traits hold the state:
// answer (null until touched), locked_at ("" until locked).
import { chartInput } from "../questions/chart.js";
import { groupName, make } from "../questions/dom.js";
import { fixed, stepDigits } from "../shared/format.js";
import { keepKeys } from "../shared/keys.js";

/** "1.5" with the step's digits and the unit: "1.5×", "45 %". */
export function shownNumber(value, step, unit) {
  const gap = unit && unit !== "×" ? "\u202f" : "";
  return `${fixed(Number(value), stepDigits(step || 1))}${gap}${unit}`;
}

export function clockTime(date) {
  return `${String(date.getHours()).padStart(2, "0")}:${String(date.getMinutes()).padStart(2, "0")}`;
}

function renderPredict({ model, el }) {
  const name = groupName("predict");
  const card = keepKeys(make("div", { class: "ml-card ml-predict" }));
  el.append(card);
  let input = null; // of a chart

  const set = (values) => {
    for (const [key, value] of Object.entries(values)) model.set(key, value);
    model.save_changes();
  };
  const lock = () => set({ locked_at: clockTime(new Date()) });

  function choices(locked) {
    const group = make("div", { class: "ml-choices", role: "radiogroup", "aria-label": model.get("question") });
    for (const choice of model.get("choices")) {
      const picked = model.get("answer") === choice;
      const input = make("input", { type: "radio", name, value: choice, checked: picked, disabled: locked, onchange: () => set({ answer: choice }) });
      const mark = picked ? make("span", { class: "ml-note", text: "your answer" }) : null;
      group.append(make("label", { class: `ml-choice${picked ? " ml-picked" : ""}` }, input, make("span", { text: choice }), mark));
    }
    return group;
  }

  function number(locked) {
    const [low, high, step, unit] = ["low", "high", "step", "unit"].map((key) => model.get(key));
    const value = model.get("answer");
    const shown = make("output", { class: "ml-value", text: value === null ? "move the slider" : shownNumber(value, step, unit) });
    const slider = make("input", { type: "range", min: low, max: high, step, value: value ?? low, disabled: locked, "aria-label": model.get("question"),
      oninput: () => { shown.textContent = shownNumber(slider.value, step, unit); },
      onchange: () => set({ answer: Number(slider.value) }) });
    const ends = (v) => make("span", { class: "ml-note", text: shownNumber(v, step, unit) });
    return make("div", { class: "ml-number" }, ends(low), slider, ends(high), shown);
  }

  function drawn(locked) {
    input = chartInput(model.get("chart"), model.get("question"), locked, (answer) => set({ answer }));
    input.show(model.get("answer"));
    return input.el;
  }

  function body(locked) {
    if (model.get("chart")) return drawn(locked);
    return model.get("choices").length ? choices(locked) : number(locked);
  }

  /** A point that moves leaves the chart as it is: only the point and the button follow. */
  function answered() {
    if (!input || model.get("locked_at")) return draw();
    input.show(model.get("answer"));
    card.querySelector("button").disabled = model.get("answer") === null;
    return undefined;
  }

  function draw() {
    const focused = card.contains(document.activeElement) ? document.activeElement.value : null;
    const lockedAt = model.get("locked_at");
    const locked = lockedAt !== "";
    const open = model.get("answer") !== null && !locked;
    const note = locked ? (model.get("answer") === null ? "no prediction before Run" : `locked ${lockedAt}, before Run`) : "not locked yet";
    card.replaceChildren(
      make("div", { class: "ml-head" },
        make("span", { class: "ml-title", text: model.get("title") }),
        make("span", { class: "ml-note", role: "status", text: note })),
      make("p", { text: model.get("question") }),
      body(locked),
      locked ? "" : make("button", { class: "ml-button", type: "button", disabled: !open, onclick: lock, text: "Lock my prediction" }),
    );
    const again = [...card.querySelectorAll("input")].find((input) => input.value === focused);
    if (again && !again.disabled) again.focus();
  }

  const changes = { answer: answered, locked_at: draw, question: draw, choices: draw, chart: draw };
  for (const [key, call] of Object.entries(changes)) model.on(`change:${key}`, call);
  draw();
  return () => { for (const [key, call] of Object.entries(changes)) model.off(`change:${key}`, call); };
}

export default { render: renderPredict };
