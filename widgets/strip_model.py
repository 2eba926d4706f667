"""What a strip chart shows: the engine's own figures from a trace, the machine's from telemetry.

Two groups, each sampled at its own times (seconds on the trace's clock). A value holds from the
sample before to its own. ENGINE: one sample a step, and one at each end of an idle time. MACHINE:
the samples of minillm.telemetry. What was not read has a reason in words. No ipywidgets here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minillm.core.trace import Record, RequestEvent, StepRecord, TraceHeader
from minillm.sim.activity import GPUActivity, sizes_of, step_bytes
from widgets.strip_wire import StripRing

if TYPE_CHECKING:
    from minillm.telemetry import EngineMeter, Sample

ENGINE, MACHINE = 0, 1
GAP_S = 0.005  # a pause between steps that is longer is idle time, a shorter one bookkeeping
WINDOW_S = 0.5  # of the engine's rates


@dataclass(frozen=True, slots=True)
class Strip:
    """One strip. group, index: its column. unit: "", "%", "B", "B/s", "W", "tok/s".

    limit: the axis' end where it is known. aside: what stands under the value. tone: "work",
    "queue" or "machine".
    """

    key: str
    label: str
    group: int
    index: int
    unit: str = ""
    aside: str = ""
    tone: str = "machine"


_ENGINE = (
    ("running", "Rows in the step", "", "rows", "work"),
    ("waiting", "Queued requests", "", "", "queue"),
    ("output_rate", "Output tokens a second", "tok/s", f"over {WINDOW_S:g} s", "work"),
    ("kv", "KV blocks in use", "", "blocks", "work"),
    ("duty", "Engine duty cycle", "%", "of the time", "machine"),
    ("bandwidth", "Achieved memory bandwidth", "B/s", "weights and KV read", "machine"),
    ("sim_busy", "GPU busy", "%", "simulated", "machine"),
    ("sim_tensor", "Tensor cores, share of peak", "%", "simulated", "machine"),
    ("sim_dram", "Memory bandwidth, share of peak", "%", "simulated", "machine"),
)
_MACHINE = (
    ("gpu_busy", "SM busy (share of time any kernel ran)", "%", "not efficiency", "machine"),
    ("gpu_tensor", "Tensor cores active", "%", "of cycles", "machine"),
    ("gpu_dram", "GPU memory bandwidth", "%", "of the maximum", "machine"),
    ("gpu_memory", "GPU memory claimed", "B", "", "machine"),
    ("gpu_power", "GPU power", "W", "", "machine"),
    ("cpu_busy", "CPU busy, all programs", "%", "of all processors", "machine"),
    ("process_memory", "Process memory", "B", "resident", "machine"),
    ("cpu_power", "CPU power", "W", "", "machine"),
)
STRIPS = [
    Strip(key, label, group, index, unit, aside, tone)
    for group, rows in ((ENGINE, _ENGINE), (MACHINE, _MACHINE))
    for index, (key, label, unit, aside, tone) in enumerate(rows)
]
MACHINE_KEYS = [strip.key for strip in STRIPS if strip.group == MACHINE]
SIMULATED = ("sim_busy", "sim_tensor", "sim_dram")
LIMITS = {"gpu_memory": "gpu_memory_total", "gpu_power": "gpu_power_limit"}  # another field


class StripModel:
    """Both rings, filled from a trace's records and from telemetry samples.

    weight_bytes, kv_token_bytes: what a step reads; None looks the model's sizes up.
    only: keys of the strips that are wanted; () all.
    """

    def __init__(
        self,
        keep: int = 6000,
        weight_bytes: float | None = None,
        kv_token_bytes: float | None = None,
        only: Iterable[str] = (),
    ) -> None:
        if keep < 2:
            raise ValueError(f"A strip chart keeps at least 2 samples, got {keep!r}.")
        self._given = weight_bytes, kv_token_bytes
        self.only = frozenset(only)
        self.rings = (
            StripRing(ENGINE, len(_ENGINE), keep),
            StripRing(MACHINE, len(_MACHINE), keep),
        )
        self.reset(None)

    def reset(self, header: TraceHeader | None) -> None:
        """A new run."""
        from minillm.telemetry import EngineMeter

        stream = random.SystemRandom().getrandbits(32)
        for ring in self.rings:
            ring.reset(stream)
        self.header = header
        self.origin: float | None = None  # the first arrival
        self.now, self.done = 0.0, False
        self.limits: dict[str, float] = {}
        self.reasons: dict[str, str] = {}
        self.seen: set[str] = set()
        self.meter: EngineMeter = EngineMeter(WINDOW_S, *self._sizes(header))
        self.activity = GPUActivity.of_run(header) if header else None
        self._queued, self._kv = 0, 0
        if header is not None:
            self._set_up(header)

    def _sizes(self, header: TraceHeader | None) -> tuple[float | None, float | None]:
        sizes = sizes_of(header) if header and self._given == (None, None) else None
        return step_bytes(*sizes) if sizes else self._given

    def amend(self, header: TraceHeader) -> None:
        """The run goes on under other limits."""
        if self.header is None or header.device != self.header.device:
            self.activity = GPUActivity.of_run(header)
        self.header = header
        if slots := header.config.get("max_num_seqs"):
            self.limits["running"] = float(slots)

    def _set_up(self, header: TraceHeader) -> None:
        slots = header.config.get("max_num_seqs")
        self.limits = {"kv": float(header.num_blocks)}
        if slots:
            self.limits["running"] = float(slots)
        if header.provenance == "simulated":
            self.reasons |= dict.fromkeys(("gpu_memory", "gpu_power"), "not simulated")
            if self.activity is None:
                self.reasons |= dict.fromkeys(SIMULATED, f"{header.device} has no data sheet here")
        elif header.t0_unix is None:
            self.reasons |= dict.fromkeys(MACHINE_KEYS, "this run was recorded elsewhere")
        else:
            self.reasons |= dict.fromkeys(MACHINE_KEYS, "no telemetry is attached")

    @property
    def simulated(self) -> bool:
        return self.header is not None and self.header.provenance == "simulated"

    # ── what comes in ───────────────────────────────────────────────────────────────────────

    def extend(self, records: Iterable[Record]) -> int:
        """The next records of the run; returns how many."""
        count = 0
        for record in records:
            count += 1
            if isinstance(record, StepRecord):
                self._add_step(record)
            else:
                self._add_event(record)
        return count

    def _add_event(self, event: RequestEvent) -> None:
        if event.event == "arrive":
            if self.origin is None or event.t < self.origin:
                self.origin = event.t
            self._idle(event.t)  # the queue was shorter until now
            self._queued += 1
        elif event.event in ("refuse", "abort"):
            self._queued = max(0, self._queued - 1)

    def _idle(self, t: float) -> None:
        """Nothing ran from the last sample to t."""
        last = self.rings[ENGINE].last_t
        if t - (self.origin if last == -math.inf else last) > GAP_S:
            self._sample(t, 0, self._queued, self._kv, None)

    def _add_step(self, step: StepRecord) -> None:
        if self.origin is None:
            self.origin = step.t_start
        self._idle(step.t_start)
        context = tokens = 0
        for _, _, real, padding, start, token_id in step.raw_rows:
            context += start + real + padding
            tokens += token_id is not None
        self.meter.add(step.t_start, step.t_end, context, tokens)
        self.now = max(self.now, step.t_end)
        self._queued, self._kv = step.waiting, step.kv_used
        self._sample(step.t_end, step.running, step.waiting, step.kv_used, step)

    def _sample(
        self, t: float, running: int, waiting: int, kv: int, step: StepRecord | None
    ) -> None:
        meter = self.meter.read(t)
        bandwidth = None if self.simulated else meter.values.get("bandwidth")
        shares: tuple[float | None, ...] = (None, None, None)
        if self.activity is not None:
            found = self.activity.of(step) if step else None
            shares = tuple(100.0 * share for share in found) if found else (0.0, 0.0, 0.0)
        rate, duty = meter.values.get("output_rate"), meter.values.get("duty")
        values = (running, waiting, rate, kv, duty, bandwidth, *shares)
        if not self.rings[ENGINE].add(t, values):
            return
        for strip, value in zip(STRIPS, values, strict=False):
            if value is not None:
                self.seen.add(strip.key)
        if "bandwidth" in meter.missing:
            self.reasons["bandwidth"] = meter.missing["bandwidth"]

    def add_telemetry(self, samples: Iterable[Sample]) -> None:
        """Samples of this machine, taken while a measured run goes on; others are left out."""
        header = self.header
        if header is None or self.simulated or header.t0_unix is None:
            return
        for sample in samples:
            t = sample.t_unix - header.t0_unix
            if self.origin is None or t < self.origin - WINDOW_S:
                continue
            values = [sample.values.get(key) for key in MACHINE_KEYS]
            if not self.rings[MACHINE].add(t, values):
                continue
            self.now = max(self.now, t)
            for key, value in zip(MACHINE_KEYS, values, strict=True):
                if value is not None:
                    self.seen.add(key)
                    self.reasons.pop(key, None)
                else:
                    self.reasons[key] = sample.missing.get(key, "not read")
            for key, total in LIMITS.items():
                if total in sample.values:
                    self.limits[key] = sample.values[total]

    # ── what goes out ───────────────────────────────────────────────────────────────────────

    def shown(self) -> list[Strip]:
        """The strips with figures, in order; what a GPU tells better of itself is left out."""
        hidden = {"cpu_busy", "bandwidth"} if "gpu_memory" in self.seen else set()
        hidden |= {"duty"} if "sim_busy" in self.seen else set()
        known = [each for each in STRIPS if each.key in self.seen and self._wanted(each)]
        return [each for each in known if each.key not in hidden]

    def _wanted(self, strip: Strip) -> bool:
        return not self.only or strip.key in self.only

    def missing(self) -> list[tuple[str, list[str]]]:
        """(reason, labels) of what cannot be shown here; the CPU's own power among it."""
        skipped = ("bandwidth",) if self.simulated else SIMULATED
        found: dict[str, list[str]] = {}
        for strip in STRIPS:
            if strip.key not in self.seen and strip.key not in skipped and self._wanted(strip):
                reason = self.reasons.get(strip.key)
                if reason:
                    found.setdefault(reason, []).append(strip.label.split(" (")[0])
        return list(found.items())

    def as_dicts(self) -> list[dict]:
        """The strips as the browser gets them."""
        return [
            {"key": s.key, "label": s.label, "group": s.group, "index": s.index, "unit": s.unit,
             "aside": s.aside, "tone": s.tone, "limit": self._limit(s)}
            for s in self.shown()
        ]  # fmt: skip

    def _limit(self, strip: Strip) -> float | None:
        return 100.0 if strip.unit == "%" else self.limits.get(strip.key)

    def series(self, strip: Strip) -> list[tuple[float, float]]:
        """(seconds since the first arrival, value) of a strip, NaN for what is missing."""
        origin = self.origin or 0.0
        rows = self.rings[strip.group].samples()
        return [(row[0] - origin, row[1 + strip.index]) for row in rows]

    def message(self, group: int, first: int, kind: int) -> tuple[dict, bytes]:
        """A frame and its JSON part."""
        ring = self.rings[group]
        first = max(first, ring.first)
        data, end = ring.frame(first, kind)
        content = {
            "lane": group, "stream": ring.stream, "next_step": end, "more": end < ring.next,
            "first_event": 0, "next_event": 0, "origin": self.origin, "now": self.now,
            "done": self.done,
        }  # fmt: skip
        return content, data
