"""What a student's function returns, as plain JSON data of exact built-in types.

Only numbers, strings, None, lists and dicts leave the checked process, so that an object whose
`__eq__` always says yes never meets a comparison. Tuples become lists; NumPy's numbers and arrays
are taken as what they hold.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from fractions import Fraction

MAX_ITEMS = 200_000
MAX_WHOLE = int(sys.float_info.max)


class NotPlainError(ValueError):
    """Something that is no number, text, None, list or dict of these."""


def plain(value: object) -> object:
    """`value` as JSON data. Raises NotPlainError with a sentence that names the type."""
    left = [MAX_ITEMS]
    try:
        data = _plain(value, left)
        json.dumps(data)  # it may nest too deeply for JSON alone
    except RecursionError:
        raise NotPlainError("It is nested too deeply, or contains itself.") from None
    except NotPlainError:
        raise
    except ValueError as error:
        raise NotPlainError(f"It cannot be compared: {error}.") from None
    return data


def _plain(value: object, left: list[int]) -> object:
    left[0] -= 1
    if left[0] < 0:
        raise NotPlainError(f"It has more than {MAX_ITEMS:,} items.")
    kind = type(value)
    if value is None or kind is bool:
        return value
    # The base class's own conversion: a subclass cannot put its methods in between.
    if issubclass(kind, int):
        whole = int.__int__(value)
        if abs(whole) > MAX_WHOLE:
            raise NotPlainError("It is a whole number that is larger than any float.")
        return whole
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, list):
        return [_plain(item, left) for item in list.__iter__(value)]
    if issubclass(kind, tuple):
        return [_plain(item, left) for item in tuple.__iter__(value)]
    if issubclass(kind, dict):
        return {_key(key): _plain(item, left) for key, item in dict.items(value)}
    if kind in (Fraction, Decimal):
        return float(value)
    if kind.__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
        return _plain(value.tolist(), left)
    raise NotPlainError(
        f"It is of type {kind.__name__}: a number, a text, None, a list or a dict can be compared."
    )


def _key(key: object) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int):
        return int.__repr__(key)
    raise NotPlainError(f"A dict's key is of type {type(key).__name__}: take a text or a number.")
