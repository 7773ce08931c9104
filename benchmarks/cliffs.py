# SPDX-License-Identifier: Apache-2.0
"""Cliffs: where an operation takes much longer a byte than on data that differ a little. benchmark_cliffs measures
operations along lines, and says which places are neighbours; this finds the cliffs and prints them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

STEEP = 2.0  # times as long a byte as a neighbour

AXES = ("row_size", "lengths", "values", "dtype")
WORDS = {"row_size": "row size {}", "lengths": "lengths {}", "values": "values {}", "dtype": "{}"}


class Cliff(NamedTuple):
    """A place that takes `times` as long a byte as its best neighbour."""

    times: float
    name: str
    axis: str
    at: str
    neighbour: str
    nanoseconds: float  # a byte
    place: str  # on the other axes

    def line(self) -> str:
        there = WORDS[self.axis].format(self.at)
        return (
            f"{self.times:6.1f} x  {self.name}: {there} against {self.neighbour} "
            f"({self.place}; {self.nanoseconds:.3g} ns a byte)"
        )


def cliffs(lines: Iterable[Mapping[str, Any]], steep: float = STEEP) -> list[Cliff]:
    """Those of at least `steep`, the worst first."""
    found = []
    for line in lines:
        rates = {place["at"]: 1e9 * place["seconds"] / place["bytes"] for place in line["places"]}
        where = ", ".join(WORDS[axis].format(line[axis]) for axis in AXES if axis != line["axis"])
        for place in line["places"]:
            if not place["neighbours"]:
                continue
            best = min(place["neighbours"], key=rates.__getitem__)
            times = rates[place["at"]] / rates[best]
            if times >= steep:
                found.append(Cliff(times, line["name"], line["axis"], place["at"], best, rates[place["at"]], where))
    return sorted(found, reverse=True)


def run(program: Path, form: str, threads: int, only: str) -> list[dict[str, Any]]:
    """The lines that the program measures."""
    command = [str(program), f"--form={form}", f"--threads={threads}", f"--only={only}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = [json.loads(text) for text in child.stdout]
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return lines


def render(lines: list[dict[str, Any]]) -> str:
    """The table that people read."""
    places = sum(len(line["places"]) for line in lines)
    found = cliffs(lines)
    heading = f"{places} places on {len(lines)} lines; {len(found)} take {STEEP:g} times as long a byte as a neighbour"
    return "\n".join([heading, *(cliff.line() for cliff in found)])
