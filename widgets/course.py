"""The course's plan: its lessons in order, and what can be done in each.

A test holds it against the notebooks and the quizzes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lesson:
    """predictions: the keys of its Predicts. questions: of its quiz; 0 where it has no check."""

    number: str
    notebook: str
    title: str
    minutes: int
    predictions: tuple[str, ...] = ()
    questions: int = 3

    @property
    def name(self) -> str:
        """lesson 5, Continuous batching"""
        return f"lesson {int(self.number)}, {self.short}"

    @property
    def short(self) -> str:
        """The title up to its colon."""
        return self.title.partition(":")[0]

    @property
    def file(self) -> str:
        return f"{self.number}_{self.notebook}.ipynb"


LESSONS = (
    Lesson("00", "check_your_setup", "Check your setup", 10, questions=0),
    Lesson(
        "01", "why_one_user_wastes_a_gpu", "Why one user wastes a GPU", 45,
        ("01-times", "01-share"),
    ),
    Lesson(
        "02", "the_queue", "The queue: why the last one waits so long", 40,
        ("02-last", "02-grows", "02-users"),
    ),
    Lesson(
        "03", "static_batching", "Static batching: everyone waits for the longest", 45,
        ("03-share", "03-late"),
    ),
    Lesson(
        "04", "dynamic_batching", "Dynamic batching: how long to wait for company", 40,
        ("04-first", "04-second", "04-real"),
    ),
    Lesson(
        "05", "continuous_batching", "Continuous batching: join and leave at every step", 60,
        ("05-speed", "05-wait"),
    ),
    Lesson(
        "06", "prefill_and_decode", "Prefill and decode: two kinds of work", 50,
        ("06-short", "06-cross"),
    ),
    Lesson(
        "07", "kv_memory", "KV memory: blocks, admission, preemption, prefix cache", 45,
        ("07-users", "07-victim"),
    ),
    Lesson(
        "08", "chunked_prefill", "Chunked prefill: nobody stands still", 50,
        ("08-stall", "08-chunks"),
    ),
    Lesson(
        "09", "measuring_what_matters", "Measuring what matters", 45,
        ("09-loops", "09-stall"),
    ),
    Lesson(
        "10", "throughput_against_latency", "Throughput against latency", 50,
        ("10-gain", "10-slow"),
    ),
    Lesson(
        "11", "many_gpus", "Many GPUs: split the model, or copy it", 60,
        ("11-pipeline", "11-equal", "11-unequal"),
    ),
    Lesson(
        "12", "serve_a_thousand_users", "Serve a thousand users", 75,
        ("12-gpus", "12-guess"),
    ),
)  # fmt: skip


def lesson_of(number: str) -> Lesson:
    """The lesson "05". Raises ValueError for one that the course does not have."""
    for lesson in LESSONS:
        if lesson.number == number:
            return lesson
    raise ValueError(
        f"There is no lesson {number!r}: the course has {LESSONS[0].number!r} to "
        f"{LESSONS[-1].number!r}."
    )


def after(lesson: Lesson) -> Lesson | None:
    """The lesson behind it; None behind the last."""
    place = LESSONS.index(lesson) + 1
    return LESSONS[place] if place < len(LESSONS) else None
