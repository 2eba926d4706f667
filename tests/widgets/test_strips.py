"""The strip chart: what it takes from traces and telemetry, its frames, what it says is missing."""

from __future__ import annotations

import math
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minillm.core import Trace
from minillm.core.trace import RequestEvent, Row, StepRecord, TraceHeader
from minillm.sim import SimulatedRunner
from minillm.telemetry import Sample, Sampler
from tests.telemetry.fake_nvml import FakeNvml
from tests.widgets.golden_plots import FOLDER, strip_model
from tests.widgets.runs import run
from widgets.strip_chart import StripChart
from widgets.strip_drawing import thinned
from widgets.strip_model import ENGINE, MACHINE, StripModel
from widgets.strip_wire import FRAME_SAMPLES, StripRing, decode_strips
from widgets.strip_words import value_text, values


def gpu_run() -> Trace:
    """The 14 requests on a simulated A100 with its full cost model."""
    return run("continuous", num_blocks=200, runner=SimulatedRunner.for_gpu())


def header(provenance: str = "measured", t0: float | None = 1000.0, **changes) -> TraceHeader:
    given = {"model": "tiny", "dtype": "float32", "device": "CPU"} | changes
    return TraceHeader(
        provenance, given["device"], given["model"], given["dtype"], "continuous", 64, 16,
        {"max_num_seqs": 4}, t0,
    )  # fmt: skip


def arrive(t: float, req: int) -> RequestEvent:
    return RequestEvent(t, req, f"r{req}", "arrive", {"prompt_len": 3, "max_tokens": 9})


def step(number: int, t0: float, t1: float, waiting: int = 0, rows: int = 1) -> StepRecord:
    made = [Row(i, 1, 1, 0, 10, 5) for i in range(rows)]
    return StepRecord(number, t0, t1, waiting, rows, 512, made, 3, 0)


def strip(model: StripModel, key: str):
    return next(each for each in model.shown() if each.key == key)


# ── from the trace ──────────────────────────────────────────────────────────────────────────


def test_each_step_is_a_sample_that_holds_since_the_one_before():
    model = StripModel()
    model.reset(header())
    model.extend([arrive(2.0, 0), step(0, 2.0, 2.5, rows=1), step(1, 2.5, 2.75, 2, rows=3)])
    assert model.series(strip(model, "running")) == [(0.5, 1.0), (0.75, 3.0)]
    assert model.series(strip(model, "waiting")) == [(0.5, 0.0), (0.75, 2.0)]
    assert model.series(strip(model, "kv")) == [(0.5, 3.0), (0.75, 3.0)]


def test_idle_time_is_idle_and_counts_who_waits():
    model = StripModel()
    model.reset(header())
    model.extend([
        arrive(0.0, 0), step(0, 0.0, 0.1), arrive(1.0, 1), arrive(1.5, 2), step(1, 2.0, 2.1, 0, 2),
    ])  # fmt: skip
    assert model.series(strip(model, "running")) == [
        (0.1, 1.0), (1.0, 0.0), (1.5, 0.0), (2.0, 0.0), (pytest.approx(2.1), 2.0),
    ]  # fmt: skip
    assert [v for _, v in model.series(strip(model, "waiting"))] == [0, 0, 1, 2, 0]


def test_a_pause_of_bookkeeping_is_not_idle():
    model = StripModel()
    model.reset(header())
    model.extend([step(i, i * 0.02, i * 0.02 + 0.019) for i in range(5)])
    assert len(model.series(strip(model, "running"))) == 5


def test_every_step_of_a_run_is_there():
    trace = run("static")
    model = StripModel()
    model.reset(trace.header)
    assert model.extend(trace.records) == len(trace.records)
    times = {round(t + model.origin, 9) for t, _ in model.series(strip(model, "running"))}
    assert {round(s.t_end, 9) for s in trace.steps} <= times
    assert max(values(model, strip(model, "running"))) == 6


def test_a_simulated_gpu_shows_what_its_cost_model_says():
    trace = gpu_run()
    model = StripModel()
    model.reset(trace.header)
    model.extend(trace.records)
    keys = [each.key for each in model.shown()]
    assert keys == [
        "running", "waiting", "output_rate", "kv", "sim_busy", "sim_tensor", "sim_dram",
    ]  # fmt: skip
    for each in model.shown()[4:]:
        assert each.aside == "simulated"
        assert all(0 <= value <= 100 for value in values(model, each))
    decode = trace.steps[-1]
    busy = 100 * (1 - decode.terms["cpu"] / (decode.t_end - decode.t_start))
    assert values(model, strip(model, "sim_busy"))[-1] == pytest.approx(busy, rel=1e-5)
    assert dict(model.missing()) == {"not simulated": ["GPU memory claimed", "GPU power"]}


def test_another_simulated_gpu_in_mid_run_is_measured_by_its_own_data_sheet():
    trace = gpu_run()
    model = StripModel()
    model.reset(trace.header)
    model.extend(trace.records)
    before = model.series(strip(model, "sim_dram"))[-1][1]
    model.amend(replace(trace.header, device="L4"))
    last = trace.steps[-1]
    model.extend([last._replace(step=last.step + 1, t_start=last.t_end, t_end=2 * last.t_end)])
    slower = model.series(strip(model, "sim_dram"))[-1][1]
    model.amend(replace(trace.header, device="H200-141GB-SXM"))
    model.extend([last._replace(step=last.step + 2, t_start=2 * last.t_end, t_end=3 * last.t_end)])
    faster = model.series(strip(model, "sim_dram"))[-1][1]
    assert before > 0
    assert slower / faster == pytest.approx(4800 / 300, rel=0.05)  # their memory's GB/s


def test_three_constants_are_no_data_sheet():
    model = StripModel()
    model.reset(run("static").header)
    model.extend(run("static").records)
    assert "duty" in [each.key for each in model.shown()]
    assert "sim_tensor" not in model.seen
    assert any("no data sheet" in reason for reason, _ in model.missing())


def test_the_achieved_bandwidth_needs_the_models_size():
    unknown, known = StripModel(), StripModel()
    unknown.reset(header())
    known.reset(header(model="SmolLM2-135M-Instruct", dtype="bfloat16"))
    for model in (unknown, known):
        model.extend([step(0, 0.0, 0.1), step(1, 0.1, 0.2)])
    assert ("the model's size in bytes is not known", ["Achieved memory bandwidth"]) in (
        unknown.missing()
    )
    # 135M weights of 2 bytes in 0.1 s
    assert values(known, strip(known, "bandwidth"))[-1] == pytest.approx(2.7e9, rel=0.02)


# ── from telemetry ──────────────────────────────────────────────────────────────────────────


def sample(t: float, **found: float) -> Sample:
    return Sample(dict(found), {"gpu_busy": "Not Supported", "gpu_power": "Lost"}, t)


def test_telemetry_lies_on_the_traces_clock():
    model = StripModel()
    model.reset(header(t0=1000.0))
    model.extend([arrive(2.0, 0), step(0, 2.0, 2.5)])
    model.add_telemetry([sample(900), sample(1001), sample(1002.2, cpu_busy=40.0), sample(1002.3)])
    points = model.series(strip(model, "cpu_busy"))
    assert [t for t, _ in points] == pytest.approx([0.2, 0.3])
    assert points[0][1] == 40
    assert math.isnan(points[1][1])
    assert model.now == pytest.approx(2.5)
    assert ("Not Supported", ["SM busy"]) in model.missing()


def test_a_gpu_hides_what_it_tells_better_and_brings_its_limits():
    model = StripModel()
    model.reset(header(model="SmolLM2-135M", dtype="bfloat16"))
    model.extend([step(0, 0.0, 0.5)])
    model.add_telemetry([sample(1000.1, gpu_memory=9e9, gpu_memory_total=16e9, cpu_busy=3.0)])
    keys = [each.key for each in model.shown()]
    assert "gpu_memory" in keys
    assert not {"cpu_busy", "bandwidth"} & set(keys)
    shown = {each["key"]: each for each in model.as_dicts()}
    assert shown["gpu_memory"]["limit"] == 16e9


@pytest.mark.parametrize("header_", [header("simulated"), header(t0=None)])
def test_a_run_that_is_not_of_this_machine_takes_no_telemetry(header_):
    model = StripModel()
    model.reset(header_)
    model.extend([step(0, 0.0, 0.5)])
    model.add_telemetry([sample(1000.1, cpu_busy=40.0)])
    assert model.rings[MACHINE].next == 0
    reasons = " ".join(reason for reason, _ in model.missing())
    assert ("simulated" in reasons) or ("recorded elsewhere" in reasons)


def test_a_sampler_fills_the_machines_strips_while_a_run_goes_on():
    sampler = Sampler(nvml=FakeNvml(), device=0)
    chart = StripChart(sampler=sampler)
    trace = Trace(header(t0=time.time()))
    trace.add(arrive(0.0, 0))
    trace.add(step(0, 0.0, 0.01))
    chart.feed(0, trace)
    for _ in range(3):
        sampler.sample()
        chart.publish()
    keys = [each["key"] for each in chart.strips]
    assert {"gpu_busy", "gpu_memory", "gpu_power", "process_memory"} <= set(keys)
    assert chart.strips[keys.index("gpu_power")]["limit"] == 700
    chart.finish(0)
    count = chart.model.rings[MACHINE].next
    sampler.sample()
    chart.publish()
    assert chart.model.rings[MACHINE].next == count == 3  # what comes after the run is not its own


# ── frames ──────────────────────────────────────────────────────────────────────────────────


def test_the_golden_frame_is_current():
    data = strip_model().message(ENGINE, 0, 0)[1]
    assert (FOLDER / "strips.bin").read_bytes() == data


@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.floats(0, 2.0**40, width=32)), min_size=3, max_size=3),
        max_size=30,
    )
)
def test_a_frame_comes_back_as_it_was(rows):
    ring = StripRing(1, 3, keep=100)
    ring.reset(7)
    for number, row in enumerate(rows):
        assert ring.add(number * 0.1, row)
    data, end = ring.frame(0, 0)
    frame = decode_strips(data)
    assert (frame.group, frame.stream, frame.first, end) == (1, 7, 0, len(rows))
    assert [found for _, found in frame.samples] == rows


def test_broken_frames_are_refused():
    data, _ = StripRing(0, 2, 10).frame(0, 0)
    for wrong in (data[:10], b"XXXX" + data[4:], data + b"1"):
        with pytest.raises(ValueError, match="frame"):
            decode_strips(wrong)


class View:
    """What a view does: applies frames in order, and says hello when one is missing."""

    def __init__(self, chart: StripChart) -> None:
        self.chart, self.samples, self.stream = chart, {0: [], 1: []}, None
        chart.send = self.take
        self.lose = self.hellos = 0

    def take(self, content, buffers=None):
        if self.lose:
            self.lose -= 1
            return
        frame = decode_strips(buffers[0])
        mine = self.samples[frame.group]
        if frame.kind == 0:
            mine.clear()
        if frame.first > len(mine) + self.base(frame):
            self.hello(frame.group)
            return
        mine += frame.samples[len(mine) + self.base(frame) - frame.first :]
        self.stream = frame.stream
        if content["more"] or len(mine) + self.base(frame) < content["next_step"]:
            self.hello(frame.group)

    def base(self, frame) -> int:
        if frame.kind == 0:
            self.bases = {**getattr(self, "bases", {}), frame.group: frame.first}
        return getattr(self, "bases", {}).get(frame.group, 0)

    def hello(self, group: int) -> None:
        self.hellos += 1
        last = len(self.samples[group]) + getattr(self, "bases", {}).get(group, 0) - 1
        said = {"hello": last, "event": 0, "stream": self.stream, "lane": group}
        self.chart._handle_custom_msg(said, [])


def test_nothing_is_lost_even_when_messages_are():
    trace = run("continuous")
    growing, chart = Trace(trace.header), StripChart()
    view = View(chart)
    for number, record in enumerate(trace.records):
        growing.add(record)
        chart.feed(0, growing)
        if number % 7 == 6:
            view.lose = number % 3
        chart.publish()
    view.lose = 0
    chart.finish(0)
    assert view.hellos > 0
    ends = [round(t, 9) for t, _ in view.samples[0]]
    assert {round(s.t_end, 9) for s in trace.steps} <= set(ends)
    assert ends == sorted(ends)


def test_a_long_snapshot_comes_in_parts():
    chart = StripChart()
    steps = 2 * FRAME_SAMPLES - 10
    chart.model.reset(header())
    chart.model.extend(step(i, i * 0.01, (i + 1) * 0.01) for i in range(steps))
    chart.model.rings[ENGINE].first  # noqa: B018 (kept: 6,000)
    view = View(chart)
    chart.publish()
    assert view.hellos >= 1
    assert len(view.samples[0]) == 6000


def test_another_trace_is_a_new_run_and_an_old_one_does_not_come_back():
    first, second = run("static"), run("continuous")
    chart = StripChart()
    chart.feed(0, first)
    chart.feed(1, second)
    assert chart.header["provenance"] == "simulated"
    samples = chart.model.rings[ENGINE].next
    assert chart.feed(0, first) == 0
    assert chart.model.rings[ENGINE].next == samples
    assert chart.feed(1, second) == 0


@pytest.mark.parametrize("odd", [None, 3, {}, {"hello": "x", "lane": 0}, {"hello": 1, "lane": 9}])
def test_odd_messages_are_ignored(odd):
    chart = StripChart()
    view = View(chart)
    chart._handle_custom_msg(odd, [])
    assert view.samples == {0: [], 1: []}


# ── words and the static figure ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (98.2, "%", "98\u2009%"), (99.7, "%", "99\u2009%"), (100, "%", "100\u2009%"),
        (11.4e9, "B/s", "11.4\u2009GB/s"), (742e6, "B", "742\u2009MB"), (5e3, "B", "5.00\u2009kB"),
        (512.0, "W", "512\u2009W"), (12, "", "12"), (1234.5, "tok/s", "1,230\u2009tok/s"),
        (None, "W", "n/a"), (math.nan, "%", "n/a"),
    ],
)  # fmt: skip
def test_figures_as_text(value, unit, text):
    assert value_text(value, unit) == text


def test_it_freezes_with_its_reasons():
    chart = StripChart()
    with pytest.raises(ValueError, match="fed nothing"):
        chart.freeze()
    chart.feed(0, gpu_run())
    chart.finish(0)
    assert chart.conclude().startswith("4.3 of 6 rows in use, GPU busy 93")
    figure = chart.freeze()
    ElementTree.fromstring(figure.svg)
    assert "GPU memory claimed, GPU power: n/a (not simulated)" in figure.alt
    assert figure.table.count("<tr>") == 1 + 7 + 2
    assert "simulated" in figure.table
    assert len(figure.svg) < 300_000


@given(st.lists(st.floats(0, 100), min_size=1, max_size=3000), st.integers(20, 400))
def test_thinning_keeps_least_and_most(found, most):
    points = [(i * 0.1, value) for i, value in enumerate(found)]
    kept = thinned(points, most)
    assert max(v for _, v in kept) == max(found)
    assert min(v for _, v in kept) == min(found)
    assert len(kept) <= 1.6 * most or len(points) <= most
    assert [t for t, _ in kept] == sorted(t for t, _ in kept)
