"""What this Python can do: asked of the platform, never guessed from a name."""

from __future__ import annotations

import functools
from importlib.util import find_spec

from widgets.background import threads_work


@functools.cache
def has_engine() -> bool:
    """Whether the real engine can run here: PyTorch is installed, and threads can be started."""
    return find_spec("torch") is not None and threads_work()
