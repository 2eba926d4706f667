"""Say what this machine can run and why, and what to do if something is missing.

Exit code 0 when the course can run, 1 when something has to be done first.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from minillm.bench.machine import cpu_name, usable_cpus, version
from minillm.cli import options
from minillm.cli.output import Output
from minillm.telemetry import installed_gpus

SUMMARY = "what this machine can run, and why"
EXAMPLES = """\
examples:
  minillm doctor
  minillm doctor --json -
"""
OK, WARN, FAIL = "ok", "warn", "fail"
MARKS = {OK: "✓", WARN: "!", FAIL: "✗"}
LOW_DISK, LOW_MEMORY = 1.0, 2.0  # GB
BUSY_PERCENT = 25.0
JUPYTER = ("jupyterlab", "ipykernel", "ipywidgets", "anywidget", "matplotlib")
SETUP = "Run `make setup` in the repository."


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. fix: what to do, empty where nothing has to be done."""

    name: str
    status: str
    detail: str
    fix: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    output = Output("doctor", args.json)
    checks = [examine(name, look) for name, look in CHECKS.items()]
    for check in checks:
        output.say(f"{MARKS[check.status]} {check.name:<10} {check.detail}")
        if check.fix:
            output.say(f"  {'':<10} → {check.fix}")
    ready = all(check.status != FAIL for check in checks)
    todo = sum(check.status == FAIL for check in checks)
    output.say()
    output.say(
        "The course can run here: `make lab` opens it."
        if ready
        else f"Not yet: {todo} thing{'s' if todo > 1 else ''} to do, marked ✗ above."
    )
    output.write_json({"ready": ready, "checks": [asdict(check) for check in checks]})
    return 0 if ready else 1


def examine(name: str, look: Callable[[], tuple[str, ...]]) -> Check:
    """Look at one thing; what can't be looked at is a failure with its reason."""
    try:
        return Check(name, *look())
    except ImportError as error:
        return Check(name, FAIL, f"{error}", SETUP)
    except Exception as error:  # doctor has to go on to the next thing
        return Check(name, FAIL, f"{type(error).__name__}: {error}", SETUP)


def look_at_python() -> tuple[str, ...]:
    return OK, f"{sys.version.split()[0]} ({sys.executable})"


def look_at_torch() -> tuple[str, ...]:
    import torch

    cuda = torch.version.cuda
    return OK, torch.__version__ + (f", CUDA {cuda}" if cuda else ", CPU build")


def look_at_device() -> tuple[str, ...]:
    from minillm.model import devices

    device = devices.choose_device("auto")
    if device.type == "cpu":
        return OK, f"CPU: {cpu_name()}, {usable_cpus()} logical processors; torch sees no GPU"
    return OK, devices.device_text(device, devices.set_threads(None))


def look_at_dtype() -> tuple[str, ...]:
    from minillm.model import devices

    return OK, devices.why_dtype()


def look_at_attention() -> tuple[str, ...]:
    from minillm.model import devices
    from minillm.model.attention.select import Geometry, choose_backend

    device = devices.choose_device("auto")
    dtype = devices.choose_dtype("auto", device)
    # The heads of the default model, and those of an 8B one.
    shapes = [Geometry(*heads, 16, dtype, device) for heads in ((9, 3, 64), (32, 8, 128))]
    choices = [choose_backend(shape) for shape in shapes]
    choice = next((choice for choice in choices if choice.problem), choices[0])
    text = f"{choice.backend.name}: {choice.reason}"
    if choice.problem:
        fix = "All works, only slower. Triton needs a C compiler and a driver that fits torch."
        return WARN, f"{text}. {choice.problem}", fix
    return OK, text


def look_at_threads() -> tuple[str, ...]:
    from minillm.model import devices

    threads = devices.set_threads(None)
    why = "OMP_NUM_THREADS" if os.environ.get("OMP_NUM_THREADS") else "the physical cores"
    text = f"{threads} ({why})"
    busy = _cpu_in_use()
    if busy is not None and busy > BUSY_PERCENT:
        fix = "Two busy programs slow each other down by far more than half: close the other one, "
        fix += "or set OMP_NUM_THREADS=1."
        return WARN, f"{text}, but other programs use {busy:.0f} % of the CPU", fix
    return OK, text


def look_at_model() -> tuple[str, ...]:
    chosen = os.environ.get("MINILLM_MODEL")
    if chosen:
        from minillm.model.loader import load_config

        if "/" in chosen and not chosen.startswith("dummy:") and not Path(chosen).exists():
            return WARN, f"{chosen} (MINILLM_MODEL) isn't here; as a hub id it's fetched when used"
        config = load_config(chosen)
        return OK, f"{config.name} from {chosen} (MINILLM_MODEL), {config.num_layers} layers"
    from minillm.model.default_model import LABEL, default_model_folder, default_model_ready

    folder = default_model_folder()
    if default_model_ready():
        return OK, f"{LABEL} is ready in {folder}"
    fix = "`make setup` fetches it (93 MB), or set MINILLM_MODEL to a model that you have."
    return FAIL, f"{LABEL} is not in {folder} yet", fix


def look_at_gpu() -> tuple[str, ...]:
    found, state = installed_gpus()
    if not found:
        return OK, f"none; NVML: {state}. The course runs without one."
    texts = [
        f"{gpu.name}, {_gb(gpu.memory_used)} of {_gb(gpu.memory_total)} GB used" for gpu in found
    ]
    return OK, f"{'; '.join(texts)}; NVML: {state}"


def _gb(num_bytes: float | None) -> str:
    return "n/a" if num_bytes is None else f"{num_bytes / 1e9:.1f}"


def look_at_telemetry() -> tuple[str, ...]:
    from minillm.telemetry import FIELDS, GPU_FIELDS, Sampler

    sampler = Sampler()
    for _ in range(2):  # shares and counters need two readings
        sample = sampler.sample()
        time.sleep(0.2)
    sampler.gpu.close()
    shown = [FIELDS[name].label for name in FIELDS if name in sample.values]
    lacking: dict[str, list[str]] = {}
    for name, reason in sample.missing.items():
        lacking.setdefault(reason, []).append(FIELDS[name].label)
    whole = [FIELDS[name].label for name in GPU_FIELDS]
    texts = [
        f"{'all of the GPU' if labels == whole else ', '.join(labels)}: n/a ({reason})"
        for reason, labels in lacking.items()
    ]
    return OK, "; ".join([f"read here: {', '.join(shown) or 'nothing'}", *texts])


def look_at_memory() -> tuple[str, ...]:
    import psutil

    memory = psutil.virtual_memory()
    free = memory.available / 1e9
    text = f"{free:.1f} of {memory.total / 1e9:.1f} GB free"
    if free < LOW_MEMORY:
        return WARN, text, f"The lessons want {LOW_MEMORY:.0f} GB: close other programs."
    return OK, text


def look_at_disk() -> tuple[str, ...]:
    from minillm.model.cache import cache_folder, free_bytes

    folder = cache_folder()
    free = free_bytes(folder) / 1e9
    text = f"{free:.1f} GB free at {folder}, {shutil.disk_usage(Path.cwd()).free / 1e9:.1f} GB here"
    if free < LOW_DISK:
        return WARN, text, "Free some, or set MINILLM_HOME to a folder on another disk."
    return OK, text


def look_at_jupyter() -> tuple[str, ...]:
    versions = {package: version(package) for package in JUPYTER}
    missing = [package for package, found in versions.items() if found is None]
    if missing:
        return FAIL, f"{', '.join(missing)} not installed", SETUP
    return OK, ", ".join(f"{package} {found}" for package, found in versions.items())


def _cpu_in_use() -> float | None:
    """Percent of all CPUs that others use in a moment in which we wait; None if unknown."""
    try:
        import psutil
    except ImportError:
        return None
    return psutil.cpu_percent(interval=0.3)


CHECKS: dict[str, Callable[[], tuple[str, ...]]] = {
    "python": look_at_python,
    "torch": look_at_torch,
    "device": look_at_device,
    "dtype": look_at_dtype,
    "attention": look_at_attention,
    "threads": look_at_threads,
    "model": look_at_model,
    "GPU": look_at_gpu,
    "telemetry": look_at_telemetry,
    "memory": look_at_memory,
    "disk": look_at_disk,
    "jupyter": look_at_jupyter,
}
