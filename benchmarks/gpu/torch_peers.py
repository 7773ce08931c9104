# SPDX-License-Identifier: Apache-2.0
"""PyTorch on a GPU, on the workloads of benchmark_gpu: adds its times to the results.

    benchmark_gpu --output FOLDER
    python3 benchmarks/gpu/torch_peers.py FOLDER [--device cuda|cpu] [--quick]

Calls are timed as benchmark_gpu times its own: by events of the GPU, in several rounds after a warm-up. Before that
their results are compared with ours, whose sums and samples are in FOLDER/results.json. Outputs into which PyTorch can
write are allocated before the clock starts; what depends on the offsets alone is worked out before it, too. Where there
is no PyTorch, or no GPU for it, this says so, ends with 77 and changes nothing. On the CPU it shows that all of it
works.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SKIPPED = 77
ROUNDS = 7
# By how much of the larger of 1 and itself a number may differ from ours, and a sum by how much of the absolute values.
NUMBER_TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2}
SUM_TOLERANCE = {"float32": 1e-5, "bfloat16": 1e-3}

try:
    import numpy as np
    import torch
    from torch import Tensor
except (ImportError, OSError) as error:
    print(f"skipped: PyTorch is not there: {' '.join(str(error).split())}")
    sys.exit(SKIPPED)

warnings.filterwarnings("ignore")
torch.set_grad_enabled(False)


@dataclass
class Form:
    """One way in which PyTorch does an operation; `result` turns what `call` returns into a tensor with our numbers."""

    by: str
    call: Callable[[], Any]
    result: Callable[[Any], Tensor] = lambda y: y
    note: str = ""


class Inputs:
    """The numbers and lists that benchmark_gpu had, on a device."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder = folder
        self.device = device
        self._numbers = np.empty(0, np.float32)

    def list(self, name: str) -> Tensor:
        return torch.from_numpy(np.fromfile(self.folder / name, "<i8").astype(np.int64)).to(self.device)

    def numbers(self, count: int, row_size: int) -> Tensor:
        """`count` rows of the numbers in [0, 1) that `numbers` of gpu.cpp makes."""
        if self._numbers.size < count * row_size:
            self._numbers = generated(count * row_size)
        x = torch.from_numpy(self._numbers[: count * row_size]).to(self.device)
        return x.view(count, row_size) if row_size > 1 else x


def generated(count: int) -> Any:
    """The linear congruential generator of gpu.cpp: blocks of a million states are made from the last one of the block
    before, times a power of the factor and plus a sum of such powers, modulo 2^32."""
    block = min(max(count, 1), 1 << 20)
    powers = np.multiply.accumulate(np.full(block, 1664525, np.uint32), dtype=np.uint32)
    sums = np.add.accumulate(np.concatenate((np.ones(1, np.uint32), powers[:-1])), dtype=np.uint32)
    offsets = sums * np.uint32(1013904223)
    numbers = np.empty(count, np.float32)
    state = np.uint32(1)
    for begin in range(0, count, block):
        states = powers * state + offsets
        size = min(block, count - begin)
        numbers[begin : begin + size] = (states[:size] >> np.uint32(8)).astype(np.float32) / np.float32(16777216)
        state = states[-1]
    return numbers


class Work:
    """A workload and its inputs."""

    def __init__(self, workload: dict[str, Any], inputs: Inputs) -> None:
        self.op: str = workload["op"]
        self.rows: int = workload["rows"]
        self.row_size: int = workload["row_size"]
        self.sequences: int = workload["sequences"]
        self.height: int = workload["height"]
        self.length: int = workload["length"]
        self.variant: str = workload["variant"]
        self.dtype: str = workload["dtype"]
        self.device = inputs.device
        self._workload = workload
        self._inputs = inputs

    def x(self) -> Tensor:
        return self._inputs.numbers(self.rows, self.row_size)

    def table(self) -> Tensor:
        return self._inputs.numbers(self.height, self.row_size)

    def offsets(self) -> Tensor:
        return self._inputs.list(self._workload["offsets"])

    def numbers(self, count: int, row_size: int) -> Tensor:
        return self._inputs.numbers(count, row_size)

    def ids(self) -> Tensor:
        return self._inputs.list(self._workload["ids"])

    def row_sequence(self) -> Tensor:
        """For each row the number of its sequence."""
        offsets = self.offsets()
        return torch.repeat_interleave(torch.arange(self.sequences, device=self.device), offsets.diff())


forms: dict[str, list[Callable[[Work], Form]]] = {}


def form(*operations: str) -> Callable[[Callable[[Work], Form]], Callable[[Work], Form]]:
    """Registers the decorated function for these operations on sequences whose offsets are there."""

    def register(prepare: Callable[[Work], Form]) -> Callable[[Work], Form]:
        for operation in operations:
            forms.setdefault(operation, []).append(prepare)
        return prepare

    return register


def flat(x: Tensor) -> Tensor:
    """Scalar rows as rows of one element."""
    return x.unsqueeze(1) if x.dim() == 1 else x


@form("sequence_pool", "sequence_max_pool", "sequence_expand_as_grad")
def segment_reduce(work: Work) -> Form:
    x, offsets = work.x(), work.offsets()
    how = "max" if work.op == "sequence_max_pool" else "sum"
    note = "without the index" if how == "max" else ""
    return Form(
        f"torch segment_reduce {how}",
        lambda: torch.segment_reduce(x, how, offsets=offsets, axis=0, unsafe=True),
        note=note,
    )


@form("sequence_expand_as_grad")
def index_add(work: Work) -> Form:
    x, ids = work.x(), work.row_sequence()
    y = torch.empty((work.sequences, *x.shape[1:]), dtype=x.dtype, device=x.device)
    return Form("torch index_add_", lambda: y.zero_().index_add_(0, ids, x), note="row index prepared untimed")


@form("sequence_softmax")
def nested_softmax(work: Work) -> Form:
    # It is told the shortest and the longest length, so that it need not look for them.
    offsets = work.offsets()
    lengths = offsets.diff()
    jagged = torch.nested.nested_tensor_from_jagged(
        flat(work.x()), offsets, min_seqlen=int(lengths.min()), max_seqlen=int(lengths.max())
    )
    return Form("torch nested jagged softmax", lambda: torch.softmax(jagged, dim=1), lambda y: y.values())


@form("sequence_pad")
def jagged_to_padded(work: Work) -> Form:
    x, offsets, pad = flat(work.x()), work.offsets(), torch.ops.aten._jagged_to_padded_dense_forward
    return Form("torch aten _jagged_to_padded_dense_forward", lambda: pad(x, [offsets], [work.length], 0.0))


@form("sequence_unpad")
def padded_to_jagged(work: Work) -> Form:
    offsets, unpad = work.offsets(), torch.ops.aten._padded_dense_to_jagged_forward
    dense = torch.ops.aten._jagged_to_padded_dense_forward(flat(work.x()), [offsets], [work.length], 0.0)
    return Form("torch aten _padded_dense_to_jagged_forward", lambda: unpad(dense, [offsets], work.rows))


@form("sequence_cumsum")
def cumsum(work: Work) -> Form:
    """A running sum over everything, less what it was where the sequence begins."""
    x = work.x()
    start = work.offsets()[:-1].index_select(0, work.row_sequence())
    # In the input's own precision the sum of the rows before would drown a sequence's own.
    running = torch.zeros((len(x) + 1, *x.shape[1:]), dtype=torch.float64, device=x.device)
    before = torch.empty_like(running[1:])
    y = torch.empty_like(x)

    def call() -> Tensor:
        torch.cumsum(x, 0, dtype=torch.float64, out=running[1:])
        torch.index_select(running, 0, start, out=before)
        return torch.sub(running[1:], before, out=y)

    return Form("torch cumsum less its start", call, note="sums in float64; row index prepared untimed")


def gradient(work: Work) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Ids, rows of ones, and the shape of the table."""
    ones = torch.ones((work.rows, work.row_size), device=work.device)
    return work.ids().unsqueeze(0), ones, (work.height, work.row_size)


@form("merge_add")
def coalesce(work: Work) -> Form:
    ids, x, shape = gradient(work)

    def call() -> Tensor:
        return torch.sparse_coo_tensor(ids, x, shape, check_invariants=False).coalesce()

    return Form("torch sparse coalesce", call, lambda merged: merged.values())


@form("adam")
def sparse_adam(work: Work) -> Form:
    ids, x, shape = gradient(work)
    parameter = torch.nn.Parameter(work.table().clone())
    optimizer = torch.optim.SparseAdam([parameter], lr=1e-3, betas=(0.9, 0.999), eps=1e-8)

    def call() -> Tensor:
        parameter.grad = torch.sparse_coo_tensor(ids, x, shape, check_invariants=False)
        optimizer.step()
        return parameter

    return Form("torch SparseAdam", call, lambda y: y.detach())


@form("embedding_pool")
def embedding_bag(work: Work) -> Form:
    table, ids, offsets = work.table(), work.ids(), work.offsets()
    return Form(
        "torch embedding_bag", lambda: torch.embedding_bag(table, ids, offsets, False, 0, False, None, True)[0]
    )


@form("lstm")
def packed_lstm(work: Work) -> Form:
    """cuDNN's, of sequences packed by time steps, with products in float32 as ours: see `main`."""
    size, offsets = work.row_size, work.offsets().cpu()
    lengths, order = torch.sort(offsets.diff(), descending=True, stable=True)
    batch_sizes = [int((lengths > step).sum()) for step in range(work.length)]
    # The row of each place in the packed batch.
    begins = offsets[:-1][order]
    rows = torch.cat([begins[:active] + step for step, active in enumerate(batch_sizes)]).to(work.device)
    packed = torch.nn.utils.rnn.PackedSequence(work.x()[rows], torch.tensor(batch_sizes))
    lstm = torch.nn.LSTM(size, size, bias=False, device=work.device)
    weights = ((work.numbers(size, 4 * size) - 0.5) * 0.125).T.contiguous()
    lstm.weight_ih_l0.copy_(weights)
    lstm.weight_hh_l0.copy_(weights)
    places = torch.argsort(rows)
    return Form(
        "torch LSTM, packed", lambda: lstm(packed)[0].data, lambda y: y[places], note="rows packed by steps untimed"
    )


@form("sequence_attention")
def varlen_attention(work: Work) -> Form:
    from torch.nn.attention.varlen import varlen_attn

    offsets, heads = work.offsets().int(), work.row_size // 64
    x = work.x().bfloat16().view(work.rows, heads, 64)
    # Whether it is causal was an argument of its own once, and is a window since.
    try:
        parameters = inspect.signature(varlen_attn).parameters
    except (TypeError, ValueError):
        parameters = {}
    options: dict[str, Any] = {}
    if work.variant == "causal":
        options = {"is_causal": True} if "is_causal" in parameters else {"window_size": (-1, 0)}
    return Form(
        "torch varlen_attn",
        lambda: varlen_attn(x, x, x, offsets, offsets, work.length, work.length, **options),
        lambda y: y.float(),
    )


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(call: Callable[[], Any], calls: int, device: str) -> float:
    if device != "cuda":
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - begin
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return max(start.elapsed_time(end), 5e-4) / 1e3


def timed(call: Callable[[], Any], device: str, quick: bool) -> list[float]:
    """Seconds of one call, one entry a round."""
    if not quick:
        for _ in range(3):
            call()
    synchronize(device)
    calls = 1 if quick else math.ceil(min(max(0.02 / seconds_of(call, 1, device), 1), 1000))
    return [seconds_of(call, calls, device) / calls for _ in range(ROUNDS)]


def disagreement(y: Tensor, ours: dict[str, Any], dtype: str) -> str:
    """How the numbers of y, in their order, differ from ours; nothing where they do not."""
    y = y.reshape(-1)
    sample = ours["sample"]
    count = len(sample)
    if count == 0 or len(y) < count:
        return "" if len(y) == count else f"{len(y)} numbers, ours are at least {count}"
    # The places are those of Summary in gpu.cpp.
    places = [i * (len(y) - 1) // (count - 1) if count > 1 else 0 for i in range(count)]
    found = y[torch.tensor(places, device=y.device)].double().tolist()
    for place, theirs, our in zip(places, found, sample, strict=True):
        if not abs(theirs - our) <= NUMBER_TOLERANCE[dtype] * max(1.0, abs(our)):
            return f"number {place} is {theirs:.7g}, ours {our:.7g}"
    # In pieces: the numbers in double would take twice the memory.
    total = sum(float(part.double().sum()) for part in y.split(1 << 26))
    if not abs(total - ours["checksum"]) <= SUM_TOLERANCE[dtype] * max(ours["magnitude"], 1.0):
        return f"the sum is {total:.9g}, ours {ours['checksum']:.9g}"
    return ""


def measured(prepare: Callable[[Work], Form], work: Work, ours: dict[str, Any], quick: bool) -> dict[str, Any]:
    by = f"torch {prepare.__name__}"
    try:
        prepared = prepare(work)
        by = prepared.by
        problem = disagreement(prepared.result(prepared.call()), ours, work.dtype)
        result = {"by": by, "seconds": timed(prepared.call, work.device, quick), "note": prepared.note}
        if problem:
            result |= {"disagrees": True, "note": problem}
        return result
    except Exception as error:
        # Another version has another name for it, or the memory is too small: the others are measured all the same.
        return {"by": by, "seconds": [], "note": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="one call a round")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print(f"skipped: PyTorch {torch.__version__} finds no GPU")
        return SKIPPED
    # Peers round products as our operations do; PyTorch's own choice for LSTMs has 10 bits.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else "the CPU"
    print(f"PyTorch {torch.__version__} on {name}\n")
    print("| workload | beside | its ms | ours | ratio | note |\n|---|---|---|---|---|---|")
    file = arguments.folder / "results.json"
    run = json.loads(file.read_text(encoding="utf-8"))
    inputs = Inputs(arguments.folder, arguments.device)
    wrong = False
    for record in run["workloads"]:
        workload, results = record["workload"], record["results"]
        # Of what was added before nothing is kept.
        results[:] = [result for result in results if not result["by"].startswith("torch ")]
        ours = results[0]
        if not workload["offsets"] and not workload["ids"]:
            continue
        for prepare in forms.get(workload["op"], []):
            result = measured(prepare, Work(workload, inputs), ours, arguments.quick)
            results.append(result)
            wrong = wrong or bool(result.get("disagrees"))
            times = [1e3 * statistics.median(r["seconds"]) if r["seconds"] else math.nan for r in (result, ours)]
            print(f"| {workload['id']} | {result['by']} | {times[0]:.4f} | {times[1]:.4f} "
                  f"| {times[0] / times[1]:.2f} | {result['note']} |", flush=True)  # fmt: skip
            if arguments.device == "cuda":
                torch.cuda.empty_cache()
    run["torch"] = {"version": torch.__version__, "device": name}
    file.write_text(json.dumps(run) + "\n", encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
