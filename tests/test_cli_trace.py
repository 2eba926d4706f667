"""`minillm trace`: the list, each export, and the one sentence for what is no run."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from minillm.core import summarize
from minillm.recordings import load_recording, recordings, trace_from_bytes
from tests.cli_calls import call, refused

GOLDEN = Path(__file__).parent / "golden" / "trace.jsonl"


def test_list_names_every_run_with_its_provenance(capsys):
    assert call("trace", "list", "--json", "-") == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["schema"], data["command"]) == (1, "trace list")
    assert [row["name"] for row in data["recordings"]] == [each.name for each in recordings()]
    for row, each in zip(data["recordings"], recordings(), strict=True):
        assert row["provenance"] == each.header.provenance
        assert row["output_tokens"] == summarize(each.trace).output_tokens
    assert call("trace", "list") == 0
    assert "a100-continuous" in capsys.readouterr().out


def test_export_writes_each_format(capfd, tmp_path):
    run = "a100-continuous"
    assert call("trace", "export", run, "--out", tmp_path / "run.json") == 0
    events = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["traceEvents"]
    assert events[0]["name"] == "process_name"
    capfd.readouterr()
    assert call("trace", "export", run, "--to", "csv") == 0
    out = capfd.readouterr().out
    rows = [row for step in load_recording(run).trace.steps for row in step.rows]
    assert len(list(csv.DictReader(out.splitlines()))) == len(rows)
    assert call("trace", "export", run, "--to", "jsonl", "--out", tmp_path / "run.jsonl") == 0
    again = trace_from_bytes((tmp_path / "run.jsonl").read_bytes())
    assert again.records == load_recording(run).trace.records


def test_export_takes_a_file_plain_or_packed(tmp_path):
    packed = tmp_path / "mine.jsonl.gz"
    packed.write_bytes(gzip.compress(GOLDEN.read_bytes()))
    for source in (GOLDEN, packed):
        assert call("trace", "export", source, "--to", "jsonl", "--out", tmp_path / "out") == 0
        assert (tmp_path / "out").read_bytes() == GOLDEN.read_bytes()


def test_what_is_no_run_is_one_sentence(capsys, tmp_path):
    assert "no recorded run: those are" in refused(capsys, "trace", "export", "nothing")
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text("{}\n")
    sentence = refused(capsys, "trace", "export", wrong)
    assert f"{wrong}: Line 1 of the trace cannot be read" in sentence
    out = tmp_path / "no-folder" / "x.json"
    assert "can't be written" in refused(capsys, "trace", "export", "a100-static", "--out", out)


@pytest.mark.parametrize("missing", [(), ("export",), ("export", "a100-static", "--to", "exe")])
def test_what_is_not_said_is_asked_for(capsys, missing):
    assert "--help" in refused(capsys, "trace", *missing)
