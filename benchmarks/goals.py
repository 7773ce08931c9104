# SPDX-License-Identifier: Apache-2.0
"""Holds a run to benchmarks/goals.json.

A goal has a `measure`, which says what is compared with `at_least` or `at_most`:

    roof                  the part of the roof `roof` that we reach; the workload's own roof where none is named
    peer                  how many times as long the fastest result takes, of those of the `families` in whose name the
                          pattern `forms` is found
    time a byte, time     our time by that of the workload which differs only in what `reference` says
    seconds an operation  our time by the workload's parameter `operations`
    allocations           what our result says of them; the same of synchronisations, launches, different_bits

`workloads` has a pattern for each field that matters; it must match the whole field. `against` says what is compared
with, where the measure does not say it well enough. Unless the goal says otherwise,
float32, all threads, past the cache (`sizes` and `threads` widen that). The worst of the workloads is what counts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results import (
    FAMILY_OF_KEY,
    Record,
    Run,
    family_of,
    format_round_seconds,
    format_seconds,
    format_times,
    median,
)

FILE = Path(__file__).with_name("goals.json")
# Whole numbers of which our result says how many there were.
COUNTS = ("allocations", "synchronisations", "launches", "different_bits")


def load(path: Path = FILE) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def matches(record: Record, patterns: Mapping[str, str]) -> bool:
    return all(re.fullmatch(pattern, str(record.workload.get(key, ""))) for key, pattern in patterns.items())


@dataclass(frozen=True)
class Verdict:
    """A goal and what the run says of it; `held` is None where nothing was measured."""

    work: str
    what: str
    against: str
    goal: str
    measured: str
    worst: str
    held: bool | None
    note: str
    value: float | None = None  # `measured`, and what ours took there
    seconds: float | None = None


def judge(run: Run, goals: list[Mapping[str, Any]]) -> list[Verdict]:
    return [_judge(run, goal) for goal in goals]


def _judge(run: Run, goal: Mapping[str, Any]) -> Verdict:
    threads = max((record.workload.get("threads", 1) for record in run.records), default=1)
    patterns = dict(goal["workloads"])
    if goal.get("threads") != "any":
        patterns.setdefault("threads", str(threads))
    if goal["measure"] not in COUNTS:
        patterns.setdefault("dtype", "float32|int64")
    records = [record for record in run.records if record.ours and matches(record, patterns)]
    if goal.get("sizes") != "all":
        records = [record for record in records if record.past_cache]

    upward = "at_least" in goal
    # How far beyond the goal, so that workloads whose goals differ can be ranked.
    figures: list[tuple[float, float, float, Record]] = []
    for record in records:
        value = _measure(run, record, goal)
        wanted = _wanted(record, goal)
        if value is not None and wanted is not None:
            if upward:
                margin = value / wanted
            else:
                margin = wanted / value if value else math.inf
            figures.append((margin, value, wanted, record))

    text = _format(goal["measure"])
    wanted_text = goal["at_least"] if upward else goal["at_most"]
    if not isinstance(wanted_text, str):
        # Goals are round: 8×, not 8.00×.
        rounded = {format_times: lambda ratio: f"{ratio:g}\u00d7", format_seconds: format_round_seconds}
        wanted_text = rounded.get(text, text)(wanted_text)
    goal_text = ("at least " if upward else "at most ") + wanted_text
    against = _against(goal)
    if not figures:
        note = f"measured by {goal['elsewhere']}" if "elsewhere" in goal else ""
        return Verdict(goal["work"], goal["what"], against, goal_text, "", "", None, note)
    margin, value, wanted, worst = min(figures, key=lambda figure: figure[0])
    held = sum(figure[0] >= 1 for figure in figures)
    note = f"{held} of {len(figures)} workloads" if len(figures) > 1 else ""
    if isinstance(goal.get("at_least"), str):
        note = f"wanted there: {text(wanted)}" + (f"; {note}" if note else "")
    seconds = None if worst.ours is None else median(worst.ours)
    return Verdict(
        goal["work"], goal["what"], against, goal_text, text(value), worst.id, margin >= 1, note, value, seconds
    )


def _measure(run: Run, record: Record, goal: Mapping[str, Any]) -> float | None:
    assert record.ours is not None
    match goal["measure"]:
        case "roof":
            return record.fraction(goal.get("roof"))
        case "peer":
            return _speed_up(record, goal)
        case "time a byte" | "time":
            other = _reference(run, record, goal["reference"])
            if other is None or other.ours is None:
                return None
            ratio = median(record.ours) / median(other.ours)
            if goal["measure"] == "time a byte":
                ratio *= other.workload["bytes"] / record.workload["bytes"]
            return ratio
        case "seconds an operation":
            return median(record.ours) / record.workload.get("parameters", {}).get("operations", 1)
        case count_of if count_of in COUNTS:
            count = record.ours.get(count_of)
            return None if count is None else float(count)
    raise ValueError(f"goals.json: unknown measure {goal['measure']}")


def _speed_up(record: Record, goal: Mapping[str, Any]) -> float | None:
    candidates = [
        result
        for result in record.others
        if result["seconds"]
        and not result.get("disagrees")
        and family_of(result).key in goal["families"]
        and re.search(goal.get("forms", ""), result["by"])
    ]
    return record.speed_up(min(candidates, key=median, default=None))


def _reference(run: Run, record: Record, differing: Mapping[str, str]) -> Record | None:
    """The workload that differs only in `differing`, of the nearest number of rows."""
    same = [key for key in ("op", "variant", "lengths", "ids", "row_size", "dtype", "threads") if key not in differing]
    candidates = [
        other
        for other in run.records
        if other.ours
        and matches(other, differing)
        and all(other.workload.get(key) == record.workload.get(key) for key in same)
    ]
    return min(
        candidates,
        key=lambda other: abs(math.log(max(other.workload["rows"], 1) / max(record.workload["rows"], 1))),
        default=None,
    )


def _wanted(record: Record, goal: Mapping[str, Any]) -> float | None:
    wanted = goal.get("at_least", goal.get("at_most"))
    if wanted != "longest / mean":
        return float(wanted)
    parameters = record.workload.get("parameters", {})
    longest = parameters.get("longest", parameters.get("padded_length"))
    return None if not longest else longest * record.workload["sequences"] / record.workload["rows"]


def _format(measure: str) -> Any:
    if measure == "roof":
        return lambda part: f"{part * 100:.3g} %"  # 84.6 % is not 85 %
    if measure == "seconds an operation":
        return format_seconds
    if measure in COUNTS:
        return lambda count: f"{count:g}"
    return format_times


def _against(goal: Mapping[str, Any]) -> str:
    if "against" in goal:
        return str(goal["against"])
    match goal["measure"]:
        case "roof":
            return f"the {goal['roof']} roof" if "roof" in goal else "its roof"
        case "peer":
            names = ", ".join(FAMILY_OF_KEY[key].name for key in goal["families"])
            return f"{names}: {goal['forms']}" if "forms" in goal else names
        case "time a byte" | "time":
            return f"{goal['measure']} of " + ", ".join(p.split("|")[0] for p in goal["reference"].values())
        case "seconds an operation":
            return "time of an operation"
    return str(goal["measure"])
