# SPDX-License-Identifier: Apache-2.0
"""What tools/bench writes as JSON, and the figures that are derived from it."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

FORMAT = 1
OURS = "lodtensor"
# How far `read` or `copy` may move while a workload is measured.
STEADY_LIMIT = 0.10
# Peers' checksums may differ from ours by this part of the sum of absolute values.
CHECKSUM_TOLERANCE = 1e-3
# What is larger counts as past the cache, whatever the cache: a large one is seldom all ours on a shared machine.
LARGEST_CACHE = 32 << 20


@dataclass(frozen=True)
class Family:
    """A peer whatever its form: `torch` for torch.segment_reduce and torch.embedding_bag. Has one colour everywhere."""

    key: str
    name: str
    pattern: str
    light: str
    dark: str
    marker: str


# The first pattern that is found in a result's `by` decides. The colours stay apart for those who confuse red and
# green; as eleven cannot all do that, each has a shape too, and bars have names.
FAMILIES = (
    Family(OURS, OURS, r"^lodtensor", "#0072b2", "#56b4e9", "circle"),
    Family("fbgemm", "FBGEMM", r"(?i)fbgemm", "#882255", "#d65c93", "diamond"),
    Family("libtorch", "libtorch", r"(?i)^libtorch", "#e69f00", "#e69f00", "up"),
    Family("torch", "torch", r"(?i)^torch", "#d55e00", "#f0793a", "square"),
    Family("tensorflow", "TensorFlow", r"(?i)^(tensorflow|tf)\b", "#cc79a7", "#eaa6ca", "down"),
    Family("paddle", "Paddle", r"(?i)^paddle", "#117733", "#46b36b", "plus"),
    Family("awkward", "awkward", r"(?i)^(awkward|ak)\b", "#44aa99", "#6fd3c2", "hexagon"),
    Family("numpy", "NumPy", r"(?i)^(numpy|np)\b", "#999933", "#c9c95c", "cross"),
    Family("xtensor", "padded xtensor", r"(?i)xtensor", "#332288", "#9d8cf0", "bowtie"),
    Family("memcpy", "memcpy", r"(?i)\bmemcpy\b", "#555555", "#bbbbbb", "bar"),
    Family("loop", "scalar loop", r"(?i)\bloop\b", "#8c8c8c", "#8c8c8c", "star"),
)
OTHER = Family("other", "other", "", "#a6761d", "#c99a45", "pentagon")
FAMILY_OF_KEY = {family.key: family for family in (*FAMILIES, OTHER)}


def family_of(result: Mapping[str, Any]) -> Family:
    """The family of a result; that of the peer's name where the form's name tells none."""
    for text in (result["by"], result.get("peer", "")):
        for family in FAMILIES:
            if re.search(family.pattern, text):
                return family
    return OTHER


def median(result: Mapping[str, Any]) -> float:
    return statistics.median(result["seconds"])


def to_json(data: Mapping[str, Any]) -> str:
    """The text of a file of results: times and rates to five digits, more than any clock here is good for."""

    def rounded(value: Any, name: str = "") -> Any:
        # Sums are compared between peers, and need all their digits.
        if isinstance(value, float) and name not in ("checksum", "magnitude"):
            return float(f"{value:.5g}")
        if isinstance(value, Mapping):
            return {name: rounded(item, name) for name, item in value.items()}
        return [rounded(item, name) for item in value] if isinstance(value, list) else value

    return json.dumps(rounded(data), separators=(",", ":")) + "\n"


def quartile_range(result: Mapping[str, Any]) -> float:
    """The distance between the quartiles of the repetitions, in seconds."""
    seconds = result["seconds"]
    if len(seconds) < 2:
        return 0.0
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return high - low


def disagrees(ours: Mapping[str, Any] | None, theirs: Mapping[str, Any]) -> bool:
    """Whether both have a checksum and these differ."""
    if ours is None or ours.get("checksum") is None or theirs.get("checksum") is None:
        return False
    difference = abs(float(ours["checksum"]) - float(theirs["checksum"]))
    magnitude = max(float(ours.get("magnitude") or 0), float(theirs.get("magnitude") or 0))
    return not difference <= CHECKSUM_TOLERANCE * magnitude  # NaN disagrees


def roofs_movement(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """By what part `read` or `copy` changed, whichever did more."""
    pairs = [(before[name], after[name]) for name in ("read", "copy") if before.get(name) and after.get(name)]
    return max((max(pair) / min(pair) - 1 for pair in pairs), default=0.0)


@dataclass(frozen=True)
class Record:
    """One workload of a run, and what was measured of it."""

    data: Mapping[str, Any]
    cache: int

    @property
    def workload(self) -> Mapping[str, Any]:
        return self.data["workload"]

    @property
    def id(self) -> str:
        return self.workload["id"]

    @property
    def op(self) -> str:
        return self.workload["op"]

    @property
    def short_id(self) -> str:
        """The id without the operation that it begins with."""
        return self.id.removeprefix(self.op).lstrip("/") or self.id

    @property
    def unsteady(self) -> bool:
        return bool(self.data.get("unsteady"))

    @property
    def past_cache(self) -> bool:
        return self.workload.get("bytes", 0) > self.cache

    @property
    def results(self) -> list[Mapping[str, Any]]:
        return self.data["results"]

    @cached_property
    def ours(self) -> Mapping[str, Any] | None:
        """Our result, where there is one."""
        return next((result for result in self.results if result["by"] == OURS and result["seconds"]), None)

    @property
    def without(self) -> str:
        """Why there is no result of ours."""
        note = next((result.get("note") for result in self.results if result["by"] == OURS), None)
        return ": ".join(filter(None, ["left out" if self.data.get("left_out") else "failed", note]))

    @cached_property
    def others(self) -> list[Mapping[str, Any]]:
        """What all but us measured, the failed too."""
        return [result for result in self.results if family_of(result).key != OURS]

    @cached_property
    def best_by_family(self) -> dict[str, Mapping[str, Any]]:
        """The fastest form of each family that agrees with us; of a family none of whose forms does, the fastest."""
        best: dict[str, Mapping[str, Any]] = {}
        for result in self.others:
            key = family_of(result).key
            if result["seconds"] and (key not in best or _rank(result) < _rank(best[key])):
                best[key] = result
        return best

    @cached_property
    def best_peer(self) -> Mapping[str, Any] | None:
        """The fastest of those that agree with us."""
        agreeing = [result for result in self.best_by_family.values() if not result.get("disagrees")]
        # memcpy does not do the work: it is a roof that goals name, no peer.
        return min((result for result in agreeing if family_of(result).key != "memcpy"), key=median, default=None)

    def speed_up(self, result: Mapping[str, Any] | None) -> float | None:
        """How many times as long as ours another's call takes."""
        if self.ours is None or result is None or not result["seconds"]:
            return None
        return median(result) / median(self.ours)

    def roof(self, name: str | None = None) -> float | None:
        """Bytes a second of a roof, the workload's own where none is named: the mean around our measurement."""
        name = name or self.workload["roof"]
        if name == "none":
            return None
        if self.workload.get("threads") == 1:
            name += "_1"
        # Where peers ran in between, `roofs_after` is later than our part.
        around = (
            self.data.get("roofs_before") or {},
            self.data.get("roofs_between") or self.data.get("roofs_after") or {},
        )
        values = [roofs[name] for roofs in around if roofs.get(name)]
        return statistics.mean(values) if values else None

    def fraction(self, name: str | None = None) -> float | None:
        """The part of a roof that we reach."""
        roof = self.roof(name)
        bytes = self.workload.get("bytes")
        return None if roof is None or self.ours is None or not bytes else bytes / median(self.ours) / roof


def _rank(result: Mapping[str, Any]) -> tuple[bool, float]:
    return bool(result.get("disagrees")), median(result)


@dataclass(frozen=True)
class Run:
    """All that one run of tools/bench measured."""

    data: Mapping[str, Any]

    @classmethod
    def load(cls, path: Path) -> Run:
        """Throws ValueError where the file is none of ours."""
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("workloads"), list):
            raise ValueError(f"{path} is no result of tools/bench in format {FORMAT}")
        return cls(data)

    @cached_property
    def cache(self) -> int:
        """Bytes beyond which a workload counts as past the cache."""
        last_level = max(
            (cache["bytes"] for cache in self.data.get("machine", {}).get("caches", [])), default=LARGEST_CACHE
        )
        return min(last_level, LARGEST_CACHE)

    @cached_property
    def records(self) -> list[Record]:
        return [Record(data, self.cache) for data in self.data["workloads"]]

    @cached_property
    def families(self) -> list[Family]:
        """The families of all peers that measured something, in the order of `FAMILIES`."""
        present = {key for record in self.records for key in record.best_by_family}
        return [family for family in (*FAMILIES, OTHER) if family.key in present]

    def roofs(self, name: str) -> list[float]:
        """All measurements of a roof."""
        return [
            record.data[when][name]
            for record in self.records
            for when in ("roofs_before", "roofs_between", "roofs_after")
            if (record.data.get(when) or {}).get(name)
        ]


def _significant(value: float) -> str:
    """Three significant digits, no exponent."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}" if digits else f"{round(value):,}".replace(",", "\u202f")


def format_seconds(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale * 0.9995:
            return f"{_significant(seconds / scale)} {unit}"
    return f"{_significant(seconds * 1e9)} ns"


def format_round_seconds(seconds: float) -> str:
    """10 ms, where a measured time would be 10.0 ms."""
    value, unit = format_seconds(seconds).split(" ")
    return f"{value.rstrip('0').rstrip('.') if '.' in value else value} {unit}"


def format_bytes(count: float) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{_significant(count / scale)} {unit}"
    return f"{count:.0f} B"


def format_count(count: float) -> str:
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.3g}"


def format_rate(bytes_a_second: float) -> str:
    return f"{_significant(bytes_a_second / 1e9)} GB/s"


def format_times(ratio: float) -> str:
    return f"{_significant(ratio)}\u00d7"


def format_percent(part: float) -> str:
    return f"{part * 100:.0f} %"


def format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def unique(items: Iterable[str]) -> list[str]:
    """Without repetitions, in the order of the first ones."""
    return list(dict.fromkeys(items))
