"""Exercise 2 on other inputs."""

from __future__ import annotations

from dataclasses import replace

from grading.checks import lesson_02 as public
from grading.exercise import Property, calls, equals

SEED = 81734

EXERCISE = replace(
    public.EXERCISE,
    properties=(
        Property(
            "longer queues", 1, "Which of the public properties breaks when the queue is long?",
            calls(public.WAITS, public.random_queues(SEED, 40, 40)),
            equals(public.fifo_waits), (public.WAITS,),
        ),
        Property(
            "larger samples", 1, "Which of the public properties breaks on a larger sample?",
            calls(public.LAW, public.random_samples(SEED, 40, 40)),
            equals(public.littles_law), (public.LAW,),
        ),
    ),
)  # fmt: skip
