"""The tab *Cluster*: replicas behind a router, simulated in this page's own kernel."""

from __future__ import annotations

import ipywidgets

from minillm.sim.cluster_spec import parse_replicas
from minillm.sim.routers import ROUTERS
from minillm.sim.simulate import EngineOptions, run_cluster
from minillm.sim.workload import Lognormal, SimRequest, synthetic, with_tenants
from widgets import cards
from widgets.cluster_view import ClusterView
from widgets.dashboard import fields
from widgets.dashboard.form import Form
from widgets.dashboard.tab import Jobs, two_columns
from widgets.numbers import number3

RATES, COUNTS = (4, 8, 16, 24, 32, 48, 64), (100, 200, 300, 500)
MOST_REPLICAS = 16
MODELS = ("llama-3.1-8b", "llama-3.1-70b")
TENANTS = (("none", "no shared prompt"), ("8", "8 system prompts of 1,000 tokens"))
WORDS = {
    "round_robin": "round_robin: in turn", "random": "random",
    "least_conn": "least_conn: fewest requests", "power_of_two": "power_of_two: the idler of two",
    "least_tokens": "least_tokens: fewest tokens",
    "prefix_aware": "prefix_aware: where the prompt's beginning is cached",
    "prefix_load": "prefix_load: the same, unless that one is busy",
}  # fmt: skip
DEFAULTS = {
    "replicas": "3xA100-80GB-SXM, 1xL4", "router": "least_conn", "rate": 24, "count": 300,
    "fail": "1@4s-8s", "model": MODELS[0], "tenants": "none", "said": "",
}  # fmt: skip


def workload(count: int, rate: float, tenants: str, seed: int = 0) -> list[SimRequest]:
    """Requests of a chat: prompts about 200 tokens, outputs about 100."""
    requests = synthetic(
        count, rate, seed, inputs=Lognormal(200, 0.7, 16, 2000), outputs=Lognormal(100, 0.7, 8, 600)
    )
    return requests if tenants == "none" else with_tenants(requests, int(tenants), 1000, seed)


class ClusterTab:
    """One simulated run at a time, shown as a replay."""

    def __init__(self) -> None:
        routers = [(name, WORDS.get(name, name)) for name in ROUTERS]
        self.form = Form(
            [
                fields.buttons("go", ("run", "Run", "main-button")),
                fields.note("said"),
                fields.text("replicas", "Replicas", "3xA100-80GB-SXM, 1xL4"),
                fields.select("model", "Model", MODELS),
                fields.select("router", "Router", routers),
                fields.slider("rate", "Arrivals a second", RATES),
                fields.slider("count", "Requests", COUNTS),
                fields.select("tenants", "System prompts", TENANTS),
                fields.text("fail", "Failures: replica@from-until", "1@4s-8s, or nothing"),
            ],
            "The cluster and its load",
            **DEFAULTS,
        )  # fmt: skip
        self.form.on_press = lambda name: self.start()
        self.view = ClusterView()
        self.table = ipywidgets.HTML()
        self._jobs = Jobs(self.form)

    def panel(self) -> ipywidgets.Widget:
        return two_columns(self.form, [self.view, self.table])

    def start(self) -> bool:
        """Simulate, then show; False while one is under way."""
        return self._jobs.start(self.simulate, "Simulating …")

    def simulate(self) -> None:
        """One run with the form's settings. ValueError, in one sentence, for what cannot be."""
        form = self.form
        specs = parse_replicas(form["replicas"].replace(", ", ","))
        if len(specs) > MOST_REPLICAS:
            raise ValueError(f"This page shows at most {MOST_REPLICAS} replicas, got {len(specs)}.")
        options = EngineOptions(model=form["model"], max_num_seqs=32)
        requests = workload(form["count"], form["rate"], form["tenants"])
        cluster, run, took = run_cluster(
            specs, requests, options, router=form["router"], fail=form["fail"].strip()
        )
        self.view.replay(cluster, [str(spec) for spec in specs])
        rows = [
            (f"{i} · {spec}", str(run.sent.get(i, 0)), *_figures(run.by_replica.get(i, [])))
            for i, spec in enumerate(specs)
        ]
        rows.append(("all", str(len(requests) + run.num_retries), *_figures(run.requests)))
        columns = ("replica", "sent", "done", "TTFT p50, ms", "TTFT p99, ms", "E2E p50, s")
        self.table.value = cards.card(
            cards.head("In figures", f"◐ simulated in {took:.1f} s"), cards.table(columns, rows)
        )
        form["said"] = ""


def _figures(requests: list) -> tuple[str, ...]:
    """done, TTFT p50 and p99 in ms, E2E p50 in s; n/a where there is none."""
    from minillm.core.metrics import percentile

    done = [each for each in requests if each.completed]
    ttft = [each.ttft * 1000 for each in done if each.ttft is not None]
    e2e = [each.e2e for each in done if each.e2e is not None]
    p50, p99 = (number3(percentile(ttft, q)) if ttft else "n/a" for q in (50, 99))
    return str(len(done)), p50, p99, number3(percentile(e2e, 50)) if e2e else "n/a"
