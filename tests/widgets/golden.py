"""The golden frame: hand-made records with one of everything, as Python encodes them.

tests/golden/frame.bin and frame.json are what `write` makes of them, blocks.bin and blocks.json the
same of a run's KV blocks; Python and JavaScript read them. When the contract changes, run
`python -m tests.widgets.golden` and look at the difference.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from minillm.core.trace import Record, RequestEvent, Row, StepRecord, Trace, TraceHeader
from widgets.blocks import BlockRing, BlockState
from widgets.cluster_model import ClusterEvent, ClusterHeader, ClusterHistory, Load
from widgets.frames import RingModel, decode
from widgets.queue_model import counts, queue_figures

FOLDER = Path(__file__).resolve().parent.parent / "golden"
STREAM = 0xC0FFEE01


def records() -> list[Record]:
    """Two requests: padded prefill, decode, a preemption and its re-prefill, a dead row, ends."""

    def event(t, req, name, **data):
        return RequestEvent(t, req, f"req-{req}", name, data)

    def step(number, t0, t1, waiting, rows, used):
        made = [Row(*row) for row in rows]
        return StepRecord(number, t0, t1, waiting, len(made), 512, made, used, 0)

    prompt = "Überraschung: 今天 – what is “paged” attention?"
    return [
        event(0.5, 0, "arrive", prompt_len=30, max_tokens=5, nickname=None, prompt_preview=prompt),
        event(0.75, 1, "arrive", prompt_len=20, max_tokens=9, nickname="Ada", prompt_preview=""),
        event(1.0, 0, "admit"),
        event(1.0, 1, "admit"),
        step(0, 1.0, 1.125, 2, [(0, 0, 30, 0, 0, 7), (1, 0, 20, 10, 0, 8)], 4),
        event(1.125, 0, "first_token"),
        event(1.125, 1, "first_token"),
        step(1, 1.125, 1.25, 0, [(0, 1, 1, 0, 30, 9), (1, 1, 1, 0, 20, 0)], 5),
        event(1.25, 1, "preempt", tokens_lost=21, tokens_cached=16),
        step(2, 1.25, 1.375, 1, [(0, 1, 1, 0, 31, 3)], 2),
        event(1.375, 0, "finish", reason="length"),
        step(3, 1.5, 1.75, 0, [(0, 2, 0, 1, 32, None), (1, 0, 5, 0, 16, None)], 4),
        step(4, 1.75, 2.0, 0, [(0, 2, 0, 1, 32, None), (1, 0, 1, 0, 21, 11)], 4),
        step(5, 2.0, 2.125, 0, [(1, 1, 1, 0, 22, 12)], 70_000),
        event(2.125, 1, "finish", reason="stop"),
    ]


def header() -> TraceHeader:
    config = {"max_num_seqs": 2, "max_num_batched_tokens": 512}
    return TraceHeader("simulated", "golden", "none", "float32", "static", 64, 16, config)


def ring() -> RingModel:
    """A ring that was fed the golden records."""
    model = RingModel(lane=1)
    model.reset(header())
    model.stream_id = STREAM
    model.extend(records())
    return model


def golden() -> tuple[dict, bytes]:
    """The golden message's JSON part with its frame spelt out, and the frame."""
    message, data = ring().snapshot()
    frame = decode(data)
    spelt = {name: value for name, value in frame._asdict().items() if value is not None}
    spelt["steps"] = [list(s) for s in frame.steps]
    spelt["rows"] = [list(row) for row in frame.rows]
    return {"message": message, "frame": spelt}, data


def block_ring() -> BlockRing:
    """The ring of tests/golden/trace.jsonl, a run with shares, evictions and a preemption; its
    first step has left it, so that the snapshot begins in the middle."""
    lines = (FOLDER / "trace.jsonl").read_text(encoding="utf-8").splitlines()
    trace = Trace.from_jsonl(lines)
    model = BlockRing(len(trace.steps) - 1)
    model.reset(trace.header)
    model.stream_id = STREAM
    model.extend(trace.records)
    return model


def spelt_state(state: BlockState) -> dict:
    """A state as JSON, marks and all."""
    return {
        **state.as_dict(),
        "used": state.num_used,
        "free": state.num_free,
        "taken": {str(block): req for block, req in state.taken.items()},
        "hits": {str(block): req for block, req in state.hits.items()},
        "evicted": sorted(state.evicted),
        "filled": {str(block): state.filled(block) for block in sorted(state.owners())},
    }


def blocks_golden() -> tuple[dict, bytes]:
    """A message with a frame of blocks, the state after each of its steps, and what the run says
    as a queue."""
    model = block_ring()
    lines = (FOLDER / "trace.jsonl").read_text(encoding="utf-8").splitlines()
    trace = Trace.from_jsonl(lines)
    message, data = model.snapshot()
    frame = decode(data)
    numbers = range(model.first_step, model.next_step)
    text = {
        "message": message,
        "cached": frame.cached,
        "starts": frame.starts,
        "ops": [list(op) for op in frame.ops],
        "queue": {
            "figures": asdict(queue_figures(trace)),
            "system": [list(pair) for pair in counts(trace)],
            "waiting": [list(pair) for pair in counts(trace, waiting=True)],
        },
        "states": [spelt_state(model.state(number)) for number in numbers],
    }
    return text, data


def cluster_history() -> ClusterHistory:
    """Three ticks of two replicas: one fails and comes back, some figures can't be read."""
    header = ClusterHeader(("A100", "“H100” ü"), "least_conn", "measured", "A100", "m", (8, None))
    history = ClusterHistory(header, 3, [ClusterEvent(0.5, 1, "fail", 3)])
    history.stream = STREAM
    history.add(0.0, [Load(1, 0, 0.25, True, 1), Load(2, 70_000, 1.0, True, 0)])
    history.add(0.5, [Load(2, 5, 0.5, True, 4), Load(0, 0, 0.0, False, 2)])
    history.add(1.0, [Load(8, 9, 0.9996, True, 9), Load(None, None, None, False, None)])
    history.add(1.5, [Load(3, 0, 0.1, True, 9), Load(1, 0, None, True, 3)])
    history.events.append(ClusterEvent(1.5, 1, "return"))
    return history


def cluster_golden() -> tuple[dict, bytes]:
    """The message of a cluster's history with its ticks spelt out, and the frame."""
    history = cluster_history()
    message, data = history.message()
    ticks = [[t, [[*load] for load in loads]] for t, loads in history.ticks]
    return {"message": message, "ticks": ticks}, data


def write() -> None:
    made = {"frame": golden(), "blocks": blocks_golden(), "cluster": cluster_golden()}
    for name, (text, data) in made.items():
        (FOLDER / f"{name}.bin").write_bytes(data)
        (FOLDER / f"{name}.json").write_text(
            json.dumps(text, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    write()
