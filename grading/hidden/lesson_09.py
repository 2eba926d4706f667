"""Exercise 9 on other inputs."""

from __future__ import annotations

from dataclasses import replace

from grading.checks import lesson_09 as public

SEED = 40427

HINT = "Which of the public properties breaks on longer inputs?"
EXERCISE = replace(
    public.EXERCISE,
    properties=(
        public.about(
            public.TTFT, 1, "other arrivals", HINT,
            [*public.random_arrivals(SEED, 30), (7.5, [])],
        ),
        public.about(
            public.ITL, 1, "longer answers", HINT,
            public.lists(public.random_times(SEED, 30, 60)),
        ),
        public.about(
            public.TPOT, 1, "the mean over longer answers", HINT,
            public.lists([*public.random_times(SEED + 1, 30, 60), [2.5]]),
        ),
        public.about(
            public.PERCENTILE, 1, "larger samples", HINT, public.random_samples(SEED, 60, 120),
        ),
        public.about(
            public.GOODPUT, 1, "longer runs", HINT, public.random_services(SEED, 60, 40),
        ),
    ),
)  # fmt: skip
