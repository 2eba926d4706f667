"""What a browser tab has: no torch, numpy, psutil or matplotlib, and no thread that starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("torch", "numpy", "psutil", "pynvml", "matplotlib")
WIDGETS = ("ipywidgets", "anywidget", "traitlets", "IPython")
BLOCK = """
import asyncio, json, sys, threading
for name in json.loads(sys.argv[1]): sys.modules[name] = None
def refuse(self): raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
"""
TAB = """
from widgets.replay import Replay

async def main():
    replay, sent = Replay("a100-continuous"), []
    replay.bar.send = lambda content, buffers=None: sent.append(content)
    replay.play(pace=20.0)
    await asyncio.wait_for(replay.finished(), 60)
    for to in ("csv", "png", "chrome"):
        replay.bar._handle_custom_msg({"ask": "export", "to": to, "by": "me"}, [])
        await asyncio.wait_for(replay.worker.idle(), 60)
    text = replay.text.text
    html = replay.freeze().to_html()
    replay.close()
    files = [each["kind"] for each in sent if each["kind"] in ("file", "picture")]
    print(json.dumps([replay.cursor.t, replay.model.end, files, text, len(html)]))

asyncio.run(main())
"""
BARE = """
from minillm.recordings import load_recording
from widgets.replay.files import Downloads, Upload
from widgets.replay.model import ReplayModel, Situation
from widgets.replay.words import moment
model, situation = ReplayModel(load_recording("a100-static").trace), Situation()
situation.take(model.between(0, model.position(1.0)))
print(json.dumps(moment(model, situation, 1.0).text))
"""


def run(code: str, blocked: tuple[str, ...]) -> object:
    done = subprocess.run(
        [sys.executable, "-c", BLOCK + code, json.dumps(blocked)],
        cwd=ROOT, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_plays_and_exports_as_a_task_of_the_event_loop():
    t, end, files, text, size = run(TAB, HEAVY)
    assert t == end
    assert files == ["file", "picture", "file"]
    assert "24 done" in text
    assert size > 10_000


def test_what_is_behind_it_needs_nothing_installed():
    assert "waiting" in run(BARE, (*HEAVY, *WIDGETS))
