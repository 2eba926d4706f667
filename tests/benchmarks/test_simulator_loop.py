"""Where the simulator's loop spends its time: parts that add up, and nothing left patched."""

from __future__ import annotations

import sys
from time import perf_counter

from benchmarks import simulator_loop
from minillm.sim.simulate import make_workload


def test_the_parts_are_all_met_and_make_up_the_run():
    places = [place for each in simulator_loop.PARTS.values() for place in each]
    before = [getattr(owner, name) for owner, name in places]
    start = perf_counter()
    seconds = simulator_loop.seconds_by_part("H100-80GB-SXM", make_workload(rate=4.0, requests=5))
    whole = perf_counter() - start
    assert set(seconds) == set(simulator_loop.PARTS)
    assert all(value > 0 for value in seconds.values())
    assert sum(seconds.values()) <= whole
    assert [getattr(owner, name) for owner, name in places] == before


def test_the_command_prints_two_tables(capsys, monkeypatch):
    command = ["simulator_loop", "--requests", "5", "--repeat", "1"]
    monkeypatch.setattr(sys, "argv", command)
    simulator_loop.main()
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("| ") for line in lines) == 1 + 2 + 1 + len(simulator_loop.PARTS)
    assert any("million loops a second" in line for line in lines)
