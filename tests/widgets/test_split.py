"""A split model in tables, and routers side by side."""

from __future__ import annotations

import pytest

from minillm.core import SamplingParams
from minillm.llm import LLM
from minillm.sim import GPUCostModel
from minillm.sim.simulate import simulate_cluster
from widgets.routing import routed_by, simulated_routers
from widgets.split import SplitRun, costs_table, measure_split, pipeline_table, split_table

TRACE = {"trace": "azure2023-conv", "rate": 20.0, "requests": 12}
PART = ("worker 0", "7", "0–1", "2", "1", "0–9", "1\u202fMB")


def test_a_run_in_one_process_has_no_parts():
    run = measure_split(LLM.simulated(), ["a", "bc"], SamplingParams(3, ignore_eos=True))
    assert run.parts == ()
    assert [len(tokens) for tokens in run.tokens] == [3, 3]
    assert run.tokens_per_s > 0


def test_the_table_says_whose_tokens_agree_and_until_where():
    def run(*tokens: int) -> SplitRun:
        return SplitRun("here", (tokens, (9, 9)), 2.0, (PART,))

    shown = repr(split_table({"one": run(1, 2, 3), "same": run(1, 2, 3), "other": run(1, 5, 3)}))
    lines = {line.split("  ")[0]: line for line in shown.splitlines()}
    assert "all 5" in lines["same"]
    assert "3 of 5, until rounding parts them" in lines["other"]
    assert "measured" in shown
    assert "worker 0" in shown
    assert "2.50" in lines["one"]


def test_costs_show_a_split_that_leaves_no_room_for_kv():
    small, fits = (GPUCostModel("L40S", "llama-3.1-70b", tp=tp) for tp in (2, 4))
    shown = repr(costs_table({"TP 2": small, "TP 4": fits}))
    assert "none: the weights fill it" in shown
    assert "111,199" in shown
    assert "simulated" in shown


def test_a_pipeline_has_a_column_for_each_turn():
    shown = repr(pipeline_table(3, 2)).splitlines()
    assert shown[0] == "3 stages, 2 micro-batches"
    assert shown[1].split() == ["time", "1", "2", "3", "4"]
    assert shown[-1].split() == ["stage", "2", "·", "·", "1", "2"]
    assert "·" not in repr(pipeline_table(1, 3))


def test_a_students_router_gets_connections_and_its_last_choice():
    seen = []

    def in_turn(connections: list[int | None], last: int) -> int:
        seen.append((connections, last))
        return (last + 1) % len(connections)

    mine = routed_by(in_turn, "2xA100-80GB-SXM", **TRACE)
    builtin = simulate_cluster("2xA100-80GB-SXM", "round_robin", **TRACE)
    assert seen[0] == ([0, 0], -1)
    assert [last for _, last in seen] == [-1, *[i % 2 for i in range(11)]]
    assert mine["e2e_p99_ms"] == builtin["e2e_p99_ms"]
    shown = repr(simulated_routers({"mine": mine, "round_robin": builtin}, "Two"))
    assert "6 / 6" in shown
    assert "simulated: A100-80GB-SXM, A100-80GB-SXM; llama-3.1-8b" in shown


@pytest.mark.parametrize("answer", [None, 2, -1, True, "0"])
def test_a_router_that_names_no_replica_is_told(answer):
    with pytest.raises(ValueError, match="that is no replica that is up"):
        routed_by(lambda connections, last: answer, "2xA100-80GB-SXM", **TRACE)
