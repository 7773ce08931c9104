#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands for benchmark_suite in bench_test.py. A workload's variant says how it behaves."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

VARIANTS = os.environ["FAKE_VARIANTS"].split(",")
STATE = Path(os.environ["FAKE_STATE"])


def workload(variant: str) -> dict:
    return {
        "id": f"sequence_pool/{variant}/u16/1/float32/64MiB", "work": "W1", "op": "sequence_pool", "variant": variant,
        "lengths": "u16", "ids": "", "row_size": 1, "dtype": "float32", "rows": 1 << 24, "sequences": 1 << 20,
        "bytes": 71303168, "size": "64MiB", "roof": "read", "threads": options.threads, "parameters": {},
    }  # fmt: skip


def count(name: str) -> int:
    """How often it was called with this name."""
    with (STATE / name).open("a") as file:
        file.write("x")
    return (STATE / name).stat().st_size


def roofs(factor: float = 1.0) -> dict:
    return {name + suffix: 4e10 * factor for name in ("read", "copy", "stream_copy", "gather") for suffix in ("", "_1")}


parser = argparse.ArgumentParser()
parser.add_argument("--list", action="store_true")
parser.add_argument("--roofs", action="store_true")
parser.add_argument("--workload")
parser.add_argument("--inputs", type=Path)
parser.add_argument("--out", type=Path)
parser.add_argument("--form", required=True, choices=["short", "long"])
parser.add_argument("--threads", required=True, type=int)
options = parser.parse_args()
if options.list:
    for variant in VARIANTS:
        # What the inputs decide is not known yet.
        later = ("rows", "sequences", "bytes", "parameters")
        print(json.dumps({key: value for key, value in workload(variant).items() if key not in later}))
elif options.roofs:
    print(json.dumps(roofs()))
else:
    variant = options.workload.split("/")[1]
    calls = count(f"calls-{variant}")
    assert options.inputs.is_dir() and not any(options.inputs.iterdir())
    (options.inputs / "x.npy").write_bytes(b"0" * 1000)
    if variant == "FAILS":
        print("no such kernel", file=sys.stderr)
        sys.exit(3)
    if variant == "HANGS":
        Path(f"/dev/shm/__KMP_REGISTERED_LIB_{os.getpid()}_{os.getuid()}").touch()  # as some OpenMP does
        (STATE / "hanging").write_text(f"{os.getpid()} {options.inputs}")
        time.sleep(600)
    # The last measurement, by --roofs, is 1.0 always.
    before = {"MOVES": 1.3 - 0.04 * calls, "SETTLES": 1.3 if calls == 1 else 1.02}.get(variant, 1.0)
    ours = {
        "id": options.workload, "by": "lodtensor", "version": "lodtensor 0", "threads": options.threads,
        "seconds": [0.002, 0.0021, 0.0022], "checksum": 100.0, "magnitude": 200.0, "note": "",
    }  # fmt: skip
    slower = {**ours, "by": "scalar loop", "seconds": [0.01, 0.01, 0.01]}
    context = {"cpu": "a processor", "threads": options.threads, "simd": "none", "compiler": "g++ 12", "flags": "-O3",
               "blas": "none", "version": "0.1.0"}  # fmt: skip
    out = {"workload": workload(variant), "results": [ours, slower], "roofs_before": roofs(before),
           "roofs_after": roofs(), "context": context}  # fmt: skip
    options.out.write_text(json.dumps(out))
