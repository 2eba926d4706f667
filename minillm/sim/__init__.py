"""A simulated GPU behind the engine's own scheduler. On core alone: no torch, no numpy."""

from minillm.sim.cost_model import CostModel
from minillm.sim.runner import SimulatedRunner

__all__ = ["CostModel", "SimulatedRunner"]
