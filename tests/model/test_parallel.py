"""A model split over worker processes computes what it computes whole, and leaves nobody behind.

Log probabilities of the whole vocabulary stand for the logits: they are what requests get out.
Workers are started once and take up model after model.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

import psutil

from minillm.core import (
    FinishReason,
    Request,
    RunnerLostError,
    SamplingParams,
    ScheduledRow,
    SchedulerOutput,
)
from minillm.llm import LLM
from minillm.model import workers
from minillm.model.config import ModelConfig
from minillm.model.loader import load_config, load_weights
from minillm.model.parallel import ParallelRunner
from minillm.model.runner import ModelRunner
from minillm.model.shard import ParallelConfig, Shard
from minillm.model.workers import WorkerGroup
from tests.model.split_models import BASE, CONFIGS, run, save_model

LIVENESS_S = 60.0
TOLERANCE = 1e-5
LAYOUTS = {"TP2": (2, 1), "PP2": (1, 2), "TP2xPP2": (2, 2)}
OPTIONS = {"dtype": "float32", "block_size": 4, "poison": True}
# title → an engine's settings. 32 tokens of KV hold one of the requests, and not three.
RUNS = {
    "continuous": {"policy": "continuous", "num_blocks": 100},
    "chunks and prefix hits": {"policy": "continuous", "num_blocks": 99, "chunk": 3, "cache": True},
    "preemption": {"policy": "continuous", "num_blocks": 8, "chunk": 5, "cache": True},
    "static": {"policy": "static", "num_blocks": 100},
    "dynamic": {"policy": "dynamic", "num_blocks": 100},
}


def requests(vocab: int):
    """Prompts with shared heads; greedy, seeded and penalised sampling, all log probabilities."""
    ask = {"ignore_eos": True, "logprobs": vocab}
    head = [3 + i % (vocab - 3) for i in range(13)]
    return [
        ([*head, 5, 7], SamplingParams(max_tokens=6, **ask)),
        (head[:2], SamplingParams(max_tokens=12, temperature=0.9, seed=3, top_p=0.9, **ask)),
        (head[3:4], SamplingParams(max_tokens=5, repetition_penalty=1.4, **ask)),
        (head[5:12], SamplingParams(max_tokens=9, min_tokens=2, **ask)),
        ([*head, 4, 4, 4, 4], SamplingParams(max_tokens=8, **ask)),
    ]


def alone(config: ModelConfig, weights, **options) -> ModelRunner:
    """The whole model in this process."""
    return ModelRunner(config, weights, device="cpu", threads=1, **OPTIONS, **options)


def gone(process_ids, within: float = LIVENESS_S) -> bool:
    """Whether all of these processes end in that time (a zombie has ended)."""
    limit = time.monotonic() + within
    while time.monotonic() < limit:
        if not any(alive(process_id) for process_id in process_ids):
            return True
        time.sleep(0.05)
    return False


def alive(process_id: int) -> bool:
    try:
        return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """models(name) → (folder, config, whole): whole[run] is what one process computes."""
    made = {}

    def get(name: str):
        if name not in made:
            folder = save_model(CONFIGS[name], tmp_path_factory.mktemp(name))
            config, weights = load_weights(folder)
            runner = alone(config, weights, num_blocks=100)
            asked = requests(config.vocab_size)
            made[name] = folder, config, {k: run(runner, asked, **v) for k, v in RUNS.items()}
        return made[name]

    return get


@pytest.fixture(scope="module")
def groups():
    """groups(n) → n workers, started once for the whole module."""
    started: dict[int, WorkerGroup] = {}

    def get(size: int) -> WorkerGroup:
        return started.setdefault(size, started.get(size) or WorkerGroup(size))

    yield get
    ids = [process_id for group in started.values() for process_id in group.process_ids]
    for group in started.values():
        group.close()
    assert gone(ids, within=0.0 if not ids else 1.0)


@pytest.fixture
def folder(models) -> Path:
    return models("llama3-rope")[0]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_and_tokens_are_those_of_one_process(models, groups, name, layout):
    """Each policy, chunked prefill, prefix hits, preemption; vocabularies that need padding."""
    folder, config, whole = models(name)
    parallel = ParallelConfig(*LAYOUTS[layout])
    runner = ParallelRunner(
        folder, config, parallel, device="cpu", num_blocks=100,
        group=groups(parallel.num_workers), **OPTIONS,
    )  # fmt: skip
    for title, settings in RUNS.items():
        tokens, logprobs, engine = run(runner, requests(config.vocab_size), **settings)
        expected_tokens, expected, _ = whole[title]
        assert tokens == expected_tokens, title
        assert logprobs.keys() == expected.keys() == tokens.keys()
        for request_id, rows in expected.items():
            assert len(rows) == len(tokens[request_id])
            for row, wanted in zip(logprobs[request_id], rows, strict=True):
                assert len(row) == config.vocab_size  # no padding row has become a token
                assert row == pytest.approx(wanted, rel=0, abs=TOLERANCE)
        preempted = any(event.event == "preempt" for event in engine.trace.events)
        assert preempted == (title == "preemption")


def test_outputs_of_the_tests_are_worth_comparing(models):
    """Varied tokens, prefix hits, padding: else the test above would compare little."""
    for name in CONFIGS:
        tokens, _, engine = models(name)[2]["chunks and prefix hits"]
        assert len(set().union(*tokens.values())) > 5
        admits = [event.data for event in engine.trace.events if event.event == "admit"]
        assert sum(data["tokens_cached"] for data in admits) >= 12
        static = models(name)[2]["static"][2].trace
        assert any(row.n_padding for step in static.steps for row in step.rows)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_greedy_tokens_without_log_probabilities(models, groups, layout):
    """The short way through the sampler, and a second engine on the same workers."""
    folder, config, _ = models("qwen2-bias")
    greedy = [(prompt, SamplingParams(max_tokens=9)) for prompt, _ in requests(config.vocab_size)]
    _, weights = load_weights(folder)
    whole = alone(config, weights, num_blocks=100)
    parallel = ParallelConfig(*LAYOUTS[layout])
    runner = ParallelRunner(
        folder, config, parallel, device="cpu", num_blocks=100,
        group=groups(parallel.num_workers), **OPTIONS,
    )  # fmt: skip
    expected = run(whole, greedy, "continuous", num_blocks=50, chunk=2)[0]
    for _ in range(2):
        assert run(runner, greedy, "continuous", num_blocks=50, chunk=2)[0] == expected


def test_each_worker_holds_its_part_and_no_more(models, groups):
    """Weights add up to the model's (norms, and padding, are everybody's); so does a block."""
    folder, config, _ = models("llama3-rope")
    _, weights = load_weights(folder)
    memory = 1 << 20
    whole = alone(config, weights, kv_cache_memory=memory)
    total = sum(weight.nbytes for weight in weights.values())
    norms = sum(weight.nbytes for name, weight in weights.items() if "norm" in name)

    def reports(*sizes: int):
        runner = ParallelRunner(
            folder, config, ParallelConfig(*sizes), device="cpu",
            group=groups(sizes[0] * sizes[1]), kv_cache_memory=memory, **OPTIONS,
        )  # fmt: skip
        assert runner.num_blocks == whole.num_blocks
        assert sum(w.bytes_per_block for w in runner.workers) == whole.bytes_per_block
        return runner.workers

    halves = reports(2, 1)
    assert sum(w.weight_bytes for w in halves) == total + norms
    assert [(w.num_heads, w.num_kv_heads) for w in halves] == [(2, 1), (2, 1)]
    assert [w.vocabulary for w in halves] == [range(10), range(10, 20)]
    stages = reports(1, 2)
    assert sum(w.weight_bytes for w in stages) == total
    assert [w.layers for w in stages] == [range(2), range(2, 4)]
    quarters = reports(2, 2)
    assert [(w.stage, w.tensor_rank) for w in quarters] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len({w.process_id for w in quarters}) == 4


@pytest.mark.parametrize("name", CONFIGS)
def test_shards_put_together_are_the_weights(models, name):
    folder, config, _ = models(name)
    _, weights = load_weights(folder)
    parallel = ParallelConfig(2, 2)
    for stage in range(2):
        shards = [Shard(config, parallel, 2 * stage + rank) for rank in range(2)]
        kept = [load_weights(folder, keep=shard.keep)[1] for shard in shards]
        assert kept[0].keys() == kept[1].keys()
        for local, first in kept[0].items():
            source = local
            if local == "lm_head.weight" and config.tie_word_embeddings:
                source = "model.embed_tokens.weight"
            elif ".layers." in local:
                parts = local.split(".", 3)
                source = f"model.layers.{int(parts[2]) + 2 * stage}.{parts[3]}"
            tensor, second = weights[source], kept[1][local]
            assert first.is_contiguous()
            assert first.untyped_storage().nbytes() == first.nbytes  # not a view of the whole
            if "norm" in local:
                assert first.equal(tensor)
                assert second.equal(tensor)
            else:
                dim = 1 if "o_proj" in local or "down_proj" in local else 0
                joined = [*first.unbind(dim), *second.unbind(dim)]
                rows = tensor.unbind(dim)
                assert all(a.equal(b) for a, b in zip(joined, rows, strict=False))
                assert not any(padding.any() for padding in joined[len(rows) :])


# ── what can't be ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("shape", "sizes", "words"),
    [
        ({"num_heads": 3, "num_kv_heads": 3}, (2, 1), ["3 heads", "valid sizes: 1, 3"]),
        ({"num_heads": 9, "num_kv_heads": 3}, (9, 1), ["3 KV heads", "valid sizes: 1, 3"]),
        ({"intermediate_size": 49}, (2, 1), ["width of 49", "valid sizes: 1."]),
        ({}, (64, 1), ["64", "valid sizes: 1, 2"]),
        ({}, (1, 3), ["= 3", "4 layers", "valid sizes: 1, 2, 4"]),
        ({}, (1, 8), ["= 8", "valid sizes: 1, 2, 4"]),
        ({}, (0, 1), ["tensor_parallel_size", "0"]),
        ({}, (1, -2), ["pipeline_parallel_size", "-2"]),
        ({}, (2.0, 1), ["tensor_parallel_size", "2.0"]),
    ],
)
def test_sizes_that_do_not_divide_are_refused_before_anything_starts(
    tmp_path, monkeypatch, shape, sizes, words
):
    """C62: too few heads are an error with the sizes that would do."""
    monkeypatch.setattr(workers.subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    config = ModelConfig.from_dict({**BASE.to_dict(), "num_attention_heads": 4})
    content = {**config.to_dict(), **{
        {"num_heads": "num_attention_heads", "num_kv_heads": "num_key_value_heads"}.get(k, k): v
        for k, v in shape.items()
    }}  # fmt: skip
    config = ModelConfig.from_dict(content)
    with pytest.raises(ValueError) as refusal:
        ParallelRunner(tmp_path, config, ParallelConfig(*sizes), device="cpu")
    for word in words:
        assert word in str(refusal.value)
    assert str(refusal.value).count(". ") == 0


def test_a_bias_that_each_rank_would_add_again_is_refused():
    """C62: the layers whose products are summed have no bias in any model that is taken."""
    with pytest.raises(ValueError, match="attention_bias"):
        ModelConfig.from_dict({**BASE.to_dict(), "attention_bias": True})


def test_what_a_worker_refuses_is_refused_here(folder):
    """Memory that holds no block: ValueError in the worker's words, and nobody is left."""
    before = set(psutil.Process().children())
    with pytest.raises(ValueError, match="holds not one block"):
        ParallelRunner(
            folder, load_config(folder), ParallelConfig(2, 1), device="cpu", kv_cache_memory=64
        )
    assert gone([p.pid for p in set(psutil.Process().children()) - before])


# ── workers that end ────────────────────────────────────────────────────────────────────────


def split(folder: Path, *sizes: int) -> ParallelRunner:
    return ParallelRunner(
        folder, load_config(folder), ParallelConfig(*sizes), device="cpu", num_blocks=50, **OPTIONS
    )


def test_a_worker_killed_in_a_step_fails_all_requests_at_once(tiny_folder):
    llm = LLM(
        str(tiny_folder), dtype="float32", device="cpu", num_blocks=200,
        tensor_parallel_size=2, max_num_seqs=2,
    )  # fmt: skip
    victim, other = (worker.process_id for worker in llm.runner.workers)
    started = threading.Event()
    done = []

    def generate():
        params = SamplingParams(max_tokens=400, ignore_eos=True)
        with llm.stream("first", params) as stream:
            next(stream)
            started.set()
            done.extend(llm.generate(["a", "b", "c"], params))

    thread = threading.Thread(target=generate)
    thread.start()
    assert started.wait(LIVENESS_S)
    os.kill(victim, signal.SIGSTOP)  # so that a step is surely in the middle
    time.sleep(0.2)
    assert thread.is_alive()
    killed = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    thread.join(LIVENESS_S)
    assert not thread.is_alive()
    assert time.monotonic() - killed < 5 * 2.0
    assert [c.finish_reason for c in done] == [FinishReason.ERROR] * 3
    assert all("SIGKILL" in c.error and f"process {victim}" in c.error for c in done)
    assert gone([victim, other], within=5.0)
    (later,) = llm.generate("later")
    assert "SIGKILL" in later.error
    llm.close()
    llm.close()


def test_an_exception_in_a_worker_is_told(folder):
    runner = split(folder, 1, 2)
    ids = [worker.process_id for worker in runner.workers]
    request = Request("r", [3, 4, 5], SamplingParams())
    beyond = ScheduledRow(request, 0, 3, 0, True, (10_000,))
    with pytest.raises(RunnerLostError, match=r"Worker 0 of 2 .* failed: .*index") as caught:
        runner.execute(SchedulerOutput(0, [beyond]))
    assert any("attention" in note for note in caught.value.__notes__)  # the worker's traceback
    assert gone(ids, within=5.0)
    within = ScheduledRow(request, 0, 3, 0, True, (0,))
    with pytest.raises(RunnerLostError, match="Worker 0 of 2"):
        runner.execute(SchedulerOutput(1, [within]))
    runner.close()


def test_a_runner_that_is_let_go_ends_its_workers(folder):
    runner = split(folder, 2, 1)
    ids = [worker.process_id for worker in runner.workers]
    runner.execute(SchedulerOutput(0, [
        ScheduledRow(Request("r", [3, 4], SamplingParams()), 0, 2, 0, True, (0,))
    ]))  # fmt: skip
    del runner
    gc.collect()
    assert gone(ids, within=5.0)


SCRIPT = """
import sys, time
from minillm import LLM
from minillm.core import SamplingParams

llm = LLM(sys.argv[1], dtype="float32", device="cpu", num_blocks=200, pipeline_parallel_size=2)
print(*[worker.process_id for worker in llm.runner.workers], flush=True)
try:
    with llm.stream("a", SamplingParams(max_tokens=400, ignore_eos=True)) as stream:
        next(stream)
        print("started", flush=True)
        for _ in stream:
            time.sleep(0.1)
except KeyboardInterrupt:
    pass
print(llm.generate("b", SamplingParams(max_tokens=5, ignore_eos=True))[0].finish_reason, flush=True)
"""


def start_script(folder: Path, rest: str = "") -> tuple[subprocess.Popen, list[int]]:
    """SCRIPT from standard input, without a __main__ guard, in a session of its own."""
    process = subprocess.Popen(
        [sys.executable, "-", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
        cwd=Path(__file__).resolve().parents[2],
    )  # fmt: skip
    process.stdin.write(SCRIPT + rest)
    process.stdin.close()
    ids = [int(word) for word in process.stdout.readline().split()]
    assert len(ids) == 2, process.stderr.read()
    assert process.stdout.readline() == "started\n"
    return process, ids


def test_an_interrupt_ends_the_request_and_not_the_workers(tiny_folder):
    """Ctrl-C reaches the whole terminal; the next request runs; the script's end ends all."""
    process, ids = start_script(tiny_folder)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.stdout.read(), process.stderr.read()
    assert (output, errors) == ("length\n", "")
    assert process.wait(LIVENESS_S) == 0
    assert gone(ids, within=5.0)


def test_a_parent_that_is_killed_leaves_nobody(tiny_folder):
    process, ids = start_script(tiny_folder)
    process.kill()
    process.wait(LIVENESS_S)
    assert gone(ids, within=10.0)
    process.stdout.close()
    process.stderr.close()


def test_the_default_model_over_three_processes(default_model_path):
    """9 heads and 3 KV heads: TP 3 says in float32 what one process says."""
    prompts = ["The capital of France is", "Once upon a time, there was a small"]
    params = SamplingParams(max_tokens=20)
    settings = {"dtype": "float32", "device": "cpu", "num_blocks": 32, "max_model_len": 256}

    def texts(size: int) -> list[str]:
        with LLM(
            str(default_model_path), **settings, threads=size, tensor_parallel_size=size
        ) as llm:
            return [c.text for c in llm.generate(prompts, params)]

    whole = texts(1)
    assert all(len(text) > 20 for text in whole)
    assert texts(3) == whole
