"""docs/serving.md: what it shows is run as it stands there, against a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from minillm.cli import build_parser
from tests.capabilities import find_program
from tests.serve.conftest import LIVENESS_S, Served

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
HERE = "http://127.0.0.1:8000"


def blocks(language: str) -> list[str]:
    return [body for kind, body in BLOCKS if kind == language]


def run(served: Served, *command: str) -> str:
    answer = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=3 * LIVENESS_S
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip()
    return answer.stdout


@pytest.mark.parametrize("script", blocks("bash"), ids=lambda script: script.split(HERE)[1][:20])
def test_curl(tiny: Served, script: str):
    find_program("curl", "curl")
    out = run(tiny, "bash", "-euo", "pipefail", "-c", script.replace(HERE, tiny.url))
    assert '"error"' not in out
    assert out[0] in "{dem"  # JSON, frames, or metrics


@pytest.mark.parametrize("script", blocks("python"), ids=range(len(blocks("python"))))
def test_python(tiny: Served, script: str):
    run(tiny, sys.executable, "-c", script.replace(HERE, tiny.url))


def test_our_own_commands_parse():
    commands = [
        line.split("#")[0].strip() for body in blocks("") for line in body.splitlines()
        if line.startswith("minillm ")
    ]  # fmt: skip
    assert len(commands) >= 6
    for command in commands:
        arguments = command.replace('"$(openssl rand -hex 16)"', "KEY").split()[1:]
        if arguments[-1] != "--help":
            build_parser().parse_args(arguments)


def test_prometheus_configuration_names_the_server():
    (text,) = blocks("yaml")
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["static_configs"] == [{"targets": [HERE.removeprefix("http://")]}]


def test_metrics_that_it_names_exist(tiny: Served):
    tiny.complete(max_tokens=2, prompt="")
    served = tiny.client.get("/metrics").text
    section = TEXT[TEXT.index("## Metrics") : TEXT.index("## The live trace")]
    named = re.findall(r"`([a-z_]+(?:_total|_seconds|_running|_waiting|_perc))", section)
    assert len(named) >= 14
    for name in named:
        assert f"minillm:{name}" in served, name
