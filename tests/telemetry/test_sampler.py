"""The sampler's thread, the process's figures, and what the engine knows of itself."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minillm.telemetry import (
    ENGINE_FIELDS,
    FIELDS,
    PROCESS_FIELDS,
    EngineMeter,
    ProcessReader,
    Sampler,
)
from tests.telemetry.fake_nvml import FakeNvml

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 10.0


def wait_for(condition) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ── the thread ──────────────────────────────────────────────────────────────────────────────


def test_it_samples_beside_the_program_and_ends():
    nvml = FakeNvml()
    before = threading.active_count()
    with Sampler(hz=50, nvml=nvml, device=0) as sampler:
        wait_for(lambda: sampler.since()[0] >= 5)
        assert sampler.running
        assert sampler.latest().values["gpu_busy"] == 98
    assert not sampler.running
    assert threading.active_count() == before
    assert nvml.opened == 0
    taken, samples = sampler.since()
    assert len(samples) == taken
    times = [sample.t_unix for sample in samples]
    assert times == sorted(times)
    assert abs(times[-1] - time.time()) < LIMIT_S
    sampler.stop()


def test_since_gives_each_sample_once_and_the_ring_is_bounded():
    sampler = Sampler(keep=4, nvml=FakeNvml(), device=0)
    first = [sampler.sample() for _ in range(3)]
    number, new = sampler.since(0)
    assert (number, new) == (3, first)
    more = [sampler.sample() for _ in range(2)]
    assert sampler.since(number) == (5, more)
    assert sampler.since(5) == (5, [])
    assert sampler.since(0) == (5, (first + more)[1:])


def test_a_driver_that_hangs_stops_nobody(monkeypatch):
    monkeypatch.setattr("minillm.telemetry.sampler.OLD_S", 0.05)
    monkeypatch.setattr("minillm.telemetry.sampler.JOIN_S", 0.05)
    hanging, nvml = threading.Event(), FakeNvml()
    sampler = Sampler(hz=50, nvml=nvml, device=0).start()
    wait_for(lambda: sampler.since()[0] >= 2)
    nvml.nvmlDeviceGetPowerUsage = lambda handle: hanging.wait(LIMIT_S)
    wait_for(lambda: "no answer" in sampler.latest().missing.get("gpu_power", ""))
    start = time.monotonic()
    sampler.stop()
    assert time.monotonic() - start < 2
    hanging.set()


def test_before_the_first_sample_all_is_missing():
    latest = Sampler(nvml=FakeNvml(), device=0).latest()
    assert set(latest.missing) == set(FIELDS)


@pytest.mark.parametrize(("settings", "message"), [({"hz": 0}, "hz must"), ({"keep": 0}, "keep")])
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ValueError, match=message):
        Sampler(**settings)


def test_it_needs_nothing_installed():
    code = (
        "import sys\n"
        "for name in ('pynvml', 'psutil'): sys.modules[name] = None\n"
        "from minillm.telemetry import FIELDS, Sampler\n"
        "sample = Sampler(device=0).sample()\n"
        "assert sample.values == {} and set(sample.missing) == set(FIELDS)\n"
        "print(sorted(set(sample.missing.values())))\n"
        "assert not [m for m in sys.modules if m in ('torch', 'numpy')]"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "nvidia-ml-py is not installed" in done.stdout
    assert "psutil is not installed" in done.stdout


# ── the process ─────────────────────────────────────────────────────────────────────────────


def test_this_process():
    reader = ProcessReader()
    first = reader.read()
    assert first.missing["cpu_busy"] == "needs a second reading"
    assert first.values["process_memory"] > 1e6
    until = time.monotonic() + 0.2
    while time.monotonic() < until:  # some work to be seen
        pass
    second = reader.read()
    assert second.values["process_cpu"] > 0
    assert 0 <= second.values["cpu_busy"] <= 100
    assert set(second.missing) == {"cpu_power"}
    assert set(second.values) | set(second.missing) == set(PROCESS_FIELDS)


def test_a_process_that_ended_is_missing_not_zero():
    process = subprocess.Popen([sys.executable, "-c", ""])
    reader = ProcessReader(process.pid)
    process.wait()
    assert "NoSuchProcess" in reader.read().missing["process_memory"]
    gone = ProcessReader(process.pid).read()
    assert set(gone.missing) == set(PROCESS_FIELDS)


def test_a_psutil_that_fails():
    def fail(*_, **__):
        raise OSError("no /proc")

    process = SimpleNamespace(memory_info=fail, cpu_percent=fail)
    broken = SimpleNamespace(
        Process=lambda pid: process, cpu_percent=fail, virtual_memory=fail, cpu_count=fail
    )
    reader = ProcessReader(psutil=broken)
    for _ in range(2):
        assert reader.read().values == {}
        assert set(reader.read().missing) == set(PROCESS_FIELDS)


# ── the engine ──────────────────────────────────────────────────────────────────────────────


def test_the_engines_own_figures():
    meter = EngineMeter(1.0, weight_bytes=100.0, kv_token_bytes=2.0)
    assert set(meter.read(0.0).missing) == set(ENGINE_FIELDS)
    for i in range(4):  # 0.1 s of every 0.25 s
        meter.add(10 + i / 4, 10.1 + i / 4, context=50, tokens=3)
    values = meter.read(11.0).values
    assert values["duty"] == pytest.approx(40)
    assert values["bandwidth"] == pytest.approx(800)
    assert values["output_rate"] == pytest.approx(12)
    assert meter.read(20.0).values == {"duty": 0, "bandwidth": 0, "output_rate": 0}


def test_a_step_that_began_before_the_window_counts_in_part():
    meter = EngineMeter(1.0, weight_bytes=100.0)
    meter.add(0.0, 4.0, context=0, tokens=1)
    values = meter.read(4.5).values
    assert values["duty"] == pytest.approx(50)
    assert values["bandwidth"] == pytest.approx(12.5)


def test_an_unknown_size_leaves_the_bandwidth_out():
    meter = EngineMeter(1.0)
    meter.add(0.0, 1.0, context=5, tokens=1)
    assert "not known" in meter.read(1.0).missing["bandwidth"]


@given(st.lists(st.tuples(st.floats(0, 0.3), st.floats(0.001, 0.3)), min_size=1, max_size=40))
def test_a_duty_cycle_is_what_the_definition_says(gaps):
    meter, now, steps = EngineMeter(0.5, weight_bytes=1.0), 0.0, []
    for pause, length in gaps:
        start = now + pause
        now = start + length
        steps.append((start, now))
        meter.add(start, now, 0, 1)
        low = max(now - 0.5, steps[0][0])
        busy = sum(max(0.0, end - max(begin, low)) for begin, end in steps)
        assert meter.read(now).values["duty"] == pytest.approx(100 * busy / (now - low), abs=1e-6)
