"""What `make dashboard` says where it cannot start, and that it leaves nothing behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tools.dashboard import HOST, engine_command, free_port, parser, voila_command

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 150


def run(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """The script with its temporary files in `folder`."""
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "dashboard.py"), "--port", "0", *flags],
        env={**os.environ, "MINILLM_BROWSER": "0", "TMPDIR": str(folder)},
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--simulate", "T1000"), "Unknown GPU 'T1000': choose one of"),
        (("--simulate", "--model", "x"), "--simulate runs no model: leave out --model."),
        (("--model", "/nowhere/model"), "The engine did not start: "),
    ],
)
def test_what_cannot_start_is_one_sentence_and_leaves_nothing(tmp_path, flags, says):
    answer = run(tmp_path, *flags)
    assert answer.returncode == 1
    assert answer.stderr.startswith(says)
    assert len(answer.stderr.splitlines()) == 1
    assert "Traceback" not in answer.stderr + answer.stdout
    assert list(tmp_path.glob("minillm-dashboard-*")) == []
    mine = [p for p in psutil.process_iter(["environ"]) if _is_of(p, tmp_path)]
    assert mine == []


def _is_of(process: psutil.Process, folder: Path) -> bool:
    if process.info["environ"] is None or process.status() == psutil.STATUS_ZOMBIE:
        return False
    return process.info["environ"].get("TMPDIR") == str(folder)


def test_a_taken_port_gives_the_next_one_and_none_is_told():
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port(port, 50) > port
        with pytest.raises(ValueError, match=f"No port from {port} to {port} is free"):
            free_port(port, 1)


def test_a_model_gets_room_for_a_whole_prompt_and_a_simulated_gpu_needs_none():
    args = parser().parse_args(["--kv-blocks", "128"])
    real = engine_command(args, 1, None)
    assert real[real.index("--max-num-batched-tokens") + 1] == "2048"
    simulated = engine_command(args, 1, "L4")
    assert simulated[simulated.index("--max-num-batched-tokens") + 1] == "256"
    assert simulated[-2:] == ["--simulate", "L4"]


def test_kernels_are_culled_so_that_silence_and_idleness_make_up_the_time_asked_for():
    flags = dict(each.split("=", 1) for each in voila_command(1, 120) if "=" in each)
    assert flags["--MappingKernelManager.cull_idle_timeout"] == "85"
    assert flags["--MappingKernelManager.cull_interval"] == "15"
