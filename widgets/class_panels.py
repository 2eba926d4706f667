"""The panels of a class: a student's seat and the instructor's desk, in core ipywidgets.

Callbacks only send or enqueue; what is shown is refreshed by the watch's publisher.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets

from minillm.core.config import POLICIES
from widgets import class_words
from widgets.class_client import MAX_TOKENS
from widgets.controls import ROW

if TYPE_CHECKING:
    from widgets.classroom import Desk, Seat


def seat_panel(seat: Seat) -> ipywidgets.VBox:
    """Status, a form for one's own prompt, one's own answers, everybody's timeline."""
    prompt = ipywidgets.Text(
        placeholder="Ask something, then press Enter", description="Prompt",
        style={"description_width": "56px"}, layout={"flex": "1 1 260px"},
    )  # fmt: skip
    tokens = ipywidgets.BoundedIntText(
        MAX_TOKENS, min=1, max=4096, description="Tokens at most",
        style={"description_width": "104px"}, layout={"width": "190px"},
    )  # fmt: skip
    send = ipywidgets.Button(description="Send", layout={"width": "84px"})
    status, answers = _Refreshed(), _Refreshed()

    def submit(_: object = None) -> None:
        if seat.ask(prompt.value, tokens.value):
            prompt.value = ""

    def refresh() -> None:
        status.show(class_words.status_line(seat.nickname, seat.status, seat.live))
        answers.show(class_words.answers(list(seat.exchanges)))

    send.on_click(submit)
    prompt.on_msg(lambda _, content, __: submit() if content.get("event") == "submit" else None)
    refresh()
    seat.on_publish.append(refresh)
    form = ipywidgets.Box([prompt, tokens, send], layout=ROW)
    return _column(status.widget, form, answers.widget, seat.view)


def desk_panel(desk: Desk) -> ipywidgets.VBox:
    """Status, pause, policy and limits, what came of the last change, students, the timeline."""
    status, said, table = _Refreshed(), _Refreshed(), _Refreshed()
    pause = ipywidgets.Button(
        description="Pause the class", layout={"width": "130px"},
        tooltip="Stop computing after the step in hand; requests are taken in and wait",
    )  # fmt: skip
    policy = ipywidgets.Dropdown(
        options=POLICIES, value=_known(desk.state["policy"]), description="Policy",
        style={"description_width": "48px"}, layout={"width": "190px"},
    )  # fmt: skip
    limits = {
        name: ipywidgets.BoundedIntText(
            desk.state[name], min=1, max=most, description=label,
            style={"description_width": "initial"}, layout={"width": width},
        )
        for name, label, most, width in (
            ("max_num_seqs", "max_num_seqs", 4096, "200px"),
            ("max_num_batched_tokens", "max_num_batched_tokens", 131072, "270px"),
            ("student_limit", "Requests per student", 1000, "230px"),
        )
    }  # fmt: skip
    apply = ipywidgets.Button(description="Apply", layout={"width": "84px"})

    def send(_: object) -> None:
        """Only what differs from what holds now."""
        wanted: dict[str, Any] = {name: field.value for name, field in limits.items()}
        wanted["policy"] = policy.value
        changes = {name: value for name, value in wanted.items() if value != desk.state.get(name)}
        if changes:
            desk.control(**changes)

    def refresh() -> None:
        state = desk.state
        who = f"Instructor, {state['num_students']:,} joined"
        status.show(class_words.status_line(who, desk.status, desk.live))
        said.show(f'<span class="ml-note">{escape(desk.said)}</span>')
        table.show(class_words.student_table(desk.students))
        pause.description = "Resume the class" if state["paused"] else "Pause the class"

    pause.on_click(lambda _: desk.control(paused=not desk.state["paused"]))
    apply.on_click(send)
    refresh()
    desk.on_publish.append(refresh)
    code = ipywidgets.HTML(class_words.code_card(desk.state["join_code"], desk.client.url))
    row = {**ROW, "grid_gap": "4px 12px"}
    said.widget.layout.flex = "1 1 0"  # beside the button, wrapped in what room is left
    settings = ipywidgets.Box([policy, *limits.values(), apply], layout=row)
    return _column(
        code, status.widget, ipywidgets.Box([pause, said.widget], layout=row), settings,
        table.widget, desk.view,
    )  # fmt: skip


class _Refreshed:
    """An HTML widget that is sent only when its text has changed."""

    def __init__(self) -> None:
        self.widget = ipywidgets.HTML()
        self._shown = ""

    def show(self, html: str) -> None:
        if html != self._shown:
            self._shown = html
            self.widget.value = html


def _known(policy: str) -> str | None:
    return policy if policy in POLICIES else None


def _column(*children: Any) -> ipywidgets.VBox:
    return ipywidgets.VBox(
        [child for child in children if child is not None], layout={"width": "100%"}
    )
