# SPDX-License-Identifier: Apache-2.0
"""NumPy, and SciPy's sparse products where SciPy is there. One thread, as both are."""

from __future__ import annotations

from collections.abc import Callable

import protocol
from protocol import Form, Workload

peer = protocol.start("numpy")
try:
    import numpy as np
except ImportError as error:
    peer.missing(error)
try:
    import scipy
    import scipy.sparse
except ImportError:
    scipy = None

Array = np.ndarray

# What depends on the offsets alone is worked out before the clock starts: the peers shall not be measured at that.
INDEX_GIVEN = "row index prepared untimed"


def usable(work: Workload) -> bool:
    """NumPy has no bfloat16."""
    return work.dtype != "bfloat16"


def reducer(work: Workload, ufunc: np.ufunc, x: Array) -> Callable[[Array], Array]:
    """A function that reduces the rows of every sequence into a given array of [sequences, ...].

    reduceat gives the element at the border where a sequence is empty, so it sees only those that are not.
    """
    starts = work.offsets[:-1]
    if len(work.empty) == 0:
        return lambda out: ufunc.reduceat(x, starts, axis=0, out=out)
    filled, empty = work.filled, work.empty
    starts = starts[filled]
    if len(starts) == 0:
        return lambda out: out.fill(0) or out

    def reduce(out: Array) -> Array:
        out[filled] = ufunc.reduceat(x, starts, axis=0)
        out[empty] = 0
        return out

    return reduce


def pooled_shape(work: Workload) -> tuple[int, ...]:
    return (work.sequences, *work.x.shape[1:])


def as_column(lengths: Array, x: Array) -> Array:
    return lengths.reshape(-1, *[1] * (x.ndim - 1))


@peer.form("sequence_pool")
def reduceat(work: Workload) -> Form | None:
    if not usable(work):
        return None
    x = work.x
    ufunc = np.maximum if work.variant == "MAX" else np.add
    reduce = reducer(work, ufunc, x)
    out = np.empty(pooled_shape(work), x.dtype)
    if work.variant != "AVERAGE":
        return Form(f"numpy {ufunc.__name__}.reduceat", lambda: reduce(out))
    factor = as_column(1 / np.maximum(work.lengths, 1), x).astype(x.dtype)
    return Form("numpy add.reduceat", lambda: np.multiply(reduce(out), factor, out=out), note="1 / length prepared untimed")


@peer.form("sequence_pool", "sequence_expand_as_grad")
def sparse_product(work: Workload) -> Form | None:
    """The pooled rows as a product with a sparse matrix of ones."""
    if scipy is None or work.variant == "MAX" or work.dtype not in ("float32", "float64"):
        return None
    x = work.x
    factor = np.ones(len(x), x.dtype)
    if work.variant == "AVERAGE":
        factor = np.repeat((1 / np.maximum(work.lengths, 1)).astype(x.dtype), work.lengths)
    matrix = scipy.sparse.csr_array((factor, np.arange(len(x)), work.offsets), shape=(work.sequences, len(x)))
    return Form("scipy CSR product", lambda: matrix @ x, note="sparse matrix of ones prepared untimed")


@peer.form("sequence_expand_as_grad")
def grad_reduceat(work: Workload) -> Form | None:
    if not usable(work):
        return None
    reduce = reducer(work, np.add, work.x)
    out = np.empty(pooled_shape(work), work.x.dtype)
    return Form("numpy add.reduceat", lambda: reduce(out))


@peer.form("sequence_max_pool")
def max_and_index(work: Workload) -> Form | None:
    if not usable(work):
        return None
    x, lengths, starts, filled = work.x, work.lengths, work.offsets[:-1], work.filled
    reduce = reducer(work, np.maximum, x)
    out = np.empty(pooled_shape(work), x.dtype)
    index = np.full(pooled_shape(work), -1, np.int64)
    first = starts[filled]

    if x.ndim == 1:

        def call() -> tuple[Array, Array]:
            reduce(out)
            hits = np.flatnonzero(x == np.repeat(out, lengths))
            index[filled] = hits[np.searchsorted(hits, first)]
            return out, index

    else:
        rows = np.arange(len(x))[:, None]

        def call() -> tuple[Array, Array]:
            reduce(out)
            where = np.where(x == np.repeat(out, lengths, axis=0), rows, len(x))
            index[filled] = np.minimum.reduceat(where, first, axis=0)
            return out, index

    return Form("numpy maximum.reduceat and search", call, lambda result: result[0])


@peer.form("sequence_softmax", "sequence_log_softmax")
def softmax(work: Workload) -> Form | None:
    if not usable(work):
        return None
    x, row_sequence, log = work.x, work.row_sequence, work.op == "sequence_log_softmax"
    maximum = reducer(work, np.maximum, x)
    extreme = np.empty(pooled_shape(work), x.dtype)
    total = np.empty_like(extreme)
    y, spread = np.empty_like(x), np.empty_like(x)
    exponents = np.empty_like(x) if log else y
    add = reducer(work, np.add, exponents)

    def call() -> Array:
        np.take(maximum(extreme), row_sequence, axis=0, out=spread, mode="clip")
        np.subtract(x, spread, out=y)
        np.exp(y, out=exponents)
        add(total)
        if log:
            with np.errstate(divide="ignore"):  # an empty sequence has the sum 0, which no row uses
                np.log(total, out=total)
        np.take(total, row_sequence, axis=0, out=spread, mode="clip")
        return np.subtract(y, spread, out=y) if log else np.divide(y, spread, out=y)

    return Form("numpy composed softmax", call, note=INDEX_GIVEN)


def padding(work: Workload, value: float) -> tuple[Array, Callable[[], None]]:
    """A padded array [sequences, longest, ...] and what fills it with the rows."""
    x, position = work.x, work.padded_position
    dense = np.empty((work.sequences, work.padded_length, *x.shape[1:]), x.dtype)
    flat = dense.reshape(-1, *x.shape[1:])

    def fill() -> None:
        flat.fill(value)
        flat[position] = x

    return dense, fill


@peer.form("sequence_pool")
def padded_max(work: Workload) -> Form | None:
    """For wide rows a padded reduction has longer inner loops than reduceat."""
    if work.variant != "MAX" or work.row_size < 8 or not usable(work) or not work.padded_fits():
        return None
    empty = work.empty
    dense, fill = padding(work, -np.inf)
    out = np.empty(pooled_shape(work), work.x.dtype)

    def call() -> Array:
        fill()
        dense.max(axis=1, out=out)
        if len(empty):
            out[empty] = 0
        return out

    return Form("numpy padded max", call, note=INDEX_GIVEN)


@peer.form("sequence_softmax", "sequence_log_softmax")
def padded_softmax(work: Workload) -> Form | None:
    if not usable(work) or not work.padded_fits() or not work.longest:
        return None
    position, log = work.padded_position, work.op == "sequence_log_softmax"
    # Not -inf, of which an empty sequence would make NaN and a warning.
    dense, fill = padding(work, float(np.finfo(work.dtype).min))
    flat = dense.reshape(-1, *work.x.shape[1:])
    y = np.empty_like(work.x)

    def call() -> Array:
        fill()
        with np.errstate(over="ignore"):
            np.subtract(dense, dense.max(axis=1, keepdims=True), out=dense)
        if log:
            np.subtract(dense, np.log(np.exp(dense).sum(axis=1, keepdims=True)), out=dense)
        else:
            np.exp(dense, out=dense)
            np.divide(dense, dense.sum(axis=1, keepdims=True), out=dense)
        return np.take(flat, position, axis=0, out=y, mode="clip")

    return Form("numpy padded softmax", call, note=INDEX_GIVEN)


@peer.form("sequence_pad")
def pad(work: Workload) -> Form | None:
    if not work.padded_fits() or not usable(work):
        return None
    x, position = work.x, work.padded_position
    dense = np.empty((work.sequences * work.padded_length, *x.shape[1:]), x.dtype)

    def call() -> Array:
        dense.fill(0)
        dense[position] = x
        return dense

    return Form("numpy indexed assignment", call, note=INDEX_GIVEN)


@peer.form("sequence_unpad")
def unpad(work: Workload) -> Form | None:
    if not work.padded_fits() or not usable(work):
        return None
    position = work.padded_position
    dense = work.padded.reshape(-1, *work.x.shape[1:])
    out = np.empty_like(work.x)
    return Form("numpy take", lambda: np.take(dense, position, axis=0, out=out, mode="clip"), note=INDEX_GIVEN)


def spans(starts: Array, lengths: Array) -> Array:
    """The numbers starts[i], starts[i] + 1, ... of every span, one span after another."""
    ends = np.cumsum(lengths)
    index = np.repeat(starts - (ends - lengths), lengths)
    index += np.arange(len(index))
    return index


def gathering(work: Workload) -> Callable[[], Array] | None:
    """What works out which row of x each row of the result is."""
    offsets, lengths = work.offsets, work.lengths
    if work.op == "sequence_reverse":
        rows = np.arange(len(work.x))
        return lambda: np.repeat(offsets[:-1] + offsets[1:] - 1, lengths) - rows
    if work.op == "sequence_slice":
        starts, counts = work.load("starts"), work.load("counts")
        return lambda: spans(offsets[:-1] + starts, counts)
    chosen = work.load("chosen")
    return lambda: spans(offsets[chosen], lengths[chosen])


@peer.form("sequence_reverse", "sequence_slice", "select")
def take(work: Workload) -> Form | None:
    if not usable(work):
        return None
    x, index = work.x, gathering(work)()
    out = np.empty((len(index), *x.shape[1:]), x.dtype)
    return Form("numpy take, index given", lambda: np.take(x, index, axis=0, out=out, mode="clip"), note=INDEX_GIVEN)


@peer.form("sequence_reverse", "sequence_slice", "select")
def index_and_take(work: Workload) -> Form | None:
    if not usable(work):
        return None
    x, index = work.x, gathering(work)
    out = np.empty((len(index()), *x.shape[1:]), x.dtype)
    return Form("numpy take", lambda: np.take(x, index(), axis=0, out=out, mode="clip"))


@peer.form("sequence_concat")
def concat(work: Workload) -> Form | None:
    if not usable(work):
        return None
    x, x2 = work.x, work.load("x2")
    offsets, offsets2 = work.offsets, work.load("offsets2")
    first = spans(offsets[:-1] + offsets2[:-1], work.lengths)
    second = spans(offsets[1:] + offsets2[:-1], np.diff(offsets2))
    out = np.empty((len(x) + len(x2), *x.shape[1:]), x.dtype)

    def call() -> Array:
        out[first] = x
        out[second] = x2
        return out

    return Form("numpy indexed assignment", call, note=INDEX_GIVEN)


@peer.form("sequence_expand_as")
def repeat(work: Workload) -> Form | None:
    x, lengths = work.x, work.lengths
    return Form("numpy repeat", lambda: np.repeat(x, lengths, axis=0)) if usable(work) else None


@peer.form("sequence_expand_as")
def repeat_take(work: Workload) -> Form | None:
    if not usable(work):
        return None
    x, index = work.x, work.row_sequence
    out = np.empty((len(index), *x.shape[1:]), x.dtype)
    return Form("numpy take, index given", lambda: np.take(x, index, axis=0, out=out, mode="clip"), note=INDEX_GIVEN)


@peer.form("sequence_erase")
def erase(work: Workload) -> Form | None:
    x, offsets = work.x, work.offsets
    tokens = np.array(work.parameters["tokens"], x.dtype)
    keep, hit = np.empty(len(x), bool), np.empty(len(x), bool)

    def call() -> tuple[Array, Array]:
        if len(tokens) <= 4:  # a comparison for each is quicker than a look-up while they are few
            np.not_equal(x, tokens[0], out=keep)
            for token in tokens[1:]:
                np.logical_and(keep, np.not_equal(x, token, out=hit), out=keep)
            kept = np.flatnonzero(keep)
        else:
            kept = np.flatnonzero(np.isin(x, tokens, invert=True))
        return x[kept], np.searchsorted(kept, offsets)

    return Form("numpy compare and index", call, lambda result: result[0], note="makes the new offsets too")


@peer.form("sequence_enumerate")
def enumerate_windows(work: Workload) -> Form | None:
    x, window, ends, lengths = work.x, int(work.parameters["window"]), work.offsets[1:], work.lengths
    out = np.empty((len(x), window), x.dtype)

    def call() -> Array:
        # Fill all but what runs over a sequence's end, from last to first column, then blank the tails.
        for j in range(window):
            out[: len(x) - j, j] = x[j:]
        for j in range(1, window):
            for back in range(1, j + 1):
                rows = ends[lengths >= back] - back
                out[rows, j] = 0
        return out

    return Form("numpy shifted columns", call)


@peer.form("sequence_cumsum")
def cumsum(work: Workload) -> Form | None:
    """A running sum over everything, less what it was where the sequence begins."""
    if not usable(work):
        return None
    x, lengths, starts = work.x, work.lengths, work.offsets[:-1]
    # In the input's own precision the sum of the rows before would drown a sequence's own.
    running = np.empty((len(x) + 1, *x.shape[1:]), np.float64)
    running[0] = 0
    y = np.empty_like(x)

    def call() -> Array:
        np.cumsum(x, axis=0, dtype=np.float64, out=running[1:])
        return np.subtract(running[1:], np.repeat(running[starts], lengths, axis=0), out=y, casting="same_kind")

    return Form("numpy cumsum less its start", call, note="sums in float64")


def sort_keys(x: Array, sequence: Array) -> Array:
    """One integer for each value that orders by sequence first and by value then (float32 only)."""
    bits = x.view(np.int32)
    # Negative floats order backwards as integers, so their magnitude is flipped.
    ordered = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
    key = sequence << 32
    key |= ordered.astype(np.int64) + (1 << 31)
    return key


def sort_values(key: Array) -> Array:
    ordered = ((key & 0xFFFFFFFF) - (1 << 31)).astype(np.int32)
    return (ordered ^ ((ordered >> 31) & np.int32(0x7FFFFFFF))).view(np.float32)


@peer.form("sequence_sort")
def packed_sort(work: Workload) -> Form | None:
    """One sort of 64-bit integers, which NumPy does with SIMD."""
    if work.dtype != "float32" or work.x.ndim > 1:
        return None
    x, sequence = work.x, work.row_sequence

    def call() -> Array:
        key = sort_keys(x, sequence)
        key.sort()
        return sort_values(key)

    return Form("numpy sort of (sequence, value) keys", call, note=INDEX_GIVEN)


@peer.form("sequence_sort")
def padded_sort(work: Workload) -> Form | None:
    if not usable(work) or work.x.ndim > 1 or not work.padded_fits():
        return None
    x, position = work.x, work.padded_position
    dense = np.empty((work.sequences, work.padded_length), x.dtype)
    flat = dense.reshape(-1)
    out = np.empty_like(x)

    def call() -> Array:
        flat.fill(np.inf)
        flat[position] = x
        dense.sort(axis=1)
        return np.take(flat, position, out=out, mode="clip")

    return Form("numpy padded sort", call, note=INDEX_GIVEN)


@peer.form("sequence_argsort")
def packed_argsort(work: Workload) -> Form | None:
    if work.dtype != "float32" or work.x.ndim > 1:
        return None
    x, sequence, starts = work.x, work.row_sequence, work.offsets[:-1]

    def call() -> tuple[Array, Array]:
        order = np.argsort(sort_keys(x, sequence))
        return x[order], order - starts[sequence]

    return Form("numpy argsort of (sequence, value) keys", call, lambda result: result[0], note=INDEX_GIVEN)


@peer.form("sequence_argsort")
def lexsort(work: Workload) -> Form | None:
    if not usable(work) or work.x.ndim > 1:
        return None
    x, sequence, starts = work.x, work.row_sequence, work.offsets[:-1]

    def call() -> tuple[Array, Array]:
        order = np.lexsort((x, sequence))
        return x[order], order - starts[sequence]

    return Form("numpy lexsort", call, lambda result: result[0], note=INDEX_GIVEN)


@peer.form("sequence_topk")
def packed_topk(work: Workload) -> Form | None:
    if work.dtype != "float32" or work.x.ndim > 1:
        return None
    x, sequence, ends = work.x, work.row_sequence, work.offsets[1:]
    taken = np.minimum(work.lengths, int(work.parameters["k"]))
    # The last ones of each sequence, backwards.
    index = np.repeat(ends + np.cumsum(taken) - taken - 1, taken) - np.arange(int(taken.sum()))

    def call() -> Array:
        key = sort_keys(x, sequence)
        key.sort()
        return sort_values(key[index])

    return Form("numpy sort of (sequence, value) keys", call, note=INDEX_GIVEN)


@peer.form("sequence_topk")
def padded_topk(work: Workload) -> Form | None:
    if not usable(work) or work.x.ndim > 1 or not work.padded_fits():
        return None
    x, position, length = work.x, work.padded_position, work.padded_length
    k = min(int(work.parameters["k"]), length)
    valid = np.arange(k) < work.lengths[:, None]
    dense = np.empty((work.sequences, length), x.dtype)
    flat = dense.reshape(-1)

    def call() -> Array:
        flat.fill(-np.inf)
        flat[position] = x
        if k < length:
            dense.partition(length - k, axis=1)
        best = np.sort(dense[:, length - k :], axis=1)
        return best[:, ::-1][valid]

    return Form("numpy padded partition", call, note=INDEX_GIVEN)


def runs(ids: Array) -> tuple[Array, Array, Array]:
    """An order that sorts the ids, the distinct ids, and where the run of each begins (and the end)."""
    order = np.argsort(ids)
    ordered = ids[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return order, ordered[starts], starts


@peer.form("merge_add")
def merge_product(work: Workload) -> Form | None:
    """The sort says which rows belong together; the product gathers and sums in one go."""
    if scipy is None or work.dtype not in ("float32", "float64"):
        return None
    ids, x = work.load("ids"), work.x
    ones = np.ones(len(ids), x.dtype)

    def call() -> tuple[Array, Array]:
        order, distinct, starts = runs(ids)
        borders = np.append(starts, len(ids))
        matrix = scipy.sparse.csr_array((ones, order, borders), shape=(len(distinct), len(ids)))
        return matrix @ x, distinct

    return Form("numpy argsort, scipy CSR product", call, lambda result: result[0])


@peer.form("merge_add")
def merge_reduceat(work: Workload) -> Form | None:
    if not usable(work):
        return None
    ids, x = work.load("ids"), work.x

    def call() -> tuple[Array, Array]:
        order, distinct, starts = runs(ids)
        return np.add.reduceat(x[order], starts, axis=0), distinct

    return Form("numpy argsort, add.reduceat", call, lambda result: result[0])


@peer.form("sparse_adam")
def sparse_adam(work: Workload) -> Form | None:
    if work.dtype not in ("float32", "float64"):
        return None
    ids, x = work.load("ids"), work.x
    table = work.load("table").copy()
    moment, square = np.zeros_like(table), np.zeros_like(table)
    ones = np.ones(len(ids), x.dtype)
    rate, beta1, beta2, epsilon = 1e-3, 0.9, 0.999, 1e-8
    steps = 0

    def call() -> None:
        nonlocal steps
        steps += 1
        order, distinct, starts = runs(ids)
        if scipy is not None:
            borders = np.append(starts, len(ids))
            gradient = scipy.sparse.csr_array((ones, order, borders), shape=(len(distinct), len(ids))) @ x
        else:
            gradient = np.add.reduceat(x[order], starts, axis=0)
        m = moment[distinct]
        m *= beta1
        m += (1 - beta1) * gradient
        moment[distinct] = m
        v = square[distinct]
        v *= beta2
        gradient *= gradient
        gradient *= 1 - beta2
        v += gradient
        square[distinct] = v
        scale = rate * (1 - beta2**steps) ** 0.5 / (1 - beta1**steps)
        np.sqrt(v, out=v)
        v += epsilon
        m *= scale
        m /= v
        table[distinct] -= m

    return Form("numpy sorted rows", call, checked=False)


@peer.form("embedding_pool")
def embedding_product(work: Workload) -> Form | None:
    if scipy is None or work.dtype not in ("float32", "float64"):
        return None
    table, ids = work.load("table"), work.load("ids")
    ones = np.ones(len(ids), table.dtype)
    matrix = scipy.sparse.csr_array((ones, ids, work.offsets), shape=(work.sequences, len(table)))
    return Form("scipy CSR product", lambda: matrix @ table, note="sparse matrix of ones prepared untimed")


@peer.form("embedding_pool")
def embedding_reduceat(work: Workload) -> Form | None:
    if not usable(work):
        return None
    table, ids = work.load("table"), work.load("ids")
    if len(ids) * table[:1].nbytes > protocol.PADDED_LIMIT:
        return None
    rows = np.empty((len(ids), *table.shape[1:]), table.dtype)
    reduce = reducer(work, np.add, rows)
    out = np.empty((work.sequences, *table.shape[1:]), table.dtype)

    def call() -> Array:
        np.take(table, ids, axis=0, out=rows, mode="clip")
        return reduce(out)

    return Form("numpy take, add.reduceat", call)


def blas_name() -> str:
    try:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}"
    except (KeyError, TypeError):
        return ""


if __name__ == "__main__":
    names = [f"numpy {np.__version__}"] + ([f"scipy {scipy.__version__}"] if scipy else [])
    peer.serve(version=", ".join(names), blas=blas_name(), threads=1)
