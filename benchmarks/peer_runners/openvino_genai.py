"""OpenVINO GenAI's ContinuousBatchingPipeline over the model as optimum-intel exports it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.peer_runners.protocol import Run, serve

PRECISIONS = {"bfloat16": "bf16", "float32": "f32"}


def exported(model: str, scratch: str) -> Path:
    """The folder with the exported model; made by optimum-cli where it isn't there yet."""
    folder = Path(scratch) / "openvino_model"
    if not (folder / "openvino_model.xml").exists():
        command = [
            Path(sys.executable).with_name("optimum-cli"), "export", "openvino", "--model", model,
            "--task", "text-generation-with-past", "--weight-format", "fp16", folder,
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=sys.stderr)
    return folder


def load(settings: dict) -> Run:
    import numpy
    import openvino
    import openvino_genai

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 1  # GB
    scheduler.max_num_seqs = settings["max_num_seqs"]
    scheduler.max_num_batched_tokens = settings["max_num_batched_tokens"]
    scheduler.dynamic_split_fuse = True
    precision = PRECISIONS[settings["dtype"]]
    properties = {
        "INFERENCE_PRECISION_HINT": precision,
        "KV_CACHE_PRECISION": precision,
        "INFERENCE_NUM_THREADS": settings["threads"],
    }
    pipeline = openvino_genai.ContinuousBatchingPipeline(
        exported(settings["model"], settings["scratch"]), scheduler, "CPU", properties
    )

    def run(requests: list[dict]) -> list[int]:
        prompts = [openvino.Tensor(numpy.array([r["prompt_ids"]])) for r in requests]
        configs = []
        for request in requests:
            config = openvino_genai.GenerationConfig()
            config.max_new_tokens = request["max_tokens"]
            config.ignore_eos = True
            configs.append(config)
        results = pipeline.generate(prompts, configs)
        return [len(result.m_generation_ids[0]) for result in results]

    return run


if __name__ == "__main__":
    serve(load, ("openvino-genai", "openvino", "optimum-intel"))
