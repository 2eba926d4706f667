"""A class on one server: who is in it, by which key, and how much each may ask for.

The join code, 40 bits in Crockford's base 32 (no letter that reads like a digit), lets a student
in; joining gives a key of one's own, which stands for the nickname in everything that follows. So
nobody can send, or read, under another's name. The instructor has a key too. This module knows
nothing of HTTP; minillm/serve/class_guard.py asks it at the door.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

CODE_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
CODE_LENGTH = 8  # of 32 letters: 40 bits
READ_ALIKE = str.maketrans("OIL", "011", "- ")
MIN_NICKNAME, MAX_NICKNAME = 1, 24
NICKNAME_MARKS = " -_.'"
MAX_STUDENTS = 500
STUDENT_LIMIT = 4
# Wrong keys that one address may send at once, and how soon one more: a class behind one router
# may mistype now and then, and 40 bits still take ten thousand years.
TRIES, RETRY_S = 30, 2.0
MAX_ADDRESSES = 1024

INSTRUCTOR, STUDENT, GUEST = "instructor", "student", "guest"


@dataclass(frozen=True, slots=True)
class Member:
    """Who bears a key. guest: the join code itself, before joining or from a plain client."""

    nickname: str
    role: str

    def sees_text_of(self, nickname: str | None) -> bool:
        """One's own prompts and tokens; the instructor everybody's; all guests share a name."""
        return self.role == INSTRUCTOR or (self.role == STUDENT and nickname == self.nickname)


class Classroom:
    """See the module's docstring. student_limit: requests that one student may have in flight.

    instructor_keys: keys that count as the instructor's; none: one is made.
    clock(): seconds, for the limit on wrong keys.
    """

    def __init__(
        self,
        student_limit: int = STUDENT_LIMIT,
        *,
        instructor_keys: tuple[str, ...] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.student_limit = check_limit(student_limit)
        self.code = new_code()
        self.instructor_key = instructor_keys[0] if instructor_keys else secrets.token_urlsafe(18)
        self._instructors = [_digest(key) for key in instructor_keys or (self.instructor_key,)]
        self._members: dict[bytes, Member] = {}  # by the digest of their keys
        self._taken = {INSTRUCTOR, GUEST}
        self._tries: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address → left, at
        self._clock = clock
        self._lock = threading.Lock()

    @property
    def num_students(self) -> int:
        return len(self._members)

    def join(self, wanted: object) -> tuple[Member, str]:
        """A new student and their key. A name that is taken gets a number: Ada, Ada 2.

        Raises ValueError for a nickname that can't be, or when the class is full.
        """
        name = check_nickname(wanted)
        with self._lock:
            if len(self._members) >= MAX_STUDENTS:
                raise ValueError(f"The class is full: {MAX_STUDENTS} have joined.")
            free, number = name, 1
            while _same(free) in self._taken:
                number += 1
                ending = f" {number}"
                free = name[: MAX_NICKNAME - len(ending)] + ending
            self._taken.add(_same(free))
            member, key = Member(free, STUDENT), secrets.token_urlsafe(18)
            self._members[_digest(key)] = member
        return member, key

    def who(self, key: str) -> Member | None:
        """Whose key that is. Keys are compared as digests: the time it takes tells nothing."""
        given = _digest(key)
        matches = [hmac.compare_digest(given, known) for known in self._instructors]  # each one
        if any(matches):
            return Member(INSTRUCTOR, INSTRUCTOR)
        member = self._members.get(given)
        if member is None and hmac.compare_digest(_digest(read_code(key)), _digest(self._plain)):
            return Member(GUEST, GUEST)
        return member

    def note_wrong(self, address: str) -> None:
        """That address has sent a key that is nobody's."""
        with self._lock:
            left = self._left(address)
            self._tries[address] = (max(left - 1.0, 0.0), self._clock())
            self._tries.move_to_end(address)
            while len(self._tries) > MAX_ADDRESSES:
                self._tries.popitem(last=False)

    def is_locked(self, address: str) -> bool:
        """Whether that address has used up its tries: then even the right code is refused."""
        with self._lock:
            return self._left(address) < 1.0

    def _left(self, address: str) -> float:
        left, at = self._tries.get(address, (float(TRIES), 0.0))
        return min(left + (self._clock() - at) / RETRY_S, float(TRIES))

    @property
    def _plain(self) -> str:
        return read_code(self.code)


def new_code() -> str:
    """A join code such as K7QM-3XVD."""
    letters = "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))
    return f"{letters[:4]}-{letters[4:]}"


def read_code(text: str) -> str:
    """A code as somebody typed it: case, dashes and spaces don't matter, O is 0, I and L are 1."""
    return text[:64].upper().translate(READ_ALIKE)


def check_nickname(wanted: object) -> str:
    """The nickname in its usual form. Raises ValueError, in one sentence, for what can't be one."""
    if not isinstance(wanted, str):
        raise ValueError(f"A nickname must be a text, got {type(wanted).__name__}.")
    name = " ".join(unicodedata.normalize("NFC", wanted[:1000]).split())
    if not MIN_NICKNAME <= len(name) <= MAX_NICKNAME:
        raise ValueError(
            f"A nickname has {MIN_NICKNAME} to {MAX_NICKNAME} characters, got {len(name)}."
        )
    wrong = next((c for c in name if not (_is_letter(c) or c in NICKNAME_MARKS)), None)
    if wrong is not None:
        raise ValueError(
            f"A nickname has letters, digits, spaces and - _ . ' only, got {wrong!r} in it."
        )
    if not any(c.isalnum() for c in name):
        raise ValueError(f"A nickname needs a letter or a digit, got {name!r}.")
    if _same(name) in (INSTRUCTOR, GUEST):
        raise ValueError(f"The nickname {name!r} is the server's own: choose another.")
    return name


def check_limit(value: object) -> int:
    """The requests one student may have in flight. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000:
        raise ValueError(f"The limit per student must be an integer from 1 to 1000, got {value!r}.")
    return value


def _is_letter(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character) in ("Mn", "Mc")


def _same(name: str) -> str:
    """What two names that look the same have in common."""
    return unicodedata.normalize("NFKC", name).casefold()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
