"""The server: OpenAI's API, /metrics and /trace in front of one engine thread.

with running(make_app(LLM())) as url: ...     # or `minillm serve`
with Replicas(plans) as cluster: ...          # several behind nginx, or `minillm cluster`
"""

from minillm.serve.api import make_app
from minillm.serve.async_engine import AsyncEngine
from minillm.serve.classroom import Classroom
from minillm.serve.live_engine import serving_engine
from minillm.serve.replica import ReplicaPlan, ReplicaStatus
from minillm.serve.replicas import Replicas
from minillm.serve.server import Server, address, class_address, listen, running
from minillm.serve.service import ServerSettings

__all__ = [
    "AsyncEngine",
    "Classroom",
    "ReplicaPlan",
    "ReplicaStatus",
    "Replicas",
    "Server",
    "ServerSettings",
    "address",
    "class_address",
    "listen",
    "make_app",
    "running",
    "serving_engine",
]
