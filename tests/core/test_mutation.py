"""Mutation testing: each of these small faults in the core must make a core test fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# (file in minillm/core, right code, wrong code)
MUTANTS = [
    ("block_pool.py", "if block.ref_count:\n            return False", "if 0:\n            pass"),
    ("block_pool.py", "block.content == content", "True"),
    ("block_pool.py", "popitem(last=False)", "popitem(last=True)"),
    ("block_pool.py", "Q\", *token_ids)", "Q\", *[t % 256 for t in token_ids])"),
    ("block_pool.py", 'b"none" if salt is None', 'b"salt:" if salt is None'),
    ("kv_cache.py", "range((request.num_tokens - 1) // size)", "range(request.num_tokens // size)"),
    ("kv_cache.py", "self.pool.num_free - unowned_hits", "self.pool.num_free"),
    ("kv_cache.py", "full = request.num_computed_tokens // self.block_size",
     "full = len(request.blocks)"),
    ("scheduler/base.py", "self.requeue(request, front=True)", "self.requeue(request)"),
    ("scheduler/base.py", "samples = end == request.num_tokens", "samples = True"),
    ("scheduler/base.py", "num_output >= request.max_tokens or", "num_output > 99 or"),
    ("scheduler/base.py", "r.deadline <= now", "r.deadline < now"),
    ("scheduler/base.py", "if kept:", "if True:"),
    ("scheduler/base.py", "return rows, short + prefills", "return rows, prefills + short"),
    ("scheduler/base.py", "self.decoded = []  #", "#"),
    ("scheduler/base.py", "if computed % size < num_tokens:", "if computed % size == 0:"),
    ("scheduler/continuous.py", "if not preempted:", "if True:"),
    ("scheduler/continuous.py", "return self.running[-1]", "return self.running[0]"),
    ("scheduler/continuous.py", "return sum(row.num_tokens for row in mine)", "return 0"),
    ("scheduler/continuous.py", "if row.request is not victim", "if True"),
    ("scheduler/continuous.py", "request = self.waiting[0]", "request = self.waiting[-1]"),
    ("scheduler/static.py", "if not self.running:  #", "if True:  #"),
    ("scheduler/static.py", "longest - request.num_tokens, self", "0, self"),
    ("scheduler/static.py", "request.num_prompt_tokens + request.max_tokens", "request.num_tokens"),
    ("scheduler/dynamic.py", "return min(waiting, self.config.max_num_seqs)", "return 1"),
    ("scheduler/dynamic.py", "if size <= waiting", "if size < waiting"),
    ("scheduler/dynamic.py", "now >= self._due()", "now > self._due()"),
    ("engine.py", "room < 1", "room < 0"),
    ("engine.py", "if not params.ignore_eos:", "if True:"),
    ("engine.py", "min(params.max_tokens, room)", "params.max_tokens"),
    ("contract.py", "start == request.num_computed_tokens\n", "True\n"),
    ("contract.py", "rows[made:] if rows[:made] == decoded else rows", "rows[made:]"),
    ("contract.py", "if request.status is not running:", "if False:"),
    ("contract.py", "if roster == self._roster:", "if len(roster) == len(self._roster):"),
    ("metrics.py", "rank = (len(ordered) - 1) * q / 100", "rank = len(ordered) * q / 101"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("file", "right", "wrong"), MUTANTS)
def test_a_core_test_fails_for_the_mutant(file, right, wrong, tmp_path):
    for folder in ("minillm", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "traces", "e2e", "model", "serve")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    source = tmp_path / "minillm" / "core" / file
    text = source.read_text(encoding="utf-8")
    assert right in text, "this mutant no longer applies"
    source.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    others = ["--ignore", "tests/core/test_mutation.py", "--timeout", "240"]
    command = [sys.executable, "-m", "pytest", "tests/core", "-x", "-q", *others]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 1, f"the mutant lives: {run.stdout[-400:]}"
    assert "failed" in run.stdout
