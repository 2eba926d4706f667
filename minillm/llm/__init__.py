"""LLM: puts model, runner, scheduler and tokenizer together; the offline API.

Importing this needs no torch; `LLM(...)` does, `LLM.simulated(...)` doesn't.
"""

from minillm.llm.offline import LLM
from minillm.llm.text import Completion, TextStream

__all__ = ["LLM", "Completion", "TextStream"]
