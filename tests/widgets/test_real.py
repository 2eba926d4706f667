"""The real engine or what stands in: both sides of the lessons' helpers."""

from __future__ import annotations

import ipywidgets
import pytest

from minillm import recordings
from minillm.bench.recorded_machine import read_recorded, recorded_llm
from minillm.llm import LLM
from widgets import real


@pytest.fixture
def shown(monkeypatch) -> list[str]:
    """What is displayed, as text."""
    texts: list[str] = []
    monkeypatch.setattr("IPython.display.display", lambda thing: texts.append(repr(thing)))
    return texts


@pytest.fixture
def tab(monkeypatch) -> None:
    monkeypatch.setattr(real, "has_engine", lambda: False)


@pytest.fixture
def machine(monkeypatch) -> None:
    monkeypatch.setattr(real, "has_engine", lambda: True)


def test_with_the_engine_nothing_is_said_and_nothing_changes(machine, shown):
    view = ipywidgets.HTML()
    assert real.live(view, "no recording is looked up") is view
    assert real.real_here("11-split")
    assert shown == []


def test_in_a_tab_one_line_says_what_stands_in(tab, shown):
    llm = real.open_llm()
    assert llm.info.provenance == "simulated"
    [line] = shown
    assert "does not have" in line
    assert llm.info.device in line
    assert line.endswith("`make lab` runs it on your machine.")


def test_in_a_tab_a_cell_shows_what_it_showed_on_the_recorded_machine(tab, shown):
    cells = read_recorded()["cells"]
    assert {"00-answer", "11-split", "11-nginx", "11-nginx-result", "12-server"} == set(cells)
    for cell in cells:
        assert not real.real_here(cell)
    for text, cell in zip(shown, cells.values(), strict=True):
        line, _, rest = text.partition("\n")
        assert line.startswith("This cell needs the real engine, which a browser tab does not have")
        assert read_recorded()["header"]["machine"] in line
        assert rest == cell["text"]


def test_in_a_tab_a_recorded_run_stands_below_the_view(tab):
    name = recordings.recordings()[0].name
    view = ipywidgets.HTML()
    box = real.live(view, name)
    assert box.children[0] is view
    line = box.children[1].value
    assert recordings.load_recording(name).device in line
    assert "<code>make lab</code>" in line


def test_a_machine_is_named_for_what_it_is():
    gpu, recorded = LLM.simulated(), recorded_llm()
    assert real.machine_name(gpu) == gpu.info.device
    assert real.machine_name(recorded) == "The recorded machine"
    assert real.machine_row(recorded) == "◐ the recorded machine, simulated"
    assert real.is_machine(recorded)
    assert not real.is_machine(gpu)
    assert real.origin(recorded).startswith("◐ simulated: recorded CPU, ")
