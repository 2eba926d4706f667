"""minillm itself, offline, like each of its peers. settings["policy"]: static or continuous."""

from __future__ import annotations

import time

from benchmarks.peer_runners.protocol import Run, serve


def load(settings: dict) -> Run:
    from minillm.core import (
        Arrival,
        CacheConfig,
        EngineConfig,
        LLMEngine,
        SamplingParams,
        SchedulerConfig,
        drive,
    )
    from minillm.model.loader import load_weights
    from minillm.model.runner import ModelRunner

    config, weights = load_weights(settings["model"])
    runner = ModelRunner(config, weights, dtype=settings["dtype"], threads=settings["threads"])
    limits = SchedulerConfig(
        max_num_seqs=settings["max_num_seqs"],
        max_num_batched_tokens=settings["max_num_batched_tokens"],
        max_model_len=runner.max_model_len,
    )
    cache = CacheConfig(runner.num_blocks, runner.block_size, enable_prefix_caching=False)
    engine_config = EngineConfig(
        cache, limits, settings.get("policy", "continuous"), vocab_size=config.vocab_size
    )

    def run(requests: list[dict]) -> list[int]:
        arrivals = [
            Arrival(
                str(request["id"]),
                tuple(request["prompt_ids"]),
                SamplingParams(max_tokens=request["max_tokens"], ignore_eos=True),
                0.0,
            )
            for request in requests
        ]
        engine = LLMEngine(engine_config, runner)
        counts = dict.fromkeys((arrival.request_id for arrival in arrivals), 0)
        for outputs in drive(engine, arrivals, time.sleep):
            for output in outputs:
                counts[output.request_id] += len(output.new_token_ids)
        return [counts[str(request["id"])] for request in requests]

    return run


if __name__ == "__main__":
    serve(load, ("minillm", "torch"))
