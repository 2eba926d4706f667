"""What the lessons' tests share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def module_patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch
