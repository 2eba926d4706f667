"""ModelRunner: memory, devices and dtypes, padding, and what it refuses."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from minillm.core import Request, SamplingParams, ScheduledRow, SchedulerOutput
from minillm.model import devices
from minillm.model.loader import load_weights
from minillm.model.runner import ModelRunner
from tests.model.harness import make_runner, random_prompts
from tests.model.tiny_models import VOCAB

TOKEN_BYTES = 2 * 2 * 2 * 8  # key and value · layers · KV heads · head_dim of the tiny Llama


def row(tokens, start, count, blocks, samples=True, padding=0, dead=False, name="r"):
    request = Request(name, tokens, SamplingParams())
    return ScheduledRow(request, start, count, padding, samples, blocks, dead)


def test_blocks_from_memory(tiny):
    config, weights = load_weights(tiny("llama")[0])

    def blocks(dtype, **options):
        return ModelRunner(config, weights, device="cpu", dtype=dtype, **options).num_blocks

    assert blocks("float32", kv_cache_memory=100 * TOKEN_BYTES * 4 * 16) == 100
    assert blocks("float32", kv_cache_memory=101 * TOKEN_BYTES * 4 * 16 - 1) == 100
    assert blocks("bfloat16", kv_cache_memory=100 * TOKEN_BYTES * 4 * 16) == 200
    assert blocks("float32", kv_cache_memory=100 * TOKEN_BYTES * 4 * 16, block_size=4) == 400
    assert blocks("float32", num_blocks=7) == 7


def test_cache_has_a_null_block_of_its_own(tiny):
    runner = make_runner(tiny("llama")[0], num_blocks=5, block_size=4)
    assert runner.kv_pool.shape == (2, 6 * 4, 2, 2, 8)
    assert runner.kv_pool.isnan().all()
    plain = make_runner(tiny("llama")[0], num_blocks=5, poison=False)
    assert not plain.kv_pool.any()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device": "tpu"}, ["tpu", "cuda"]),
        ({"dtype": "int3"}, ["int3", "bfloat16"]),
        ({"kv_cache_memory": 100}, ["100", "block"]),
        ({"max_model_len": 300}, ["300", "256"]),
        ({"max_model_len": 1}, ["between 2 and 256"]),
        ({"block_size": 0}, ["block_size", "0"]),
        ({"threads": 0}, ["threads", "0"]),
    ],
)
def test_refusals_name_the_numbers(tiny, options, words):
    config, weights = load_weights(tiny("llama")[0])
    with pytest.raises(ValueError) as error:
        ModelRunner(config, weights, **{"device": "cpu", **options})
    assert all(word in str(error.value) for word in words)
    assert "\n" not in str(error.value)


def test_info_says_what_was_measured_on(tiny):
    info = make_runner(tiny("llama")[0], dtype="float32").info
    assert info.provenance == "measured"
    assert info.device.startswith("CPU, ")
    assert info.dtype == "float32"
    assert info.model


def test_auto_dtype_follows_the_cpus_flags(monkeypatch):
    cpu = torch.device("cpu")
    for flags, dtype, word in (
        ({"amx_bf16", "avx512_bf16"}, torch.bfloat16, "AMX"),
        ({"avx512_bf16"}, torch.bfloat16, "AVX512"),
        ({"avx2"}, torch.float32, "slower"),
    ):
        monkeypatch.setattr(devices, "cpu_flags", lambda flags=flags: frozenset(flags))
        assert devices.choose_dtype("auto", cpu) == dtype
        assert word in devices.why_dtype("cpu")
        assert str(dtype).removeprefix("torch.") in devices.why_dtype("cpu")
    assert devices.choose_dtype("bf16", cpu) == torch.bfloat16
    assert devices.choose_dtype(torch.float64, cpu) == torch.float64


def test_padding_is_computed_but_not_kept(tiny):
    """A padded row gives the unpadded row's logits and KV, and padding goes through the model."""
    folder, _ = tiny("llama")
    short, long = random_prompts([3, 9], VOCAB)
    seen = {}

    def run(padding: int):
        runner = make_runner(folder, num_blocks=8)
        forward = runner.model.forward

        def counting(token_ids, *rest):
            seen[padding] = len(token_ids)
            return forward(token_ids, *rest)

        runner.model.forward = counting
        rows = [
            row(short, 0, 3, (6,), padding=padding, name="short"),
            row(long, 0, 9, (1, 5, 2), name="long"),
        ]
        result = runner.execute(SchedulerOutput(0, rows))
        caches = runner.kv_pool.clone()
        return result.token_ids, runner.sampler.logits["short"][0], caches

    tokens, logits, caches = run(0)
    padded_tokens, padded_logits, padded_caches = run(6)
    assert seen == {0: 12, 6: 18}
    assert padded_tokens == tokens
    torch.testing.assert_close(padded_logits, logits, rtol=0, atol=1e-10)
    null = 8 * 4  # from here on is the null block
    own, padded = caches[:, :null], padded_caches[:, :null]
    assert torch.equal(own.isnan(), padded.isnan())
    assert (~own.isnan()).flatten(2).any(2).sum() == 2 * 12  # two layers, twelve tokens
    torch.testing.assert_close(padded, own, rtol=0, atol=1e-10, equal_nan=True)


def test_dead_row_yields_nothing_and_writes_nothing(tiny):
    runner = make_runner(tiny("llama")[0], num_blocks=8)
    dead, live = random_prompts([5, 6], VOCAB)
    prefill = [row(dead, 0, 5, (0, 1), name="dead"), row(live, 0, 6, (2, 3), name="live")]
    runner.execute(SchedulerOutput(0, prefill))
    before = runner.kv_pool.clone()
    decode = [
        row(dead, 5, 0, (0, 1), samples=False, padding=1, dead=True, name="dead"),
        row([*live, 7], 6, 1, (2, 3), name="live"),
    ]
    result = runner.execute(SchedulerOutput(1, decode))
    assert set(result.token_ids) == {"live"}
    after = runner.kv_pool.clone()
    assert torch.equal(after[:, :8].isnan(), before[:, :8].isnan())
    assert torch.equal(after[:, :8].nan_to_num(), before[:, :8].nan_to_num())


def test_step_that_samples_nothing(tiny):
    runner = make_runner(tiny("llama")[0])
    (prompt,) = random_prompts([9], VOCAB)
    result = runner.execute(SchedulerOutput(0, [row(prompt, 0, 4, (0,), samples=False)]))
    assert result.token_ids == {}


def test_close_twice(tiny):
    runner = make_runner(tiny("llama")[0])
    runner.close()
    runner.close()
    assert runner.kv_pool is None
