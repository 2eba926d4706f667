"""`minillm cluster` as a process: what it prints, how it drains, that nothing outlives it."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import psutil
import pytest

from minillm.cli import build_parser, cluster, serve
from minillm.serve import nginx
from minillm.telemetry import GPU
from tests.capabilities import find_program
from tests.cli_calls import ROOT, call, refused, start
from tests.serve.conftest import LIVENESS_S, wait_for
from tests.serve.test_command import running, stream


@contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen, str, list[psutil.Process]]]:
    """The process, nginx's URL, and all that it started; killed if the test leaves it running."""
    find_program("nginx", "nginx")
    parent = start("cluster", "--port", "0", *arguments)
    try:
        text = ""
        while "Ctrl-C" not in text:
            line = parent.stdout.readline().decode()
            assert line, text + parent.stderr.read().decode()
            text += line
        family = psutil.Process(parent.pid).children(recursive=True)
        yield parent, re.search(r"(http://\S+)/v1", text)[1], family
    finally:
        if parent.poll() is None:
            parent.kill()
        parent.communicate(timeout=LIVENESS_S)


def replica_urls(family: list[psutil.Process]) -> list[str]:
    lines = [child.cmdline() for child in family if "serve" in child.cmdline()]
    return [f"http://127.0.0.1:{line[line.index('--port') + 1]}" for line in lines]


def refuses(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", httpx.URL(url).port)) != 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_the_door_and_lets_streams_finish(number: int):
    with process("--replicas", "2", "--simulate", "--grace", "20") as (parent, url, family):
        urls = replica_urls(family)
        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(stream, url, 120) for _ in range(4)]  # about 1.5 s each
            wait_for(lambda: [running(each) for each in urls] == [2, 2], "two run on each")
            parent.send_signal(number)
            wait_for(lambda: refuses(url), "nginx takes nothing new")
            assert not all(each.done() for each in calls)
            results = [each.result() for each in calls]
        assert [(len(objects), done) for objects, done in results] == [(120, True)] * 4
        assert parent.wait(LIVENESS_S) == (130 if number == signal.SIGINT else 0)
        assert psutil.wait_procs(family, LIVENESS_S)[1] == []
        assert parent.stderr.read() == b""


def test_what_is_left_after_the_grace_time_is_told():
    with process("--replicas", "1", "--simulate", "--grace", "0.5") as (parent, url, family):
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(stream, url, 4000)
            wait_for(lambda: running(replica_urls(family)[0]) == 1, "it runs")
            parent.terminate()
            objects, done = waiting.result()
        assert done
        assert objects[-1]["error"]["code"] == "shutting_down"
        assert parent.wait(LIVENESS_S) == 0
        assert psutil.wait_procs(family, LIVENESS_S)[1] == []


def test_a_second_signal_ends_all_at_once():
    with process("--replicas", "1", "--simulate", "--grace", "60") as (parent, url, family):
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(stream, url, 4000)
            wait_for(lambda: running(replica_urls(family)[0]) == 1, "it runs")
            parent.send_signal(signal.SIGINT)
            wait_for(lambda: refuses(url), "it drains")
            parent.send_signal(signal.SIGINT)
            assert parent.wait(LIVENESS_S) == 130
            assert waiting.exception() is not None
        assert psutil.wait_procs(family, LIVENESS_S)[1] == []


def test_nothing_outlives_a_parent_that_was_killed():
    with process("--replicas", "2", "--simulate") as (parent, url, family):
        assert len(replica_urls(family)) == 2
        assert any("nginx" in child.name() for child in family)
        parent.kill()
        parent.wait()
        assert psutil.wait_procs(family, LIVENESS_S)[1] == []
        assert refuses(url)


def test_nothing_stays_where_one_replica_cannot_start():
    find_program("nginx", "nginx")
    parent = start("cluster", "--port", "0", "--simulate", "1xA100-80GB-SXM,1xB42")
    _, said = parent.communicate(timeout=2 * LIVENESS_S)
    assert said.startswith(b"minillm cluster: Replica 1 did not start: Unknown GPU 'B42'")
    assert [pid for pid in psutil.pids() if session(pid) == parent.pid] == []


def session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def test_without_a_terminal_it_prints_lines():
    with process("--simulate", "1xH100-80GB-SXM,1xA100-80GB-SXM:tp2") as (parent, _, family):
        victim = next(child for child in family if "serve" in child.cmdline())
        victim.kill()
        lines = []
        while "back" not in "".join(lines):
            lines.append(parent.stdout.readline().decode())
            assert lines[-1]
        assert re.fullmatch(r"\d\d:\d\d:\d\d Replica \d was ended by SIGKILL; .*\n", lines[0])
        while " run, " not in lines[-1]:
            lines.append(parent.stdout.readline().decode())
        assert re.search(r"\d\d 0 \w+: 0 run, 0 wait, KV 0%, .* tok/s, 0 done \| 1 ", lines[-1])
        parent.terminate()
        assert parent.wait(LIVENESS_S) == 0


def test_the_configuration_can_be_had_alone(capsys: pytest.CaptureFixture):
    began = time.perf_counter()
    assert call("cluster", "--replicas", "3", "--simulate", "--port", "0", "--print-config",
                "--router", "power_of_two", "--nginx-workers", "4") == 0  # fmt: skip
    text = capsys.readouterr().out
    assert text.count("server 127.0.0.1:") == 3
    assert "random two least_conn;" in text
    assert "worker_processes 4;" in text
    assert time.perf_counter() - began < LIVENESS_S


def test_the_example_in_the_docs_runs():
    find_program("nginx", "nginx")
    text = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    (example,) = [body for body in re.findall(r"```py\n(.*?)```", text, re.DOTALL)
                  if "Replicas(" in body]  # fmt: skip
    answer = subprocess.run([sys.executable, "-c", example], cwd=ROOT, capture_output=True,
                            text=True, timeout=3 * LIVENESS_S)  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    address, *lines = answer.stdout.splitlines()
    assert address.startswith("http://127.0.0.1:")
    assert [line.split()[:2] for line in lines] == [["A100", "up"]] * 2


# ── what cannot be ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--router", "prefix_load", "--simulate"], "reads no prompts"),
        (["--router", "best", "--simulate"], "power_of_two"),
        (["--replicas", "0"], "0"),
        (["--replicas", "65", "--simulate"], "65"),
        (["--simulate", "3 of them"], "3 of them"),
        (["--simulate", "2xL4,1xA10", "--replicas", "4"], "names 3"),
        (["--simulate", "--model", "x/y"], "--sim-model"),
        (["--simulate", "B42"], "Replica 0 did not start: Unknown GPU 'B42'"),
        (["--simulate", "--grace", "-1"], "-1"),
        (["--port", "70000", "--simulate"], "70000"),
        (["--nginx-workers", "0"], "0"),
    ],
)
def test_it_is_refused_in_a_sentence(capsys: pytest.CaptureFixture, flags, said):
    find_program("nginx", "nginx")
    before = psutil.Process().children()  # of other tests' fixtures
    assert call("cluster", "--port", "0", *flags) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line
    assert [child for child in psutil.Process().children() if child not in before] == []


def test_a_port_in_use_is_named(capsys: pytest.CaptureFixture):
    find_program("nginx", "nginx")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        call("cluster", "--simulate", "--port", port)
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert port in line
    assert "in use" in line


def test_without_nginx_nothing_is_started(capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(nginx.os, "access", lambda path, mode: False)
    said = refused(capsys, "cluster", "--simulate", "--port", "0")
    assert "apt install nginx-light" in said


# ── what the replicas are told ──────────────────────────────────────────────────────────────


def plans_of(*flags: str) -> list:
    return cluster.plans(build_parser().parse_args(["cluster", *flags]))


def test_flags_reach_the_replicas_as_they_were_given():
    given = (
        "--max-num-seqs", "16", "--no-enable-prefix-caching", "--preferred-batch-sizes", "4,8",
        "--scheduler", "dynamic", "--deadline", "2.5", "--served-model-name=-x",
    )  # fmt: skip
    (plan,) = plans_of("--simulate", "A10:tp2:pp3", *given)
    told = build_parser().parse_args(["serve", *plan.flags])
    same = ("serve", "--simulate", "A10", "-tp", "2", "-pp", "3", *given)
    assert told == build_parser().parse_args(same)
    assert plan.name == "simulated A10:tp2:pp3"


def test_every_option_that_replicas_share_is_one_of_serve():
    ours, serves = argparse.ArgumentParser(), argparse.ArgumentParser()
    cluster._add_replica(ours)
    serve.add_arguments(serves)
    assert set(vars(ours.parse_args([]))) < set(vars(serves.parse_args([])))


def test_how_many_there_are():
    assert [plan.name for plan in plans_of("--simulate", "2xL4,A10")] == [
        "simulated L4", "simulated L4", "simulated A10",
    ]  # fmt: skip
    assert len(plans_of("--simulate", "--replicas", "3")) == 3
    assert len(plans_of("--device", "cpu")) == cluster.DEFAULT_REPLICAS


def test_a_shape_for_all_is_for_those_that_name_none():
    plans = plans_of("--simulate", "2xL4,A10:tp4", "-tp", "2", "-pp", "3")
    assert [plan.name for plan in plans] == ["simulated L4:tp2:pp3"] * 2 + ["simulated A10:tp4:pp3"]
    told = [build_parser().parse_args(["serve", *plan.flags]) for plan in plans]
    assert [each.tensor_parallel_size for each in told] == [2, 2, 4]
    assert [each.pipeline_parallel_size for each in told] == [3, 3, 3]


def test_real_models_share_the_processors(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster, "usable_cpus", lambda: 8)
    plans = plans_of("--device", "cpu", "--replicas", "3")
    assert [plan.flags[-1] for plan in plans] == ["--threads=2"] * 3
    plans = plans_of("--device", "cpu", "--replicas", "3", "--threads", "5")
    assert [plan.flags[-1] for plan in plans] == ["--threads=5"] * 3


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs, as far as the command line asks."""
    torch = pytest.importorskip("torch")
    gpus = [GPU("H200", 141e9, 1e9)] * 2
    monkeypatch.setattr(cluster, "installed_gpus", lambda: (gpus, "driver 1"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def devices_of(*flags: str) -> list[str]:
    return [plan.env["CUDA_VISIBLE_DEVICES"] for plan in plans_of(*flags)]


def test_real_models_have_their_own_gpus(two_gpus: None, monkeypatch: pytest.MonkeyPatch):
    assert devices_of("--replicas", "2") == ["0", "1"]
    assert devices_of("--replicas", "1", "-tp", "2") == ["0,1"]
    assert plans_of("--replicas", "3", "--device", "cpu")[0].env == {}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7,9,11")
    assert devices_of("--replicas", "2") == ["5", "7"]
    assert devices_of("--replicas", "2", "-pp", "2") == ["5,7", "9,11"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--replicas", "3"], "3 replicas of a real model need 3 GPUs, but 2 can be used here: "),
        (["--replicas", "3"], "give --replicas 2, --device cpu, or --simulate."),
        (["--replicas", "2", "-tp", "2"], "2 replicas of a real model on 2 GPUs each need 4 GPUs"),
        (["--replicas", "2", "-tp", "2"], "but 2 can be used here: give --replicas 1, --device"),
        (["--replicas", "1", "-tp", "3"], "1 replica of a real model on 3 GPUs needs 3 GPUs, but"),
        (["--replicas", "1", "-tp", "3"], "here: give --device cpu, or --simulate."),
        (["--replicas", "3", "-tp", "3", "-pp", "2"], "on 6 GPUs each need 18 GPUs, but 2 can"),
    ],
)
def test_too_few_gpus_are_told_with_the_numbers(two_gpus: None, flags: list[str], said: str):
    with pytest.raises(ValueError) as caught:
        plans_of(*flags)
    assert said in str(caught.value)
