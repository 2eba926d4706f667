"""A time limit for student code that runs in this process: an endless loop ends with an error.

It works where the platform has interval timers and this is the main thread; elsewhere the code
runs without a limit.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TimeLimitError(BaseException):
    """The time is over. No Exception, so that no scheduler and no engine can swallow it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeLimitError inside the block when it takes longer than that."""
    works = hasattr(signal, "setitimer") and (threading.current_thread() is threading.main_thread())
    if not works:
        yield
        return

    def ring(*_: object) -> None:
        raise TimeLimitError(f"It did not end within {seconds:g} s.")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
