"""Playground: type a prompt and watch it join the requests that run already.

    play = Playground(llm, max_num_seqs=8)
    play.send("Why is the sky blue?")     # the field in the panel sends yours
    play                                  # field, buttons, policy, the answer, a timeline

The run stays open until Stop, or until another cell takes the model over; Send begins it anew.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from minillm.core import Arrival, RequestOutput, SamplingParams, Scheduler
from widgets import cards
from widgets.session import EngineSession

if TYPE_CHECKING:
    from minillm.core import Trace
    from minillm.llm import LLM

MAX_WAIT_S = 1.0  # static batching, while serving, does not wait longer for a full batch


class Answer:
    """The text of the request that was sent last; a view of the session, told by the driver."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        self.request_id = self.question = self.text = ""
        self.done = False
        self._detokenizer = None
        self._shown: tuple | None = None
        self._guard = threading.Lock()  # a cell or a button asks, the driver answers
        self.widget = None  # an ipywidgets.HTML, once there is a panel

    def follow(self, request_id: str, question: str, prompt: Sequence[int]) -> None:
        """From now on show this request's text."""
        detokenizer = self.llm.detokenizer(prompt)
        with self._guard:
            self.text, self.done, self.question = "", False, question
            self.request_id, self._detokenizer = request_id, detokenizer

    def take(self, output: RequestOutput) -> None:
        """On the driver: the tokens of one step."""
        with self._guard:
            if output.request_id != self.request_id:
                return
            self.text += "".join(self._detokenizer.push(token) for token in output.new_token_ids)
            if output.finished:
                self.text += self._detokenizer.finish() if output.error is None else output.error
                self.done = True

    # ── what a session asks of a view ───────────────────────────────────────────────────────

    def feed(self, lane: int, trace: Trace) -> None:
        """The trace has no text: `take` has it all."""

    def publish(self, *, heartbeat: bool = False) -> None:
        """Show what is new (on the publisher, so at its pace)."""
        state = (self.request_id, self.text, self.done)
        if self.widget is None or state == self._shown or not self.request_id:
            return
        self._shown = state
        self.widget.value = cards.card(
            f"<p><b>{escape(self.question)}</b></p>"
            f"<p>{escape(self.text)}{'' if self.done else ' ▍'}</p>"
        )

    def finish(self, lane: int) -> None:
        """The run is over: there will be no more text."""
        self.done = True
        self.publish()

    def conclude(self) -> None:
        """Nothing to sum up."""

    def set_headline(self, text: str) -> None:
        """The question stands above the answer."""


class Playground:
    """See the module's docstring. settings: fields of SchedulerConfig.

    burst: requests that the button Burst sends at once. pace: as EngineSession.start's.
    """

    def __init__(
        self,
        llm: LLM,
        burst: Iterable[Arrival] = (),
        *,
        policies: Sequence[str | type[Scheduler]] = ("continuous", "dynamic", "static"),
        max_tokens: int = 60,
        pace: float | None = None,
        threads: bool | None = None,
        **settings: object,
    ) -> None:
        from widgets.timeline import Timeline

        self.llm, self.policies, self.requests = llm, list(policies), tuple(burst)
        self.params, self.pace = SamplingParams(max_tokens), pace
        engine = llm.new_engine(self.policies[0], **{"max_wait_s": MAX_WAIT_S, **settings})
        self.answer = Answer(llm)
        self.timeline = Timeline(detokenize=llm.tokenizer.decode)
        self.session = EngineSession(engine, threads=threads, on_output=self.answer.take)
        self.session.watch(self.answer).watch(self.timeline)

    def send(self, prompt: str) -> str | None:
        """Put one question to the model, now; its id, or None for an empty one."""
        if not prompt.strip():
            return None
        self._open()
        token_ids = self.llm.encode(prompt, chat=True)
        return self.session.submit(
            token_ids, self.params, preview=prompt,
            before=lambda request_id: self.answer.follow(request_id, prompt, token_ids),
        )  # fmt: skip

    def burst(self) -> None:
        """Send all of the burst at this instant."""
        self._open()
        self.session.burst(self.requests)

    def swap(self, policy: str | type[Scheduler]) -> None:
        """Change the policy: who runs finishes under the old one, who waits moves over."""
        self.session.swap_scheduler(policy)

    def stop(self) -> None:
        """End the run after the step in hand."""
        self.session.stop()

    def close(self) -> None:
        """Stop and let go of the views."""
        self.session.close()

    @cached_property
    def panel(self):
        """Field, buttons, answer and timeline, as one widget."""
        from widgets.controls import playground_panel

        return playground_panel(self)

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        return self.panel._repr_mimebundle_(**kwargs)

    def _open(self) -> None:
        if not self.session.running:
            self.timeline.reset(0)
            self.session.start(keep_open=True, pace=self.pace)
