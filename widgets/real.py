"""The real engine, or what a lesson shows where it cannot run: in a browser tab.

    llm = open_llm()                        # LLM(); in a tab a recorded machine, simulated
    live(timeline, recorded="chat-static")  # the view; in a tab also a recorded real run
    if real_here("11-split"): …             # False in a tab, where it shows what was recorded

So one notebook serves both. A tab has no PyTorch, no processes and no sockets; what is missing is
asked of the platform, never guessed from a name. Where all is there, nothing of this is seen.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from widgets import cards, endless
from widgets.background import threads_work
from widgets.capability import has_engine
from widgets.lesson import is_fast

if TYPE_CHECKING:
    from minillm.llm import LLM

LAB = "`make lab` runs it on your machine."
NO_ENGINE = "The real engine needs PyTorch, which a browser tab does not have"


def open_llm() -> LLM:
    """`LLM()`: the default model on this machine.

    Where the real engine cannot run, the simulation of a recorded machine, and a line that says so.
    """
    if has_engine():
        from minillm import LLM

        return LLM()
    from minillm.bench.recorded_machine import recorded_llm

    llm = recorded_llm()
    if is_fast():
        llm.runner.pace = None
    _show(
        f"{NO_ENGINE}: here a {llm.info.device} is simulated, and its tokens are made up. {LAB}"
    )
    return llm


def live(view: Any, recorded: str) -> Any:
    """A live view of the real engine.

    Where that cannot run: the view of the simulated one, and below it a recorded run, with its
    device. recorded: its name in minillm.recordings.
    """
    if has_engine():
        return view
    import ipywidgets

    from minillm.recordings import load_recording
    from widgets.timeline import Timeline

    run = load_recording(recorded)
    timeline = Timeline(titles=[run.title])
    timeline.feed(0, run.trace)
    timeline.finish()
    timeline.conclude()
    words = (
        f"{NO_ENGINE}: above, it is simulated. Below, a run of it that was recorded on "
        f"{run.recorded_on}, {run.header.provenance} on {run.device}: {run.description} {LAB}"
    )
    return ipywidgets.VBox([getattr(view, "panel", view), ipywidgets.HTML(_line(words)), timeline])


def real_here(cell: str) -> bool:
    """Whether a cell that needs processes, sockets or the real model can run here.

    Where not it shows, once, what the cell showed on the recorded machine. cell: its id.
    """
    if has_engine():
        return True
    from minillm.bench.recorded_machine import read_recorded

    recorded = read_recorded()
    header, shown = recorded["header"], recorded["cells"][cell]
    words = (
        "This cell needs the real engine, which a browser tab does not have. Below, what it showed "
        f"on {header['recorded_on']}, measured on {header['machine']}. {LAB}"
    )
    html = shown["html"] or cards.card(f"<pre>{escape(shown['text'])}</pre>")
    _show(words, html, shown["text"])
    return False


def is_machine(llm: LLM) -> bool:
    """Whether its device was measured: this machine, or the recorded one."""
    from minillm.bench.recorded_machine import RecordedMachine

    return llm.info.provenance == "measured" or isinstance(llm.runner, RecordedMachine)


def machine_name(llm: LLM) -> str:
    """What a figure calls its device: your machine, the recorded one, or the GPU by its name."""
    if llm.info.provenance == "measured":
        return "Your machine"
    return "The recorded machine" if is_machine(llm) else llm.info.device


def machine_row(llm: LLM) -> str:
    """A table's row of it: ● your machine, measured."""
    name, kind = machine_name(llm), llm.info.provenance
    return f"{cards.GLYPHS[kind]} {name[:1].lower()}{name[1:]}, {kind}"


def origin(llm: LLM) -> str:
    """● measured: CPU, 2 threads, SmolLM2-135M-Instruct bfloat16: where its figures come from."""
    info = llm.info
    where = f"{info.provenance}: {info.device}, {info.model} {info.dtype}"
    return f"{cards.GLYPHS[info.provenance]} {where}"


def _line(words: str) -> str:
    return cards.card(f"<p>{escape(words)}</p>").replace("`make lab`", "<code>make lab</code>")


def _show(words: str, html: str = "", text: str = "") -> None:
    from IPython.display import display

    display(cards.Html(_line(words) + html, f"{words}\n{text}".strip()))


if not threads_work():  # a browser tab
    endless.watch()
