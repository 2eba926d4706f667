"""Jobs beside the cells: one after the other, the newest of a name, nothing left when idle."""

from __future__ import annotations

import asyncio
import threading

import pytest

from widgets.replay.worker import Worker

LIMIT_S = 10.0


@pytest.mark.parametrize("threads", [True, False])
def test_of_two_that_wait_under_one_name_the_newer_is_done(threads):
    async def run():
        worker, done = Worker(threads=threads), []
        for i in range(5):
            worker.do("a", lambda i=i: done.append(("a", i)))
        worker.do("b", lambda: done.append(("b", 0)))
        await asyncio.wait_for(worker.idle(), LIMIT_S)
        assert done[-1] == ("b", 0)
        assert ("a", 4) in done
        assert len(done) <= 3  # the first may have begun before the next came
        worker.do("a", lambda: done.append("again"))
        await asyncio.wait_for(worker.idle(), LIMIT_S)
        assert done[-1] == "again"

    asyncio.run(run())


def test_a_job_that_fails_is_told_of_and_the_next_is_done():
    told, done = [], threading.Event()
    worker = Worker(failed=told.append)
    worker.do("bad", lambda: 1 / 0)
    worker.do("good", done.set)
    assert done.wait(LIMIT_S)
    worker.close()
    assert [type(error) for error in told] == [ZeroDivisionError]


def test_a_closed_worker_does_nothing_and_no_thread_is_left():
    worker = Worker()
    worker.do("a", lambda: None)
    worker.close()
    done = []
    worker.do("b", lambda: done.append(1))
    assert done == []
    assert not [t for t in threading.enumerate() if t.name.startswith("minillm-replay-work")]
