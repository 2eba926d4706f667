"""What a decode step reads, as a bar: the weights, and beside them a KV cache that grows.

    bar = KvBar(llm)
    EngineSession(engine).watch(bar).start(requests)     # follows the newest decode step
    ReadsPanel("A100-80GB-SXM", "llama-3.1-8b")          # simulated: sliders for users and context

Bytes are computed from the model's sizes, the time beside them is the run's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from minillm.core.trace import PREFILL, StepRecord, Trace
from minillm.sim.activity import step_bytes
from minillm.sim.models import DType, ModelSpec, get_dtype, get_model
from widgets import cards
from widgets.figures import to_svg
from widgets.numbers import number3, plural, seconds
from widgets.roofline_model import share_text
from widgets.shapes import Drawing, Line, Rect, Shape, Text

if TYPE_CHECKING:
    from minillm.llm import LLM

WIDTH, HEIGHT, BAR = 760.0, 92.0, 26.0
COLUMNS = ("users", "context each", "weights", "KV", "KV's share", "one step", "tok/s in all")
USERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768)


@dataclass(frozen=True, slots=True)
class Reads:
    """What one decode step reads. context: tokens of all users; bytes; seconds, None: not known."""

    users: int
    context: int
    weights: float
    per_token: float
    seconds: float | None = None

    @property
    def kv(self) -> float:
        return self.context * self.per_token

    @property
    def share(self) -> float:
        """KV's share of all that is read, 0 to 1."""
        return self.kv / (self.weights + self.kv)


def reads_of(step: StepRecord, weights: float, per_token: float) -> Reads:
    """What a recorded step read: each row's KV up to its own tokens."""
    context = sum(row.start + row.n_tokens for row in step.rows)
    return Reads(len(step.rows), context, weights, per_token, step.t_end - step.t_start)


def bar_svg(reads: Reads, scale: float) -> str:
    """The bar on a scale of so many bytes, with a text alternative."""
    per_byte = WIDTH / scale
    weights, kv = reads.weights * per_byte, reads.kv * per_byte
    shapes: list[Shape] = [
        Rect(0, 30, weights, BAR, "queue"),
        Rect(weights, 30, kv, BAR, "decode"),
        Line(2 * weights, 22, 2 * weights, 64, "ink", 1.2, True),
        Text(0, 20, f"weights {_bytes(reads.weights)}", "ink2", 12),
        Text(weights + 2, 20, f"KV {_bytes(reads.kv)}", "ink", 12, True),
    ]
    if 2 * weights < WIDTH - 4:
        words, left = "as much KV as weights", 2 * weights > WIDTH - 150
        shapes.append(Text(2 * weights + (-6 if left else 6), 78, words, "ink2", 11.5, False,
                           "end" if left else "start"))  # fmt: skip
    alt = (
        f"A step reads {_bytes(reads.weights)} of weights and {_bytes(reads.kv)} of KV, "
        f"{share_text(reads.share)} of all."
    )
    return to_svg(Drawing(WIDTH, HEIGHT, shapes), alt.replace("\u2009", " "))


class KvBar:
    """A view of a session of this LLM. steps: what each decode step read, in order."""

    def __init__(self, llm: LLM) -> None:
        import ipywidgets

        from minillm.bench.calibrate import model_spec

        self.steps: list[Reads] = []
        self.widget = ipywidgets.HTML(cards.card("<p>Nothing has run yet.</p>"))
        self._trace: Trace | None = None
        self._read = self._shown = 0
        real = llm.info.provenance == "measured"
        model = model_spec(llm) if real else llm.runner.cost_model.model
        self._sizes = step_bytes(model, get_dtype(llm.info.dtype))
        self._where = self._words = ""

    # ── what a session asks of a view ───────────────────────────────────────────────────────

    def feed(self, lane: int, trace: Trace) -> None:
        """Take the new steps; another trace than before is a new run."""
        if trace is not self._trace:
            self._trace, self._read, self._shown, self.steps = trace, 0, 0, []
            self._where, self._words = cards.provenance(trace.header), ""
        steps = trace.steps
        for step in steps[self._read :]:
            if all(row.kind != PREFILL for row in step.rows):
                self.steps.append(reads_of(step, *self._sizes))
        self._read = len(steps)

    def publish(self, *, heartbeat: bool = False) -> None:
        """Draw the newest step, if there is a new one."""
        if len(self.steps) > self._shown:
            self._shown = len(self.steps)
            self.widget.value = self._card(self.steps[-1])

    def finish(self, lane: int) -> None:
        """There are no more steps: see conclude."""

    def conclude(self) -> None:
        """Show the step that read the most."""
        if self.steps:
            most = self.fullest()
            self._words = f"At its fullest: {_title(most)}"
            self.widget.value = self._card(most)

    def set_headline(self, text: str) -> None:
        """Such as that the run was stopped."""
        self._words = text
        if self.steps:
            self.widget.value = self._card(self.steps[-1])

    # ── afterwards ──────────────────────────────────────────────────────────────────────────

    def fullest(self) -> Reads:
        """The step that read the most KV. Raises ValueError before there was a decode step."""
        if not self.steps:
            raise ValueError("No decode step has run yet.")
        return max(self.steps, key=lambda reads: reads.kv)

    def table(self) -> cards.Html:
        """The first decode step and the one that read the most, as figures."""
        most = self.fullest()
        title = (
            f"A step read up to {_bytes(most.kv)} of KV beside {_bytes(most.weights)} of weights."
        )
        return _table(title, self._where, [self.steps[0], most])

    def _card(self, reads: Reads) -> str:
        title = self._words or _title(reads)
        scale = max(2.4 * reads.weights, 1.1 * (reads.weights + self.fullest().kv))
        note = f"{reads.context:,} tokens × {_bytes(reads.per_token)} of KV each"
        return cards.card(
            cards.head(title, self._where),
            cards.broad(bar_svg(reads, scale)),
            f'<p class="ml-note">{note}</p>',
        )

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        return self.widget._repr_mimebundle_(**kwargs)


def _title(reads: Reads) -> str:
    took = "" if reads.seconds is None else f", {seconds(reads.seconds)}"
    return f"{plural(reads.users, 'user')}, {reads.context:,} tokens of context{took}"


class ReadsPanel:
    """A simulated decode step: sliders for users and context, the bar, the time."""

    def __init__(self, gpu: str = "A100-80GB-SXM", model: str = "llama-3.1-8b") -> None:
        import ipywidgets

        from minillm.sim import GPUCostModel

        self.cost = GPUCostModel(gpu, model)
        self.capacity = self.cost.kv_tokens()
        self.users = _slider("Users", USERS, 32)
        self.context = _slider("Context (tokens)", CONTEXTS, 2048)
        self.shown = ipywidgets.HTML()
        for slider in (self.users, self.context):
            slider.observe(lambda _: self.show(), "value")
        self.panel = ipywidgets.VBox([self.users, self.context, self.shown])
        self.show()

    def reads(self, users: int, context: int) -> Reads:
        """One decode step of so many users with so many tokens each."""
        from minillm.sim.pipeline import Load

        took = self.cost.seconds(Load(users, users * context, (), users))
        weights, per_token = step_bytes(self.cost.model, self.cost.dtype)
        return Reads(users, users * context, weights, per_token, took)

    def show(self) -> None:
        """Draw the step that the sliders say."""
        reads = self.reads(self.users.value, self.context.value)
        scale = max(2.4 * reads.weights, 1.1 * (reads.weights + reads.kv))
        fits = reads.context <= self.capacity
        room = f"room for {self.capacity:,} tokens of KV"
        remark = room if fits else f"It does not fit: {room}. The others wait in the queue."
        note = f"◐ simulated: {self.cost.gpu.name}, {self.cost.model.name} {self.cost.dtype.name}"
        title = (
            f"{plural(reads.users, 'user')} × {self.context.value:,} tokens: "
            f"KV is {share_text(reads.share)} of what a step of {seconds(reads.seconds)} reads"
        )
        kind = "ml-note" if fits else "ml-bad"
        self.shown.value = cards.card(
            cards.head(title, note),
            cards.broad(bar_svg(reads, scale)),
            f'<p class="{kind}">{remark}</p>',
        )

    def table(self, pairs: list[tuple[int, int]]) -> cards.Html:
        """Steps of (users, context each), a row each; it stays in a saved page."""
        note = f"◐ simulated: {self.cost.gpu.name}, {self.cost.model.name} {self.cost.dtype.name}"
        return _table("What a decode step reads", note, [self.reads(*pair) for pair in pairs])

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        return self.panel._repr_mimebundle_(**kwargs)


def sizes_table(models: tuple[str, ...], dtype: str = "bf16") -> cards.Html:
    """KV of one token for some models: what it is made of, and when it outgrows the weights."""
    columns = ("", "layers", "query heads", "KV heads", "head size", "KV of one token",
               "weights read", "as much KV as weights at")  # fmt: skip
    found = get_dtype(dtype)
    rows = [_size_row(get_model(name), found) for name in models]
    title = f"KV of one token, {dtype}"
    html = cards.card(
        cards.head(title, "computed from the models' sizes"), cards.table(columns, rows)
    )
    return cards.Html(html, f"{title}\n{cards.text_table(columns, rows)}")


def _size_row(model: ModelSpec, dtype: DType) -> tuple[str, ...]:
    weights, per_token = step_bytes(model, dtype)
    return (
        model.name, f"{model.num_layers}", f"{model.num_heads}", f"{model.num_kv_heads}",
        f"{model.head_dim}", _bytes(per_token), _bytes(weights),
        f"{round(weights / per_token, -2):,.0f} tokens",
    )  # fmt: skip


def _table(title: str, where: str, steps: list[Reads]) -> cards.Html:
    rows = [
        (f"{r.users}", f"{r.context / r.users:,.0f}", _bytes(r.weights), _bytes(r.kv),
         share_text(r.share), seconds(r.seconds),
         number3(r.users / r.seconds if r.seconds else None))
        for r in steps
    ]  # fmt: skip
    html = cards.card(cards.head(title, where), cards.table(COLUMNS, rows))
    return cards.Html(html, f"{title}\n{cards.text_table(COLUMNS, rows)}\n{where}")


def _slider(label: str, values: tuple[int, ...], value: int) -> object:
    import ipywidgets

    return ipywidgets.SelectionSlider(
        options=[(f"{each:,}", each) for each in values], value=value, description=label,
        style={"description_width": "112px"}, layout={"width": "min(560px, 100%)"},
    )  # fmt: skip


def _bytes(value: float) -> str:
    """15.0 GB, 41.5 MB, 131 kB."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{number3(value / size)}\u2009{unit}"
    return f"{value:.0f}\u2009B"
