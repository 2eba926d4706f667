"""docs/measured.md is what the command writes, and every claim is judged from computed facts."""

import xml.etree.ElementTree as ET

from benchmarks import measured_page
from benchmarks.claims import claims
from benchmarks.claims_engine import judge
from minillm.data import read_text
from minillm.sim.measured_rows import read_rows


def test_the_page_in_docs_is_up_to_date(capsys):
    assert measured_page.main(["--check"]) == 0, capsys.readouterr().out


def test_the_command_writes_both_files_and_notices_a_changed_one(tmp_path, capsys):
    assert measured_page.main(["--out", str(tmp_path)]) == 0
    assert measured_page.main(["--out", str(tmp_path), "--check"]) == 0
    (tmp_path / "measured.md").write_text("edited by hand", encoding="utf-8")
    assert measured_page.main(["--out", str(tmp_path), "--check"]) == 1
    assert "measured.md is out of date" in capsys.readouterr().out


def test_the_figure_is_well_formed_and_says_what_it_shows():
    _, figure = measured_page.page()
    root = ET.fromstring(figure)
    name = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{name}title").text.startswith("Decode time per token")
    assert "published figures" in root.find(f"{name}desc").text
    marks = root.findall(f"{name}circle") + root.findall(f"{name}polygon")
    assert len(marks) > 250


def test_all_seventeen_claims_are_judged():
    found = claims(read_rows(read_text("measured.csv").splitlines()))
    assert [claim.number for claim in found] == list(range(1, 18))
    verdicts = {claim.number: claim.verdict for claim in found}
    assert verdicts[4] == verdicts[6] == verdicts[8] == "holds"
    assert verdicts[2] == verdicts[10] == "does not hold"
    assert all(claim.computed for claim in found)


def test_a_verdict_follows_from_its_facts():
    assert judge(True, True) == "holds"
    assert judge(True, False) == "in part"
    assert judge(False) == "does not hold"
