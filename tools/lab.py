"""Open the course in JupyterLab on this machine only. Run by `make lab` with .venv's Python.

Starts JupyterLab on 127.0.0.1 (the next free port from 8888 on), opens the first lesson where
there is a display and prints its address in any case, and stops the server and its kernels on
Ctrl-C or SIGTERM. Environment: MINILLM_PORT = first port to try, MINILLM_BROWSER = 0 never opens
a browser.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

from jupyter_core.paths import jupyter_runtime_dir

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / ".venv" / "jupyterlab.log"
START_LIMIT_S = 180.0

# Options of every JupyterLab that the course starts. The first two stop it from asking the
# network; the settings folder stops it from asking the person (the news question pops up even
# where news are off) and leaves out what only an instructor needs (nbgrader's panels).
QUIET_OPTIONS = (
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    f"--LabApp.app_settings_dir={ROOT / 'tools' / 'jupyterlab'}",
)
STOP_LIMIT_S = 15.0


def has_display() -> bool:
    """Whether a browser window can appear on this machine's screen."""
    if os.environ.get("MINILLM_BROWSER") == "0":
        return False
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def first_lesson() -> str:
    """The lab's address of the first lesson, or of the file browser where there is none."""
    lessons = sorted((ROOT / "notebooks").glob("00_*.ipynb"))
    return f"/lab/tree/notebooks/{lessons[0].name}" if lessons else "/lab"


def lab_command(port: str) -> list[str]:
    command = [
        sys.executable, "-m", "jupyterlab",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        f"--ServerApp.root_dir={ROOT}",
        f"--ServerApp.open_browser={has_display()}",
        "--ServerApp.answer_yes=True",  # Ctrl-C stops it without asking back
        f"--LabApp.default_url={first_lesson()}",
        *QUIET_OPTIONS,
        "--Application.log_level=WARN",
    ]  # fmt: skip
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container; refused unless told
        command.append("--ServerApp.allow_root=True")
    return command


def lab_environment() -> dict[str, str]:
    """.venv first on the PATH, so that `!minillm` in a cell is this project's; a new token."""
    environment = dict(os.environ, VIRTUAL_ENV=str(ROOT / ".venv"))
    environment["JUPYTER_TOKEN"] = secrets.token_hex(24)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment.pop("PYTHONHOME", None)
    return environment


def wait_for_address(server: subprocess.Popen[bytes]) -> str | None:
    """The lesson's address with its token once the server listens; None if it ended or hangs."""
    info = Path(jupyter_runtime_dir()) / f"jpserver-{server.pid}.json"
    deadline = time.monotonic() + START_LIMIT_S
    while server.poll() is None and time.monotonic() < deadline:
        try:
            running = json.loads(info.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there yet, or half written
            time.sleep(0.1)
            continue
        token = f"?token={running['token']}" if running["token"] else ""
        return f"{running['url'].rstrip('/')}{first_lesson()}{token}"
    return None


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server, which ends its kernels."""
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def last_lines(count: int = 20) -> str:
    """The end of the server's log, for the person whose server did not start."""
    return "\n".join(LOG.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])


def serve(server: subprocess.Popen[bytes]) -> int:
    """Print the address, wait until the server ends; gives the exit status."""
    address = wait_for_address(server)
    if address is not None:
        print(f"\nThe course is open at\n\n    {address}\n", flush=True)
        print(f"Its log is {LOG.relative_to(ROOT)}. Stop it with Ctrl-C.", flush=True)
    elif server.poll() is None:
        print(last_lines(), file=sys.stderr)
        print(f"JupyterLab did not start within {START_LIMIT_S:.0f} s.", file=sys.stderr)
        return 1
    if server.wait() == 0:  # shut down from its own menu
        print("The course has stopped.")
        return 0
    print(last_lines(), file=sys.stderr)
    print("JupyterLab ended; its last lines above say why.", file=sys.stderr)
    return 1


def main() -> int:
    port = os.environ.get("MINILLM_PORT", "8888")
    if not (port.isdigit() and 1024 <= int(port) <= 65535):
        print(f"MINILLM_PORT is {port!r}; it can be 1024 to 65535.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, interrupt)
    print("Starting JupyterLab …", flush=True)
    with open(LOG, "wb") as log:
        server = subprocess.Popen(
            lab_command(port), cwd=ROOT, env=lab_environment(),
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        return serve(server)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C doesn't leave it behind
        stop(server)
        print("\nThe course has stopped.", flush=True)
        return 0
    finally:
        stop(server)


if __name__ == "__main__":
    raise SystemExit(main())
