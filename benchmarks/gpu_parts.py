"""The parts of benchmarks/gpu.py: each measures one thing and returns it as plain numbers."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from statistics import median
from typing import Any

import torch

from benchmarks.gpu_setup import (
    Scale,
    at_once,
    decode_step_s,
    make_runner,
    measured_peaks,
    published_peaks,
    random_prompts,
    run_engine,
    seconds,
)
from minillm.core import Arrival, SamplingParams, summarize
from minillm.model.attention import AttentionMetadata, RowLayout
from minillm.model.attention.select import Geometry, choose_backend, make_backend
from minillm.model.runner import ModelRunner


def tests(scale: Scale) -> dict[str, Any]:
    """The tests marked gpu, and the kernels' own."""
    folders = scale.pick(["tests/gpu", "tests/model/test_triton_paged.py"], ["tests/gpu"])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *folders]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    counts = {kind: int(n) for n, kind in re.findall(r"(\d+) (\w+)", lines[-1] if lines else "")}
    failed = [line[:300] for line in lines if line.startswith(("FAILED", "ERROR"))]
    return {"exit_code": done.returncode, "counts": counts, "failed": failed[:40]}


def peaks(scale: Scale) -> dict[str, Any]:
    return {"measured": measured_peaks(scale), "published": published_peaks()}


def backend(scale: Scale) -> dict[str, Any]:
    """What is chosen here, after its self-check, and how long choosing takes."""
    c = scale.config
    began = time.perf_counter()
    geometry = Geometry(
        c.num_heads, c.num_kv_heads, c.head_dim, 16, scale.dtype, torch.device(scale.device)
    )
    choice = choose_backend(geometry)
    return {
        "name": choice.backend.name, "reason": choice.reason, "problem": choice.problem,
        "seconds": time.perf_counter() - began,
    }  # fmt: skip


def decode(scale: Scale) -> dict[str, Any]:
    """Decode steps at several batch sizes: what share of (weights + KV) / bandwidth they reach."""
    runner = make_runner(scale)
    context, tokens = scale.pick((512, 40), (24, 6))
    bandwidth = _peak(scale, "bandwidth")
    rows = []
    for batch in scale.pick((1, 8, 32, 64, 128, 256), (1, 3)):
        prompts = random_prompts(batch, context, runner.model_config.vocab_size)
        engine = run_engine(runner, at_once(prompts, tokens), max_num_seqs=batch, budget=8192)
        step = decode_step_s(engine, batch)
        kv = batch * (context + tokens // 2) * runner.bytes_per_block / runner.block_size
        moved = _weight_bytes(runner) + kv
        rows.append({
            "batch": batch, "step_ms": 1e3 * step, "tok_s": batch / step,
            "share_of_bandwidth": {k: moved / v / step for k, v in bandwidth.items()},
        })  # fmt: skip
    return {"context": context, "backend": runner.backend.name,
            "graphs": runner.graphs is not None, "rows": rows}  # fmt: skip


def prefill(scale: Scale) -> dict[str, Any]:
    """One prompt in one step: what share of the peak FLOP/s it reaches."""
    runner = make_runner(scale)
    length = scale.pick(2048, 64)
    times = []
    for seed in range(4):
        prompt = random_prompts(1, length, runner.model_config.vocab_size, seed)
        engine = run_engine(runner, at_once(prompt, 1), max_num_seqs=1, budget=8192)
        times.append(engine.trace.steps[0].t_end - engine.trace.steps[0].t_start)
    c = runner.model_config
    linear = sum(_linear_weights(runner)) - c.vocab_size * c.hidden_size  # logits: one token's
    attention = 2 * c.num_layers * c.num_heads * c.head_dim * length * (length + 1)
    flops = 2 * linear * length + attention
    step = median(times[1:])
    return {
        "tokens": length, "step_ms": 1e3 * step, "tok_s": length / step,
        "share_of_flops": {k: flops / v / step for k, v in _peak(scale, "flops").items()},
    }  # fmt: skip


def graphs(scale: Scale) -> dict[str, Any]:
    """The same decode steps replayed from graphs, and kernel by kernel."""
    runner = make_runner(scale)
    captured = runner.graphs
    if captured is None:
        return {"skipped": f"there are no CUDA graphs with {runner.backend.name} here"}
    rows = []
    for batch in (1, 8, 64):
        prompts = random_prompts(batch, 256, runner.model_config.vocab_size)
        row = {"batch": batch}
        for name, runner.graphs in (("graphs_ms", captured), ("eager_ms", None)):
            engine = run_engine(runner, at_once(prompts, 24), max_num_seqs=batch, budget=8192)
            row[name] = 1e3 * decode_step_s(engine, batch)
        rows.append({**row, "speedup": row["eager_ms"] / row["graphs_ms"]})
    return {"rows": rows}


def attention(scale: Scale) -> dict[str, Any]:
    """One layer's attention by each backend: µs for a decode step and for a prefill."""
    steps = {
        "decode, 1 row of 4096": [(4095, 1)],
        "decode, 64 rows of 1024": [(1023, 1)] * 64,
        "prefill, 2048": [(0, 2048)],
        "chunk of 512 after 3584, 32 rows of 1024": [(1023, 1)] * 32 + [(3584, 512)],
    }
    if scale.tiny:
        steps = {"decode, 2 rows of 40": [(39, 1)] * 2, "prefill, 20": [(0, 20)]}
    found: dict[str, Any] = {}
    for name in ("triton", "varlen", "sdpa"):
        try:
            found[name] = {label: _attend_us(scale, name, rows) for label, rows in steps.items()}
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
    return found


def interruptions(scale: Scale) -> dict[str, Any]:
    """ITL of sequences that decode while long prompts come in, with chunked prefill and without."""
    runner = make_runner(scale)
    vocab = runner.model_config.vocab_size
    count, tokens, length, pause = scale.pick((32, 200, 8000, 0.4), (3, 12, 200, 0.01))
    settings = {
        "chunks of 512": {"budget": 512}, "chunks of 2048": {"budget": 2048},
        "whole prompts": {"budget": 16384, "enable_chunked_prefill": False},
    }  # fmt: skip
    found = {}
    for name, setting in settings.items():
        decoding = at_once(random_prompts(count, 64, vocab), tokens)
        params = SamplingParams(max_tokens=4, ignore_eos=True)
        prompts = random_prompts(4, length, vocab, seed=1)
        late = [Arrival(f"long{i}", p, params, pause * (i + 1)) for i, p in enumerate(prompts)]
        engine = run_engine(runner, decoding + late, max_num_seqs=count + 4, **setting)
        summary = summarize(engine.trace)
        found[name] = {
            "itl_p50_ms": summary.itl_p50_ms, "itl_p99_ms": summary.itl_p99_ms,
            "p99_over_p50": summary.itl_p99_ms / summary.itl_p50_ms,
            "output_tok_s": summary.output_tok_s,
        }  # fmt: skip
    return found


def transformers(scale: Scale) -> dict[str, Any]:
    """Output tokens/s of one workload: ours, transformers' generate, its continuous batching."""
    from benchmarks.gpu_transformers import continuous_batching, load, static_generate

    count, length, most = scale.pick((64, 128, 256), (4, 12, 8))
    vocab = scale.config.vocab_size
    prompts = random_prompts(count, length, vocab)
    # Half of the requests end early: what static batching pads.
    wanted = [most if i % 2 else most // 4 for i in range(count)]
    found: dict[str, Any] = {"requests": count, "prompt": length, "outputs": [most // 4, most]}
    arrivals = [
        Arrival(str(i), p, SamplingParams(max_tokens=n, ignore_eos=True))
        for i, (p, n) in enumerate(zip(prompts, wanted, strict=True))
    ]
    runner = make_runner(scale, num_blocks=scale.pick(4096, 512))
    run_engine(runner, at_once(prompts, 4), max_num_seqs=count, budget=8192)  # warm up
    engine = run_engine(runner, arrivals, max_num_seqs=count, budget=8192)
    found["ours_tok_s"] = summarize(engine.trace).output_tok_s
    runner.close()
    model = load(scale)
    for name, measure in (("generate", static_generate), ("continuous", continuous_batching)):
        try:
            speed = measure(model, scale, prompts, wanted)
            found[name] = {"tok_s": speed, "ours_over_it": found["ours_tok_s"] / speed}
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
    return found


# Name → (part, seconds that it may take at most on a GPU), in the order in which they run.
PARTS = {
    "peaks": (peaks, 40),
    "backend": (backend, 60),
    "decode": (decode, 110),
    "prefill": (prefill, 60),
    "graphs": (graphs, 60),
    "attention": (attention, 60),
    "tests": (tests, 170),
    "transformers": (transformers, 120),
    "interruptions": (interruptions, 80),
}


def _attend_us(scale: Scale, name: str, shapes: list[tuple[int, int]]) -> float:
    c, size = scale.config, 256 if name == "varlen" else 16
    device = torch.device(scale.device)
    rows, slots, used = [], [], 0
    for start, tokens in shapes:
        blocks = -(-(start + tokens) // size)
        table = tuple(range(used, used + blocks))
        used += blocks
        rows.append(RowLayout(start, tokens, 0, table))
        slots += [table[p // size] * size + p % size for p in range(start, start + tokens)]
    pool = torch.zeros(
        (1, (used + 1) * size, 2, c.num_kv_heads, c.head_dim), dtype=scale.dtype, device=device
    )
    metadata = AttentionMetadata(rows, torch.tensor(slots, device=device), size, used)
    attention = make_backend(name, c.num_heads)
    plan = attention.plan(metadata, [], pool)
    q = torch.randn(len(slots), c.num_heads, c.head_dim, dtype=scale.dtype, device=device)
    return 1e6 * seconds(lambda: attention.attend(0, q, pool[0], plan), scale, scale.pick(50, 2))


def _weight_bytes(runner: ModelRunner) -> int:
    return sum(_linear_weights(runner)) * runner.dtype.itemsize


def _linear_weights(runner: ModelRunner) -> list[int]:
    """Numbers in each matrix that a step reads whole; of the embedding it reads a few rows."""
    from minillm.model.loader import expected_shapes

    c = runner.model_config
    shapes = {k: v for k, v in expected_shapes(c).items() if len(v) == 2}
    if not c.tie_word_embeddings:
        del shapes["model.embed_tokens.weight"]
    return [out * inner for out, inner in shapes.values()]


def _peak(scale: Scale, kind: str) -> dict[str, float]:
    """That peak as measured here and, for a GPU that is known, as published."""
    published = published_peaks()
    found = {"measured": measured_peaks(scale)[kind]}
    return found | ({"published": published[kind]} if published else {})
