"""The course's last cell: type a name, get the summary page as a file beside the notebooks.

    SummaryForm()                  # a field, a button, a preview
    summary("Ada Lovelace")        # the same without the form

The name goes into the page and nowhere else.
"""

from __future__ import annotations

import base64
import time
from datetime import datetime
from html import escape
from pathlib import Path

import ipywidgets

from widgets import cards, progress_file
from widgets.files import reason, write_whole
from widgets.progress import STYLE
from widgets.summary_page import clean_name, summary_page

FILE = "course-summary.html"


def summary(name: str, path: str | Path = FILE) -> cards.Html:
    """Write the page and show it; a card says where it is, or why it could not be written.

    Raises ValueError for a name that the page cannot show.
    """
    name, path = clean_name(name), Path(path)
    page = summary_page(name, progress_file.here().facts(), datetime.now().astimezone())
    try:
        write_whole(path, page)
    except OSError as error:
        said, kind = f"Not saved: {reason(error, path)}. The link below has the page.", "alert"
    else:
        said, kind = f"Saved to {path} at {time.strftime('%H:%M')}.", "good"
    coded = base64.b64encode(page.encode()).decode()
    link = (
        f'<a class="ml-way" download="{FILE}" href="data:text/html;charset=utf-8;base64,{coded}">'
        "Download the page</a>"
    )
    preview = (
        f'<iframe sandbox title="The page, as it will be printed" srcdoc="{escape(page)}" '
        'style="width:100%;height:520px;border:1px solid var(--ml-line);border-radius:6px;'
        'background:#fff;margin-top:10px"></iframe>'
    )
    html = cards.card(
        STYLE, cards.head(said),
        f"<p>Open it in a browser to print it or to save it as PDF. {link}</p>",
        preview, kind=kind,
    )  # fmt: skip
    return cards.Html(html, said)


class SummaryForm(ipywidgets.VBox):
    """A field for the name and a button; below them what came of it."""

    def __init__(self) -> None:
        self.name = ipywidgets.Text(
            description="Your name", placeholder="as it shall stand on the page",
            style={"description_width": "initial"}, layout={"width": "340px"},
        )  # fmt: skip
        self.button = ipywidgets.Button(description="Make my page")
        self.result = ipywidgets.HTML()
        self.button.on_click(lambda _: self._make())
        row = ipywidgets.HBox([self.name, self.button], layout={"flex_flow": "row wrap"})
        super().__init__([row, self.result])

    def _make(self) -> None:
        try:
            self.result.value = summary(self.name.value).html
        except ValueError as error:
            self.result.value = cards.card(f"<p>{escape(str(error))}</p>", kind="alert")
