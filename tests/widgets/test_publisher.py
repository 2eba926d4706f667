"""What following a run costs the kernel: feeding and publishing, as a session does it."""

from __future__ import annotations

import time

import pytest

from minillm.core.trace import RequestEvent, StepRecord, Trace, TraceHeader
from widgets.block_map import BlockMap
from widgets.queue_view import QueueView
from widgets.timeline import Timeline

ROWS, STEPS_PER_S, SECONDS = 256, 50, 6
GOAL = 0.05  # of a core; the test allows five times that on a busy machine


@pytest.mark.parametrize("kind", [Timeline, BlockMap, QueueView])
def test_following_256_rows_at_50_steps_a_second_takes_little_of_a_core(kind):
    header = TraceHeader("simulated", "none", "none", "none", "continuous", 4096, 16, {})
    trace, shown, sent = Trace(header), kind(), []
    shown.send = lambda content, buffers=None: sent.append(len(buffers[0]))
    for req in range(ROWS):
        trace.add(RequestEvent(0.0, req, f"r{req}", "arrive", {"prompt_len": 1}))
    used = 0.0
    for i in range(STEPS_PER_S * SECONDS):
        rows = [(req, 1, 1, 0, i, 7) for req in range(ROWS)]
        ops = [("a", (16 * i + k) % 4096, k) for k in range(16)]  # each gets a block now and then
        t = i / STEPS_PER_S
        trace.add(StepRecord(i, t, t + 1 / STEPS_PER_S, 0, ROWS, None, rows, 16 * i, 0, ops))
        if i % 3 == 2:  # about 16 times a second
            began = time.process_time()
            shown.feed(0, trace)
            shown.publish()
            used += time.process_time() - began
    assert used / SECONDS < 5 * GOAL
    assert sum(sent) / SECONDS < 500_000  # bytes a second: a Jupyter server drops above about 1 MB
