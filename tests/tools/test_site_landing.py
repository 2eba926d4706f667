"""The landing page: every lesson, relative links, a picture from a run of our own."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tools.site import contents, landing, picture
from tools.site.errors import SiteError

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"


class Links(HTMLParser):
    """Collects every address in a page, the tags that need an end, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src", "action", "data", "poster", "srcset") and value:
                self.addresses.append(value)
            if name == "id" and value:
                self.ids.append(value)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def lessons() -> list[landing.Lesson]:
    return landing.read_lessons(NOTEBOOKS)


@pytest.fixture(scope="module")
def traces():
    return picture.runs()


@pytest.fixture(scope="module")
def html(lessons, traces) -> str:
    return landing.page(lessons, picture.svg(traces), "Inside: Pyodide 1.2.3.")


@pytest.fixture(scope="module")
def parsed(html: str) -> Links:
    links = Links()
    links.feed(html)
    return links


def test_all_thirteen_lessons_are_read_from_their_title_cells(lessons):
    assert [lesson.number for lesson in lessons] == list(range(13))
    fifth = lessons[5]
    assert (fifth.title, fifth.minutes) == (
        "Continuous batching: join and leave at every step", 60,
    )  # fmt: skip
    assert len(fifth.aims) == 3
    assert fifth.exercise == "exercises/lesson_05.ipynb"
    assert lessons[0].exercise == ""


def test_the_page_starts_every_lesson_its_exercise_and_the_dashboard(parsed, lessons):
    opened = {
        parse_qs(urlsplit(address).query)["path"][0]
        for address in parsed.addresses
        if address.startswith(landing.LAB)
    }
    expected = {path for lesson in lessons for path in (lesson.path, lesson.exercise) if path}
    assert opened == {f"notebooks/{path}" for path in (*expected, "dashboard.ipynb")}
    assert all((ROOT / path).is_file() for path in opened)
    for lesson in lessons:
        assert lesson.title in parsed.text
        assert f"{lesson.minutes} min" in parsed.text


def test_no_link_leaves_the_folder_that_the_site_lies_in(parsed):
    for address in parsed.addresses:
        parts = urlsplit(address)
        assert parts.scheme in ("", "data"), address
        assert not parts.netloc, address
        assert not parts.path.startswith(("/", "..")) or parts.scheme == "data", address


def test_style_and_picture_ask_for_nothing(html):
    assert "@import" not in html
    for asked in re.findall(r"url\(([^)]*)\)", html):
        assert asked.startswith("#"), asked


def test_the_picture_is_ours_labelled_and_themed(traces, parsed):
    svg = picture.svg(traces)
    assert [trace.header.provenance for trace in traces] == ["simulated", "simulated"]
    assert "simulated" in svg
    assert "A100" in svg
    assert 'role="img" aria-label="Batch timeline.' in svg
    plain = re.sub(r"var\([^()]*\)", "", svg)
    assert not re.search(r"#[0-9A-Fa-f]{6}", plain), "a colour that dark mode can't change"
    assert len(set(parsed.ids)) == len(parsed.ids)


def test_the_picture_is_the_same_every_time(traces):
    assert picture.svg(picture.runs()) == picture.svg(traces)


def test_the_picture_shows_what_the_course_is_about(traces):
    static, continuous = (trace.steps[-1].t_end for trace in traces)
    assert continuous < static


@pytest.mark.parametrize(
    "source", ["", "# A title", "# A title\n\n**soon** · Lesson 1 of 12 · Needs: nothing\n\n1. a"]
)
def test_a_notebook_without_a_title_cell_is_named(tmp_path, source):
    path = tmp_path / "03_lost.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": source}]}))
    with pytest.raises(SiteError, match=r"03_lost\.ipynb: its first cell has to hold"):
        landing.read_lessons(tmp_path)


def test_markdown_in_a_title_cell_is_shown_and_html_is_not_run():
    assert landing.inline("a `Scheduler` of *your* <b>own</b>") == (
        "a <code>Scheduler</code> of <em>your</em> &lt;b&gt;own&lt;/b&gt;"
    )


# ── the notebooks themselves ────────────────────────────────────────────────────────────────────


def test_the_sites_notebooks_are_the_courses_but_for_the_kernel(tmp_path):
    copied = contents.copy_contents(ROOT, tmp_path)
    notebooks = [path for path in copied if path.suffix == ".ipynb"]
    assert len(notebooks) == 13 + 1 + 12
    for path in notebooks:
        ours = json.loads((ROOT / path).read_text(encoding="utf-8"))
        site = json.loads((tmp_path / path).read_text(encoding="utf-8"))
        assert site["metadata"]["kernelspec"]["name"] == "python"
        assert cells(ours) == cells(site)
        assert all(not cell.get("outputs") for cell in site["cells"])


def cells(notebook: dict) -> list[tuple[str, str]]:
    return [(cell["id"], "".join(cell["source"])) for cell in notebook["cells"]]


def test_what_the_lessons_link_to_comes_along(tmp_path):
    copied = contents.copy_contents(ROOT, tmp_path)
    assert Path("docs/glossary.md") in copied
    assert (tmp_path / "docs" / "glossary.md").read_bytes() == (
        ROOT / "docs" / "glossary.md"
    ).read_bytes()


def write_notebook(root: Path, text: str) -> None:
    (root / "notebooks").mkdir()
    cells = [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": text}]
    (root / "notebooks" / "01_linked.ipynb").write_text(
        json.dumps({"cells": cells, "metadata": {"kernelspec": {"name": "python3"}}})
    )


@pytest.mark.parametrize("link", ["../docs/lost.md", "../../etc/passwd", "/etc/passwd"])
def test_a_dead_link_is_named_with_its_notebook(tmp_path, link):
    write_notebook(tmp_path, f"see [this]({link}#there), [web](https://example.org/x)")
    with pytest.raises(SiteError, match=rf"01_linked\.ipynb links to {link}, which is no file"):
        contents.copy_contents(tmp_path, tmp_path / "out")


def test_links_to_the_web_are_left_alone(tmp_path):
    write_notebook(tmp_path, "[web](https://example.org/x), [below](#part)")
    assert contents.copy_contents(tmp_path, tmp_path / "out") == [
        Path("notebooks/01_linked.ipynb")
    ]


def test_a_broken_notebook_and_an_empty_folder_are_one_sentence(tmp_path):
    with pytest.raises(SiteError, match="has no notebooks"):
        contents.copy_contents(tmp_path, tmp_path / "out")
    (tmp_path / "notebooks").mkdir()
    for text in ('{"cells": [', "[]", '{"metadata": {"kernelspec": {}}, "cells": []}'):
        (tmp_path / "notebooks" / "01_broken.ipynb").write_text(text)
        with pytest.raises(SiteError, match=r"01_broken\.ipynb is not a notebook"):
            contents.copy_contents(tmp_path, tmp_path / "out")
