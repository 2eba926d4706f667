"""The same engine as a Ray Serve deployment: replicas on any number of machines, autoscaled.

from ray import serve                      # `make cluster`, the extra `cluster`
serve.run(ray_application(make_llm))       # http://127.0.0.1:8000/v1

Ray places the replicas, watches and restarts them, adds and removes some by load, and shares the
requests out (two at random, the one with the shorter queue). Each replica is this package's app:
one LLM, one engine thread, streams as they are without Ray.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ray import serve
from ray.serve.config import AutoscalingConfig
from starlette.types import ASGIApp, Receive, Scope, Send

from minillm.llm import LLM
from minillm.serve.api import make_app
from minillm.serve.errors import ApiError
from minillm.serve.live_engine import serving_engine
from minillm.serve.server import GRACE_S
from minillm.serve.service import ServerSettings, Service

MAX_ONGOING = 1000  # calls that Ray passes to one replica: its own queue says no, with a reason
OWN_PATHS = ("/metrics", "/trace")  # of one engine: behind a router each call would meet another


class Behind:
    """An app as a router may show it: without the paths that belong to a single engine."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in OWN_PATHS:
            refusal = ApiError(404, f"{scope['path']} is not behind the router.", code="not_found")
            await refusal.response()(scope, receive, send)
            return
        await self.app(scope, receive, send)


def ray_application(
    make_llm: Callable[[], LLM],
    settings: ServerSettings | None = None,
    *,
    policy: Any = None,
    limits: Mapping[str, Any] | None = None,
    ray_actor_options: Mapping[str, Any] | None = None,
    **autoscaling: Any,
) -> serve.Application:
    """For serve.run. make_llm is called by each replica, so it travels there by value.

    limits: the scheduler's, as in serving_engine. ray_actor_options: what a replica takes, such as
    {"num_gpus": 1}. autoscaling: fields of Ray's AutoscalingConfig: min_replicas (1), max_replicas
    (4), target_ongoing_requests (2) and so on.
    """
    limits = dict(limits or {})
    scaling = AutoscalingConfig(**{"min_replicas": 1, "max_replicas": 4, **autoscaling})

    def build() -> Behind:
        llm = make_llm()
        app = make_app(llm, serving_engine(llm, policy, **limits), settings)
        return Behind(app, app.state.service)

    @serve.ingress(build)
    class Replica:
        """Beside the HTTP API: what its handle can ask."""

        def load(self) -> dict[str, float]:
            """Running and waiting requests, and the share of KV blocks in use."""
            engine = self.app.service.engine
            kv = engine.engine.kv
            return {
                "running": len(engine.engine.scheduler.running),
                "waiting": engine.num_waiting,
                "kv_usage": kv.num_used_blocks / kv.pool.num_blocks,
            }

        def process(self) -> int:
            """The id of its process."""
            return os.getpid()

        def check_health(self) -> None:
            """Called by Ray, which replaces a replica that raises."""
            if not self.app.service.engine.alive:
                raise RuntimeError("The engine thread has stopped.")

    deployment = serve.deployment(
        Replica, name="minillm", autoscaling_config=scaling,
        max_ongoing_requests=MAX_ONGOING, graceful_shutdown_timeout_s=GRACE_S,
        ray_actor_options=dict(ray_actor_options or {}),
    )  # fmt: skip
    return deployment.bind()
