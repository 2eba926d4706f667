"""The benchmark of routers: one small pass through all of them."""

from __future__ import annotations

import json

import pytest

from benchmarks import replicas
from tests.capabilities import find_program


@pytest.mark.slow
def test_every_route_is_in_the_report(tmp_path, capsys):
    find_program("nginx", "nginx")
    file = tmp_path / "report.json"
    flags = ["--requests", "9", "--rate", "30", "--repeat", "1", "--json", str(file)]
    assert replicas.main(flags) == 0
    report = json.loads(file.read_text())
    found = [(r["router"], r["workers"], r["zone"]) for r in report["results"]]
    assert found == list(replicas.ROUTES)
    for result in report["results"]:
        assert sum(result["shares"]) == 9
        assert result["failed"] == 0
        assert result["mean_e2e_ms"] > 140  # 12 steps of 12 ms
    assert report["results"][0]["shares"] == [3, 3, 3]
    assert len(capsys.readouterr().err.splitlines()) == len(replicas.ROUTES)
