"""The tab *Class*: a seat in a class that runs elsewhere, or its instructor's desk."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets

from widgets import classroom
from widgets.class_client import check_url
from widgets.class_watch import ClassWatch
from widgets.dashboard import fields
from widgets.dashboard.form import Form
from widgets.dashboard.tab import Jobs, two_columns

WELCOME = (
    '<div class="mld-words"><h2>One engine, a whole class</h2><p>The instructor starts it with '
    "<code>minillm serve --classroom --host 0.0.0.0</code> and reads out its address and join code."
    "</p><p>Everybody then sees everybody’s requests on one timeline, and the text of their "
    "own.</p></div>"
)


class ClassTab:
    """Joins one class at a time. on_here: kept quiet with the page's own presence."""

    def __init__(self) -> None:
        self.form = Form(
            [
                fields.text("url", "Address", "http://192.168.1.20:8000"),
                fields.text("code", "Join code, or the instructor's key", "K7QM-3XVD", secret=True),
                fields.text("nickname", "Your name", "Ada", most=24),
                fields.buttons("go", ("join", "Join", "main-button"), ("teach", "Teach")),
                fields.buttons("end", ("leave", "Leave")),
                fields.note("said"),
            ],
            "The class",
            url="", code="", nickname="", said="",
        )  # fmt: skip
        self.form.on_press = self._press
        self.place: ClassWatch | None = None
        self._jobs = Jobs(self.form)
        self._main = ipywidgets.VBox([ipywidgets.HTML(WELCOME)])
        self.form.turn_off("leave", "You are in no class.")

    def panel(self) -> ipywidgets.Widget:
        return two_columns(self.form, [self._main])

    def quiet(self, absent: bool) -> None:
        """Whether nobody looks at the page."""
        if self.place is not None:
            self.place.quiet = absent

    def close(self) -> None:
        if self.place is not None:
            self.place.close()
            self.place = None

    def _press(self, name: str) -> None:
        actions: dict[str, Callable[[], object]] = {
            "teach": self.teach, "leave": self.leave, "join": self.join, "nickname": self.join,
            "code": self.join, "url": self.join,
        }  # fmt: skip
        self._jobs.start(actions[name], "" if name == "leave" else "Connecting …")

    def join(self) -> None:
        """Take a seat. ClassError, ConnectionError or ValueError in one sentence."""
        form = self.form
        url = check_url(form["url"].strip())
        self._enter(classroom.join, url, form["code"].strip(), form["nickname"].strip())

    def teach(self) -> None:
        """The instructor's desk."""
        url = check_url(self.form["url"].strip())
        self._enter(classroom.teach, url, self.form["code"].strip())

    def leave(self) -> None:
        self.close()
        self._main.children = (ipywidgets.HTML(WELCOME),)
        self.form.turn_off("leave", "You are in no class.")

    def _enter(self, how: Callable[..., ClassWatch], *where: str) -> None:
        try:
            place = how(*where)
        except classroom.ClassError as error:
            raise ValueError(str(error)) from None
        if self.place is not None and self.place is not place:
            self.place.close()
        self.place = place
        self._main.children = (place.panel,)
        self.form.turn_off("leave", "")
        self.form["said"] = ""
