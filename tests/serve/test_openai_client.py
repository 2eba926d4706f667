"""The official client against the server: completions, chats, streams, usage, errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from minillm.core import SamplingParams
from minillm.llm import LLM
from minillm.serve import ServerSettings
from tests.serve.conftest import Served, serving

MESSAGES = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hé 😀?"}]


@pytest.fixture(scope="module")
def client(tiny: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{tiny.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def reference(tiny_folder: Path) -> Iterator[LLM]:
    """The same weights, offline."""
    settings = {"device": "cpu", "dtype": "float32", "threads": 1, "num_blocks": 64}
    with LLM(str(tiny_folder), **settings) as llm:
        yield llm


def test_the_model_is_listed(client: openai.OpenAI, tiny: Served):
    (model,) = client.models.list().data
    assert model.id == tiny.service.model_name
    assert model.max_model_len == 512
    assert client.models.retrieve(model.id) == model


@pytest.mark.parametrize("prompt", ["The sky is", [84, 101, 32], "naïve 😀"])
def test_a_completion_is_what_the_model_says_offline(client, reference, prompt):
    done = client.completions.create(model="tiny", prompt=prompt, max_tokens=20, temperature=0)
    (expected,) = reference.generate(prompt, SamplingParams(max_tokens=20))
    (choice,) = done.choices
    assert choice.text == expected.text
    assert choice.finish_reason == str(expected.finish_reason)
    assert done.usage.prompt_tokens == len(expected.prompt_token_ids)
    assert done.usage.completion_tokens == len(expected.token_ids)
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
    assert (done.object, done.model) == ("text_completion", "tiny")


@pytest.mark.parametrize("prompts", [["one", "zwei", "trois"], [[70, 71], [72, 73, 74]]])
def test_several_prompts_give_as_many_choices_in_order(client, reference, prompts):
    done = client.completions.create(model="tiny", prompt=prompts, max_tokens=9, temperature=0)
    expected = reference.generate(prompts, SamplingParams(max_tokens=9))
    assert [choice.index for choice in done.choices] == list(range(len(prompts)))
    assert [choice.text for choice in done.choices] == [one.text for one in expected]
    assert done.usage.completion_tokens == sum(len(one.token_ids) for one in expected)


def test_a_stream_of_several_prompts_is_the_same_text(client, reference):
    prompts = ["one", "zwei", "trois"]
    texts = ["", "", ""]
    reasons = [None, None, None]
    for chunk in client.completions.create(
        model="tiny", prompt=prompts, max_tokens=9, temperature=0, stream=True
    ):
        (choice,) = chunk.choices
        texts[choice.index] += choice.text
        reasons[choice.index] = choice.finish_reason
    expected = reference.generate(prompts, SamplingParams(max_tokens=9))
    assert texts == [one.text for one in expected]
    assert reasons == [str(one.finish_reason) for one in expected]


def test_a_chat_is_what_the_model_says_offline(client, reference):
    done = client.chat.completions.create(
        model="tiny", messages=MESSAGES, max_tokens=24, temperature=0
    )
    expected = reference.chat(MESSAGES, SamplingParams(max_tokens=24))
    (choice,) = done.choices
    assert (choice.message.role, choice.message.content) == ("assistant", expected.text)
    assert done.usage.prompt_tokens == len(expected.prompt_token_ids)
    assert done.object == "chat.completion"


def test_a_streamed_chat_begins_with_the_role_and_ends_with_a_reason(client, reference):
    chunks = list(
        client.chat.completions.create(
            model="tiny", messages=MESSAGES, max_completion_tokens=24, temperature=0, stream=True
        )
    )
    expected = reference.chat(MESSAGES, SamplingParams(max_tokens=24))
    first, *rest = [chunk.choices[0] for chunk in chunks]
    assert (first.delta.role, first.delta.content) == ("assistant", "")
    assert [choice.delta.role for choice in rest] == [None] * len(rest)
    assert "".join(choice.delta.content for choice in rest) == expected.text
    assert len(rest) == len(expected.token_ids)  # a frame a token, empty or not
    assert [choice.finish_reason for choice in rest[:-1]] == [None] * (len(rest) - 1)
    assert rest[-1].finish_reason == str(expected.finish_reason)
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks)


def test_usage_comes_in_one_more_chunk_where_it_is_asked_for(client, reference):
    chunks = list(
        client.chat.completions.create(
            model="tiny", messages=MESSAGES, max_tokens=5, stream=True,
            stream_options={"include_usage": True}, extra_body={"ignore_eos": True},
        )
    )  # fmt: skip
    *others, last = chunks
    assert last.choices == []
    assert last.usage.completion_tokens == 5
    assert last.usage.prompt_tokens == len(reference.encode(MESSAGES))
    assert all(chunk.usage is None and chunk.choices for chunk in others)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_max_tokens_is_exact(client, stream, count):
    answer = client.completions.create(
        model="tiny", prompt="x", max_tokens=count, stream=stream, extra_body={"ignore_eos": True}
    )
    if stream:
        chunks = list(answer)
        assert len(chunks) == count
        assert chunks[-1].choices[0].finish_reason == "length"
    else:
        assert answer.usage.completion_tokens == count
        assert answer.choices[0].finish_reason == "length"


def test_a_stop_string_cuts_whole_and_streamed_text_alike(client, reference):
    ask = {"model": "tiny", "prompt": "The sky is", "max_tokens": 40, "temperature": 0}
    (free,) = reference.generate("The sky is", SamplingParams(max_tokens=40))
    text = free.text.replace("�", " ")
    at = next(i for i in range(8, 30) if " " not in text[i : i + 3] and len(text[i : i + 3]) == 3)
    stop = free.text[at : at + 3]
    whole = client.completions.create(**ask, stop=stop).choices[0]
    streamed = list(client.completions.create(**ask, stop=[stop], stream=True))
    assert whole.text == free.text[: free.text.index(stop)]
    assert whole.finish_reason == "stop"
    assert "".join(chunk.choices[0].text for chunk in streamed) == whole.text
    assert streamed[-1].choices[0].finish_reason == "stop"


def test_a_seed_gives_the_same_draws(client):
    ask = {"model": "tiny", "prompt": "x", "max_tokens": 16, "temperature": 1.5}
    texts = [client.completions.create(**ask, seed=seed).choices[0].text for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


def test_logprobs_of_chats_and_completions(client):
    chat = client.chat.completions.create(
        model="tiny", messages=MESSAGES, max_tokens=3, temperature=0, logprobs=True, top_logprobs=2
    )
    tokens = chat.choices[0].logprobs.content
    assert len(tokens) == chat.usage.completion_tokens
    assert all(len(token.top_logprobs) == 2 for token in tokens)
    assert all(token.logprob == token.top_logprobs[0].logprob <= 0 for token in tokens)  # greedy
    done = client.completions.create(
        model="tiny", prompt="x", max_tokens=3, temperature=0, logprobs=2
    )
    logprobs = done.choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == 3
    lengths = [len(token) for token in logprobs.tokens]
    assert logprobs.text_offset == [0, lengths[0], lengths[0] + lengths[1]]
    stream = client.completions.create(
        model="tiny", prompt="x", max_tokens=3, temperature=0, logprobs=2, stream=True
    )
    frames = [chunk.choices[0].logprobs for chunk in stream]
    assert [offset for each in frames for offset in each.text_offset] == logprobs.text_offset


def test_errors_are_the_clients_own_exceptions(client):
    with pytest.raises(openai.BadRequestError, match="is empty") as empty:
        client.completions.create(model="tiny", prompt="")
    assert (empty.value.param, empty.value.type) == ("prompt", "invalid_request_error")
    with pytest.raises(openai.NotFoundError, match="'tiny' is") as unknown:
        client.completions.create(model="gpt-4", prompt="x")
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="temperature must be a number"):
        client.completions.create(model="tiny", prompt="x", temperature=2.1)
    with pytest.raises(openai.BadRequestError, match="512 tokens in all"):
        client.completions.create(model="tiny", prompt="x" * 600)


def test_a_wrong_key_is_refused(tiny_llm: LLM):
    settings = ServerSettings(api_keys=("first", "second"))
    with serving(tiny_llm, settings) as served:
        for key in ("first", "second"):
            with openai.OpenAI(base_url=f"{served.url}/v1", api_key=key) as client:
                assert client.models.list().data
        for key in ("third", "firs", "first2", "first second"):
            with openai.OpenAI(base_url=f"{served.url}/v1", api_key=key) as client:
                with pytest.raises(openai.AuthenticationError):
                    client.models.list()
        for path in ("/v1/models", "/metrics", "/trace", "/v1/nothing"):
            answer = served.client.get(path, headers={"Authorization": ""})
            assert answer.status_code == 401, path
        assert served.client.get("/health", headers={"Authorization": ""}).status_code == 200


def test_the_real_model(default_model_path: Path):
    settings = {"device": "cpu", "threads": 1, "num_blocks": 64}
    with LLM(str(default_model_path), **settings) as llm, serving(llm) as served:
        with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none") as client:
            name = client.models.list().data[0].id
            stream = client.chat.completions.create(
                model=name, max_tokens=12, temperature=0, stream=True,
                messages=[{"role": "user", "content": "What is the capital of France?"}],
            )  # fmt: skip
            text = "".join(chunk.choices[0].delta.content for chunk in stream)
    assert name == "SmolLM2-135M-Instruct"
    assert "Paris" in text
