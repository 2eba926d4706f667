"""Reads the request that is pointed at: its token ids become text on the server, as they come."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from widgets.class_client import ClassClient, ClassError
from widgets.dashboard.requests import KnownRequest
from widgets.dashboard.words import Saying

READ_S = 0.25


class Reader:
    """`of(known)` is what that request has said, where `wanted()` gave it a moment ago.

    It is asked four times a second on a thread of its own. Whose tokens one may not see (−1 in the
    trace) says nothing.
    """

    def __init__(self, client: ClassClient, wanted: Callable[[], KnownRequest | None]) -> None:
        self.client, self.wanted = client, wanted
        # (request, its tokens, whether it has ended) and what these say
        self._seen: tuple[tuple[int, int, bool] | None, Saying] = None, Saying()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="minillm-reader", daemon=True)

    def start(self) -> Reader:
        self._thread.start()
        return self

    def close(self) -> None:
        """End; a call that is under way is not waited for."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(READ_S):
            self.look()

    def look(self) -> None:
        """Read what is new, if something is."""
        known = self.wanted()
        key = None if known is None else (known.req, len(known.tokens), bool(known.ended))
        if key == self._seen[0]:
            return
        with suppress(ClassError, ConnectionError):  # the banner tells of it; it tries again
            self._seen = key, Saying() if known is None else self._text_of(known)

    def of(self, known: KnownRequest | None) -> Saying:
        """Its text so far; nothing while that is not read yet."""
        key, said = self._seen
        return said if known is not None and key is not None and key[0] == known.req else Saying()

    def _text_of(self, known: KnownRequest) -> Saying:
        tokens = known.tokens.tolist()
        if not tokens or min(tokens) < 0:
            return Saying()
        whole = self.client.text_of(tokens)
        if known.ended:
            return Saying(whole)
        text = self.client.text_of(tokens[:-1])
        cut = len(text) if whole.startswith(text) else 0
        return Saying(whole[:cut], whole[cut:])
