"""The engines that a page can look at, and its line to the one it looks at."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from widgets.classroom import Desk
from widgets.dashboard.load import Load
from widgets.dashboard.reader import Reader

if TYPE_CHECKING:
    from widgets.class_watch import ClassView
    from widgets.dashboard.requests import KnownRequest

URL, SIMULATED_URL, KEY, GPU = (
    f"MINILLM_DASHBOARD_{name}" for name in ("URL", "SIMULATED_URL", "KEY", "GPU")
)
HERE = "here"  # the choice that means the model on this machine
GPUS = ("A100-80GB-SXM", "H100-80GB-SXM", "H200-141GB-SXM", "L4")


@dataclass(frozen=True, slots=True)
class Engines:
    """Addresses of the engine with a model and of the one with a simulated GPU; "": there is none.

    key: of both. gpu: the simulated one's at its start.
    """

    measured: str = ""
    simulated: str = ""
    key: str = ""
    gpu: str = GPUS[0]

    @classmethod
    def from_environment(cls) -> Engines:
        """What `make dashboard` has started."""
        urls = [os.environ.get(name, "") for name in (URL, SIMULATED_URL)]
        return cls(*urls, os.environ.get(KEY, ""), os.environ.get(GPU) or GPUS[0])

    @property
    def first(self) -> str:
        """The one that a page looks at to begin with."""
        return self.measured or self.simulated

    def choices(self) -> list[tuple[str, str]]:
        """(value, words) of what can be chosen."""
        gpus = [] if not self.simulated else [self.gpu, *(g for g in GPUS if g != self.gpu)]
        here = [(HERE, "model on this machine")] if self.measured else []
        return here + [(gpu, f"simulated {gpu.removesuffix('-SXM')}") for gpu in gpus]

    @property
    def missing(self) -> str:
        """What another start of the dashboard would offer."""
        if not self.measured:
            return "For the model on this machine start anew: make dashboard, without --simulate."
        return "" if self.simulated else "For a simulated GPU start anew: make dashboard."

    def address(self, choice: str) -> str:
        return self.measured if choice == HERE else self.simulated


class Line:
    """A page's line to one engine: what follows and controls it, its load, and its reader."""

    def __init__(
        self, url: str, key: str, view: ClassView, wanted: Callable[[], KnownRequest | None]
    ) -> None:
        self.url = url
        self.desk = Desk(url, key, view, at_once=False)
        self.load = Load(url, key)
        self.reader = Reader(self.desk.client, wanted)

    def start(self) -> None:
        self.desk.start()
        self.reader.start()

    def close(self) -> None:
        self.load.close()
        self.reader.close()
        self.desk.close()
