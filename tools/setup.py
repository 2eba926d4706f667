"""Make .venv ready: pinned packages, this project, the default model. Run by `make setup`.

Standard library only, since it runs before anything is installed, under Python 3.11 to 3.13.
A stamp in .venv says for which lock file, project file and Python it is complete, so that a
second start takes no time; whatever broke off earlier goes on at the next call.
Environment: MINILLM_TORCH = auto | cpu | cuda; with MINILLM_MODEL set, no model is fetched.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"
STAMP = VENV / "minillm-setup.json"

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # PyTorch's own index of CPU builds
FREE_GB_NEEDED = {"cpu": 3, "cuda": 10}


class SetupError(Exception):
    """A step failed; the message is one sentence for the person at the terminal."""


def say(text: str) -> None:
    print(text, flush=True)


def fingerprint() -> str:
    """What a complete environment depends on: pins, project file, packages, Python, place."""
    digest = hashlib.sha256()
    for part in (
        LOCK.read_bytes(),
        (ROOT / "pyproject.toml").read_bytes(),
        ".".join(map(str, sys.version_info[:3])).encode(),
        " ".join(sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))).encode(),
        str(ROOT).encode(),
    ):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def read_stamp() -> dict[str, str]:
    """The stamp's fields, or none where the environment was never completed."""
    try:
        return json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def has_nvidia_driver() -> bool:
    """Whether an NVIDIA driver answers on this machine."""
    command = shutil.which("nvidia-smi") or "/usr/lib/wsl/lib/nvidia-smi"
    try:
        answer = subprocess.run([command, "-L"], capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and b"GPU" in answer.stdout


def wanted_torch(stamp: dict[str, str]) -> str:
    """"cpu" or "cuda". auto keeps what a complete .venv has, else looks for a driver."""
    choice = os.environ.get("MINILLM_TORCH", "auto").strip().lower() or "auto"
    if choice not in ("auto", "cpu", "cuda"):
        raise SetupError(f"MINILLM_TORCH is {choice!r}; it can be auto, cpu or cuda.")
    if choice != "auto":
        return choice
    return stamp.get("torch") or ("cuda" if has_nvidia_driver() else "cpu")


def run(command: list[str], failure: str) -> None:
    """Run a command with its output on the terminal; a non-zero exit raises SetupError."""
    if subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode != 0:
        raise SetupError(failure)


def pip(*arguments: str) -> list[str]:
    """A pip command in .venv. Byte code is left to the first import: it halves the wait."""
    if arguments[0] == "install":
        arguments = ("install", "--no-compile", *arguments[1:])
    return [
        str(VENV_PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments,
    ]  # fmt: skip


def pip_with_progress(arguments: list[str], total: int, failure: str) -> None:
    """Run pip with one line of progress; its last lines are shown only when it fails."""
    process = subprocess.Popen(
        pip(*arguments), cwd=ROOT, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    tail: deque[str] = deque(maxlen=15)
    done = 0
    try:
        for line in process.stdout or ():
            tail.append(line.rstrip())
            name = re.match(r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)", line)
            done += name is not None
            if not sys.stdout.isatty():
                continue
            if name:
                print(f"\r\033[K  {min(done, total)} of {total}: {name[1]}", end="", flush=True)
            elif line.startswith("Installing collected"):
                print("\r\033[K  unpacking …", end="", flush=True)
        returncode = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if sys.stdout.isatty():
        print("\r\033[K", end="", flush=True)
    if returncode != 0:
        say("\n".join(tail))
        raise SetupError(failure)


def make_venv() -> None:
    """Create .venv with this Python, or keep the one that is there and made by the same version."""
    wanted = f"{sys.version_info.major}.{sys.version_info.minor}"
    if VENV_PYTHON.exists():
        probe = subprocess.run(
            [str(VENV_PYTHON), "-c", "import pip, sys; print('{}.{}'.format(*sys.version_info))"],
            capture_output=True, text=True,
        )  # fmt: skip
        if probe.returncode == 0 and probe.stdout.strip() == wanted:
            return
    say(f"Making .venv with Python {sys.version.split()[0]}")
    run(
        [sys.executable, "-m", "venv", "--clear", str(VENV)],
        "The virtual environment .venv could not be made; the lines above say why.",
    )


def check_disk(kind: str) -> None:
    free = shutil.disk_usage(ROOT).free / 1e9
    if not VENV.exists() and free < FREE_GB_NEEDED[kind]:
        raise SetupError(
            f"{free:.1f} GB are free here and the {kind.upper()} installation needs "
            f"{FREE_GB_NEEDED[kind]} GB; make room and run this again."
        )


def torch_pin() -> str:
    pin = re.search(r"^torch==[\w.]+", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    if pin is None:
        raise SetupError(f"{LOCK.name} does not pin torch.")
    return pin[0]


def installed_torch() -> str:
    """The installed torch version with its local part (2.13.0+cpu), or an empty string."""
    code = "from importlib.metadata import version; print(version('torch'))"
    answer = subprocess.run([str(VENV_PYTHON), "-c", code], capture_output=True, text=True)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def answers(url: str) -> bool:
    """Whether a web address answers within seconds."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=5):
            return True
    except (OSError, ValueError):
        return False


def install_torch(kind: str, previous_kind: str) -> None:
    """Install the pinned torch: a CPU build from PyTorch's CPU index, else pip's own choice."""
    pin, here = torch_pin(), installed_torch()
    if here.split("+")[0] == pin.split("==")[1] and kind == (previous_kind or kind):
        return
    if here:  # pip would take 2.13.0+cpu for 2.13.0
        run(pip("uninstall", "--quiet", "--yes", "torch"), "The old torch could not be removed.")
    if kind == "cpu" and sys.platform == "linux":
        say(f"Installing {pin}, CPU build")
        # Where the index doesn't answer, pip may still find a CPU build in the places that the
        # person's pip configuration adds; it is told to give up on the index at once.
        patience = [] if answers(f"{TORCH_CPU_INDEX}/torch/") else ["--timeout=5", "--retries=0"]
        command = pip("install", "--no-deps", f"--index-url={TORCH_CPU_INDEX}", *patience, pin)
        quiet = {"stderr": subprocess.DEVNULL} if patience else {}
        if subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, **quiet).returncode == 0:
            return
        say("PyTorch's CPU index can't be reached: taking pip's default (a larger download)")
    else:
        say(f"Installing {pin}")
    run(
        pip("install", "--constraint", str(LOCK), pin),
        f"{pin} could not be installed; pip's lines above say why.",
    )


def install_packages() -> None:
    pins = re.findall(r"^[\w.-]+==", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    say(f"Installing {len(pins)} pinned packages")
    pip_with_progress(
        ["install", "--requirement", str(LOCK)],
        len(pins),
        "The pinned packages could not be installed; pip's last lines above say why.",
    )
    # The build tools are in the lock, so that this step needs no network.
    run(
        pip("install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)),
        "The project itself could not be installed into .venv.",
    )


def model_ready() -> bool:
    """Whether the default model is there, or the person has named another."""
    if os.environ.get("MINILLM_MODEL"):
        return True
    code = "from minillm.model import default_model; print(default_model.default_model_ready())"
    answer = subprocess.run(
        [str(VENV_PYTHON), "-c", code], cwd=ROOT, capture_output=True, text=True
    )  # fmt: skip
    return answer.stdout.strip() == "True"


def fetch_model() -> None:
    run(
        [str(VENV_PYTHON), "-m", "minillm.model.default_model"],
        "The default model is not ready; the line above says why. Run this again to go on.",
    )


def main() -> int:
    stamp = read_stamp()
    kind = wanted_torch(stamp)
    complete = {"fingerprint": fingerprint(), "torch": kind}
    if stamp != complete:
        check_disk(kind)
        make_venv()
        STAMP.unlink(missing_ok=True)
        install_torch(kind, stamp.get("torch", ""))
        install_packages()
        STAMP.write_text(json.dumps(complete) + "\n", encoding="utf-8")
        say("The environment is ready: .venv")
    if not model_ready():
        fetch_model()
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except SetupError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        print("\nStopped. Run it again: it goes on where it was.", file=sys.stderr)
        raise SystemExit(130) from None
