"""Open the live dashboard on this machine only. Run by `make dashboard` with .venv's Python.

Starts one engine server (the course's model, or a simulated GPU) and Voila, both on 127.0.0.1,
opens the page where there is a display and prints its address in any case. Each visitor's kernel is
a client of that one engine. Ctrl-C or SIGTERM ends all of it; an engine that dies is started again.
Environment: MINILLM_PORT = first port to try for the page, MINILLM_BROWSER = 0 never opens a
browser, MINILLM_SIMULATE = a GPU's name, as --simulate.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # run as a script, whatever the working folder

from minillm.serve.server import listen  # noqa: E402
from minillm.serve.supervised import Child, ChildGroup  # noqa: E402
from tools.lab import has_display, interrupt  # noqa: E402
from widgets.dashboard.frame import ABSENT_S  # noqa: E402

HOST = "127.0.0.1"
NOTEBOOK = ROOT / "notebooks" / "dashboard.ipynb"
TEMPLATES = ROOT / "tools" / "voila"
EXTENSIONS = (
    "@voila-dashboards/widgets-manager8", "@jupyter-widgets/jupyterlab-manager", "anywidget",
)  # fmt: skip
FIRST_PORT, PORTS = 8866, 50
START_LIMIT_S, STOP_LIMIT_S = 180.0, 12.0
TICK_S = 0.25
# Few enough blocks and slots that a burst fills them: one sees who waits, and who is thrown out.
SLOTS, BLOCKS, BUDGET = 12, 256, 256


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="make dashboard ARGS=...", description="The live dashboard, on this machine only."
    )
    made.add_argument(
        "--simulate", nargs="?", const="A100-80GB-SXM", metavar="GPU",
        default=os.environ.get("MINILLM_SIMULATE") or None,
        help="a simulated GPU instead of the model on this machine (default GPU: A100-80GB-SXM)",
    )  # fmt: skip
    made.add_argument("--model", help="another model: a folder, a GGUF file or a hub id")
    made.add_argument(
        "--port", type=int, default=int(os.environ.get("MINILLM_PORT") or FIRST_PORT),
        help=f"first port to try for the page (default: {FIRST_PORT})",
    )  # fmt: skip
    made.add_argument(
        "--kv-blocks", type=int, default=BLOCKS, metavar="N",
        help=f"KV blocks of 16 tokens (default: {BLOCKS})",
    )  # fmt: skip
    made.add_argument(
        "--cull-after", type=int, default=120, metavar="S",
        help="seconds after which a kernel that nobody watches is ended (default: 120)",
    )  # fmt: skip
    return made


def free_port(first: int, count: int = PORTS) -> int:
    """The first free port from `first` on; 0: any. ValueError when there is none."""
    for port in range(first, first + count) if first else (0,):
        try:
            with listen(HOST, port, False) as listener:
                return listener.getsockname()[1]
        except ValueError:
            continue
    raise ValueError(f"No port from {first} to {first + count - 1} is free: choose with --port.")


def engine_command(args: argparse.Namespace, port: int) -> list[str]:
    command = [
        sys.executable, "-m", "minillm", "serve", "--classroom", "--host", HOST,
        "--port", str(port), "--max-num-seqs", str(SLOTS), "--grace", "1",
        "--num-gpu-blocks-override", str(args.kv_blocks),
    ]  # fmt: skip
    if args.simulate:
        command += ["--simulate", args.simulate, "--max-num-batched-tokens", str(BUDGET)]
    if args.model:
        command += ["--model", args.model]
    return command


def voila_command(port: int, cull_after_s: int) -> list[str]:
    """A kernel falls silent ABSENT_S after its page; it is idle from then on."""
    interval_s = max(1, min(15, cull_after_s // 8))
    idle_s = max(1, cull_after_s - round(ABSENT_S) - interval_s)
    command = [
        sys.executable, "-m", "voila", str(NOTEBOOK),
        f"--Voila.ip={HOST}",
        f"--port={port}",
        "--Voila.port_retries=0",
        "--no-browser",
        "--template=minillm",
        # Voila does not end the kernels of pages that were closed: this does.
        f"--MappingKernelManager.cull_idle_timeout={idle_s}",
        f"--MappingKernelManager.cull_interval={interval_s}",
        "--MappingKernelManager.cull_connected=False",
        # Of the extensions that JupyterLab has here, those that these widgets need.
        *(f"--VoilaConfiguration.extension_allowlist={name}" for name in EXTENSIONS),
        "--Application.log_level=WARN",
    ]  # fmt: skip
    return command


def voila_environment(url: str, key: str) -> dict[str, str]:
    """What the page's kernels need to know, and where Voila finds the template and this Python."""
    paths = [str(TEMPLATES), *filter(None, [os.environ.get("JUPYTER_PATH")])]
    return {
        "MINILLM_DASHBOARD_URL": url,
        "MINILLM_DASHBOARD_KEY": key,
        "JUPYTER_PATH": os.pathsep.join(paths),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).strip(":"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


class Dashboard:
    """The two processes. Everything is loopback; the key is made here and shown to nobody."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="minillm-dashboard-"))
        self.group = ChildGroup()
        key = secrets.token_urlsafe(24)
        engine_port, page_port = free_port(0), free_port(args.port)
        self.engine_url = f"http://{HOST}:{engine_port}"
        self.url = f"http://{HOST}:{page_port}/"
        self.engine = Child(
            self.group, engine_command(args, engine_port), self.folder / "engine.log",
            {"MINILLM_API_KEY": key, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self.voila = Child(
            self.group, voila_command(page_port, args.cull_after), self.folder / "voila.log",
            voila_environment(self.engine_url, key),
        )  # fmt: skip
        self.children = {"The engine": self.engine, "Voila": self.voila}

    def start(self) -> None:
        """Start both and wait until both answer. ValueError, in one sentence, if one cannot."""
        waiting = dict(self.children)
        for child in waiting.values():
            child.start()
        deadline = time.monotonic() + START_LIMIT_S
        while waiting:
            for name, child in list(waiting.items()):
                if self._answers(child):
                    child.ready(time.monotonic())
                    del waiting[name]
                elif not child.alive:
                    raise ValueError(f"{name} did not start: {child.last_words()}")
            if time.monotonic() > deadline:
                names = " and ".join(waiting)
                raise ValueError(f"{names} did not answer within {START_LIMIT_S:.0f} s.")
            time.sleep(TICK_S)

    def watch(self) -> None:
        """Until a signal comes: start again what has ended, and say so."""
        while True:
            now = time.monotonic()
            for name, child in self.children.items():
                if child.look(now):
                    pause = child.restart_at - now
                    print(f"{name} {child.last_end}; it starts again in {pause:.2g} s.", flush=True)
                elif child.up_since is None and self._answers(child):
                    child.ready(now)
                    print(f"{name} is back.", flush=True)
            time.sleep(TICK_S)

    def _answers(self, child: Child) -> bool:
        """Whether it takes connections: the engine listens once its model is loaded."""
        port = urlsplit(self.engine_url if child is self.engine else self.url).port
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1.0):
            return True
        return False

    def stop(self) -> None:
        """End both and the kernels; nothing is left, not even the logs."""
        for child in (self.voila, self.engine):
            child.signal(signal.SIGTERM)
        end = time.monotonic() + STOP_LIMIT_S
        while time.monotonic() < end and (self.voila.alive or self.engine.alive):
            time.sleep(0.05)
        self.group.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    signal.signal(signal.SIGTERM, interrupt)
    dashboard = None
    try:
        dashboard = Dashboard(args)
        what = f"a simulated {args.simulate}" if args.simulate else "the model"
        print(f"Starting the engine ({what}) and the page …", flush=True)
        dashboard.start()
        print(f"\nThe dashboard is open at\n\n    {dashboard.url}\n", flush=True)
        print("Stop it with Ctrl-C.", flush=True)
        if has_display():
            webbrowser.open(dashboard.url)
        dashboard.watch()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nThe dashboard has stopped.", flush=True)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C leaves nothing behind
        if dashboard is not None:
            dashboard.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
