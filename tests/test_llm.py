"""LLM: generate, stream, chat and engines on one runner (fault cases C21, C22, C26–C30)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minillm import LLM, SamplingParams, Scheduler
from minillm.core import FinishReason, LLMEngine, drive
from minillm.core.driver import Arrival
from tests.tiny_chat_model import MAX_MODEL_LEN, save_tiny_chat_model


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_chat_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def tiny(tiny_folder: Path):
    with LLM(
        str(tiny_folder), dtype="float32", device="cpu", num_blocks=128, threads=1, poison=True
    ) as llm:
        yield llm


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


def test_new_engine_takes_settings_and_refuses_what_cannot_be():
    llm = LLM.simulated(num_blocks=64)
    engine = llm.new_engine("static", max_num_seqs=3, num_blocks=32, enable_prefix_caching=False)
    assert engine.trace.header.policy == "static"
    assert engine.config.scheduler.max_num_seqs == 3
    assert engine.config.cache.num_blocks == 32
    assert not engine.config.cache.enable_prefix_caching
    unchunked = llm.new_engine(enable_chunked_prefill=False)
    assert unchunked.config.scheduler.max_num_batched_tokens == 8192
    with pytest.raises(ValueError, match=r"65.*64"):
        llm.new_engine(num_blocks=65)
    with pytest.raises(ValueError, match="Unknown policy 'eager'"):
        llm.new_engine("eager")
    with pytest.raises(ValueError, match=r"\(2\).*\(8\)"):
        llm.new_engine(max_num_batched_tokens=2)


class OneAtATime(Scheduler):
    """The example of the Scheduler contract."""

    def schedule(self, now):
        rows = [self.continue_(request, request.num_remaining) for request in self.running]
        if not rows and self.waiting:
            rows = [self.admit(self.waiting[0], self.waiting[0].num_tokens)]
        return self.output(rows)


def test_a_scheduler_of_ones_own_drives_it():
    done = LLM.simulated(policy=OneAtATime).generate(["a", "b"], SamplingParams(max_tokens=4))
    assert [len(c.token_ids) for c in done] == [4, 4]
    engine = LLM.simulated().new_engine(OneAtATime)
    assert isinstance(engine.scheduler, OneAtATime)


class Breaks(Scheduler):
    def schedule(self, now):
        return self.output([])


def test_a_broken_scheduler_is_an_error_in_the_completion():
    done = LLM.simulated(policy=Breaks).generate("a")[0]
    assert done.finish_reason == "error"
    assert "progress" in done.error


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


def outputs(engine: LLMEngine, prompts: list[str], llm: LLM, number: int = 12) -> list[tuple]:
    arrivals = [
        Arrival(str(i), tuple(llm.encode(prompt)), greedy(number))
        for i, prompt in enumerate(prompts)
    ]
    tokens: dict[str, list[int]] = {a.request_id: [] for a in arrivals}
    for step in drive(engine, arrivals, sleep=lambda s: None):
        for output in step:
            assert output.error is None, output.error
            tokens[output.request_id] += output.new_token_ids
    return [tuple(t) for t in tokens.values()]


PROMPTS = ["A beginning that both of them share, one", "A beginning that both of them share, two"]


def test_engines_in_turn_never_read_each_others_kv(tiny: LLM):
    alone = [tiny.generate(p, greedy(12))[0].token_ids for p in PROMPTS]
    first, second = tiny.new_engine(), tiny.new_engine("static")
    for engine in (first, second, first, second, first):
        assert outputs(engine, PROMPTS, tiny) == alone
        assert outputs(engine, PROMPTS[::-1], tiny) == alone[::-1]
    assert [tiny.generate(p, greedy(12))[0].token_ids for p in PROMPTS] == alone


def test_prefix_cache_lives_on_between_calls(tiny: LLM):
    tiny.generate(PROMPTS[0], greedy(2))
    tiny.generate(PROMPTS[1], greedy(2))
    admitted = [e for e in tiny.trace.events if e.event == "admit"]
    assert admitted[-1].data["tokens_cached"] == 32


def test_a_newer_engine_retires_one_that_is_busy(tiny: LLM):
    alone = outputs(tiny.new_engine(), PROMPTS, tiny)
    old = tiny.new_engine()
    old.add_request("old", tiny.encode("hello"), greedy(50))
    old.step()
    new = tiny.new_engine()
    assert outputs(new, PROMPTS, tiny) == alone
    ended = old.step()
    assert [o.finish_reason for o in ended] == ["error"]
    assert "make a new engine" in ended[0].error
    assert old.kv.num_used_blocks == 0
    old.add_request("more", tiny.encode("hello"), greedy(5))
    assert [o.finish_reason for o in old.step()] == ["error"]
    assert outputs(new, PROMPTS, tiny) == alone


def test_an_older_engine_waits_for_a_newer_one_that_is_busy(tiny: LLM):
    old, new = tiny.new_engine(), tiny.new_engine()
    new.add_request("new", tiny.encode("hello"), greedy(50))
    new.step()
    old.add_request("old", tiny.encode("hello"), greedy(5))
    assert "1 unfinished requests" in old.step()[0].error
    new.abort("new")
    assert len(outputs(old, PROMPTS, tiny)) == 2


def test_a_dropped_engine_blocks_nobody(tiny: LLM):
    engine = tiny.new_engine()
    engine.add_request("left", tiny.encode("hello"), greedy(50))
    engine.step()
    older = tiny._own_engine()
    del engine
    assert len(tiny.generate("hello", greedy(3))[0].token_ids) == 3
    assert older.kv.num_used_blocks == 0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_num_batched_tokens": 4}, r"max_num_batched_tokens \(4\).*max_num_seqs \(8\)"),
        ({"max_model_len": MAX_MODEL_LEN + 1}, "512"),
        ({"policy": "eager"}, "Unknown policy 'eager': choose one of static, dynamic, continuous"),
        ({"device": "tpu"}, "Unknown device 'tpu'"),
        ({"dtype": "int3"}, "Unknown dtype 'int3'"),
        ({"model": "no/such/model.gguf"}, "There is no model 'no/such/model.gguf'"),
        ({"threads": 0}, "threads"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(
    tiny_folder: Path, settings: dict, sentence: str
):
    with pytest.raises(ValueError, match=sentence) as caught:
        LLM(**{"model": str(tiny_folder), "device": "cpu", **settings})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickled_weights_are_never_opened(tiny_folder: Path, tmp_path: Path, name: str):
    (tmp_path / "config.json").write_bytes((tiny_folder / "config.json").read_bytes())
    (tmp_path / name).write_bytes(b"\x80\x04 not opened")
    for model in (tmp_path, tmp_path / name):
        with pytest.raises(ValueError, match="pickle"):
            LLM(str(model), device="cpu")


def test_chunking_off_takes_prompts_whole(tiny_folder: Path):
    with LLM(
        str(tiny_folder), device="cpu", dtype="float32", num_blocks=64, threads=1,
        enable_chunked_prefill=False,
    ) as llm:  # fmt: skip
        assert llm.config.scheduler.max_num_batched_tokens == 512
        assert len(llm.generate([[1] * 500], greedy(2))[0].token_ids) == 2


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
