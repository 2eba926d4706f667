"""Models and references that the tests of this folder share: made once a session."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """tiny(family) → (folder, Reference): a random float64 model of that family."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.model.tiny_models import Reference, save_tiny

    made = {}

    def get(family: str):
        if family not in made:
            folder = save_tiny(family, tmp_path_factory.mktemp(family))
            made[family] = folder, Reference(folder)
        return made[family]

    return get
