"""A live sweep on a simulated engine, and the tables of throughput beside it."""

from __future__ import annotations

import asyncio

import pytest

from minillm.llm import LLM
from minillm.sim import SimulatedRunner
from minillm.sim.activity import GPUActivity
from widgets.sweeps import HERE, LiveSweep
from widgets.throughput_cards import number_rows, numbers_table, published_table, spot_table


async def run(sweep: LiveSweep):
    sweep.start()
    return await sweep.finished()


def a100(**settings) -> LLM:
    runner = SimulatedRunner.for_gpu("A100-80GB-SXM", "llama-3.1-8b")
    return LLM.simulated(runner=runner, num_blocks=8000, max_num_seqs=64, **settings)


def test_a_sweep_draws_a_point_for_each_load():
    sweep = LiveSweep(a100(), loads=(1, 8, 32), output=24)
    shown = repr(asyncio.run(run(sweep)))
    line = sweep.curve.model.lines[HERE]
    assert [point.load for point in line.drawn] == [1, 8, 32]
    assert line.done
    assert sweep.gain(1) == sweep.slowdown(1) == 1
    assert 1 < sweep.slowdown(32) < 2
    assert 10 < sweep.gain(32) < 32
    assert "◐ simulated: A100-80GB-SXM" in shown
    assert sweep.gain(64) is None
    assert not sweep._buttons.run.disabled


def test_stop_ends_it_with_the_points_until_then():
    async def stopped():
        sweep = LiveSweep(a100(), loads=(1, 16), output=1000, rounds=20)
        sweep.start()
        await asyncio.sleep(0.3)
        sweep.stop()
        return repr(await asyncio.wait_for(sweep.finished(), 60))

    assert asyncio.run(stopped()).startswith("Stopped: the table has the points until then.")


def test_loads_are_refused_at_the_door():
    for loads in ((), (0, 1), (4, 2), (2, 2)):
        with pytest.raises(ValueError, match="must rise from at least 1"):
            LiveSweep(a100(), loads=loads)


def test_the_shares_of_a_batch_are_those_of_the_simulated_gpu():
    llm = a100()
    (_, total, each, mfu, bandwidth), (_, *_, more, _) = number_rows(llm, (1, 32), 508)
    assert total == pytest.approx(each)
    assert (mfu, bandwidth) == pytest.approx((0.0041, 0.62), rel=0.05)
    assert more == pytest.approx(0.11, rel=0.05)
    doubled = number_rows(llm, (1,), 508, limits=(2 * 312e12, 2 * 2039e9))
    assert doubled[0][3:] == pytest.approx((mfu / 2, bandwidth / 2), rel=1e-3)
    assert GPUActivity.of_run(llm.new_engine().trace.header) is not None


def test_a_model_of_unknown_size_has_no_shares(monkeypatch):
    monkeypatch.setattr("widgets.throughput_cards.sizes_of", lambda header: None)
    rows = number_rows(LLM.simulated(), (1, 4), 16, limits=(1e12, 1e11))
    assert [row[3:] for row in rows] == [(None, None)] * 2
    assert "n/a" in repr(numbers_table({"made up": rows}, ["◐ simulated"]))


def test_the_sweet_spot_moves_with_limit_and_context():
    shown = repr(spot_table({"A100": "A100-80GB-SXM"}, contexts=(512, 2048), limits_ms=(5, 20, 50)))
    short, long = (line.split() for line in shown.splitlines()[2:4])
    assert short[-3:] == ["none", "64", "256"]
    assert long[-3:] == ["none", "32", "128"]
    assert "◐ simulated" in shown


def test_published_figures_come_with_their_source():
    shown = repr(published_table("^(A100-SXM4-80GB|H200) x1$", "Llama-3-8B"))
    assert "39.1" in shown
    assert "27.0" in shown
    assert shown.count("AccelMark (github:") == 3
    assert shown.endswith("◇ published")
