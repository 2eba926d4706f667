"""The check of exercise 7: its scripts show mistakes, and nonsense is told and not raised."""

from __future__ import annotations

from grading import check
from grading.checks.lesson_07 import BlockAllocator, max_concurrent, play
from grading.mutants.lesson_07 import KeepsThePart, NeverTakesOut, ToTheFront, overtakes


def failure(name: str, **objects):
    report = check("lesson_07", **objects)
    return next(group for group in report.groups if group.name.startswith(name))


def test_two_owners_are_shown_with_the_block_and_whose_it_is():
    found = failure("no block has two owners", BlockAllocator=NeverTakesOut)
    assert found.failing_call == (
        "play(NeverTakesOut, 2, 4, [('allocate', 'A', 4), ('allocate', 'B', 4)])"
    )
    assert found.expected == "a block that nobody holds for B"
    assert found.got == "block 0, A’s"


def test_what_a_refusal_left_behind_is_shown():
    found = failure("all or nothing", BlockAllocator=KeepsThePart)
    assert found.expected == "allocate('B', 8) gives [0, 1]"
    assert found.got == "allocate('B', 8) gives None"


def test_the_order_of_the_free_list_is_a_property_of_its_own():
    report = check("lesson_07", BlockAllocator=ToTheFront)
    failed = [group.name for group in report.groups if not group.passed]
    assert failed == ["freed blocks go to the end of the list, the last one first", "any script"]


def test_overtaking_is_found_by_the_smallest_queue():
    found = failure("first come", max_concurrent=overtakes)
    assert found.failing_call == "max_concurrent([16, 64, 16], 2, 16)"
    assert (found.expected, found.got) == ("1", "2")


def test_one_question_can_be_checked_alone():
    assert check("lesson_07", BlockAllocator=BlockAllocator).max == 11
    assert check("lesson_07", max_concurrent=max_concurrent).max == 4


def test_a_table_that_grows_later_is_compared_as_it_was():
    class SameList(BlockAllocator):
        def allocate(self, request, num_tokens):
            super().allocate(request, num_tokens)
            return self.tables.get(request)

    assert play(SameList, 2, 1, [("allocate", "A", 1), ("allocate", "A", 2)]) == [[0], [0, 1]]


def test_nonsense_is_told_and_not_raised():
    for value in ("no", 3, [None], ["a"], [True], {"A": [0]}, [[0]], [-1]):

        class Odd:
            def __init__(self, num_blocks, block_size):
                pass

            def allocate(self, request, num_tokens, value=value):
                return value

            def free(self, request):
                return None

        report = check("lesson_07", BlockAllocator=Odd)
        assert report.score == 0
        assert report.first_failure.got
