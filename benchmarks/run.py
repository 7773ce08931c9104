# SPDX-License-Identifier: Apache-2.0
"""What tools/bench does: builds benchmark_suite, runs it beside the peers, writes JSON and the report."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import hashlib
import json
import math
import os
import platform
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

import cliffs
import compare
import report
from results import (
    FORMAT,
    OURS,
    STEADY_LIMIT,
    Record,
    Run,
    disagrees,
    format_bytes,
    format_duration,
    format_percent,
    format_seconds,
    format_times,
    roofs_movement,
    to_json,
)

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "benchmarks" / "peers"
ENVIRONMENTS = ROOT / "build" / "peers"
PROGRAM = ROOT / "build" / "release" / "benchmarks" / "benchmark_suite"
CLIFFS = PROGRAM.with_name("benchmark_cliffs")

# A workload whose roofs moved is measured this many times at most.
ATTEMPTS = 2
# A peer that died is started again for the next workload, unless it does nothing but die.
DEATHS = 3
# Seconds to wait for a peer that loads its library, and for one call of the program or of a peer.
START_LIMIT = 180.0
WORKLOAD_LIMIT = {"short": 180.0, "long": 900.0}


class UsageError(Exception):
    """The command line asks for what cannot be."""


class ProgramError(Exception):
    """Our program failed."""


# Processes

# Ours end with us, even where we are killed outright or stopped in the moment of starting them.
_WITH_US = ["setpriv", "--pdeathsig=KILL", "--"] if shutil.which("setpriv") else []


def _kill(process: subprocess.Popen[str]) -> None:
    """Ends a process and what it started: each child leads a session of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # The OpenMP of LLVM and Intel leaves a file there where it cannot end by itself.
    with contextlib.suppress(OSError):
        Path(f"/dev/shm/__KMP_REGISTERED_LIB_{process.pid}_{os.getuid()}").unlink()


def run_child(argv: Sequence[str], log: IO[str], limit: float) -> str:
    """What a command prints. Its stderr goes to the log; ProgramError where it fails or takes too long."""
    process = subprocess.Popen([*_WITH_US, *argv], stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL,
                               text=True, start_new_session=True)  # fmt: skip
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        raise ProgramError(f"took more than {limit:.0f} s") from None
    finally:
        _kill(process)
    if process.returncode != 0:
        raise ProgramError(_exit_text(process.returncode))
    return output


def _exit_text(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"ended by signal {-status}"


class Program:
    """benchmark_suite: knows the workloads, makes their inputs, measures us, the peers in C++ and the roofs."""

    def __init__(self, path: Path, form: str, threads: int, log: IO[str]) -> None:
        self.path, self.form, self.log = path, form, log
        self.options = [f"--form={form}", f"--threads={threads}"]

    def list(self) -> list[dict[str, Any]]:
        lines = run_child([str(self.path), "--list", *self.options], self.log, WORKLOAD_LIMIT[self.form]).splitlines()
        try:
            return [json.loads(line) for line in lines if line.strip()]
        except json.JSONDecodeError as error:
            raise ProgramError(f"--list printed what is no JSON: {error}") from None

    def measure(self, workload: str, inputs: Path, out: Path) -> dict[str, Any]:
        arguments = [f"--workload={workload}", f"--inputs={inputs}", f"--out={out}", *self.options]
        run_child([str(self.path), *arguments], self.log, WORKLOAD_LIMIT[self.form])
        try:
            return json.loads(out.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError) as error:
            raise ProgramError(f"left no result: {error}") from None

    def roofs(self) -> dict[str, float]:
        try:
            return json.loads(run_child([str(self.path), "--roofs", *self.options], self.log, 60))
        except json.JSONDecodeError as error:
            raise ProgramError(f"--roofs printed what is no JSON: {error}") from None


class Peer:
    """A process that measures another library: benchmarks/peers/<name>_peer.py."""

    def __init__(self, name: str, python: Path, form: str, threads: int, log: Path) -> None:
        self.name, self.form = name, form
        self.argv = [str(python), str(PEERS / f"{name}_peer.py"), f"--threads={threads}", f"--form={form}"]
        self.log_path = log
        self.hello: dict[str, Any] = {"peer": name}
        self.deaths = 0
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def start(self) -> None:
        """Starts it, and does not wait until it is ready."""
        with self.log_path.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen([*_WITH_US, *self.argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=log, text=True, start_new_session=True)  # fmt: skip
        self._lines = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True).start()

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def wait_until_ready(self) -> bool:
        """False where it cannot take part; `hello` then says why."""
        try:
            self.hello = self._next(time.monotonic() + START_LIMIT)
        except ProgramError as error:
            self.hello = {"peer": self.name, "missing": f"did not start: {error}; see {self.log_path}"}
        if "missing" in self.hello:
            self.stop()
            return False
        return True

    def ask(self, workload: Mapping[str, Any], inputs: Path) -> list[dict[str, Any]]:
        """Its results. One that dies, hangs or talks nonsense has a result without times, which says so."""
        results: list[dict[str, Any]] = []
        try:
            if self._process is None:
                if self.deaths >= DEATHS:
                    return [self._failure(workload, f"not asked: it died {self.deaths} times")]
                self.start()
                if not self.wait_until_ready():
                    raise ProgramError("could not be started again")
            assert self._process is not None and self._process.stdin is not None
            self._process.stdin.write(json.dumps({"workload": workload, "inputs": str(inputs)}) + "\n")
            self._process.stdin.flush()
            deadline = time.monotonic() + WORKLOAD_LIMIT[self.form]
            while "done" not in (answer := self._next(deadline)):
                if not isinstance(answer.get("by"), str) or not isinstance(answer.get("seconds"), list):
                    raise ProgramError(f"answered what is no result: {json.dumps(answer)[:200]}")
                results.append({**answer, "id": workload["id"], "peer": self.name})
        except (ProgramError, OSError) as error:
            self.deaths += 1
            self.stop()
            results.append(self._failure(workload, str(error)))
        return results

    def _failure(self, workload: Mapping[str, Any], note: str) -> dict[str, Any]:
        return {
            "id": workload["id"], "by": self.name, "peer": self.name, "version": self.hello.get("version", ""),
            "seconds": [], "checksum": None, "note": note,
        }  # fmt: skip

    def _next(self, deadline: float) -> dict[str, Any]:
        """The next line of JSON. Libraries that print to stdout are passed over."""
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise ProgramError("no answer in time") from None
            if line is None:
                assert self._process is not None
                raise ProgramError(f"died: {_exit_text(self._process.wait())}")
            if line.startswith("{"):
                with contextlib.suppress(json.JSONDecodeError):
                    return json.loads(line)

    def stop(self, patience: float = 2.0) -> None:
        """Asks it to go by closing its stdin, and kills it where it does not in so many seconds."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience)
        _kill(process)


# The environments of the peers


def environments() -> dict[str, Path]:
    """The file of requirements of each peer.

    `requirements-NAME.txt` is for the environment NAME, and `requirements.txt` for one called `peers`. A line
    `# peers: a b` in the file says who lives there; without one, the peer NAME does, or all that have no other.
    """
    homes: dict[str, Path] = {}
    rest: Path | None = None
    for path in sorted(PEERS.glob("requirements*.txt")):
        named = re.search(r"^#\s*peers:(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        if named:
            homes.update(dict.fromkeys(named[1].replace(",", " ").split(), path))
        elif environment_name(path) == "peers":
            rest = path
        else:
            homes[environment_name(path)] = path
    if rest:
        for name in peer_names():
            homes.setdefault(name, rest)
    return homes


def environment_name(requirements: Path) -> str:
    return requirements.stem.removeprefix("requirements").lstrip("-_.") or "peers"


def peer_names() -> list[str]:
    """The peers in Python. Their files' names end in _peer, for `import numpy` must not find numpy.py there."""
    return sorted(path.stem.removesuffix("_peer") for path in PEERS.glob("*_peer.py"))


def python_of(requirements: Path) -> Path:
    return ENVIRONMENTS / environment_name(requirements) / "bin" / "python"


def install(requirements: Path) -> None:
    """Makes an environment, unless it has what the file says already."""
    folder = ENVIRONMENTS / environment_name(requirements)
    stamp = folder / "requirements.sha256"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print(f"Installing {requirements.relative_to(ROOT)} into {folder.relative_to(ROOT)}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--requirement", str(requirements)], check=True)
    stamp.write_text(wanted, encoding="utf-8")


def make_peers(
    names: Sequence[str], options: argparse.Namespace, threads: int
) -> tuple[list[Peer], list[dict[str, str]]]:
    """The peers that have an environment, and who is left out, and why."""
    homes = environments()
    if options.install_peers:
        for requirements in dict.fromkeys(homes[name] for name in names if name in homes):
            try:
                install(requirements)
            except subprocess.CalledProcessError as error:
                print(f"{requirements.name}: {error}", file=sys.stderr)
    peers, left_out = [], []
    for name in names:
        home = homes.get(name)
        if home is None:
            left_out.append({"peer": name, "missing": "benchmarks/peers has no requirements for it"})
        elif not python_of(home).exists():
            why = f"no environment; `tools/bench --install-peers --peers {name}` makes it"
            left_out.append({"peer": name, "missing": why})
        else:
            peers.append(Peer(name, python_of(home), options.form, threads, options.output / f"peer-{name}.log"))
    return peers, left_out


# The machine


def machine() -> dict[str, Any]:
    """What a reader must know of it; nothing that tells which one it is."""
    info: dict[str, Any] = {
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "caches": [],
        "kernel": " ".join([platform.system(), *re.findall(r"^\d+\.\d+", platform.release())]),
        "architecture": platform.machine(),
        "load": round(os.getloadavg()[0], 2),
    }
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if model := re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE):
            info["cpu"] = model[1]
        if re.search(r"^flags\s*:.*\bhypervisor\b", text, re.MULTILINE):
            info["virtual"] = "a virtual machine"
    with contextlib.suppress(OSError):
        info["system"] = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        with contextlib.suppress(OSError, ValueError):
            kind, level, size = (
                (folder / name).read_text(encoding="utf-8").strip() for name in ("type", "level", "size")
            )
            if kind != "Instruction":
                scale = {"K": 1 << 10, "M": 1 << 20}[size[-1]]
                info["caches"].append({"level": int(level), "bytes": int(size[:-1]) * scale})
    return info


def revision() -> str:
    """The commit, where this is a working copy of git."""
    try:
        command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def available_memory() -> int:
    with contextlib.suppress(OSError):
        text = Path("/proc/meminfo").read_text(encoding="utf-8")
        if found := re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE):
            return int(found[1]) << 10
    return sys.maxsize


# Inputs


def input_bytes(workload: Mapping[str, Any]) -> int:
    """About what the workload's inputs take at most, by the size of its values: the list does not tell more."""
    found = re.fullmatch(r"(\d+)(B|KiB|MiB|GiB)", str(workload.get("size", "")))
    unit = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    values = int(found[1]) * unit[found[2]] if found else workload.get("bytes", 64 << 20)
    # The values, a second batch or a table of twice that size, offsets and ids.
    return values * 7 // 2 + (1 << 20)


@contextlib.contextmanager
def scratch(largest: int) -> Iterator[Path]:
    """A folder in memory if it has the room, else where temporary files are; it goes in any case."""
    shared = Path("/dev/shm")
    places = [place for place in (shared, Path(tempfile.gettempdir())) if place.is_dir() and os.access(place, os.W_OK)]
    for place in places:
        _sweep(place)
    roomy = [place for place in places if shutil.disk_usage(place).free > largest]
    place = roomy[0] if roomy else max(places, key=lambda place: shutil.disk_usage(place).free)
    if place != shared:
        print(f"/dev/shm has not {format_bytes(largest)} free: inputs go to {place}")
    # Not the class: what is left of a folder whose program was just killed must not hide why.
    folder = Path(tempfile.mkdtemp(prefix=f"lodtensor-bench-{os.getpid()}-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(place: Path) -> None:
    """Removes what a run that was killed outright left there."""
    for folder in place.glob("lodtensor-bench-*-*"):
        owner = folder.name.split("-")[2]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


# The run


class Progress:
    """A line that is written again on a terminal, lines elsewhere."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.started = time.monotonic()
        self.terminal = sys.stdout.isatty()

    def begin(self, place: int, name: str, doing: str = "") -> None:
        if not self.terminal:
            return
        elapsed = time.monotonic() - self.started
        left = f", about {format_duration(elapsed / place * (self.total - place))} left" if place else ""
        text = f"[{place + 1}/{self.total}] {name}{f' ({doing})' if doing else ''}, {format_duration(elapsed)}{left}"
        print(f"\r\033[K{text[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)

    def end(self, place: int, record: Mapping[str, Any]) -> None:
        """What came of a workload."""
        if not self.terminal:
            print(f"[{place + 1}/{self.total}] {_outcome(Record(record, 0))}", flush=True)

    def close(self) -> None:
        if self.terminal:
            print("\r\033[K", end="", flush=True)


def _outcome(record: Record) -> str:
    if record.ours is None:
        return f"{record.id}: {record.without}"
    text = f"{record.id}: {format_seconds(sorted(record.ours['seconds'])[len(record.ours['seconds']) // 2])}"
    if (fraction := record.fraction()) is not None:
        text += f", {format_percent(fraction)} of the {record.workload['roof']} roof"
    if (ratio := record.speed_up(record.best_peer)) is not None and record.best_peer:
        text += f", {format_times(ratio)} {record.best_peer['by']}"
    return text + (", unsteady" if record.unsteady else "")


class Bench:
    """One run: goes through the workloads, and holds what is known so far."""

    def __init__(self, program: Program, peers: list[Peer]) -> None:
        self.program, self.peers = program, peers
        self.records: list[dict[str, Any]] = []
        self.context: dict[str, Any] = {}
        self.failed = False

    def run(self, workloads: Sequence[Mapping[str, Any]], folder: Path, progress: Progress) -> None:
        for place, workload in enumerate(workloads):
            say = functools.partial(progress.begin, place, workload["id"])
            say("")
            record = self._measure(workload, folder, say)
            self.records.append(record)
            progress.end(place, record)

    def _measure(self, workload: Mapping[str, Any], folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
        """The steadiest of up to `ATTEMPTS` attempts."""
        needed = input_bytes(workload)
        # The inputs, our copy of them and a peer's.
        free = min(shutil.disk_usage(folder).free, available_memory() // 3)
        if free < needed:
            note = f"its inputs take up to {format_bytes(needed)}, and {format_bytes(free)} are free"
            return self._without(workload, note, left_out=True)
        best: dict[str, Any] | None = None
        for attempt in range(1, ATTEMPTS + 1):
            if attempt > 1:
                say(f"again, the roofs moved: {attempt} of {ATTEMPTS}")
            try:
                record = self._attempt(workload, folder)
            except ProgramError as error:
                self.failed = True
                return best or self._without(workload, str(error))
            if best is None or record["moved"] < best["moved"]:
                best = record
            best["attempts"] = attempt
            best["unsteady"] = best["moved"] > STEADY_LIMIT
            if not best["unsteady"]:
                break
        assert best is not None
        return best

    def _attempt(self, workload: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        inputs, out = folder / "inputs", folder / "result.json"
        inputs.mkdir()
        try:
            measured = self.program.measure(workload["id"], inputs, out)
            self.context = measured.get("context") or self.context
            results = [dict(result) for result in measured["results"]]
            # With rows and parameters, which the list has not.
            workload = measured.get("workload", workload)
            for peer in self.peers:
                results += peer.ask(workload, inputs)
        finally:
            shutil.rmtree(inputs, ignore_errors=True)
            out.unlink(missing_ok=True)
        record = {
            "workload": workload,
            "results": results,
            "roofs_before": measured["roofs_before"],
            "roofs_after": measured["roofs_after"],
        }
        if self.peers:
            # Ours are measured between the first two, the peers between the last two.
            record["roofs_between"], record["roofs_after"] = record["roofs_after"], self.program.roofs()
        ours = next((result for result in results if result["by"] == OURS and result["seconds"]), None)
        if ours is None:
            self.failed = True
        for result in results:
            if result is not ours and disagrees(ours, result):
                result["disagrees"] = True
            # JSON has no NaN.
            for name in ("checksum", "magnitude"):
                if result.get(name) is not None and not math.isfinite(result[name]):
                    result[name] = None
        record["moved"] = round(roofs_movement(record["roofs_before"], record["roofs_after"]), 4)
        return record

    @staticmethod
    def _without(workload: Mapping[str, Any], note: str, left_out: bool = False) -> dict[str, Any]:
        failure = {"id": workload["id"], "by": OURS, "seconds": [], "checksum": None, "note": note}
        record = {
            "workload": dict(workload),
            "results": [failure],
            "roofs_before": {},
            "roofs_after": {},
            "unsteady": False,
        }
        return record | ({"left_out": True} if left_out else {})


def build(program: Path) -> Path:
    """The program, built as the preset `release` says."""
    for command in (
        [str(ROOT / "tools" / "install-dependencies"), "bench"],
        ["cmake", "--preset", "release"],
        ["cmake", "--build", "--preset", "release", "--target", program.name],
    ):
        subprocess.run(command, cwd=ROOT, check=True)
    return program


def program_of(options: argparse.Namespace, ours: Path) -> Path | None:
    """What --program says, or our own, built; None if the build failed."""
    if options.program and not options.program.is_file():
        raise UsageError(f"{options.program} is no program")
    try:
        return options.program.resolve() if options.program else build(ours)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"tools/bench: the build failed: {error}", file=sys.stderr)
        return None


def benchmark(options: argparse.Namespace) -> int:
    """Runs everything; the exit status."""
    names = peer_names()
    chosen = [] if options.no_peers else names
    if options.peers:
        chosen = options.peers.split(",")
        if unknown := [name for name in chosen if name not in names]:
            raise UsageError(f"there is no peer {', '.join(unknown)}; there are: {', '.join(names) or 'none'}")
    path = program_of(options, PROGRAM)
    if path is None:
        return 1

    options.output.mkdir(parents=True, exist_ok=True)
    for log in options.output.glob("*.log"):
        log.unlink()
    threads = options.threads or len(os.sched_getaffinity(0))
    log_path = options.output / "program.log"
    started = time.monotonic()
    data: dict[str, Any] = {
        "format": FORMAT,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "form": options.form,
        "revision": revision(),
        "machine": machine(),
    }
    interrupted = False
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(log_path.open("w", encoding="utf-8"))
        program = Program(path, options.form, threads, log)
        workloads = [workload for workload in program.list() if options.only.search(workload["id"])]
        if not workloads:
            raise UsageError("no workload has such an id")
        peers, left_out = make_peers(chosen, options, threads)
        bench = Bench(program, [])
        progress = Progress(len(workloads))
        try:
            folder = stack.enter_context(scratch(max(map(input_bytes, workloads))))
            for peer in peers:
                stack.callback(peer.stop)
                peer.start()
            bench.peers = [peer for peer in peers if peer.wait_until_ready()]
            left_out += [peer.hello for peer in peers if peer not in bench.peers]
            print(_plan(options.form, threads, len(workloads), bench.peers, left_out), flush=True)
            bench.run(workloads, folder, progress)
        except KeyboardInterrupt:
            interrupted = True
            ignore_signals()
            for peer in peers:
                peer.stop(patience=0)
        finally:
            progress.close()

    # The peers have ended and the inputs are gone.
    data |= {
        "seconds": round(time.monotonic() - started),
        "context": bench.context,
        "peers": [peer.hello for peer in bench.peers] + left_out,
        "workloads": bench.records,
    }
    if interrupted:
        data["interrupted"] = True
    path = options.output / f"{options.form}.json"
    path.write_text(to_json(data), encoding="utf-8")
    write_reports(path, options)
    _say_what_came(bench, log_path)
    if interrupted:
        print(f"interrupted after {len(bench.records)} of {len(workloads)} workloads")
        return 130
    return 1 if bench.failed else 0


def _plan(form: str, threads: int, count: int, peers: Sequence[Peer], left_out: Sequence[Mapping[str, str]]) -> str:
    lines = [f"{count} workloads, {form} form, {threads} threads"]
    if peers:
        lines.append("peers: " + ", ".join(f"{peer.name} ({peer.hello.get('version', '')})" for peer in peers))
    lines += [f"left out: {peer['peer']}: {peer['missing']}" for peer in left_out]
    return "\n".join(lines)


def _say_what_came(bench: Bench, log: Path) -> None:
    records = [Record(record, 0) for record in bench.records]
    for record in records:
        if record.ours is None:
            print(f"{record.id}: {record.without}" + ("" if record.data.get("left_out") else f" (see {log})"))
        for result in record.others:
            if result.get("disagrees"):
                print(f"{record.id}: the result of {result['by']} differs from ours")
            elif not result["seconds"]:
                print(f"{record.id}: {result['by']} failed: {result.get('note', '')}")
    slower = [record for record in records if (ratio := record.speed_up(record.best_peer)) is not None and ratio < 1]
    unsteady = sum(record.unsteady for record in records)
    print(f"{len(records)} workloads, {len(slower)} where a peer is faster, {unsteady} unsteady")


def write_reports(path: Path, options: argparse.Namespace) -> None:
    """The page of a file of results, and the picture where one is asked for."""
    run = Run.load(path)
    index = options.output / "report" / "index.html"
    report.write_report(run, index)
    print(f"results: {path}\nreport: {index}")
    if options.summary_svg:
        report.write_summary_svg(run, options.summary_svg)
        print(f"summary: {options.summary_svg}")


def compare_files(options: argparse.Namespace) -> int:
    before, after = (Run.load(path) for path in options.compare)
    changes = compare.compare(before, after)
    print(compare.render_text(changes))
    if options.html:
        compare.write_html(before, after, changes, options.html)
        print(f"page: {options.html}")
    return 0


def find_cliffs(options: argparse.Namespace) -> int:
    """Writes <output>/cliffs.json, prints the table; the exit status."""
    path = program_of(options, CLIFFS)
    if path is None:
        return 1
    started = time.monotonic()
    try:
        lines = cliffs.run(path, options.cliffs, options.threads or 1, options.only.pattern)
    except subprocess.CalledProcessError as error:
        print(f"tools/bench: {path.name} ended with {error.returncode}", file=sys.stderr)
        return 1
    if not lines:
        raise UsageError("no operation has such a name")
    data = {"revision": revision(), "machine": machine(), "threads": options.threads or 1, "form": options.cliffs,
            "seconds": round(time.monotonic() - started), "lines": lines}  # fmt: skip
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / "cliffs.json"
    file.write_text(to_json(data), encoding="utf-8")
    print(cliffs.render(lines))
    print(f"results: {file}")
    return 0


# The command line


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None


def _threads(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError("a number of threads is 1 or more")
    return int(text)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/bench",
        description="Builds the benchmark suite and runs it beside its peers, on the same data in the same run. Writes "
        "<output>/<form>.json and <output>/report/index.html.",
        epilog="Exit status: 0, 1 if our program failed, 2 for a wrong command line, 130 if interrupted; what was "
        "measured until then is written.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--long", dest="form", action="store_const", const="long", default="short", help="all workloads; takes long")
    add("--only", type=_pattern, default=_pattern(""), metavar="REGEX", help="only workloads whose id has a match")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--no-peers", action="store_true", help="no peers in Python; those in C++ stay")
    who.add_argument("--peers", metavar="NAME,...", help="only these peers in Python")
    add(
        "--install-peers", action="store_true", help="make the peers' virtual environments in build/peers first, by pip"
    )
    add("--threads", type=_threads, metavar="N", help="threads of us and of the peers; all cores otherwise")
    add("--output", type=Path, metavar="DIR", help="where results go; build/bench otherwise")
    add("--program", type=Path, metavar="PATH", help="run this program and build nothing")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--compare", nargs=2, type=Path, metavar=("A.json", "B.json"), help="only say what changed from A to B"
    )
    beside = "only write the report of these results, beside them unless --output says otherwise"
    what.add_argument("--report", type=Path, metavar="FILE.json", help=beside)
    what.add_argument(
        "--cliffs",
        nargs="?",
        choices=("short", "full"),
        const="full",
        help="walk operations over row sizes, lengths, values and types, on one thread unless --threads says "
        "otherwise, and print where one takes twice as long a byte as on data that differ a little; writes "
        "<output>/cliffs.json. Minutes; `--cliffs short` takes 20 seconds. With --only, operations whose name has a match",
    )
    add("--html", type=Path, metavar="FILE", help="with --compare: write a page too")
    add(
        "--summary-svg", type=Path, metavar="PATH", help="write a picture of the main results too, as docs/speed.md has it"
    )
    options = parser.parse_args(arguments)
    if options.html and not options.compare:
        parser.error("--html goes with --compare")
    if options.summary_svg and options.compare:
        parser.error("--summary-svg does not go with --compare")
    if options.install_peers and options.no_peers:
        parser.error("--install-peers does not go with --no-peers")
    if options.output is None:
        options.output = options.report.parent if options.report else ROOT / "build" / "bench"
    return options


def ignore_signals() -> None:
    """While what was measured is written, for a second Ctrl-C would lose it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: Sequence[str]) -> int:
    # Whoever ends us, children end and inputs go. Set for SIGINT too: a shell that starts us with & ignores it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    options = parse(arguments)
    try:
        if options.compare:
            return compare_files(options)
        if options.cliffs:
            return find_cliffs(options)
        if options.report:
            write_reports(options.report, options)
            return 0
        return benchmark(options)
    except UsageError as error:
        print(f"tools/bench: {error}", file=sys.stderr)
        return 2
    except (OSError, ValueError, KeyError) as error:
        if options.compare or options.report:
            print(f"tools/bench: {error}", file=sys.stderr)
            return 2
        raise
    except ProgramError as error:
        print(
            f"tools/bench: {options.program or PROGRAM}: {error}; see {options.output / 'program.log'}", file=sys.stderr
        )
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
