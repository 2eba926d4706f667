"""Streams byte by byte: what a plain reader of server-sent events gets (C50, C52)."""

from __future__ import annotations

import json

import pytest

from tests.serve.conftest import Served

CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "stream": True}
TEXT = {"prompt": "hi", "max_tokens": 3, "stream": True}
PATHS = [("/v1/completions", TEXT), ("/v1/chat/completions", CHAT)]


def frames(served: Served, path: str, body: dict) -> tuple[list[dict], dict]:
    """The objects of a stream, after its frames have been checked; and the headers."""
    answer = served.client.post(path, json=body)
    assert answer.status_code == 200
    assert b"\r" not in answer.content
    assert answer.content.endswith(b"\n\ndata: [DONE]\n\n")
    parts = answer.content.split(b"\n\n")
    assert parts.pop() == b""
    assert all(part.startswith(b"data: ") and b"\n" not in part for part in parts)
    return [json.loads(part[6:]) for part in parts[:-1]], answer.headers


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_frames_and_headers(simulated: Served, path, body):
    objects, headers = frames(simulated, path, body)
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert headers["x-request-id"] == objects[0]["id"]
    assert all("usage" not in one and len(one["choices"]) == 1 for one in objects)
    assert [one["choices"][0]["finish_reason"] for one in objects][-2:] == [None, "length"]


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_usage_frame_only_where_it_is_asked_for(simulated: Served, path, body):
    asked = {**body, "stream_options": {"include_usage": True}}
    *others, last = frames(simulated, path, asked)[0]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 3
    assert all(one["usage"] is None for one in others)
    for options in (None, {}, {"include_usage": False}):
        assert all(
            "usage" not in one
            for one in frames(simulated, path, {**body, "stream_options": options})[0]
        )


def test_the_role_comes_first_and_alone(simulated: Served):
    objects, _ = frames(simulated, "/v1/chat/completions", CHAT)
    deltas = [one["choices"][0]["delta"] for one in objects]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert [list(delta) for delta in deltas[1:]] == [["content"]] * 3


def test_the_clients_own_id_is_kept_so_that_both_sides_can_be_matched(serve):
    served = serve(settings=None)
    answer = served.client.post("/v1/completions", json=TEXT, headers={"X-Request-Id": "mine-7"})
    assert answer.headers["x-request-id"] == "cmpl-mine-7"
    odd = served.client.post("/v1/completions", json=TEXT, headers={"X-Request-Id": "a b\t{"})
    assert "{" not in odd.headers["x-request-id"]


def test_silence_is_filled_with_comments(serve, monkeypatch):
    monkeypatch.setattr("minillm.serve.api.PING_S", 0.05)
    served = serve(step_s=0.4)
    answer = served.client.post("/v1/completions", json={**TEXT, "max_tokens": 2})
    parts = answer.content.split(b"\n\n")
    assert parts[0] == b": ping"
    data = [part for part in parts if part.startswith(b"data: ")]
    assert len(data) == 3
    assert data[-1] == b"data: [DONE]"
