"""Data that comes with the package: request traces, prompts of our own, recorded runs.

A leaf: it imports nothing of ours.

Files are named by their path below this folder ("traces/azure2023_conv.csv"). Where each comes
from and under which licence: traces/README.md, recorded/README.md. They are read through
importlib.resources, so a package in a zip file works too.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

# Name on the command line → file in traces/. Columns: see traces/README.md.
TRACES = {
    "azure2023-conv": "azure2023_conv.csv",
    "azure2023-code": "azure2023_code.csv",
    "mooncake-conversation": "mooncake_conversation_3000.csv",
    "arxiv-summarization": "arxiv_summarization_lengths_3000.csv",
    "vllm019-rtx4090": "llmservingsim_RTX4090_vllm019_llama31_8b_measured.csv",
    "vllm019-rtxpro6000": "llmservingsim_RTXPRO6000_vllm019_llama31_8b_measured.csv",
}


def trace_names() -> list[str]:
    """The request traces in the package, by the name that `read_trace` takes."""
    return list(TRACES)


def read_trace(name: str) -> list[str]:
    """A trace's lines, heading first. ValueError names the traces there are."""
    if name not in TRACES:
        raise ValueError(f"Unknown trace {name!r}: choose one of {', '.join(TRACES)}.")
    return read_text(f"traces/{TRACES[name]}").splitlines()


def names() -> list[str]:
    """Every data file in the package, as a path below this folder."""
    return sorted(_walk(files(__name__), ""))


def read_text(name: str) -> str:
    """A data file's text (UTF-8). ValueError if there is no such file."""
    return _file(name).read_text(encoding="utf-8")


def read_bytes(name: str) -> bytes:
    """A data file's bytes. ValueError if there is no such file."""
    return _file(name).read_bytes()


def _file(name: str) -> Traversable:
    file = files(__name__)
    for part in name.split("/"):
        file = file / part
    if ".." in name.split("/") or not file.is_file():
        raise ValueError(f"The package has no data file {name!r}.")
    return file


def _walk(folder: Traversable, prefix: str) -> list[str]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        elif not entry.name.endswith((".py", ".pyc")):
            found.append(prefix + entry.name)
    return found
