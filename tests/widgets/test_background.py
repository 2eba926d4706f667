"""Background without threads: turns from the event loop, and from a cell that waits."""

from __future__ import annotations

import asyncio
import time

import pytest

from widgets.background import Background


def counting(seen: list, number: int, nap: float = 0.0, upto: int = 1000):
    """A job that notes each of its turns, until `upto` of them."""

    def job():
        for _ in range(upto):
            seen.append(number)
            yield nap

    return job


def in_a_loop(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 30))


def test_join_computes_the_turns_of_tasks_that_get_none():
    async def scenario():
        seen: list[int] = []
        background = Background(threads=False)
        background.start(counting(seen, 1, 0.001, 20), counting(seen, 2, 0.0, 30))
        assert background.join(10)
        assert not background.running
        assert (seen.count(1), seen.count(2)) == (20, 30)
        assert set(seen[:4]) == {1, 2}  # side by side
        background.start(counting(seen, 3, upto=5))  # at once, in the same cell
        await background.wait()
        assert seen.count(3) == 5
        assert (seen.count(1), seen.count(2)) == (20, 30)  # the old tasks had nothing left

    in_a_loop(scenario())


def test_join_gives_up_after_its_time():
    async def scenario():
        background = Background(threads=False)
        background.start(counting([], 1, 0.01, 100_000))
        start = time.monotonic()
        assert not background.join(0.1)
        assert time.monotonic() - start < 5
        assert background.running

    in_a_loop(scenario())


def test_a_job_that_joins_its_own_background_does_not_wait_for_itself():
    async def scenario():
        background, found = Background(threads=False), []

        def job():
            found.append(background.join(0.2))
            yield 0.0

        background.start(job, counting([], 1, upto=3))
        await background.wait()
        assert found == [False]  # the other one had ended, this one not
        assert background.errors == []

    in_a_loop(scenario())


def test_what_a_turn_raises_is_kept_wherever_it_was_computed():
    async def scenario():
        background = Background(threads=False)

        def job():
            yield 0.0
            raise ValueError("no more")

        background.start(job)
        assert background.join(10)
        with pytest.raises(ValueError, match="no more"):
            raise background.errors[0]

    in_a_loop(scenario())


def test_a_cancelled_task_ends_its_job():
    async def scenario():
        ended: list[str] = []
        background = Background(threads=False)

        def job():
            try:
                while True:
                    yield 0.05
            finally:
                ended.append("closed")

        background.start(job)
        await asyncio.sleep(0.05)
        background.worker(0).cancel()
        await background.wait()
        assert ended == ["closed"]

    in_a_loop(scenario())
