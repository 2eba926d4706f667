"""What the machine does while a model runs: one GPU through NVML, this process through psutil.

    with Sampler() as sampler:            # a thread of its own, 10 readings a second
        ...
    number, new = sampler.since(number)   # what came since; Sample(values, missing, t_unix)

A field that cannot be read is in `missing` with the reason in words, never 0: no driver, a driver
that does not support it (WSL, vGPU, MIG), no permission, a GPU that was lost. Everything is
optional; nothing here imports the rest of minillm. `EngineMeter` gives what the engine knows of
itself, on every device. Fields and units: FIELDS.
"""

from minillm.telemetry.engine_meter import ENGINE_FIELDS, EngineMeter
from minillm.telemetry.fields import FIELDS, GPM_FIELDS, GPU_FIELDS, PROCESS_FIELDS, Reading, Sample
from minillm.telemetry.gpu import GPU, GPUReader, installed_gpus, visible_device
from minillm.telemetry.process import ProcessReader
from minillm.telemetry.sampler import Sampler

__all__ = [
    "ENGINE_FIELDS", "FIELDS", "GPM_FIELDS", "GPU", "GPU_FIELDS", "PROCESS_FIELDS", "EngineMeter",
    "GPUReader", "ProcessReader", "Reading", "Sample", "Sampler", "installed_gpus",
    "visible_device",
]  # fmt: skip
