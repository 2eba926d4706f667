"""minillm: a small engine that shows how LLM servers batch.

`import minillm` needs nothing but Python; what needs torch (`LLM`) is loaded when first used.
"""

import os as _os

from minillm.core import EngineConfig, LLMEngine, SamplingParams, Scheduler, SchedulerOutput

# How long a thread of torch's pool (GNU OpenMP) spins while it waits for the others before it
# sleeps. With the default, some 15 ms, two threads are far slower than one as soon as another
# process wants a core; with very little, waking up costs a quiet machine a third of its speed.
# It is read when torch is loaded, so it has to be set before that.
_os.environ.setdefault("GOMP_SPINCOUNT", "30000")

__version__ = "0.1.0"
__all__ = ["LLM", "EngineConfig", "LLMEngine", "SamplingParams", "Scheduler", "SchedulerOutput"]


def __getattr__(name: str):
    if name == "LLM":
        from minillm.llm import LLM

        return LLM
    raise AttributeError(f"module 'minillm' has no attribute {name!r}")
