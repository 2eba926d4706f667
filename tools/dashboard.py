"""Open the live dashboard on this machine only. Run by `make dashboard` with .venv's Python.

Starts an engine server with the course's model, another one with a simulated GPU, and Voila, all on
127.0.0.1, opens the page where there is a display and prints its address in any case. Each
visitor's kernel is a client of these engines. Ctrl-C or SIGTERM ends all of it; an engine that dies
is started again.
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

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # run as a script, whatever the working folder

from minillm.serve.server import listen  # noqa: E402
from minillm.serve.supervised import Child, ChildGroup  # noqa: E402
from minillm.sim import get_gpu  # noqa: E402
from tools.lab import has_display, interrupt  # noqa: E402
from widgets.class_client import ClassClient, ClassError  # noqa: E402
from widgets.dashboard import engines  # noqa: E402
from widgets.dashboard.frame import ABSENT_S  # noqa: E402

HOST = "127.0.0.1"
NOTEBOOK = ROOT / "notebooks" / "dashboard.ipynb"
TEMPLATES = ROOT / "tools" / "voila"
ENGINE, SIMULATED, VOILA = "The engine", "The simulated GPU", "Voila"
EXTENSIONS = (
    "@voila-dashboards/widgets-manager8", "@jupyter-widgets/jupyterlab-manager", "anywidget",
)  # fmt: skip
FIRST_PORT, PORTS = 8866, 50
START_LIMIT_S, STOP_LIMIT_S = 180.0, 12.0
TICK_S = 0.25
# Kernels that wait for visitors, with the page made; the next one is begun only when the page of
# the one before is up, for it would take its time.
WAITING_KERNELS, REFILL_S = 3, 5.0
# Few enough blocks and slots that a burst fills them: one sees who waits, and who is thrown out.
SLOTS, BLOCKS, BLOCK_SIZE, BUDGET = 12, 256, 16, 256
MOST_BUDGET = 8192  # tokens in a step for which memory is set aside: a whole prompt, unchunked


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="make dashboard ARGS=...", description="The live dashboard, on this machine only."
    )
    made.add_argument(
        "--simulate", nargs="?", const=engines.GPUS[0], metavar="GPU",
        default=os.environ.get("MINILLM_SIMULATE") or None,
        help="a simulated GPU alone, without the model (default GPU: A100-80GB-SXM)",
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


def engine_command(args: argparse.Namespace, port: int, gpu: str | None) -> list[str]:
    """gpu: simulate it; None: the model on this machine."""
    whole = max(BUDGET, min(args.kv_blocks * BLOCK_SIZE, MOST_BUDGET))
    command = [
        sys.executable, "-m", "minillm", "serve", "--classroom", "--host", HOST,
        "--port", str(port), "--max-num-seqs", str(SLOTS), "--grace", "1",
        "--num-gpu-blocks-override", str(args.kv_blocks), "--block-size", str(BLOCK_SIZE),
        "--max-num-batched-tokens", str(BUDGET if gpu else whole),
    ]  # fmt: skip
    if gpu:
        command += ["--simulate", gpu]
    elif args.model:
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
        "--VoilaConfiguration.preheat_kernel=True",
        "--VoilaConfiguration.multi_kernel_manager_class=tools.voila_kernels.PatientKernelManager",
        f"--VoilaConfiguration.default_pool_size={WAITING_KERNELS}",
        f"--VoilaKernelManager.fill_delay={REFILL_S}",
        # Voila does not end the kernels of pages that were closed: this does.
        f"--MappingKernelManager.cull_idle_timeout={idle_s}",
        f"--MappingKernelManager.cull_interval={interval_s}",
        "--MappingKernelManager.cull_connected=False",
        # Of the extensions that JupyterLab has here, those that these widgets need.
        *(f"--VoilaConfiguration.extension_allowlist={name}" for name in EXTENSIONS),
        "--Application.log_level=WARN",
    ]  # fmt: skip
    return command


def voila_environment(known: engines.Engines) -> dict[str, str]:
    """What the page's kernels need to know, and where Voila finds the template and this Python."""
    paths = [str(TEMPLATES), *filter(None, [os.environ.get("JUPYTER_PATH")])]
    return {
        engines.URL: known.measured,
        engines.SIMULATED_URL: known.simulated,
        engines.KEY: known.key,
        engines.GPU: known.gpu,
        "JUPYTER_PATH": os.pathsep.join(paths),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).strip(":"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


class Dashboard:
    """The processes. Everything is loopback; the key is made here and shown to nobody."""

    def __init__(self, args: argparse.Namespace) -> None:
        gpu = get_gpu(args.simulate or engines.GPUS[0]).name
        if args.simulate and args.model:
            raise ValueError("--simulate runs no model: leave out --model.")
        page_port = free_port(args.port)  # what can fail comes before what has to be cleared away
        self.folder = Path(tempfile.mkdtemp(prefix="minillm-dashboard-"))
        self.group = ChildGroup()
        self.key = secrets.token_urlsafe(24)
        self.url = f"http://{HOST}:{page_port}/"
        self.ports: dict[str, int] = {}
        self.children: dict[str, Child] = {}
        measured = "" if args.simulate else self._add_engine(ENGINE, args, None)
        # Beside a model it is started when the page is up, so that it holds nothing up.
        simulated = self._add_engine(SIMULATED if measured else ENGINE, args, gpu)
        known = engines.Engines(measured, simulated, self.key, gpu)
        self.ports[VOILA] = page_port
        self.children[VOILA] = Child(
            self.group, voila_command(page_port, args.cull_after), self.folder / "voila.log",
            voila_environment(known),
        )  # fmt: skip

    def _add_engine(self, name: str, args: argparse.Namespace, gpu: str | None) -> str:
        """Its address."""
        port = self.ports[name] = free_port(0)
        self.children[name] = Child(
            self.group, engine_command(args, port, gpu), self.folder / f"engine-{port}.log",
            {"MINILLM_API_KEY": self.key, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        return f"http://{HOST}:{port}"

    def start(self) -> None:
        """Start engine and page, wait until both answer, then start what is beside them.

        ValueError, in one sentence, if one cannot.
        """
        waiting = {name: self.children[name] for name in (ENGINE, VOILA)}
        for child in waiting.values():
            child.start()
        deadline = time.monotonic() + START_LIMIT_S
        while waiting:
            for name, child in list(waiting.items()):
                if self._answers(name):
                    self._note_ready(name)
                    del waiting[name]
                elif not child.alive:
                    raise ValueError(f"{name} did not start: {child.last_words()}")
            if time.monotonic() > deadline:
                names = " and ".join(waiting)
                raise ValueError(f"{names} did not answer within {START_LIMIT_S:.0f} s.")
            time.sleep(TICK_S)
        if SIMULATED in self.children:
            self.children[SIMULATED].start()

    def watch(self) -> None:
        """Until a signal comes: start again what has ended, and say so."""
        while True:
            now = time.monotonic()
            for name, child in self.children.items():
                if child.look(now):
                    pause = child.restart_at - now
                    print(f"{name} {child.last_end}; it starts again in {pause:.2g} s.", flush=True)
                elif child.up_since is None and self._answers(name):
                    self._note_ready(name)
                    if child.starts > 1:
                        print(f"{name} is back.", flush=True)
            time.sleep(TICK_S)

    def _answers(self, name: str) -> bool:
        """Whether it takes connections: an engine listens once its model is loaded."""
        address = HOST, self.ports[name]
        with contextlib.suppress(OSError), socket.create_connection(address, 1.0):
            return True
        return False

    def _note_ready(self, name: str) -> None:
        self.children[name].ready(time.monotonic())
        if name == ENGINE:
            # It was started with room for a whole prompt in a step: that is for chunked prefill
            # switched off. To begin with a step is short.
            with contextlib.suppress(ClassError, ConnectionError):
                client = ClassClient(f"http://{HOST}:{self.ports[name]}", self.key)
                client.control(max_num_batched_tokens=BUDGET)

    def stop(self) -> None:
        """End all of them and the kernels; nothing is left, not even the logs."""
        for child in self.children.values():
            child.signal(signal.SIGTERM)
        end = time.monotonic() + STOP_LIMIT_S
        while time.monotonic() < end and any(child.alive for child in self.children.values()):
            time.sleep(0.05)
        self.group.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    signal.signal(signal.SIGTERM, interrupt)
    dashboard = None
    try:
        dashboard = Dashboard(args)
        what = f"a simulated {args.simulate}" if args.simulate else "the model on this machine"
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
