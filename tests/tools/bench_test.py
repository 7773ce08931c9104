# SPDX-License-Identifier: Apache-2.0
"""Drives tools/bench with a program and peers that only pretend: python3 tests/tools/bench_test.py"""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.dont_write_bytecode = True

import compare  # noqa: E402
import goals  # noqa: E402
import report  # noqa: E402
from results import Run, format_seconds, format_times  # noqa: E402

PEERS = ("torch", "wrong", "undefined", "dying", "refusing", "absent")


class Balance(HTMLParser):
    """Fails where an element is not closed, or closed in the wrong place."""

    VOID = {"meta", "br", "input", "link", "hr", "img"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._attributes(attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._attributes(attrs)

    def _attributes(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name == "href" and value:
                self.links.append(value)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            raise AssertionError(f"</{tag}> closes {self.open[-3:]} at {self.getpos()}")
        self.open.pop()


def check_page(test: unittest.TestCase, text: str) -> None:
    parser = Balance()
    parser.feed(text)
    parser.close()
    test.assertEqual(parser.open, [])
    test.assertEqual(len(parser.ids), len(set(parser.ids)))
    for link in parser.links:
        test.assertIn(link.removeprefix("#"), parser.ids)
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)
    # One file: nothing is fetched. The name of SVG's language is no address.
    test.assertNotRegex(text.replace("http://www.w3.org/2000/svg", ""), r"https?://|\bsrc=")
    shown = re.sub(r"<script.*?</script>|<style>.*?</style>", "", text, flags=re.DOTALL)
    test.assertEqual(re.findall(r"\b(?:nan|inf|None)\b", shown), [])


# Results of a run that never was


def result(by: str, seconds: Iterable[float], **more: Any) -> dict[str, Any]:
    return {
        "by": by,
        "version": "1",
        "threads": 2,
        "seconds": list(seconds),
        "checksum": 1.0,
        "magnitude": 1.0,
        "note": "",
        **more,
    }


def around(seconds: float, spread: float = 0.01) -> list[float]:
    return [seconds * (1 + spread * (place - 2) / 2) for place in range(5)]


def entry(
    ours: float | None, others: dict[str, float] | None = None, speed: float = 4e10, **fields: Any
) -> dict[str, Any]:
    workload = {
        "work": "W1", "op": "sequence_pool", "variant": "SUM", "lengths": "u16", "ids": "", "row_size": 1,
        "dtype": "float32", "rows": 1 << 24, "sequences": 1 << 20, "bytes": 1 << 26, "roof": "read", "threads": 2,
        "parameters": {},
    } | fields  # fmt: skip
    names = ("op", "variant", "lengths", "ids", "row_size", "dtype", "rows")
    workload.setdefault("id", "/".join(str(workload[name]) for name in names if workload[name] != ""))
    results = [result("lodtensor", around(ours) if ours else [])]
    results += [result(by, around(seconds)) for by, seconds in (others or {}).items()]
    roofs = dict.fromkeys(("read", "copy", "stream_copy", "gather"), speed)
    return {"workload": workload, "results": results, "roofs_before": roofs, "roofs_after": roofs, "moved": 0.0,
            "unsteady": False}  # fmt: skip


def run_of(*entries: dict[str, Any]) -> Run:
    machine = {"cpu": "a <processor>", "cores": 2, "memory": 1 << 34, "caches": [{"level": 3, "bytes": 1 << 25}]}
    return Run({"format": 1, "date": "2025-01-01", "form": "short", "machine": machine, "context": {"threads": 2},
                "peers": [], "workloads": list(entries)})  # fmt: skip


class Bench(unittest.TestCase):
    """The whole program, in a copy of the tree with other peers."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name)
        self.output = self.tree / "output"
        self.state = self.tree / "state"
        self.state.mkdir()
        shutil.copytree(
            ROOT / "benchmarks", self.tree / "benchmarks", ignore=shutil.ignore_patterns("peers", "__pycache__")
        )
        (self.tree / "tools").mkdir()
        shutil.copy(ROOT / "tools" / "bench", self.tree / "tools")
        peers = self.tree / "benchmarks" / "peers"
        peers.mkdir()
        for name in PEERS:
            shutil.copy(HERE / "fake_peer.py", peers / f"{name}_peer.py")
        (peers / "requirements-shared.txt").write_text("# peers: torch wrong undefined dying refusing\n")
        (peers / "requirements-absent.txt").write_text("nothing\n")
        binaries = self.tree / "build" / "peers" / "shared" / "bin"
        binaries.mkdir(parents=True)
        (binaries / "python").symlink_to(sys.executable)

    def command(self, *arguments: str) -> list[str]:
        fake = ["--program", str(HERE / "fake_suite.py"), "--output", str(self.output), "--threads", "2"]
        return [str(self.tree / "tools" / "bench"), *fake, *arguments]

    def environment(self, variants: str) -> dict[str, str]:
        return {**os.environ, "FAKE_VARIANTS": variants, "FAKE_STATE": str(self.state), "TERM": "xterm"}

    def bench(self, *arguments: str, variants: str = "SUM", status: int = 0) -> str:
        done = subprocess.run(self.command(*arguments), env=self.environment(variants), text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        self.assertEqual(done.returncode, status, done.stdout)
        self.assertNoLeftovers()
        return done.stdout

    def assertNoLeftovers(self) -> None:
        for file in self.state.glob("pid-*"):
            pid = file.name.rpartition("-")[2]
            self.assertFalse(Path(f"/proc/{pid}").exists(), f"{file.name} is alive")
        for place in {"/dev/shm", tempfile.gettempdir()}:
            for folder in Path(place).glob("lodtensor-bench-*"):
                # Another run may be going on here.
                self.assertTrue(Path("/proc", folder.name.split("-")[2]).exists(), folder)

    def results(self, name: str = "short.json") -> dict[str, Any]:
        return json.loads((self.output / name).read_text(), parse_constant=self.fail)

    def only_record(self) -> dict[str, Any]:
        (record,) = self.results()["workloads"]
        return record

    def test_measures_each_workload_and_writes_the_report(self) -> None:
        printed = self.bench("--peers", "torch", variants="SUM,MAX")
        data = self.results()
        self.assertEqual((data["format"], data["form"]), (1, "short"))
        self.assertEqual([record["workload"]["variant"] for record in data["workloads"]], ["SUM", "MAX"])
        self.assertEqual([peer["version"] for peer in data["peers"]], ["torch 1.0"])
        record = data["workloads"][0]
        self.assertEqual([each["by"] for each in record["results"]], ["lodtensor", "scalar loop", "torch.pool"])
        self.assertNotIn("disagrees", record["results"][2])
        self.assertFalse(record["unsteady"])
        self.assertEqual(record["attempts"], 1)
        self.assertIn("[1/2] sequence_pool/SUM/u16/1/float32/64MiB: 2.10 ms", printed)
        self.assertNotIn("\r", printed)
        check_page(self, (self.output / "report" / "index.html").read_text())

    def test_long_form_has_its_own_file(self) -> None:
        self.bench("--long", "--no-peers")
        self.assertEqual(self.results("long.json")["form"], "long")

    def test_only_takes_some_workloads(self) -> None:
        self.bench("--no-peers", "--only", "/M.X/", variants="SUM,MAX")
        self.assertEqual(self.only_record()["workload"]["variant"], "MAX")

    def test_peer_that_disagrees_is_no_win(self) -> None:
        printed = self.bench("--peers", "torch,wrong,undefined")
        by = {each["by"]: each for each in self.only_record()["results"]}
        self.assertTrue(by["wrong.pool"]["disagrees"])
        self.assertTrue(by["undefined.pool"]["disagrees"])
        self.assertIsNone(by["undefined.pool"]["checksum"])
        self.assertIn("the result of wrong.pool differs from ours", printed)
        self.assertIn("0 where a peer is faster", printed)
        (record,) = Run.load(self.output / "short.json").records
        assert record.best_peer is not None
        self.assertEqual(record.best_peer["by"], "scalar loop")
        page = (self.output / "report" / "index.html").read_text()
        self.assertIn("its result differs from ours", page)
        check_page(self, page)

    def test_peer_that_dies_is_started_again(self) -> None:
        variants = "A,B,C,D,E"
        self.bench("--peers", "dying,torch", variants=variants)
        notes = [
            next(each["note"] for each in record["results"] if each["by"] == "dying")
            for record in self.results()["workloads"]
        ]
        self.assertEqual(notes[:3], ["died: ended by SIGSEGV"] * 3)
        self.assertEqual(notes[3:], ["not asked: it died 3 times"] * 2)
        self.assertEqual(len(list(self.state.glob("pid-dying-*"))), 3)
        for record in self.results()["workloads"]:
            self.assertTrue(next(each for each in record["results"] if each["by"] == "torch.pool")["seconds"])
        check_page(self, (self.output / "report" / "index.html").read_text())

    def test_peers_that_are_missing_are_named(self) -> None:
        printed = self.bench("--peers", "absent,refusing,torch")
        self.assertIn(
            "left out: absent: no environment; `tools/bench --install-peers --peers absent` makes it", printed
        )
        self.assertIn("left out: refusing: its library is not there", printed)
        self.assertEqual({peer["peer"] for peer in self.results()["peers"]}, {"absent", "refusing", "torch"})

    def test_roofs_that_move_once_cost_a_second_attempt(self) -> None:
        self.bench("--peers", "torch", variants="SETTLES")
        record = self.only_record()
        self.assertEqual((record["attempts"], record["unsteady"]), (2, False))
        self.assertAlmostEqual(record["moved"], 0.02)

    def test_roofs_that_always_move_make_a_workload_unsteady(self) -> None:
        printed = self.bench("--peers", "torch", variants="MOVES")
        record = self.only_record()
        self.assertEqual((record["attempts"], record["unsteady"]), (2, True))
        self.assertAlmostEqual(record["moved"], 0.22)  # the steadier of the two
        self.assertIn(", unsteady", printed)
        self.assertIn("unsteady: the roofs moved by 22 %", (self.output / "report" / "index.html").read_text())

    def test_failure_of_the_program_is_told_and_the_rest_goes_on(self) -> None:
        printed = self.bench("--peers", "torch", variants="FAILS,SUM", status=1)
        self.assertIn("FAILS/u16/1/float32/64MiB: failed: exit status 3", printed)
        self.assertIn("no such kernel", (self.output / "program.log").read_text())
        self.assertTrue(self.results()["workloads"][1]["results"][0]["seconds"])
        check_page(self, (self.output / "report" / "index.html").read_text())

    def test_interrupts_leave_nothing_but_the_report(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                for file in self.state.iterdir():
                    file.unlink()
                command, environment = self.command("--peers", "torch,wrong"), self.environment("SUM,HANGS,MAX")
                process = subprocess.Popen(command, env=environment,
                                           stdout=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip
                hanging = self.state / "hanging"
                deadline = time.monotonic() + 60
                while not (hanging.exists() and hanging.read_text()):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)
                process.send_signal(number)
                printed, _ = process.communicate(timeout=30)
                self.assertEqual(process.returncode, 130)
                self.assertIn("interrupted after 1 of 3 workloads", printed)
                pid, _, inputs = hanging.read_text().partition(" ")
                self.assertFalse(Path("/proc", pid).exists())
                self.assertEqual(list(Path("/dev/shm").glob(f"__KMP_*_{pid}_*")), [])
                self.assertFalse(Path(inputs).exists())
                self.assertNoLeftovers()
                self.assertTrue(self.results()["interrupted"])
                page = (self.output / "report" / "index.html").read_text()
                self.assertIn("The run was interrupted", page)
                check_page(self, page)

    def test_killed_outright_it_takes_its_children_along_and_the_next_run_cleans_up(self) -> None:
        if not shutil.which("setpriv"):
            self.skipTest("setpriv was not found")
        process = subprocess.Popen(self.command("--peers", "torch"), env=self.environment("HANGS"),
                                   stdout=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        hanging = self.state / "hanging"
        deadline = time.monotonic() + 60
        while not (hanging.exists() and hanging.read_text()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        process.kill()
        process.wait()
        pid = hanging.read_text().partition(" ")[0]
        while Path("/proc", pid).exists() and Path("/proc", pid, "stat").read_text().split(") ")[1][0] != "Z":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        hanging.unlink()
        Path(f"/dev/shm/__KMP_REGISTERED_LIB_{pid}_{os.getuid()}").unlink()
        for file in self.state.glob("pid-*"):
            file.unlink()
        self.bench("--no-peers")

    def test_terminal_has_a_progress_line(self) -> None:
        leader, follower = pty.openpty()
        process = subprocess.Popen(self.command("--no-peers"), env=self.environment("SUM,MAX"), stdout=follower,
                                   stderr=follower, start_new_session=True)  # fmt: skip
        os.close(follower)
        shown = b""
        try:
            while part := os.read(leader, 4096):
                shown += part
        except OSError:  # the end of a terminal
            pass
        os.close(leader)
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertRegex(shown.decode(), r"\r\x1b\[K\[2/2\] sequence_pool/MAX/\S+, 0:0\d, about 0:0\d left")

    def test_workload_without_room_is_left_out(self) -> None:
        source = (HERE / "fake_suite.py").read_text().replace('"size": "64MiB"', '"size": "999999GiB"')
        program = self.tree / "fake_suite.py"
        program.write_text(source)
        program.chmod(0o755)
        printed = self.bench("--no-peers", "--program", str(program))
        self.assertRegex(printed, r"SUM/\S+: left out: its inputs take up to [\d\s]+ GiB")
        check_page(self, (self.output / "report" / "index.html").read_text())

    @unittest.skipUnless(importlib.util.find_spec("ensurepip"), "Python was installed without venv")
    def test_installing_makes_an_environment_once(self) -> None:
        (self.tree / "benchmarks" / "peers" / "requirements-absent.txt").write_text("# needs nothing\n")
        printed = self.bench("--install-peers", "--peers", "absent")
        self.assertIn("Installing benchmarks/peers/requirements-absent.txt into build/peers/absent", printed)
        self.assertEqual([peer.get("version") for peer in self.results()["peers"]], ["absent 1.0"])
        self.assertNotIn("Installing", self.bench("--install-peers", "--peers", "absent"))

    def test_wrong_command_lines_end_with_2(self) -> None:
        for line in ("--only (", "--only nothing", "--peers unknown", "--threads 0", "--html x", "--unknown",
                     "--no-peers --install-peers", "--compare a.json b.json"):  # fmt: skip
            with self.subTest(line=line):
                self.bench(*line.split(), status=2)
        self.assertFalse((self.output / "short.json").exists())

    def test_cliffs_are_places_that_take_twice_as_long_a_byte_as_a_neighbour(self) -> None:
        def place(at: str, seconds: float, *neighbours: str) -> dict[str, Any]:
            return {"at": at, "seconds": seconds, "bytes": 1000, "neighbours": neighbours}

        line = {"name": "pool", "axis": "row_size", "lengths": "u16", "values": "random", "dtype": "float32",
                "places": [place("1", 3e-6, "2", "16"), place("2", 7e-6, "1", "16"), place("16", 2e-6)]}  # fmt: skip
        program = self.tree / "cliffs"
        program.write_text(f"#!/bin/sh\necho '{json.dumps(line)}'\n")
        program.chmod(0o755)
        printed = self.bench("--cliffs", "short", "--program", str(program))
        self.assertIn("3 places on 1 lines; 1 take 2 times as long", printed)
        self.assertIn("3.5 x  pool: row size 2 against 16 (lengths u16, values random, float32; 7 ns a byte)", printed)
        self.assertEqual(self.results("cliffs.json")["lines"], [json.loads(json.dumps(line))])
        program.write_text("#!/bin/sh\nexit 3\n")
        self.assertIn("ended with 3", self.bench("--cliffs", "--program", str(program), status=1))

    def test_report_and_compare_of_files(self) -> None:
        self.bench("--no-peers")
        file = self.output / "short.json"
        elsewhere = self.tree / "kept" / "short.json"
        elsewhere.parent.mkdir()
        shutil.copy(file, elsewhere)
        tool = str(self.tree / "tools" / "bench")
        picture = self.tree / "picture.svg"
        subprocess.run(
            [tool, "--report", str(elsewhere), "--summary-svg", str(picture)], check=True, stdout=subprocess.PIPE
        )
        check_page(self, (elsewhere.parent / "report" / "index.html").read_text())
        ElementTree.parse(picture)
        page = self.tree / "page.html"
        done = subprocess.run([tool, "--compare", str(file), str(elsewhere), "--html", str(page)], check=True,
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.assertIn("0 faster, 0 slower, 1 unchanged, 0 new, 0 gone", done.stdout)
        check_page(self, page.read_text())


class Report(unittest.TestCase):
    def test_empty_run_is_a_page(self) -> None:
        check_page(self, report.render(run_of()))
        ElementTree.fromstring(report.render_summary_svg(run_of()))

    def test_many_workloads_are_a_page_with_every_plot(self) -> None:
        peers = {
            "torch.segment_reduce": 0.02,
            "libtorch embedding_bag": 0.003,
            "numpy.add.reduceat <&>": 0.05,
            "own": 0.1,
        }
        entries = [
            entry(0.002 * size / (1 << 24), peers, rows=size, bytes=size * 4) for size in (1 << 12, 1 << 18, 1 << 24)
        ]
        entries += [entry(0.0021, peers, lengths=lengths) for lengths in ("giant", "zipf11", "empty90", "real-like")]
        entries += [entry(0.1, {"torch packed": 0.05}, op="lstm", variant="", roof="none", row_size=64, bytes=0)]
        entries += [
            entry(None, peers, op="select", variant=""),
            entry(1e-9, op="tiny and more", rows=0, sequences=0, bytes=8),
        ]
        page = report.render(run_of(*entries))
        check_page(self, page)
        self.assertIn("time of a call", page)
        self.assertIn("lengths of the sequences", page)
        self.assertIn("Fraction of the roof that we reach", page)
        self.assertIn("Time of the fastest form of each peer by ours", page)
        self.assertIn("a &lt;processor&gt;", page)
        self.assertIn("0.500\u00d7\u2009\u25bc", page)  # slower, and said so
        ElementTree.fromstring(report.render_summary_svg(run_of(*entries)))

    def test_fraction_is_of_the_roof_around_our_part(self) -> None:
        data = entry(0.002)
        data["roofs_before"] = {"read": 3e10}
        data["roofs_between"] = {"read": 5e10}
        data["roofs_after"] = {"read": 9e10}
        (record,) = run_of(data).records
        self.assertAlmostEqual(record.fraction() or 0, (1 << 26) / 0.002 / 4e10)

    def test_one_thread_has_its_own_roof(self) -> None:
        data = entry(0.002, threads=1)
        data["roofs_before"] = data["roofs_after"] = {"read": 3e10, "read_1": 2e10}
        (record,) = run_of(data).records
        self.assertEqual(record.roof(), 2e10)

    def test_figures_have_three_digits_and_a_unit(self) -> None:
        self.assertEqual(
            [format_seconds(s) for s in (1.5e-9, 12.3e-6, 0.00123, 2)], ["1.50 ns", "12.3 µs", "1.23 ms", "2.00 s"]
        )
        self.assertEqual([format_times(r) for r in (0.8, 12.34, 1234)], ["0.800×", "12.3×", "1\u202f234×"])


class Goals(unittest.TestCase):
    def verdict(self, run: Run, work: str, against: str) -> goals.Verdict:
        (found,) = [v for v in goals.judge(run, goals.load()["goals"]) if (v.work, v.against) == (work, against)]
        return found

    def test_the_file_names_measures_that_exist(self) -> None:
        self.assertTrue(all(v.held is None for v in goals.judge(run_of(), goals.load()["goals"])))
        goals.judge(run_of(entry(0.002)), goals.load()["goals"])

    def test_the_worst_workload_counts(self) -> None:
        run = run_of(entry(0.0018), entry(0.0025, variant="MAX"))
        verdict = self.verdict(run, "W1", "the read roof")
        self.assertEqual((verdict.held, verdict.measured, verdict.note), (False, "67.1 %", "1 of 2 workloads"))
        self.assertIn("/MAX/", verdict.worst)
        self.assertTrue(self.verdict(run_of(entry(0.0018)), "W1", "the read roof").held)

    def test_peers_that_disagree_do_not_count(self) -> None:
        data = entry(0.002, {"torch.a": 0.001, "numpy.b": 0.03})
        data["results"][1]["disagrees"] = True
        verdict = self.verdict(run_of(data), "W1", "torch, libtorch, NumPy")
        self.assertEqual((verdict.held, verdict.measured), (True, "15.0×"))

    def test_other_lengths_are_held_to_the_same_time_a_byte(self) -> None:
        run = run_of(entry(0.002), entry(0.006, lengths="giant", bytes=1 << 27))
        verdict = self.verdict(run, "W2", "time a byte of u16")
        self.assertEqual((verdict.held, verdict.measured), (False, "1.50×"))

    def test_padded_networks_are_held_to_longest_by_mean(self) -> None:
        data = entry(0.1, {"torch padded": 0.5}, op="lstm", variant="", lengths="zipf11", rows=1000, sequences=100,
                     parameters={"longest": 60})  # fmt: skip
        verdict = self.verdict(run_of(data), "W17", "torch, libtorch, padded xtensor: padded")
        self.assertEqual((verdict.held, verdict.measured, verdict.note), (False, "5.00×", "wanted there: 6.00×"))


class Compare(unittest.TestCase):
    def states(self, before: Run, after: Run) -> dict[str, str]:
        return {change.id.split("/")[1]: change.state for change in compare.compare(before, after)}

    def test_what_changed_is_told_from_what_did_not(self) -> None:
        names = ("SAME", "FASTER", "SLOWER", "GONE", "BROKEN")
        before = run_of(*(entry(0.002, variant=name) for name in names))
        times = {"SAME": 0.00204, "FASTER": 0.0018, "SLOWER": 0.0023, "NEW": 0.002, "BROKEN": None}
        after = run_of(*(entry(seconds, variant=name) for name, seconds in times.items()))
        expected = {
            "SAME": "unchanged",
            "FASTER": "faster",
            "SLOWER": "slower",
            "GONE": "gone",
            "NEW": "new",
            "BROKEN": "failed",
        }
        self.assertEqual(self.states(before, after), expected)
        self.assertIn("1 faster, 1 slower, 1 unchanged, 1 new, 1 gone, 1 failed",
                      compare.render_text(compare.compare(before, after)))  # fmt: skip

    def test_slower_machine_is_no_slower_library(self) -> None:
        before = run_of(entry(0.002), entry(0.002, variant="MAX"))
        after = run_of(entry(0.004, speed=2e10), entry(0.003, variant="MAX", speed=2e10))
        self.assertEqual(self.states(before, after), {"SUM": "unchanged", "MAX": "faster"})

    def test_roofs_of_memory_say_nothing_of_workloads_in_the_cache(self) -> None:
        before = run_of(entry(2e-6, bytes=1 << 16))
        after = run_of(entry(2e-6, bytes=1 << 16, speed=2e10))
        self.assertEqual(self.states(before, after), {"SUM": "unchanged"})

    def test_noise_of_the_repetitions_is_no_change(self) -> None:
        before, after = entry(0.002), entry(0.0022)
        before["results"][0]["seconds"] = around(0.002, 0.2)
        self.assertEqual(self.states(run_of(before), run_of(after)), {"SUM": "unchanged"})

    def test_roofs_that_moved_widen_the_noise(self) -> None:
        before, after = entry(0.002), entry(0.0021)
        after["roofs_before"], after["roofs_after"] = (
            dict.fromkeys(("read", "copy"), 3.6e10),
            dict.fromkeys(("read", "copy"), 4.4e10),
        )
        self.assertEqual(self.states(run_of(before), run_of(after)), {"SUM": "unchanged"})


if __name__ == "__main__":
    unittest.main()
