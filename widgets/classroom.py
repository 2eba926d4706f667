"""A class on one server: a student's seat, and the instructor's desk.

    import widgets
    widgets.join("http://192.168.1.20:8000", "K7QM-3XVD", "Ada")    # a student
    widgets.teach("http://192.168.1.20:8000", KEY)                  # the instructor

Both are shown by the cell that makes them (widgets.class_panels). They follow the server from
threads of their own until `close()`, or until the cell is run again.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from widgets.class_client import MAX_TOKENS, ClassClient, ClassError, traced_id
from widgets.class_watch import ClassView, ClassWatch

POLL_S = 1.0
KEPT = 4  # questions and answers that are shown
SCHEDULING = {"policy", "max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill"}


@dataclass(slots=True)
class Exchange:
    """One question of one's own. state: sent, answering, done, refused, broken.

    request_id: what the server's trace calls it.
    """

    question: str
    text: str = ""
    state: str = "sent"
    error: str = ""
    sent_as: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def request_id(self) -> str:
        return traced_id(self.sent_as)

    @property
    def over(self) -> bool:
        return self.state in ("done", "refused", "broken")


class AskingWatch(ClassWatch):
    """A watch that also sends questions; `exchanges` are the newest ones, with their answers."""

    def __init__(self, client: ClassClient, view: ClassView | None = None) -> None:
        super().__init__(client, view)
        self.exchanges: deque[Exchange] = deque(maxlen=KEPT)

    def ask(self, prompt: str, max_tokens: int = MAX_TOKENS) -> Exchange | None:
        """Send one prompt, now; None for an empty one. Its text comes into the Exchange."""
        if not prompt.strip():
            return None
        exchange = Exchange(prompt)
        self.exchanges.appendleft(exchange)
        args = (exchange, max_tokens)
        threading.Thread(target=self._answer, args=args, name="minillm-ask", daemon=True).start()
        return exchange

    def _answer(self, exchange: Exchange, max_tokens: int) -> None:
        try:
            pieces = self.client.ask(exchange.question, max_tokens, request_id=exchange.sent_as)
            for piece in pieces:
                exchange.text += piece
                exchange.state = "answering"
            exchange.state = "done"
        except ClassError as error:
            exchange.state, exchange.error = "refused", str(error)
        except (ConnectionError, ValueError, LookupError) as error:
            exchange.state, exchange.error = "broken", str(error)


class Seat(AskingWatch):
    """A student's place: sees everybody's requests, sends their own, reads their own answers."""

    def __init__(
        self, url: str, code: str, nickname: str, view: ClassView | None = None, key: str = ""
    ) -> None:
        super().__init__(ClassClient(url, key or code), view)
        self.code = code
        self.told = self.client.state() if key else self.client.join(nickname)
        self.nickname: str = self.told["nickname"]

    def _renew(self) -> bool:
        """The server was started anew: join it once more, if its code is still the same."""
        self.client.key = self.code
        try:
            self.nickname = self.client.join(self.nickname)["nickname"]
        except (ClassError, ConnectionError):
            return False
        return True

    @cached_property
    def panel(self):
        """Status, form, answers and timeline, as one widget."""
        from widgets.class_panels import seat_panel

        return seat_panel(self)

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        return self.panel._repr_mimebundle_(**kwargs)


class Desk(AskingWatch):
    """The instructor's place: who asks for how much, and what the class runs on.

    at_once False: `state` stays {} until the server, which may not be up yet, has told it.
    """

    def __init__(
        self, url: str, key: str, view: ClassView | None = None, *, at_once: bool = True
    ) -> None:
        super().__init__(ClassClient(url, key), view)
        self.state: dict[str, Any] = self.client.state() if at_once else {}
        if at_once and self.state["role"] != "instructor":
            raise ClassError(
                "That key is a student's: the server printed the instructor's key when it started.",
                403,
            )
        self.said = ""  # what came of the last change
        self._changes: deque[dict[str, Any]] = deque()

    def control(self, **changes: Any) -> None:
        """Change something, soon: paused, policy, max_num_seqs, max_num_batched_tokens,
        enable_chunked_prefill, device (a simulated GPU), student_limit. Returns at once; `said`
        tells what came of it."""
        self._changes.append(changes)
        self._background.wake()

    @property
    def students(self) -> list[dict[str, Any]]:
        """A row per nickname: who takes most comes first."""
        return self.state.get("students", [])

    def _jobs(self) -> list[Callable[[], Iterator[float]]]:
        return [self._poll]

    def _poll(self) -> Iterator[float]:
        while not self._stopping.is_set():
            try:
                while self._changes:
                    self._apply(self._changes.popleft())
                self.state = self.client.state()
            except (ClassError, ConnectionError):
                pass  # the trace's thread says so already
            yield POLL_S

    def _apply(self, changes: dict[str, Any]) -> None:
        try:
            self.state = self.client.control(**changes)
            self.said = change_sentence(changes, self.state)
        except ClassError as error:
            self.said = str(error)
        except ConnectionError as error:
            self.said = f"Not changed: {error}"

    @cached_property
    def panel(self):
        """Controls, a table of students and the timeline, as one widget."""
        from widgets.class_panels import desk_panel

        return desk_panel(self)

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        return self.panel._repr_mimebundle_(**kwargs)


def change_sentence(changes: dict[str, Any], state: dict[str, Any]) -> str:
    """What holds from now on, where something was changed."""
    parts = []
    if "paused" in changes:
        parts.append("Paused: requests are taken in and wait." if state["paused"] else "Going on.")
    if SCHEDULING & changes.keys():
        limits = f"up to {state['max_num_seqs']:,} sequences a step"
        if state["policy"] == "continuous":
            limits += f", {state['max_num_batched_tokens']:,} tokens"
        parts.append(f"{state['policy'].capitalize()} batching, {limits}.")
        if state["draining_for_swap"]:
            parts.append("It takes over when those who run now have finished.")
    if "enable_chunked_prefill" in changes:
        chunked = state["enable_chunked_prefill"]
        parts.append(f"Prompts are computed {'in chunks' if chunked else 'whole'}.")
    if "device" in changes:
        parts.append(f"The engine is a simulated {state['device']} now.")
    if "student_limit" in changes:
        limit = state["student_limit"]
        parts.append(f"A student may have {limit:,} request{'s' * (limit != 1)} in flight.")
    return " ".join(parts)


_places: dict[tuple[str, str, str], ClassWatch] = {}  # of this kernel, so that cells can run again


@contextmanager
def _sentence_alone() -> Iterator[None]:
    """What is wrong at the door is shown in the notebook as its sentence, without a traceback."""
    try:
        yield
    except (ClassError, ConnectionError, ValueError) as error:
        said = [str(error)]
        error._render_traceback_ = lambda: said  # IPython asks for it
        raise


@_sentence_alone()
def join(url: str, code: str, nickname: str) -> Seat:
    """Take a seat in a class. Run again, the same cell keeps its seat.

    Raises ClassError or ConnectionError, in one sentence, for a wrong code, a nickname that can't
    be, or a server that isn't there.
    """
    from widgets.timeline import Timeline

    name = (url, code, nickname)
    before = _places.get(name)  # and it stays there until there is another: its key is its name
    key = before.client.key if isinstance(before, Seat) else ""
    if before is not None:
        before.close()
    view = Timeline(by_name=True)
    try:
        seat = Seat(url, code, nickname, view, key)
    except ClassError:
        if not key:
            raise
        seat = Seat(url, code, nickname, view)  # the server has been started anew
    _places[name] = seat
    seat.start()
    return seat


@_sentence_alone()
def teach(url: str, key: str) -> Desk:
    """The instructor's desk. key: what the server printed when it started.

    Raises ClassError or ConnectionError, in one sentence, for a wrong key or a missing server.
    """
    from widgets.timeline import Timeline

    before = _places.pop((url, key, ""), None)
    if before is not None:
        before.close()
    desk = Desk(url, key, Timeline(by_name=True))
    _places[(url, key, "")] = desk
    desk.start()
    return desk
