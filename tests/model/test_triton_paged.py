"""The Triton kernels against attention written out, over pages that hold NaN where unwritten.

On a GPU where there is one; else through Triton's interpreter, which knows float32 and float16.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version

import pytest

pytest.importorskip("torch")

import torch

from tests.conftest import has_cuda
from tests.model.attention_cases import check_backend, make_case

if importlib.util.find_spec("triton") is None:
    reason = "needs triton, which no lock pins (690 MB): pip install triton==3.7.1"
    pytest.skip(reason, allow_module_level=True)

if not has_cuda() and version("triton") < "3.7" and version("numpy") >= "2.4":
    reason = "Triton's interpreter works with numpy 2.4 from 3.7 on"
    pytest.skip(reason, allow_module_level=True)

DEVICE = "cuda" if has_cuda() else "cpu"
TOLERANCE = {torch.float32: 3e-6, torch.float16: 3e-3, torch.bfloat16: 2e-2}
DTYPES = list(TOLERANCE) if has_cuda() else [torch.float32, torch.float16]
FEW, MANY = 1, 132  # a GPU's processors: with few of them a row's keys stay in one part


@pytest.fixture(scope="module", autouse=True)
def interpreter():
    """Triton reads its switch when kernels are defined: when their module is first imported."""
    with pytest.MonkeyPatch.context() as patch:
        if not has_cuda():
            patch.setenv("TRITON_INTERPRET", "1")
        yield


def check(shapes, heads, kv_heads, block_size, *, processors=FEW, head_dim=64, dtype=torch.float32):
    """Compares, and returns the plan."""
    from minillm.model.attention.triton_paged import TritonBackend

    case = make_case(
        shapes, heads, kv_heads, block_size, head_dim=head_dim, dtype=dtype, device=DEVICE
    )
    backend = TritonBackend(heads, processors)
    check_backend(backend, case, TOLERANCE[dtype])
    _, _, cache, metadata, _ = case
    return backend.plan(metadata, [], cache.unsqueeze(0))


@pytest.mark.parametrize("block_size", [16, 64, 256])
@pytest.mark.parametrize(("heads", "kv_heads", "processors"), [(6, 2, FEW), (8, 2, MANY)])
def test_decode_rows_chunks_and_prompts_in_one_step(heads, kv_heads, block_size, processors):
    """Queries 1, 7 and 129, with context and without; KV heads shared by 3 and by 4."""
    shapes = [(3, 1, 0), (18, 1, 0), (130, 1, 0), (0, 7, 0), (5, 7, 0), (40, 129, 0)]
    plan = check(shapes, heads, kv_heads, block_size, processors=processors)
    assert plan.decodes == 3
    assert (plan.parts > 1) == (processors == MANY)


@pytest.mark.parametrize("block_size", [16, 64, 256])
@pytest.mark.parametrize("processors", [FEW, MANY])
def test_lengths_at_the_edges_of_blocks(block_size, processors):
    """A table's last block full, one short of it, and with one token; prompts likewise."""
    edges = (block_size - 1, block_size, block_size + 1)
    decodes = [(edge - 1, 1, 0) for edge in edges]
    check([*decodes, (0, edges[0], 0), (0, edges[2], 0)], 2, 1, block_size, processors=processors)


@pytest.mark.parametrize("head_dim", [64, 96, 128, 12])
@pytest.mark.parametrize("dtype", DTYPES)
def test_head_sizes_and_number_formats(head_dim, dtype):
    """96 is computed as 128, 12 as 16: what is beyond a head belongs to the next."""
    shapes = [(70, 1, 0), (20, 9, 0)]
    check(shapes, 4, 2, 16, head_dim=head_dim, dtype=dtype, processors=MANY)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (5, 1), (24, 1)])
def test_groups_of_any_size(heads, kv_heads):
    check([(33, 1, 0), (2, 40, 0)], heads, kv_heads, 16, processors=MANY)


@pytest.mark.parametrize("block_size", [1, 5])
def test_blocks_of_any_size(block_size):
    check([(11, 1, 0), (6, 8, 0)], 4, 2, block_size)


def test_padding_sees_its_rows_context():
    """Prompts of 3 + 6, 5 + 4 and 9 + 0 tokens; a dead row of one padding token."""
    check([(0, 3, 6), (0, 5, 4), (0, 9, 0)], 6, 2, 16)
    check([(4, 0, 1), (6, 1, 0), (9, 0, 1), (12, 1, 0)], 6, 2, 16)


def test_long_prompts_take_several_tiles():
    """90 queries of 6 heads a KV head: tiles of 21 queries, the last one partly filled."""
    plan = check([(17, 40, 0), (0, 90, 0)], 6, 1, 64)
    assert plan.tiles.tolist() == [[0, 0], [0, 21], *([1, i] for i in range(0, 90, 21))]


def test_parts_of_a_long_context():
    """Parts are whole tiles of keys: lengths around them, one key, and more parts than tiles."""
    plan = check([(n - 1, 1, 0) for n in (1, 32, 33, 64, 65, 700)], 2, 1, 64, processors=MANY)
    assert plan.parts > 22


def test_a_rows_parts_do_not_depend_on_its_mates():
    """Alone or with others, as long as the step is cut into as many parts: the same bits."""
    from minillm.model.attention.triton_paged import TritonBackend

    backend = TritonBackend(4, processors=64)
    q, _, cache, metadata, _ = make_case(
        [(200, 1, 0), (90, 1, 0)], 4, 2, 16, head_dim=64, dtype=torch.float32, device=DEVICE
    )
    backend.write(0, _new(metadata, cache), cache, metadata, None)
    both = backend.decode_plan(metadata, metadata.seq_lens, metadata.block_tables, cache[None])
    out = backend.attend(0, q, cache, both)
    alone = replace(both, block_tables=both.block_tables[1:], seq_lens=both.seq_lens[1:], decodes=1)
    assert torch.equal(backend.attend(0, q[1:], cache, alone), out[1:])


def _new(metadata, cache):
    return torch.ones(len(metadata.slot_mapping), *cache.shape[1:], device=cache.device)


@pytest.mark.parametrize("graphs", [False, True])
def test_tokens_through_the_engine(tiny, graphs):
    """Prompts in chunks, decode steps, static batching's padding: transformers' greedy tokens."""
    from minillm.core import SamplingParams
    from minillm.model.attention.triton_paged import TritonBackend
    from tests.model.harness import make_engine, make_runner, random_prompts, run_all
    from tests.model.test_cuda_graphs import FakeCapture, add_graphs
    from tests.model.tiny_models import VOCAB

    folder, reference = tiny("llama")
    prompts = random_prompts([3, 9], VOCAB)
    expected = [reference.greedy_with_gap(prompt, 3) for prompt in prompts]
    assert min(gap for _, gap in expected) > 1e-3
    runner = make_runner(
        folder, dtype="float32", device=DEVICE, backend=TritonBackend(6, 12), enforce_eager=True
    )
    if graphs:
        add_graphs(runner, FakeCapture())
    params = SamplingParams(max_tokens=3, ignore_eos=True)
    for policy, chunk in (("continuous", 7), ("static", 0)):
        outputs = run_all(make_engine(runner, policy, chunk=chunk), prompts, params)
        assert outputs == {str(i): tokens for i, (tokens, _) in enumerate(expected)}


COMPILE = "import json, tests.model.compile_kernels as c; print(json.dumps(c.compile_all()))"


def test_kernels_compile_for_gpus_that_are_not_here():
    """bfloat16, which the interpreter lacks, for SM80 and SM90, within their shared memory."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    answer = subprocess.run(
        [sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr[-2000:]
    shared = json.loads(answer.stdout)
    assert len(shared) == 4
    assert max(shared.values()) <= 99 * 1024  # what a program may take on the smaller Ampere GPUs
