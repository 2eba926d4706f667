"""The tab *Live* in a browser tab, where there is no engine server: a simulated GPU in this kernel.

The same figures as of a real engine; requests come from the buttons and the field above them.
"""

from __future__ import annotations

import ipywidgets

from minillm.sim import SimulatedRunner
from widgets.block_map import BlockMap
from widgets.histogram import Histogram
from widgets.lesson import workload
from widgets.playground import Playground
from widgets.strip_chart import StripChart

GPU, MODEL = "A100-80GB-SXM", "llama-3.1-8b"
SLOTS, BLOCKS, BURST, LONGEST = 8, 256, 16, 160
WORDS = (
    "<p>A browser tab has no engine server: here an A100 with Llama-3.1-8B is ◐ simulated in the "
    "page’s own kernel, in real time. Its tokens are made up. <code>make dashboard</code> follows "
    "a real engine on your machine.</p>"
)


class HereTab:
    """One engine, which opens with the first request and stays open until Stop."""

    def __init__(self, *, threads: bool | None = None) -> None:
        from minillm.llm import LLM

        llm = LLM.simulated(runner=SimulatedRunner.for_gpu(GPU, MODEL), num_blocks=BLOCKS)
        self.play = Playground(
            llm, workload(llm, BURST, longest=LONGEST), max_tokens=LONGEST, pace=1.0,
            threads=threads, max_num_seqs=SLOTS,
        )  # fmt: skip
        self.figures = [StripChart(), BlockMap(), Histogram()]
        for figure in self.figures:
            self.play.session.watch(figure)

    def panel(self) -> ipywidgets.Widget:
        words = ipywidgets.HTML(f'<div class="mld-words">{WORDS}</div>')
        panel = ipywidgets.VBox([words, self.play.panel, *self.figures])
        panel.add_class("mld-main")
        return panel

    def close(self) -> None:
        self.play.close()
