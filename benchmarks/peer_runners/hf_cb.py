"""transformers' own continuous batching."""

from __future__ import annotations

from benchmarks.peer_runners.protocol import Run, serve


def load(settings: dict) -> Run:
    import torch
    from transformers import AutoModelForCausalLM, ContinuousBatchingConfig, GenerationConfig

    torch.set_num_threads(settings["threads"])
    model = AutoModelForCausalLM.from_pretrained(
        settings["model"], dtype=getattr(torch, settings["dtype"])
    )
    batching = ContinuousBatchingConfig(
        num_blocks=256,
        max_batch_tokens=settings["max_num_batched_tokens"],
        max_requests_per_batch=settings["max_num_seqs"],
        allow_block_sharing=False,
    )
    # −1 is no token: nothing ends before its max_tokens.
    config = GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0)
    manager = model.init_continuous_batching(config, continuous_batching_config=batching)
    manager.start()

    def run(requests: list[dict]) -> list[int]:
        for request in requests:
            manager.add_request(
                request["prompt_ids"],
                request_id=str(request["id"]),
                max_new_tokens=request["max_tokens"],
                eos_token_id=-1,
            )
        counts = {}
        while len(counts) < len(requests):
            result = manager.get_result(timeout=600)
            if result is None or result.error:
                raise RuntimeError(f"transformers gave no result: {result and result.error}")
            counts[result.request_id] = len(result.generated_tokens)
        return [counts[str(request["id"])] for request in requests]

    return run


if __name__ == "__main__":
    serve(load, ("transformers", "torch"))
