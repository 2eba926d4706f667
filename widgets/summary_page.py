"""The summary page: what a student did in the course, as one HTML file to print or keep.

    html = summary_page("Ada Lovelace", facts, datetime.now().astimezone())

It stands alone: no script, no font, no address. It says itself that nobody has verified it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape

from widgets import assets
from widgets.progress import parts
from widgets.progress_model import Facts, Standing, standings

COURSE = "Batching and concurrency: serving AI to a thousand users"
LONGEST_NAME = 80
BAR = 116  # width of a row's time line, px
HEIGHT = 10


def clean_name(name: object) -> str:
    """The name on one line. Raises ValueError when there is none, or when it is too long."""
    text = " ".join(str(name).split()) if isinstance(name, str) else ""
    text = "".join(sign for sign in text if sign.isprintable())
    if not text:
        raise ValueError("The page needs a name, for example “Ada Lovelace”.")
    if len(text) > LONGEST_NAME:
        raise ValueError(
            f"The name has {len(text)} characters; {LONGEST_NAME} have room on the page."
        )
    return text


def summary_page(name: str, facts: Facts, now: datetime) -> str:
    """The page as HTML. Raises ValueError for a name that it cannot show."""
    name, every = clean_name(name), standings(facts)
    rows = "".join(_row(each, _period(every)) for each in every)
    heads = "".join(
        f'<th scope="col"{" class=when" if text == "when" else ""}>{text}</th>'
        for text in ("lesson", "predictions", "points", "quiz", "last", "when")
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(name)}: {COURSE}</title>"
        f"<style>{assets.style('lesson/page.css')}</style></head><body>"
        f'{_motif(every)}<p class="course">{COURSE}</p><h1>{escape(name)}</h1>'
        f'<p class="lead">{_lead(every)}</p><div class="figures">{_figures(every)}</div>'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        f"<footer>{_footer(now)}</footer></body></html>\n"
    )


def _lead(every: Sequence[Standing]) -> str:
    done, period = sum(each.is_done for each in every), _period(every)
    if period is None:
        return "has not begun the course yet, as far as is recorded here."
    first, last = map(_long_date, period)
    when = f"on {first}" if first == last else f"from {first} to {last}"
    verb = "learned" if done else "has begun to learn"
    return (
        f"{verb} how servers batch the requests of many users, by running it: "
        f"<b>{done} of {len(every)} lessons</b> done, {when}."
    )


def _figures(every: Sequence[Standing]) -> str:
    checks = [each.check for each in every if each.check is not None]
    points, of = sum(one.points for one in checks), sum(one.of for one in checks)
    checked = (f"{points:g}", f"{of:g}", f"points in {len(checks)} check{'s' * (len(checks) > 1)}")
    if not checks:
        checked = (0, sum(each.has_check for each in every), "checks run")
    figures = [
        (sum(each.is_done for each in every), len(every), "lessons done"),
        (
            sum(each.predicted for each in every),
            sum(len(each.lesson.predictions) for each in every), "predictions locked",
        ),
        checked,
        (
            sum(each.right for each in every), sum(each.lesson.questions for each in every),
            "quiz questions right",
        ),
    ]  # fmt: skip
    return "".join(
        f"<div><b>{value} <small>of {whole}</small></b><span>{text}</span></div>"
        for value, whole, text in figures
    )


def _row(each: Standing, period: tuple[datetime, datetime] | None) -> str:
    mark = '<span class="mark" role="img" aria-label="done">✓</span>' if each.is_done else (
        '<span class="mark"></span>'
    )
    cells = [text for _, text, _ in parts(each)] or [""] * 3
    shown = "".join(
        f"<td>{text.removesuffix(' points').removesuffix(' right')}</td>" for text in cells
    )
    number = f'<span class="number">{int(each.lesson.number)}</span>'
    date = f"{each.last.day} {each.last:%b %Y}" if each.last else "–"
    return (
        f'<tr class="{"" if each.last else "open"}"><td class="name">{mark}{number}'
        f"{escape(each.lesson.short)}</td>{shown}<td>{date}</td>"
        f'<td class="when">{_time(each, period)}</td></tr>'
    )


def _time(each: Standing, period: tuple[datetime, datetime] | None) -> str:
    """A row of the course's own timeline: dotted until it begins, then a bar; a tick when done."""
    if period is None:
        return ""
    whole = (period[1] - period[0]).total_seconds() or 1.0

    def x(time: datetime) -> float:
        return (BAR - 6) * (time - period[0]).total_seconds() / whole

    begins = x(each.first) if each.first else BAR
    line = f'<line x1="0" x2="{begins:.1f}" y1="5" y2="5" stroke-dasharray="1 3"/>'
    marks = [line]
    if each.last:
        ends = max(x(each.last), begins + 4)
        marks.append(
            f'<rect x="{begins:.1f}" y="1" width="{ends - begins:.1f}" height="8" '
            'fill="var(--decode)"/>'
        )
        if each.is_done:
            marks.append(
                f'<rect x="{ends:.1f}" y="0" width="2" height="{HEIGHT}" fill="var(--ink)"/>'
            )
    return f'<svg width="{BAR}" height="{HEIGHT}" aria-hidden="true">{"".join(marks)}</svg>'


def _motif(every: Sequence[Standing]) -> str:
    """A batch timeline as an ornament: as many blue cells as the student has done things."""
    done = sum(each.predicted + each.answered + (each.check is not None) for each in every)
    cells = []
    for index in range(3 * 32):
        row, column = index % 3, index // 3
        is_prefill, is_done = column == row * 2, index < done
        colour = "#E69F00" if is_prefill else "#0072B2"
        opacity = 1 if is_done else 0.14
        cells.append(
            f'<rect x="{column * 10 + 0.5}" y="{row * 12}" width="8.6" height="9" '
            f'fill="{colour}" fill-opacity="{opacity}"/>'
        )
    return (
        f'<svg class="motif" viewBox="0 0 320 34" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(cells)}</svg>"
    )


def _footer(now: datetime) -> str:
    return (
        f"<p>Made on {_long_date(now)} on the student’s own machine, from the record that the "
        "lessons keep there. It says what was recorded and nothing more: nobody has verified it, "
        "and it is no certificate of a school.</p>"
        "<p>A lesson is done (✓) when its check has all points and its quiz is right; the quiz can "
        "be tried again. Points are the best run of each check. Predictions were locked before the "
        "run that they were about; nobody counts whether they were right.</p>"
    )


def _period(every: Sequence[Standing]) -> tuple[datetime, datetime] | None:
    times = [time for each in every for time in (each.first, each.last) if time is not None]
    return (min(times), max(times)) if times else None


def _long_date(time: datetime) -> str:
    return f"{time.day} {time:%B %Y}"
