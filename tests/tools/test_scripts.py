"""The scripts behind the Makefile: finding a Python, choosing a torch, opening the lab."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from tools import lock, setup

ROOT = Path(__file__).resolve().parent.parent.parent


def fake_python(folder: Path, name: str, version: str, fits: bool) -> None:
    """A stand-in interpreter that answers with_python.sh's two questions, then says it ran."""
    path = folder / name
    path.write_text(
        "#!/bin/sh\n"
        'case "$2" in\n'
        f'  *split*) echo "{version}" ;;\n'
        f"  *sys.exit*) exit {0 if fits else 1} ;;\n"
        f'  *) echo "{name} runs $1" ;;\n'
        "esac\n"
    )
    path.chmod(0o755)


def with_python(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(ROOT / "tools" / "with_python.sh"), "script.py"],
        env={"PATH": str(folder), **environment}, capture_output=True, text=True, timeout=30,
    )  # fmt: skip


def test_the_first_python_that_fits_is_taken(tmp_path):
    fake_python(tmp_path, "python3", "3.9.2", fits=False)
    (tmp_path / "python3.13").write_text("#!/bin/sh\nexit 127\n")  # a shim that leads nowhere
    (tmp_path / "python3.13").chmod(0o755)
    fake_python(tmp_path, "python3.12", "3.12.1", fits=True)
    answer = with_python(tmp_path)
    assert answer.returncode == 0
    assert answer.stdout == "python3.12 runs script.py\n"


def test_no_python_that_fits_is_one_clear_sentence(tmp_path):
    fake_python(tmp_path, "python3", "3.9.2", fits=False)
    answer = with_python(tmp_path)
    assert answer.returncode == 1
    assert "needs Python 3.11, 3.12 or 3.13" in answer.stderr
    assert "python3 is 3.9.2" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_a_python_without_venv_is_named_with_the_remedy(tmp_path):
    fake_python(tmp_path, "python3", "3.11.2", fits=False)
    assert "apt install python3-venv" in with_python(tmp_path).stderr


def test_a_named_python_that_does_not_start_is_named_back(tmp_path):
    answer = with_python(tmp_path, PYTHON="/nowhere/python")
    assert answer.returncode == 1
    assert "/nowhere/python does not start" in answer.stderr


def test_unknown_torch_choice_is_refused():
    answer = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "setup.py")],
        env=dict(os.environ, MINILLM_TORCH="rocm"), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert answer.returncode == 1
    assert answer.stderr == "MINILLM_TORCH is 'rocm'; it can be auto, cpu or cuda.\n"


@pytest.mark.parametrize(
    ("choice", "stamp", "driver", "expected"),
    [
        ("auto", {}, False, "cpu"),
        ("auto", {}, True, "cuda"),
        ("auto", {"torch": "cpu"}, True, "cpu"),  # what is complete is kept
        ("cpu", {"torch": "cuda"}, True, "cpu"),
        ("cuda", {}, False, "cuda"),
        ("", {}, False, "cpu"),
    ],
)
def test_torch_choice(monkeypatch, choice, stamp, driver, expected):
    monkeypatch.setenv("MINILLM_TORCH", choice)
    monkeypatch.setattr(setup, "has_nvidia_driver", lambda: driver)
    assert setup.wanted_torch(stamp) == expected


def record_pip(monkeypatch, index_answers: bool, cpu_index_works: bool) -> list[list[str]]:
    """Stand in for pip and the network; gives the list that the commands are written to."""
    commands: list[list[str]] = []

    def run(command, **_):
        commands.append([str(part) for part in command])
        failed = "--no-deps" in commands[-1] and not cpu_index_works
        return subprocess.CompletedProcess(command, 1 if failed else 0)

    monkeypatch.setattr(setup, "answers", lambda url: index_answers)
    monkeypatch.setattr(setup, "installed_torch", lambda: "")
    monkeypatch.setattr(setup.subprocess, "run", run)
    monkeypatch.setattr(setup.sys, "platform", "linux")
    return commands


def test_cpu_torch_comes_from_the_cpu_index(monkeypatch):
    commands = record_pip(monkeypatch, index_answers=True, cpu_index_works=True)
    setup.install_torch("cpu", "")
    assert len(commands) == 1
    assert f"--index-url={setup.TORCH_CPU_INDEX}" in commands[0]
    assert "--retries=0" not in commands[0]


def test_an_unreachable_cpu_index_falls_back_within_seconds(monkeypatch):
    commands = record_pip(monkeypatch, index_answers=False, cpu_index_works=False)
    setup.install_torch("cpu", "")
    assert {"--timeout=5", "--retries=0"} <= set(commands[0])
    assert not [part for part in commands[1] if part.startswith("--index-url")]
    assert commands[1][-1] == "torch==2.13.0"


def test_cuda_torch_comes_with_its_libraries_from_the_default_index(monkeypatch):
    commands = record_pip(monkeypatch, index_answers=True, cpu_index_works=True)
    setup.install_torch("cuda", "")
    assert len(commands) == 1
    assert "--no-deps" not in commands[0]
    assert not [part for part in commands[0] if part.startswith("--index-url")]


def test_a_complete_environment_is_left_alone(monkeypatch, tmp_path):
    stamp = tmp_path / "stamp.json"
    monkeypatch.setattr(setup, "STAMP", stamp)
    monkeypatch.setenv("MINILLM_TORCH", "cpu")
    stamp.write_text(json.dumps({"fingerprint": setup.fingerprint(), "torch": "cpu"}))
    monkeypatch.setattr(setup, "model_ready", lambda: True)
    monkeypatch.setattr(setup, "run", lambda *_: pytest.fail("nothing is to be done"))
    monkeypatch.setattr(setup, "make_venv", lambda: pytest.fail("nothing is to be done"))
    assert setup.main() == 0


def test_too_little_disk_space_is_one_sentence_with_both_numbers(monkeypatch, tmp_path):
    monkeypatch.setattr(setup, "VENV", tmp_path / "none")
    monkeypatch.setattr(setup.shutil, "disk_usage", lambda _: usage(1.2e9))
    with pytest.raises(setup.SetupError, match=r"1\.2 GB are free .* needs 3 GB"):
        setup.check_disk("cpu")


def usage(free: float) -> SimpleNamespace:
    return SimpleNamespace(free=free)


def test_lock_leaves_out_local_versions_cuda_libraries_and_this_project():
    text = lock.lock_text(
        {
            "torch": "2.13.0+cpu", "nvidia-cublas": "13.1", "nvidia-ml-py": "13.615.71",
            "triton": "3.5", "minillm": "0.1.0", "pip": "23.2", "overrides": "7.7.0",
            "ray": "2.60.0", "google_api.core": "2.44.0",  # of requirements-cluster.txt
        }
    )  # fmt: skip
    pins = [line for line in text.splitlines() if not line.startswith("#")]
    assert pins == [
        'appnope==0.1.4; sys_platform == "darwin"',
        "nvidia-ml-py==13.615.71",
        'overrides==7.7.0; python_version < "3.12"',
        "torch==2.13.0",
    ]


@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGTERM])
def test_lab_takes_the_next_port_prints_its_address_and_stops(tmp_path, stop_signal):
    environment = dict(os.environ, JUPYTER_RUNTIME_DIR=str(tmp_path / "runtime"))
    environment["JUPYTER_CONFIG_DIR"] = str(tmp_path / "config")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        environment.pop(name, None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        environment["MINILLM_PORT"] = str(port)
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "tools" / "lab.py")],
            env=environment, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            address = next(line.strip() for line in process.stdout if "http://" in line)
            url = httpx.URL(address)
            assert url.host == "127.0.0.1"
            assert url.port != port
            with httpx.Client(trust_env=False, follow_redirects=True, timeout=30) as client:
                assert client.get(address).status_code == 200
            without_token = f"http://127.0.0.1:{url.port}/api/sessions"
            assert httpx.get(without_token, trust_env=False, timeout=30).status_code == 403
            os.killpg(process.pid, stop_signal)  # what a terminal does on Ctrl-C
            rest = process.communicate(timeout=60)[0]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    assert process.returncode == 0, rest
    assert "The course has stopped." in rest
    deadline = time.monotonic() + 10
    while server_answers(url.port) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not server_answers(url.port)


def server_answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
