"""EngineSession: one driver, one publisher, Stop within a step, restarts without leaks."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref

import pytest

from minillm.core import (
    Arrival,
    CacheConfig,
    EngineConfig,
    LLMEngine,
    Runner,
    RunnerInfo,
    SamplingParams,
    Scheduler,
    SchedulerConfig,
    SchedulerContractError,
    StepResult,
)
from minillm.core.trace import StepRecord
from minillm.sim import SimulatedRunner
from widgets import background
from widgets import session as session_module
from widgets.background import Background
from widgets.session import EngineSession

LIVENESS_S = 30.0
MODES = pytest.mark.parametrize("threads", [True, False], ids=["threads", "tasks"])


class SlowRunner(Runner):
    """A device on the wall clock: every step takes `seconds`."""

    def __init__(self, seconds: float = 0.02) -> None:
        self.seconds = seconds
        self.info = RunnerInfo("measured", "a slow device", "none", "none")

    def execute(self, output) -> StepResult:
        time.sleep(self.seconds)
        return StepResult({row.request.request_id: 7 for row in output.rows if row.samples})


class View:
    """Stands in for a timeline: keeps what it was fed."""

    def __init__(self) -> None:
        self.records: list = []
        self.read = 0
        self.heartbeats = self.concluded = 0
        self.finished: list[int] = []
        self.trace = None

    def feed(self, lane: int, trace) -> None:
        if trace is not self.trace:
            self.trace, self.read, self.records = trace, 0, []
        new = trace.records[self.read :]
        self.read += len(new)
        self.records += new

    def publish(self, *, heartbeat: bool = False) -> int:
        self.heartbeats += heartbeat
        return 0

    def finish(self, lane: int) -> None:
        self.finished.append(lane)

    def conclude(self) -> None:
        self.concluded += 1

    def set_headline(self, text: str) -> None:
        self.headline = text


class OneTooMany(Scheduler):
    def schedule(self, now):
        if self.running:
            return self.output([self.continue_(r, r.num_remaining + 1) for r in self.running])
        return self.output([self.admit(self.waiting[0], 512)])


class Endless(Scheduler):
    def schedule(self, now):
        while True:
            pass


class DividesByZero(Scheduler):
    def schedule(self, now):
        return self.output([1 / 0])


def make_engine(runner: Runner | None = None, scheduler=None, policy="continuous") -> LLMEngine:
    config = EngineConfig(CacheConfig(400), SchedulerConfig(max_num_seqs=4), policy)
    return LLMEngine(config, runner or SimulatedRunner(), scheduler=scheduler)


def requests(count: int = 12, tokens: int = 10, gap: float = 0.0) -> list[Arrival]:
    return [
        Arrival(f"r{i}", (3, 4, 5 + i), SamplingParams(tokens + i, ignore_eos=True), gap * i)
        for i in range(count)
    ]


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, LIVENESS_S))


async def until(condition) -> None:
    while not condition():
        await asyncio.sleep(0.01)


# ── a run ───────────────────────────────────────────────────────────────────────────────────


@MODES
def test_a_run_serves_all_and_the_view_gets_every_step_once(threads):
    async def scenario():
        view = View()
        with EngineSession(make_engine(), threads=threads).watch(view) as session:
            assert session.start(requests()) is session
            report = await session.finished()
        assert report.summary.completed == 12
        assert report.summary.output_tokens == sum(10 + i for i in range(12))
        assert not report.stopped
        assert report.errors == ()
        assert view.records == report.trace.records
        steps = [record.step for record in view.records if isinstance(record, StepRecord)]
        assert steps == list(range(len(steps)))
        assert (view.finished, view.concluded) == ([0], 1)

    run(scenario())


@MODES
def test_start_returns_at_once_and_refuses_a_second_run(threads):
    async def scenario():
        session = EngineSession(make_engine(SlowRunner()), threads=threads)
        before = time.perf_counter()
        session.start(requests(4, 20))
        assert time.perf_counter() - before < 1.0
        with pytest.raises(RuntimeError, match="A run is on"):
            session.start(requests(1))
        session.stop()
        await session.finished()
        session.close()
        with pytest.raises(RuntimeError, match="closed"):
            session.start(requests(1))

    run(scenario())


def test_finished_before_start_says_what_to_do():
    with pytest.raises(RuntimeError, match="call start"):
        run(EngineSession(make_engine()).finished())


@MODES
def test_a_second_run_has_a_trace_of_its_own(threads):
    async def scenario():
        with EngineSession(make_engine(), threads=threads) as session:
            session.start(requests(3))
            first = await session.finished()
            session.start(requests(5))
            second = await session.finished()
        assert (first.summary.requests, second.summary.requests) == (3, 5)

    run(scenario())


@MODES
def test_arrivals_come_in_their_time_after_close_input_of_an_earlier_run(threads):
    async def scenario():
        with EngineSession(make_engine(policy="static"), threads=threads) as session:
            session.start(requests(1))  # ends with the input closed
            await session.finished()
            session.start(requests(4, gap=0.1))
            report = await session.finished()
        starts = [step.t_start for step in report.trace.steps]
        arrivals = [event.t for event in report.trace.events if event.event == "arrive"]
        assert len(arrivals) == 4
        assert min(starts) >= max(arrivals)  # static waited for all four

    run(scenario())


# ── stop, close, restart ────────────────────────────────────────────────────────────────────


@MODES
def test_stop_ends_a_run_within_a_second_and_frees_the_engine(threads):
    async def scenario():
        engine, view = make_engine(SlowRunner(0.1)), View()
        session = EngineSession(engine, threads=threads).watch(view)
        session.start(requests(20, 500))
        await until(lambda: engine.scheduler.running)
        before = time.perf_counter()
        session.stop()
        report = await session.finished()
        assert time.perf_counter() - before < 1.0
        assert report.stopped
        assert view.headline == "Stopped: 0 of 20 requests had finished."
        assert not engine.has_unfinished
        assert engine.kv.num_used_blocks == 0
        engine.kv.check_integrity()
        session.start(requests(2, 2))  # and it can be used again
        assert (await session.finished()).summary.completed == 2
        session.close()

    run(scenario())


def test_twenty_restarts_leave_no_thread_and_no_view_behind():
    async def scenario():
        engine = make_engine(SlowRunner(0.005))
        view = View()
        session = EngineSession(engine)
        before = threading.active_count()
        for number in range(20):
            session.watch(view)
            session.start(requests(8, 50))
            await asyncio.sleep(0.01)
            session.stop()
            await session.finished()
            assert threading.active_count() == before, number
        assert len(session._views) == 1
        assert len(view.finished) == 20
        session.close()
        gone = weakref.ref(session)
        del session
        gc.collect()
        assert gone() is None

    run(scenario())


def test_close_joins_both_threads_and_may_be_called_twice():
    session = EngineSession(make_engine(SlowRunner()))
    before = set(threading.enumerate())
    session.start(requests(20, 500))
    assert len(set(threading.enumerate()) - before) == 2
    session.close()
    assert set(threading.enumerate()) == before
    session.close()


def test_stop_and_start_may_come_from_any_thread():
    """ipykernel 7 may run a button's callback on another thread than the cells."""

    async def scenario():
        with EngineSession(make_engine(SlowRunner(0.005))) as session:
            for _ in range(3):
                starter = threading.Thread(target=session.start, args=(requests(8, 200),))
                starter.start()
                starter.join()
                assert session.running
                threading.Thread(target=session.stop).start()
                assert (await session.finished()).stopped

    run(scenario())


@MODES
def test_an_interrupt_while_waiting_stops_the_run(threads):
    async def scenario():
        engine = make_engine(SlowRunner())
        session = EngineSession(engine, threads=threads)
        session.start(requests(20, 500))
        waiting = asyncio.create_task(session.finished())
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: not session.running)
        assert not engine.has_unfinished
        session.close()

    run(scenario())


def test_another_session_on_the_same_device_takes_it_over():
    async def scenario():
        runner = SlowRunner(0.01)
        first, second = (EngineSession(make_engine(runner)) for _ in range(2))
        first.start(requests(20, 500))
        second.start(requests(2, 2))
        assert not first.running
        assert (await second.finished()).summary.completed == 2
        assert (await first.finished()).stopped
        first.close()
        second.close()

    run(scenario())


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────


@MODES
def test_a_broken_rule_is_reported_and_the_next_run_works(threads, capsys):
    async def scenario():
        engine = make_engine(scheduler=OneTooMany)
        with EngineSession(engine, threads=threads) as session:
            session.start(requests(3))
            report = await session.finished()
            [first, *_] = report.errors
            assert isinstance(first, SchedulerContractError)
            assert (first.step, first.request_id) == (1, "r0")
            assert report.num_errors == 3
            assert report.summary.failed == 3
            await session.finished()
            shown = capsys.readouterr().err
            assert shown.count("Your scheduler broke a rule in step 1, request r0") == 1
            assert "no more than remain" in shown
            engine.kv.check_integrity()
            session.swap_scheduler("continuous")
            session.start(requests(3))
            again = await session.finished()
            assert again.summary.completed == 3
            assert again.errors == ()

    run(scenario())


def test_an_exception_in_schedule_names_its_line(capsys):
    async def scenario():
        with EngineSession(make_engine(scheduler=DividesByZero)) as session:
            session.start(requests(1))
            await session.finished()

    run(scenario())
    shown = capsys.readouterr().err
    assert "schedule() raised ZeroDivisionError: division by zero" in shown
    line = DividesByZero.schedule.__code__.co_firstlineno + 1
    assert f"line {line} of schedule()" in shown


def test_an_endless_schedule_can_be_stopped_and_the_engine_lives(capsys):
    async def scenario():
        engine = make_engine(scheduler=Endless)
        with EngineSession(engine) as session:
            session.start(requests(2))
            await asyncio.sleep(0.1)
            session.stop()
            report = await session.finished()
            assert "did not come back when Stop was pressed" in str(report.errors[0])
            session.swap_scheduler("continuous")
            session.start(requests(2))
            assert (await session.finished()).summary.completed == 2

    run(scenario())


@MODES
def test_what_the_engine_refuses_is_in_the_report(threads):
    async def scenario():
        with EngineSession(make_engine(), threads=threads) as session:
            session.start([Arrival("too-long", tuple(range(9000))), *requests(2)])
            report = await session.finished()
        assert report.summary.completed == 2
        [reason] = report.refused
        assert "9000 tokens" in reason

    run(scenario())


def test_an_error_of_a_view_is_raised_by_finished():
    class Broken(View):
        def publish(self, *, heartbeat=False):
            raise OSError("the view is gone")

    async def scenario():
        with EngineSession(make_engine()).watch(Broken()) as session:
            session.start(requests(1))
            with pytest.raises(OSError, match="the view is gone"):
                await session.finished()

    run(scenario())


# ── while it runs ───────────────────────────────────────────────────────────────────────────


@MODES
def test_submit_burst_abort_and_swap_while_running(threads):
    async def scenario():
        engine = make_engine(SlowRunner(0.002))
        seen = []
        session = EngineSession(
            engine, threads=threads, encode=lambda text: [ord(c) for c in text],
            on_output=seen.append,
        )  # fmt: skip
        with pytest.raises(RuntimeError, match="not running"):
            session.submit("hello")
        session.start(keep_open=True)
        first = session.submit("hello", SamplingParams(4, ignore_eos=True), nickname="ann")
        session.burst(requests(3, 3))
        await until(lambda: len({o.request_id for o in seen if o.finished}) == 4)
        long = session.submit([3], SamplingParams(5000, ignore_eos=True))
        await until(lambda: long in engine.requests)
        session.abort(long)
        await until(lambda: long not in engine.requests)
        session.swap_scheduler("static")
        await until(lambda: engine.scheduler.name == "static")
        session.submit("")  # refused, and nothing else happens
        await until(lambda: session.report().refused)
        session.stop()
        report = await session.finished()
        events = {(event.id, event.event) for event in report.trace.events}
        assert {(first, "finish"), (long, "abort")} <= events
        arrived = next(e for e in report.trace.events if e.id == first and e.event == "arrive")
        assert arrived.data["nickname"] == "ann"
        assert "empty" in report.refused[0]
        session.close()

    run(scenario())


def test_submitting_text_needs_encode():
    with pytest.raises(ValueError, match="no `encode`"):
        EngineSession(make_engine()).submit("hello")


@MODES
def test_a_paced_simulation_keeps_to_its_pace(threads):
    async def scenario():
        with EngineSession(make_engine(), threads=threads) as session:
            start = time.perf_counter()
            session.start(requests(4, 20), pace=2.0)
            report = await session.finished()
            elapsed = time.perf_counter() - start
        # Never sooner than asked; later only when the machine is busy.
        assert elapsed >= report.trace.steps[-2].t_end / 2.0

    run(scenario())


@MODES
def test_the_pace_can_be_changed_while_running(threads):
    async def scenario():
        with EngineSession(make_engine(), threads=threads) as session:
            session.start(requests(4, 60, gap=10.0), pace=0.1)  # this would take minutes
            await asyncio.sleep(0.1)
            session.set_pace(1000.0)
            report = await session.finished()
        assert report.summary.completed == 4
        assert report.summary.makespan_s > 30

    run(scenario())


@pytest.mark.parametrize("pace", [0.005, 2000.0, float("nan")])
def test_a_pace_out_of_range_is_refused(pace):
    with pytest.raises(ValueError, match=r"between 0\.01 and 1000"):
        EngineSession(make_engine()).start(requests(1), pace=pace)


@MODES
def test_heartbeats_come_while_nothing_happens(threads, monkeypatch):
    monkeypatch.setattr(session_module, "HEARTBEAT_S", 0.05)

    async def scenario():
        view = View()
        session = EngineSession(make_engine(SlowRunner()), threads=threads).watch(view)
        session.start(keep_open=True)
        await until(lambda: view.heartbeats >= 3)
        session.stop()
        await session.finished()
        session.close()

    run(scenario())


def test_without_threads_it_runs_as_tasks(monkeypatch):
    """As in a browser tab, where Thread.start raises."""

    def no_threads(self):
        raise RuntimeError("can't start new thread")

    background.threads_work.cache_clear()
    monkeypatch.setattr(threading.Thread, "start", no_threads)

    async def scenario():
        session = EngineSession(make_engine())
        assert not session._background.threads
        session.start(requests())
        assert (await session.finished()).summary.completed == 12
        session.close()

    try:
        run(scenario())
    finally:
        background.threads_work.cache_clear()


def test_a_task_gives_the_event_loop_turns():
    """A long simulation on tasks does not hold up what else runs on the loop."""

    async def scenario():
        turns, longest, last = 0, 0.0, time.perf_counter()
        session = EngineSession(make_engine(), threads=False)
        session.start(requests(200, 40))
        while session.running:
            await asyncio.sleep(0)
            now = time.perf_counter()
            turns, longest, last = turns + 1, max(longest, now - last), now
        assert turns >= 10
        assert longest < background.TURN_S * 20
        session.close()

    run(scenario())


def test_background_keeps_the_errors_of_its_jobs():
    def fails():
        yield 0.0
        raise ValueError("no")

    jobs = Background()
    jobs.start(fails)
    assert jobs.join(LIVENESS_S)
    assert [str(error) for error in jobs.errors] == ["no"]
