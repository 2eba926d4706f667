"""The slider for the batch: simulated figures at once, measured ones as it moves."""

from __future__ import annotations

import asyncio

import pytest

from minillm import LLM
from minillm.sim import get_gpu
from widgets.batch_slider import BatchSlider

A100 = {"A100": "A100-80GB-SXM"}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Small and short: what is measured here is not looked at as a speed."""
    monkeypatch.setattr("minillm.bench.roofline.SQUARE", {"cpu": 64})
    monkeypatch.setattr("minillm.bench.roofline.READ_BYTES", 1e6)
    monkeypatch.setattr("minillm.bench.calibrate.COLD_BYTES", 1e5)
    monkeypatch.setattr("minillm.bench.calibrate.SECONDS_EACH", 0.002)


def test_simulated_gpus_have_their_figures_at_once():
    slider = BatchSlider(gpus=A100, side=8192, batches=(1, 32))
    spec = get_gpu("A100-80GB-SXM")
    one, many = (spec.gemm_s(batch, 8192, 8192, 2.0) for batch in (1, 32))
    assert slider.ratio(32) == pytest.approx(many / one)
    assert slider.share(1, "A100") == pytest.approx(2 * 8192**2 / one / spec.peak_flops)
    shown = repr(slider.table())
    assert "A100: 32× the rows take 1.04× the time." in shown
    assert "◐ simulated: A100, 8192 × 8192, bf16" in shown
    assert "batch 32" in repr(slider.table([32]))
    assert "batch 1 " not in repr(slider.table([32]))
    both = BatchSlider(gpus={**A100, "H100": "H100-80GB-SXM"}, side=8192, batches=(1, 32))
    assert "H100, batch 32" in repr(both.table())
    assert "◐ simulated: A100, H100, 8192 × 8192, bf16" in repr(both.table())


def test_moving_the_slider_shows_that_batch():
    slider = BatchSlider(gpus=A100, side=1024, batches=(1, 8, 64))
    assert "Batch 1:" in slider.readout.value
    slider.slider.value = 64
    assert "Batch 64: [64 × 1,024] · [1,024 × 1,024]" in slider.readout.value
    assert "simulated" in slider.readout.value


@pytest.mark.parametrize("threads", [True, False])
def test_each_batch_is_measured_and_then_the_one_that_is_chosen(tiny, threads):
    async def run() -> BatchSlider:
        slider = BatchSlider(tiny, side=64, batches=(1, 4, 16), threads=threads)
        assert "Nothing has been measured yet." in repr(slider.table())
        table = await slider.measure()
        assert "Your machine: 16× the rows take" in repr(table)
        assert slider.slider.value == 16
        before = slider.roofs.model.version
        slider.slider.value = 4
        await slider._background.wait()
        assert slider.roofs.model.version > before
        assert "Batch 4:" in slider.readout.value
        assert "…" not in slider.readout.value
        return slider

    slider = asyncio.run(run())
    [device] = slider.roofs.model.devices.values()
    assert sorted(device.dots) == [1, 4, 16]
    assert device.provenance == "measured"


def test_a_students_function_stands_beside_what_was_measured(tiny):
    slider = BatchSlider(tiny, side=64, batches=(1, 4))
    asyncio.run(slider.measure())
    [device] = slider.roofs.model.devices.values()

    def step_time(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth):
        assert (n_in, n_out, weight_bytes) == (64, 64, 4)  # float32
        assert (peak_flops, bandwidth) == (device.peak_flops, device.bandwidth)
        return 2 * device.dots[batch].seconds

    lines = repr(slider.against(step_time)).splitlines()
    assert [line.split()[-1] for line in lines[2:4]] == ["2", "2"]
    assert "n/a" in repr(slider.against(lambda *args: None))


def test_what_fails_while_measuring_is_told_and_it_can_go_on(tiny, monkeypatch):
    slider = BatchSlider(tiny, side=64, batches=(1, 4))

    def broken(*args, **kwargs):
        raise RuntimeError("the device is gone")

    with monkeypatch.context() as patch:
        patch.setattr(slider.roofs, "open_here", broken)
        with pytest.raises(RuntimeError, match="the device is gone"):
            asyncio.run(slider.measure())
    assert "Your machine: 4× the rows take" in repr(asyncio.run(slider.measure()))


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="Give an LLM to measure"):
        BatchSlider()
    with pytest.raises(ValueError, match="name its GPU in gpus"):
        BatchSlider(LLM.simulated())
    with pytest.raises(ValueError, match="Unknown GPU"):
        BatchSlider(gpus={"X": "no such GPU"})
    slider = BatchSlider(gpus=A100, batches=(1, 2))
    with pytest.raises(ValueError, match="no device 'B200': there are A100"):
        slider.ratio(2, "B200")
