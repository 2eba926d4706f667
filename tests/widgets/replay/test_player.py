"""A playback moves the cursor at its pace, as a thread and as a task, until somebody takes over."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.widgets.test_cursor import View
from widgets.cursor import Cursor
from widgets.replay.player import Player

LIMIT_S = 10.0


def until(condition) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def make(end: float, **settings) -> tuple[Player, Cursor, View]:
    cursor, view = Cursor(), View()
    cursor.join(view)
    player = Player(cursor, **settings)
    player.load(end)
    return player, cursor, view


@pytest.mark.parametrize("threads", [True, False])
def test_it_plays_to_the_end_in_order_and_ends_by_itself(threads):
    heard = []

    async def run():
        player, cursor, view = make(0.6, threads=threads, changed=lambda: heard.append(1))
        player.pace = 2.0
        began = time.perf_counter()
        player.play()
        assert player.playing
        await asyncio.wait_for(player.finished(), LIMIT_S)
        assert time.perf_counter() - began >= 0.3 * 0.9
        assert not player.playing
        assert cursor.t == 0.6
        times = [message["t"] for message in view.sent]
        assert times == sorted(times)
        assert times[0] == 0.0
        assert {message.get("playing", 0) for message in view.sent} == {0, 1}
        assert "playing" not in view.sent[-1]
        return player

    asyncio.run(run())
    assert len(heard) == 2  # when it began, when it had ended


def test_it_goes_on_from_the_cursor_and_anew_from_the_end():
    player, cursor, _ = make(50.0)
    cursor.move(t=20.0)
    player.play()
    until(lambda: cursor.t > 20.0)
    player.pause()
    at = cursor.t
    assert 20.0 < at < 20.0 + LIMIT_S
    assert not player.playing
    cursor.move(t=50.0)
    player.play()
    until(lambda: cursor.t < 20.0)
    player.close()
    assert not player.playing


def test_whoever_points_meanwhile_takes_over():
    player, cursor, view = make(50.0)
    player.play()
    until(lambda: len(view.sent) > 1)
    view.hear({"cursor": {"t": 30.0, "req": 2}})
    until(lambda: not player._background.running)
    assert (cursor.t, cursor.req, cursor.playing) == (30.0, 2, 0)
    player.play()
    cursor.move(t=7.0)  # a cell points
    until(lambda: not player._background.running)
    assert cursor.t == 7.0


def test_the_pace_may_change_on_the_way():
    player, cursor, _ = make(1000.0)
    player.pace = 0.01
    player.play()
    until(lambda: cursor.t is not None)
    assert cursor.t < 1.0
    player.pace = 1000.0
    until(lambda: cursor.t == 1000.0)
    player.close()


def test_a_short_run_is_played_in_slow_motion_and_none_takes_three_seconds():
    player, _, _ = make(0.5)
    assert player.pace == 0.1
    player.load(9.0)
    assert player.pace == 1.0
    player.pace = None
    assert player._speed(None) == pytest.approx(3.0)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), 1e6])
def test_a_pace_that_cannot_be_is_refused(bad):
    player, _, _ = make(1.0)
    with pytest.raises(ValueError, match=r"between 0\.01 and 1,000"):
        player.pace = bad


def test_pausing_what_does_not_play_changes_nothing():
    player, cursor, view = make(1.0)
    player.pause()
    player.close()
    assert view.sent == []
    assert cursor.t is None
