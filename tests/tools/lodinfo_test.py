# SPDX-License-Identifier: Apache-2.0
"""Drives the example lodinfo: python3 tests/tools/lodinfo_test.py <lodinfo> <lodinfo_files>, both built by CMake"""

from __future__ import annotations

import json
import math
import os
import pty
import re
import select
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import textwrap
import unittest
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

DATA = Path(__file__).resolve().parent.parent / "data"
NUMPY, PADDLE = DATA / "numpy", DATA / "paddle"
SHELL = DATA.parent.parent / "examples" / "lodinfo" / "shell"

LODINFO, MAKE_FILES = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
VERSION = subprocess.run([LODINFO, "--version"], check=True, capture_output=True, text=True).stdout


def needs(kind: str) -> Any:
    missing = f"{kind} (left out" in VERSION
    return unittest.skipIf(missing, f"built without what {kind} needs")


class LodInfo(unittest.TestCase):
    folder: tempfile.TemporaryDirectory[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        subprocess.run([MAKE_FILES, cls.folder.name], check=True)

    def run_it(self, *arguments: str | bytes, status: int = 0, **more: Any) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], **more.pop("env", {})}
        for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                environment[name] = os.environ[name]
        done = subprocess.run(
            [LODINFO, *arguments], cwd=self.folder.name, capture_output=True, text=True, env=environment, **more
        )
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stdout}{done.stderr}")
        return done

    def text(self, *arguments: str | bytes) -> str:
        done = self.run_it(*arguments)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def json(self, *arguments: str | bytes, status: int = 0) -> Any:
        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is no JSON")

        out = self.run_it("--json", *arguments, status=status).stdout
        self.assertTrue(out.isascii())
        return json.loads(out, parse_constant=refuse)

    def fails(self, status: int, *arguments: str | bytes) -> str:
        done = self.run_it(*arguments, status=status)
        self.assertTrue(done.stderr.startswith("lodinfo: "))
        return done.stderr

    def golden(self, expected: str, *arguments: str | bytes) -> None:
        self.assertEqual(self.text(*arguments), textwrap.dedent(expected).lstrip("\n"))

    def path(self, name: str) -> Path:
        return Path(self.folder.name, name)

    def copy(self, name: str) -> Path:
        """A copy of a file, to be damaged."""
        copy = self.path("copy_of_" + Path(name).name)
        shutil.copyfile(self.path(name), copy)
        return copy

    def variable(self, file: str, name: str) -> Any:
        return next(variable for variable in self.json(file)["variables"] if variable["name"] == name)


class CommandLine(LodInfo):
    def test_help_and_version_are_printed(self) -> None:
        self.assertTrue(self.text("--help").startswith("usage: lodinfo [option...] FILE [VARIABLE [BRANCH]]\n"))
        self.assertEqual(self.text("-h"), self.text("--help"))
        self.assertLessEqual(max(map(len, self.text("--help").splitlines())), 100)
        self.assertRegex(self.text("--version"), r"\Alodinfo \d+\.\d+\.\d+\nfiles of the kinds lodtensor")

    def test_what_is_wrong_is_said(self) -> None:
        for arguments, what in (
            ((), "no file was named"),
            (("",), "no file was named"),
            (("--diff", "array.npy", ""), "no file was named"),
            (("--what", "array.npy"), "there is no option --what"),
            (("--all=yes", "array.npy"), "there is no option --all=yes"),
            (("array.npy", "array", "0", "1"), "more than a file, a variable and a branch"),
            (("-",), "standard input cannot be read; a file called - is ./-"),
            (("--width",), "--width needs a value"),
            (("--width=19", "array.npy"), "--width=19: expected 20 to 100000"),
            (("--width", "wide", "array.npy"), "--width=wide: expected 20 to 100000"),
            (("--color=red", "array.npy"), "--color=red: expected auto, always or never"),
            (("array.npy", "x"), "array.npy: there is no variable 'x'"),
            (("array.npy", "array", "1,,2"), "branch '1,,2': expected numbers"),
            (("array.npy", "array", ""), "branch '': expected numbers"),
            (("array.npy", "array", "0,"), "branch '0,': expected numbers"),
            (("array.npy", "array", "99999999999999999999"), "expected numbers"),
            (("array.npy", "array", "0"), "branch <0>"),
            (("object.json", "object", "3"), "branch <3>"),
            (("--diff", "array.npy"), "--diff takes two files, and a variable at most"),
            (("--diff", "array.npy", "array.npy", "x"), "neither file has a variable 'x'"),
            (("--diff", "--json", "array.npy", "array.npy"), "--json, --diff, --svg and --dot exclude each other"),
            (("--tolerance=1", "array.npy"), "--tolerance is for --diff"),
            (("--diff", "--tolerance=-1", "array.npy", "array.npy"), "--tolerance=-1: expected a number from 0 on"),
            (("--svg", "array.npy"), "--svg needs a variable"),
            (("--svg", "array.npy", "array"), "array.npy: 'array' has no levels"),
            (("--dot", "array.npy"), "array.npy: it is no program"),
            (("--dot", "array.npy", "array"), "--dot takes a file alone"),
        ):
            with self.subTest(arguments):
                self.assertIn(what, self.fails(2, *arguments))

    def test_a_name_that_looks_like_an_option_comes_behind_two_dashes(self) -> None:
        shutil.copyfile(self.path("array.npy"), self.path("--json"))
        self.assertIn("--json: NumPy array", self.text("--", "--json"))
        shutil.copyfile(self.path("array.npy"), self.path("-"))
        self.assertIn("./-: NumPy array", self.text("./-"))

    def test_files_that_cannot_be_read_are_named(self) -> None:
        self.assertIn("missing.lod: No such file or directory", self.fails(1, "missing.lod"))
        self.path("loop").symlink_to("loop")
        for arguments in (("loop",), ("--diff", "loop", "array.npy")):
            self.assertEqual("lodinfo: loop: Too many levels of symbolic links\n", self.fails(1, *arguments))
        self.assertIn("/dev/null: not a regular file", self.fails(1, "/dev/null"))
        os.mkfifo(self.path("pipe"))
        self.assertIn("pipe: not a regular file", self.fails(1, "pipe"))
        self.path("folder").mkdir()
        self.assertIn("folder: a folder without a __model__", self.fails(1, "folder"))
        self.path("empty").touch()
        self.assertIn("empty: the file is empty", self.fails(1, "empty"))
        self.path("text").write_text("Once upon a time")
        self.assertIn("text: not a file of a kind that lodinfo knows", self.fails(1, "text"))

    def test_output_that_nobody_reads_ends_it_quietly(self) -> None:
        with subprocess.Popen(
            [LODINFO, "--help"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as done:
            assert done.stdout and done.stderr
            done.stdout.close()
            self.assertEqual(done.stderr.read(), b"")

    def test_output_that_cannot_be_written_is_an_error(self) -> None:
        with open("/dev/full", "w") as full:
            done = subprocess.run([LODINFO, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "lodinfo: the output could not be written\n"))


@needs("lodtensor")
class Differences(LodInfo):
    def differences(self, *arguments: str) -> str:
        done = self.run_it("--diff", *arguments, status=3)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_files_with_the_same_contents_are_alike(self) -> None:
        self.copy("batch.lod")  # with a NaN, infinities, empty sequences, a tensor without rows
        self.assertEqual(self.text("--diff", "batch.lod", "copy_of_batch.lod"), "")
        self.assertEqual(self.text("array.npy", "--diff", "array.npy"), "")

    def test_each_difference_is_a_line(self) -> None:
        self.assertEqual(self.differences("batch.lod", "other.lod"), textwrap.dedent("""\
            words: level 1: the length of <0, 1>: 2 -> 3
            vectors: 2 of 30 values, by 30 at most; row 3, <0, 1>, element 0: 6 -> 6.5
            nothing: only in batch.lod
            gaps: level 0: 4 sequences -> 5 sequences
            gaps: 2 of 3 values, by 2 at most; row 1, <1>: 1 -> 0
            large: 1 of 2 values, by 1 at most; row 1: 18446744073709551615 -> 18446744073709551614
            gradient: height: 10 -> 11
            gradient: id 1: 0 -> 1
            gradient: 5 of 6 values, by 5 at most; row 0, element 1: 1 -> 0
            flags: type: BOOL -> INT8
            halves: shape: {2, 2} -> {2, 3}
            complex: 1 of 2 values, by 5 at most; row 1: (3, -4) -> (0, 0)
            steps: tensors: 2 -> 1
            added: only in other.lod
            """))
        self.assertEqual(self.differences("other.lod", "batch.lod", "words"),
                         "words: level 1: the length of <0, 1>: 3 -> 2\n")  # fmt: skip

    def test_a_tolerance_hides_what_is_close(self) -> None:
        self.assertIn("1 of 30 values, by 30 at most; row 14, <2, 1>, element 1: 29 -> -1",
                      self.differences("--tolerance=0.5", "batch.lod", "other.lod", "vectors"))  # fmt: skip
        self.assertEqual(self.text("--diff", "--tolerance", "30", "batch.lod", "other.lod", "vectors"), "")

    def test_a_nan_is_like_a_nan_alone(self) -> None:
        values = struct.pack("<6d", 0, 1, math.inf, -math.inf, math.nan, 5)
        self.path("strange.npy").write_bytes(self.path("array.npy").read_bytes()[:-48] + values)
        self.assertEqual(self.differences("array.npy", "strange.npy").split(": ", 1)[1],
                         "only in array.npy\nstrange: only in strange.npy\n")  # fmt: skip
        self.path("changed").mkdir()
        shutil.copyfile(self.path("strange.npy"), self.path("changed/array.npy"))
        self.assertEqual(self.differences("--tolerance=1e300", "array.npy", "changed/array.npy"),
                         "array: 2 of 6 values; row 1: NaN -> 1\n")  # fmt: skip

    def test_the_damaged_file_is_named(self) -> None:
        self.path("no").write_bytes(b"no")
        for files in (("batch.lod", "no"), ("no", "batch.lod")):
            self.assertRegex(self.fails(1, "--diff", *files), r"\Alodinfo: no: ")
        self.assertRegex(self.fails(1, "--diff", "batch.lod", "missing"), r"\Alodinfo: missing: ")

    @needs("PaddlePaddle")
    def test_programs_are_compared_block_by_block(self) -> None:
        self.assertEqual(self.differences("nested.pdmodel", "changed.pdmodel"), textwrap.dedent("""\
            block 0: operator 0: while, whose arguments or attributes differ
            block 1: operator 1: mul -> sum
            y: LOD_TENSOR FP32 {2, 3}, 0 levels -> LOD_TENSOR FP32 {2, 4}, 0 levels
            """))


class Pictures(LodInfo):
    @needs("lodtensor")
    def test_each_bar_of_the_lengths_says_its_count(self) -> None:
        for file, name in (("batch.lod", "words"), ("batch.lod", "gaps"), ("long.lod", "x")):
            picture = ElementTree.fromstring(self.text("--svg", file, name))
            bars = [title.text or "" for title in picture.iter("{http://www.w3.org/2000/svg}title")]
            of_json = [bar["count"] for level in self.json(file, name)["lengths"] for bar in level["histogram"]]
            self.assertEqual([int(bar.split()[0]) for bar in bars], of_json)
            self.assertEqual(len([t for t in picture.itertext() if f"{name}, level" in t]),
                             len(self.json(file, name)["lengths"]))  # fmt: skip
        self.assertIn("1 of length 2", self.text("--svg", "batch.lod", "gaps"))

    @needs("PaddlePaddle")
    def test_a_program_is_a_graph(self) -> None:
        self.golden(GOLDEN_GRAPH, "--dot", "changed.pdmodel")

    @needs("PaddlePaddle")
    def test_graphs_are_what_dot_reads(self) -> None:
        if not shutil.which("dot"):
            self.skipTest("there is no dot")
        for program in ("changed.pdmodel", str(PADDLE / "custom_gap" / "custom_gap.pdmodel")):
            subprocess.run(["dot", "-Tsvg", "-o", "/dev/null"], input=self.text("--dot", program), text=True, check=True)


class ShellFiles(LodInfo):
    def test_the_manual_has_all_that_the_help_says(self) -> None:
        manual = self.path("lodinfo.1")
        with manual.open("w") as page:
            subprocess.run(["awk", "-v", "version=0.1.0", "-f", SHELL / "manual.awk"],
                           input=self.text("--help"), text=True, check=True, stdout=page)  # fmt: skip
        if not shutil.which("groff"):
            self.skipTest("there is no groff")
        shown = subprocess.run(["groff", "-man", "-rHY=0", "-ww", "-Tascii", "-P-c", "-P-b", "-P-u", manual],
                               capture_output=True, text=True, check=True)  # fmt: skip
        self.assertEqual(shown.stderr, "")
        words = " ".join(shown.stdout.split())
        for line in self.text("--help").splitlines():
            if line.startswith("usage") or line.endswith(":"):
                continue
            for word in line.split():
                self.assertIn(word, words)
        for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS"):
            self.assertIn("\n" + heading + "\n", "\n" + shown.stdout)

    def bash(self, *words: str) -> list[str]:
        script = 'source "$1"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); _lodinfo; printf "%s\n" "${COMPREPLY[@]}"'
        return self.completed("bash", "-c", script, "bash", str(SHELL / "lodinfo.bash"), LODINFO, *words)

    def zsh(self, *words: str) -> list[str]:
        script = """
            _files() { print files }
            compadd() { print -l -- ${(P)@[-1]:-$@} }
            _describe() { print -l -- ${(P)2%%:*} }
            words=(${@[2,-1]}) CURRENT=$(($# - 1))
            complete_it() { source $1 }
            complete_it $1"""
        return self.completed("zsh", "-f", "-c", script, "zsh", str(SHELL / "_lodinfo"), LODINFO, *words)

    def completed(self, *command: str) -> list[str]:
        done = subprocess.run(command, cwd=self.folder.name, capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split("\n")[:-1]

    def test_bash_completes_options_and_names(self) -> None:
        self.assertEqual(self.bash("--ver"), ["--verify", "--version"])
        self.assertEqual(self.bash("--color", "=", "a"), ["auto", "always"])
        self.assertEqual(self.bash("arr"), [""])  # files are bash's own business
        self.assertEqual(self.bash("--all", "object.json", ""), ["object"])
        self.assertEqual(self.bash("object.json", "x"), [""])
        self.assertEqual(self.bash("--diff", "object.json", "arr"), [""])
        self.assertEqual(self.bash("--diff", "object.json", "array.npy", "o"), ["object"])
        self.assertEqual(self.bash("object.json", "object", ""), [""])

    def test_zsh_completes_options_and_names(self) -> None:
        if not shutil.which("zsh"):
            self.skipTest("there is no zsh")
        self.assertIn("--verify", self.zsh("--"))
        self.assertEqual(self.zsh("arr"), ["files"])
        self.assertEqual(self.zsh("--diff", "object.json", ""), ["files"])
        self.assertEqual(self.zsh("--all", "object.json", ""), ["object"])
        self.assertEqual(self.zsh("object.json", "object", ""), [])


@needs("lodtensor")
class LodFiles(LodInfo):
    def test_a_file_is_a_table_of_its_variables(self) -> None:
        self.golden(GOLDEN_FILE, "batch.lod")

    def test_a_variable_is_its_levels_drawn_its_statistics_and_its_rows(self) -> None:
        self.golden(GOLDEN_VARIABLE, "batch.lod", "words")

    def test_a_slice_is_in_row_numbers_of_the_whole(self) -> None:
        self.golden(GOLDEN_SLICE, "batch.lod", "vectors", "2")
        self.assertIn("{10, 12}", self.text("batch.lod", "words", "2,0"))

    def test_values_that_are_no_numbers_are_counted_apart(self) -> None:
        self.golden(GOLDEN_STRANGE, "batch.lod", "strange")
        found = self.json("batch.lod", "strange")
        self.assertEqual(found["first_values"], [0, "NaN", "Infinity", "-Infinity", 4, 5])
        self.assertEqual(
            found["statistics"],
            {"count": 6, "zeros": 1, "nans": 1, "infinities": 2, "min": 0, "max": 5, "mean": 3,
             "standard_deviation": statistics.pstdev([0, 4, 5])},
        )  # fmt: skip

    def test_selected_rows_are_shown_by_their_ids(self) -> None:
        self.golden(GOLDEN_ROWS, "batch.lod", "gradient")
        found = self.json("batch.lod", "gradient")
        self.assertEqual((found["first_ids"], found["height"], found["shape"]), ([4, 0, 4], 10, [3, 2]))
        self.assertIn("no branches", self.fails(2, "batch.lod", "gradient", "0"))

    def test_an_array_is_a_table_of_its_tensors(self) -> None:
        self.golden(GOLDEN_ARRAY, "batch.lod", "steps")
        self.assertEqual(self.json("batch.lod", "steps[1]")["first_values"], [0, 1, 2])
        self.assertEqual(self.json("batch.lod", "steps")["tensors"][0]["shape"], [2, 3])
        self.assertIn("array of 2 tensors", self.fails(2, "batch.lod", "steps[2]"))
        for name in ("steps[-1]", "steps[]", "steps[x]", "words[0]"):
            self.fails(2, "batch.lod", name)
        self.assertIn("no branches", self.fails(2, "batch.lod", "steps", "0"))

    def test_batches_without_rows_and_sequences_without_rows_are_ordinary(self) -> None:
        found = self.json("batch.lod", "nothing")
        self.assertEqual((found["statistics"]["count"], found["first_values"]), (0, []))
        self.assertNotIn("min", found["statistics"])
        self.assertIn("LoDTensor FP32 {0, 3}, 0 B", self.text("batch.lod", "nothing"))
        lengths = self.json("batch.lod", "gaps")["lengths"][0]
        self.assertEqual({name: lengths[name] for name in ("count", "empty", "min", "median", "mean", "max")},
                         {"count": 4, "empty": 2, "min": 0, "median": 0.5, "mean": 0.75, "max": 2})  # fmt: skip
        self.assertEqual(self.json("batch.lod", "gaps", "2")["first_absolute_lod"], [[2, 2]])
        self.assertIn("0 B, rows none of {3}", self.text("batch.lod", "gaps", "0"))
        self.assertIn("\n  none:\n", self.text("batch.lod", "gaps"))

    def test_every_type_of_elements_is_shown(self) -> None:
        self.assertEqual(self.json("batch.lod", "large")["statistics"]["max"], 2**64 - 1)
        self.assertEqual(self.json("batch.lod", "flags")["first_values"], [False, True, False])
        self.assertEqual(self.json("batch.lod", "halves")["first_values"], [0, 1, 2, 3])
        complex_numbers = self.json("batch.lod", "complex")
        self.assertEqual(complex_numbers["first_values"], [[0, 0], [3, -4]])
        self.assertEqual(complex_numbers["statistics"]["max"], 5)
        self.assertIn("no C++ type for values of type FP8_E5M2", self.text("batch.lod", "eighths"))
        self.assertNotIn("statistics", self.json("batch.lod", "eighths"))

    def test_json_has_all_that_the_tables_have(self) -> None:
        found = self.json("batch.lod")
        self.assertEqual(found["kind"], "lodtensor file")
        self.assertEqual(found["bytes"], self.path("batch.lod").stat().st_size)
        words = found["variables"][0]
        self.assertEqual(
            words,
            {"name": "words", "kind": "LOD_TENSOR", "data_type": "INT64", "dims": [15], "lod_level": 2,
             "sequences": [3, 6], "bytes": 120, "persistable": False},
        )  # fmt: skip
        part = self.json("batch.lod", "words", "2,1")
        self.assertEqual((part["first_row"], part["first_absolute_lod"]), (12, [[12, 15]]))
        self.assertEqual(part["first_values"], [12, 13, 14])
        whole = self.json("--all", "batch.lod", "words")
        self.assertEqual((whole["lod"], whole["values"]),
                         ([[0, 3, 4, 6], [0, 3, 5, 9, 10, 12, 15]], list(range(15))))  # fmt: skip

    def test_json_has_the_first_numbers_or_with_all_every_one(self) -> None:
        lengths = [i * i % 97 for i in range(200)]
        offsets = [sum(lengths[:i]) for i in range(201)]
        few, everything = self.json("long.lod", "x"), self.json("--all", "long.lod", "x")
        self.assertEqual((few["first_lod"], everything["lod"]), ([offsets[:20]], [offsets]))
        self.assertEqual(few["first_values"], everything["values"][:20])
        self.assertEqual(everything.keys() - few.keys(), {"lod", "values"})
        few, everything = self.json("long.lod", "x", "5"), self.json("--all", "long.lod", "x", "5")
        self.assertEqual(few["first_absolute_lod"], [offsets[5:7]])
        self.assertEqual(everything["absolute_lod"], [offsets[5:7]])
        self.assertNotIn("absolute_lod", few)

    def test_rows_without_elements_have_numbers(self) -> None:
        part = self.json("no_elements.lod", "x", "2")
        self.assertEqual((part["first_row"], part["first_absolute_lod"]), (10, [[10, 15], [10, 12, 15]]))
        self.assertIn("0 B, rows 12-14 of {15, 0}", self.text("no_elements.lod", "x", "2,1"))
        self.assertEqual(self.json("no_elements.lod", "giant", "1")["first_row"], 2**40 - 5)
        for arguments in (("giant",), ("giant", "0")):
            drawn = self.text("--all", "no_elements.lod", *arguments)
            self.assertIn(f"of {2**40 - (5 if len(arguments) > 1 else 0)} rows)", drawn)
            self.assertLessEqual(max(map(len, drawn.splitlines())), 100000)

    def test_lengths_are_counted_right(self) -> None:
        lengths = [i * i % 97 for i in range(200)]
        found = self.json("long.lod", "x")["lengths"][0]
        self.assertEqual(found["count"], 200)
        self.assertEqual(found["empty"], lengths.count(0))
        self.assertEqual((found["min"], found["max"]), (min(lengths), max(lengths)))
        self.assertEqual(found["median"], statistics.median(lengths))
        self.assertTrue(math.isclose(found["mean"], statistics.mean(lengths)))
        for bar in found["histogram"]:
            self.assertEqual(bar["count"], sum(bar["first"] <= length <= bar["last"] for length in lengths))
        self.assertEqual(sum(bar["count"] for bar in found["histogram"]), 200)

    def test_no_line_is_wider_than_asked_for(self) -> None:
        for width in (40, 80, 133):
            for variable in ((), ("x",), ("x", "3")):
                lines = self.text(f"--width={width}", "long.lod", *variable).splitlines()
                # Titles, tables and notes are as wide as they are.
                others = re.compile(r"long\.lod:|name |x |x<|x:|level |\d+ +\d+ +\d+ +\d+ |\(drawn: |  \.\.\. and ")
                self.assertLessEqual(max(len(line) for line in lines if not others.match(line)), width)
        drawn = self.text("--width=40", "long.lod", "x")
        self.assertTrue(any(re.fullmatch(r"[| ]{30,36} \.\.\.", line) for line in drawn.splitlines()))
        self.assertEqual(max(map(len, (line for line in drawn.splitlines() if ":" in line and " ..." in line))), 40)

    def test_all_leaves_nothing_out(self) -> None:
        self.assertIn("... and 50 more, which --all shows", self.text("many.lod"))
        everything = self.text("--all", "many.lod")
        self.assertNotIn("...", everything)
        self.assertIn("name that is long, 149 ", everything)
        self.assertIn("a variable wi...", self.text("--width=50", "many.lod"))
        self.assertIn("name that is long, 99 ", self.text("many.lod"))
        self.assertNotIn("...", self.text("--all", "long.lod", "x"))
        self.assertRegex(self.text("long.lod", "x"), r"more rows, which --all shows")

    def test_a_file_without_variables_is_one(self) -> None:
        self.assertIn(", 0 variables", self.text("none.lod"))
        self.assertEqual(self.json("none.lod")["variables"], [])

    def test_hostile_names_do_nothing_to_a_terminal(self) -> None:
        text = self.text("hostile.lod")
        for printed in ("red\\x1b[31m\\x0a ", "turned\\u{202e} ", "naïve ", "\\xff "):
            self.assertIn("\n" + printed, text)
        self.assertNotIn("\x1b", text)
        names = [variable["name"] for variable in self.json("hostile.lod")["variables"]]
        self.assertEqual(names[:3], ["red\x1b[31m\n", "turned\u202e", "naïve"])
        self.assertEqual(os.fsencode(names[3]), b"\xff")
        for name in (*names[:3], b"\xff", "\\xff", "red\\x1b[31m\\x0a", "turned\\u{202e}"):
            self.assertIn("LoDTensor UINT64 {2}", self.text("hostile.lod", name))
        error = self.fails(2, "hostile.lod", "\x1b[2J")
        self.assertIn("there is no variable '\\x1b[2J'", error)

    def test_colours_are_for_terminals(self) -> None:
        plain = self.text("batch.lod", "words")
        self.assertNotIn("\x1b", plain)
        coloured = self.text("--color=always", "batch.lod", "words")
        self.assertIn("\x1b[1m", coloured)
        self.assertEqual(re.sub(r"\x1b\[\d*m", "", coloured), plain)
        self.assertNotIn("\x1b", self.text("--color=always", "--no-color", "batch.lod"))
        self.assertIn("\x1b[1m", self.on_terminal({}))
        self.assertNotIn("\x1b", self.on_terminal({"NO_COLOR": "1"}))
        self.assertIn("\x1b[1m", self.on_terminal({"NO_COLOR": ""}))
        self.assertNotIn("\x1b", self.on_terminal({}, "--color=never"))

    def test_lines_are_as_wide_as_the_terminal(self) -> None:
        self.assertEqual(max(map(len, self.on_terminal({"NO_COLOR": "1"}, file=("long.lod", "x")).splitlines())), 61)

    def on_terminal(self, environment: dict[str, str], *options: str, file: tuple[str, ...] = ("batch.lod",)) -> str:
        import fcntl
        import termios

        try:
            main, terminal = pty.openpty()
        except OSError as error:
            self.skipTest(f"no terminal is to be had: {error}")
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 61, 0, 0))
        with subprocess.Popen([LODINFO, *options, *file], cwd=self.folder.name, stdout=terminal,
                              env={"PATH": os.environ["PATH"], **environment}) as program:  # fmt: skip
            os.close(terminal)
            output = b""
            while select.select([main], [], [], 30)[0]:
                try:
                    output += os.read(main, 65536)
                except OSError:  # all who write have closed it
                    break
            os.close(main)
            self.assertEqual(program.wait(), 0)
        return output.decode()

    def test_damage_is_named_by_file_variable_and_byte(self) -> None:
        copy = self.copy("batch.lod")
        intact = copy.read_bytes()
        # The offsets of level 1 of words stand in the file once, 7 numbers in a row; so do its values.
        offsets = struct.pack("<7q", 0, 3, 5, 9, 10, 12, 15)
        begin = intact.index(offsets)
        copy.write_bytes(intact.replace(offsets, struct.pack("<7q", 0, 3, 2, 9, 10, 12, 15), 1))
        error = self.fails(1, copy.name, "words")
        self.assertRegex(error, rf"'{copy.name}'.*'words'.*\(at byte {begin + 16}\)")
        # The others are there, and so is what does not touch the damage.
        listed = self.run_it(copy.name, status=1)
        self.assertIn("damaged: 1 variable", listed.stdout)
        self.assertRegex(listed.stdout, r"words .* DAMAGED")
        self.assertIn("'words'", listed.stderr)
        self.assertEqual(len(self.json(copy.name, status=1)["variables"]), 12)
        self.assertIn("'words'", self.json(copy.name, status=1)["variables"][0]["error"])
        self.assertEqual(self.json(copy.name, "words", "2,0")["first_values"], [10, 11])
        self.assertEqual(self.json(copy.name, "strange")["statistics"]["count"], 6)

    def test_verify_finds_what_a_look_does_not(self) -> None:
        copy = self.copy("batch.lod")
        intact = copy.read_bytes()
        self.assertIn("verified: nothing is damaged", self.text("--verify", copy.name))
        self.assertIn("verified: nothing is damaged", self.text("--verify", copy.name, "words"))
        self.assertTrue(self.json("--verify", copy.name)["verified"])
        self.assertFalse(self.json(copy.name)["verified"])
        values = struct.pack("<15q", *range(15))
        copy.write_bytes(intact.replace(values, struct.pack("<15q", 1, *range(1, 15)), 1))
        self.text(copy.name, "words")
        self.assertIn("checksum", self.fails(1, "--verify", copy.name, "words"))
        self.assertIn("'words'", self.fails(1, "--verify", copy.name))
        self.text("--verify", copy.name, "vectors")
        self.assertFalse(self.json("--verify", copy.name, status=1)["verified"])

    def test_a_file_that_was_cut_off_anywhere_is_refused(self) -> None:
        copy = self.copy("none.lod")
        intact = copy.read_bytes()
        for size in range(len(intact)):
            copy.write_bytes(intact[:size])
            self.assertIn(copy.name, self.fails(1, copy.name))


@needs("PaddlePaddle program")
class PaddleFiles(LodInfo):
    def real(self, name: str) -> str:
        """A file that PaddlePaddle wrote, by a path that is the same on all machines."""
        shutil.copytree(PADDLE, self.path("paddle"), dirs_exist_ok=True)
        return "paddle/" + name

    def test_a_program_is_its_blocks_operators_and_variables(self) -> None:
        self.golden(GOLDEN_PROGRAM, self.real("fit_a_line/__model__"))

    def test_a_folder_is_the_program_in_it(self) -> None:
        found = self.json(self.real("fit_a_line"))
        self.assertEqual(found["kind"], "PaddlePaddle program")
        self.assertEqual(found["program"]["version"], 1007000)
        self.assertEqual(found["program"]["blocks"][0]["operators"],
                         {"elementwise_add": 1, "feed": 1, "fetch": 1, "mul": 1})  # fmt: skip
        parameter = self.variable("paddle/fit_a_line", "fc_0.w_0")
        self.assertEqual((parameter["dims"], parameter["persistable"], parameter["bytes"]), ([13, 1], True, 52))
        self.assertEqual(self.json("paddle/fit_a_line", "fc_0.w_0")["shape"], [13, 1])
        self.assertIn("The file has no value of it", self.text("paddle/fit_a_line", "x"))
        self.assertIn("no branches", self.fails(2, "paddle/fit_a_line", "x", "0"))
        self.assertIn("verified", self.text("--verify", "paddle/fit_a_line"))

    def test_a_parameter_of_its_own_file_is_one_variable(self) -> None:
        found = self.json(self.real("fit_a_line/fc_0.b_0"))
        self.assertEqual(found["variables"][0]["name"], "fc_0.b_0")
        values = self.json("paddle/fit_a_line/fc_0.b_0", "fc_0.b_0")["first_values"]
        self.assertEqual(struct.pack("<f", *values), (PADDLE / "fit_a_line" / "fc_0.b_0").read_bytes()[-4:])

    def test_parameters_in_one_file_have_the_names_that_the_program_beside_says(self) -> None:
        found = self.json(self.real("custom_gap/custom_gap.pdiparams"))
        self.assertEqual(found["kind"], "PaddlePaddle parameters of custom_gap.pdmodel")
        names = [variable["name"] for variable in found["variables"]]
        self.assertEqual((len(names), names), (6, sorted(names)))
        for name in names:
            from_values = self.json("paddle/custom_gap/custom_gap.pdiparams", name)
            from_program = self.json("paddle/custom_gap/custom_gap.pdmodel", name)
            self.assertEqual(from_values["first_values"], from_program["first_values"])
            self.assertEqual(from_values["statistics"], from_program["statistics"])
        shutil.copyfile(PADDLE / "custom_gap" / "custom_gap.pdiparams", self.path("nameless.pdiparams"))
        alone = self.json("nameless.pdiparams")
        self.assertEqual([variable["name"] for variable in alone["variables"]], [f"#{i}" for i in range(6)])
        self.assertEqual([variable["dims"] for variable in alone["variables"]],
                         [variable["dims"] for variable in found["variables"]])  # fmt: skip

    def test_a_program_whose_parameters_are_missing_is_described(self) -> None:
        self.real("")
        shutil.copyfile(PADDLE / "custom_gap" / "custom_gap.pdmodel", self.path("alone.pdmodel"))
        parameter = next(v for v in self.json("alone.pdmodel")["variables"] if v["persistable"] and "bytes" in v)
        self.assertIn("persistable\nThe file has no value of it.", self.text("alone.pdmodel", parameter["name"]))

    def test_files_of_variables_are_told_apart_by_what_is_in_them(self) -> None:
        tensor = self.json("one_variable")["variables"][0]
        self.assertEqual((tensor["kind"], tensor["sequences"], tensor["dims"]), ("LOD_TENSOR", [3, 6], [15]))
        rows = self.json("one_gradient")["variables"][0]
        self.assertEqual((rows["kind"], rows["dims"], rows["parts"]), ("SELECTED_ROWS", [10, 2], 3))
        self.assertEqual([v["name"] for v in self.json("two_variables")["variables"]], ["#0", "#1"])
        self.assertEqual(self.json("one_variable", "one_variable", "2,0")["first_values"], [10, 11])

    def test_blocks_are_shown_one_after_the_other(self) -> None:
        self.golden(GOLDEN_BLOCKS, "nested.pdmodel")

    def test_damage_is_named_by_file_variable_and_byte(self) -> None:
        for file in ("one_variable", "one_gradient", "two_variables", "nested.pdmodel"):
            intact = self.path(file).read_bytes()
            for size in range(1, len(intact), 3):
                damaged = self.path("damaged_" + file)
                damaged.write_bytes(intact[:size])
                done = self.run_it(damaged.name, status=self.run_any(damaged.name))
                if done.returncode:
                    self.assertRegex(done.stderr, rf"\Alodinfo: .*{damaged.name}.*\(at byte \d+\)\n\Z")
                else:  # what is left is a file of its own
                    self.assertIn(file, ("two_variables", "nested.pdmodel"))
        shutil.copytree(PADDLE / "custom_gap", self.path("cut"), dirs_exist_ok=True)
        values = self.path("cut/custom_gap.pdiparams")
        values.write_bytes(values.read_bytes()[:-1])
        error = self.fails(1, "cut/custom_gap.pdiparams")
        self.assertRegex(error, r"cut/custom_gap.pdiparams: '[\w.]+': .*\(at byte \d+\)")
        self.assertIn("DAMAGED", self.run_it("--verify", "cut/custom_gap.pdmodel", status=1).stdout)

    def run_any(self, *arguments: str) -> int:
        return subprocess.run([LODINFO, *arguments], cwd=self.folder.name, capture_output=True).returncode


class NumpyAndJson(LodInfo):
    def test_an_npy_is_one_plain_tensor(self) -> None:
        found = self.json("array.npy")
        self.assertEqual(found["kind"], "NumPy array (.npy)")
        self.assertEqual((found["variables"][0]["name"], found["variables"][0]["dims"]), ("array", [6]))
        self.assertEqual(self.json("array.npy", "array")["statistics"]["nans"], 1)

    def test_contents_count_and_not_names(self) -> None:
        shutil.copyfile(self.path("array.npy"), self.path("misnamed.json"))
        self.assertEqual(self.json("misnamed.json")["kind"], "NumPy array (.npy)")

    @needs("npz")
    def test_an_npz_keeps_levels_and_ids(self) -> None:
        words = self.variable("batch.npz", "words")
        self.assertEqual((words["sequences"], words["dims"]), ([3, 6], [15]))
        self.assertEqual(self.json("batch.npz", "words", "2,0")["first_absolute_lod"], [[10, 12]])
        self.assertEqual(self.json("batch.npz", "gradient")["first_ids"], [4, 0, 4])
        copy = self.copy("batch.npz")
        values = struct.pack("<15q", *range(15))
        copy.write_bytes(copy.read_bytes().replace(values, struct.pack("<15q", 1, *range(1, 15)), 1))
        self.assertIn("words", self.fails(1, copy.name, "words"))

    @needs("npz")
    def test_a_member_of_an_npz_that_is_no_array_is_listed(self) -> None:
        copy = self.copy("batch.npz")
        with zipfile.ZipFile(copy, "a") as archive:
            archive.writestr("notes.txt", "hello")
        self.assertIn("notes.txt", self.text(copy.name))
        self.assertIn("verified: nothing is damaged", self.text("--verify", copy.name))
        self.assertIn("The file has no value of it.", self.text(copy.name, "notes.txt"))
        self.assertEqual(self.json(copy.name, "words", "2,0")["first_absolute_lod"], [[10, 12]])

    @needs("npz")
    def test_an_array_that_cannot_be_read_leaves_the_others_of_an_npz(self) -> None:
        with zipfile.ZipFile(self.path("strange.npz"), "w") as archive:
            archive.write(NUMPY / "refused_uint16.npy", "strange.npy")
            archive.write(self.path("array.npy"), "array.npy")
        listed = self.run_it("strange.npz", status=1)
        self.assertIn("damaged: 1 variable", listed.stdout)
        self.assertRegex(listed.stdout, r"(?m)^strange .* DAMAGED")
        self.assertRegex(listed.stdout, r"(?m)^array .* FP64 .* 48 B$")
        self.assertIn("strange.npz': npz: 'strange': npy: dtype '<u2'", listed.stderr)
        found = {variable["name"]: variable for variable in self.json("strange.npz", status=1)["variables"]}
        self.assertIn("dtype '<u2'", found["strange"]["error"])
        self.assertNotIn("error", found["array"])
        self.assertIn("dtype '<u2'", self.fails(1, "strange.npz", "strange"))
        self.assertEqual(self.json("strange.npz", "array")["statistics"]["nans"], 1)

    def test_a_json_object_says_all_of_a_tensor(self) -> None:
        found = self.json("object.json")
        self.assertEqual(found["kind"], "JSON, a tensor as an object")
        self.assertEqual(found["variables"][0]["sequences"], [3, 6])
        self.assertEqual(self.json("object.json", "object", "2,0")["first_row"], 10)

    def test_nested_lists_have_as_few_levels_as_they_allow(self) -> None:
        for text, data_type, dims, sequences in (
            ("[1, 2, 3]", "INT64", [3], None),
            ("\n[[1, 2], [3, 4]]", "INT64", [2, 2], None),
            ("[[1, 2], [3.5]]", "FP64", [3], [2]),
            ("[[true], [], [false, true]]", "BOOL", [3], [3]),
            ('[[["NaN"]], [[1], [2, 3]]]', "FP64", [4], [2, 3]),
            ("[]", "INT64", [0], None),
            ("[18446744073709551615]", "FP64", [1], None),
        ):
            with self.subTest(text):
                self.path("nested.json").write_text(text)
                variable = self.json("nested.json")["variables"][0]
                self.assertEqual((variable["data_type"], variable["dims"]), (data_type, dims))
                self.assertEqual(variable.get("sequences"), sequences)

    def test_damage_is_named_by_file_and_byte(self) -> None:
        for file in ("array.npy", "object.json"):
            intact = self.path(file).read_bytes()
            for size in range(1, len(intact)):
                self.path("damaged").write_bytes(intact[:size])
                self.assertRegex(self.fails(1, "damaged"), r"\Alodinfo: ('damaged'|damaged): .*\n\Z")
        for text, byte in (("[[1], [2, x]]", 10), ("[1, 2", 5), ("[1] 2", 4), ("[" * 100000, 0)):
            with self.subTest(text[:20]):
                self.path("damaged").write_text(text)
                error = self.fails(1, "damaged")
                self.assertRegex(error, r"\(at byte \d+\)")
                if byte:
                    self.assertIn(f"(at byte {byte})", error)


GOLDEN_FILE = """
batch.lod: lodtensor file, 2.0 KiB, 12 variables

name      kind                 type       shape    levels  sequences  bytes
words     LoDTensor            INT64      {15}     2       3, 6       120 B
vectors   LoDTensor            FP32       {15, 2}  2       3, 6       120 B
strange   LoDTensor            FP64       {6}      0                  48 B
nothing   LoDTensor            FP32       {0, 3}   0                  0 B
gaps      LoDTensor            FP32       {3}      1       4          12 B
large     LoDTensor            UINT64     {2}      0                  16 B
gradient  SelectedRows, 3 ids  FP32       {10, 2}  0                  24 B
flags     LoDTensor            BOOL       {3}      0                  3 B
halves    LoDTensor            FP16       {2, 2}   0                  8 B
complex   LoDTensor            COMPLEX64  {2}      0                  16 B
steps     array, 2 tensors     FP32       {?, 3}   0                  36 B
eighths   LoDTensor            FP8_E5M2   {3}      0                  3 B
"""
GOLDEN_VARIABLE = """
words: LoDTensor INT64 {15}, 2 levels, 120 B

3           1  2
3   2  4    1  2  3
||| || |||| |  || |||

level  sequences  empty  min  median  mean  max
0      3          0      1    2       2     3
1      6          0      1    2.5     2.5   4

lengths of level 0
  1 ############################################################ 1
  2 ############################################################ 1
  3 ############################################################ 1

lengths of level 1
  1 ############################## 1
  2 ############################################################ 2
  3 ############################################################ 2
  4 ############################## 1

values              15
zeros               1
NaN                 0
infinite            0
min                 0
mean                7
max                 14
standard deviation  4.32049

rows
    0-2: 0 1 2
    3-4: 3 4
    5-8: 5 6 7 8
      9: 9
  10-11: 10 11
  12-14: 12 13 14
"""
GOLDEN_SLICE = """
vectors<2>: LoDTensor FP32 {5, 2}, 2 levels, 40 B, rows 10-14 of {15, 2}

absolute LoD
  {10, 15}
  {10, 12, 15}

10      15
10  12  15
  || |||

level  sequences  empty  min  median  mean  max
0      1          0      2    2       2     2
1      2          0      2    2.5     2.5   3

lengths of level 1
  2 ############################################################ 1
  3 ############################################################ 1

values              10
zeros               0
NaN                 0
infinite            0
min                 20
mean                24.5
max                 29
standard deviation  2.87228

rows
  10: 20 21
  11: 22 23
  12: 24 25
  13: 26 27
  14: 28 29
"""
GOLDEN_STRANGE = """
strange: LoDTensor FP64 {6}, 48 B

values              6
zeros               1
NaN                 1
infinite            2
min                 0
mean                3
max                 5
standard deviation  2.16025

rows
  0-5: 0 NaN Infinity -Infinity 4 5
"""
GOLDEN_ROWS = """
gradient: SelectedRows FP32 {10, 2}, 3 ids, 24 B

values              6
zeros               1
NaN                 0
infinite            0
min                 0
mean                2.5
max                 5
standard deviation  1.70783

rows, by their ids
  4: 0 1
  0: 2 3
  4: 4 5
"""
GOLDEN_ARRAY = """
steps: array FP32 {?, 3}, 2 tensors, 36 B

name  kind       type  shape   levels  sequences  bytes
[0]   LoDTensor  FP32  {2, 3}  0                  24 B
[1]   LoDTensor  FP32  {1, 3}  0                  12 B
"""
GOLDEN_PROGRAM = """
paddle/fit_a_line/__model__: PaddlePaddle program, 6.1 KiB, 7 variables
written by PaddlePaddle 1.7.0

block 0: 4 operators, 7 variables

operator         count
elementwise_add  1
feed             1
fetch            1
mul              1

name        kind            type  shape    levels  persistable  bytes
fetch       FETCH_LIST                             yes
feed        FEED_MINIBATCH                         yes
fc_0.b_0    LoDTensor       FP32  {1}      0       yes          4 B
fc_0.tmp_0  LoDTensor       FP32  {?, 1}   0
fc_0.tmp_1  LoDTensor       FP32  {?, 1}   0
fc_0.w_0    LoDTensor       FP32  {13, 1}  0       yes          52 B
x           LoDTensor       FP32  {?, 13}  0
"""
GOLDEN_GRAPH = """
digraph program {
  compound=true;
  node [fontname="sans-serif", fontsize=10];
  subgraph cluster_0 {
    label="block 0";
    "operator 0 0" [shape=box, style=filled, fillcolor="#dbe9f6", label="while"];
    "variable 0 scopes" [label="scopes"];
    "variable 0 x" [label="x"];
  }
  subgraph cluster_1 {
    label="block 1";
    "operator 1 0" [shape=box, style=filled, fillcolor="#dbe9f6", label="mul"];
    "operator 1 1" [shape=box, style=filled, fillcolor="#dbe9f6", label="sum"];
    "variable 1 a \\"z\\"" [label="a \\"z\\""];
    "variable 1 y" [label="y"];
  }
  "operator 0 0" -> "operator 1 0" [style=dashed, lhead=cluster_1];
  "operator 1 1" -> "variable 1 a \\"z\\"" [tooltip="Out"];
  "variable 0 x" -> "operator 0 0" [tooltip="X"];
  "variable 0 x" -> "operator 1 1" [tooltip="X"];
  "variable 1 y" -> "operator 1 1" [tooltip="X"];
}
"""

GOLDEN_BLOCKS = """
nested.pdmodel: PaddlePaddle program, 107 B, 3 variables

block 0: 1 operator, 2 variables

operator  count
while     1

name    kind         type   shape   levels  persistable  bytes
x       LoDTensor    INT64  {?, 1}  2
scopes  STEP_SCOPES

block 1 in block 0: 2 operators, 1 variable

operator  count
mul       2

name  kind       type  shape   levels  persistable  bytes
y     LoDTensor  FP32  {2, 3}  0                    24 B
"""

if __name__ == "__main__":
    unittest.main()
