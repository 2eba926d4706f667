"""benchmarks/gpu.sh: works end to end without a GPU, and no part that fails stops the others."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from benchmarks import gpu, gpu_parts
from benchmarks.gpu_setup import LLAMA_3_1_8B, Scale, make_runner
from minillm.model.config import ModelConfig
from minillm.model.loader import expected_shapes

TINY = Scale("cpu", tiny=True)


@pytest.fixture(autouse=True)
def same_threads():
    """A tiny run takes one thread; the tests after this one get theirs back."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
def test_the_whole_script_without_a_gpu(repository):
    done = subprocess.run(
        ["bash", str(repository / "benchmarks/gpu.sh"), "--tiny", "--device", "cpu"],
        capture_output=True, text=True, timeout=570,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert result["tiny"]
    assert result["machine"]["device"] == "cpu"
    parts = result["parts"]
    assert set(parts) == set(gpu_parts.PARTS)
    assert not [name for name, part in parts.items() if "error" in part]
    assert parts["tests"]["counts"]["skipped"] > 50
    assert parts["tests"]["failed"] == []
    assert [row["batch"] for row in parts["decode"]["rows"]] == [1, 3]
    assert parts["transformers"]["generate"]["ours_over_it"] > 0
    assert parts["transformers"]["continuous"]["ours_over_it"] > 0


@pytest.mark.parametrize("name", ["backend", "decode", "prefill", "graphs", "attention"])
def test_parts_measure_something(name):
    part = gpu.one_part(name, True, "cpu")
    assert "error" not in part
    json.dumps(part, allow_nan=False)
    if name == "decode":
        assert all(row["step_ms"] > 0 for row in part["rows"])
        assert all(row["share_of_bandwidth"]["measured"] > 0 for row in part["rows"])
    if name == "attention":
        assert all(value > 0 for value in part["sdpa"].values())


def test_a_failing_part_is_a_result(monkeypatch):
    def fail(scale):
        raise RuntimeError("CUDA error: an illegal memory access")

    monkeypatch.setitem(gpu_parts.PARTS, "prefill", (fail, 10))
    assert gpu.one_part("prefill", True, "cpu") == {
        "error": "RuntimeError: CUDA error: an illegal memory access"
    }


def _stand_in(monkeypatch, code: str) -> None:
    """Each part's process runs this code instead."""
    start = subprocess.Popen

    def popen(command, **options):
        return start([sys.executable, "-c", code], **options)

    monkeypatch.setattr(gpu.subprocess, "Popen", popen)


def test_a_part_that_hangs_is_ended(monkeypatch):
    _stand_in(monkeypatch, "import time; time.sleep(600)")
    began = time.monotonic()
    assert gpu.run_part("decode", True, "cpu", 1.0) == {"error": "not done within 1 s"}
    assert time.monotonic() - began < 30


def test_a_part_that_dies_is_recorded_and_the_others_go_on(monkeypatch):
    _stand_in(monkeypatch, "import sys; sys.exit('Fatal: out of luck')")
    result = gpu.report(True, "cpu", ["decode", "prefill"], 60)
    assert all(
        "ended with code 1: Fatal: out of luck" in p["error"] for p in result["parts"].values()
    )
    assert result["machine"]["torch"]


def test_parts_without_time_are_skipped(monkeypatch):
    _stand_in(monkeypatch, "raise SystemExit(1)")
    assert gpu.report(True, "cpu", ["decode"], 3)["parts"]["decode"] == {"skipped": "3 s were left"}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--parts", "decode,mistake"], "mistake"),
        (["--device", "cpu"], "--tiny"),
        (["--device", "tpu"], "cuda"),
    ],
)
def test_bad_input_is_refused(argv, words, capsys):
    with pytest.raises(SystemExit) as end:
        gpu.main(argv)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_bytes_and_flops_are_the_models():
    """8.03 billion weights in all; a decode step reads all but the embedding's half billion."""
    config = ModelConfig.from_dict(LLAMA_3_1_8B)
    total = sum(_size(shape) for shape in expected_shapes(config).values())
    assert total == 8_030_261_248
    runner = make_runner(TINY)
    runner.model_config = config
    embedding = 128256 * 4096
    norms = (2 * 32 + 1) * 4096
    assert sum(gpu_parts._linear_weights(runner)) == total - embedding - norms


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size
