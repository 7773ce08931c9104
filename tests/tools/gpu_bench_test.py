# SPDX-License-Identifier: Apache-2.0
"""What benchmark_gpu writes, on an emulated GPU where the tests were built; what is made of it, and PyTorch beside it
on the CPU where some Python has it: python3 tests/tools/gpu_bench_test.py"""

from __future__ import annotations

import array
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = ROOT / "build" / "release" / "tests" / "emulated_benchmark_gpu"
TORCH_PEERS = ROOT / "benchmarks" / "gpu" / "torch_peers.py"
sys.path[:0] = [str(ROOT / "benchmarks" / "gpu"), str(ROOT / "benchmarks")]
sys.dont_write_bytecode = True

import goals  # noqa: E402
import verdict  # noqa: E402
from results import Run  # noqa: E402

SKIPPED = 77


def python_with_torch() -> str | None:
    """The Python of one of the environments that tools/bench makes, or that which runs this."""
    for python in (sys.executable, *sorted((ROOT / "build" / "peers").glob("*/bin/python"))):
        done = subprocess.run([python, "-c", "import numpy, torch"], capture_output=True)
        if done.returncode == 0:
            return str(python)
    return None


def entry(op: str, seconds: float, others: dict[str, float] | None = None, **changes: Any) -> dict[str, Any]:
    """A workload of results.json, which copies at 2 TB/s."""
    workload = {"op": op, "variant": "", "lengths": "u16", "row_size": 64, "dtype": "float32", "rows": 1 << 20,
                "sequences": 1 << 16, "bytes": 1 << 28, "roof": "copy"} | changes  # fmt: skip
    workload["id"] = f"{op}/{workload['lengths']}/{workload['row_size']}"
    counts = {"allocations": 0, "synchronisations": 0, "launches": 2, "different_bits": 0}
    ours = {"by": "lodtensor", "seconds": [seconds] * 7} | counts
    results = [ours] + [{"by": by, "seconds": [time] * 7} for by, time in (others or {}).items()]
    roofs = {"copy": 2e12}
    return {"workload": workload, "results": results, "roofs_before": roofs, "roofs_after": roofs}


def rows_of(*workloads: dict[str, Any]) -> list[list[str]]:
    """The cells of the table below its head."""
    lines = verdict.table(Run({"format": 1, "gpu": "a GPU", "workloads": list(workloads)})).splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


class Verdict(unittest.TestCase):
    def test_nothing_measured_is_said_of_every_goal(self) -> None:
        rows = rows_of()
        self.assertEqual(len(rows), len(goals.load(verdict.HERE / "goals.json")["goals"]))
        self.assertEqual({row[7] for row in rows}, {"not measured"})

    def test_our_time_that_of_the_other_and_their_ratio(self) -> None:
        # 2^28 bytes take 134 microseconds at the rate of the copy.
        rows = rows_of(entry("sequence_reverse", 1.5e-4, {"cub::DeviceMemcpy::Batched": 3e-4}))
        (row,) = [row for row in rows if row[2] == "cub::DeviceMemcpy::Batched"]
        self.assertEqual(row[3:8], ["150 µs", "300 µs", "2.00×", "at least 0.95×", "yes"])
        rows = rows_of(entry("sequence_softmax", 2e-4, row_size=1))
        (row,) = [row for row in rows if row[0] == "W4, W5" and row[2] == "device copy"]
        self.assertEqual(row[3:8], ["200 µs", "134 µs", "67.1 %", "at least 85 %", "NO"])

    def test_the_farthest_workload_counts(self) -> None:
        rows = rows_of(entry("merge_add", 1e-4, {"torch sparse coalesce": 1e-3}, lengths="uniform"),
                       entry("merge_add", 1e-4, {"torch sparse coalesce": 2e-4}, lengths="same"))  # fmt: skip
        (row,) = [row for row in rows if row[2] == "torch coalesce"]
        self.assertEqual(row[5:], ["2.00×", "at least 5×", "NO", "merge_add/same/64 (1 of 2 workloads)"])

    def test_times_a_byte_are_compared_with_those_of_w1(self) -> None:
        rows = rows_of(entry("sequence_pool", 1e-4, row_size=1, lengths="u16"),
                       entry("sequence_pool", 2.4e-4, row_size=1, lengths="giant", bytes=1 << 29))  # fmt: skip
        (row,) = [row for row in rows if row[2] == "time a byte of W1"]
        self.assertEqual(row[3:8], ["240 µs", "200 µs", "1.20×", "at most 1.15×", "NO"])

    def test_results_that_disagree_are_no_peers(self) -> None:
        work = entry("embedding_pool", 1e-4, {"torch embedding_bag": 1e-3})
        work["results"][1]["disagrees"] = True
        (row,) = [row for row in rows_of(work) if row[0] == "W14"]
        self.assertEqual(row[7], "not measured")

    def test_counts_are_no_times(self) -> None:
        work = entry("merge_add", 1e-4)
        work["results"][0] |= {"launches": 9, "synchronisations": 1}
        rows = {(row[0], row[2]): row[3:8] for row in rows_of(work)}
        self.assertEqual(rows["second call", "kernels, copies and fills"], ["", "", "9", "at most 3", "NO"])
        self.assertEqual(rows["W12", "synchronisations"], ["", "", "1", "at most 0", "NO"])

    def test_command_line(self) -> None:
        for arguments, status in (([], 2), (["--help"], 0), (["--unknown"], 2)):
            done = subprocess.run([sys.executable, "-B", verdict.__file__, *arguments], capture_output=True, text=True)
            self.assertEqual((done.returncode, "verdict.py FOLDER" in done.stdout), (status, True))


class WithoutTorch(unittest.TestCase):
    def test_it_says_so_and_leaves_the_results_alone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "torch.py").write_text("raise ImportError('no torch here')\n")
            (Path(folder) / "numpy.py").write_text("")
            results = Path(folder) / "results.json"
            results.write_text("{}")
            done = subprocess.run([sys.executable, "-B", str(TORCH_PEERS), folder], env={"PYTHONPATH": folder},
                                  capture_output=True, text=True)  # fmt: skip
            self.assertEqual(done.returncode, SKIPPED)
            self.assertEqual(done.stdout, "skipped: PyTorch is not there: no torch here\n")
            self.assertEqual(results.read_text(), "{}")


@unittest.skipUnless(PROGRAM.exists(), f"{PROGRAM.relative_to(ROOT)} was not built")
class Emulated(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.kept = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.kept.name) / "benchmark"
        command = [PROGRAM, "1", "--quick", "--output", cls.folder]
        cls.printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        cls.python = python_with_torch()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.kept.cleanup()

    def data(self) -> dict[str, Any]:
        return json.loads((self.folder / "results.json").read_text())

    def test_every_goal_but_those_of_torch_is_measured(self) -> None:
        run = self.data()
        for record in run["workloads"]:
            record["results"] = [r for r in record["results"] if not r["by"].startswith("torch ")]
        missing = [row[2] for row in rows_of(*run["workloads"]) if row[7] == "not measured"]
        self.assertEqual([against for against in missing if not against.startswith("torch ")], [])

    def test_what_is_printed_is_what_is_written(self) -> None:
        ids = [record["workload"]["id"] for record in self.data()["workloads"]]
        self.assertEqual(len(set(ids)), len(ids))
        for workload in ids:
            self.assertIn(f"| {workload} |", self.printed)

    def test_calls_after_the_first_cost_nothing_and_give_the_same_bits(self) -> None:
        for record in self.data()["workloads"]:
            ours = record["results"][0]
            with self.subTest(record["workload"]["id"]):
                self.assertEqual((ours["allocations"], ours["synchronisations"]), (0, 0))
                self.assertEqual(ours.get("different_bits", 0), 0)
                self.assertGreater(ours["launches"], 0)
                self.assertGreater(len(ours["sample"]), 0)

    def test_lists_are_those_of_the_workloads(self) -> None:
        for record in self.data()["workloads"]:
            workload = record["workload"]
            for name, size in (("offsets", workload["sequences"] + 1), ("ids", workload["rows"])):
                if workload[name]:
                    numbers = array.array("q", (self.folder / workload[name]).read_bytes())
                    self.assertEqual(len(numbers), size)
                    self.assertEqual((numbers[0], numbers[-1]) == (0, workload["rows"]), name == "offsets")

    def test_wrong_command_lines_end_with_2(self) -> None:
        for line in ("--output", "0", "--unknown"):
            self.assertEqual(subprocess.run([PROGRAM, *line.split()], capture_output=True).returncode, 2)

    def torch_peers(self, status: int) -> dict[str, Any]:
        if self.python is None:
            self.skipTest("no Python here has PyTorch and NumPy")
        command = [self.python, "-B", str(TORCH_PEERS), str(self.folder), "--device", "cpu", "--quick"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return self.data()

    def test_torch_gives_what_we_give(self) -> None:
        run = self.torch_peers(0)
        peers = [r for record in run["workloads"] for r in record["results"] if r["by"].startswith("torch ")]
        self.assertGreater(len(peers), 15)
        self.assertEqual([(peer["by"], peer["note"]) for peer in peers if not peer["seconds"]], [])
        self.assertEqual({row[7] for row in rows_of(*run["workloads"])} & {"not measured"}, set())

    def test_torch_that_gives_something_else_disagrees(self) -> None:
        run = self.data()
        (record,) = [r for r in run["workloads"] if r["workload"]["id"] == "sequence_pool/SUM/u16/64"]
        record["results"][0]["sample"][5] += 0.1
        run["workloads"] = [record]
        file = self.folder / "results.json"
        before = file.read_text()
        file.write_text(json.dumps(run))
        try:
            (record,) = self.torch_peers(1)["workloads"]
        finally:
            file.write_text(before)
        self.assertTrue(record["results"][-1]["disagrees"])


if __name__ == "__main__":
    unittest.main()
