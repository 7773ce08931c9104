# SPDX-License-Identifier: Apache-2.0
"""TensorFlow on the CPU: ragged tensors, and the segment operators under them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import protocol
from protocol import Form, Workload

peer = protocol.start("tensorflow", {"TF_CPP_MIN_LOG_LEVEL": "2"})
try:
    import numpy as np
    import tensorflow as tf
except (ImportError, OSError) as error:
    peer.missing(error)

tf.config.threading.set_intra_op_parallelism_threads(peer.threads)
tf.config.threading.set_inter_op_parallelism_threads(peer.threads)

INDEX_GIVEN = "row index prepared untimed"


def tensor(array: Any, dtype: str = "") -> tf.Tensor:
    """The array as a tensor. NumPy has no bfloat16, so that comes as two bytes of something."""
    if dtype == "bfloat16" and array.dtype.itemsize == 2:
        array = array.view(tf.bfloat16.as_numpy_dtype)
    return tf.convert_to_tensor(array)


def rows_of(work: Workload, name: str = "x") -> tf.Tensor:
    return tensor(work.load(name), work.dtype)


def ragged(work: Workload, name: str = "x", offsets: str = "offsets") -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_splits(rows_of(work, name), tensor(work.load(offsets)), validate=False)


def to_numpy(result: Any) -> Any:
    if isinstance(result, tf.RaggedTensor):
        result = result.flat_values
    return result.numpy() if isinstance(result, tf.Tensor) else [to_numpy(part) for part in result]


def graph(function: Callable[..., Any], *inputs: Any) -> Callable[[], Any]:
    """The function traced once, so that Python's part of it is not timed. The inputs stay inputs: nothing is folded."""
    compiled = tf.function(function)
    return lambda: compiled(*inputs)


def small_or_wide(work: Workload) -> bool:
    return work.dtype in ("float32", "float64", "float16", "bfloat16")


@peer.form("sequence_pool", "sequence_expand_as_grad")
def ragged_reduce(work: Workload) -> Form | None:
    x, count = rows_of(work), work.sequences
    rt = tf.RaggedTensor.from_value_rowids(x, tensor(work.row_sequence), nrows=count, validate=False)
    name = {"AVERAGE": "mean", "MAX": "max"}.get(work.variant, "sum")
    reduce = {"mean": tf.reduce_mean, "max": tf.reduce_max, "sum": tf.reduce_sum}[name]
    if name == "sum" or not len(work.empty):
        function = lambda rt: reduce(rt, axis=1)  # noqa: E731
    else:
        blank = tensor((work.lengths == 0).reshape(-1, *[1] * (work.x.ndim - 1)))

        def function(rt: Any) -> Any:
            y = reduce(rt, axis=1)
            return tf.where(blank, tf.zeros((), y.dtype), y)  # it says NaN or the least number

    return Form(f"tensorflow ragged reduce_{name}", graph(function, rt), note="sequence number of each row prepared untimed")


@peer.form("sequence_pool", "sequence_expand_as_grad")
def segment(work: Workload) -> Form | None:
    x, rows = rows_of(work), tensor(work.row_sequence)
    name = {"AVERAGE": "mean", "MAX": "max"}.get(work.variant, "sum")
    reduce = {"mean": tf.math.segment_mean, "max": tf.math.segment_max, "sum": tf.math.segment_sum}[name]
    # The number of segments is the last row's number and one, so empty sequences at the end are not counted.
    filled = work.filled
    missing = work.sequences - (int(filled[-1]) + 1 if len(filled) else 0)
    paddings = [[0, missing]] + [[0, 0]] * (work.x.ndim - 1)

    def function(x: Any, rows: Any) -> Any:
        y = reduce(x, rows)
        return tf.pad(y, paddings) if missing else y

    note = "sequence number of each row prepared untimed"
    return Form(f"tensorflow segment_{name}", graph(function, x, rows), note=note)


@peer.form("sequence_softmax", "sequence_log_softmax")
def composed_softmax(work: Workload) -> Form | None:
    x, rows = rows_of(work), tensor(work.row_sequence)
    log = work.op == "sequence_log_softmax"

    def function(x: Any, rows: Any) -> Any:
        moved = x - tf.gather(tf.math.segment_max(x, rows), rows)
        exponents = tf.exp(moved)
        total = tf.gather(tf.math.segment_sum(exponents, rows), rows)
        return moved - tf.math.log(total) if log else exponents / total

    note = "sequence number of each row prepared untimed"
    return Form("tensorflow composed softmax (segment_max, segment_sum)", graph(function, x, rows), note=note)


@peer.form("sequence_softmax", "sequence_log_softmax")
def padded_softmax(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    function = tf.nn.log_softmax if work.op == "sequence_log_softmax" else tf.nn.softmax
    lowest = tf.constant(work.x.dtype.type(-1e4) if work.dtype == "float16" else -1e30, rows_of(work).dtype)
    wide = work.row_size > 1

    def call(rt: Any, lengths: Any) -> Any:
        dense = rt.to_tensor(lowest)
        if wide:  # its softmax over another axis than the last transposes by itself
            return tf.RaggedTensor.from_tensor(function(dense, axis=1), lengths=lengths).values
        return tf.RaggedTensor.from_tensor(function(dense), lengths=lengths).values

    return Form("tensorflow padded softmax", graph(call, ragged(work), tensor(work.lengths)))


@peer.form("sequence_pad")
def to_tensor(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    shape = [None, work.padded_length, *work.x.shape[1:]]
    return Form("tensorflow ragged to_tensor", graph(lambda rt: rt.to_tensor(shape=shape), ragged(work)))


@peer.form("sequence_unpad")
def from_tensor(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    dense, lengths = tensor(work.padded, work.dtype), tensor(work.lengths)
    function = graph(lambda dense, lengths: tf.RaggedTensor.from_tensor(dense, lengths=lengths).values, dense, lengths)
    return Form("tensorflow ragged from_tensor", function)


@peer.form("sequence_unpad")
def gather_nd(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    dense = tensor(work.padded, work.dtype)
    rows = tf.reshape(dense, [-1, *work.x.shape[1:]])
    return Form("tensorflow gather", graph(tf.gather, rows, tensor(work.padded_position)), note=INDEX_GIVEN)


@peer.form("sequence_reverse")
def reverse(work: Workload) -> Form | None:
    return Form("tensorflow ragged [:, ::-1]", graph(lambda rt: rt[:, ::-1].values, ragged(work)))


@peer.form("sequence_reverse")
def reverse_gather(work: Workload) -> Form | None:
    index = np.repeat(work.offsets[:-1] + work.offsets[1:] - 1, work.lengths) - np.arange(len(work.x))
    return Form("tensorflow gather, index given", graph(tf.gather, rows_of(work), tensor(index)), note=INDEX_GIVEN)


@peer.form("sequence_slice")
def slices(work: Workload) -> Form | None:
    begin = work.offsets[:-1] + work.load("starts")
    end = begin + work.load("counts")

    def function(x: Any, begin: Any, end: Any) -> Any:
        return tf.gather(x, tf.ragged.range(begin, end).values)

    return Form("tensorflow ragged range, gather", graph(function, rows_of(work), tensor(begin), tensor(end)))


@peer.form("sequence_concat")
def concat(work: Workload) -> Form | None:
    first, second = ragged(work), ragged(work, "x2", "offsets2")
    return Form("tensorflow ragged concat", graph(lambda a, b: tf.concat([a, b], axis=1).values, first, second))


@peer.form("select")
def gather(work: Workload) -> Form | None:
    chosen = tensor(work.load("chosen"))
    return Form("tensorflow ragged gather", graph(lambda rt, chosen: tf.gather(rt, chosen).values, ragged(work), chosen))


@peer.form("sequence_expand_as")
def expand(work: Workload) -> Form | None:
    return Form("tensorflow gather, index given", graph(tf.gather, rows_of(work), tensor(work.row_sequence)), note=INDEX_GIVEN)


@peer.form("sequence_erase")
def erase(work: Workload) -> Form | None:
    tokens = [int(token) for token in work.parameters["tokens"]]

    def function(rt: Any) -> Any:
        keep = tf.not_equal(rt.values, tokens[0])
        for token in tokens[1:]:
            keep = tf.logical_and(keep, tf.not_equal(rt.values, token))
        return tf.ragged.boolean_mask(rt, rt.with_values(keep))

    return Form("tensorflow ragged boolean_mask", graph(function, ragged(work)), note="makes the new offsets too")


@peer.form("edit_distance")
def edit_distance(work: Workload) -> Form | None:
    place = np.arange(len(work.x)) - np.repeat(work.offsets[:-1], work.lengths)
    indices = tensor(np.stack([work.row_sequence, place], axis=1))
    shape = [work.sequences, work.longest]

    def function(indices: Any, x: Any, truth: Any) -> Any:
        hypotheses = tf.SparseTensor(indices, x, shape)
        return tf.edit_distance(hypotheses, tf.SparseTensor(indices, truth, shape), normalize=False)

    note = "places of the sparse tensors prepared untimed"
    return Form("tensorflow edit_distance", graph(function, indices, rows_of(work), rows_of(work, "truth")), note=note)


@peer.form("sequence_enumerate")
def enumerate_windows(work: Workload) -> Form | None:
    window, count = int(work.parameters["window"]), len(work.x)
    index = np.arange(count)[:, None] + np.arange(window)
    index[index >= np.repeat(work.offsets[1:], work.lengths)[:, None]] = count

    def function(x: Any, index: Any) -> Any:
        return tf.gather(tf.pad(x, [[0, 1]]), index)

    return Form("tensorflow gather, index given", graph(function, rows_of(work), tensor(index)), note=INDEX_GIVEN)


@peer.form("sequence_cumsum")
def cumsum(work: Workload) -> Form | None:
    """A running sum over everything, less what it was where the sequence begins."""
    x, start = rows_of(work), tensor(np.repeat(work.offsets[:-1], work.lengths))

    def function(x: Any, start: Any) -> Any:
        # In the input's own precision the sum of the rows before would drown a sequence's own.
        wide = tf.cast(x, tf.float64)
        running = tf.cumsum(wide)
        return tf.cast(running - tf.gather(running - wide, start), x.dtype)

    return Form("tensorflow cumsum less its start", graph(function, x, start), note=f"sums in float64; {INDEX_GIVEN}")


@peer.form("sequence_cumsum")
def padded_cumsum(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None

    def function(rt: Any, lengths: Any) -> Any:
        return tf.RaggedTensor.from_tensor(tf.cumsum(rt.to_tensor(), axis=1), lengths=lengths).values

    return Form("tensorflow padded cumsum", graph(function, ragged(work), tensor(work.lengths)))


@peer.form("sequence_sort", "sequence_argsort")
def padded_sort(work: Workload) -> Form | None:
    if not work.padded_fits() or work.row_size > 1:
        return None
    highest = tf.constant(np.inf, rows_of(work).dtype)
    indexed = work.op == "sequence_argsort"

    def function(rt: Any, lengths: Any) -> Any:
        dense = rt.to_tensor(highest)
        if not indexed:
            return tf.RaggedTensor.from_tensor(tf.sort(dense, axis=1), lengths=lengths).values
        values, order = tf.math.top_k(-dense, tf.shape(dense)[1])
        both = [tf.RaggedTensor.from_tensor(part, lengths=lengths).values for part in (-values, order)]
        return both[0], both[1]

    first = (lambda result: to_numpy(result[0])) if indexed else None
    return Form("tensorflow padded sort", graph(function, ragged(work), tensor(work.lengths)), first)


@peer.form("sequence_topk")
def padded_topk(work: Workload) -> Form | None:
    if not work.padded_fits() or work.row_size > 1:
        return None
    lowest = tf.constant(-np.inf, rows_of(work).dtype)
    k = min(int(work.parameters["k"]), work.longest)

    def function(rt: Any, taken: Any) -> Any:
        return tf.RaggedTensor.from_tensor(tf.math.top_k(rt.to_tensor(lowest), k).values, lengths=taken).values

    return Form("tensorflow padded top_k", graph(function, ragged(work), tensor(np.minimum(work.lengths, k))))


@peer.form("merge_add")
def unique_and_sum(work: Workload) -> Form | None:
    def function(ids: Any, x: Any) -> Any:
        distinct, place = tf.unique(ids)
        return tf.math.unsorted_segment_sum(x, place, tf.shape(distinct)[0]), distinct

    def ordered(result: Any) -> Any:
        return result[0].numpy()[np.argsort(result[1].numpy())]

    note = "ids come in the order of their first use, not sorted"
    ids = tensor(work.load("ids"))
    return Form("tensorflow unique, unsorted_segment_sum", graph(function, ids, rows_of(work)), ordered, note)


@peer.form("embedding_pool")
def sparse_segment_sum(work: Workload) -> Form | None:
    table, ids, rows = rows_of(work, "table"), tensor(work.load("ids")), tensor(work.row_sequence.astype(np.int32))
    count = work.sequences

    def function(table: Any, ids: Any, rows: Any) -> Any:
        return tf.sparse.segment_sum(table, ids, rows, num_segments=count)

    note = "sequence number of each id prepared untimed"
    return Form("tensorflow sparse.segment_sum", graph(function, table, ids, rows), note=note)


@peer.form("embedding_pool")
def embedding_lookup(work: Workload) -> Form | None:
    """The public look-up, in the mode that does not deduplicate ids first."""
    table, count = rows_of(work, "table"), work.sequences
    if work.row_size == 1:
        return None
    rt = tf.RaggedTensor.from_row_splits(tensor(work.load("ids")), tensor(work.offsets), validate=False)
    filled = work.filled
    missing = count - (int(filled[-1]) + 1 if len(filled) else 0)

    def function(table: Any, rt: Any) -> Any:
        y = tf.nn.embedding_lookup_sparse(table, rt, None, combiner="sum", allow_fast_lookup=True)
        return tf.pad(y, [[0, missing], [0, 0]]) if missing else y

    return Form("tensorflow embedding_lookup_sparse", graph(function, table, rt))


def forget() -> None:
    """Lets go of traced functions, which hold on to what they were traced with."""
    tf.keras.backend.clear_session()


if __name__ == "__main__":
    peer.serve(version=f"tensorflow {tf.__version__}", blas="eigen, onednn", to_numpy=to_numpy)
