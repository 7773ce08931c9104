# SPDX-License-Identifier: Apache-2.0
"""Holds what benchmark_gpu and torch_peers.py measured to benchmarks/gpu/goals.json.

    python3 benchmarks/gpu/verdict.py FOLDER

Prints a table in Markdown, a row for each goal: of its workloads the one that is farthest from it, what ours takes
there and what the other would, their ratio, and whether the goal holds. Needs nothing beside Python.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import goals  # noqa: E402
from results import Run, format_seconds  # noqa: E402


def times(verdict: goals.Verdict, measure: str) -> tuple[str, str]:
    """What ours takes and what it is compared with: a peer's time; that of a copy of as many bytes; that which as many
    bytes would take at the other workload's rate. Counts are no times."""
    if verdict.value is None or verdict.seconds is None or measure in goals.COUNTS:
        return "", ""
    theirs = verdict.seconds / verdict.value if measure == "time a byte" else verdict.seconds * verdict.value
    return format_seconds(verdict.seconds), format_seconds(theirs)


def table(run: Run) -> str:
    wanted = goals.load(HERE / "goals.json")["goals"]
    lines = ["| work | what | against | ours | the other | ratio | goal | holds | where |", "|---" * 9 + "|"]
    for goal, verdict in zip(wanted, goals.judge(run, wanted), strict=True):
        ours, theirs = times(verdict, goal["measure"])
        holds = "not measured" if verdict.held is None else "yes" if verdict.held else "NO"
        where = f"{verdict.worst} ({verdict.note})" if verdict.note else verdict.worst
        cells = (
            verdict.work, verdict.what, verdict.against, ours, theirs, verdict.measured, verdict.goal, holds, where
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0 if sys.argv[1:] == ["--help"] else 2
    run = Run.load(Path(sys.argv[1]) / "results.json")
    peers = run.data.get("torch", {})
    print(f"{run.data['gpu']}; PyTorch: {peers.get('version', 'not measured')}\n")
    if run.data.get("quick"):
        print("One call a round: these are no measurements.\n")
    print(table(run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
