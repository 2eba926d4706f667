"""JupyterLab runs a cell with a canvas widget in a real browser, with the network cut off."""

from __future__ import annotations

import nbformat

from tests.e2e.lab import LabPage, LabServer, run_notebook

WIDGET = '''
import anywidget, traitlets

class Dot(anywidget.AnyWidget):
    """Paints a square in the colour that Python says."""
    colour = traitlets.Unicode("#0072B2").tag(sync=True)
    _esm = """
    export default {
        render({ model, el }) {
            const canvas = document.createElement("canvas");
            canvas.width = canvas.height = 40;
            canvas.className = "dot";
            const draw = () => {
                const pen = canvas.getContext("2d");
                pen.fillStyle = model.get("colour");
                pen.fillRect(0, 0, 40, 40);
            };
            model.on("change:colour", draw);
            draw();
            el.append(canvas);
        }
    };
    """

dot = Dot()
dot
'''
PIXEL = """() => {
    const canvas = document.querySelector('canvas.dot');
    return canvas && [...canvas.getContext('2d').getImageData(20, 20, 1, 1).data.slice(0, 3)];
}"""


def write_notebook(lab: LabServer, name: str, *sources: str) -> str:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    for index, cell in enumerate(notebook.cells):
        cell.id = f"test-{index}"
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, lab.root / name)
    return name


def test_a_widget_paints_and_follows_python(lab: LabServer, page: LabPage):
    name = write_notebook(lab, "dot.ipynb", WIDGET, 'dot.colour = "#E69F00"')
    assert run_notebook(page, name) == []
    page.show_cell("test-0")
    page.page.wait_for_selector("canvas.dot")
    page.page.wait_for_function(f"() => `${{({PIXEL})()}}` === '230,159,0'")
    assert page.page.locator("text=Would you like to").count() == 0  # no question about news
    assert page.page.locator("text=Nbgrader").count() == 0  # instructors' panels
    page.check_clean()


def test_errors_of_cells_are_reported_with_their_cell(lab: LabServer, page: LabPage):
    name = write_notebook(lab, "broken.ipynb", "1 + 1", "1 / 0")
    errors = run_notebook(page, name)
    assert errors == ["test-1: ZeroDivisionError: division by zero"]


def test_a_request_to_the_outside_is_seen_and_fails(lab: LabServer, page: LabPage):
    page.open_notebook(write_notebook(lab, "empty.ipynb", "1"))
    reached = page.page.evaluate(
        "() => fetch('http://example.invalid/').then(() => true, () => false)"
    )
    assert reached is False
    assert page.external_requests == ["http://example.invalid/"]
