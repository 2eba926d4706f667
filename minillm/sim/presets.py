"""Engine presets: what the serving software adds to the kernels, and its usual limits.

step_s and sequence_s are the CPU's time per step and per sequence in it. hidden_*: the same for
work that an engine does beside the GPU's (preparing the next step), seen only where it lasts
longer. request_s comes once per request, before its first token (HTTP, tokenizer). graph multiplies
the kernels' launch times in pure decode steps: below 1 with CUDA graphs or compiled code, above 1
where small kernels (quantisation, say) come on top.

trtllm, vllm-tp, sglang, lmdeploy and gpt-fast were fitted by `python -m benchmarks.fit_simulator`
on half of the published figures in minillm/data/measured.csv, chosen by a hash of the row; the
other half tells the error. vllm-v1 and vllm-v0 are round figures near what is published of those
engines' profiles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EnginePreset:
    """Times in seconds. max_num_*: the limits that the engine sets by default.

    reserves_output: it admits a request only when its whole output fits in the KV cache too.
    fp8_kv: with FP8 weights it keeps the KV in FP8 as well.
    """

    name: str
    step_s: float
    sequence_s: float
    graph: float = 0.75
    request_s: float = 0.0
    hidden_step_s: float = 0.0
    hidden_sequence_s: float = 0.0
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    reserves_output: bool = False
    fp8_kv: bool = False
    source: str = ""


_PRESETS = (
    EnginePreset(
        "vllm-v1", 0.8e-3, 8e-6, request_s=8e-3, source="vLLM 0.8 and later, one GPU",
    ),
    EnginePreset(
        "vllm-tp", 1.9e-3, 24e-6, graph=0.9, request_s=8e-3,
        source="vLLM 0.8 and later, a worker process per GPU",
    ),
    EnginePreset(
        "vllm-v0", 2.0e-3, 60e-6, request_s=10e-3, source="vLLM 0.5 to 0.7",
    ),
    EnginePreset(
        "vllm-2023", 20e-3, 60e-6, graph=1.0, source="vLLM of 2023: no CUDA graphs",
    ),
    EnginePreset(
        "trtllm", 0.8e-3, 0.0, hidden_step_s=1.7e-3, hidden_sequence_s=40e-6,
        max_num_seqs=2048, max_num_batched_tokens=8192, reserves_output=True, fp8_kv=True,
        source="TensorRT-LLM 1.0 (PyTorch backend) and its predecessors",
    ),
    EnginePreset(
        "sglang", 0.0, 13.5e-6, graph=1.55, max_num_seqs=1024, max_num_batched_tokens=8192,
        source="SGLang 0.5",
    ),
    EnginePreset(
        "lmdeploy", 0.0, 0.0, graph=0.75, source="LMDeploy TurboMind 0.2 (C++)",
    ),
    EnginePreset(
        "gpt-fast", 1.0e-3, 0.0, graph=0.6, source="gpt-fast, torch.compile, batch 1",
    ),
    EnginePreset("ideal", 0.0, 0.0, graph=0.0, source="no software at all: the kernels alone"),
)  # fmt: skip
PRESETS: dict[str, EnginePreset] = {preset.name: preset for preset in _PRESETS}


def get_preset(name: str) -> EnginePreset:
    """The preset of that name. Raises ValueError with the list."""
    preset = PRESETS.get(str(name).lower())
    if preset is None:
        raise ValueError(f"Unknown engine preset {name!r}: choose one of {', '.join(PRESETS)}.")
    return preset


def preset_for(engine: str, num_gpus: int = 1) -> EnginePreset:
    """The preset that fits an engine's name and version. Raises ValueError for unknown ones."""
    text = engine.lower()
    if "vllm" in text:
        if "2023" in text:
            return PRESETS["vllm-2023"]
        version = re.search(r"(\d+)\.(\d+)", text)
        if version and (int(version[1]), int(version[2])) < (0, 8):
            return PRESETS["vllm-v0"]
        return PRESETS["vllm-tp" if num_gpus > 1 or not version else "vllm-v1"]
    for word, name in _WORDS:
        if word in text:
            return PRESETS[name]
    raise ValueError(f"There is no preset for the engine {engine!r}.")


_WORDS = (
    ("trtllm", "trtllm"),
    ("tensorrt", "trtllm"),
    ("trt-llm", "trtllm"),
    ("sglang", "sglang"),
    ("lmdeploy", "lmdeploy"),
    ("turbomind", "lmdeploy"),
    ("gpt-fast", "gpt-fast"),
)
