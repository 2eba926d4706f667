"""LLM: settings, and engines on one runner, one after the other (C64: no pickle is opened)."""

from __future__ import annotations

from pathlib import Path

import pytest

from minillm import LLM, SamplingParams, Scheduler
from minillm.core import Arrival, LLMEngine, drive
from tests.tiny_chat_model import MAX_MODEL_LEN


def greedy(number: int, **settings) -> SamplingParams:
    return SamplingParams(max_tokens=number, ignore_eos=True, **settings)


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


def test_reset_prefix_cache_forgets_all_and_refuses_while_blocks_are_held():
    llm = LLM.simulated(num_blocks=8)
    engine = llm.new_engine()
    engine.add_request("a", list(range(40)), greedy(3))
    engine.step()
    with pytest.raises(ValueError, match="1 requests hold KV blocks"):
        engine.kv.reset_prefix_cache()
    while engine.has_unfinished:
        engine.step()
    assert engine.kv.pool.num_cached == 2
    engine.kv.reset_prefix_cache()
    engine.kv.check_integrity()
    assert (engine.kv.pool.num_cached, engine.kv.num_free_blocks) == (0, 8)
    request = engine.add_request("b", list(range(40)), greedy(1))
    engine.step()
    assert request.num_cached_tokens == 0
