"""The tab Replay: its panel is the replay's own, and closing it leaves nothing running."""

from __future__ import annotations

import threading

from minillm.recordings import recordings
from widgets.dashboard.replay import ReplayTab


def test_it_shows_the_recorded_runs_and_closes():
    tab = ReplayTab()
    panel = tab.panel()
    assert tab.replay.bar in panel.children
    assert [run["name"] for run in tab.replay.bar.runs] == [each.name for each in recordings()]
    tab.replay.play(pace=0.01)
    assert tab.replay.bar.playing
    tab.close()
    assert not tab.replay.player.playing
    assert not [t for t in threading.enumerate() if t.name.startswith("minillm-replay")]
