"""Which common claims about batching hold: each one computed, none written by hand.

`claims()` gives a row per claim. Unless said, figures are *simulated*: Llama-3.1-8B bf16 on one
A100 80 GB under the vLLM V1 preset, context 512. "Published" ones come from measured.csv.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.claims_engine import OUTSIDE, judge, means, static_waste, window
from minillm.sim import GPUCostModel, get_dtype, get_gpu, get_model
from minillm.sim.measured_rows import MeasuredRow
from minillm.sim.pipeline import Load
from minillm.sim.steady_state import closed_loop, open_loop

A100, H100, H200 = "A100-80GB-SXM", "H100-80GB-SXM", "H200-141GB-SXM"


class Claim(NamedTuple):
    number: int
    claim: str
    verdict: str
    computed: str


def _cost(gpu: str = A100, model: str = "llama-3.1-8b", **settings) -> GPUCostModel:
    return GPUCostModel(gpu, model, **settings)


def _step_ms(batch: int, context: int = 512, cost: GPUCostModel | None = None) -> float:
    load = Load(batch, batch * context, (), batch)
    return 1e3 * (cost or _cost()).seconds(load)


def _prefill_ms(tokens: int) -> float:
    return 1e3 * _cost().seconds(Load(0, 0, [(0, tokens)], 1))


def claims(published: Sequence[MeasuredRow]) -> list[Claim]:
    """All seventeen. published: the rows of measured.csv."""
    rows = [
        _one_by_one(), _share_of_gpu(), _same_time(), static_waste(), _ollama(), window(),
        _continuous(), _servers(), _gain(published), _idle(), _sweet_spot(), _bounds(), _chunks(),
        _parallel(), means(), _benchmark(), _speculative(),
    ]  # fmt: skip
    return [Claim(i, *row) for i, row in enumerate(rows, 1)]


def _one_by_one() -> tuple[str, str, str]:
    waits = [0.5 * i for i in range(100)]
    mean = sum(waits) / len(waits)
    return (
        "One request takes 500 ms; of 100 at once the last waits 50 s",
        judge(abs(waits[-1] - 50) < 1, mean > 0.9 * waits[-1]),
        (
            f"the last waits {waits[-1]:.1f} s, the mean is {mean:.2f} s, and only if all arrive "
            "together: what counts is λ·W (Little), 1,000 users are not 1,000 requests at a time"
        ),
    )


def _share_of_gpu() -> tuple[str, str, str]:
    gpu = get_gpu(A100)
    n = 8192

    def share(m: int) -> float:
        seconds = max(2 * n * n / gpu.bandwidth, 2 * m * n * n / gpu.peak_flops)
        return 100 * 2 * m * n * n / gpu.peak_flops / seconds

    ridges = []
    for name in (A100, H100, H200):
        each = get_gpu(name)
        ridges.append(f"{each.peak_flops / each.bandwidth:.0f}")
    return (
        "Batch 1 uses 5–15 % of the GPU, batch 32 60–80 %",
        judge(5 <= share(1) <= 15, 60 <= share(32) <= 80),
        (
            f"of the peak FLOP/s, [m×8192]·[8192×8192] takes {share(1):.2f} % at m = 1 and "
            f"{share(32):.0f} % at m = 32 (roofline of the datasheet); the ridge is at "
            f"{', '.join(ridges)} tokens (A100, H100, H200). No named metric gives 5–15 %"
        ),
    )


def _same_time() -> tuple[str, str, str]:
    def product(name: str) -> float:
        gpu = get_gpu(name)
        return gpu.gemm_s(32, 8192, 8192, 2.0) / gpu.gemm_s(1, 8192, 8192, 2.0)

    step = {context: _step_ms(32, context) / _step_ms(1, context) for context in (512, 2048)}
    return (
        "32 × the work takes 1.5–2 × the time",
        judge(*(1.5 <= x <= 2 for x in (product(A100), product(H100), *step.values()))),
        (
            f"one matrix product: {product(A100):.2f} × on A100, {product(H100):.2f} × on H100; a "
            f"whole step: {step[512]:.2f} × at context 512, {step[2048]:.2f} × at 2,048"
        ),
    )


def _ollama() -> tuple[str, str, str]:
    return (
        "Ollama batches statically",
        OUTSIDE,
        "its documents: one request at a time by default, above that continuous batching",
    )


def _continuous() -> tuple[str, str, str]:
    cost = _cost()
    alone = _step_ms(31)
    joined = 1e3 * cost.seconds(Load(31, 31 * 512, [(0, 512)], 32))
    return (
        "Continuous batching: join at once, no waiting, no waste",
        judge(True, joined < 1.1 * alone),  # it joins the next step, at a price
        (
            f"a 512-token prompt that joins 31 users makes their step last {joined:.0f} instead of "
            f"{alone:.0f} ms; when slots or KV are full it waits"
        ),
    )


def _servers() -> tuple[str, str, str]:
    one = closed_loop(_cost(), 1, 512, 256).output_tok_s
    many = closed_loop(_cost(), 64, 512, 256).output_tok_s
    return (
        "vLLM is much faster than one request at a time for many users",
        judge(many > 5 * one),
        (
            f"64 users get {many:,.0f} tok/s in all from continuous batching, {one:.0f} one by "
            f"one: {many / one:.0f} ×"
        ),
    )


def _gain(published: Sequence[MeasuredRow]) -> tuple[str, str, str]:
    one, many = _step_ms(1), _step_ms(128)
    found = [
        (1e3 / row.value if row.unit == "ms" else row.value, row.engine.split("+")[0])
        for row in published
        if row.metric in ("decode_speed", "tpot_p50") and row.batch == "1" and row.dtype == "bf16"
        and "A100" in row.hardware and "80GB" in row.hardware and "8B" in row.model
        and "tp2" not in row.hardware and "tp8" not in row.hardware
    ]  # fmt: skip
    speeds = [speed for speed, _ in found]
    texts = [f"{speed:.0f} ({engine})" for speed, engine in found]
    return (
        "Throughput grows 27 × from batch 1 to 128, a user falls from 95 to 20 tok/s",
        judge(24 < 128 * one / many < 30, 90 < max(speeds) < 100, 18 < 1e3 / many < 22),
        (
            f"a user has {1e3 / one:.0f} tok/s at 1 (published: {', '.join(texts)}) and "
            f"{1e3 / many:.0f} at 128, so throughput grows {128 * one / many:.0f} ×"
        ),
    )


def _idle() -> tuple[str, str, str]:
    cost = _cost()
    seconds = _step_ms(1) / 1e3
    flops = 100 * 2 * cost.model.num_params / cost.gpu.peak_flops / seconds
    read = cost.model.weight_bytes(cost.dtype) - 2 * cost.model.vocab_size * cost.model.hidden
    share = 100 * (read + 512 * cost.model.kv_bytes(cost.dtype)) / cost.gpu.bandwidth / seconds
    return (
        "At batch 1 the A100 is 92 % idle; a GPU costs $32 an hour",
        judge(90 < 100 - flops < 94, 32.77 / 8 > 30),
        (
            f"its compute is {100 - flops:.1f} % idle, its bandwidth {share:.0f} % busy; $32.77 "
            f"was the hourly list price of a node of 8 A100-40GB: ${32.77 / 8:.2f} a GPU"
        ),
    )


def _sweet_spot() -> tuple[str, str, str]:
    texts, facts = [], []
    for context in (512, 2048):
        slower = _step_ms(64, context) / _step_ms(1, context)
        facts += [20 <= 64 / slower <= 30, slower < 2.2]
        texts.append(f"{64 / slower:.0f} × at {slower:.2f} × the latency (context {context:,})")
    return (
        "Throughput × 20–30 at 64 while latency only doubles; the sweet spot is 32–64",
        judge(*facts, _step_ms(128) > 50),
        (
            f"gain × slowdown = 64: {'; '.join(texts)}. At 128 a step takes {_step_ms(128):.0f} "
            "ms, so an ITL of 50 ms is still met: the sweet spot depends on the SLO"
        ),
    )


def _bounds() -> tuple[str, str, str]:
    gpu, model, dtype = get_gpu(A100), get_model("llama-3.1-8b"), get_dtype("bf16")
    flops = 8 * 2 * model.layer_params / gpu.peak_flops
    read = 2 * model.layer_params / gpu.bandwidth
    kv = model.kv_bytes(dtype)
    every = model.weight_bytes(dtype)
    used = every - 2 * model.vocab_size * model.hidden  # the embedding is looked up, not read
    return (
        "Prefill is compute-bound, decode is bound by reading KV",
        judge(flops > read, 256 * flops > read, kv * 512 > used),
        (
            f"a prompt of 8 tokens is memory-bound too: reading a layer's weights takes "
            f"{read / flops:.0f} × as long as computing. KV ({kv / 1024:.0f} KiB a token) "
            f"overtakes the weights at {used / kv / 1e3:.0f}–{every / kv / 1e3:.0f} thousand tokens"
        ),
    )


def _chunks() -> tuple[str, str, str]:
    beside = 1e3 * _cost().seconds(Load(8, 8 * 512, [(0, 25)], 9))
    return (
        (
            "A prefill of 100 tokens stalls others 50 ms; 4 chunks of 25 take 12 ms each, with "
            "decodes of 3 ms between"
        ),
        judge(_prefill_ms(100) > 40, _step_ms(8) < 4, beside > _step_ms(8) + 10),
        (
            f"100 tokens take {_prefill_ms(100):.1f} ms, 25 take {_prefill_ms(25):.1f}; a decode "
            f"takes {_step_ms(8):.1f} and shares the chunk's pass: {beside:.1f} together. What "
            f"stalls is a prompt of 8,192: {_prefill_ms(8192):.0f} ms"
        ),
    )


def _parallel() -> tuple[str, str, str]:
    texts, faster = [], []
    for users in (1, 64):
        tp4 = _cost(H100, "llama-3.1-70b", tp=4, preset="vllm-tp")
        terms = tp4.load_terms(Load(users, users * 512, (), users))
        share = 100 * terms["all_reduce"] / sum(terms.values())
        each = {
            name: _step_ms(users, 512, _cost(H100, "llama-3.1-70b", preset="vllm-tp", **setup))
            for name, setup in (("TP2", {"tp": 2}), ("TP8", {"tp": 8}), ("PP8", {"pp": 8}))
        }
        faster += [each["TP8"] < each["TP2"], each["PP8"] < each["TP2"]]
        times = ", ".join(f"{name} {ms:.0f}" for name, ms in each.items())
        texts.append(
            f"{users} user{'s' * (users > 1)}: TP4 {1e3 * sum(terms.values()):.0f} ms "
            f"(all-reduce {share:.0f} %), {times}"
        )
    return (
        "TP 4 for 70B, PP where links are slow, replicas behind least_conn",
        judge(*faster),
        (
            f"70B bf16 on H100, a step: {'; '.join(texts)}. TP cuts latency, PP does not help one "
            "user; what routers do is simulated by `minillm simulate cluster`"
        ),
    )


def _benchmark() -> tuple[str, str, str]:
    steady = open_loop(_cost(), 10, 512, 256)
    running = 0 if steady is None else round(steady.running)
    return (
        "benchmark_serving.py with 100 prompts measures batch 100",
        judge(steady is not None and steady.running > 90),
        (
            f"100 prompts at 10 a second are {100 / 10:.0f} s of load, about {running} of them at "
            "a time (512 tokens in, 256 out); the script is now `vllm bench serve`"
        ),
    )


def _speculative(drafts: int = 4, accepted: float = 0.7) -> tuple[str, str, str]:
    cost = _cost()
    tokens = (1 - accepted ** (drafts + 1)) / (1 - accepted)  # Leviathan et al. 2023, eq. 1
    gains = {}
    for batch in (1, 32, 128, 256):
        verify = Load(0, 0, [(512, drafts + 1)] * batch, batch * (drafts + 1))
        gains[batch] = tokens * _step_ms(batch) / 1e3 / cost.seconds(verify)
    listed = ", ".join(f"{gain:.2f} × at {batch}" for batch, gain in gains.items())
    return (
        "Next: speculative decoding, 2–3 ×",
        judge(*(2 <= gain <= 3 for gain in gains.values())),
        (
            f"{drafts} drafts at no cost, {accepted:.0%} accepted: {listed}: the gain "
            f"shrinks as the batch grows, for a step then computes {drafts + 1} tokens a sequence"
        ),
    )
