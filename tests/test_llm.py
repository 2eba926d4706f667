"""LLM: generate, stream and chat (fault cases C21, C22, C26–C30)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minillm import LLM, SamplingParams
from minillm.core import FinishReason


def free_blocks(llm: LLM) -> bool:
    """Whether nothing is left of earlier calls."""
    engine = llm._own_engine()
    engine.kv.check_integrity()
    return not engine.requests and engine.kv.num_used_blocks == 0


# ── simulated ───────────────────────────────────────────────────────────────────────────────


def test_simulated_needs_neither_torch_nor_a_tokenizer_library():
    code = (
        "import sys; from minillm import LLM, SamplingParams\n"
        "done = LLM.simulated().generate(['one', 'two three'], SamplingParams(max_tokens=3))\n"
        "assert [len(c.token_ids) for c in done] == [3, 3], done\n"
        "heavy = {'torch', 'numpy', 'tokenizers', 'jinja2', 'transformers'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("policy", ["static", "dynamic", "continuous"])
def test_every_policy_finishes_what_it_was_given(policy: str):
    llm = LLM.simulated(policy=policy, max_num_seqs=4)
    params = [SamplingParams(max_tokens=n, ignore_eos=True) for n in range(1, 12)]
    done = llm.generate([f"prompt {n}" for n in range(11)], params)
    assert [len(c.token_ids) for c in done] == list(range(1, 12))
    assert {c.finish_reason for c in done} == {FinishReason.LENGTH}
    assert free_blocks(llm)


def test_ids_chats_and_texts_are_prompts():
    llm = LLM.simulated()
    params = SamplingParams(max_tokens=1)
    assert llm.generate([5, 6, 7], params)[0].prompt_token_ids == (5, 6, 7)
    assert len(llm.generate([[5], [6, 7]], params)) == 2
    chat = [{"role": "user", "content": "Hello"}]
    as_chat = llm.generate("Hello", params, chat=True)[0].prompt_token_ids
    assert llm.chat(chat, params).prompt_token_ids == as_chat
    assert llm.generate("Hello", params)[0].prompt_token_ids != as_chat


@pytest.mark.parametrize("bad", ["", [], [""], [[]], ["good", ""], [[1], []]])
def test_an_empty_prompt_is_refused_and_the_next_one_served(bad: object):
    llm = LLM.simulated()
    with pytest.raises(ValueError, match=r"empty|no prompt"):
        llm.generate(bad)
    assert free_blocks(llm)
    assert llm.generate("good", SamplingParams(max_tokens=2))[0].finish_reason == "length"


def test_a_prompt_that_can_never_fit_names_the_numbers():
    llm = LLM.simulated(num_blocks=10, block_size=4, max_model_len=64)
    done = llm.generate([[1] * 39], SamplingParams(max_tokens=5))
    assert (len(done[0].token_ids), done[0].finish_reason) == (1, "length")
    with pytest.raises(ValueError, match=r"40 tokens.*10 blocks × 4 = 40"):
        llm.generate([[1] * 4, [1] * 40])
    assert free_blocks(llm)


@pytest.mark.parametrize("number", [1, 2, 5])
def test_exactly_max_tokens_streamed_or_not(number: int):
    llm = LLM.simulated()
    params = SamplingParams(max_tokens=number, ignore_eos=True)
    whole = llm.generate([7, 8, 9], params)[0]
    assert len(whole.token_ids) == number
    stream = llm.stream([7, 8, 9], params)
    assert len(list(stream)) == number
    assert stream.completion.finish_reason == "length"


def test_streams_share_batches():
    llm = LLM.simulated()
    params = SamplingParams(max_tokens=10, ignore_eos=True)
    first, second = llm.stream("first", params), llm.stream("second", params)
    assert "".join(first) == first.completion.text
    assert second.finished, "it ran along"
    assert max(len(step.rows) for step in llm.trace.steps) == 2
    assert len(second.completion.token_ids) == 10


@pytest.mark.parametrize("how", ["close", "with", "drop"])
def test_ending_a_stream_early_frees_its_blocks(how: str):
    llm = LLM.simulated()
    other = llm.stream("other", SamplingParams(max_tokens=30))
    stream = llm.stream("a prompt of some length", SamplingParams(max_tokens=50))
    next(stream)
    if how == "close":
        stream.close()
        stream.close()
    elif how == "with":
        with stream:
            next(stream)
    assert how == "drop" or stream.completion.finish_reason == "abort"
    del stream
    list(other)
    assert len(other.completion.token_ids) == 30
    assert free_blocks(llm)


def test_an_interrupt_leaves_nothing(monkeypatch: pytest.MonkeyPatch):
    llm = LLM.simulated()
    execute, calls = llm.runner.execute, []

    def interrupted(output):
        calls.append(output)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return execute(output)

    monkeypatch.setattr(llm.runner, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        llm.generate(["one", "two"], SamplingParams(max_tokens=20))
    assert free_blocks(llm)
    assert len(llm.generate("again", SamplingParams(max_tokens=2))[0].token_ids) == 2


# ── a real, tiny model ──────────────────────────────────────────────────────────────────────


def greedy(number: int, **settings) -> SamplingParams:
    return SamplingParams(max_tokens=number, ignore_eos=True, **settings)


def test_stream_is_generate_in_pieces(tiny: LLM):
    whole = tiny.generate("The sky is", greedy(30))[0]
    stream = tiny.stream("The sky is", greedy(30))
    assert "".join(stream) == whole.text == stream.completion.text
    assert stream.completion.token_ids == whole.token_ids
    assert len(whole.token_ids) == 30
    assert free_blocks(tiny)


def test_text_has_no_special_tokens_but_ids_do(tiny: LLM):
    eos = next(iter(tiny.config.eos_token_ids))
    detokenizer = tiny.detokenizer()
    assert detokenizer.push(eos) + detokenizer.finish() == ""


def test_a_stop_string_ends_the_request_in_the_engine(tiny: LLM):
    whole = tiny.generate("Tell me", greedy(40))[0].text
    stop = whole[10:13]
    at = whole.index(stop)
    done = tiny.generate("Tell me", greedy(40, stop=stop))[0]
    assert (done.text, done.finish_reason) == (whole[:at], FinishReason.STOP)
    assert len(done.token_ids) < 40
    assert "".join(tiny.stream("Tell me", greedy(40, stop=stop))) == whole[:at]
    assert free_blocks(tiny)


def test_text_held_back_for_a_stop_string_is_flushed_at_the_end(tiny: LLM):
    whole = tiny.generate("Tell me", greedy(20))[0].text
    done = tiny.generate("Tell me", greedy(20, stop=whole[-2:] + "never comes"))[0]
    assert (done.text, done.finish_reason) == (whole, FinishReason.LENGTH)


def test_no_stop_string_before_min_tokens(tiny: LLM):
    whole = tiny.generate("Tell me", greedy(20))[0]
    stop = whole.text[0]
    assert tiny.generate("Tell me", greedy(20, stop=stop))[0].text == ""
    held = tiny.generate("Tell me", greedy(20, stop=stop, min_tokens=8))[0]
    assert len(held.token_ids) >= 8


def test_logprobs_one_for_each_token(tiny: LLM):
    done = tiny.generate("Tell me", greedy(5, logprobs=3))[0]
    assert [max(step, key=step.get) for step in done.logprobs] == list(done.token_ids)
    assert all(len(step) == 3 for step in done.logprobs)


# ── the default model against the reference ─────────────────────────────────────────────────

QUESTION = "Why is the sky blue?"


def test_text_equals_transformers_in_float32(default_model_path: Path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(default_model_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        default_model_path, dtype=torch.float32
    )
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}], add_generation_prompt=True, tokenize=False
    )
    texts = []
    for prompt in (chat, QUESTION, "The sky is blue because"):
        inputs = tokenizer(prompt, return_tensors="pt")
        ids = model.generate(**inputs, do_sample=False, max_new_tokens=24)[0]
        new = ids[inputs["input_ids"].shape[1] :]
        texts.append(tokenizer.decode(new, skip_special_tokens=True))
    with LLM(str(default_model_path), dtype="float32", device="cpu") as llm:
        params = SamplingParams(max_tokens=24)
        ours = [
            llm.generate(QUESTION, params, chat=True)[0].text,
            llm.generate(QUESTION, params)[0].text,
            llm.generate("The sky is blue because", params)[0].text,
        ]
    assert ours == texts
    assert len(texts[0]) > 40
