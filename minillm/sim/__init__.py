"""A simulated GPU behind the engine's own scheduler. On core alone: no torch, no numpy."""

from minillm.sim.cost_model import CostModel
from minillm.sim.gpu_cost_model import GPUCostModel
from minillm.sim.hardware import GPUS, GPUSpec, get_gpu
from minillm.sim.models import DTYPES, MODELS, DType, ModelSpec, get_dtype, get_model
from minillm.sim.presets import PRESETS, EnginePreset, get_preset
from minillm.sim.runner import SimulatedRunner

__all__ = [
    "DTYPES",
    "GPUS",
    "MODELS",
    "PRESETS",
    "CostModel",
    "DType",
    "EnginePreset",
    "GPUCostModel",
    "GPUSpec",
    "ModelSpec",
    "SimulatedRunner",
    "get_dtype",
    "get_gpu",
    "get_model",
    "get_preset",
]
