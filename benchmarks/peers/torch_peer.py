# SPDX-License-Identifier: Apache-2.0
"""PyTorch on the CPU: segment_reduce, embedding_bag, sparse products, index and padded forms, nested jagged tensors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import protocol
from protocol import Form, Workload

peer = protocol.start("torch")
try:
    import numpy as np
    import torch
    from torch import Tensor
except (ImportError, OSError) as error:
    peer.missing(error)

warnings.filterwarnings("ignore")
torch.set_num_threads(peer.threads)
torch.set_grad_enabled(False)

# What depends on the offsets alone is worked out before the clock starts: the peers shall not be measured at that.
INDEX_GIVEN = "row index prepared untimed"

SUM_MODE, MAX_MODE = 0, 2  # of embedding_bag


def tensor(array: Any, dtype: str = "") -> Tensor:
    """The array as a tensor that shares its memory. NumPy has no bfloat16, so that comes as two bytes of something."""
    if dtype == "bfloat16" and array.dtype.itemsize == 2:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array))


def rows_of(work: Workload, name: str = "x") -> Tensor:
    return tensor(work.load(name), work.dtype)


def flat(x: Tensor) -> Tensor:
    """Scalar rows as rows of one element."""
    return x.unsqueeze(1) if x.dim() == 1 else x


def to_numpy(result: Any) -> Any:
    if isinstance(result, Tensor):
        result = result.detach()
        return (result.float() if result.dtype == torch.bfloat16 else result).numpy()
    return [to_numpy(part) for part in result]


def pooled_like(work: Workload, x: Tensor) -> Tensor:
    return torch.empty((work.sequences, *x.shape[1:]), dtype=x.dtype)


def by_length(work: Workload, x: Tensor) -> Tensor:
    """1 / length, in a shape that multiplies pooled rows."""
    factor = torch.from_numpy(1 / np.maximum(work.lengths, 1)).to(x.dtype)
    return factor.reshape(-1, *[1] * (x.dim() - 1))


def segment_maximum(work: Workload, x: Tensor) -> Callable[[], Tensor]:
    """Maxima with 0 for empty sequences, for which segment_reduce says -inf."""
    offsets, empty = tensor(work.offsets), tensor(work.empty)

    def call() -> Tensor:
        y = torch.segment_reduce(x, "max", offsets=offsets, axis=0, unsafe=True)
        return y.index_fill_(0, empty, 0) if len(empty) else y

    return call


@peer.form("sequence_pool", "sequence_expand_as_grad")
def segment_reduce(work: Workload) -> Form | None:
    x, offsets, empty = rows_of(work), tensor(work.offsets), tensor(work.empty)
    if work.variant == "MAX":
        return Form("torch segment_reduce", segment_maximum(work, x))
    how = "mean" if work.variant == "AVERAGE" else "sum"

    def call() -> Tensor:
        y = torch.segment_reduce(x, how, offsets=offsets, axis=0, unsafe=True)
        return y.index_fill_(0, empty, 0) if how == "mean" and len(empty) else y

    return Form("torch segment_reduce", call)


@peer.form("sequence_pool", "sequence_expand_as_grad")
def pooled_embedding_bag(work: Workload) -> Form | None:
    """The rows as a table that is looked up in order: gathers for nothing, but with threads and SIMD."""
    if work.variant == "MAX" or work.row_size < 8 or work.dtype not in ("float32", "float64", "float16", "bfloat16"):
        return None
    x, offsets = flat(rows_of(work)), tensor(work.offsets)
    ids = torch.arange(len(x))
    factor = by_length(work, x) if work.variant == "AVERAGE" else None

    def call() -> Tensor:
        y = torch.embedding_bag(x, ids, offsets, False, SUM_MODE, False, None, True)[0]
        # Its own mean takes a slow path; a sum and a product do not.
        return y if factor is None else y.mul_(factor)

    return Form("torch embedding_bag of row numbers", call, note="row numbers and 1 / length prepared untimed")


@peer.form("sequence_pool")
def pooled_sparse_product(work: Workload) -> Form | None:
    if work.row_size < 8 or work.dtype not in ("float32", "float64") or work.variant == "SUM":
        return None
    x = flat(rows_of(work))
    ones = torch.ones(len(x), dtype=x.dtype)
    size = (work.sequences, len(x))
    matrix = torch.sparse_csr_tensor(tensor(work.offsets), torch.arange(len(x)), ones, size, check_invariants=False)
    how = "amax" if work.variant == "MAX" else "mean"
    note = "sparse matrix of ones prepared untimed"
    return Form(f"torch sparse.mm reduce={how}", lambda: torch.sparse.mm(matrix, x, how), note=note)


@peer.form("sequence_expand_as_grad")
def index_add(work: Workload) -> Form | None:
    """What autograd itself does behind index_select and repeat_interleave."""
    x, index = rows_of(work), tensor(work.row_sequence)
    y = pooled_like(work, x)
    return Form("torch index_add_", lambda: y.zero_().index_add_(0, index, x), note=INDEX_GIVEN)


@peer.form("sequence_max_pool")
def max_embedding_bag(work: Workload) -> Form | None:
    if work.dtype not in ("float32", "float64"):
        return None
    x, offsets = flat(rows_of(work)), tensor(work.offsets)
    ids = torch.arange(len(x))

    def call() -> Any:
        y, _, _, index = torch.embedding_bag(x, ids, offsets, False, MAX_MODE, False, None, True)
        return y, index

    return Form("torch embedding_bag of row numbers", call, lambda result: to_numpy(result[0]), "row numbers prepared untimed")


@peer.form("sequence_max_pool")
def max_and_search(work: Workload) -> Form | None:
    if work.row_size > 1:
        return None
    x, lengths, row_sequence = rows_of(work), work.lengths, tensor(work.row_sequence)
    maximum = segment_maximum(work, x)
    filled = tensor(work.filled)
    first = tensor(work.offsets[:-1][work.filled])
    index = torch.full((len(lengths),), -1)
    spread = torch.empty_like(x)

    def call() -> Any:
        y = maximum()
        torch.index_select(y, 0, row_sequence, out=spread)
        hits = torch.eq(x, spread).nonzero().squeeze(1)
        index[filled] = hits[torch.searchsorted(hits, first)]
        return y, index

    return Form("torch segment_reduce and search", call, lambda result: to_numpy(result[0]), INDEX_GIVEN)


@peer.form("sequence_max_pool")
def max_padded(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    x, empty = rows_of(work), tensor(work.empty)
    dense, fill = padding(work, x, -torch.inf)

    def call() -> Any:
        fill()
        y, index = dense.max(dim=1)
        return (y.index_fill_(0, empty, 0) if len(empty) else y), index

    return Form("torch padded max", call, lambda result: to_numpy(result[0]), INDEX_GIVEN)


def padding(work: Workload, x: Tensor, value: float) -> tuple[Tensor, Callable[[], Tensor]]:
    """A padded tensor [sequences, longest, ...] and what fills it with the rows."""
    position = tensor(work.padded_position)
    dense = torch.empty((work.sequences, work.padded_length, *x.shape[1:]), dtype=x.dtype)
    rows = dense.view(-1, *x.shape[1:])

    # Scattering is quicker for single elements, copying by index for rows.
    if x.dim() == 1:
        return dense, lambda: rows.fill_(value).scatter_(0, position, x)
    return dense, lambda: rows.fill_(value).index_copy_(0, position, x)


@peer.form("sequence_softmax", "sequence_log_softmax")
def composed_softmax(work: Workload) -> Form | None:
    x, offsets, row_sequence = rows_of(work), tensor(work.offsets), tensor(work.row_sequence)
    maximum = segment_maximum(work, x)
    log = work.op == "sequence_log_softmax"
    y, spread = torch.empty_like(x), torch.empty_like(x)
    exponents = torch.empty_like(x) if log else y

    def call() -> Tensor:
        torch.index_select(maximum(), 0, row_sequence, out=spread)
        torch.sub(x, spread, out=y)
        torch.exp(y, out=exponents)
        total = torch.segment_reduce(exponents, "sum", offsets=offsets, axis=0, unsafe=True)
        if log:
            torch.index_select(total.log_(), 0, row_sequence, out=spread)
            return y.sub_(spread)
        torch.index_select(total, 0, row_sequence, out=spread)
        return y.div_(spread)

    return Form("torch composed softmax (segment_reduce)", call, note=INDEX_GIVEN)


@peer.form("sequence_softmax", "sequence_log_softmax")
def padded_softmax(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    x, position = rows_of(work), tensor(work.padded_position)
    dense, fill = padding(work, x, -torch.inf)
    function = torch.log_softmax if work.op == "sequence_log_softmax" else torch.softmax
    y = torch.empty_like(x)

    def call() -> Tensor:
        fill()
        rows = function(dense, dim=1).view(-1, *x.shape[1:])
        return torch.index_select(rows, 0, position, out=y)

    return Form("torch padded softmax", call, note=INDEX_GIVEN)


def nested(work: Workload) -> Tensor:
    """The rows as a nested jagged tensor. It is told the longest length, so that it need not look for it."""
    longest, shortest = work.longest, int(work.lengths.min(initial=work.longest))
    offsets = tensor(work.offsets)
    return torch.nested.nested_tensor_from_jagged(
        flat(rows_of(work)), offsets, min_seqlen=shortest, max_seqlen=longest
    )


@peer.form("sequence_softmax")
def nested_softmax(work: Workload) -> Form | None:
    if not work.padded_fits() or work.dtype != "float32":
        return None
    jagged = nested(work)
    return Form("torch nested jagged softmax", lambda: torch.softmax(jagged, dim=1), lambda y: to_numpy(y.values()))


@peer.form("sequence_pad")
def pad_sequence(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    views = list(torch.split(rows_of(work), work.lengths.tolist()))
    note = "takes a list of tensors, made untimed"
    return Form("torch pad_sequence", lambda: torch.nn.utils.rnn.pad_sequence(views, batch_first=True), note=note)


@peer.form("sequence_pad")
def nested_to_padded(work: Workload) -> Form | None:
    if not work.padded_fits() or work.dtype != "float32":
        return None
    jagged = nested(work)
    return Form("torch nested to_padded_tensor", lambda: torch.nested.to_padded_tensor(jagged, 0.0))


@peer.form("sequence_pad")
def pad_by_index(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    x = rows_of(work)
    _, fill = padding(work, x, 0)
    return Form(f"torch {'scatter_' if x.dim() == 1 else 'index_copy_'}", fill, note=INDEX_GIVEN)


@peer.form("sequence_unpad")
def unpad_by_index(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    x, position = rows_of(work), tensor(work.padded_position)
    rows = tensor(work.padded, work.dtype).view(-1, *x.shape[1:])
    y = torch.empty_like(x)
    return Form("torch index_select", lambda: torch.index_select(rows, 0, position, out=y), note=INDEX_GIVEN)


@peer.form("sequence_unpad")
def unpad_by_mask(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    dense = tensor(work.padded, work.dtype)
    mask = torch.arange(work.padded_length) < tensor(work.lengths).unsqueeze(1)
    return Form("torch boolean mask", lambda: dense[mask], note="mask prepared untimed")


def spans(starts: Tensor, lengths: Tensor, total: int) -> Tensor:
    """The numbers starts[i], starts[i] + 1, ... of every span, one span after another."""
    first = starts - (lengths.cumsum(0) - lengths)
    return torch.repeat_interleave(first, lengths, output_size=total).add_(torch.arange(total))


def gathering(work: Workload) -> Callable[[], Tensor]:
    """What works out which row of x each row of the result is."""
    offsets, lengths = tensor(work.offsets), tensor(work.lengths)
    if work.op == "sequence_reverse":
        total = int(offsets[-1])
        rows = torch.arange(total)
        ends = offsets[:-1] + offsets[1:] - 1
        return lambda: torch.repeat_interleave(ends, lengths, output_size=total).sub_(rows)
    if work.op == "sequence_slice":
        starts, counts = rows_of_int(work, "starts"), rows_of_int(work, "counts")
        total = int(counts.sum())
        return lambda: spans(offsets[:-1] + starts, counts, total)
    chosen = rows_of_int(work, "chosen")
    total = int(lengths[chosen].sum())
    return lambda: spans(offsets[chosen], lengths[chosen], total)


def rows_of_int(work: Workload, name: str) -> Tensor:
    return tensor(work.load(name).astype(np.int64, copy=False))


@peer.form("sequence_reverse", "sequence_slice", "select")
def select_given(work: Workload) -> Form | None:
    x, index = rows_of(work), gathering(work)()
    y = torch.empty((len(index), *x.shape[1:]), dtype=x.dtype)
    return Form("torch index_select, index given", lambda: torch.index_select(x, 0, index, out=y), note=INDEX_GIVEN)


@peer.form("sequence_reverse", "sequence_slice", "select")
def select_rows(work: Workload) -> Form | None:
    x, index = rows_of(work), gathering(work)
    y = torch.empty((len(index()), *x.shape[1:]), dtype=x.dtype)
    return Form("torch index_select", lambda: torch.index_select(x, 0, index(), out=y))


@peer.form("sequence_concat")
def concat(work: Workload) -> Form | None:
    x, x2 = rows_of(work), rows_of(work, "x2")
    offsets, offsets2 = tensor(work.offsets), rows_of_int(work, "offsets2")
    first = spans(offsets[:-1] + offsets2[:-1], offsets.diff(), len(x))
    second = spans(offsets[1:] + offsets2[:-1], offsets2.diff(), len(x2))
    y = torch.empty((len(x) + len(x2), *x.shape[1:]), dtype=x.dtype)
    if x.dim() == 1:
        return Form("torch scatter_", lambda: y.scatter_(0, first, x).scatter_(0, second, x2), note=INDEX_GIVEN)
    return Form("torch index_copy_", lambda: y.index_copy_(0, first, x).index_copy_(0, second, x2), note=INDEX_GIVEN)


@peer.form("sequence_expand_as")
def repeat_interleave(work: Workload) -> Form | None:
    x, lengths = rows_of(work), tensor(work.lengths)
    total = int(work.offsets[-1])
    return Form("torch repeat_interleave", lambda: torch.repeat_interleave(x, lengths, dim=0, output_size=total))


@peer.form("sequence_expand_as")
def expand_given(work: Workload) -> Form | None:
    x, index = rows_of(work), tensor(work.row_sequence)
    y = torch.empty((len(index), *x.shape[1:]), dtype=x.dtype)
    return Form("torch index_select, index given", lambda: torch.index_select(x, 0, index, out=y), note=INDEX_GIVEN)


@peer.form("sequence_erase")
def erase(work: Workload) -> Form | None:
    x, offsets = rows_of(work), tensor(work.offsets)
    tokens = [int(token) for token in work.parameters["tokens"]]
    table = torch.tensor(tokens, dtype=x.dtype)
    keep, hit = torch.empty(len(x), dtype=torch.bool), torch.empty(len(x), dtype=torch.bool)

    def call() -> Any:
        if len(tokens) <= 4:  # a comparison for each is quicker than a look-up while they are few
            torch.ne(x, tokens[0], out=keep)
            for token in tokens[1:]:
                keep.logical_and_(torch.ne(x, token, out=hit))
            kept = keep.nonzero().squeeze(1)
        else:
            kept = torch.isin(x, table, invert=True).nonzero().squeeze(1)
        return x.index_select(0, kept), torch.searchsorted(kept, offsets)

    return Form("torch compare and index_select", call, lambda result: to_numpy(result[0]), "makes the new offsets too")


@peer.form("sequence_enumerate")
def enumerate_windows(work: Workload) -> Form | None:
    x, window = rows_of(work), int(work.parameters["window"])
    count = len(x)
    body = max(count - window + 1, 0)
    tails = []
    for back in range(1, window):  # `back` rows before the end of a sequence all columns from `back` on are blank
        rows = work.offsets[1:][work.lengths >= back] - back
        tails += [rows * window + j for j in range(back, window)]
    blank = torch.from_numpy(np.sort(np.concatenate(tails))) if tails else torch.empty(0, dtype=torch.int64)
    y = torch.zeros((count, window), dtype=x.dtype)
    cells = y.view(-1)

    def call() -> Tensor:
        if body:
            y[:body].copy_(x.unfold(0, window, 1))
        for row in range(body, count):
            y[row, : count - row] = x[row:]
        cells.index_fill_(0, blank, 0)
        return y

    return Form("torch unfold, index_fill_", call, note="places beyond the ends prepared untimed")


@peer.form("sequence_cumsum")
def cumsum(work: Workload) -> Form | None:
    """A running sum over everything, less what it was where the sequence begins."""
    x = rows_of(work)
    if not x.is_floating_point():
        return None
    start = tensor(np.repeat(work.offsets[:-1], work.lengths))
    # In the input's own precision the sum of the rows before would drown a sequence's own.
    running = torch.zeros((len(x) + 1, *x.shape[1:]), dtype=torch.float64)
    before = torch.empty_like(running[1:])
    y = torch.empty_like(x)

    def call() -> Tensor:
        torch.cumsum(x, 0, dtype=torch.float64, out=running[1:])
        torch.index_select(running, 0, start, out=before)
        return torch.sub(running[1:], before, out=y)

    return Form("torch cumsum less its start", call, note=f"sums in float64; {INDEX_GIVEN}")


@peer.form("sequence_cumsum")
def padded_cumsum(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    x, position = rows_of(work), tensor(work.padded_position)
    dense, fill = padding(work, x, 0)
    running, y = torch.empty_like(dense), torch.empty_like(x)
    rows = running.view(-1, *x.shape[1:])

    def call() -> Tensor:
        fill()
        torch.cumsum(dense, 1, out=running)
        return torch.index_select(rows, 0, position, out=y)

    return Form("torch padded cumsum", call, note=INDEX_GIVEN)


def sort_keys(x: Tensor, sequence: Tensor) -> Tensor:
    """One integer for each float that orders by sequence first and by value then."""
    bits = x.view(torch.int32)
    # Negative floats order backwards as integers, so their magnitude is flipped.
    ordered = torch.bitwise_xor(bits, torch.bitwise_and(bits >> 31, 0x7FFFFFFF))
    return ordered.to(torch.int64).add_(1 << 31).bitwise_or_(sequence << 32)


@peer.form("sequence_sort", "sequence_argsort", "sequence_topk")
def packed_sort(work: Workload) -> Form | None:
    """One radix sort of 64-bit integers."""
    if work.dtype != "float32" or work.row_size > 1:
        return None
    x, sequence = rows_of(work), tensor(work.row_sequence)
    note = INDEX_GIVEN
    if work.op == "sequence_argsort":
        start = tensor(np.repeat(work.offsets[:-1], work.lengths))

        def call() -> Any:
            order = torch.sort(sort_keys(x, sequence)).indices
            return x.index_select(0, order), order - start

        return Form("torch sort of (sequence, value) keys", call, lambda result: to_numpy(result[0]), note)
    if work.op == "sequence_sort":
        return Form(
            "torch sort of (sequence, value) keys",
            lambda: x.index_select(0, torch.sort(sort_keys(x, sequence)).indices),
            note=note,
        )
    taken = np.minimum(work.lengths, int(work.parameters["k"]))
    # The last ones of each sequence, backwards.
    first = work.offsets[1:] + np.cumsum(taken) - taken - 1
    index = tensor(np.repeat(first, taken) - np.arange(int(taken.sum())))
    return Form(
        "torch sort of (sequence, value) keys",
        lambda: x.index_select(0, torch.sort(sort_keys(x, sequence)).indices.index_select(0, index)),
        note=note,
    )


@peer.form("sequence_sort", "sequence_argsort")
def padded_sort(work: Workload) -> Form | None:
    if not work.padded_fits() or work.row_size > 1:
        return None
    x, position = rows_of(work), tensor(work.padded_position)
    dense, fill = padding(work, x, torch.inf)
    y = torch.empty_like(x)
    index = torch.empty(len(x), dtype=torch.int64)

    def call() -> Any:
        fill()
        values, order = torch.sort(dense, dim=1)
        torch.index_select(values.view(-1), 0, position, out=y)
        return (y, torch.index_select(order.view(-1), 0, position, out=index)) if indexed else y

    indexed = work.op == "sequence_argsort"
    first = (lambda result: to_numpy(result[0])) if indexed else None
    return Form("torch padded sort", call, first, INDEX_GIVEN)


@peer.form("sequence_topk")
def padded_topk(work: Workload) -> Form | None:
    if not work.padded_fits() or work.row_size > 1:
        return None
    x = rows_of(work)
    dense, fill = padding(work, x, -torch.inf)
    k = min(int(work.parameters["k"]), work.padded_length)
    valid = (torch.arange(k) < tensor(work.lengths).unsqueeze(1)).view(-1).nonzero().squeeze(1)

    def call() -> Tensor:
        fill()
        return torch.topk(dense, k, dim=1).values.view(-1).index_select(0, valid)

    return Form("torch padded topk", call, note=INDEX_GIVEN)


@peer.form("merge_add")
def coalesce(work: Workload) -> Form | None:
    ids, x = rows_of_int(work, "ids").unsqueeze(0), rows_of(work)
    size = (int(work.parameters["height"]), *x.shape[1:])

    def call() -> Tensor:
        return torch.sparse_coo_tensor(ids, x, size, check_invariants=False).coalesce()

    return Form("torch sparse coalesce", call, lambda merged: to_numpy(merged.values()))


@peer.form("merge_add")
def sort_and_bag(work: Workload) -> Form | None:
    """The sort says which rows belong together; embedding_bag gathers and sums them in one go."""
    if work.dtype not in ("float32", "float64", "float16", "bfloat16"):
        return None
    ids, x = rows_of_int(work, "ids"), flat(rows_of(work))
    start = torch.zeros(1, dtype=torch.int64)

    def call() -> Any:
        ordered, order = torch.sort(ids)
        distinct, counts = torch.unique_consecutive(ordered, return_counts=True)
        borders = torch.cat((start, counts.cumsum(0)))
        return torch.embedding_bag(x, order, borders, False, SUM_MODE, False, None, True)[0], distinct

    return Form("torch sort, embedding_bag", call, lambda result: to_numpy(result[0]))


@peer.form("sparse_adam")
def sparse_adam(work: Workload) -> Form | None:
    ids, x = rows_of_int(work, "ids").unsqueeze(0), rows_of(work)
    parameter = torch.nn.Parameter(rows_of(work, "table").clone())
    optimizer = torch.optim.SparseAdam([parameter], lr=1e-3, betas=(0.9, 0.999), eps=1e-8)

    def call() -> None:
        parameter.grad = torch.sparse_coo_tensor(ids, x, parameter.shape, check_invariants=False)
        optimizer.step()

    return Form("torch SparseAdam", call, checked=False)


@peer.form("embedding_pool")
def embedding_bag(work: Workload) -> Form | None:
    if work.dtype not in ("float32", "float64", "float16", "bfloat16"):
        return None
    table, ids, offsets = flat(rows_of(work, "table")), rows_of_int(work, "ids"), tensor(work.offsets)
    return Form("torch embedding_bag", lambda: torch.embedding_bag(table, ids, offsets, False, SUM_MODE, False, None, True)[0])


@peer.form("embedding_pool")
def embedding_bag_narrow(work: Workload) -> Form | None:
    if work.dtype not in ("float32", "float16", "bfloat16"):
        return None
    table, ids, offsets = flat(rows_of(work, "table")), rows_of_int(work, "ids").int(), tensor(work.offsets).int()
    return Form(
        "torch embedding_bag, 32-bit ids",
        lambda: torch.embedding_bag(table, ids, offsets, False, SUM_MODE, False, None, True)[0],
        note="ids and offsets converted to int32 untimed",
    )


def recurrent(work: Workload) -> torch.nn.RNNBase:
    hidden = int(work.parameters["hidden"])
    kind = torch.nn.LSTM if work.op == "lstm" else torch.nn.GRU
    module = kind(work.x.shape[1], hidden, batch_first=True, dtype=rows_of(work).dtype).eval()
    module.weight_ih_l0.copy_(rows_of(work, "w_ih"))
    module.weight_hh_l0.copy_(rows_of(work, "w_hh"))
    module.bias_ih_l0.copy_(rows_of(work, "bias"))
    module.bias_hh_l0.zero_()
    return module


@peer.form("lstm", "gru")
def packed_recurrent(work: Workload) -> Form | None:
    if len(work.empty):
        return None  # a packed sequence has at least one row
    module = recurrent(work)
    views = list(torch.split(rows_of(work), work.lengths.tolist()))
    packed = torch.nn.utils.rnn.pack_sequence(views, enforce_sorted=False)

    def unpack(output: Any) -> Any:
        dense, _ = torch.nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        return to_numpy(dense.view(-1, dense.shape[-1])[tensor(work.padded_position)])

    name = "LSTM" if work.op == "lstm" else "GRU"
    return Form(f"torch {name}, packed", lambda: module(packed)[0], unpack, "packed before and unpacked after, untimed")


@peer.form("lstm", "gru")
def padded_recurrent(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    hidden = int(work.parameters["hidden"])
    gates = 4 if work.op == "lstm" else 3
    if work.sequences * work.padded_length * hidden * gates * work.x.dtype.itemsize > protocol.PADDED_LIMIT:
        return None
    module, dense = recurrent(work), tensor(work.padded, work.dtype)

    def unpad(output: Tensor) -> Any:
        return to_numpy(output.reshape(-1, output.shape[-1])[tensor(work.padded_position)])

    name = "LSTM" if work.op == "lstm" else "GRU"
    return Form(f"torch {name}, padded", lambda: module(dense)[0], unpad, "padded before and unpadded after, untimed")


def attention_views(work: Workload) -> list[list[Tensor]]:
    """q, k and v of each sequence: [1, heads, rows, numbers a head]."""
    heads, lengths = int(work.parameters["heads"]), work.lengths.tolist()

    def views(name: str) -> list[Tensor]:
        return [
            part.view(len(part), heads, -1).transpose(0, 1).unsqueeze(0)
            for part in torch.split(rows_of(work, name), lengths)
        ]

    return [list(one) for one in zip(views("q"), views("k"), views("v"))]


def rows_of_heads(parts: list[Tensor]) -> Any:
    return to_numpy(torch.cat([part[0].transpose(0, 1).flatten(1) for part in parts]))


@peer.form("sequence_attention")
def attention_by_sequence(work: Workload) -> Form | None:
    views = attention_views(work)
    attend = torch.nn.functional.scaled_dot_product_attention
    return Form(
        "torch SDPA, a sequence at a time", lambda: [attend(q, k, v) for q, k, v in views], rows_of_heads,
        "results in a tensor each",
    )


@peer.form("sequence_attention_grad")
def attention_grad_by_sequence(work: Workload) -> Form | None:
    attend, heads = torch.nn.functional.scaled_dot_product_attention, int(work.parameters["heads"])
    given = [
        part.view(len(part), heads, -1).transpose(0, 1).unsqueeze(0)
        for part in torch.split(rows_of(work, "dy"), work.lengths.tolist())
    ]
    with torch.enable_grad():
        inputs = [[one.detach().requires_grad_() for one in views] for views in attention_views(work)]
        results = [attend(q, k, v) for q, k, v in inputs]
    return Form(
        "torch SDPA, a sequence at a time",
        lambda: [torch.autograd.grad(y, qkv, dy, retain_graph=True) for y, qkv, dy in zip(results, inputs, given)],
        lambda gradients: rows_of_heads([of[0] for of in gradients]),
        "forward untimed; results in a tensor each",
    )


@peer.form("linear")
def matrix_product(work: Workload) -> Form | None:
    if work.dtype != "float32":
        return None
    x, weight = rows_of(work), rows_of(work, "weight")
    y = torch.empty(len(x), weight.shape[1], dtype=x.dtype)
    return Form("torch mm", lambda: torch.mm(x, weight, out=y))


@peer.form("grouped_linear")
def product_of_groups(work: Workload) -> Form | None:
    if work.dtype != "float32":
        return None
    parts, weights = torch.split(rows_of(work), work.lengths.tolist()), rows_of(work, "weight")
    chosen = [weights[group] for group in work.load("groups").tolist()]
    y = torch.empty(len(work.x), weights.shape[2], dtype=weights.dtype)
    results = torch.split(y, work.lengths.tolist())

    def call() -> Tensor:
        for part, weight, result in zip(parts, chosen, results):
            torch.mm(part, weight, out=result)
        return y

    return Form("torch mm, a sequence at a time", call)


@peer.form("layer_norm", "rms_norm")
def norm(work: Workload) -> Form | None:
    x, scale = rows_of(work), rows_of(work, "scale")
    if work.op == "layer_norm":
        bias = rows_of(work, "bias")
        return Form("torch layer_norm", lambda: torch.nn.functional.layer_norm(x, scale.shape, scale, bias, 1e-5))
    return Form("torch rms_norm", lambda: torch.nn.functional.rms_norm(x, scale.shape, scale, 1e-5))


@peer.form("layer_norm_grad")
def norm_grad(work: Workload) -> Form | None:
    dy, scale = rows_of(work, "dy"), rows_of(work, "scale")
    with torch.enable_grad():
        given = [rows_of(work).clone().requires_grad_(), scale.clone().requires_grad_(),
                 torch.zeros_like(scale).requires_grad_()]
        y = torch.nn.functional.layer_norm(given[0], scale.shape, given[1], given[2], 1e-5)
    return Form(
        "torch layer_norm", lambda: torch.autograd.grad(y, given, dy, retain_graph=True), lambda all: to_numpy(all[0]),
        "forward untimed",
    )


@peer.form("rotary_embedding")
def rotation(work: Workload) -> Form | None:
    x, heads = rows_of(work), int(work.parameters["heads"])
    size = x.shape[1] // heads
    place = torch.cat([torch.arange(length) for length in work.lengths.tolist()])
    angle = place[:, None] * 10000.0 ** (-2 * torch.arange(size // 2, dtype=torch.float64) / size)
    cosine, sine = (of(angle).to(x.dtype)[:, None, :] for of in (torch.cos, torch.sin))
    first, second = x.view(len(x), heads, 2, size // 2).unbind(2)

    def call() -> Tensor:
        turned = torch.stack((first * cosine - second * sine, second * cosine + first * sine), 2)
        return turned.view(len(x), -1)

    return Form("torch products and sums", call, note="cosines and sines prepared untimed")


@peer.form("cross_entropy")
def cross_entropy(work: Workload) -> Form | None:
    x, labels = rows_of(work), tensor(work.load("labels"))
    return Form("torch cross_entropy", lambda: torch.nn.functional.cross_entropy(x, labels).view(1))


@peer.form("cross_entropy_grad")
def cross_entropy_grad(work: Workload) -> Form | None:
    labels = tensor(work.load("labels"))
    with torch.enable_grad():
        x = rows_of(work).clone().requires_grad_()

    def call() -> Tensor:
        with torch.enable_grad():
            return torch.autograd.grad(torch.nn.functional.cross_entropy(x, labels), x)[0]

    return Form("torch cross_entropy", call, note="with the forward pass, whose softmax it needs")


@peer.form("ctc_loss", "ctc_loss_grad")
def padded_ctc(work: Workload) -> Form | None:
    dense = tensor(work.padded).transpose(0, 1).contiguous()
    frames, labels = tensor(work.lengths), tensor(work.load("labels"))
    counts = tensor(np.diff(work.load("label_offsets")))

    def losses(x: Tensor) -> Tensor:
        return torch.nn.functional.ctc_loss(x.log_softmax(2), labels, frames, counts, reduction="none")

    if work.op == "ctc_loss":
        return Form("torch ctc_loss, padded", lambda: losses(dense), note="padded before, untimed")

    def call() -> Tensor:
        with torch.enable_grad():
            return torch.autograd.grad(losses(dense).sum(), dense)[0]

    def unpad(gradient: Tensor) -> Any:
        rows = gradient.transpose(0, 1).reshape(-1, gradient.shape[2])
        return to_numpy(rows[tensor(work.padded_position)])

    dense.requires_grad_()
    return Form("torch ctc_loss, padded", call, unpad, "with the forward pass; padded before, untimed")


def version() -> str:
    extras = [torch.backends.cpu.get_cpu_capability()] + (["FBGEMM"] if "USE_FBGEMM" in torch.__config__.show() else [])
    return f"torch {torch.__version__.split('+')[0]} ({', '.join(extras)})"


def blas() -> str:
    found = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    exact = re.search(r"Math Kernel Library Version (\S+)", torch.__config__.show())
    return " ".join(part.group(1) for part in (found, exact) if part)


if __name__ == "__main__":
    peer.serve(version=version(), blas=blas(), to_numpy=to_numpy)
