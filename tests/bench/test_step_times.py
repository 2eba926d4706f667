"""Single steps of an engine: prompts whole, a token each afterwards, real and simulated."""

import pytest

from minillm import LLM
from minillm.bench.step_times import load_of_step, run_steps, seconds_of
from minillm.sim import SimulatedRunner
from minillm.sim.pipeline import Load


def test_a_real_engine_reads_all_prompts_in_one_step(tiny):
    run = run_steps(tiny, batch=3, prompt=5, outputs=4)
    assert load_of_step(run.prefill) == Load(0, 0, [(0, 5)] * 3, 3)
    decode = load_of_step(run.decode)
    assert (decode.num_decode, decode.num_sampled) == (3, 3)
    assert decode.context in (3 * 6, 3 * 7, 3 * 8)
    assert seconds_of(run.prefill) > 0
    assert seconds_of(run.decode) > 0


def test_a_simulated_one_says_what_its_cost_model_says():
    runner = SimulatedRunner.for_gpu("A100-80GB-SXM")
    llm = LLM.simulated(runner=runner)
    run = run_steps(llm, batch=2, prompt=600, outputs=2)
    cost = runner.cost_model
    assert seconds_of(run.prefill) == pytest.approx(cost.seconds(Load(0, 0, [(0, 600)] * 2, 2)))
    assert seconds_of(run.decode) == pytest.approx(cost.seconds(Load(2, 2 * 601, (), 2)))


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"batch": 0, "prompt": 4}, "batch must be an integer ≥ 1, got 0"),
        ({"batch": 1, "prompt": 0}, "prompt must be an integer ≥ 1, got 0"),
        ({"batch": True, "prompt": 4}, "batch must be an integer ≥ 1, got True"),
        ({"batch": 1, "prompt": 4, "outputs": 1}, "outputs must be an integer ≥ 2, got 1"),
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes, sentence):
    with pytest.raises(ValueError, match=sentence):
        run_steps(LLM.simulated(), **sizes)


@pytest.mark.parametrize("sizes", [(1, 9000), (40, 400)])
def test_what_does_not_fit_is_refused_with_the_numbers(sizes):
    batch, prompt = sizes
    sentence = rf"{batch} × \({prompt} \+ 7\) tokens do not fit at once: .* 512, .* 64 blocks of 16"
    with pytest.raises(ValueError, match=sentence):
        run_steps(LLM.simulated(max_model_len=512, num_blocks=64), batch, prompt)
