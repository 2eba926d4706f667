"""The engine's door, its limits, its ends, and what it does when a part fails."""

import math

import pytest

from minillm.core import (
    CacheConfig,
    EngineConfig,
    FinishReason,
    LLMEngine,
    Runner,
    RunnerInfo,
    SamplingParams,
    Scheduler,
    SchedulerConfig,
    StepResult,
    WallClock,
    drive,
)
from minillm.core.driver import Arrival
from tests.core.helpers import EOS, assert_idle, make_engine, run_all, solo

POLICIES = ["static", "dynamic", "continuous"]


def endless(n):
    return SamplingParams(max_tokens=n, ignore_eos=True)


def reasons(engine):
    return {e.id: e.data["reason"] for e in engine.trace.events if e.event in ("finish", "abort")}


# ── limits ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("policy", POLICIES)
def test_what_never_fits_is_refused_and_what_is_behind_it_is_served(policy):  # C17
    engine = make_engine(policy, num_blocks=10, max_model_len=64)
    engine.add_request("39", [1] * 39, endless(5))
    for length in (40, 45):
        with pytest.raises(ValueError, match=rf"{length} tokens.*40 tokens.*64.*10 blocks × 4"):
            engine.add_request(str(length), [1] * length, endless(5))
    engine.add_request("4", [2] * 4, endless(2))
    tokens = run_all(engine)
    assert {name: len(ids) for name, ids in tokens.items()} == {"39": 1, "4": 2}
    assert reasons(engine)["39"] == "length"
    assert [e.id for e in engine.trace.events if e.event == "refuse"] == ["40", "45"]
    assert_idle(engine)


@pytest.mark.parametrize("policy", POLICIES)
def test_output_ends_where_the_pool_ends(policy):  # C18
    engine = make_engine(policy, num_blocks=8)
    engine.add_request("a", [1] * 28, endless(10))
    assert len(run_all(engine)["a"]) == 4
    assert reasons(engine) == {"a": "length"}


@pytest.mark.parametrize(("prompt", "fits"), [(15, True), (16, False)])
def test_max_model_len_counts_prompt_and_output(prompt, fits):  # C28
    engine = make_engine(max_model_len=16)
    if fits:
        engine.add_request("a", [1] * prompt, endless(2))
        assert len(run_all(engine)["a"]) == 1
    else:
        with pytest.raises(ValueError, match="16 tokens and needs room for 1 more"):
            engine.add_request("a", [1] * prompt, endless(2))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_exactly_max_tokens_ids(policy, n):  # C27
    engine = make_engine(policy)
    engine.add_request("a", [1], endless(n))
    assert len(run_all(engine)["a"]) == n
    assert reasons(engine) == {"a": "length"}


# ── ends ────────────────────────────────────────────────────────────────────────────────────


class Scripted(Runner):
    """Answers the same list of tokens to every request."""

    def __init__(self, script):
        self.info = RunnerInfo("simulated", "script", "script", "none")
        self.script = script

    def execute(self, output):
        pick = {
            row.request.request_id: self.script[row.request.num_output_tokens]
            for row in output.rows
            if row.samples
        }
        return StepResult(pick, 1.0)


def scripted(script, params, eos=frozenset({2, 7})):
    config = EngineConfig(CacheConfig(16, 4), SchedulerConfig(), eos_token_ids=eos)
    engine = LLMEngine(config, Scripted(script))
    engine.add_request("a", [1], params)
    return run_all(engine)["a"], reasons(engine)["a"]


@pytest.mark.parametrize("end", [2, 7])
def test_any_eos_id_stops(end):  # C26
    assert scripted([5, 5, end, 5], SamplingParams(max_tokens=4)) == ([5, 5, end], "stop")


def test_ignore_eos_runs_to_max_tokens_and_counts_eos():  # C26
    params = SamplingParams(max_tokens=4, ignore_eos=True)
    assert scripted([5, 2, 7, 5], params) == ([5, 2, 7, 5], "length")


def test_stop_token_ids_hold_though_eos_is_ignored():
    params = SamplingParams(max_tokens=4, ignore_eos=True, stop_token_ids=(9,))
    assert scripted([2, 9, 5, 5], params) == ([2, 9], "stop")


def test_min_tokens_delays_the_stop():
    params = SamplingParams(max_tokens=4, min_tokens=3)
    assert scripted([2, 2, 2, 2], params) == ([2, 2, 2], "stop")


def test_eos_on_the_last_allowed_token_is_a_stop():
    assert scripted([5, 2], SamplingParams(max_tokens=2)) == ([5, 2], "stop")


# ── the door ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "The prompt is empty"),
        ((), "The prompt is empty"),
        ([-1], "Token id -1 is not in the vocabulary"),
        ([10**6], "not in the vocabulary .0 to 999999."),
        (["a"], "Token id 'a'"),
    ],
)
def test_a_bad_prompt_is_refused_and_the_engine_goes_on(prompt, message):  # C29
    engine = make_engine()
    with pytest.raises(ValueError, match=message):
        engine.add_request("bad", prompt)
    engine.add_request("good", [1], endless(2))
    assert run_all(engine) == {"good": solo([1], endless(2))}


def test_a_duplicate_id_is_refused_while_the_first_is_served():
    engine = make_engine()
    engine.add_request("a", [1], endless(2))
    with pytest.raises(ValueError, match="'a' is still being served"):
        engine.add_request("a", [1])
    run_all(engine)
    engine.add_request("a", [1], endless(1))


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": math.nan}, {"temperature": math.inf}, {"temperature": -1},
        {"temperature": 2.1}, {"temperature": "1"}, {"temperature": True},
        {"top_p": 0}, {"top_p": math.nan}, {"top_p": 1.1}, {"top_k": -2}, {"top_k": 1.5},
        {"min_p": 2}, {"min_p": -0.1}, {"logprobs": 10**9}, {"logprobs": -1},
        {"max_tokens": 0}, {"max_tokens": -1}, {"max_tokens": "5"}, {"max_tokens": 1e9},
        {"max_tokens": True}, {"repetition_penalty": 0}, {"repetition_penalty": math.inf},
        {"seed": -1}, {"seed": 2**63}, {"stop": ("",)}, {"stop": (3,)},
        {"stop_token_ids": (-1,)}, {"min_tokens": 9, "max_tokens": 3},
    ],
)  # fmt: skip
def test_sampling_values_out_of_range_are_refused_by_name(bad):  # C28, C30
    with pytest.raises(ValueError, match=next(iter(bad))):
        SamplingParams(**bad)


def test_sampling_values_that_mean_off_or_greedy():  # C30
    assert SamplingParams(temperature=1e-6).greedy
    for top_k in (0, -1, 10**9):
        assert SamplingParams(top_k=top_k, top_p=1e-4).top_k == top_k
    assert SamplingParams(stop="x").stop == ("x",)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"max_num_seqs": 16, "max_num_batched_tokens": 8},
            r"max_num_batched_tokens \(8\).*max_num_seqs \(16\)",
        ),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 512, "max_model_len": 1024},
            r"max_num_batched_tokens \(512\).*max_model_len \(1024\)",
        ),
        ({"scheduling_policy": "lifo"}, "fcfs or priority, got 'lifo'"),
        ({"max_num_seqs": 0}, "max_num_seqs must be an integer ≥ 1, got 0"),
        ({"max_num_seqs": 2.0}, "got 2.0"),
        ({"preferred_batch_sizes": (4, 99)}, "99 is larger than max_num_seqs"),
        ({"max_queue_delay_s": math.nan}, "max_queue_delay_s"),
        ({"max_wait_s": -1}, "max_wait_s"),
    ],
)
def test_a_config_that_cannot_work_is_refused(config, message):
    with pytest.raises(ValueError, match=message):
        SchedulerConfig(**config)


def test_an_unknown_policy_is_refused_with_the_valid_ones():
    with pytest.raises(ValueError, match=r"'fast'.*static, dynamic, continuous"):
        EngineConfig(CacheConfig(4), policy="fast")


# ── when a part fails ───────────────────────────────────────────────────────────────────────


def test_a_runner_that_raises_fails_that_steps_requests_only():
    engine = make_engine()
    engine.add_request("a", [1], endless(3))
    execute, engine.runner.execute = engine.runner.execute, lambda plan: 1 / 0
    outputs = engine.step()
    assert outputs[0].finish_reason is FinishReason.ERROR
    assert outputs[0].error == "ZeroDivisionError: division by zero"
    assert isinstance(engine.last_error, ZeroDivisionError)
    assert_idle(engine)
    engine.runner.execute = execute
    engine.add_request("b", [1], endless(3))
    assert run_all(engine) == {"b": solo([1], endless(3))}


@pytest.mark.parametrize("policy", ["static", "dynamic"])
def test_a_failed_step_ends_the_whole_batch(policy):
    engine = make_engine(policy, max_num_seqs=2)
    for name in "abc":
        engine.add_request(name, [1], endless(3))
    engine.close_input()
    engine.step()
    execute, engine.runner.execute = engine.runner.execute, lambda plan: 1 / 0
    assert {output.request_id for output in engine.step()} == {"a", "b"}
    engine.runner.execute = execute
    assert list(run_all(engine)) == ["c"]
    assert_idle(engine)


def test_a_runner_that_forgets_a_token_is_an_error():
    engine = make_engine()
    engine.add_request("a", [1], endless(3))
    engine.runner.execute = lambda plan: StepResult({})
    assert "returned no token for a" in engine.step()[0].error


def test_an_interrupt_passes_through_and_leaves_the_engine_usable():
    engine = make_engine()
    engine.add_request("a", [1], endless(3))

    def interrupted(plan):
        raise KeyboardInterrupt

    execute, engine.runner.execute = engine.runner.execute, interrupted
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    engine.runner.execute = execute
    assert engine.abort("a") is not None
    assert_idle(engine)


def test_the_runner_learns_of_every_end_even_after_an_idle_step():
    engine = make_engine("static", max_num_seqs=2)
    seen = []
    execute = engine.runner.execute
    engine.runner.execute = lambda plan: (seen.extend(plan.finished_ids), execute(plan))[1]
    for name in "abcd":
        engine.add_request(name, [1], endless(1))
        engine.step()
        engine.step()
    engine.add_request("e", [1], endless(1))
    engine.add_request("f", [1], endless(1))
    engine.step()
    assert sorted(seen) == ["a", "b", "c", "d"]


def test_swapping_drains_who_runs_and_moves_who_waits():
    engine = make_engine("static", max_num_seqs=2)
    for i in range(4):
        engine.add_request(str(i), [i + 1], endless(4))
    engine.step()
    engine.swap_scheduler("continuous", SchedulerConfig(max_num_seqs=4))
    engine.add_request("new", [9], endless(1))
    assert engine.scheduler.name == "static"
    engine.abort("3")
    tokens = run_all(engine)
    assert engine.scheduler.name == "continuous"
    assert [len(step.rows) for step in engine.trace.steps[:5]] == [2, 2, 2, 2, 2]
    assert tokens["new"] == solo([9], endless(1))
    assert "3" not in tokens
    assert_idle(engine)


# ── drivers ─────────────────────────────────────────────────────────────────────────────────


def test_drive_jumps_to_the_next_arrival_and_reports_refusals():
    engine = make_engine()
    arrivals = [
        Arrival("late", (1,), endless(1), 10.0),
        Arrival("early", (1,), endless(2), 0.5),
        Arrival("bad", (), endless(1), 0.7),
    ]
    outputs = [output for step in drive(engine, arrivals) for output in step]
    assert [s.t_start for s in engine.trace.steps] == [0.5, 1.5, 10.0]
    refused = [o for o in outputs if o.request_id == "bad"]
    assert refused[0].error == "The prompt is empty: it needs at least 1 token."


def test_drive_on_a_wall_clock_needs_a_sleep_and_uses_it():
    config = EngineConfig(CacheConfig(16, 4))
    engine = LLMEngine(config, Scripted([5]), clock=WallClock())
    arrivals = [Arrival("a", (1,), endless(1), 0.02)]
    with pytest.raises(ValueError, match=r"time\.sleep"):
        next(drive(engine, arrivals))
    naps = []

    def sleep(seconds):
        naps.append(seconds)
        while engine.clock.now() < 0.02:
            pass

    list(drive(engine, arrivals, sleep))
    assert naps
    assert all(0 <= nap <= 0.05 for nap in naps)


def test_a_finished_token_run_has_eos_as_its_last_id():
    engine = make_engine()
    engine.add_request("a", [3, 1], SamplingParams(max_tokens=60))
    tokens = run_all(engine)["a"]
    assert EOS not in tokens[:-1]


def test_a_scheduler_class_of_ones_own_plugs_in():
    class OneAtATime(Scheduler):
        def schedule(self, now):
            rows = [self.continue_(r, r.num_remaining) for r in self.running]
            if not rows and self.waiting:
                rows = [self.admit(self.waiting[0], self.waiting[0].num_tokens)]
            return self.output(rows)

    engine = make_engine(OneAtATime)
    for name in "ab":
        engine.add_request(name, [1, 2, 3], endless(3))
    assert run_all(engine) == dict.fromkeys("ab", solo([1, 2, 3], endless(3)))
    assert [len(step.rows) for step in engine.trace.steps] == [1] * 6
    assert_idle(engine)
