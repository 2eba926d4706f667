"""Dynamic batching: a short wait for company, then a static run with whoever is there.

The rule is the one of Triton's dynamic batcher (max_queue_delay_microseconds,
preferred_batch_size), without its defect of issue 8141 (preferred size + 1 under load).
"""

from __future__ import annotations

from minillm.core.scheduler.static import BatchScheduler


class DynamicScheduler(BatchScheduler):
    """Let n wait, the oldest for a seconds, and let the engine be free:

    a < delay: send the largest preferred size ≤ n at once (no preferred sizes: max_num_seqs is
    one); if there is none, hold until the next arrival or a = delay.
    a ≥ delay: send all that wait, up to max_num_seqs, preferred or not.
    The timer belongs to the oldest waiting request and runs on while the engine is busy.
    """

    name = "dynamic"

    def take(self, now: float) -> int:
        waiting = len(self.waiting)
        if not waiting:
            return 0
        if now >= self._due():
            return min(waiting, self.config.max_num_seqs)
        sizes = self.config.preferred_batch_sizes or (self.config.max_num_seqs,)
        return max((size for size in sizes if size <= waiting), default=0)

    def next_wakeup(self, now: float) -> float | None:
        times = [super().next_wakeup(now)]
        if self.waiting and not self.batch:
            times.append(self._due())
        return min((t for t in times if t is not None), default=None)

    def _due(self) -> float:
        oldest = min(request.arrival_time for request in self.waiting)
        return oldest + self.config.max_queue_delay_s
