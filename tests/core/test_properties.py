"""ENGINE's invariants over random schedules: tiny pools, aborts, mixed lengths, shared prefixes."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minillm.core import (
    ContinuousScheduler,
    DynamicScheduler,
    FinishReason,
    SamplingParams,
    StaticScheduler,
    request_metrics,
)
from tests.core.helpers import assert_idle, collect, make_engine, solo

QUIET = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@dataclass
class Case:
    """One random run."""

    limits: dict
    prompts: list[tuple[int, ...]]
    max_tokens: list[int]
    arrivals: list[int]
    priorities: list[int]
    aborts: dict[int, int]  # request → step before which it is aborted


@st.composite
def cases(draw, policies=("fcfs", "priority")) -> Case:
    block_size = draw(st.sampled_from([1, 2, 4, 16]))
    num_blocks = draw(st.integers(2, 24))
    limit = num_blocks * block_size
    seqs = draw(st.integers(1, 5))
    chunked = draw(st.booleans())
    budget = draw(st.integers(seqs, seqs + 20)) if chunked else max(limit, seqs, 2)
    limits = {
        "num_blocks": num_blocks,
        "block_size": block_size,
        "prefix_caching": draw(st.booleans()),
        "max_num_seqs": seqs,
        "max_num_batched_tokens": budget,
        "max_model_len": max(limit, 2),
        "enable_chunked_prefill": chunked,
        "long_prefill_token_threshold": draw(st.sampled_from([0, 0, 3])),
        "scheduling_policy": draw(st.sampled_from(policies)),
        "preferred_batch_sizes": tuple(draw(st.sets(st.integers(1, seqs), max_size=2))),
        "max_queue_delay_s": draw(st.sampled_from([0.0, 2.0, 5.5])),
    }
    count = draw(st.integers(1, 7))
    stem = draw(st.lists(st.integers(0, 3), min_size=0, max_size=limit))
    prompts = []
    for _ in range(count):
        shared = stem[: draw(st.integers(0, len(stem)))]
        tail = draw(st.lists(st.integers(0, 9), min_size=1, max_size=8))
        prompts.append(tuple((shared + tail)[-(limit - 1) :]) or (1,))
    return Case(
        limits,
        prompts,
        [draw(st.integers(1, 20)) for _ in range(count)],
        sorted(draw(st.integers(0, 15)) for _ in range(count)),
        [draw(st.integers(0, 2)) for _ in range(count)],
        draw(st.dictionaries(st.integers(0, count - 1), st.integers(0, 25), max_size=2)),
    )


class Observed(ContinuousScheduler):
    """Continuous batching that checks invariants 1–4 and 11 on each plan it makes."""

    def schedule(self, now):
        ready = [r for r in self.running if r.num_remaining == 1]
        plan = super().schedule(now)
        self.kv.check_integrity()
        tokens = {row.request.request_id: row.num_tokens for row in plan.rows}
        budget = self.config.max_num_batched_tokens
        assert sum(tokens.values()) <= budget
        assert len(self.running) <= self.config.max_num_seqs
        assert plan.rows or not (self.running or self.waiting), "no progress"
        for request in ready:
            assert tokens.get(request.request_id) == 1 or request.request_id in plan.preempted_ids
        if self.waiting and not plan.preempted_ids:
            self._assert_no_idle_slot(budget - sum(tokens.values()))
        return plan

    def _assert_no_idle_slot(self, budget_left: int) -> None:
        head = self.waiting[0]
        hits = self.kv.get_computed_blocks(head)
        fresh = self.kv.blocks_for(head.num_tokens) - len(hits)
        fits = fresh <= self.kv.num_free_blocks - sum(b.ref_count == 0 for b in hits)
        cached = len(hits) * self.kv.block_size
        whole = self.config.enable_chunked_prefill or head.num_tokens - cached <= budget_left
        slot = len(self.running) < self.config.max_num_seqs
        assert not (slot and fits and budget_left > 0 and whole), "an idle slot while one waits"


def play(case: Case, scheduler):
    """Run a case: (engine, tokens by id, ids aborted)."""
    engine = make_engine(scheduler, **case.limits)
    tokens: dict[str, list[int]] = {}
    aborted: set[str] = set()
    pending = list(range(len(case.prompts)))
    bound = 40 * sum(len(p) + n + 2 for p, n in zip(case.prompts, case.max_tokens, strict=True))
    for step in range(bound):
        while pending and case.arrivals[pending[0]] <= engine.clock.now():
            i = pending.pop(0)
            params = SamplingParams(max_tokens=case.max_tokens[i])
            engine.add_request(
                f"r{i}", case.prompts[i], params,
                arrival_time=float(case.arrivals[i]), priority=case.priorities[i],
            )  # fmt: skip
        if not pending:
            engine.close_input()
        for i, when in case.aborts.items():
            if when == step and (output := engine.abort(f"r{i}")) is not None:
                assert output.finish_reason is FinishReason.ABORT
                aborted.add(f"r{i}")
        outputs = engine.step()
        assert engine.last_error is None, engine.last_error
        for output in outputs:
            assert output.request_id not in aborted, "a token after the abort"
        collect(outputs, tokens)
        if not pending and not engine.has_unfinished:
            return engine, tokens, aborted
        if engine.idle:
            times = [float(case.arrivals[pending[0]])] if pending else []
            wakeup = engine.next_wakeup()
            engine.clock.advance_to(min(times + ([wakeup] if wakeup is not None else [])))
    raise AssertionError(f"not done after {bound} steps")


def assert_tokens(case: Case, engine, tokens, aborted) -> None:
    """Each request's output equals its solo run; an aborted one's is a prefix of it."""
    for i, prompt in enumerate(case.prompts):
        params = SamplingParams(max_tokens=case.max_tokens[i])
        expected = solo(prompt, params, limit=engine.config.max_len)
        got = tokens.get(f"r{i}", [])
        if f"r{i}" in aborted:
            expected = expected[: len(got)]
        assert got == expected, f"r{i}"


@settings(QUIET, max_examples=1500)
@given(cases())
def test_continuous_batching_keeps_every_invariant(case):
    engine, tokens, aborted = play(case, Observed)
    assert_tokens(case, engine, tokens, aborted)
    assert_idle(engine)
    if case.limits["scheduling_policy"] == "fcfs":
        first = [e.req for e in engine.trace.events if e.event == "admit"]
        order = list(dict.fromkeys(first))
        assert order == sorted(order), "somebody overtook"
        assert_no_ping_pong(engine)


def assert_no_ping_pong(engine) -> None:
    """A preemption pays for another's growth: at most one for each block that others came to need.

    Without a prefix cache, moreover, a victim only comes back after somebody left for good.
    """
    metrics = request_metrics(engine.trace)
    blocks = {
        i: engine.kv.blocks_for(r.prompt_tokens + r.output_tokens) for i, r in metrics.items()
    }
    for i, request in metrics.items():
        assert request.num_preemptions <= sum(blocks.values()) - blocks[i]
    if engine.config.cache.enable_prefix_caching:
        return
    left_since: dict[int, bool] = {}
    for event in engine.trace.events:
        if event.event == "preempt":
            assert left_since.get(event.req, True), f"{event.id} was preempted twice for nothing"
            left_since[event.req] = False
        elif event.event in ("finish", "abort"):
            left_since = dict.fromkeys(left_since, True)


@settings(QUIET, max_examples=700)
@given(cases(), st.sampled_from([StaticScheduler, DynamicScheduler]))
def test_static_and_dynamic_batches_give_solo_tokens(case, scheduler):
    engine, tokens, aborted = play(case, scheduler)
    assert_tokens(case, engine, tokens, aborted)
    assert_idle(engine)
    size = case.limits["max_num_seqs"]
    assert all(len(step.rows) <= size for step in engine.trace.steps)
    assert not any(event.event == "preempt" for event in engine.trace.events)


@settings(QUIET, max_examples=150)
@given(cases(), st.integers(1, 12), st.sampled_from(["static", "dynamic", "continuous"]))
def test_swapping_the_scheduler_loses_nothing(case, swap_at, policy):
    class Swapped(ContinuousScheduler):
        pass

    engine = make_engine(Swapped, **case.limits)
    for i, prompt in enumerate(case.prompts):
        engine.add_request(f"r{i}", prompt, SamplingParams(max_tokens=case.max_tokens[i]))
    engine.close_input()
    tokens: dict[str, list[int]] = {}
    for step in range(3000):
        if step == swap_at:
            engine.swap_scheduler(policy)
        collect(engine.step(), tokens)
        assert engine.last_error is None, engine.last_error
        if not engine.has_unfinished:
            break
        if engine.idle:
            engine.clock.advance_to(engine.next_wakeup())
    assert_tokens(case, engine, tokens, set())
    assert_idle(engine)


@settings(QUIET, max_examples=100)
@given(cases(policies=("fcfs",)))
def test_block_operations_in_the_trace_replay_to_the_blocks_in_use_and_cached(case):
    engine, _, _ = play(case, ContinuousScheduler)
    owners: dict[int, int] = {}
    cached: set[int] = set()
    for step in engine.trace.steps:
        for op, block, _ in step.blocks:
            if op in "as":
                assert op == "s" or block not in cached  # evicted before it is handed out
                owners[block] = owners.get(block, 0) + 1
                cached.discard(block)
            elif op == "f":
                owners[block] -= 1
                if not owners[block]:
                    del owners[block]
            elif op == "c":
                assert block not in owners
                cached.add(block)
            else:
                cached.remove(block)
        assert len(cached) == step.kv_cached
        assert len(owners) == step.kv_used
