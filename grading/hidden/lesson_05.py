"""Exercise 5 on other inputs."""

from __future__ import annotations

from dataclasses import replace

from grading.checks import lesson_05 as public

SEED = 70519
CASES = public.random_cases(SEED, 48)

EXERCISE = replace(
    public.EXERCISE,
    properties=(
        public.property_(
            "every token once, within the limits", 1, public.every_token_once,
            "Which of the public properties does it break on larger inputs?",
            on_errors=True, inputs=CASES,
        ),
        public.property_(
            "nobody waits beside an idle slot", 1, public.no_idle_slot,
            "Which of the public properties does it break on larger inputs?", inputs=CASES,
        ),
    ),
)  # fmt: skip
