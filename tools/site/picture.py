"""The landing page's picture: the same requests under two policies, on a simulated A100.

The runs are the course's own (engine, scheduler and cost model), made while the page is built;
the virtual clock makes them the same every time. Needs the standard library alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from minillm import LLM
from minillm.core.trace import Trace
from minillm.sim import SimulatedRunner
from widgets.figures import static_figure
from widgets.lesson import simulate, workload
from widgets.shapes import PALETTE

GPU = "A100-80GB-SXM"
POLICIES = {
    "static": "waits for a full batch, then runs until its longest output ends",
    "continuous": "joins and leaves at every step",
}
REQUESTS, SLOTS, LONGEST, RATE = 14, 6, 90, 25.0


def runs() -> list[Trace]:
    """One trace a policy: the mixed workload of `minillm compare`, its first requests."""
    llm = LLM.simulated(runner=SimulatedRunner.for_gpu(GPU), max_num_seqs=SLOTS)
    requests = workload(llm, REQUESTS, longest=LONGEST, rate=RATE)
    return [simulate(llm, requests, policy, max_num_seqs=SLOTS) for policy in POLICIES]


def svg(traces: Sequence[Trace]) -> str:
    """The timeline as inline SVG whose colours are the page's, so that it follows its theme."""
    text = static_figure(traces, subtitles=list(POLICIES.values())).svg
    for name, color in PALETTE.items():
        text = text.replace(f":{color}", f":var(--{name},{color})")
        text = text.replace(f'fill="{color}"', f'style="fill:var(--{name},{color})"')
    return text
