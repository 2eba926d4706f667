"""transformers' generate over batches padded on the left, each until its longest output ends."""

from __future__ import annotations

from benchmarks.peer_runners.protocol import Run, serve


def load(settings: dict) -> Run:
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    torch.set_num_threads(settings["threads"])
    model = AutoModelForCausalLM.from_pretrained(
        settings["model"], dtype=getattr(torch, settings["dtype"])
    )

    @torch.inference_mode()
    def batch(requests: list[dict]) -> list[int]:
        longest = max(len(request["prompt_ids"]) for request in requests)
        padding = [longest - len(request["prompt_ids"]) for request in requests]
        ids = [[0] * n + r["prompt_ids"] for n, r in zip(padding, requests, strict=True)]
        mask = [[0] * n + [1] * (longest - n) for n in padding]
        steps = max(request["max_tokens"] for request in requests)
        config = GenerationConfig(max_new_tokens=steps, do_sample=False, pad_token_id=0)
        output = model.generate(
            torch.tensor(ids), attention_mask=torch.tensor(mask), generation_config=config
        )
        made = output.shape[1] - longest
        return [min(made, request["max_tokens"]) for request in requests]

    def run(requests: list[dict]) -> list[int]:
        size = settings["max_num_seqs"]
        batches = [requests[i : i + size] for i in range(0, len(requests), size)]
        return [count for members in batches for count in batch(members)]

    return run


if __name__ == "__main__":
    serve(load, ("transformers", "torch"))
