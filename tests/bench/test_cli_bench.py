"""`minillm bench`: tables, JSON and its shape, pages, exit codes, Ctrl-C, errors in a sentence."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from minillm.bench.plan import Workload
from tests.bench.stub_server import DONE, Exchange, StubServer, text, usage
from tests.cli_calls import GOLDEN, assert_shape, call, refused, start
from tests.tiny_chat_model import save_tiny_chat_model

SIMULATED = ("--simulate", "--num-prompts", "40", "--output-len", "8")


async def quick(exchange: Exchange) -> None:
    if exchange.number % 5 == 4:
        return await exchange.fail(503, "full")
    await exchange.start()
    await exchange.send(text("a"), 5)
    await exchange.send(text("b", "length") + usage(2) + DONE, 10)
    return None


def report(mode: str, text_: str) -> dict:
    data = json.loads(text_)
    assert_shape(data, json.loads((GOLDEN / f"cli_bench_{mode}.json").read_text()))
    assert (data["schema"], data["command"]) == (1, f"bench {mode}")
    return data


@pytest.mark.parametrize("mode", [(), ("run",), ("sweep",), ("replay",)])
def test_help(mode: tuple[str, ...], capsys: pytest.CaptureFixture):
    assert call("bench", *mode, "--help") == 0
    said = capsys.readouterr().out
    assert "minillm bench sweep" in said if not mode else "--base-url" in said


# ── simulated: instant and exact ────────────────────────────────────────────────────────────


def test_run_writes_table_json_and_page(tmp_path: Path, capsys: pytest.CaptureFixture):
    file, html = tmp_path / "run.json", tmp_path / "run.html"
    code = call(
        "bench", "run", *SIMULATED, "--max-concurrency", "4", "--goodput", "ttft:500", "tpot:50",
        "--json", file, "--html", html,
    )  # fmt: skip
    assert code == 0
    shown = capsys.readouterr().out
    assert "simulated on A100-80GB-SXM, llama-3.1-8b" in shown
    assert "Request goodput (req/s):" in shown
    data = report("run", file.read_text())
    assert (data["completed"], data["total_output_tokens"]) == (40, 320)
    assert data["closed_loop"]
    assert data["max_concurrent_requests"] == 4
    page = html.read_text()
    assert page.count("<svg") == 5
    assert "simulated" in page


def test_the_same_seed_gives_the_same_report(tmp_path: Path):
    reports = []
    for number in range(2):
        file = tmp_path / f"{number}.json"
        assert call("bench", "run", *SIMULATED, "--request-rate", "30", "--burstiness", "0.5",
                    "--dataset", "lognormal", "--json", file) == 0  # fmt: skip
        reports.append(file.read_text())
    assert reports[0] == reports[1]


def test_json_alone_goes_to_stdout(capsys: pytest.CaptureFixture):
    assert call("bench", "replay", "--simulate", "--num-prompts", "30", "--rate-scale", "3",
                "--json", "-") == 0  # fmt: skip
    captured = capsys.readouterr()
    data = report("replay", captured.out)
    assert data["workload"]["trace"] == "azure2023-conv"
    assert "Serving benchmark result" in captured.err


def test_a_sweep_draws_its_curve_and_finds_the_best_load(
    tmp_path: Path, capsys: pytest.CaptureFixture
):
    file, html = tmp_path / "sweep.json", tmp_path / "sweep.html"
    code = call("bench", "sweep", *SIMULATED, "--concurrency", "16,1,4", "--goodput", "tpot:9",
                "--json", file, "--html", html)  # fmt: skip
    assert code == 0
    data = report("sweep", file.read_text())
    assert data["loads"] == [1, 4, 16]
    throughput = [point["output_throughput"] for point in data["points"]]
    assert throughput == sorted(throughput)
    assert data["best_load"] in data["loads"] or data["best_load"] is None
    shown = capsys.readouterr().out
    assert "•16" in shown
    assert html.read_text().count("<svg") == 3


def test_static_batching_shows_its_worse_tail(tmp_path: Path):
    tails = {}
    for policy in ("static", "continuous"):
        file = tmp_path / f"{policy}.json"
        assert call("bench", "run", "--simulate", "--policy", policy, "--max-num-seqs", "8",
                    "--num-prompts", "60", "--dataset", "prompts", "--request-rate", "4",
                    "--json", file) == 0  # fmt: skip
        tails[policy] = json.loads(file.read_text())["p99_ttft_ms"]
    assert tails["static"] > 3 * tails["continuous"]


# ── a server, a real engine ─────────────────────────────────────────────────────────────────


def test_failures_of_a_server_decide_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture):
    file = tmp_path / "run.json"
    with StubServer(quick) as stub:
        load = ("--base-url", stub.url, "--num-prompts", "20", "--max-concurrency", "2")
        assert call("bench", "run", *load, "--json", file) == 1
        assert "20% of the requests failed" in capsys.readouterr().err
        assert call("bench", "run", *load, "--max-error-rate", "0.25") == 0
        walk = ("--base-url", stub.url, "--num-prompts", "10", "--rate", "100,200")
        assert call("bench", "sweep", *walk) == 0
    data = json.loads(file.read_text())
    assert (data["completed"], data["failed"], data["errors"]) == (16, 4, {"HTTP 503": 4})
    assert data["model"] == "stub"  # the first that the server lists


def test_a_real_engine(tmp_path: Path):
    model = save_tiny_chat_model(tmp_path / "tiny")
    file = tmp_path / "run.json"
    code = call(
        "bench", "run", "--engine", "--model", model, "--device", "cpu", "--dtype", "float32",
        "--threads", "1", "--dataset", "prompts", "--num-prompts", "6", "--max-output-len", "5",
        "--max-concurrency", "3", "--json", file,
    )  # fmt: skip
    assert code == 0
    data = json.loads(file.read_text())
    assert data["provenance"] == "measured"
    planned = Workload("prompts", max_output_len=5).plan([0.0] * 6)
    assert data["completed"] == 6
    assert data["total_output_tokens"] == sum(p.output_len for p in planned)


def test_ctrl_c_reports_what_there_is(tmp_path: Path):
    async def script(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.send(text("a"), 5)
        await exchange.send(text("b", "length") + usage(2) + DONE, 40)

    file = tmp_path / "run.json"
    with StubServer(script) as stub:
        process = start(
            "bench", "run", "--base-url", stub.url, "--request-rate", "20",
            "--num-prompts", "5000", "--json", str(file),
        )  # fmt: skip
        limit = time.monotonic() + 60
        while len(stub.exchanges) < 8 and time.monotonic() < limit:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    data = json.loads(file.read_text())
    assert data["interrupted"]
    assert 3 <= data["completed"] < 5000
    assert data["failed"] == 0
    assert b"Stopped early" in out
    assert b"Traceback" not in err


# ── bad input ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run",), "--base-url --engine --simulate"),
        (("run", "--simulate", "A999"), "A999"),
        (("run", "--simulate", "--request-rate", "0"), "above 0"),
        (("run", "--simulate", "--request-rate", "2", "--ramp", "1:2:3"), "not both"),
        (("run", "--simulate", "--ramp", "1:2"), "START:END:SECONDS"),
        (("run", "--simulate", "--goodput", "itl:5"), "itl:5"),
        (("run", "--simulate", "--max-error-rate", "2"), "0 to 1"),
        (("run", "--simulate", "--tenants", "2"), "both"),
        (("run", "--simulate", "--extra-body", "[1]"), "JSON object"),
        (("run", "--simulate", "--html", "/nowhere/x.html"), "can't be written"),
        (("run", "--base-url", "ftp://x"), "--base-url"),
        (("run", "--base-url", "http://127.0.0.1:9/v1"), "No server answers"),
        (("sweep", "--simulate"), "--concurrency --rate"),
        (("sweep", "--simulate", "--concurrency", "1,x"), "'x'"),
        (("replay", "--simulate", "--trace", "arxiv-summarization"), "no times"),
        (("replay", "--simulate", "--trace", "nope.csv"), "nope.csv"),
        (("replay", "--simulate", "--rate", "1", "--rate-scale", "2"), "not allowed"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture
):
    assert says in refused(capsys, "bench", *arguments)
