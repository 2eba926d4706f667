"""Feeds timed arrivals to an engine and steps it until all is done: the offline driver.

On a virtual clock it jumps to the next event; on a wall clock it waits with the `sleep` it is
given (this module does not sleep by itself). Live views and servers have drivers of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from minillm.core.engine import LLMEngine
from minillm.core.errors import QueueFullError
from minillm.core.request import FinishReason, RequestOutput
from minillm.core.sampling_params import SamplingParams

MAX_NAP_S = 0.05  # so that a stop is noticed soon


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request and when it comes (seconds on the engine's clock)."""

    request_id: str
    prompt_token_ids: tuple[int, ...]
    params: SamplingParams = field(default_factory=SamplingParams)
    time: float = 0.0
    priority: int = 0
    deadline: float | None = None
    prompt_preview: str = ""


def drive(
    engine: LLMEngine,
    arrivals: Iterable[Arrival],
    sleep: Callable[[float], None] | None = None,
) -> Iterator[list[RequestOutput]]:
    """Add each request when its time has come, step, and yield each step's outputs.

    A request that is refused comes out with reason "error". Ends when no request is left.
    Raises ValueError on a wall clock without `sleep`.
    """
    clock = engine.clock
    if not clock.virtual and sleep is None:
        raise ValueError("On a wall clock drive() needs a sleep function, such as time.sleep.")
    pending = sorted(arrivals, key=lambda arrival: arrival.time)
    pending.reverse()
    while pending or engine.has_unfinished:
        refused = []
        while pending and pending[-1].time <= clock.now():
            output = _add(engine, pending.pop())
            if output is not None:
                refused.append(output)
        if not pending:
            engine.close_input()
        outputs = refused + (engine.step() if engine.has_unfinished else [])
        yield outputs
        if engine.has_unfinished and not engine.idle:
            continue
        times = [pending[-1].time] if pending else []
        if engine.has_unfinished and (wakeup := engine.next_wakeup()) is not None:
            times.append(wakeup)
        if not times:
            continue
        if clock.virtual:
            clock.advance_to(min(times))
        else:
            sleep(min(max(min(times) - clock.now(), 0.0), MAX_NAP_S))


def _add(engine: LLMEngine, arrival: Arrival) -> RequestOutput | None:
    """Queue one arrival; an output with reason "error" when it is refused."""
    try:
        engine.add_request(
            arrival.request_id, arrival.prompt_token_ids, arrival.params,
            arrival_time=arrival.time, priority=arrival.priority, deadline=arrival.deadline,
            prompt_preview=arrival.prompt_preview,
        )  # fmt: skip
    except (ValueError, QueueFullError) as error:
        return RequestOutput(arrival.request_id, -1, (), FinishReason.ERROR, str(error))
    return None
