"""minillm: a small engine that shows how LLM servers batch.

`import minillm` needs nothing but Python; what needs torch (`LLM`) is loaded when first used.
"""

from minillm.core import EngineConfig, LLMEngine, SamplingParams, Scheduler, SchedulerOutput

__version__ = "0.1.0"
__all__ = ["LLM", "EngineConfig", "LLMEngine", "SamplingParams", "Scheduler", "SchedulerOutput"]


def __getattr__(name: str):
    if name == "LLM":
        from minillm.llm import LLM

        return LLM
    raise AttributeError(f"module 'minillm' has no attribute {name!r}")
