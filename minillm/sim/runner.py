"""SimulatedRunner: takes the scheduler's rows and answers with seconds instead of tensors."""

from __future__ import annotations

from minillm.core.batch import SchedulerOutput, StepResult
from minillm.core.request import Request
from minillm.core.runner import Runner, RunnerInfo
from minillm.sim.cost_model import CostModel


class SimulatedRunner(Runner):
    """A device of that cost model. The tokens are made up, but always the same for a sequence.

    A token depends on the sequence before it alone, as greedy decoding does: batch mates, chunks
    and preemption cannot change it. Ids in [3, vocab_size): no EOS of the usual vocabularies.
    """

    def __init__(
        self,
        cost_model: CostModel | None = None,
        *,
        device: str = "A100 80 GB (three constants)",
        model: str = "Llama-3.1-8B",
        dtype: str = "bf16",
        vocab_size: int = 32_000,
    ) -> None:
        self.cost_model = cost_model or CostModel()
        self.vocab_size = vocab_size
        self.info = RunnerInfo("simulated", device, model, dtype)

    def execute(self, output: SchedulerOutput) -> StepResult:
        terms = self.cost_model.terms(output.rows)
        tokens = {
            row.request.request_id: self._token(row.request) for row in output.rows if row.samples
        }
        return StepResult(tokens, sum(terms.values()), terms)

    def _token(self, request: Request) -> int:
        """One linear congruential step (Knuth's MMIX constants) from last token and position."""
        state = request.token_ids[-1] * 6364136223846793005
        state += request.num_tokens * 1442695040888963407
        return 3 + (state >> 16) % (self.vocab_size - 3)
