"""What all tests share: markers that look at the machine, fast mode, the default model's folder."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

from tests.capabilities import missing

# A tokenizer used in this process and a fork later would warn or hang.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# No test, and no notebook or server that one starts, writes into the file of who runs it.
os.environ["MINILLM_PROGRESS"] = "off"

# Time limits per example are for machines with nothing else to do.
hypothesis.settings.register_profile("minillm", deadline=None, print_blob=True)
hypothesis.settings.load_profile("minillm")


def has_cuda() -> bool:
    """Whether torch is installed and sees a CUDA device."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked gpu where there is no GPU: no CI has to have one."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not has_cuda():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def fast() -> bool:
    """MINILLM_FAST=1: smaller sizes, the same code."""
    return os.environ.get("MINILLM_FAST") == "1"


@pytest.fixture(scope="session")
def default_model_path() -> Path:
    """The folder of the real default model, fetched and converted on first use."""
    try:
        from minillm.model.default_model import ensure_default_model
    except ImportError as error:
        missing(f"the default model's loader ({error})")
    return Path(ensure_default_model())


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random chat model as a folder."""
    from tests.tiny_chat_model import save_tiny_chat_model

    return save_tiny_chat_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def tiny(tiny_folder: Path):
    """That model, loaded; whatever is read before it was written shows as NaN."""
    from minillm import LLM

    with LLM(
        str(tiny_folder), dtype="float32", device="cpu", num_blocks=128, threads=1, poison=True
    ) as llm:
        yield llm
