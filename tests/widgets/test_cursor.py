"""The shared cursor, without a browser."""

from __future__ import annotations

import math

import pytest

from widgets.cursor import Cursor


class View:
    """What a cursor needs of a widget."""

    def __init__(self) -> None:
        self.cursor_name = ""
        self.sent: list[dict] = []

    def send(self, content):
        self.sent.append(content)

    def on_msg(self, callback):
        self.hear = lambda content: callback(self, content, [])


@pytest.fixture
def joined():
    cursor, views = Cursor(), [View(), View()]
    for view in views:
        cursor.join(view)
        cursor.join(view)
    return cursor, views


def test_all_views_carry_its_name_and_no_other_cursor_has_it(joined):
    cursor, views = joined
    assert {view.cursor_name for view in views} == {cursor.name}
    assert Cursor().name != cursor.name


def test_moving_it_tells_each_view_once_and_keeps_what_is_not_named(joined):
    cursor, views = joined
    cursor.move(t=0.5, req=3)
    cursor.move(t=0.75)
    for view in views:
        assert view.sent == [
            {"kind": "cursor", "t": 0.5, "req": 3}, {"kind": "cursor", "t": 0.75, "req": 3},
        ]  # fmt: skip
    cursor.move(t=None, req=None)
    assert (cursor.t, cursor.req) == (None, None)


def test_observers_hear_of_the_readers_moves_and_views_get_no_echo(joined):
    cursor, views = joined
    seen = []
    cursor.observe(lambda c: seen.append((c.t, c.req)))
    views[0].hear({"cursor": {"t": 1.25, "req": 2}})
    views[1].hear({"cursor": {"t": 1.25, "req": 2}})  # no change
    views[1].hear({"cursor": {"t": None, "req": 2}})
    assert seen == [(1.25, 2), (None, 2)]
    assert views[0].sent == views[1].sent == []


@pytest.mark.parametrize(
    "odd", [None, "x", {}, {"cursor": 3}, {"cursor": {"t": "1", "req": None}},
            {"cursor": {"t": math.nan}}, {"cursor": {"t": -1}}, {"cursor": {"t": 1, "req": 1.5}},
            {"cursor": {"t": True, "req": None}}],
)  # fmt: skip
def test_odd_messages_change_nothing(joined, odd):
    cursor, views = joined
    cursor.move(t=1.0, req=1)
    views[0].hear(odd)
    assert (cursor.t, cursor.req) == (1.0, 1)


@pytest.mark.parametrize("bad", [{"t": -0.1}, {"t": math.inf}, {"req": -1}, {"req": True}])
def test_a_place_that_cannot_be_is_refused(joined, bad):
    cursor, views = joined
    with pytest.raises(ValueError, match=r"seconds ≥ 0 and a request's index ≥ 0, got"):
        cursor.move(**bad)
    assert views[0].sent == []


def test_a_playback_moves_it_until_somebody_else_points(joined):
    cursor, views = joined
    number = cursor.play()
    assert cursor.advance(number, 0.5)
    assert views[0].sent == [{"kind": "cursor", "t": 0.5, "req": None, "playing": number}]
    views[1].hear({"cursor": {"t": 0.5, "req": None}})  # the same place, but on purpose
    assert cursor.playing == 0
    assert not cursor.advance(number, 0.6)
    assert cursor.t == 0.5
    again = cursor.play()
    assert again != number
    assert not cursor.advance(number, 0.7)
    cursor.rest(number)  # not its turn
    assert cursor.playing == again
    cursor.rest(again)
    assert views[0].sent[-1] == {"kind": "cursor", "t": 0.5, "req": None}
    later = cursor.play()
    cursor.move(req=2)
    assert not cursor.advance(later, 0.8)


def test_observers_hear_that_a_playback_was_ended(joined):
    cursor, views = joined
    cursor.advance(cursor.play(), 1.0)
    seen = []
    cursor.observe(lambda c: seen.append((c.t, c.playing)))
    views[0].hear({"cursor": {"t": 1.0, "req": None}})
    assert seen == [(1.0, 0)]
