"""Prompts of a wanted length as text: three-letter words, about one token each.

Each piece is a blank and a common English word of three letters. The default model's tokenizer and
most others of its kind make one token of it, and the simulated server's (4 characters a token) does
exactly. What a server really counted stands in its usage. Equal segments give equal text, so shared
prefixes stay shared; the words at a segment's start tell it from every other one.
"""

from __future__ import annotations

from functools import lru_cache

from minillm.sim.workload import Segment

_TEXT = """
the and for are but not you all any can had her was one our out day get has him his how man new now
old see two way who boy did its let put say she too use dad mom cat dog sun sea sky red big top end
far few ask air arm art bag bed box car cup cut dry ear
"""
WORDS = _TEXT.split()
_HEADER = 6  # words: the kind and five digits of the number to base 64


def segment_text(segment: Segment) -> str:
    """`length` words that follow from (kind, number); a longer one of a key starts the same."""
    kind, number, length = segment
    digits = [kind % len(WORDS)]
    for _ in range(_HEADER - 1):
        number, digit = divmod(number, len(WORDS))
        digits.append(digit)
    header = [WORDS[digit] for digit in digits[:length]]
    filler = _filler(1 << max(length - _HEADER, 1).bit_length())
    return "".join(f" {word}" for word in [*header, *filler[: max(length - _HEADER, 0)]])


@lru_cache(maxsize=32)
def _filler(size: int) -> tuple[str, ...]:
    """Words by a linear congruential generator; the start of a longer filler is the same."""
    state, words = 1, []
    for _ in range(size):
        state = (state * 1_103_515_245 + 12_345) % 2**31
        words.append(WORDS[(state >> 16) % len(WORDS)])
    return tuple(words)
