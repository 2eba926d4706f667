"""Run at the start of a kernel: from the first cell on it lacks what a browser tab lacks.

Packages that Pyodide does not have are not found (as if they were not installed), a thread cannot
be started, a process and a socket cannot be opened. The kernel's own, made before, go on.
"""

import importlib.abc
import os
import socket
import subprocess
import sys
import threading

from IPython import get_ipython

MISSING = (
    "torch", "numpy", "psutil", "matplotlib", "transformers", "tokenizers", "safetensors",
    "pynvml", "httpx", "aiohttp", "fastapi", "starlette", "uvicorn", "jinja2", "cloudpickle",
    "rich", "tqdm", "ray", "triton", "pandas", "scipy",
)  # fmt: skip


class Without(importlib.abc.MetaPathFinder):
    """Finds what the finder does, but for MISSING."""

    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            return None
        return self.finder.find_spec(name, path, target)


def start(thread, start=threading.Thread.start):
    """Only the kernel's own connection may start a thread."""
    if not type(thread).__module__.startswith("zmq."):
        raise RuntimeError("can't start new thread")
    start(thread)


def refuse_process(*_, **__):
    raise OSError(138, "Function not implemented: no processes here")


def refuse_socket(*_, **__):
    raise OSError(138, "Function not implemented: no sockets here")


def enter_the_tab(*_):
    """Take away what a tab lacks."""
    get_ipython().events.unregister("pre_run_cell", enter_the_tab)
    sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
    for name in [name for name in sys.modules if name.partition(".")[0] in MISSING]:
        del sys.modules[name]
    threading.Thread.start = start
    subprocess.Popen.__init__ = refuse_process
    os.fork = refuse_process
    socket.socket.connect = socket.socket.bind = refuse_socket
    os.environ["MINILLM_CHECK_IN_PROCESS"] = "1"


get_ipython().events.register("pre_run_cell", enter_the_tab)  # the kernel's own threads run by then
