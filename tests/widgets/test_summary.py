"""The summary page: what was recorded, honest about it, one file that needs nothing else."""

from __future__ import annotations

import re
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.widgets.progress_facts import at, finished
from widgets import progress_file
from widgets.course import LESSONS
from widgets.progress_model import Fact, merge
from widgets.summary import FILE, SummaryForm, summary
from widgets.summary_page import clean_name, summary_page

NOW = datetime.fromisoformat("2026-12-28T18:00:00+01:00")
SOME = merge(
    finished("00", 1), finished("01", 2), finished("05", 9),
    {
        ("06", "predict 06-short"): Fact(at(10), answer=1.0),
        ("06", "quiz 1"): Fact(at(11), right=False),
        ("06", "check"): Fact(at(12), points=4, of=13),
    },
)  # fmt: skip


class Rows(HTMLParser):
    """The table's rows as lists of text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_the_page_says_what_was_recorded():
    page = summary_page("Ada Lovelace", SOME, NOW)
    rows = Rows(page).rows
    assert len(rows) == 1 + len(LESSONS)
    assert rows[6][:5] == [
        "✓5Continuous batching", "2 of 2", "10 of 10", "3 of 3", "9 Dec 2026",
    ]  # fmt: skip
    assert rows[7][:5] == [
        "6Prefill and decode", "1 of 2", "4 of 13", "0 of 3", "12 Dec 2026",
    ]  # fmt: skip
    assert rows[8][1:5] == ["0 of 2", "not run", "not answered", "–"]
    text = re.sub(r"<[^>]+>", "", page)
    assert "3 of 13 lessons done, from 1 December 2026 to 12 December 2026." in text
    assert "24 of 33points in 3 checks" in text
    assert "nobody has verified it" in text
    assert "Made on 28 December 2026" in text


def test_the_page_stands_alone():
    page = summary_page("Ada", SOME, NOW)
    assert not re.search(r"https?:|<script|<link|src=|url\(|@import", page)
    assert page.count("<h1>") == 1
    assert 'lang="en"' in page
    assert "@page" in page


def test_a_page_of_nobodys_work_is_honest():
    nobody = summary_page("Ada", {}, NOW)
    assert "has not begun the course yet" in nobody
    assert "<b>0 <small>of 12</small></b><span>checks run</span>" in nobody
    one = summary_page("Ada", finished("00", 3), NOW)
    assert "1 of 13 lessons</b> done, on 3 December 2026." in one


def test_names_are_escaped_and_kept_on_a_line():
    page = summary_page("<script>x</script>", {}, NOW)
    assert "<script" not in page
    assert clean_name("  Ada \n\t Lovelace\x00 ") == "Ada Lovelace"
    assert clean_name("Łukasz 李") == "Łukasz 李"
    for nobody in ("", "  ", None, 3):
        with pytest.raises(ValueError, match="needs a name"):
            clean_name(nobody)
    with pytest.raises(ValueError, match="81 characters; 80 have room"):
        clean_name("x" * 81)


@pytest.fixture
def kept(monkeypatch, tmp_path):
    monkeypatch.setenv(progress_file.PLACE, str(tmp_path / "progress.json"))
    monkeypatch.chdir(tmp_path)
    progress_file.here().add(SOME)


def test_the_page_is_saved_and_the_card_says_where(kept):
    card = summary("Ada Lovelace")
    assert re.fullmatch(rf"Saved to {FILE} at \d\d:\d\d\.", repr(card))
    page = Path(FILE).read_text(encoding="utf-8")
    assert "<h1>Ada Lovelace</h1>" in page
    assert f'download="{FILE}"' in card.html
    assert "<iframe sandbox" in card.html
    assert "Ada" not in Path("progress.json").read_text(encoding="utf-8")


def test_a_page_that_cannot_be_saved_can_be_downloaded(kept, tmp_path):
    (tmp_path / FILE).mkdir()
    card = summary("Ada Lovelace")
    assert repr(card).startswith("Not saved: ")
    assert "ml-alert" in card.html
    assert "data:text/html" in card.html


def test_the_form_makes_the_page(kept):
    form = SummaryForm()
    form.button.click()
    assert "The page needs a name" in form.result.value
    form.name.value = "Ada Lovelace"
    form.button.click()
    assert f"Saved to {FILE}" in form.result.value
    assert Path(FILE).is_file()
