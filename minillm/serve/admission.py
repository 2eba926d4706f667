"""Whether a job may come in: the queue's length, and one client's share. Answers at once."""

from __future__ import annotations

from collections.abc import Iterable

from minillm.core import Scheduler
from minillm.core.scheduler.static import BatchScheduler
from minillm.serve.errors import busy, too_many
from minillm.serve.job import Job


def check_queue(count: int, waiting: int, limit: int, scheduler: Scheduler) -> None:
    """Raise ApiError 503 when `count` more requests don't fit beside those that wait."""
    if waiting + count > limit + free_slots(scheduler):
        raise busy(
            f"The queue is full: {waiting} requests wait already, and {limit} may.", "queue_full"
        )


def free_slots(scheduler: Scheduler) -> int:
    """How many of those who wait will be taken up without anybody having to finish."""
    running = len(scheduler.running)
    if running and (scheduler.waiting or isinstance(scheduler, BatchScheduler)):
        return 0
    return max(scheduler.config.max_num_seqs - running, 0)


def check_share(job: Job, jobs: Iterable[Job]) -> None:
    """Raise ApiError 429 when the job's sender would have more in flight than its limit."""
    if job.limit is None:
        return
    flying = sum(len(each.unfinished) for each in jobs if each.nickname == job.nickname)
    if flying + len(job.prompts) > job.limit:
        raise too_many(
            f"{job.nickname} has {flying} in flight and asked for {len(job.prompts)} more, but a "
            f"student may have {job.limit} at once: wait for an answer first.",
            "student_limit",
        )
