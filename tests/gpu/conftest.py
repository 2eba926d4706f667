"""The tiny models of tests/model, for the tests that need an NVIDIA GPU."""

from tests.model.conftest import tiny

__all__ = ["tiny"]
