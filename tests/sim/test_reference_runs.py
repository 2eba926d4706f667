"""Reference results that need the real engine: chunked prefill, and what eight GPUs bring."""

import pytest

from minillm.core import CacheConfig, EngineConfig, LLMEngine, SamplingParams, SchedulerConfig
from minillm.sim import SimulatedRunner


def engine(runner: SimulatedRunner, slots: int, budget: int, cache: CacheConfig) -> LLMEngine:
    limits = SchedulerConfig(slots, budget, max_model_len=20_000)
    return LLMEngine(EngineConfig(cache, limits), runner)


def long_prompt(chunk: int) -> tuple[float, float]:
    """(TTFT of an 8k prompt, worst stall of 32 decoding users), ms, on an A100."""
    server = engine(SimulatedRunner.for_gpu("A100-80GB-SXM"), 40, chunk + 32, CacheConfig(28_000))
    for i in range(32):
        server.add_request(f"u{i}", [5 + i] * 512, SamplingParams(max_tokens=500, ignore_eos=True))
    while server.scheduler.waiting or any(
        not r.num_output_tokens for r in server.scheduler.running
    ):
        server.step()
    start = server.clock.now()
    server.add_request("long", list(range(100, 8292)), SamplingParams(max_tokens=2))
    worst, first = 0.0, False
    while not first:
        before = server.clock.now()
        first = any(out.request_id == "long" and out.new_token_ids for out in server.step())
        worst = max(worst, server.clock.now() - before)
    return 1e3 * (server.clock.now() - start), 1e3 * worst


@pytest.mark.parametrize(
    ("chunk", "ttft", "stall"),
    [(8192, 597, 597), (2048, 631, 176), (512, 779, 54), (128, 1485, 25)],
)
def test_chunked_prefill_trades_the_stall_for_the_time_to_first_token(chunk, ttft, stall):
    assert long_prompt(chunk) == pytest.approx((ttft, stall), rel=0.1)


def throughput(model: str, gpu: str, replicas: int, tp: int, pp: int, users: int) -> float:
    """Output tokens/s of 8 GPUs: prompts of 1,024, outputs of 256, two waves of users."""
    runner = SimulatedRunner.for_gpu(gpu, model, tp=tp, pp=pp)
    each = users // replicas
    cache = runner.cache_config(enable_prefix_caching=False)
    server = engine(runner, max(each, 8), max(2048 * pp, each), cache)
    params = SamplingParams(max_tokens=256, ignore_eos=True)
    left = iter(range(2 * each))
    for i, _ in zip(range(each), left, strict=False):
        server.add_request(f"r{i}", [7] * 1024, params)
    tokens = 0
    while server.has_unfinished:
        for out in server.step():
            tokens += len(out.new_token_ids)
            if out.finished and (i := next(left, None)) is not None:
                server.add_request(f"r{i}", [7] * 1024, params)
    return replicas * tokens / server.clock.now()


EIGHT = {  # (replicas, tp, pp): tokens/s at 64 and 256 users, as one prototype saw it
    ("llama-3.1-8b", "A100-80GB-SXM"): {
        (8, 1, 1): (3609, 8891), (4, 2, 1): (4998, 10024), (1, 8, 1): (5659, 7821),
        (1, 1, 8): (3531, 8635),
    },
    ("llama-3.1-70b", "H100-80GB-SXM"): {
        (2, 4, 1): (2080, 3736), (1, 8, 1): (2223, 3121), (1, 1, 8): (946, 2758),
    },
}  # fmt: skip


@pytest.mark.parametrize(("model", "gpu"), list(EIGHT))
def test_eight_gpus_in_the_same_order_and_size(model, gpu):
    expected = {setup: values[0] for setup, values in EIGHT[model, gpu].items()}
    got = {setup: throughput(model, gpu, *setup, 64) for setup in expected}
    assert sorted(got, key=got.get) == sorted(expected, key=expected.get)
    assert got == pytest.approx(expected, rel=0.3)


def test_eight_gpus_at_more_users():
    expected = {
        setup: values[1] for setup, values in EIGHT["llama-3.1-8b", "A100-80GB-SXM"].items()
    }
    got = {s: throughput("llama-3.1-8b", "A100-80GB-SXM", *s, 256) for s in expected}
    assert got == pytest.approx(expected, rel=0.3)
    assert max(got, key=got.get) == (4, 2, 1)
