"""Engine presets: what the serving software adds to the kernels, and its usual limits.

step_s and sequence_s are the CPU's time per step and per sequence in it; request_s comes once per
request, before its first token (HTTP, tokenizer). graph multiplies the kernels' launch times in
pure decode steps: below 1 with CUDA graphs or compiled code.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EnginePreset:
    """Times in seconds. max_num_*: the limits that the engine sets by default."""

    name: str
    step_s: float
    sequence_s: float
    graph: float = 0.75
    request_s: float = 0.0
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    source: str = ""


_PRESETS = (EnginePreset("vllm-v1", 0.8e-3, 8e-6, request_s=8e-3, source="vLLM 0.8 and later"),)
PRESETS: dict[str, EnginePreset] = {preset.name: preset for preset in _PRESETS}


def get_preset(name: str) -> EnginePreset:
    """The preset of that name. Raises ValueError with the list."""
    preset = PRESETS.get(str(name).lower())
    if preset is None:
        raise ValueError(f"Unknown engine preset {name!r}: choose one of {', '.join(PRESETS)}.")
    return preset
