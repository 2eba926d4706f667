"""What follows a run: the calls that a session makes on a view, and the list of its views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from minillm.core import Trace
    from widgets.report import RunReport


class View(Protocol):
    """widgets.timeline.Timeline, or alike. All calls come from the session's publisher."""

    def feed(self, lane: int, source: Trace) -> object:
        """Take what is new in a lane's trace; another trace than before is a new run."""

    def publish(self, *, heartbeat: bool = False) -> object:
        """Show what was fed. heartbeat: also say that the run is alive."""

    def finish(self, lane: int) -> None:
        """The lane's run is over."""

    def conclude(self) -> object:
        """All lanes are over: say what they came to."""

    def set_headline(self, text: str) -> None:
        """Say this instead: the run was stopped."""


class Views:
    """The views of one session, each with the lanes that it shows."""

    def __init__(self) -> None:
        self._lanes: dict[View, list[int]] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    def add(self, view: View, lane: int) -> None:
        """Once a lane; twice the same changes nothing."""
        lanes = self._lanes.setdefault(view, [])
        if lane not in lanes:
            lanes.append(lane)

    def clear(self) -> None:
        self._lanes.clear()

    def publish(self, traces: Mapping[int, Trace], heartbeat: bool = False) -> None:
        """Feed what is new and show it. traces: by lane."""
        for view, lanes in list(self._lanes.items()):
            for lane in lanes:
                if lane in traces:
                    view.feed(lane, traces[lane])
            view.publish(heartbeat=heartbeat)

    def conclude(self, report: RunReport) -> None:
        """The run is over: the last records, then what it came to."""
        self.publish(report.traces)
        for view, lanes in list(self._lanes.items()):
            for lane in lanes:
                if lane in report.traces:
                    view.finish(lane)
            if all(lane in report.traces for lane in lanes):
                view.conclude()
            if report.stopped:
                view.set_headline(report.stopped_sentence)
