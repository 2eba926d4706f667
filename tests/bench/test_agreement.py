"""`minillm bench run` against `minillm serve` on a paced simulated device: the same times.

The server's own times come from its /trace. The bound is 5 ms + 5 % for TTFT and E2E and 3 % for
the time between tokens; a busy machine's noise only adds, so the smallest difference has to keep
it and the median one may be five times as far.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

import httpx
import pytest

from minillm.llm import LLM
from minillm.serve import make_app, running, serving_engine
from minillm.sim import CostModel
from tests.cli_calls import call

STEP_S = 0.020
REQUESTS, PROMPT, OUTPUT = 30, 24, 25


class Watcher:
    """Follows /trace and works out when each request came and got its tokens."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.arrived: dict[str, float] = {}
        self.tokens: dict[str, list[float]] = defaultdict(list)
        self.tokens_seen = 0
        self.ready, self.done = threading.Event(), threading.Event()
        self._names: dict[int, tuple[str, int]] = {}
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        assert self.ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _follow(self) -> None:
        with httpx.stream("GET", f"{self.url}/trace", timeout=30) as answer:
            self.ready.set()
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    self._take(json.loads(line[6:]))
                if self.done.is_set() or self.tokens_seen == REQUESTS * OUTPUT:
                    return

    def _take(self, record: dict) -> None:
        if record.get("type") == "event":
            name = record["id"]
            if record["event"] == "arrive":
                self.arrived[name] = record["t"]
                self._names[record["req"]] = (name, record["prompt_len"])
        elif record.get("type") == "step":
            for req, _, n_tokens, _, start, _ in record["rows"]:
                name, prompt_len = self._names[req]
                if start + n_tokens >= prompt_len:  # caught up: the row gives a token
                    self.tokens[name].append(record["t_end"])
                    self.tokens_seen += 1


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Watcher]:
    """The client's report and what the server saw, of 30 requests at 12/s."""
    file: Path = tmp_path_factory.mktemp("bench") / "run.json"
    llm = LLM.simulated(CostModel(STEP_S, 0.0, 0.0), num_blocks=512, max_model_len=2048)
    with running(make_app(llm, serving_engine(llm, max_num_seqs=16))) as url:
        watcher = Watcher(url)
        try:
            with watcher:
                code = call(
                    "bench", "run", "--base-url", url, "--request-rate", "12",
                    "--num-prompts", REQUESTS, "--input-len", PROMPT, "--output-len", OUTPUT,
                    "--save-requests", "--json", file,
                )  # fmt: skip
                assert code == 0
        finally:
            watcher.done.set()
    return json.loads(file.read_text()), watcher


def test_counts_are_exact(both: tuple[dict, Watcher]):
    report, watcher = both
    assert (report["completed"], report["failed"]) == (REQUESTS, 0)
    assert report["total_input_tokens"] == REQUESTS * PROMPT
    assert report["total_output_tokens"] == REQUESTS * OUTPUT
    assert report["samples"]["itl"] == REQUESTS * (OUTPUT - 1)
    assert len(watcher.arrived) == REQUESTS
    assert {len(times) for times in watcher.tokens.values()} == {OUTPUT}


def test_times_agree(both: tuple[dict, Watcher]):
    report, watcher = both
    ttft, e2e, gaps = [], [], ([], [])
    for request in report["requests"]:
        name = f"cmpl-{request['request_id']}-0"  # the first prompt of that call
        seen, told = watcher.tokens[name], request["chunk_times"]
        start = watcher.arrived[name]
        ttft.append((told[0] - request["sent"], seen[0] - start))
        e2e.append((told[-1] - request["sent"], seen[-1] - start))
        for times, into in zip((told, seen), gaps, strict=True):
            into += [b - a for a, b in pairwise(times)]
    for figures in (ttft, e2e):
        errors = sorted(abs(client - server) for client, server in figures)
        allowed = 0.005 + 0.05 * median(server for _, server in figures)
        assert errors[0] < allowed
        assert median(errors) < 5 * allowed
    assert fmean(gaps[0]) == pytest.approx(fmean(gaps[1]), rel=0.03)
    assert report["mean_itl_ms"] == pytest.approx(1e3 * fmean(gaps[0]))
