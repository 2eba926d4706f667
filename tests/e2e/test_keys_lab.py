"""Keys in JupyterLab: a focused figure keeps letters and arrows, which are commands on cells there;
the browser's and JupyterLab's own shortcuts with Ctrl still work."""

from __future__ import annotations

from tests.e2e.lab import LabPage, LabServer, run_notebook
from tests.e2e.test_lab import write_notebook

FIGURES = """
from tests.e2e.gallery import WIDGETS
timeline = WIDGETS["timeline"]()
timeline
"""
PREDICT = 'WIDGETS["predict_point"]()'
WALK = 'WIDGETS["walk"]()'
CELLS = """() => window.jupyterapp.shell.currentWidget.content.widgets.map(
    cell => [cell.model.type, cell.model.sharedModel.getSource().trim()])"""
COMMANDS = ("a", "b", "m", "y", "r", "x", "c", "v", "z", "d", "d", "1", "o", "i", "0")


def test_a_focused_widget_keeps_letters_from_the_notebook(lab: LabServer, page: LabPage):
    name = write_notebook(lab, "keys.ipynb", FIGURES, PREDICT, WALK, "1 + 1")
    page.page.set_viewport_size({"width": 1280, "height": 2400})
    assert run_notebook(page, name) == []
    tab = page.page
    before = tab.evaluate(CELLS)
    figure = tab.locator("canvas.mlt-over").first
    button = tab.get_by_role("button", name="Show slots")
    for place in (figure, button, tab.locator("svg.ml-chart"), tab.locator(".ml-walk")):
        place.focus()
        for key in (*COMMANDS, "ArrowUp", "ArrowDown", "Shift+ArrowDown", "Escape"):
            tab.keyboard.press(key)
        assert tab.evaluate(CELLS) == before
    # Keys of the widgets' own: the cursor moves, a button is pressed.
    figure.focus()
    tab.keyboard.press("Home")
    tab.keyboard.press("Shift+ArrowRight")
    assert (
        tab.evaluate(
            "() => document.querySelector('.mlt').parentElement.figureView.cursor.step.number"
        )
        == 10
    )
    button.focus()
    tab.keyboard.press("Enter")
    tab.get_by_role("button", name="Show requests").wait_for()
    # With Ctrl they are JupyterLab's: the notebook is saved from within a figure.
    figure.focus()
    tab.evaluate("""() => {
        const { model } = window.jupyterapp.shell.currentWidget.context;
        model.dirty = true;
    }""")
    tab.keyboard.press("Control+s")
    tab.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    # Tab leaves the figure, and on a cell itself the letters are commands still.
    tab.keyboard.press("Tab")
    assert tab.evaluate("() => document.activeElement.className") != "mlt-over"
    tab.evaluate("""() => {
        const { content } = window.jupyterapp.shell.currentWidget;
        content.activeCellIndex = 3;
        content.mode = 'command';
        content.activate();
    }""")
    tab.keyboard.press("b")
    tab.wait_for_function(f"n => ({CELLS})().length === n + 1", arg=len(before))
    page.check_clean()
