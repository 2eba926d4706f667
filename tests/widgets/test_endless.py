"""The guard against endless loops in cells, where nobody can interrupt them."""

from __future__ import annotations

import asyncio
import sys

import pytest

from widgets import endless
from widgets.endless import EndlessLoopError, Guard, is_cell, watch

CELL = "<ipython-input-7-0f>"
needs_monitoring = pytest.mark.skipif(
    not hasattr(sys, "monitoring"), reason="sys.monitoring came with Python 3.12"
)


def run_cell(source: str, **names: object) -> dict:
    exec(compile(source, CELL, "exec"), names)
    return names


def test_only_what_was_typed_into_a_cell_is_watched():
    assert is_cell(compile("0", CELL, "exec"))
    assert is_cell(compile("0", "/tmp/ipykernel_12/3456.py", "exec"))
    assert not is_cell(watch.__code__)


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="it can be watched here")
def test_an_older_python_goes_without():
    async def scenario():
        assert not watch()

    asyncio.run(scenario())


def test_outside_a_running_loop_there_is_nothing_to_watch():
    assert not watch()


def test_long_calls_of_other_code_do_not_count():
    guard = Guard()
    now = guard._last
    for _ in range(100):
        guard._last = now - 60  # the report before came a minute ago
        guard._look()
    guard._ran = endless.LIMIT_S
    guard._last = now - 60
    with pytest.raises(EndlessLoopError, match="does one of its loops end"):
        guard._look()


def test_it_is_shown_with_its_line_and_without_a_traceback():
    def look():
        raise EndlessLoopError

    with pytest.raises(EndlessLoopError) as found:
        run_cell("x = 1\nlook()", look=look)
    [line] = found.value._render_traceback_()
    assert line.startswith("In line 2 of the cell: it ran for 10 s, and a browser tab cannot")


@needs_monitoring
@pytest.mark.parametrize(
    "source",
    [
        "while True: pass",
        "def f():\n    while True:\n        x = 1\nf()",
        "def g():\n    while True:\n        yield 1\nfor x in g(): pass",
    ],
)
def test_a_loop_without_end_is_ended(source, monkeypatch):
    monkeypatch.setattr(endless, "LIMIT_S", 0.3)

    async def scenario():
        assert watch()
        assert not watch()  # once is enough
        with pytest.raises(EndlessLoopError):
            run_cell(source)
        run_cell("for i in range(1000): pass")

    try:
        asyncio.run(scenario())
    finally:
        sys.monitoring.set_events(endless.TOOL, 0)
        sys.monitoring.free_tool_id(endless.TOOL)
