"""What benchmarks.peers found, summed up and as Markdown. Pure: dictionaries in, text out.

A *round* is one run of every engine, one right after the other; {engine: run} with run the dict
of peer_runners.protocol.measure and "others_cpu_share". Ratios are formed within a round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from benchmarks.peer_catalogue import OURS, PEERS

Round = Mapping[str, Mapping[str, float]]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; numbers are right-aligned when the first row has a number there."""
    body = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    kinds = [
        "--:" if body and body[0][i].lstrip("+-").replace(".", "").isdigit() else "---"
        for i in range(len(head))
    ]
    lines = [head, kinds, *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def is_quiet(members: Round, limit: float) -> bool:
    """Whether other processes took at most that share of the CPU in every run of the round."""
    return all(run["others_cpu_share"] <= limit for run in members.values())


def summarise(rounds: Sequence[Round], limit: float) -> dict:
    """One workload: per engine, output tokens/s (median, min, max) and our ratio to it.

    From the quiet rounds; where there is none, from all, and quiet_rounds is 0.
    """
    quiet = [members for members in rounds if is_quiet(members, limit)]
    used = quiet or list(rounds)
    engines = {}
    for name in used[0]:
        speeds = [_speed(members[name]) for members in used]
        ratios = [_speed(members[OURS]) / _speed(members[name]) for members in used]
        engines[name] = {
            "output_tok_s": median(speeds),
            "min": min(speeds),
            "max": max(speeds),
            "ours_over_it": median(ratios),
            "peak_rss_mb": max(members[name]["peak_rss_mb"] for members in used),
        }
    return {"quiet_rounds": len(quiet), "rounds": len(rounds), "engines": engines}


def _speed(run: Mapping[str, float]) -> float:
    return run["output_tokens"] / run["seconds"]


def markdown(report: Mapping) -> str:
    """The report of benchmarks.peers as a section's text: the table, the terms, who is missing.

    An engine that a workload was not run with (two runs put in one report) has a dash there.
    """
    names = list(report["workloads"])
    summaries = report["workloads"]
    head = ["engine", "versions", "peak MB"]
    for name in names:
        head += [f"{name} tokens/s", f"{name}: ours over it"]
    rows = []
    for engine, versions in report["engines"].items():
        found = [summaries[name]["engines"].get(engine) for name in names]
        row = [PEERS[engine].title, ", ".join(f"{k} {v}" for k, v in versions.items()),
               max(part["peak_rss_mb"] for part in found if part)]  # fmt: skip
        for part in found:
            if part is None:
                row += ["–", "–"]
                continue
            row.append(f"{part['output_tok_s']:.0f} [{part['min']:.0f}–{part['max']:.0f}]")
            row.append(f"{part['ours_over_it']:.2f}")
        rows.append(row)
    return "\n\n".join([terms(report), table(head, rows), *absent(report)])


def terms(report: Mapping) -> str:
    """One paragraph: machine, settings, how many rounds count."""
    machine, settings = report["machine"], report["settings"]
    rounds = "; ".join(
        f"{name}: {part['quiet_rounds']} of {part['rounds']} rounds quiet"
        + ("" if part["quiet_rounds"] else ", so **all were disturbed** and the figures are rough")
        for name, part in report["workloads"].items()
    )
    return (
        f"Measured on {report['date']}: {machine['cpu']}, {machine['cores']} cores, "
        f"{settings['threads']} threads, {settings['dtype']}, model {report['model']}, at most "
        f"{settings['max_num_seqs']} sequences and {settings['max_num_batched_tokens']} tokens a "
        f"step. Output tokens/s: median [min–max] of the quiet rounds ({rounds}); the ratio is the "
        "median of the rounds' own."
    )


def absent(report: Mapping) -> list[str]:
    """A paragraph for each engine that wasn't there or failed."""
    lines = []
    for name, why in report["missing"].items():
        lines.append(f"Not measured: {PEERS[name].title}: {why}")
    return lines
