// Walk: a run step by step. Slots as boxes, the queue before them, who is done behind them.
// Everything is in the model's traits, so it works without a kernel.
import { make } from "../questions/dom.js";
import { keepKeys, leavesWidget } from "../shared/keys.js";

const NAMES = { 0: "reads its prompt", 1: "one more token", 2: "finished, carried along" };

function renderWalk({ model, el }) {
  const root = keepKeys(make("div", { class: "ml-card ml-walk", tabindex: "0", role: "group", "aria-label": "Step through the run with the arrow keys" }));
  const steps = model.get("steps");
  let at = Math.min(model.get("position"), steps.length - 1);

  const go = (to) => {
    const next = Math.max(0, Math.min(steps.length - 1, to));
    if (next === at) return;
    at = next;
    model.set("position", at);
    model.save_changes();
    draw();
  };
  const button = (text, label, to) => make("button", { class: "ml-button", type: "button", "aria-label": label, onclick: () => go(to()), text });
  const back = button("←", "previous iteration", () => at - 1);
  const next = button("→", "next iteration", () => at + 1);
  const title = make("span", { class: "ml-title", role: "status" });
  const note = make("span", { class: "ml-note", text: model.get("provenance") });
  const stage = make("div", { class: "ml-stage" });
  const jumps = make("div", { class: "ml-jumps" });
  const say = make("p");

  function lane(name, letters, kind) {
    const chips = letters.length ? letters.map((one) => make("span", { class: `ml-chip ${kind}`, text: one })) : [make("span", { class: "ml-note", text: "nobody" })];
    return make("div", { class: "ml-lane" }, make("span", { class: "ml-note", text: name }), make("div", { class: "ml-chips" }, ...chips));
  }

  function slots(step) {
    const boxes = step.slots.map((slot, number) => {
      if (!slot) return make("div", { class: "ml-slot ml-empty" }, make("span", { class: "ml-note", text: `slot ${number + 1}, idle` }));
      return make("div", { class: `ml-slot ml-kind${slot.kind}` },
        make("b", { text: slot.letter }),
        make("span", { text: `token ${slot.done} of ${slot.of}` }),
        make("span", { class: "ml-note", text: slot.joined ? "joins: its prompt, and its 1st token" : slot.done === slot.of ? "last token, then it leaves" : NAMES[slot.kind] }));
    });
    return make("div", { class: "ml-slots" }, ...boxes);
  }

  function draw() {
    const step = steps[at];
    const held = root.contains(document.activeElement);
    title.textContent = `Iteration ${at + 1} of ${steps.length}`;
    back.disabled = at === 0;
    next.disabled = at === steps.length - 1;
    stage.replaceChildren(lane("queue", step.queue, "ml-waits"), slots(step), lane("done", step.done, "ml-done"));
    jumps.replaceChildren(...steps.map((one, number) => make("button", {
      class: `ml-jump${number === at ? " ml-here" : ""}${one.changed ? " ml-changed" : ""}`, type: "button",
      "aria-label": `iteration ${number + 1}${one.changed ? ", someone joins" : ""}`, "aria-current": number === at ? "step" : false, onclick: () => go(number), text: String(number + 1) })));
    say.textContent = step.text;
    if (held && (!root.contains(document.activeElement) || document.activeElement.disabled)) root.focus(); // the button is gone, or disabled
  }

  root.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: steps.length - 1 }[event.key];
    if (to === undefined || leavesWidget(event)) return;
    event.preventDefault();
    go(to);
  });
  root.append(make("div", { class: "ml-head" }, title, note), stage, say,
    make("div", { class: "ml-steps" }, back, jumps, next));
  el.append(root);
  draw();
  const follow = () => { // another view, or the kernel, has moved
    if (model.get("position") === at) return;
    at = Math.max(0, Math.min(steps.length - 1, model.get("position")));
    draw();
  };
  model.on("change:position", follow);
  return () => model.off("change:position", follow);
}

export default { render: renderWalk };
