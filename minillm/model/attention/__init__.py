"""Attention over the paged KV cache: one contract (base.py), one backend a file.

Backends take everything as an argument: what a step looks like is never a global."""

from minillm.model.attention.base import AttentionBackend, AttentionMetadata, RowLayout
from minillm.model.attention.resident import ResidentBackend
from minillm.model.attention.sdpa import SDPABackend

__all__ = ["AttentionBackend", "AttentionMetadata", "ResidentBackend", "RowLayout", "SDPABackend"]
