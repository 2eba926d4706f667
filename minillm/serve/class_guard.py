"""The door of a class: every key is somebody's, and guessing them is slow.

Notes who it is (`request.state.member`) for the handlers behind it.
"""

from __future__ import annotations

from starlette.types import Scope

from minillm.serve.classroom import GUEST
from minillm.serve.errors import too_many, unauthorized
from minillm.serve.guard import KeyGuard


class ClassGuard(KeyGuard):
    """As KeyGuard, with the keys of a Classroom. Raises ApiError 401, or 429 for a guesser."""

    def check(self, scope: Scope, key: str) -> None:
        classroom = self.service.settings.classroom
        client = scope.get("client")
        address = client[0] if client else ""
        member = classroom.who(key)
        # The join code is short enough to be guessed at, so it is of no use to who has guessed
        # too often; a key of one's own is not.
        if member is None or member.role == GUEST:
            if classroom.is_locked(address):
                raise too_many(
                    "Too many wrong keys came from this address: wait a few seconds.",
                    "too_many_tries", retry_after_s=4,
                )  # fmt: skip
            if member is None:
                classroom.note_wrong(address)
                if not key:
                    raise unauthorized("This class wants its code: Authorization: Bearer CODE.")
                raise unauthorized("That is not this class's join code, nor a key of its own.")
        scope.setdefault("state", {})["member"] = member
