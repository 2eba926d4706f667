"""The ground floor: requests, scheduler, paged KV cache, engine, trace, metrics.

Standard library only, no I/O, no threads: it runs the same in a server and in a browser tab.
"""

from minillm.core.batch import ScheduledRow, SchedulerOutput, StepResult
from minillm.core.clock import VirtualClock, WallClock
from minillm.core.config import CacheConfig, EngineConfig, SchedulerConfig
from minillm.core.driver import Arrival, drive
from minillm.core.engine import LLMEngine
from minillm.core.errors import QueueFullError, RunnerLostError, SchedulerContractError
from minillm.core.kv_cache import KVCacheManager
from minillm.core.metrics import Summary, percentile, request_metrics, summarize
from minillm.core.request import FinishReason, Request, RequestOutput, RequestStatus
from minillm.core.runner import Runner, RunnerInfo
from minillm.core.sampling_params import SamplingParams
from minillm.core.scheduler import (
    ContinuousScheduler,
    DynamicScheduler,
    Scheduler,
    StaticScheduler,
)
from minillm.core.trace import Trace

__all__ = [
    "Arrival", "CacheConfig", "ContinuousScheduler", "DynamicScheduler", "EngineConfig",
    "FinishReason", "KVCacheManager", "LLMEngine", "QueueFullError", "Request", "RequestOutput",
    "RequestStatus", "Runner", "RunnerInfo", "RunnerLostError", "SamplingParams", "ScheduledRow",
    "Scheduler", "SchedulerConfig", "SchedulerContractError", "SchedulerOutput", "StaticScheduler",
    "StepResult", "Summary", "Trace", "VirtualClock", "WallClock", "drive", "percentile",
    "request_metrics", "summarize",
]  # fmt: skip
