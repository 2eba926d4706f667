"""Dynamic batching over HTTP on a simulated replica, beside its rule on the virtual clock.

    python -m benchmarks.dynamic_http --repeat 5 --json -

A server in a process of its own, with a simulated device whose steps take what the case says, gets
its requests at given times; each asks for one token, so that a batch is one step of its /trace.
Expected: the same scheduler driven on the virtual clock. Times count from the client's schedule, so
the way through HTTP is in them. Exits with 1 unless most runs of each case have the rule's sizes
and the medians of their times are within 15 ms of it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import aiohttp

from minillm.bench.http_pool import open_pool
from minillm.bench.machine import machine
from minillm.bench.sse import SSEParser
from minillm.cli.serve import SWITCH_S
from minillm.core import Arrival, SamplingParams, drive
from minillm.llm import LLM
from minillm.serve import make_app, running, serving_engine
from minillm.sim import CostModel

BOUND_MS = 15.0
LEAD_S = 0.3  # between the connections' opening and the first request
LIMIT_S = 30.0
HEADING = """\
| requests | the rule (size at ms) | seen (median) | off by | these sizes | a real Triton |
|---|---|---|--:|--:|---|"""

Batches = list[tuple[float, int]]  # (milliseconds after the start, requests)


@dataclass(frozen=True, slots=True)
class Case:
    """calls: (milliseconds after the start, prompts in that call). preferred: batch sizes.

    triton: (ms, size) as measured with Triton 2.51 and pytriton 0.7 on another machine.
    """

    name: str
    calls: tuple[tuple[float, int], ...]
    service_ms: float = 1.0
    max_size: int = 64
    delay_ms: float = 50.0
    preferred: tuple[int, ...] = ()
    triton: tuple[tuple[int, int], ...] = ()

    @property
    def count(self) -> int:
        return sum(size for _, size in self.calls)


def each(*times_ms: float) -> tuple[tuple[float, int], ...]:
    """Calls of one prompt."""
    return tuple((when, 1) for when in times_ms)


def burst(size: int) -> tuple[tuple[float, int], ...]:
    """All at one instant: one call with so many prompts."""
    return ((0.0, size),)


PREFERRED = (8, 16, 32)
CASES = (
    Case("at 0, 15, 35, 51, 70 ms", each(0, 15, 35, 51, 70), triton=((52, 3), (113, 2))),
    Case("one request", each(0), triton=((51, 1),)),
    Case("one request, delay 0", each(0), delay_ms=0.0, triton=((1, 1),)),
    Case("7 at once, preferred 8/16/32", burst(7), preferred=PREFERRED, triton=((56, 7),)),
    Case("8 at once, preferred 8/16/32", burst(8), preferred=PREFERRED, triton=((3, 8),)),
    Case("9 at once, preferred 8/16/32", burst(9), preferred=PREFERRED, triton=((2, 8), (52, 1))),
    Case("9 in calls of their own, preferred 8/16/32", each(*[0] * 9), preferred=PREFERRED,
         triton=((2, 8), (52, 1))),
    Case("20 at once, preferred 8/16/32", burst(20), preferred=PREFERRED,
         triton=((13, 16), (63, 4))),
    Case("8 at once, at most 32", burst(8), max_size=32, triton=((53, 8),)),
    Case("40 at once, at most 32", burst(40), max_size=32, triton=((19, 32), (75, 8))),
    Case("20 at once, at most 8, delay 0, steps of 50 ms", burst(20), 50.0, 8, 0.0),
    Case("1, then 19 in calls of their own, at most 8, delay 0, steps of 50 ms",
         each(0, *[0.5] * 19), 50.0, 8, 0.0),
    Case("16 at once, at most 4, delay 0, steps of 50 ms", burst(16), 50.0, 4, 0.0),
    Case("at 0, 10, 20 ms, delay 5, steps of 80 ms", each(0, 10, 20), 80.0, delay_ms=5.0),
    Case("80, one each 3 ms, preferred 8, delay 2 s, steps of 100 ms",
         each(*(3.0 * i for i in range(80))), 100.0, delay_ms=2000.0, preferred=(8,)),
)  # fmt: skip


def engine_of(case: Case) -> tuple[LLM, dict[str, Any]]:
    """The simulated LLM and the settings of its scheduler."""
    llm = LLM.simulated(CostModel(case.service_ms / 1e3, 0.0, 0.0), num_blocks=256)
    return llm, {
        "max_num_seqs": case.max_size, "max_queue_delay_s": case.delay_ms / 1e3,
        "preferred_batch_sizes": case.preferred,
    }  # fmt: skip


def expected(case: Case) -> Batches:
    """What the rule says, on the virtual clock."""
    llm, limits = engine_of(case)
    engine = llm.new_engine("dynamic", **limits)
    one, times = SamplingParams(max_tokens=1), [ms for ms, size in case.calls for _ in range(size)]
    arrivals = [Arrival(f"r{i}", (7,), one, ms / 1e3) for i, ms in enumerate(times)]
    for _ in drive(engine, arrivals):
        pass
    return [(step.t_start * 1e3, len(step.rows)) for step in engine.trace.steps]


# ── the server's process ────────────────────────────────────────────────────────────────────


def serve(line: Connection) -> None:
    """For each case that comes: serve it, say where, until the next word; None ends all."""
    sys.setswitchinterval(SWITCH_S)  # as `minillm serve` does
    gc.collect()
    gc.freeze()
    while (case := line.recv()) is not None:
        llm, limits = engine_of(case)
        with running(make_app(llm, serving_engine(llm, "dynamic", **limits))) as url:
            line.send(url)
            line.recv()


@contextmanager
def server_process() -> Iterator[Connection]:
    """The line to a process that runs `serve`."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there,), daemon=True)
    process.start()
    try:
        yield here
        here.send(None)
        process.join(LIMIT_S)
    finally:
        process.kill()


# ── the client ──────────────────────────────────────────────────────────────────────────────


async def play(url: str, case: Case) -> Batches:
    """Send the calls at their times; the batches as /trace tells them."""
    async with open_pool(url, None, LIMIT_S) as http:
        following = asyncio.Event()
        watch = asyncio.create_task(follow(http, url, case.count, following))
        await following.wait()
        connections = (health(http, url) for _ in case.calls)
        await asyncio.gather(*connections)  # opened: what counts is the requests' way
        start, start_unix = time.perf_counter() + LEAD_S, time.time() + LEAD_S
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(*(call(http, url, start, *timed) for timed in case.calls))
            t0_unix, steps = await watch
    return [((t0_unix + t_start - start_unix) * 1e3, size) for t_start, size in steps]


async def health(http: aiohttp.ClientSession, url: str) -> None:
    async with http.get(f"{url}/health") as answer:
        await answer.read()


async def call(
    http: aiohttp.ClientSession, url: str, start: float, due_ms: float, size: int
) -> None:
    body = json.dumps({"prompt": [[7]] * size, "max_tokens": 1}).encode()
    headers = {"Content-Type": "application/json"}
    await asyncio.sleep(start + due_ms / 1e3 - time.perf_counter())
    async with http.post(f"{url}/v1/completions", data=body, headers=headers) as answer:
        answer.raise_for_status()
        await answer.read()


async def follow(
    http: aiohttp.ClientSession, url: str, count: int, following: asyncio.Event
) -> tuple[float, Batches]:
    """(Unix time of the engine's zero, (start in seconds, size) of the steps of `count` rows)."""
    parser, steps, t0_unix = SSEParser(), [], None
    async with http.get(f"{url}/trace") as answer:
        async for data in answer.content.iter_any():
            for event in map(json.loads, parser.feed(data)):
                if event["type"] == "header":
                    t0_unix = event["t0_unix"]
                elif event["type"] == "snapshot":
                    following.set()
                elif event["type"] == "step":
                    steps.append((event["t_start"], len(event["rows"])))
            if t0_unix is not None and sum(size for _, size in steps) >= count:
                return t0_unix, steps
    raise RuntimeError("The trace ended before the last batch.")


# ── the comparison ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Result:
    """runs: the batches of each repeat."""

    case: Case
    expected: Batches
    runs: list[Batches]

    @property
    def agreeing(self) -> list[Batches]:
        """The runs whose sizes are the rule's. Other work on the machine may wake a timer late."""
        wanted = [size for _, size in self.expected]
        return [run for run in self.runs if [size for _, size in run] == wanted]

    @property
    def median_ms(self) -> list[float]:
        """Of each batch's start, in the runs that agree."""
        return [median(run[i][0] for run in self.agreeing) for i in range(len(self.expected))]

    @property
    def off_ms(self) -> float | None:
        """The largest difference of a median start from the rule's; None where no run agrees."""
        if not self.agreeing:
            return None
        pairs = zip(self.median_ms, self.expected, strict=True)
        return max((seen - rule for seen, (rule, _) in pairs), key=abs)

    @property
    def kept(self) -> bool:
        """Whether most runs have the rule's sizes, and their median times are within the bound."""
        most = len(self.agreeing) > len(self.runs) / 2
        return most and self.off_ms is not None and abs(self.off_ms) <= BOUND_MS


def measure(line: Connection, case: Case, repeat: int) -> Result:
    """One case, on the server process at the other end of the line."""
    line.send(case)
    if not line.poll(LIMIT_S):
        raise RuntimeError(f"The server did not start within {LIMIT_S:g} s.")
    url = line.recv()
    asyncio.run(play(url, case))  # warm-up
    result = Result(case, expected(case), [asyncio.run(play(url, case)) for _ in range(repeat)])
    line.send("next")
    return result


def brief(batches: Sequence[tuple[float, int]]) -> str:
    """`8 at 21, 8 at 121, …`: the first ones where there are many."""
    shown = [f"{size} at {ms:.0f}" for ms, size in batches[:4]]
    return ", ".join(shown) + (f", … ({len(batches)} batches)" if len(batches) > 4 else "")


def row(result: Result) -> str:
    """A row of the table in docs/serving.md; times in milliseconds."""
    seen, off = brief(result.runs[0]), "–"
    if result.agreeing:
        sizes = [size for _, size in result.expected]
        seen, off = brief(list(zip(result.median_ms, sizes, strict=True))), f"{result.off_ms:+.1f}"
    agree = f"{len(result.agreeing)} of {len(result.runs)}"
    cells = (result.case.name, brief(result.expected), seen, off, agree,
             brief(result.case.triton) or "–")  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=5, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="- is stdout")
    args = parser.parse_args(argv)
    print(HEADING, file=sys.stderr)
    results = []
    with server_process() as line:
        for case in CASES:
            results.append(measure(line, case, args.repeat))
            print(row(results[-1]), file=sys.stderr, flush=True)
    kept = all(result.kept for result in results)
    report = {
        "machine": machine(), "provenance": "measured, simulated replica", "repeat": args.repeat,
        "load_average": os.getloadavg()[0], "bound_ms": BOUND_MS, "kept": kept,
        "results": [
            {**asdict(result), "agreeing": len(result.agreeing), "off_ms": result.off_ms}
            for result in results
        ],
    }  # fmt: skip
    if args.json == "-":
        print(json.dumps(report, indent=2))
    elif args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
