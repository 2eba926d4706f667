"""Who runs next: one contract (`Scheduler`) and the three policies that fulfil it."""

from minillm.core.config import SchedulerConfig, check_policy
from minillm.core.kv_cache import KVCacheManager
from minillm.core.scheduler.base import Scheduler
from minillm.core.scheduler.continuous import ContinuousScheduler
from minillm.core.scheduler.dynamic import DynamicScheduler
from minillm.core.scheduler.static import StaticScheduler

SCHEDULERS = {cls.name: cls for cls in (StaticScheduler, DynamicScheduler, ContinuousScheduler)}


def make_scheduler(policy: str, config: SchedulerConfig, kv: KVCacheManager) -> Scheduler:
    """The scheduler of that name; ValueError names the valid ones."""
    check_policy(policy)
    return SCHEDULERS[policy](config, kv)


__all__ = [
    "SCHEDULERS", "ContinuousScheduler", "DynamicScheduler", "Scheduler", "StaticScheduler",
    "make_scheduler",
]  # fmt: skip
