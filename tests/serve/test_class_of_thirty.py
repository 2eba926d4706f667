"""Thirty students at once, each with a live view and questions of their own, and one who floods.

The simulated server runs in a process of its own, as in a class. Limits on time are for liveness:
several times what a quiet machine needs.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median, quantiles

import aiohttp
import pytest

from tests.cli_calls import start
from tests.serve.conftest import LIVENESS_S

STUDENTS, QUESTIONS, TOKENS = 30, 3, 40
FLOOD = 8  # at a time, where 4 are allowed


class Student:
    """Follows /trace and asks one question after the other."""

    def __init__(self, http: aiohttp.ClientSession, nickname: str, key: str) -> None:
        self.http, self.nickname = http, nickname
        self.headers = {"Authorization": f"Bearer {key}"}
        self.steps: list[int] = []
        self.snapshots = 0
        self.foreign_tokens = 0
        self.names: dict[int, str] = {}
        self.ttft: list[float] = []
        self.tokens: list[int] = []
        self.refused = 0

    async def follow(self) -> None:
        async with self.http.get("/trace", headers=self.headers) as answer:
            async for line in answer.content:
                if line.startswith(b"data: "):
                    self.take(json.loads(line[6:]))

    def take(self, data: dict) -> None:
        if data["type"] == "snapshot":
            self.snapshots += 1
            self.names |= {r["req"]: r["nickname"] for r in data["requests"]}
        elif data["type"] == "step":
            self.steps.append(data["step"])
            for req, *_, token in data["rows"]:
                mine = self.names[req] == self.nickname
                self.foreign_tokens += token is not None and token >= 0 and not mine
        elif data.get("event") == "arrive":
            self.names[data["req"]] = data["nickname"]

    async def ask(self, count: int) -> None:
        for number in range(count):
            body = {
                "messages": [{"role": "user", "content": f"{self.nickname} asks {number} " * 20}],
                "max_tokens": TOKENS, "ignore_eos": True, "stream": True,
            }  # fmt: skip
            sent, times = time.perf_counter(), []
            path = "/v1/chat/completions"
            async with self.http.post(path, json=body, headers=self.headers) as answer:
                if answer.status == 429:
                    self.refused += 1
                    continue
                assert answer.status == 200, await answer.text()
                async for line in answer.content:
                    if line.startswith(b"data: {") and b'"role"' not in line:
                        times.append(time.perf_counter())
            self.ttft.append(times[0] - sent)
            self.tokens.append(len(times))


@asynccontextmanager
async def classroom(*arguments: str) -> AsyncIterator[tuple[str, str]]:
    """A class server in a process: its URL and its join code."""
    server = start("serve", "--classroom", "--port", "0", *arguments)
    try:
        printed = ""
        while "teach(" not in printed:
            line = (await asyncio.to_thread(server.stdout.readline)).decode()
            assert line, server.stderr.read().decode()
            printed += line
        url, code = re.search(r'join\("(\S+)", "(\S+)"', printed).groups()
        yield url, code
    finally:
        server.kill()
        server.communicate(timeout=LIVENESS_S)


async def join(http: aiohttp.ClientSession, code: str, nickname: str) -> Student:
    headers = {"Authorization": f"Bearer {code}"}
    body = {"nickname": nickname}
    async with http.post("/class/join", json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        told = await answer.json()
    return Student(http, told["nickname"], told["key"])


async def health(http: aiohttp.ClientSession, times: list[float]) -> None:
    while True:
        start_ = time.perf_counter()
        async with http.get("/health") as answer:
            assert answer.status == 200
        times.append(time.perf_counter() - start_)
        await asyncio.sleep(0.1)


async def hold_class(limit_s: float, *arguments: str) -> tuple[list[Student], Student, list[float]]:
    """All thirty, the flooder and the times of /health, once everybody has their answers."""
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=limit_s)
    async with classroom(*arguments) as (url, code):
        async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as http:
            students = [await join(http, code, f"Student {i}") for i in range(STUDENTS)]
            flooder = await join(http, code, "Flooder")
            beats: list[float] = []
            beside = [asyncio.create_task(s.follow()) for s in students]
            beside.append(asyncio.create_task(health(http, beats)))
            flood = [asyncio.create_task(flooder.ask(QUESTIONS)) for _ in range(FLOOD)]
            await asyncio.gather(*(s.ask(QUESTIONS) for s in students), *flood)
            last = max(s.steps[-1] for s in students if s.steps)
            end = time.perf_counter() + LIVENESS_S
            while any(s.steps[-1] < last for s in students) and time.perf_counter() < end:
                await asyncio.sleep(0.05)
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
    return students, flooder, beats


def check_class(students: list[Student], flooder: Student) -> None:
    for student in students:
        assert student.tokens == [TOKENS] * QUESTIONS
        assert student.refused == 0
        assert student.snapshots == 1  # nobody fell behind
        assert student.steps == list(range(student.steps[0], student.steps[-1] + 1))
        assert student.foreign_tokens == 0
        assert len(set(student.names.values())) == STUDENTS + 1
    assert len({student.steps[-1] for student in students}) == 1
    assert flooder.refused >= FLOOD - 4
    assert set(flooder.tokens) <= {TOKENS}


def test_thirty_students_and_a_flooder_on_a_simulated_gpu():
    students, flooder, beats = asyncio.run(hold_class(120, "--simulate", "--max-num-seqs", "24"))
    check_class(students, flooder)
    assert median(beats) < 5 * 0.1
    assert quantiles([t for s in students for t in s.ttft], n=20)[-1] < 5 * 3


@pytest.mark.slow
def test_thirty_students_and_a_flooder_on_the_real_model():
    students, flooder, beats = asyncio.run(hold_class(900, "--max-num-seqs", "16"))
    check_class(students, flooder)
    for name, times in (("TTFT", [t for s in students for t in s.ttft]), ("/health", beats)):
        print(f"\n{name}: median {median(times):.3f} s, p95 {quantiles(times, n=20)[-1]:.3f} s")
    assert median(beats) < 5 * 0.1
