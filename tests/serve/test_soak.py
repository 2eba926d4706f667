"""Three minutes of clients that come, read, stall and leave: nothing may grow."""

from __future__ import annotations

import asyncio
import json
import random
import time

import httpx
import psutil
import pytest

from tests.serve.test_command import process, running

CLIENTS = 40


@pytest.mark.slow
def test_threads_descriptors_blocks_and_memory_stay_constant(fast: bool):
    seconds = 20.0 if fast else 180.0
    # Long steps are few: the ring of /trace has its full size in the first third.
    with process("--max-num-seqs", "64", "--grace", "2") as (server, url):
        watched = psutil.Process(server.pid)
        looks: list[tuple[int, int, int]] = []

        def look() -> None:
            memory = watched.memory_info().rss
            looks.append((watched.num_threads(), watched.num_fds(), memory))

        counts = asyncio.run(load(httpx.URL(url).port, seconds, look))
        assert counts["answered"] > counts["left"] > 0
        assert counts["failed"] == 0
        time.sleep(1.0)
        assert running(url) == 0
        text = httpx.get(f"{url}/metrics").text
        assert 'kv_cache_usage_perc{model_name="llama-3.1-8b"} 0.0' in text
        threads, descriptors, memory = zip(*looks[len(looks) // 3 :], strict=True)
        assert max(threads) == min(threads)
        assert max(descriptors) <= CLIENTS + 30
        assert memory[-1] - memory[0] < 50e6
        assert watched.num_fds() < 20
        server.terminate()
        assert server.wait(20) == 0
        assert server.stderr.read() == b""


async def load(port: int, seconds: float, look) -> dict[str, int]:
    """CLIENTS at once for that long; look() is called every second."""
    counts = {"answered": 0, "left": 0, "failed": 0}
    rng = random.Random(3)
    end = time.monotonic() + seconds
    clients = [asyncio.create_task(client(port, end, rng, counts)) for _ in range(CLIENTS)]
    while time.monotonic() < end:
        await asyncio.sleep(1.0)
        look()
    await asyncio.gather(*clients)
    return counts


async def client(port: int, end: float, rng: random.Random, counts: dict[str, int]) -> None:
    while time.monotonic() < end:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = {"prompt": [rng.randrange(9, 999)] * rng.randrange(1, 500),
                "max_tokens": rng.randrange(1, 60), "stream": rng.random() < 0.7}  # fmt: skip
        raw = json.dumps(body).encode()
        head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
        writer.write(head.encode() + raw)
        if rng.random() < 0.2:
            await asyncio.sleep(rng.random())
            counts["left"] += 1
        else:
            answer = await reader.read()
            counts["answered" if b" 200 OK" in answer[:20] else "failed"] += 1
        writer.close()
