"""Exercise 6 on other inputs."""

from __future__ import annotations

from dataclasses import replace

from grading.checks import lesson_06 as public

SEED = 30671

EXERCISE = replace(
    public.EXERCISE,
    properties=(
        public.token(
            "other models", 1, "Which of the public properties breaks on other models?",
            public.random_models(SEED, 60),
        ),
        public.step(
            "other batches", 1, "Which of the public properties breaks on other batches?",
            public.random_batches(SEED, 40, 60),
        ),
        public.crossover(
            "other crossovers", 1, "Which of the public properties breaks on other sizes?",
            public.random_crossovers(SEED, 60),
        ),
    ),
)  # fmt: skip
