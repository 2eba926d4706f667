"""Exercise 1 on other inputs."""

from __future__ import annotations

from dataclasses import replace

from grading.checks import lesson_01 as public
from grading.exercise import Property

SEED = 51907

EXERCISE = replace(
    public.EXERCISE,
    properties=(
        public.intensity(
            "other products", 1, "Which of the public properties breaks on other sizes?",
            public.random_products(SEED, 60),
        ),
        public.time(
            "other devices", 1, "Which of the public properties breaks on other devices?",
            public.random_steps(SEED, 60),
        ),
        Property(
            "other ridges", 1, "Which of the public properties breaks around another ridge?",
            public.around_the_ridge(SEED, 30), public.curve_is_right, (public.TIME,),
        ),
    ),
)  # fmt: skip
