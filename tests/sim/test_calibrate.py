"""Fitting: constants that made the data come back, and the error is reported on unseen samples."""

import itertools
from dataclasses import replace

import pytest

from minillm.sim import EnginePreset, GPUCostModel, get_dtype, get_gpu, get_model
from minillm.sim.calibrate import GemmSample, StepSample, fit_device, fit_steps, minimise
from minillm.sim.pipeline import Load

TRUTH = replace(get_gpu("RTX4090"), name="truth")
SIZES = list(itertools.product((1, 4, 32, 256), (576, 1536), (576, 1536)))


def gemms() -> list[GemmSample]:
    return [GemmSample(m, n, k, 2.0, TRUTH.gemm_s(m, n, k, 2.0)) for m, n, k in SIZES]


def loads() -> list[Load]:
    steps = [Load(n, n * c, (), n) for n in (1, 2, 4, 8, 16) for c in (32, 256)]
    return steps + [Load(0, 0, [(0, c)], 1) for c in (16, 64, 128, 256, 512)]


def test_minimise_finds_the_least():
    got = minimise(lambda at: abs(at["x"] - 3) + abs(at["y"] - 0.5), {"x": 0.0, "y": 0.0, "z": 7.0},
                   {"x": 1.0, "y": 1.0}, rounds=20)  # fmt: skip
    assert got["x"] == pytest.approx(3, abs=0.01)
    assert got["y"] == pytest.approx(0.5, abs=0.01)
    assert got["z"] == 7.0


def test_a_device_is_found_again_from_its_products():
    device = fit_device("mine", 8e9, gemms())
    errors = [abs(device.gemm_s(*s[:4]) / s.seconds - 1) for s in gemms()]
    assert sum(errors) / len(errors) < 0.1
    assert device.memory == 8e9


def test_steps_are_found_again_and_held_out_ones_predicted():
    model, dtype = get_model("smollm2-135m"), get_dtype("bf16")
    preset = EnginePreset("truth", 3e-3, 2e-4, graph=1.0)
    truth = GPUCostModel(TRUTH, model, preset=preset, dtype=dtype)
    samples = [StepSample(load, truth.seconds(load)) for load in loads()]
    fit = fit_steps(fit_device("mine", 8e9, gemms()), model, dtype, samples)
    assert fit.fit_error < 0.1
    assert fit.held_out_error < 0.15
    assert fit.cost.preset.step_s + fit.cost.preset.sequence_s > 1e-3


def test_too_little_to_fit_on():
    with pytest.raises(ValueError, match="at least 4"):
        fit_device("mine", 8e9, gemms()[:3])
    with pytest.raises(ValueError, match="no time"):
        fit_device("mine", 8e9, [s._replace(seconds=0.0) for s in gemms()])
    with pytest.raises(ValueError, match="at least 6"):
        fit_steps(TRUTH, get_model("smollm2-135m"), get_dtype("bf16"), [])
