// Quiz: questions with options, an answer to every pick. Everything is here: it needs no kernel.
import { groupName, make } from "../questions/dom.js";
import { keepKeys } from "../shared/keys.js";

function renderQuiz({ model, el }) {
  const name = groupName("quiz");
  const items = model.get("items");

  const shows = items.map((item, number) => {
    const feedback = make("p", { class: "ml-feedback", role: "status" });
    const inputs = item.options.map((_, index) => {
      const pick = () => {
        const picked = [...model.get("picked")];
        picked[number] = index;
        model.set("picked", picked);
        model.save_changes();
      };
      return make("input", { type: "radio", name: `${name}-${number}`, value: String(index), onchange: pick });
    });
    const options = item.options.map((option, index) => make("label", { class: "ml-option" }, inputs[index], make("span", { text: option.text })));
    const group = make("div", { role: "radiogroup", "aria-label": item.text }, ...options);
    el.append(keepKeys(make("div", { class: "ml-card ml-quiz" },
      make("div", { class: "ml-head" },
        make("span", { class: "ml-title", text: `Quiz, ${number + 1} of ${items.length}` }),
        make("span", { class: "ml-note", text: "no points, try again as you like" })),
      make("p", { text: item.text }), group, feedback)));
    return (index) => {
      const option = item.options[index];
      if (!option) return;
      inputs[index].checked = true;
      feedback.textContent = `${option.right ? "✓ Right." : "✕ Not quite."} ${option.feedback}`;
      feedback.className = `ml-feedback ${option.right ? "ml-ok" : "ml-bad"}`;
    };
  });
  const show = () => shows.forEach((call, number) => call(model.get("picked")[number])); // in every view

  const said = make("span", { class: "ml-note", role: "status", text: model.get("saved") });
  const save = make("button", { class: "ml-button", type: "button", text: "Save my answers", onclick: () => model.send({ save: true }) });
  const told = () => { said.textContent = model.get("saved"); };
  el.append(keepKeys(make("div", { class: "ml-card ml-save" }, save, said)));
  model.on("change:saved", told);
  model.on("change:picked", show);
  show();
  return () => {
    model.off("change:saved", told);
    model.off("change:picked", show);
  };
}

export default { render: renderQuiz };
