// Quiz: questions with options, an answer to every pick. Everything is here: it needs no kernel.
import { make } from "../questions/dom.js";
import { keepKeys } from "../shared/keys.js";

let quizCount = 0;

function renderQuiz({ model, el }) {
  const name = `ml-quiz-${(quizCount += 1)}`;
  const items = model.get("items");

  items.forEach((item, number) => {
    const feedback = make("p", { class: "ml-feedback", role: "status" });
    const options = item.options.map((option, index) => {
      const pick = () => {
        feedback.textContent = `${option.right ? "✓ Right." : "✕ Not quite."} ${option.feedback}`;
        feedback.className = `ml-feedback ${option.right ? "ml-ok" : "ml-bad"}`;
        const picked = [...model.get("picked")];
        picked[number] = index;
        model.set("picked", picked);
        model.save_changes();
      };
      const input = make("input", { type: "radio", name: `${name}-${number}`, value: String(index), onchange: pick });
      if (model.get("picked")[number] === index) { input.checked = true; queueMicrotask(pick); }
      return make("label", { class: "ml-option" }, input, make("span", { text: option.text }));
    });
    const group = make("div", { role: "radiogroup", "aria-label": item.text }, ...options);
    el.append(keepKeys(make("div", { class: "ml-card ml-quiz" },
      make("div", { class: "ml-head" },
        make("span", { class: "ml-title", text: `Quiz, ${number + 1} of ${items.length}` }),
        make("span", { class: "ml-note", text: "no points, try again as you like" })),
      make("p", { text: item.text }), group, feedback)));
  });

  const said = make("span", { class: "ml-note", role: "status", text: model.get("saved") });
  const save = make("button", { class: "ml-button", type: "button", text: "Save my answers", onclick: () => model.send({ save: true }) });
  const told = () => { said.textContent = model.get("saved"); };
  el.append(keepKeys(make("div", { class: "ml-card ml-save" }, save, said)));
  model.on("change:saved", told);
  return () => model.off("change:saved", told);
}

export default { render: renderQuiz };
