# SPDX-License-Identifier: Apache-2.0
"""What every peer shares: reading workloads, timing calls, checksums and the lines that are printed.

A peer file looks like this:

    peer = protocol.start("name")          # first, because it sets thread counts for the imports that follow
    try:
        import library
    except ImportError as error:
        peer.missing(error)

    @peer.form("sequence_pool")
    def pooled(work: protocol.Workload) -> protocol.Form | None:
        ...prepare, untimed...
        return protocol.Form("library.sum", lambda: library.sum(x))

    peer.serve(version="library 1.0")

A form function returns None where it does not apply. Several functions may serve one operation; each of them is timed
and reported by itself.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

# Forms that pad need longest * sequences rows. Beyond this they would measure the swap or end the process.
PADDED_LIMIT = 3 << 30

# Calls shorter than this are repeated inside one repetition, for the clock's sake.
SHORTEST = 1e-3

MOST_REPETITIONS = 20
FEWEST_REPETITIONS = 3
# A form that takes seconds a call is measured twice: whether it is 100 or 101 times slower is not worth the wait.
PATIENCE = 6.0

_SETTLED = "RAGGED_PEER_SETTLED"


@dataclass
class Form:
    """One way in which a peer does one operation.

    `call` is what is timed; it takes nothing and returns whatever holds the result. `result` turns that into NumPy
    arrays afterwards, untimed, and is left out where the peer's usual conversion will do; None means that there is no
    checksum.
    """

    by: str
    call: Callable[[], Any]
    result: Callable[[Any], Any] | None = None
    note: str = ""
    checked: bool = True


class Workload:
    """A workload and its inputs, which are loaded when first asked for."""

    def __init__(self, description: dict[str, Any], folder: str) -> None:
        self.description = description
        self.folder = Path(folder)
        self.id: str = description["id"]
        self.op: str = description["op"]
        self.variant: str = description.get("variant", "")
        self.dtype: str = description["dtype"]
        self.row_size: int = description["row_size"]
        self.parameters: dict[str, Any] = description.get("parameters", {})
        self._loaded: dict[str, Any] = {}

    def load(self, name: str) -> Any:
        """The array of the file `name`.npy. It is shared between the forms, so nobody writes to it."""
        import numpy as np

        if name not in self._loaded:
            self._loaded[name] = np.load(self.folder / f"{name}.npy")
        return self._loaded[name]

    @property
    def x(self) -> Any:
        return self.load("x")

    @property
    def offsets(self) -> Any:
        return self.load("offsets")

    @cached_property
    def lengths(self) -> Any:
        import numpy as np

        return np.diff(self.offsets)

    @cached_property
    def longest(self) -> int:
        return int(self.lengths.max(initial=0))

    @property
    def sequences(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def empty(self) -> Any:
        """The numbers of the sequences that have no rows."""
        import numpy as np

        return np.flatnonzero(self.lengths == 0)

    @cached_property
    def filled(self) -> Any:
        """The numbers of the sequences that have rows."""
        import numpy as np

        return np.flatnonzero(self.lengths)

    @cached_property
    def row_sequence(self) -> Any:
        """For each row the number of its sequence."""
        import numpy as np

        return np.repeat(np.arange(self.sequences), self.lengths)

    @cached_property
    def padded_position(self) -> Any:
        """For each row its row in the padded array, seen as [sequences * longest, row size]."""
        import numpy as np

        first = np.arange(self.sequences) * self.padded_length - self.offsets[:-1]
        return np.repeat(first, self.lengths) + np.arange(self.offsets[-1])

    @property
    def padded_length(self) -> int:
        return int(self.parameters.get("padded_length", self.longest))

    def padded_fits(self, item_size: int | None = None) -> bool:
        """Whether an array that pads every sequence to the longest is small enough to be made."""
        size = item_size if item_size is not None else self.x.dtype.itemsize
        return self.sequences * self.padded_length * max(self.row_size, 1) * size <= PADDED_LIMIT

    @cached_property
    def padded(self) -> Any:
        """The rows of x padded with zeros: [sequences, longest, ...]. A starting point for those that unpad."""
        import numpy as np

        dense = np.zeros((self.sequences * self.padded_length, *self.x.shape[1:]), self.x.dtype)
        dense[self.padded_position] = self.x
        return dense.reshape(self.sequences, self.padded_length, *self.x.shape[1:])

    def release(self) -> None:
        """Lets go of every array, loaded or derived."""
        self._loaded.clear()
        for name in ("lengths", "empty", "filled", "row_sequence", "padded_position", "padded"):
            self.__dict__.pop(name, None)


@dataclass
class Options:
    threads: int
    form: str


class Peer:
    """One peer: its forms by operation, and the loop that answers workloads."""

    def __init__(self, name: str, options: Options, out: Any) -> None:
        self.name = name
        self.options = options
        self._out = out
        self._forms: dict[str, list[Callable[[Workload], Form | None]]] = {}

    @property
    def threads(self) -> int:
        return self.options.threads

    def form(self, *operations: str) -> Callable[[Callable[[Workload], Form | None]], Callable[[Workload], Form | None]]:
        """Registers the decorated function for these operations."""

        def register(prepare: Callable[[Workload], Form | None]) -> Callable[[Workload], Form | None]:
            for operation in operations:
                self._forms.setdefault(operation, []).append(prepare)
            return prepare

        return register

    def missing(self, why: object) -> NoReturn:
        """Says that this peer cannot run here, and ends."""
        self._print({"peer": self.name, "missing": " ".join(str(why).split())})
        sys.exit(0)

    def serve(
        self,
        version: str,
        blas: str = "",
        threads: int | None = None,
        to_numpy: Callable[[Any], Any] = lambda result: result,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        """Answers workloads until standard input ends.

        `threads` is for peers that cannot use as many as they were offered. `after` is called when the arrays of a
        workload are to be freed.
        """
        used = self.threads if threads is None else threads
        gc.collect()
        gc.freeze()  # what the imports made stays; only what workloads make has to be looked through
        self._print({"peer": self.name, "version": version, "blas": blas, "threads": used})
        for line in sys.stdin:
            if not line.strip():
                continue
            request = json.loads(line)
            work = Workload(request["workload"], request["inputs"])
            for prepare in self._forms.get(work.op, []):
                common = {"id": work.id, "version": version, "threads": used}
                answer = self._measure(work, prepare, common, to_numpy, request.get("dump"))
                if answer is not None:
                    self._print(answer)
                _give_back_memory(after)
            work.release()
            del work
            _give_back_memory(after)
            self._print({"done": request["workload"]["id"]})

    def _measure(
        self,
        work: Workload,
        prepare: Callable[[Workload], Form | None],
        common: dict[str, Any],
        to_numpy: Callable[[Any], Any],
        dump: str | None,
    ) -> dict[str, Any] | None:
        failed = {"seconds": [], "checksum": None, "magnitude": None}
        form: Form | None = None
        try:
            form = prepare(work)
            if form is None:
                return None
            result = form.call()  # the warm-up, and what the checksum is of
            total, magnitude = None, None
            if form.checked:
                arrays = list(_arrays((form.result or to_numpy)(result)))
                total, magnitude = _checksum(arrays)
                if dump is not None:
                    _dump(arrays, dump, form.by)
                del arrays
            del result
            seconds = _time(form.call, 0.3 if self.options.form == "short" else 1.0)
            answer = {"by": form.by, "seconds": seconds, "checksum": total, "magnitude": magnitude, "note": form.note}
            return common | answer
        except NotImplementedError as error:  # an operator without a kernel for this type: the peer does not do this
            print(f"{work.id}: {error}", file=sys.stderr)
            return None
        except Exception as error:  # a peer that fails at one thing must go on with the next
            traceback.print_exc(file=sys.stderr)
            # The traceback holds the frames, and these the arrays.
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            error.__traceback__ = None
            by = form.by if form is not None else f"{self.name} {prepare.__name__.replace('_', ' ')}"
            return common | {"by": by} | failed | {"note": reason}

    def _print(self, what: dict[str, Any]) -> None:
        self._out.write(json.dumps(what) + "\n")
        self._out.flush()


def start(name: str, environment: dict[str, str] | None = None) -> Peer:
    """Reads the command line and settles the environment. Call it before importing any numeric library.

    Thread counts and the allocator's settings are read once, when a process begins, so the process begins again with
    them set. The allocator is told to keep freed memory: most peers allocate their outputs inside the timed call, and
    page faults would otherwise be a large part of it.
    """
    parser = argparse.ArgumentParser(description=f"The peer {name} of the benchmark suite.")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--form", choices=["short", "long"], default="short")
    arguments = parser.parse_args()
    if os.environ.get(_SETTLED) != name:
        threads = str(arguments.threads)
        wanted = {
            _SETTLED: name,
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "CUDA_VISIBLE_DEVICES": "",
            "GLIBC_TUNABLES": ":".join(
                [
                    "glibc.malloc.mmap_max=0",
                    f"glibc.malloc.trim_threshold={1 << 40}",
                    "glibc.malloc.arena_max=1",
                    "glibc.malloc.hugetlb=1",
                ]
            ),
        }
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | wanted | (environment or {}))
    # Libraries print what they like on standard output. They get standard error; the lines for the caller get the rest.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return Peer(name, Options(arguments.threads, arguments.form), out)


def _time(call: Callable[[], Any], budget: float) -> list[float]:
    """Seconds of one call, one entry a repetition."""
    clock = time.perf_counter
    begin = clock()
    call()
    once = clock() - begin
    inner = 1
    if once < SHORTEST:
        # One call may be an outlier, so it takes a few to say how many fit.
        begin = clock()
        for _ in range(10):
            call()
        once = max((clock() - begin) / 10, 1e-7)
        inner = max(1, math.ceil(SHORTEST / once))
    seconds: list[float] = []
    spent = 0.0
    collecting = gc.isenabled()
    gc.disable()
    try:
        while len(seconds) < MOST_REPETITIONS and (spent < budget or len(seconds) < FEWEST_REPETITIONS):
            if spent > PATIENCE and len(seconds) >= 2:
                break
            begin = clock()
            for _ in range(inner):
                call()
            elapsed = clock() - begin
            spent += elapsed
            seconds.append(elapsed / inner)
    finally:
        if collecting:
            gc.enable()
    return seconds


def _arrays(result: Any) -> Iterable[Any]:
    return result if isinstance(result, list | tuple) else [result]


def _checksum(arrays: list[Any]) -> tuple[float, float]:
    """The sum and the sum of absolute values, in float64 and in pieces, since the arrays may be large."""
    import numpy as np

    total = 0.0
    magnitude = 0.0
    piece = 1 << 20
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1)
        for begin in range(0, flat.size, piece):
            part = flat[begin : begin + piece].astype(np.float64)
            total += float(part.sum())
            magnitude += float(np.abs(part, out=part).sum())
    return total, magnitude


def _dump(arrays: list[Any], folder: str, by: str) -> None:
    """Writes a result for a check that looks at every element."""
    import numpy as np

    name = "".join(c if c.isalnum() else "_" for c in by)
    flat = [np.ascontiguousarray(array).reshape(-1).astype(np.float64) for array in arrays]
    np.save(Path(folder) / f"{name}.npy", np.concatenate(flat) if flat else np.zeros(0))


def _give_back_memory(after: Callable[[], None]) -> None:
    gc.collect()
    after()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):  # another C library
        pass
