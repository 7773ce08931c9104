# SPDX-License-Identifier: Apache-2.0
"""Says which workloads changed between two runs beyond the noise.

A workload that memory bounds is measured in the roof of its own run, so that a slower machine does not look like a
slower library: its time is multiplied by the roof. One that lies in the cache, or has no roof, is compared as it is,
since the bandwidth of memory says nothing about it.

It changed where the two medians differ by more than 3 %, by more than 3 times the larger distance between quartiles,
and by more than the roofs moved around it, since the measure is no better known than they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

import report
from results import Record, Run, format_seconds, median, quartile_range, roofs_movement

LEAST_CHANGE = 0.03
QUARTILE_RANGES = 3
# What changed comes first, worst first.
STATES = ("slower", "faster", "new", "gone", "failed", "unchanged")


@dataclass(frozen=True)
class Change:
    """What became of a workload. `ratio` is the new time by the old one, in units of the roof where that is known."""

    id: str
    state: str
    before: float = math.nan
    after: float = math.nan
    ratio: float = math.nan
    threshold: float = math.nan
    measure: str = ""
    unsteady: bool = False


def compare(before: Run, after: Run) -> list[Change]:
    old = {record.id: record for record in before.records}
    new = {record.id: record for record in after.records}
    changes = [_change(old.get(id), new.get(id)) for id in (*old, *(id for id in new if id not in old))]
    return sorted(changes, key=lambda c: (STATES.index(c.state), -abs(math.log(c.ratio)) if c.ratio > 0 else 0, c.id))


def _change(old: Record | None, new: Record | None) -> Change:
    if old is None:
        assert new is not None
        return Change(new.id, "new")
    if new is None:
        return Change(old.id, "gone")
    if old.ours is None or new.ours is None:
        return Change(old.id, "failed")
    times = median(old.ours), median(new.ours)
    roofs = old.roof(), new.roof()
    ratio, measure = times[1] / times[0], "time"
    noise = [LEAST_CHANGE]
    noise += [
        QUARTILE_RANGES * quartile_range(record.ours) / median(record.ours) for record in (old, new) if record.ours
    ]
    if roofs[0] and roofs[1] and old.past_cache and new.past_cache:
        ratio, measure = ratio * roofs[1] / roofs[0], f"{new.workload['roof']} roof"
        # A mean of two figures that differ by x may be off by half of that.
        noise.append(sum(_movement(record) / 2 for record in (old, new)))
    threshold = max(noise)
    # As a factor either way: +25 % is as far as -20 %.
    far = max(ratio, 1 / ratio) - 1
    state = "unchanged" if far <= threshold else "slower" if ratio > 1 else "faster"
    return Change(old.id, state, *times, ratio, threshold, measure, old.unsteady or new.unsteady)


def _movement(record: Record) -> float:
    around = (
        record.data.get("roofs_before") or {},
        record.data.get("roofs_between") or record.data.get("roofs_after") or {},
    )
    return roofs_movement(*around)


def counts(changes: Iterable[Change]) -> str:
    states = [change.state for change in changes]
    return ", ".join(
        f"{states.count(state)} {state}" for state in ("faster", "slower", "unchanged", "new", "gone", "failed")
    )


def _cells(change: Change) -> list[str]:
    name = change.id + (" ~" if change.unsteady else "")
    if math.isnan(change.ratio):
        return [change.state, name, "", "", "", "", ""]
    return [
        change.state,
        name,
        format_seconds(change.before),
        format_seconds(change.after),
        f"{(change.ratio - 1) * 100:+.1f} %",
        f"{change.threshold * 100:.1f} %",
        change.measure,
    ]


_HEAD = ["", "workload", "before", "after", "change", "noise", "measured in"]


def render_text(changes: list[Change]) -> str:
    """A table for a terminal. A change of the time is positive where the library became slower."""
    rows = [_HEAD, *(_cells(change) for change in changes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "  ".join(
            cell.rjust(width) if 2 <= column <= 5 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, "", counts(changes)])


def write_html(before: Run, after: Run, changes: list[Change], path: Path) -> None:
    def describe(run: Run) -> str:
        context = run.data.get("context", {})
        machine = run.data.get("machine", {}).get("cpu") or context.get("cpu")
        words = [run.data.get("date"), machine, context.get("version"), run.data.get("revision"), run.data.get("form")]
        return escape(", ".join(str(word) for word in words if word))

    rows = []
    for change in changes:
        state, *rest = map(escape, _cells(change))
        classes = {"slower": "slow", "faster": "held"}.get(change.state, "faint")
        rows.append([f'<span class="{classes}">{state}</span>', *rest])
    body = (
        f"<h1>What changed</h1>\n<p>Before: {describe(before)}<br>After: {describe(after)}</p>\n"
        f"<p>{counts(changes)}</p>\n"
        "<p>A change is that of the time, in units of the roof of its run where memory bounds the workload. Less than "
        "the noise is no change; ~ marks workloads whose roofs were unsteady.</p>\n"
        + report.table([name.capitalize() for name in _HEAD], rows, numbers=(2, 3, 4, 5))
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report.page("Benchmarks of lodtensor, compared", body), encoding="utf-8")
