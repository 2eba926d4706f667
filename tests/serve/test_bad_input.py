"""Bad input: one sentence with true numbers, never a 5xx, and the engine goes on (C28–C30)."""

from __future__ import annotations

import json
import random

import httpx
import pytest

from minillm.llm import LLM
from minillm.sim import CostModel
from tests.serve.conftest import Served, serving

JSON = {"Content-Type": "application/json"}


def message(answer: httpx.Response, status: int = 400) -> str:
    """The sentence of an error whose shape is OpenAI's."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error["message"]


@pytest.fixture(scope="module")
def short():
    """A server whose requests have 16 tokens at most."""
    llm = LLM.simulated(CostModel(1e-3, 0.0, 0.0), num_blocks=64, max_model_len=16)
    with serving(llm) as served:
        yield served


@pytest.mark.parametrize(
    ("prompt_len", "max_tokens", "expected"),
    [
        (16, 1, ("16", "1 more")),
        (16, None, ("16", "1 more")),
        (15, 2, ("15", "2", "17", "16")),
        (3, 10**9, ("1000000000", "1000000003")),
        (3, 0, ("max_tokens", "got 0")),
        (3, -1, ("max_tokens", "got -1")),
        (3, "5", ("max_tokens", "'5'")),
        (3, 2.5, ("max_tokens", "2.5")),
        (3, True, ("max_tokens", "True")),
    ],
)
def test_lengths_that_do_not_fit_are_refused_with_the_numbers(
    short: Served, prompt_len, max_tokens, expected
):
    said = message(short.complete(prompt=[7] * prompt_len, max_tokens=max_tokens))
    assert all(part in said for part in expected), said


def test_what_just_fits_is_served(short: Served):
    for max_tokens in (1, None):
        done = short.complete(prompt=[7] * 15, max_tokens=max_tokens).json()
        assert done["usage"]["completion_tokens"] == 1
        assert done["choices"][0]["finish_reason"] == "length"


def test_the_blocks_limit_a_request_too():
    llm = LLM.simulated(CostModel(1e-3, 0.0, 0.0), num_blocks=2, max_model_len=64)
    with serving(llm) as served:
        said = message(served.complete(prompt=[7] * 40))
        assert "2 blocks × 16 = 32" in said
        assert served.complete(prompt=[7] * 31).status_code == 200


@pytest.mark.parametrize("prompt", ["", [], [""], [[]], None, ["a", ""], [["a"]], 7, [1.5], [-1],
                                    [32_000], [True], {"a": 1}, ["a", [1]]])  # fmt: skip
def test_empty_and_wrong_prompts_are_refused_and_the_next_is_served(simulated: Served, prompt):
    message(simulated.complete(prompt=prompt))
    assert simulated.complete(max_tokens=1).status_code == 200


@pytest.mark.parametrize("messages", [[], None, "hi", [7], [{"role": "user"}], [{"content": "a"}],
    [{"role": "user", "content": 5}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]])  # fmt: skip
def test_wrong_conversations_are_refused(simulated: Served, messages):
    message(simulated.client.post("/v1/chat/completions", json={"messages": messages}))


def test_a_message_in_text_parts_is_a_message(simulated: Served):
    def count(content) -> int:
        body = {"messages": [{"role": "user", "content": content}], "max_tokens": 1}
        return simulated.client.post("/v1/chat/completions", json=body).json()["usage"][
            "prompt_tokens"
        ]

    parts = [{"type": "text", "text": "one two "}, {"type": "text", "text": "three"}]
    assert count(parts) == count("one two three")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1), ("temperature", 2.1), ("temperature", "hot"), ("top_p", 0),
        ("top_p", 1.1), ("top_k", -2), ("top_k", 1.5), ("min_p", 2), ("logprobs", 10**9),
        ("seed", -1), ("stop", [""]), ("stop", 5), ("stop_token_ids", [-4]), ("min_tokens", 99),
        ("n", 2), ("best_of", 3), ("echo", True), ("suffix", "x"), ("presence_penalty", 0.5),
        ("logit_bias", {"5": 1}), ("deadline_s", 0), ("deadline_s", -3), ("model", 5),
        ("stream_options", {"include_usage": True}), ("repetition_penalty", 0),
    ],
)  # fmt: skip
def test_values_out_of_range_are_refused_by_name(simulated: Served, field, value):
    answer = simulated.complete(max_tokens=2, **{field: value})
    said = message(answer)
    assert field in said or field == "model", said
    assert answer.json()["error"]["param"] == field


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["temperature", "top_p", "deadline_s", "presence_penalty"])
def test_numbers_that_are_none_are_refused(simulated: Served, field, value):
    body = f'{{"prompt": "a", "max_tokens": 1, "{field}": {value}}}'
    message(simulated.client.post("/v1/completions", content=body, headers=JSON))


def test_values_at_the_edge_are_served(simulated: Served):
    for field, value in [("temperature", 1e-6), ("top_p", 1e-4), ("top_k", -1), ("top_k", 10**6)]:
        assert simulated.complete(max_tokens=1, **{field: value}).status_code == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"7", b'"a"', b"\xff\xfe",
    b'{"prompt": "\\ud800"}', b"[" * 5000, b'{"max_tokens": 5}', b'{"prompt": {}}'])  # fmt: skip
def test_bodies_that_are_no_request_are_refused(simulated: Served, body):
    message(simulated.client.post("/v1/completions", content=body, headers=JSON))


def test_a_body_of_one_mebibyte_is_read_and_one_byte_more_is_not(simulated: Served):
    limit = 1 << 20
    head, tail = b'{"max_tokens": 1, "user": "', b'", "prompt": "a"}'
    whole = head + b"x" * (limit - len(head) - len(tail)) + tail
    assert len(whole) == limit
    post = simulated.client.post
    assert post("/v1/completions", content=whole, headers=JSON).status_code == 200
    assert str(limit) in message(post("/v1/completions", content=whole + b" ", headers=JSON), 413)
    pieces = iter([b"x" * 65536] * 17)  # no Content-Length: counted as it comes
    message(post("/v1/completions", content=pieces, headers=JSON), 413)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_another_type_than_json_is_refused(simulated: Served, kind):
    answer = simulated.client.post("/v1/completions", content=b"{}", headers={"Content-Type": kind})
    assert "application/json" in message(answer, 415)


def test_paths_and_methods_that_are_not_there(simulated: Served):
    message(simulated.client.get("/v1/nothing"), 404)
    message(simulated.client.get("/v1/models/gpt-4"), 404)
    message(simulated.client.get("/v1/completions"), 405)


def test_no_page_elsewhere_may_read_an_answer(simulated: Served):
    headers = {"Origin": "http://example.org"}
    answers = [
        simulated.client.get("/v1/models", headers=headers),
        simulated.client.options("/v1/completions", headers=headers),
    ]
    assert not any("access-control-allow-origin" in answer.headers for answer in answers)


def test_five_hundred_random_bodies_break_nothing():
    rng = random.Random(5)
    llm = LLM.simulated(CostModel(1e-4, 0.0, 0.0), num_blocks=64, max_model_len=40)
    with serving(llm) as served:
        statuses = set()
        for _ in range(500):
            path = rng.choice(["/v1/completions", "/v1/chat/completions"])
            answer = served.client.post(path, content=_random_body(rng), headers=JSON)
            assert answer.status_code < 500, answer.text
            statuses.add(answer.status_code)
        assert {200, 400} <= statuses
        assert served.client.get("/health").status_code == 200
        assert served.complete(max_tokens=2).json()["usage"]["completion_tokens"] == 2
        assert served.idle()


def _random_body(rng: random.Random) -> bytes:
    """A request with some fields replaced by odd values, sometimes cut or with a byte changed."""
    body = {"prompt": "abc", "messages": [{"role": "user", "content": "abc"}], "max_tokens": 1}
    names = ["prompt", "messages", "max_tokens", "temperature", "top_p", "top_k", "stop", "seed",
             "stream", "stream_options", "logprobs", "n", "user", "model", "min_tokens",
             "priority", "cache_salt", "stop_token_ids", "ignore_eos"]  # fmt: skip
    for name in rng.sample(names, rng.randint(0, 4)):
        body[name] = _random_value(rng, 0)
    raw = json.dumps(body).encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        raw = raw[: rng.randrange(len(raw))]
    elif rng.random() < 0.2:
        at = rng.randrange(len(raw))
        raw = raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :]
    return raw


def _random_value(rng: random.Random, depth: int):
    simple = [None, True, False, 0, 1, -1, 3, 10**12, 10**30, 0.5, -0.5, 1e308, float("nan"),
              float("inf"), "", "a", "\ud800", "😀", "x" * 3000, "\x00"]  # fmt: skip
    kind = rng.random()
    if kind < 0.7 or depth > 2:
        return rng.choice(simple)
    if kind < 0.9:
        return [_random_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    keys = ["role", "content", "type", "text", "include_usage", "5"]
    return {rng.choice(keys): _random_value(rng, depth + 1) for _ in range(rng.randint(0, 3))}
