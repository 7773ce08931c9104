# SPDX-License-Identifier: Apache-2.0
"""Checks the peers: small inputs, every operation, every element of every result against plain Python.

    python check.py [--python=PEER=INTERPRETER ...] [PEER ...]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
PEERS = ["numpy", "torch", "fbgemm", "tensorflow", "paddle", "awkward"]
HIDDEN, FEATURES, HEIGHT, TAGS = 8, 5, 50, 7

Case = tuple[dict[str, Any], dict[str, np.ndarray], list[np.ndarray] | None]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm(rows: np.ndarray, w_ih: np.ndarray, w_hh: np.ndarray, bias: np.ndarray) -> np.ndarray:
    h, c, states = np.zeros(HIDDEN), np.zeros(HIDDEN), []
    for row in rows:
        i, f, g, o = np.split(w_ih @ row + bias + w_hh @ h, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.array(states).reshape(-1, HIDDEN)


def gru(rows: np.ndarray, w_ih: np.ndarray, w_hh: np.ndarray, bias: np.ndarray) -> np.ndarray:
    h, states = np.zeros(HIDDEN), []
    for row in rows:
        xr, xz, xn = np.split(w_ih @ row + bias, 3)
        hr, hz, hn = np.split(w_hh @ h, 3)
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        h = (1 - z) * np.tanh(xn + r * hn) + z * h
        states.append(h)
    return np.array(states).reshape(-1, HIDDEN)


def softmax(rows: np.ndarray, log: bool) -> np.ndarray:
    if not len(rows):
        return rows
    moved = rows - rows.max(0)
    total = np.exp(moved).sum(0)
    return moved - np.log(total) if log else np.exp(moved) / total


def log_sum(x: np.ndarray, axis: int | None = None) -> np.ndarray:
    highest = x.max(axis, keepdims=True)
    return np.squeeze(highest, axis) + np.log(np.exp(x - highest).sum(axis))


def crf(rows: np.ndarray, tags: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The likelihood of the tags, and its gradient by the rows."""
    if not len(rows):
        return np.zeros(1), rows
    start, stop, steps = weight[0], weight[1], weight[2:]
    before, after = [start + rows[0]], [stop]
    for row in rows[1:]:
        before.append(log_sum(before[-1][:, None] + steps, 0) + row)
    for row in rows[:0:-1]:
        after.append(log_sum(steps + row + after[-1], 1))
    total = log_sum(before[-1] + stop)
    path = start[tags[0]] + stop[tags[-1]] + rows[np.arange(len(rows)), tags].sum() + steps[tags[:-1], tags[1:]].sum()
    return np.array([path - total]), np.eye(len(steps))[tags] - np.exp(np.array(before) + after[::-1] - total)


def edits(a: np.ndarray, b: np.ndarray) -> int:
    table = np.zeros((len(a) + 1, len(b) + 1), np.int64)
    table[:, 0], table[0, :] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i, k in np.ndindex(len(a), len(b)):
        table[i + 1, k + 1] = min(table[i, k] + (a[i] != b[k]), table[i, k + 1] + 1, table[i + 1, k] + 1)
    return int(table[-1, -1])


def cases(seed: int, empties: bool, sequences: int) -> Iterator[Case]:
    """Every operation with its inputs and its expected result."""
    random = np.random.default_rng(seed)
    lengths = random.integers(0 if empties else 1, 9, sequences)
    if empties:
        lengths[[0, -1]] = 0  # the places where a sum over borders goes wrong first
    else:
        lengths[sequences // 2] = 40
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    count = int(offsets[-1])
    label = f"{'empties' if empties else 'filled'}{sequences}"

    def case(
        op: str, inputs: dict[str, np.ndarray], expected: list[np.ndarray] | None, size: int = 1, dtype: str = "float32",
        variant: str = "", **parameters: Any,
    ) -> Case:
        inputs = {
            name: array.astype(dtype) if array.dtype.kind == "f" else array.astype(np.int64) for name, array in inputs.items()
        }
        description = {
            "id": f"{op}/{variant}/{label}/{size}/{dtype}", "work": "", "op": op, "variant": variant, "lengths": label,
            "ids": "", "row_size": size, "dtype": dtype, "rows": count, "sequences": sequences, "bytes": 0, "roof": "none",
            "threads": 2, "parameters": parameters,
        }
        return description, inputs, expected

    def split(rows: np.ndarray) -> list[np.ndarray]:
        return [rows[b:e].astype(np.float64 if rows.dtype.kind == "f" else rows.dtype) for b, e in zip(offsets, offsets[1:])]

    for dtype in ("float32", "float64"):
        for size in (1, 3, 16):
            shape = (count,) if size == 1 else (count, size)
            one = (0.0 if size == 1 else np.zeros(size))
            x = (random.standard_normal(shape) - 0.5).astype(dtype)  # more negative than not: an initial 0 would show
            plain = {"x": x, "offsets": offsets}
            rows = split(x)
            options: dict[str, Any] = {"size": size, "dtype": dtype}
            yield case("sequence_pool", plain, [r.sum(0) for r in rows], variant="SUM", **options)
            yield case("sequence_pool", plain, [r.mean(0) if len(r) else one for r in rows], variant="AVERAGE", **options)
            maxima = [r.max(0) if len(r) else one for r in rows]
            yield case("sequence_pool", plain, maxima, variant="MAX", **options)
            yield case("sequence_max_pool", plain, maxima, **options)
            yield case("sequence_softmax", plain, [softmax(r, False) for r in rows], **options)
            yield case("sequence_log_softmax", plain, [softmax(r, True) for r in rows], **options)
            longest = int(lengths.max())
            padded = [np.concatenate([r, np.zeros((longest - len(r), *r.shape[1:]))]) for r in rows]
            yield case("sequence_pad", plain, padded, padded_length=longest, **options)
            yield case("sequence_unpad", plain, rows, padded_length=longest, **options)
            yield case("sequence_reverse", plain, [r[::-1] for r in rows], **options)
            starts = random.integers(0, lengths + 1)
            counts = random.integers(0, lengths - starts + 1)
            taken = [r[s : s + n] for r, s, n in zip(rows, starts, counts)]
            yield case("sequence_slice", plain | {"starts": starts, "counts": counts}, taken, **options)
            lengths2 = random.integers(0 if empties else 1, 5, sequences)
            offsets2 = np.concatenate([[0], np.cumsum(lengths2)])
            x2 = random.standard_normal((int(offsets2[-1]), *shape[1:])).astype(dtype)
            both = [np.concatenate([r, x2[b:e]]) for r, b, e in zip(rows, offsets2, offsets2[1:])]
            yield case("sequence_concat", plain | {"x2": x2, "offsets2": offsets2}, both, **options)
            chosen = random.integers(0, sequences, sequences)
            yield case("select", plain | {"chosen": chosen}, [rows[i] for i in chosen], **options)
            short = random.standard_normal((sequences, *shape[1:])).astype(dtype)
            wide = [np.repeat(short[i : i + 1], n, axis=0) for i, n in enumerate(lengths)]
            yield case("sequence_expand_as", {"x": short, "offsets": offsets}, wide, **options)
            yield case("sequence_expand_as_grad", plain, [r.sum(0) for r in rows], **options)
            yield case("sequence_cumsum", plain, [np.cumsum(r, axis=0) for r in rows], **options)
            if size == 1:
                ordered = [np.sort(r) for r in rows]
                yield case("sequence_sort", plain, ordered, **options)
                yield case("sequence_argsort", plain, ordered, **options)
                yield case("sequence_topk", plain, [r[::-1][:3] for r in ordered], k=3, **options)
            ids = random.integers(0, HEIGHT, count)
            merged = [x[ids == i].astype(np.float64).sum(0) for i in np.unique(ids)]
            yield case("merge_add", {"ids": ids, "x": x}, merged, height=HEIGHT, **options)
            table = random.standard_normal((HEIGHT, *shape[1:])).astype(dtype)
            bags = [table[ids[b:e]].astype(np.float64).sum(0) for b, e in zip(offsets, offsets[1:])]
            yield case("embedding_pool", {"table": table, "ids": ids, "offsets": offsets}, bags, variant="SUM", **options)
            yield case("sparse_adam", {"ids": ids, "x": x, "table": table}, None, height=HEIGHT, **options)
    tokens = random.integers(0, 6, count)
    plain = {"x": tokens, "offsets": offsets}
    rows = split(tokens)
    for gone in ([2], [1, 3, 9]):
        kept = [r[~np.isin(r, gone)] for r in rows]
        yield case("sequence_erase", plain, kept, dtype="int64", tokens=gone)
    truth = np.where(random.integers(0, 3, count) == 0, random.integers(0, 6, count), tokens)
    distances = [np.array([edits(a, b)]) for a, b in zip(rows, split(truth))]
    yield case("edit_distance", plain | {"truth": truth}, distances, dtype="int64")
    for dtype in ("float32", "float64"):
        emission, weight = random.standard_normal((count, TAGS)), random.standard_normal((TAGS + 2, TAGS))
        labels = random.integers(0, TAGS, count)
        plain = {"x": emission.astype(dtype), "offsets": offsets, "weight": weight.astype(dtype), "labels": labels}
        both = [crf(r, t, plain["weight"].astype(np.float64)) for r, t in zip(split(plain["x"]), split(labels))]
        yield case("linear_chain_crf", plain, [likelihood for likelihood, _ in both], size=TAGS, dtype=dtype)
        yield case("linear_chain_crf_grad", plain, [gradient for _, gradient in both], size=TAGS, dtype=dtype)
    plain = {"x": tokens, "offsets": offsets}
    for window in (2, 4):
        seen = [[list(r[i : i + window]) + [0] * (window - len(r[i : i + window])) for i in range(len(r))] for r in rows]
        flat = [np.array(s).reshape(-1, window) for s in seen]
        yield case("sequence_enumerate", plain, flat, dtype="int64", window=window)
    if not empties:
        x = random.standard_normal((count, FEATURES)).astype(np.float32)
        for op, gates, run in (("lstm", 4, lstm), ("gru", 3, gru)):
            weights = {
                "w_ih": random.standard_normal((gates * HIDDEN, FEATURES)),
                "w_hh": random.standard_normal((gates * HIDDEN, HIDDEN)) * 0.3,
                "bias": random.standard_normal(gates * HIDDEN),
            }
            states = [run(r, **weights) for r in split(x)]
            yield case(op, {"x": x, "offsets": offsets} | weights, states, size=FEATURES, hidden=HIDDEN)


def check(name: str, interpreter: str, prepared: list[tuple[dict[str, Any], Path, np.ndarray | None]]) -> int:
    """The number of disagreements of one peer."""
    command = [interpreter, str(HERE / f"{name}_peer.py"), "--threads=2", "--form=short"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout
    print(f"{name}: {process.stdout.readline().strip()}", flush=True)
    failures = 0
    served: dict[str, int] = {}
    for description, folder, expected in prepared:
        if process.poll() is not None:
            print(f"  {name} ended with {process.returncode}")
            return failures + 1
        dump = folder / f"dump-{name}"
        dump.mkdir()
        request = {"workload": description, "inputs": str(folder), "dump": str(dump)}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        while True:
            line = process.stdout.readline()
            if not line:
                print(f"  {name} ended at {description['id']}")
                return failures + 1
            answer = json.loads(line)
            if "done" in answer:
                break
            key = f"{description['op']}: {answer['by']}"
            served[key] = served.get(key, 0) + 1
            problem = disagreement(answer, expected, dump)
            if problem:
                failures += 1
                print(f"  {description['id']} by {answer['by']}: {problem}", flush=True)
    process.stdin.close()
    process.wait()
    for key, times in sorted(served.items()):
        print(f"    {key} ({times})")
    print(f"  {name}: {sum(served.values())} results, {failures} disagree", flush=True)
    return failures


def disagreement(answer: dict[str, Any], expected: np.ndarray | None, dump: Path) -> str:
    if not answer["seconds"]:
        return f"failed: {answer['note']}"
    if expected is None:
        return "" if answer["checksum"] is None else "a checksum where there is none"
    total, magnitude = expected.sum(), np.abs(expected).sum()
    if abs(answer["checksum"] - total) > 1e-4 * magnitude or abs(answer["magnitude"] - magnitude) > 1e-4 * magnitude:
        return f"checksum {answer['checksum']} of {answer['magnitude']}, should be {total} of {magnitude}"
    name = "".join(c if c.isalnum() else "_" for c in answer["by"])
    got = np.load(dump / f"{name}.npy")
    if got.shape != expected.shape:
        return f"{got.size} elements, should be {expected.size}"
    worst = np.abs(got - expected).max(initial=0.0)
    return f"an element is off by {worst}" if not worst < 2e-4 else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[], metavar="PEER=INTERPRETER")
    parser.add_argument("--only", default="", help="only operations whose name contains this")
    parser.add_argument("peers", nargs="*")
    arguments = parser.parse_args()
    interpreters = dict(pair.split("=", 1) for pair in arguments.python)
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        prepared = []
        for seed, empties, sequences in ((1, True, 40), (2, False, 33), (3, False, 1)):
            for description, inputs, expected in cases(seed, empties, sequences):
                if arguments.only not in description["op"]:
                    continue
                folder = Path(scratch) / str(len(prepared))
                folder.mkdir()
                for name, array in inputs.items():
                    np.save(folder / f"{name}.npy", array)
                flat = None
                if expected is not None:
                    flat = np.concatenate([np.zeros(0), *(np.asarray(e, dtype=np.float64).reshape(-1) for e in expected)])
                prepared.append((description, folder, flat))
        for name in arguments.peers or PEERS:
            failures += check(name, interpreters.get(name, sys.executable), prepared)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
