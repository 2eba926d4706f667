"""Routers side by side: who got how many requests, and how long they took.

simulated_routers({"round_robin": simulate_cluster(…), …}, "Four equal replicas")
measured_routers({"least_conn": (requests, shares), …})     # a client's own view, through nginx
routed_by(route, "2xA100-80GB-SXM,1xL4", rate=8)            # a student's function as the router
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from minillm.core.metrics import percentile
from minillm.sim.cluster import Cluster
from minillm.sim.cluster_spec import parse_replicas
from minillm.sim.presets import get_preset
from minillm.sim.report import cluster_report
from minillm.sim.routers import Load, Router
from minillm.sim.simulate import EngineOptions, make_engine, make_workload
from widgets import cards
from widgets.numbers import seconds

if TYPE_CHECKING:
    from minillm.bench.record import ClientRequest

SIMULATED = ("router", "requests each got", "TTFT p50", "TTFT p99", "E2E p50", "E2E p99", "failed")
MEASURED = ("router", "requests each got", "E2E mean", "E2E p50", "E2E slowest", "failed")


Route = Callable[[list[int | None], int], int | None]  # (connections, the last choice) → choice


class StudentRouter(Router):
    """route(connections, last): None in connections is a replica that is down, last begins at −1.

    choose raises ValueError for an answer that is no replica which is up.
    """

    def __init__(self, route: Route, num_replicas: int) -> None:
        super().__init__(num_replicas)
        self.route, self.last = route, -1

    def choose(self, prompt: Sequence[int], loads: Sequence[Load]) -> int:
        connections: list[int | None] = [None] * len(self.weights)
        for load in loads:
            connections[load.index] = load.connections
        found = self.route(list(connections), self.last)
        if type(found) is not int or not 0 <= found < len(connections) or (
            connections[found] is None
        ):  # fmt: skip
            raise ValueError(
                f"route({connections}, {self.last}) gave {found!r}: that is no replica that is up."
            )
        self.last = found
        return found


def routed_by(route: Route, replicas: str, **workload: object) -> dict:
    """The report of replicas behind a student's router. workload: as make_workload's."""
    options, specs = EngineOptions(), parse_replicas(replicas)
    requests = make_workload(**workload)
    cluster = Cluster(
        [partial(make_engine, spec, options) for spec in specs], StudentRouter(route, len(specs)),
        request_s=[get_preset(options.preset).request_s] * len(specs), keep_traces=False,
    )  # fmt: skip
    run = cluster.run(requests)
    return {"model": options.model, **cluster_report(cluster, run, specs)}


def simulated_routers(runs: Mapping[str, Mapping], title: str) -> cards.Html:
    """A row a router, from minillm.sim.simulate.simulate_cluster's reports."""
    first = next(iter(runs.values()))
    rows = [
        (
            router, " / ".join(str(replica["sent"]) for replica in report["replicas"]),
            *(
                seconds(None if report[key] is None else report[key] / 1e3)
                for key in ("ttft_p50_ms", "ttft_p99_ms", "e2e_p50_ms", "e2e_p99_ms")
            ),
            f"{report['failed']:,}",
        )
        for router, report in runs.items()
    ]  # fmt: skip
    gpus = ", ".join(replica["gpu"] for replica in first["replicas"])
    return _card(title, f"◐ simulated: {gpus}; {first['model']}", SIMULATED, rows)


def measured_routers(
    runs: Mapping[str, tuple[Sequence[ClientRequest], Sequence[int]]], title: str
) -> cards.Html:
    """The same from a load that was really sent: (requests, how many each replica finished)."""
    rows = []
    for router, (requests, shares) in runs.items():
        taken = [r.e2e for r in requests if r.completed]
        rows.append((
            router, " / ".join(map(str, shares)), seconds(fmean(taken) if taken else None),
            seconds(percentile(taken, 50)), seconds(max(taken, default=None)),
            str(sum(r.failed for r in requests)),
        ))  # fmt: skip
    note = "● measured here, through nginx; the replicas are ◐ simulated GPUs in real time"
    return _card(title, note, MEASURED, rows)


def _card(
    title: str, note: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> cards.Html:
    html = cards.card(cards.head(title, note), cards.table(columns, rows))
    return cards.Html(html, f"{title} ({note})\n{cards.text_table(columns, rows)}")
