"""What workers are told of a step is that step: rows, tokens and block tables, whatever comes."""

from __future__ import annotations

import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from minillm.core import CacheConfig, EngineConfig, LLMEngine, SamplingParams, SchedulerConfig
from minillm.model.wire import StepDecoder, StepEncoder
from minillm.sim import SimulatedRunner

SAME = ("request_id", "params", "stop_ids", "token_ids", "num_prompt_tokens", "num_output_tokens")


class CheckingRunner(SimulatedRunner):
    """Sends each step over the wire and compares what arrives. seen: stand-ins by request."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = StepEncoder(), StepDecoder()
        self.seen: dict = {}
        self.sizes: list[tuple[int, int]] = []  # rows, bytes

    def execute(self, output):
        message = pickle.dumps(self.encoder.encode(output))
        self.sizes.append((len(output.rows), len(message)))
        arrived = self.decoder.decode(pickle.loads(message))
        assert arrived.step_id == output.step_id
        assert arrived.preempted_ids == output.preempted_ids
        assert arrived.finished_ids == output.finished_ids
        stand_ins = {}
        for row, there in zip(output.rows, arrived.rows, strict=True):
            assert there[1:] == row[1:]
            for name in SAME:
                assert getattr(there.request, name) == getattr(row.request, name)
            stand_ins[row.request] = there.request
            # Whoever stays is the same object there too: attention keeps copies by it.
            assert self.seen.get(row.request, there.request) is there.request
        self.seen = stand_ins
        return super().execute(output)


@settings(max_examples=100)
@given(
    policy=st.sampled_from(["static", "dynamic", "continuous"]),
    sizes=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 12)), min_size=1, max_size=6),
    blocks=st.integers(10, 20),
    chunk=st.sampled_from([0, 3]),
    aborted=st.integers(0, 8),
)
def test_workers_see_what_the_engine_schedules(policy, sizes, blocks, chunk, aborted):
    runner = CheckingRunner()
    limits = SchedulerConfig(
        max_num_seqs=3, max_num_batched_tokens=16, long_prefill_token_threshold=chunk,
        max_queue_delay_s=0.0,
    )  # fmt: skip
    engine = LLMEngine(EngineConfig(CacheConfig(blocks, 4), limits, policy), runner)
    for i, (prompt, output) in enumerate(sizes):
        params = SamplingParams(max_tokens=output, seed=i)
        engine.add_request(str(i), [3 + n % 5 for n in range(prompt)], params)
    engine.close_input()
    for step in range(500):
        if not engine.has_unfinished:
            break
        if step == aborted:
            engine.abort("0")
        engine.step()
        assert engine.last_error is None
    assert not engine.has_unfinished


def test_a_decode_step_is_a_small_message():
    """8 long sequences: their tokens and block tables are not sent again and again."""
    runner = CheckingRunner()
    limits = SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=10_000)
    engine = LLMEngine(EngineConfig(CacheConfig(1000), limits), runner)
    for i in range(8):
        engine.add_request(str(i), range(3, 1003), SamplingParams(max_tokens=6, ignore_eos=True))
    while engine.has_unfinished:
        engine.step()
    assert engine.last_error is None
    prefill, *decodes = [size for _, size in runner.sizes]
    assert prefill > 8 * 1000
    assert max(decodes) < 8 * 200
