"""Walk: a short run, one iteration at a time: who waits, who is in which slot, who is done.

    Walk.of([(4, 4), (4, 1), (4, 6), (4, 6), (4, 5)], slots=3)   # (prompt, output) tokens, A–E

The run is made by the engine itself on the simulated runner; nothing is drawn by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import anywidget
import traitlets

from minillm.core import (
    Arrival,
    CacheConfig,
    EngineConfig,
    LLMEngine,
    SamplingParams,
    SchedulerConfig,
    Trace,
    drive,
)
from minillm.core.trace import PREFILL, letter
from minillm.sim import SimulatedRunner
from widgets import assets, cards

CSS = "\n".join(
    assets.style(name) for name in ("lesson/lesson.css", "questions/questions.css", "walk/walk.css")
)


class Walk(anywidget.AnyWidget):
    """steps: one dict an iteration, {queue, slots, done, changed, text}. position: from 0."""

    _esm = assets.module("shared/keys.js", "questions/dom.js", "walk/walk.js")
    _css = CSS

    steps = traitlets.List(traitlets.Dict()).tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)
    provenance = traitlets.Unicode("").tag(sync=True)

    @classmethod
    def of(
        cls, requests: Sequence[tuple[int, int]], slots: int, policy: str = "continuous"
    ) -> Walk:
        """Run these requests, (prompt, output) tokens, all there at the start."""
        trace = _run(requests, slots, policy)
        outputs = {index: output for index, (_, output) in enumerate(requests)}
        return cls(steps=walk_steps(trace, slots, outputs), provenance="◐ simulated")

    def table(self) -> cards.Html:
        """The whole walk as a table: a row an iteration, a column a slot."""
        count = len(self.steps[0]["slots"])
        columns = ["iteration", *(f"slot {i + 1}" for i in range(count)), "queue", "what happens"]
        rows = [
            [
                str(number),
                *(f"{s['letter']} {s['done']}/{s['of']}" if s else "–" for s in step["slots"]),
                " ".join(step["queue"]) or "–",
                step["text"],
            ]
            for number, step in enumerate(self.steps, 1)
        ]
        html = (
            "<details><summary>The whole walk as a table</summary>"
            f"{cards.table(columns, rows, left=True)}</details>"
        )
        note = f'<p class="ml-note">{escape(self.provenance)}: by this course’s engine</p>'
        return cards.Html(cards.card(html, note), cards.text_table(columns, rows))


def _run(requests: Sequence[tuple[int, int]], slots: int, policy: str) -> Trace:
    tokens = sum(prompt + output for prompt, output in requests)
    config = EngineConfig(
        CacheConfig(tokens, 1, False), SchedulerConfig(max_num_seqs=slots), policy
    )
    engine = LLMEngine(config, SimulatedRunner())
    arrivals = [
        Arrival(letter(i), tuple(range(3, 3 + prompt)), SamplingParams(output, ignore_eos=True))
        for i, (prompt, output) in enumerate(requests)
    ]
    for _ in drive(engine, arrivals):
        pass
    return engine.trace


def walk_steps(trace: Trace, slots: int, outputs: dict[int, int]) -> list[dict]:
    """A trace as the steps of a Walk. outputs: index → tokens that the request will give."""
    seats: list[int | None] = [None] * slots
    done_tokens = dict.fromkeys(outputs, 0)
    finished: list[int] = []
    steps = []
    for record in trace.steps:
        left = [index for index in seats if index is not None and index in finished]
        in_step = [row.req_idx for row in record.rows]
        seats = [index if index in in_step else None for index in seats]
        joined = [index for index in in_step if index not in seats]
        for index in joined:
            seats[seats.index(None)] = index
        kinds = {row.req_idx: row.kind for row in record.rows}
        for row in record.rows:
            done_tokens[row.req_idx] += row.token_id is not None
        before = list(finished)
        finished += [i for i in in_step if i not in finished and done_tokens[i] == outputs[i]]
        queue = [i for i in outputs if i not in in_step and done_tokens[i] == 0]
        steps.append({
            "queue": [letter(i) for i in queue],
            "done": [letter(i) for i in before if i not in in_step],
            "changed": bool(joined) and bool(steps),
            "slots": [
                None if i is None else {
                    "letter": letter(i), "kind": PREFILL if i in joined else kinds[i],
                    "done": done_tokens[i], "of": outputs[i], "joined": i in joined,
                }
                for i in seats
            ],
            "text": _sentence(left, joined, seats, queue),
        })  # fmt: skip
    return steps


def _sentence(left: list[int], joined: list[int], seats: list[int | None], queue: list[int]) -> str:
    parts = []
    if left:
        gone = _list(left)
        parts.append(f"{gone} left after the last iteration.")
    if joined:
        parts.append(f"{_list(joined)} {'joins' if len(joined) == 1 else 'join'} at once.")
    idle = seats.count(None)
    if idle and not queue:
        noun = "slot is" if idle == 1 else "slots are"
        parts.append(f"Nobody waits: {idle} {noun} idle.")
    if not parts:
        parts.append("Everyone in a slot gets one more token.")
    return " ".join(parts)


def _list(indices: list[int]) -> str:
    names = [letter(index) for index in indices]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
