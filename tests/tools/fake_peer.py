# SPDX-License-Identifier: Apache-2.0
"""Stands for a peer in bench_test.py. Its name, which is that of its file, says how it behaves."""

import json
import os
import signal
import sys
from pathlib import Path

name = Path(__file__).stem.removesuffix("_peer")
(Path(os.environ["FAKE_STATE"]) / f"pid-{name}-{os.getpid()}").touch()
if name == "refusing":
    print(json.dumps({"peer": name, "missing": "its library is not there"}), flush=True)
    sys.exit()
print("a library that greets on stdout")
print(json.dumps({"peer": name, "version": f"{name} 1.0", "blas": "none", "threads": 2}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    workload = request["workload"]
    assert (Path(request["inputs"]) / "x.npy").exists()
    assert workload["rows"] and workload["bytes"]
    if name == "dying":
        os.kill(os.getpid(), signal.SIGSEGV)
    result = {
        "id": workload["id"], "by": f"{name}.pool", "version": f"{name} 1.0", "threads": 2,
        "seconds": [0.016, 0.0161, 0.0162], "checksum": 100.1, "magnitude": 200.0, "note": "",
    }  # fmt: skip
    if name == "wrong":
        result |= {"seconds": [0.0001] * 3, "checksum": 101.0}
    if name == "undefined":
        result |= {"seconds": [0.0001] * 3, "checksum": float("nan")}
    print(json.dumps(result), flush=True)
    print(json.dumps({"done": workload["id"]}), flush=True)
