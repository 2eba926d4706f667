// What a timeline has beside every figure's parts: a canvas for the data, and its buttons.

import { element, toolButton } from "../shared/dom.js";

export function addTimelineParts(view) {
  const { dom } = view;
  dom.data = element(dom.figure, "canvas", "mlt-data");
  dom.data.setAttribute("aria-hidden", "true");
  dom.figure.insertBefore(dom.data, dom.over);
  dom.lane = toolButton(dom, "", () => {
    view.shownLane = 1 - view.shownLane;
    view.repaint();
  });
  dom.fit = toolButton(dom, "Show all", () => view.setWindow(null));
  dom.mode = toolButton(dom, "Show slots", () => view.toggleMode());
  dom.pause = toolButton(dom, "Pause", () => view.togglePause());
  for (const button of [dom.lane, dom.fit, dom.mode, dom.pause]) button.hidden = true;
}
