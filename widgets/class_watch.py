"""Follows a class server beside the notebook's cells, and feeds a view of everybody's requests.

One thread reads /trace and comes back after a break where it left off; another one feeds the view
ten times a second. No ipywidgets here: a view is anything with Timeline's calls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from minillm.core.trace import Record, TraceHeader
from widgets.background import Background, threads_work
from widgets.class_client import ClassClient, ClassError
from widgets.class_feed import ClassFeed
from widgets.headline import policy_subtitle, policy_title

PUBLISH_HZ = 10
HEARTBEAT_S = 1.0
FIRST_RETRY_S, LAST_RETRY_S = 0.5, 5.0
STOP_LIMIT_S = 8.0


class ClassView(Protocol):
    """widgets.timeline.Timeline with one lane, or alike. Called by the publisher alone."""

    def reset(self, lane: int, header: TraceHeader, title: str, subtitle: str) -> object: ...

    def amend(self, lane: int, header: TraceHeader, title: str, subtitle: str) -> object: ...

    def feed(self, lane: int, source: list[Record]) -> object: ...

    def publish(self, *, heartbeat: bool = False) -> object: ...

    def stale(self, message: str) -> object: ...


class ClassWatch:
    """See the module's docstring. on_publish: called ten times a second, after the view.

    quiet: nobody looks: the view is fed, so that nothing is lost, but sends nothing.
    """

    def __init__(self, client: ClassClient, view: ClassView | None = None) -> None:
        if not threads_work():
            raise RuntimeError("A class needs a Python with threads and sockets: not in a browser.")
        self.client, self.view = client, view
        self.feed = ClassFeed()
        self.trouble = ""  # why nothing comes, "" while all is well
        self.quiet = False
        self.on_publish: list[Callable[[], None]] = []
        self._new: list[Record | TraceHeader] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._background = Background(threads=True, name="minillm-class")

    def start(self) -> ClassWatch:
        """Begin to follow; returns at once."""
        self._background.start(self._follow, self._publish, *self._jobs())
        return self

    def close(self) -> None:
        """End all that runs, and wait for it. Safe to call twice."""
        self._stopping.set()
        self.client.close()
        self._background.wake()
        self._background.join(STOP_LIMIT_S)

    @property
    def live(self) -> bool:
        """Whether the stream is there."""
        return bool(self.feed.stream) and not self.trouble

    @property
    def status(self) -> str:
        """What holds now, in a sentence."""
        if self.trouble:
            return self.trouble
        feed = self.feed
        if feed.header is None:
            return f"Connecting to {self.client.url} …"
        now = f"{feed.running:,} running, {feed.waiting:,} waiting"
        if feed.paused:
            now = "Paused by the instructor: what you send waits"
        lost = f" {feed.missed:,} steps went by while the line was down." if feed.missed else ""
        return f"{now}.{lost}"

    # ── the jobs ────────────────────────────────────────────────────────────────────────────

    def _jobs(self) -> list[Callable[[], Iterator[float]]]:
        """More of them, for those who build on this."""
        return []

    def _renew(self) -> bool:
        """The key is no longer known (another server runs there); whether there is a new one."""
        return False

    def _follow(self) -> Iterator[float]:
        nap = FIRST_RETRY_S
        while not self._stopping.is_set():
            try:
                for event_id, data in self.client.follow(self.feed.last_id):
                    self._take(event_id, data)
                    self.trouble, nap = "", FIRST_RETRY_S
                self._lost("The server has ended the stream")
            except ClassError as error:
                if not (error.status == 401 and self._renew()):
                    self._lost(str(error).rstrip("."))
            except (ConnectionError, ValueError) as error:
                self._lost(str(error).rstrip("."))
            yield nap
            nap = min(2 * nap, LAST_RETRY_S)

    def _take(self, event_id: str, data: dict) -> None:
        with self._lock:
            before = self.feed.header
            records = self.feed.take(event_id, data)
            if self.feed.header is not before and self.feed.header != before:
                self._new.append(self.feed.header)
            self._new += records

    def _lost(self, reason: str) -> None:
        if not self.trouble:
            since = time.strftime("%H:%M:%S")
            self.trouble = f"{reason}: no news since {since}, trying again."

    def _publish(self) -> Iterator[float]:
        quiet_s = shown = 0.0
        stale = ""
        while not self._stopping.is_set():
            with self._lock:
                new, self._new = self._new, []
            if self.view is not None:
                self._show(new)
            if self.quiet:
                yield 1 / PUBLISH_HZ
                continue
            if self.view is not None:
                quiet_s += 1 / PUBLISH_HZ
                beat = self.live and quiet_s >= HEARTBEAT_S
                if beat or new:
                    self.view.publish(heartbeat=beat)
                    quiet_s = 0.0
                if self.trouble != stale:
                    stale = self.trouble
                    self.view.stale(stale)
            for callback in self.on_publish:
                callback()
            shown += 1
            yield 1 / PUBLISH_HZ

    def _show(self, new: list[Record | TraceHeader]) -> None:
        """Feed the view, with a new picture where the server is another than before."""
        records: list[Record] = []
        for item in new:
            if not isinstance(item, TraceHeader):
                records.append(item)
                continue
            self.view.feed(0, records)
            records = []
            put = self.view.reset if self.feed.restarted else self.view.amend
            self.feed.restarted = False
            put(0, item, title=policy_title(item.policy), subtitle=policy_subtitle(item))
        self.view.feed(0, records)
