"""Schedulers for exercise 5: right ones, written differently; wrong ones; and the empty stub."""

from __future__ import annotations

from minillm.core import ContinuousScheduler, Scheduler, StaticScheduler

# ── right ones, written differently ─────────────────────────────────────────────────────────


class Straight(Scheduler):
    def schedule(self, now):
        budget, rows = self.config.max_num_batched_tokens, []
        for request in self.running:
            if budget:
                rows.append(self.continue_(request, min(request.num_remaining, budget)))
                budget -= rows[-1].num_tokens
        while self.waiting and budget:
            row = self.admit(self.waiting[0], budget)
            if row is None:
                break
            rows.append(row)
            budget -= row.num_tokens
        return self.output(rows)


class ByHelpers(Scheduler):
    """Decodes first, then prefills; a generator; counts slots itself."""

    def schedule(self, now):
        return self.output(list(self.rows()))

    def rows(self):
        left = self.config.max_num_batched_tokens
        for request in sorted(self.running, key=lambda r: r.num_remaining > 1):
            tokens = min(left, request.num_remaining)
            if tokens > 0:
                left -= tokens
                yield self.continue_(request, tokens)
        free = self.config.max_num_seqs - len(self.running)
        for request in list(self.waiting)[:free]:
            if left <= 0:
                return
            row = self.admit(request, left)
            left -= row.num_tokens
            yield row


# ── wrong ones ──────────────────────────────────────────────────────────────────────────────


class Empty(Scheduler):
    def schedule(self, now):
        return self.output([])


class NotWritten(Scheduler):
    def schedule(self, now):
        raise NotImplementedError


class ReturnsNothing(Scheduler):
    def schedule(self, now):
        pass


class OneAtATime(Scheduler):
    """The stub of the lesson: correct, but it does not batch."""

    def schedule(self, now):
        budget = self.config.max_num_batched_tokens
        if self.running:
            request = self.running[0]
            return self.output([self.continue_(request, min(request.num_remaining, budget))])
        if self.waiting:
            return self.output([self.admit(self.waiting[0], budget)])
        return self.output([])


class LastComeFirst(Straight):
    def schedule(self, now):
        self.waiting.reverse()
        plan = super().schedule(now)
        self.waiting.reverse()
        return plan


class ShortestFirst(Straight):
    def schedule(self, now):
        ordered = sorted(self.waiting, key=lambda r: r.num_tokens)
        self.waiting.clear()
        self.waiting.extend(ordered)
        return super().schedule(now)


class OneSlotShort(Straight):
    """Off by one: never fills the last slot (unless there is only one)."""

    def schedule(self, now):
        held = []
        while self.waiting and len(self.waiting) + len(self.running) >= self.config.max_num_seqs:
            if len(self.running) + len(self.waiting) <= 1:
                break
            held.append(self.waiting.pop())
        plan = super().schedule(now)
        self.waiting.extend(reversed(held))
        return plan


class WaitsForTheBatch(Straight):
    """Nobody joins while somebody runs: static batching without padding."""

    def schedule(self, now):
        held = list(self.waiting) if self.running else []
        if held:
            self.waiting.clear()
        plan = super().schedule(now)
        self.waiting.extend(held)
        return plan


class AdmitsOneAStep(Straight):
    def schedule(self, now):
        held = [self.waiting.pop() for _ in range(len(self.waiting) - 1)]
        plan = super().schedule(now)
        self.waiting.extend(reversed(held))
        return plan


class IgnoresTheBudget(Scheduler):
    def schedule(self, now):
        rows = [self.continue_(request, request.num_remaining) for request in self.running]
        while self.waiting:
            row = self.admit(self.waiting[0], self.waiting[0].num_tokens)
            if row is None:
                break
            rows.append(row)
        return self.output(rows)


class OneTokenTooMany(Straight):
    def schedule(self, now):
        if self.running:
            return self.output([self.continue_(r, r.num_remaining + 1) for r in self.running])
        return super().schedule(now)


class TwoRows(Straight):
    def schedule(self, now):
        plan = super().schedule(now)
        return self.output([*plan.rows, *plan.rows[:1]])


class StallsTheOthers(Scheduler):
    """Whoever is admitted makes all running requests wait for a step."""

    def schedule(self, now):
        budget, rows = self.config.max_num_batched_tokens, []
        while self.waiting and budget:
            row = self.admit(self.waiting[0], budget)
            if row is None:
                break
            rows.append(row)
            budget -= row.num_tokens
        if rows:
            return self.output(rows)
        for request in self.running:
            if budget:
                rows.append(self.continue_(request, min(request.num_remaining, budget)))
                budget -= rows[-1].num_tokens
        return self.output(rows)


class PreemptsForFun(Straight):
    """Throws work away: recomputes a request after its second token."""

    def schedule(self, now):
        for request in list(self.running):
            if request.num_output_tokens == 2 and not request.num_preemptions:
                self.preempt(request)
        return super().schedule(now)


class ForgetsOne(Straight):
    """Drops a request of the queue when all slots are taken."""

    def schedule(self, now):
        plan = super().schedule(now)
        if len(self.waiting) > 1:
            self.waiting.pop()
        return plan


class StopsEarly(Straight):
    """Ends requests one token early."""

    def update(self, plan, result):
        for row in plan.rows:
            row.request.max_tokens = max(1, row.request.max_tokens - (len(plan.rows) > 1))
        return super().update(plan, result)


class Raises(Straight):
    def schedule(self, now):
        if len(self.running) > 1:
            return self.output([self.running[5]])
        return super().schedule(now)


RIGHT = [{"scheduler": scheduler} for scheduler in (Straight, ByHelpers, ContinuousScheduler)]
STUBS = [{"scheduler": scheduler} for scheduler in (Empty, NotWritten, ReturnsNothing, OneAtATime)]
WRONG = [
    {"scheduler": scheduler}
    for scheduler in (
        LastComeFirst, ShortestFirst, OneSlotShort, WaitsForTheBatch, AdmitsOneAStep,
        IgnoresTheBudget, OneTokenTooMany, TwoRows, StallsTheOthers, PreemptsForFun, ForgetsOne,
        StopsEarly, Raises, StaticScheduler,
    )
]  # fmt: skip
