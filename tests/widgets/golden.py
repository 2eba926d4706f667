"""The golden frame: hand-made records with one of everything, as Python encodes them.

tests/golden/frame.bin and frame.json are what `write` makes of them; Python and JavaScript read
both. Run `python tests/widgets/golden.py` when the contract changes, and look at the difference.
"""

from __future__ import annotations

import json
from pathlib import Path

from minillm.core.trace import Record, RequestEvent, Row, StepRecord, TraceHeader
from widgets.frames import RingModel, decode

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
    spelt = {**frame._asdict(), "steps": [list(s) for s in frame.steps]}
    spelt["rows"] = [list(row) for row in frame.rows]
    return {"message": message, "frame": spelt}, data


def write() -> None:
    text, data = golden()
    (FOLDER / "frame.bin").write_bytes(data)
    (FOLDER / "frame.json").write_text(
        json.dumps(text, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    write()
