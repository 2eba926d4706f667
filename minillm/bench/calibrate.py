"""Fits the simulator to this machine: times a few matrix products and engine steps, predicts steps.

Seconds, not minutes. The products are the model's own sizes, on weights too many for the CPU's
caches; the steps are real ones of a loaded LLM. Half of the steps is held out and only predicted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from minillm.bench.step_times import load_of_step, run_steps, seconds_of
from minillm.llm import LLM
from minillm.sim import GPUCostModel, ModelSpec, get_dtype
from minillm.sim.calibrate import GemmSample, StepFit, StepSample, fit_device, fit_steps
from minillm.sim.hardware import GPUSpec

ROWS = (1, 4, 16, 64, 256)  # m of the products
BATCHES = (1, 2, 4, 8)
PROMPTS = (16, 64, 256)  # tokens
OUTPUTS = 7  # tokens after each prompt; the median step counts
ROUNDS = 2  # the faster of so many counts: others may use the machine too
COLD_BYTES = 192e6  # weights that a product cycles through
SECONDS_EACH = 0.05  # of repeating one product


def calibrate(llm: LLM) -> dict[str, Any]:
    """Measure, fit, predict: the object of `minillm simulate calibrate`.

    constants, gemms and steps (each {…, measured_ms, predicted_ms, error}, steps held_out besides),
    error: {gemm, fit, held_out}, means of |predicted/measured − 1| in percent. Raises ValueError
    for a simulated LLM: there is nothing to measure.
    """
    if llm.info.provenance != "measured":
        raise ValueError("Calibration measures a real model; this LLM is simulated.")
    started = time.perf_counter()
    gemms, device, samples, fit = fit_machine(llm)
    products = [_product(sample, device) for sample in gemms]
    return {
        "provenance": "measured on this machine, and fitted to it",
        "device": llm.info.device,
        "model": llm.info.model,
        "dtype": llm.info.dtype,
        "constants": _constants(fit.cost),
        "gemms": products,
        "steps": [_step(i, sample, fit.cost) for i, sample in enumerate(samples)],
        "error": {
            "gemm": round(sum(abs(p["error"]) for p in products) / len(products), 1),
            "fit": round(100 * fit.fit_error, 1),
            "held_out": round(100 * fit.held_out_error, 1),
        },
        "seconds": round(time.perf_counter() - started, 1),
    }


class MachineFit(NamedTuple):
    """What was measured, and what was fitted to it: products and their device, steps and theirs."""

    gemms: list[GemmSample]
    device: GPUSpec
    samples: list[StepSample]
    steps: StepFit


def fit_machine(llm: LLM) -> MachineFit:
    """Measure a loaded LLM's products and steps, and fit the simulator to them."""
    model, dtype = model_spec(llm), get_dtype(llm.info.dtype)
    gemms = measure_products(llm, model, dtype.weight_bytes)
    device = fit_device(llm.info.device, 0.0, gemms)
    samples = measure_steps(llm)
    return MachineFit(gemms, device, samples, fit_steps(device, model, dtype, samples))


def model_spec(llm: LLM) -> ModelSpec:
    """The sizes of the model that is loaded, as the simulator names them."""
    c = llm.runner.model_config
    return ModelSpec(
        c.name, c.num_layers, c.hidden_size, c.intermediate_size, c.num_heads, c.num_kv_heads,
        c.head_dim, c.vocab_size, c.tie_word_embeddings,
    )  # fmt: skip


# ── measuring ───────────────────────────────────────────────────────────────────────────────


def measure_products(llm: LLM, model: ModelSpec, weight_bytes: float) -> list[GemmSample]:
    """Times of the model's own products in its dtype, on its device, for several batch sizes."""
    heads = model.num_heads * model.head_dim
    kv = model.num_kv_heads * model.head_dim
    shapes = [(heads + 2 * kv, model.hidden), (2 * model.ff, model.hidden),
              (model.hidden, model.ff)]  # fmt: skip
    samples = []
    for n, k in shapes:
        product = ColdProduct(n, k, llm.runner.device, llm.runner.dtype)
        samples += [GemmSample(m, n, k, weight_bytes, product.seconds(m)) for m in ROWS]
    return samples


class ColdProduct:
    """[m, k] · [k, n] for any m, with weights too many for a cache: made once, timed often.

    device and dtype are torch's.
    """

    def __init__(self, n: int, k: int, device: Any, dtype: Any) -> None:
        import torch

        copies = int(min(max(COLD_BYTES / (n * k * dtype.itemsize), 1), 64))
        weight = torch.randn(n, k, device=device).to(dtype)
        self.n, self.k = n, k
        self._weights = [weight, *(weight.clone() for _ in range(copies - 1))]

    def seconds(self, m: int) -> float:
        """The median time of the product with m rows."""
        return median(self.times(m))

    def times(self, m: int) -> list[float]:
        """The times of at least four products with m rows, one after the other."""
        import torch

        first = self._weights[0]
        with torch.inference_mode():
            x = torch.randn(m, self.k, device=first.device).to(first.dtype)
            times: list[float] = []
            until = time.perf_counter() + SECONDS_EACH
            while len(times) < 5 or time.perf_counter() < until:
                weight = self._weights[len(times) % len(self._weights)]
                start = time.perf_counter()
                torch.nn.functional.linear(x, weight)
                if first.device.type == "cuda":
                    torch.cuda.synchronize(first.device)
                times.append(time.perf_counter() - start)
        return times[1:]


def measure_steps(llm: LLM) -> list[StepSample]:
    """Prefill and decode steps of the loaded model, at several batch and prompt sizes."""
    longest = llm.config.max_len - OUTPUTS
    prompts = sorted({min(size, longest) for size in PROMPTS})
    budget = max(llm.config.scheduler.max_num_batched_tokens, *BATCHES)
    run_steps(llm, 2, prompts[0], OUTPUTS)  # warm-up
    prefills, decodes = [], []
    for batch in BATCHES:
        for prompt in prompts:
            runs = [
                run_steps(llm, batch, prompt, OUTPUTS, max_num_batched_tokens=budget)
                for _ in range(ROUNDS)
            ]
            prefills.append(min((run.prefill for run in runs), key=seconds_of))
            decodes.append(min((run.decode for run in runs), key=seconds_of))
    # One kind after the other, so that every second one is half of each.
    return [StepSample(load_of_step(step), seconds_of(step)) for step in prefills + decodes]


# ── reporting ───────────────────────────────────────────────────────────────────────────────


def _constants(cost: GPUCostModel) -> dict[str, float]:
    """What was fitted: what products reach in FLOP/s and bytes/s, launch times, shares, CPU."""
    gpu = cost.gpu
    return {
        "flops": gpu.peak_flops * gpu.gemm_compute,
        "bandwidth": gpu.bandwidth * gpu.gemm_memory,
        "gemm_launch_s": gpu.gemm_launch_s,
        "kv_memory": gpu.kv_memory,
        "attention_compute": gpu.attention_compute,
        "sequence_s": gpu.sequence_s,
        "step_s": cost.preset.step_s,
    }


def _product(sample: GemmSample, device: Any) -> dict[str, Any]:
    m, n, k, weight_bytes, seconds = sample
    return {"m": m, "n": n, "k": k} | _compared(seconds, device.gemm_s(m, n, k, weight_bytes))


def _step(index: int, sample: StepSample, cost: GPUCostModel) -> dict[str, Any]:
    load = sample.load
    chunk_tokens: Sequence[int] = [count for _, count in load.chunks]
    return {
        "kind": "prefill" if load.chunks else "decode",
        "sequences": load.num_decode + len(load.chunks),
        "tokens": load.num_tokens,
        "context": load.context or sum(chunk_tokens),
        "held_out": index % 2 == 1,
    } | _compared(sample.seconds, cost.seconds(load))


def _compared(measured: float, predicted: float) -> dict[str, float]:
    """Milliseconds, and the error in percent."""
    return {
        "measured_ms": round(1e3 * measured, 4),
        "predicted_ms": round(1e3 * predicted, 4),
        "error": round(100 * (predicted / measured - 1), 1),
    }
