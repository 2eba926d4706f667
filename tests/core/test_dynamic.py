"""Dynamic batching on the virtual clock, against values measured on a real Triton 2.51.

The peer's values are wall-clock milliseconds; ours are exact. Where ours differ on purpose
(Triton server issue 8141, and its 500 ms polls of issue 8870), the test says so.
"""

import pytest

from minillm.core import Arrival, QueueFullError, SamplingParams, drive
from tests.core.helpers import assert_idle, make_engine

ONE = SamplingParams(max_tokens=1)


def batches(arrivals_ms, service_ms=1, max_size=64, delay_ms=50.0, preferred=(), **limits):
    """[(start in ms, size)] of each batch; every request is one step of service_ms."""
    engine = make_engine(
        "dynamic", num_blocks=200, step_s=service_ms / 1e3, max_num_seqs=max_size,
        max_num_batched_tokens=512, max_queue_delay_s=delay_ms / 1e3,
        preferred_batch_sizes=tuple(preferred), **limits,
    )  # fmt: skip
    requests = [Arrival(f"r{i}", (1,), ONE, ms / 1e3) for i, ms in enumerate(arrivals_ms)]
    for _ in drive(engine, requests):
        pass
    assert_idle(engine)
    return [(round(s.t_start * 1e3, 6), len(s.rows)) for s in engine.trace.steps]


def test_the_timer_starts_with_the_first_request():  # C35; Triton: (52, 3), (113, 2)
    assert batches([0, 15, 35, 51, 70]) == [(50, 3), (101, 2)]


def test_idle_before_the_first_request_does_not_count():  # C35
    assert batches([10_000, 10_015, 10_035, 10_051, 10_070]) == [(10_050, 3), (10_101, 2)]


@pytest.mark.parametrize(("delay", "start"), [(50, 50), (0, 0)])
def test_a_single_request_goes_alone(delay, start):  # C36; Triton: 51 and 1 ms
    assert batches([0], delay_ms=delay) == [(start, 1)]


@pytest.mark.parametrize(
    ("burst", "expected", "triton"),
    [
        (1, [(50, 1)], [(51, 1)]),
        (7, [(50, 7)], [(56, 7)]),
        (8, [(0, 8)], [(3, 8)]),
        (9, [(0, 8), (50, 1)], [(2, 8), (52, 1)]),
        (20, [(0, 16), (50, 4)], [(13, 16), (63, 4)]),
    ],
)
def test_preferred_sizes_8_16_32(burst, expected, triton):
    got = batches([0] * burst, preferred=(8, 16, 32))
    assert got == expected
    for (ours, size), (theirs, their_size) in zip(got, triton, strict=True):
        assert size == their_size
        assert abs(ours - theirs) <= 15


@pytest.mark.parametrize(
    ("burst", "expected"), [(8, [(50, 8)]), (40, [(0, 32), (50, 8)])]
)  # Triton: (53, 8); (19, 32), (75, 8)
def test_without_preferred_sizes_the_largest_batch_counts_as_one(burst, expected):
    assert batches([0] * burst, max_size=32) == expected


def test_under_load_only_preferred_sizes_leave():  # C37, without Triton's 9, 9, 9 …
    got = batches([3 * i for i in range(80)], service_ms=100, preferred=(8,), delay_ms=2000)
    assert [size for _, size in got] == [8] * 10


def test_delay_zero_sends_all_that_wait_each_time():
    burst = [0.0] + [0.5] * 19  # the first comes a moment earlier
    got = batches(burst, service_ms=50, max_size=8, delay_ms=0)
    assert got == [(0, 1), (50, 8), (100, 8), (150, 3)]
    assert [size for _, size in batches([0] * 20, 50, 8, 0)] == [8, 8, 4]


def test_an_overdue_queue_goes_as_soon_as_the_engine_is_free():
    got = batches([0, 10, 20], service_ms=80, delay_ms=5)
    assert got == [(5, 1), (85, 2)]


def test_a_queue_limit_leaves_no_gaps():  # C39: back to back (Triton polls: 2, 554, 615, 1118)
    got = batches([0] * 16, service_ms=50, max_size=4, delay_ms=0, max_queue_size=16)
    assert got == [(0, 4), (50, 4), (100, 4), (150, 4)]


def test_a_full_queue_answers_at_once():  # C40
    engine = make_engine("dynamic", max_num_seqs=1, max_queue_delay_s=0.0, max_queue_size=6)
    engine.add_request("r0", [1], ONE)
    engine.step()
    refused = 0
    for i in range(1, 20):
        if len(engine.scheduler.waiting) < 6:
            engine.add_request(f"r{i}", [1], ONE)
            continue
        with pytest.raises(QueueFullError, match="6 requests wait already"):
            engine.add_request(f"r{i}", [1], ONE)
        refused += 1
    assert refused == 13
    assert sum(e.event == "refuse" for e in engine.trace.events) == 13


def test_an_expired_request_is_answered_in_the_next_step():  # C40, the engine's part
    engine = make_engine("dynamic", step_s=0.05, max_num_seqs=1, max_queue_delay_s=0.0)
    requests = [Arrival(f"r{i}", (1,), ONE, 0.0, deadline=0.06) for i in range(3)]
    outputs = [output for step in drive(engine, requests) for output in step]
    ended = {output.request_id: output for output in outputs}
    assert [ended[f"r{i}"].finish_reason for i in range(3)] == ["length", "length", "error"]
    assert ended["r2"].error == "Its deadline passed while it waited."


def test_a_held_request_expires_at_its_deadline_though_nothing_else_happens():
    engine = make_engine("dynamic", max_num_seqs=8, max_queue_delay_s=10.0)
    list(drive(engine, [Arrival("r", (1,), ONE, 0.0, deadline=0.5)]))
    assert [(e.event, e.t) for e in engine.trace.events if e.event == "finish"] == [("finish", 0.5)]


def test_high_priority_makes_the_next_batch():  # C41
    engine = make_engine(
        "dynamic", step_s=0.05, max_num_seqs=4, max_queue_delay_s=0.0,
        scheduling_policy="priority",
    )  # fmt: skip
    low = [Arrival(f"low{i}", (1,), ONE, 0.0, priority=2) for i in range(16)]
    high = [Arrival(f"high{i}", (1,), ONE, 0.02, priority=1) for i in range(4)]
    list(drive(engine, low + high))
    ids = engine.trace.request_ids()
    order = [[ids[row.req_idx] for row in step.rows] for step in engine.trace.steps]
    assert order[1] == ["high0", "high1", "high2", "high3"]
    rest = [name for batch in (order[0], *order[2:]) for name in batch]
    assert rest == [f"low{i}" for i in range(16)]  # FIFO among equals
