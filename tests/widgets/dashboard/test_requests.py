"""What is known of each request, from the trace alone."""

from __future__ import annotations

from minillm.core.trace import RequestEvent, StepRecord
from widgets.dashboard.requests import REMEMBERED, Requests


def arrive(req: int, t: float = 1.0, **data) -> RequestEvent:
    return RequestEvent(t, req, f"r{req}", "arrive", {"prompt_len": 5, "max_tokens": 9, **data})


def step(number: int, t: float, *rows: tuple, blocks: tuple = ()) -> StepRecord:
    return StepRecord(number, t - 0.01, t, 0, len(rows), 256, list(rows), 2, 0, blocks)


def test_a_request_is_followed_from_arrival_to_its_end():
    requests = Requests()
    requests.take([arrive(0, prompt_preview="Why?"), RequestEvent(1.2, 0, "r0", "admit", {})])
    known = requests.named("r0")
    assert known is requests.get(0)
    assert (known.prompt, known.max_tokens, known.num_tokens) == ("Why?", 9, 0)
    assert known.since_arrival("token") is None
    requests.take([step(0, 1.3, (0, 0, 5, 0, 0, 7), blocks=(("a", 3, 0), ("s", 4, 0)))])
    requests.take([step(1, 1.4, (0, 1, 1, 0, 5, 8), blocks=(("f", 3, 0),))])
    assert list(known.tokens) == [7, 8]
    assert known.blocks == 1
    assert round(known.since_arrival("token"), 6) == 0.3
    assert round(known.since_arrival("admit"), 6) == 0.2
    requests.take([RequestEvent(1.5, 0, "r0", "finish", {"reason": "length"})])
    assert known.ended == "length"


def test_who_comes_late_knows_how_many_tokens_went_before():
    requests = Requests()
    requests.take([arrive(0), step(9, 3.0, (0, 1, 1, 0, 11, 42))])
    known = requests.get(0)
    assert (known.before, known.num_tokens) == (7, 8)
    assert known.since_arrival("token") is None  # it was before one came


def test_a_prompt_in_chunks_gives_its_first_token_with_the_last_chunk():
    requests = Requests()
    first, last = (0, 0, 3, 0, 0, None), (0, 0, 2, 0, 3, 6)
    requests.take([arrive(0), step(0, 1.1, first), step(1, 1.2, last)])
    known = requests.get(0)
    assert (known.before, list(known.tokens)) == (0, [6])


def test_old_requests_are_forgotten_and_what_comes_of_them_is_let_go():
    requests = Requests()
    requests.take(arrive(i) for i in range(REMEMBERED + 10))
    assert requests.get(0) is None
    assert requests.named("r0") is None
    assert requests.named(f"r{REMEMBERED + 9}").req == REMEMBERED + 9
    requests.take([step(0, 5.0, (0, 1, 1, 0, 5, 1)), RequestEvent(6.0, 0, "r0", "finish", {})])
    assert requests.get(0) is None
    assert requests.get(None) is None
