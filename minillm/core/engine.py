"""LLMEngine: the one place where scheduler, runner, clock and trace meet.

Synchronous: `step()` computes one step and returns. What drives it (a loop, a thread, an asyncio
task, a server) stands above it; it does no I/O, takes no lock and never sleeps.
"""

from __future__ import annotations

from dataclasses import asdict

from minillm.core.batch import ScheduledRow, SchedulerOutput
from minillm.core.clock import Clock, VirtualClock, WallClock
from minillm.core.config import EngineConfig, SchedulerConfig
from minillm.core.contract import PlanCheck
from minillm.core.door import check_prompt, too_long
from minillm.core.errors import QueueFullError, SchedulerContractError
from minillm.core.kv_cache import KVCacheManager
from minillm.core.request import FinishReason, Request, RequestOutput
from minillm.core.runner import Runner
from minillm.core.sampling_params import SamplingParams
from minillm.core.scheduler import Scheduler, make_scheduler
from minillm.core.trace import RequestEvent, StepRecord, Trace, TraceHeader, step_rows


class LLMEngine:
    """Requests in, tokens out, one step at a time.

    scheduler: None (config.policy says which) or a Scheduler subclass, a student's own included.
    clock: None takes a virtual clock for a simulated runner and the wall clock otherwise.
    """

    def __init__(
        self,
        config: EngineConfig,
        runner: Runner,
        *,
        clock: Clock | None = None,
        scheduler: type[Scheduler] | None = None,
    ) -> None:
        simulated = runner.info.provenance == "simulated"
        self.config = config
        self.runner = runner
        self.clock = clock or (VirtualClock() if simulated else WallClock())
        self.kv = KVCacheManager(config.cache)
        self.scheduler = self._build(scheduler or config.policy, config.scheduler)
        self.requests: dict[str, Request] = {}  # live ones
        self._plan_check = PlanCheck(self.requests)
        self.trace = Trace(self._header())
        self.last_error: Exception | None = None
        self.idle = True  # whether the last step found nothing to run
        self._next: Scheduler | None = None  # takes over when the running requests have drained
        self._schedulers = [self.scheduler]  # these two, or the one
        self._num_requests = 0
        self._num_steps = 0

    # ── requests in ─────────────────────────────────────────────────────────────────────────

    def add_request(
        self,
        request_id: str,
        prompt_token_ids: list[int] | tuple[int, ...],
        params: SamplingParams | None = None,
        *,
        arrival_time: float | None = None,
        priority: int = 0,
        deadline: float | None = None,
        cache_salt: str | None = None,
        nickname: str | None = None,
        prompt_preview: str = "",
    ) -> Request:
        """Queue a request. arrival_time, deadline: seconds on the engine's clock.

        Raises ValueError, in one sentence, for what can never be served (empty or too long a
        prompt, a duplicate id, an unknown token), QueueFullError when the queue is full; the
        engine goes on either way.
        """
        params = params or SamplingParams()
        if request_id in self.requests:
            raise ValueError(f"A request with id {request_id!r} is still being served.")
        check_prompt(prompt_token_ids, self.config.vocab_size)
        now = self.clock.now()
        arrival = now if arrival_time is None else arrival_time
        room = self.config.max_len - len(prompt_token_ids)
        stop_ids = frozenset(params.stop_token_ids)
        if not params.ignore_eos:
            stop_ids |= self.config.eos_token_ids
        request = Request(
            request_id, prompt_token_ids, params, index=self._num_requests,
            arrival_time=arrival, max_tokens=min(params.max_tokens, room), stop_ids=stop_ids,
            deadline=deadline, priority=priority, cache_salt=cache_salt, nickname=nickname,
        )  # fmt: skip
        self._num_requests += 1
        self._event(arrival, request, "arrive", {
            "prompt_len": request.num_prompt_tokens, "max_tokens": params.max_tokens,
            "nickname": nickname, "prompt_preview": prompt_preview[:80],
        })  # fmt: skip
        try:
            if room < 1:
                raise ValueError(too_long(request.num_prompt_tokens, self.config))
            self.upcoming.add(request)
        except (ValueError, QueueFullError) as error:
            self._event(now, request, "refuse", {"reason": str(error)})
            raise
        self.requests[request_id] = request
        return request

    def note_refusal(
        self, request_id: str, reason: str, *, prompt_len: int | None = None,
        max_tokens: int | None = None, nickname: str | None = None,
    ) -> None:  # fmt: skip
        """Put into the trace a request that whoever stands at the door turned away."""
        t, index = self.clock.now(), self._num_requests
        self._num_requests += 1
        arrival = {
            "prompt_len": prompt_len, "max_tokens": max_tokens, "nickname": nickname,
            "prompt_preview": "",
        }  # fmt: skip
        self.trace.add(RequestEvent(t, index, request_id, "arrive", arrival))
        self.trace.add(RequestEvent(t, index, request_id, "refuse", {"reason": reason}))

    def abort(self, request_id: str) -> RequestOutput | None:
        """End a request in any state; None if it is unknown or already finished."""
        return self.finish(request_id, FinishReason.ABORT)

    def finish(self, request_id: str, reason: FinishReason) -> RequestOutput | None:
        """End a request from outside: an abort, or "stop" when its text holds a stop string."""
        request = self.requests.pop(request_id, None)
        if request is None:
            return None
        output = self._holder(request).finish(request, reason)
        self._flush_notes(self.clock.now())
        self._maybe_swap()
        return output

    def close_input(self) -> None:
        """No more requests will come: static batching sends what it holds."""
        for scheduler in self._schedulers:
            scheduler.close_input()

    def swap_scheduler(
        self, policy: str | type[Scheduler], config: SchedulerConfig | None = None
    ) -> None:
        """Change the policy while serving: running requests drain, waiting ones move over."""
        new = self._build(policy, config or self.config.scheduler)
        if self.scheduler.input_closed:
            new.close_input()
        for old in (self.scheduler, self._next):
            if old is not None:
                for request in old.drain_waiting():
                    new.requeue(request)
        self._next = new
        self._schedulers = [self.scheduler, new]
        self._maybe_swap()

    @property
    def upcoming(self) -> Scheduler:
        """The scheduler that new requests go to: after a swap not yet the one that runs."""
        return self._next or self.scheduler

    # ── what a driver asks ──────────────────────────────────────────────────────────────────

    @property
    def has_unfinished(self) -> bool:
        return bool(self.requests)

    def next_wakeup(self) -> float | None:
        """When to step again though nobody arrives (absolute, seconds); None: on arrival."""
        now = self.clock.now()
        times = [scheduler.next_wakeup(now) for scheduler in self._schedulers]
        return min((t for t in times if t is not None), default=None)

    # ── the step ────────────────────────────────────────────────────────────────────────────

    def step(self) -> list[RequestOutput]:
        """Schedule, compute, take in the tokens, record. Returns what the step gave whom.

        An empty plan calls no runner and leaves no record (`idle` is True then). An exception in
        the scheduler or the runner fails that step's requests, is kept in `last_error`, and the
        engine goes on.
        """
        t_start = self.clock.now()
        outputs = self._expire(t_start)
        plan: object = None
        try:
            # 1. Who runs, and with how many tokens.
            plan = self._schedule(t_start)
            self._plan_check.check(plan, self.scheduler, self._num_steps)
            self.idle = not plan.rows
            if self.idle:
                return self._close_step(outputs, t_start)
            self._flush_notes(t_start)

            # 2. Compute.
            result = self.runner.execute(plan)
            rows = step_rows(plan.rows, result.token_ids)
        except Exception as error:
            self.idle = False
            return self._close_step(outputs + self._fail(plan, error), self.clock.now())
        self.clock.advance(result.duration_s or 0.0)
        t_end = self.clock.now()
        scheduler, kv = self.scheduler, self.kv
        waiting, running = self._num_waiting(), len(scheduler.running)
        budget = scheduler.config.max_num_batched_tokens if scheduler.has_budget else None

        # 3. Append tokens, finish, free.
        outputs += scheduler.update(plan, result)
        self._flush_notes(t_end)

        # 4. Record.
        self.trace.add(
            StepRecord(
                self._num_steps, t_start, t_end, waiting, running, budget, rows,
                kv.num_used_blocks, kv.pool.num_cached, kv.drain_ops(),
                result.graph_pad_rows, result.terms,
            )
        )  # fmt: skip
        self._num_steps += 1
        self._maybe_swap()
        return outputs

    def _schedule(self, now: float) -> object:
        """Ask the scheduler; whatever it raises becomes a SchedulerContractError."""
        scheduler, step = self.scheduler, self._num_steps
        scheduler.step_id, scheduler.decoded = step, []
        try:
            plan = scheduler.schedule(now)
        except Exception as error:
            rule = f"schedule() raised {type(error).__name__}: {error}"
            raise SchedulerContractError(step, None, rule, "a plan", "an exception") from error
        if isinstance(plan, SchedulerOutput) and not plan.rows and scheduler.has_unfinished:
            may_hold = not scheduler.input_closed or scheduler.next_wakeup(now) is not None
            if scheduler.running or not may_hold:
                rule = "a step makes progress while requests run, or wait and nobody else can come"
                got = f"no row with {len(scheduler.running)} running"
                got += f" and {len(scheduler.waiting)} waiting"
                raise SchedulerContractError(step, None, rule, "at least 1 row", got)
        return plan

    def _fail(self, plan: object, error: Exception) -> list[RequestOutput]:
        """End the requests of a step that could not run; without a plan, all that it may mean."""
        self.last_error = error
        contract = isinstance(error, SchedulerContractError)
        message = str(error) if contract else f"{type(error).__name__}: {error}"
        rows = plan.rows if isinstance(plan, SchedulerOutput) else []
        planned = [row.request for row in rows if isinstance(row, ScheduledRow)]
        known = [r for r in planned if self.requests.get(r.request_id) is r and not r.is_finished]
        failed = known or list(self.scheduler.running) or list(self.scheduler.waiting)
        finish = self.scheduler.finish
        return [finish(r, FinishReason.ERROR, message) for r in dict.fromkeys(failed)]

    def _close_step(self, outputs: list[RequestOutput], now: float) -> list[RequestOutput]:
        """End a step that leaves no record."""
        self._flush_notes(now)
        self._maybe_swap()
        return outputs

    # ── inside ──────────────────────────────────────────────────────────────────────────────

    def _build(self, policy: str | type[Scheduler], config: SchedulerConfig) -> Scheduler:
        if isinstance(policy, type) and issubclass(policy, Scheduler):
            return policy(config, self.kv)
        return make_scheduler(policy, config, self.kv)

    def _num_waiting(self) -> int:
        return sum([len(scheduler.waiting) for scheduler in self._schedulers])

    def _holder(self, request: Request) -> Scheduler:
        moved = self._next is not None and request in self._next.waiting
        return self._next if moved else self.scheduler

    def _expire(self, now: float) -> list[RequestOutput]:
        return [output for scheduler in self._schedulers for output in scheduler.expire(now)]

    def _maybe_swap(self) -> None:
        """Hand over as soon as the old scheduler's running requests have drained."""
        if self._next is None:
            return
        for request in reversed(self.scheduler.drain_waiting()):  # preempted while draining
            self._next.requeue(request, front=True)
        if not self.scheduler.running:
            self.scheduler, self._next = self._next, None
            self._schedulers = [self.scheduler]

    def _event(self, t: float, request: Request, event: str, data: dict) -> None:
        self.trace.add(RequestEvent(t, request.index, request.request_id, event, data))

    def _flush_notes(self, now: float) -> None:
        """Put into the trace what happened to requests; forget those that have ended."""
        for scheduler in self._schedulers:
            for event, request, data in scheduler.drain_notes():
                self._event(now, request, event, data)
                if request.is_finished and self.requests.get(request.request_id) is request:
                    del self.requests[request.request_id]

    def _header(self) -> TraceHeader:
        info, cache = self.runner.info, self.config.cache
        return TraceHeader(
            info.provenance, info.device, info.model, info.dtype, self.scheduler.name,
            cache.num_blocks, cache.block_size, asdict(self.scheduler.config), self.clock.t0_unix,
        )  # fmt: skip
