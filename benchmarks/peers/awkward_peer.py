# SPDX-License-Identifier: Apache-2.0
"""Awkward Array: lists by offsets, reduced and reshaped by its compiled kernels. One thread, as it is."""

from __future__ import annotations

from typing import Any

import protocol
from protocol import Form, Workload

peer = protocol.start("awkward")
try:
    import awkward as ak
    import numpy as np
except ImportError as error:
    peer.missing(error)


def usable(work: Workload) -> bool:
    """Its kernels know no half precision."""
    return work.dtype in ("float32", "float64", "int64")


def lists(x: Any, offsets: Any) -> ak.Array:
    """The rows as lists by offsets; shares the memory of both."""
    return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(offsets), ak.contents.NumpyArray(x)))


def batch(work: Workload) -> ak.Array:
    return lists(work.x, work.offsets)


def rows(array: Any) -> Any:
    """The rows of a result, in order."""
    return ak.to_numpy(ak.flatten(array, axis=1), allow_missing=False)


def packed_rows(array: ak.Array) -> Any:
    """The rows made contiguous. Slices are views here, and would cost nothing without that."""
    return ak.to_packed(array)


@peer.form("sequence_pool", "sequence_expand_as_grad")
def reduce(work: Workload) -> Form | None:
    if not usable(work):
        return None
    array, empty, x = batch(work), work.empty, work.x
    if work.variant == "AVERAGE":
        factor = (1 / np.maximum(work.lengths, 1)).astype(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
        # ak.mean sums twice, the second time ones.
        call = lambda: np.multiply(ak.to_numpy(ak.sum(array, axis=1)), factor)  # noqa: E731
        return Form("awkward sum / length", call, note="1 / length prepared untimed")
    if work.variant != "MAX":
        return Form("awkward sum", lambda: ak.to_numpy(ak.sum(array, axis=1)))

    def maximum() -> Any:
        y = ak.to_numpy(ak.max(array, axis=1, mask_identity=False))
        if len(empty):
            y[empty] = 0  # it says -inf
        return y

    return Form("awkward max", maximum)


@peer.form("sequence_max_pool")
def max_and_index(work: Workload) -> Form | None:
    """The index, and the maxima by it."""
    if not usable(work) or work.row_size > 1:
        return None
    array, starts, filled, x = batch(work), work.offsets[:-1], work.filled, work.x
    y = np.empty(work.sequences, x.dtype)
    first = starts[filled]

    def call() -> Any:
        index = ak.to_numpy(ak.argmax(array, axis=1, mask_identity=False))
        y.fill(0)
        y[filled] = x[first + index[filled]]
        return y, index

    return Form("awkward argmax", call, lambda result: result[0])


@peer.form("sequence_softmax")
def softmax(work: Workload) -> Form | None:
    if not usable(work) or work.row_size > 1:
        return None
    array = batch(work)
    return Form("awkward softmax", lambda: ak.softmax(array, axis=1), rows)


@peer.form("sequence_softmax", "sequence_log_softmax")
def composed_softmax(work: Workload) -> Form | None:
    if not usable(work) or work.row_size > 1:
        return None
    array, log = batch(work), work.op == "sequence_log_softmax"

    def call() -> Any:
        moved = array - ak.max(array, axis=1, mask_identity=False)
        exponents = np.exp(moved)
        total = ak.sum(exponents, axis=1)
        with np.errstate(divide="ignore"):  # an empty sequence has the sum 0, which no row uses
            return moved - np.log(total) if log else exponents / total

    return Form("awkward composed softmax", call, rows)


@peer.form("sequence_pad")
def pad(work: Workload) -> Form | None:
    if not work.padded_fits() or not usable(work) or work.row_size > 1:
        return None  # it would put a missing value in the place of a whole row
    array, length, zero = batch(work), work.padded_length, work.x.dtype.type(0)

    def call() -> Any:
        return ak.to_numpy(ak.fill_none(ak.pad_none(array, length, axis=1, clip=True), zero), allow_missing=False)

    return Form("awkward pad_none, fill_none", call)


@peer.form("sequence_unpad")
def unpad(work: Workload) -> Form | None:
    if not work.padded_fits() or not usable(work):
        return None
    dense = work.padded
    mask = lists_of(np.arange(work.padded_length) < work.lengths[:, None])
    array = lists_of(dense)
    return Form("awkward boolean mask", lambda: packed_rows(array[mask]), rows, "mask prepared untimed")


def lists_of(dense: Any) -> ak.Array:
    """A dense array as lists that all have the same length."""
    flat = dense.reshape(-1, *dense.shape[2:])
    return lists(flat, np.arange(len(dense) + 1) * dense.shape[1])


@peer.form("sequence_reverse")
def reverse(work: Workload) -> Form | None:
    if not usable(work):
        return None
    array = batch(work)
    return Form("awkward [:, ::-1]", lambda: packed_rows(array[:, ::-1]), rows)


@peer.form("sequence_slice")
def slices(work: Workload) -> Form | None:
    """Lists by starts and stops are views; packing copies the rows."""
    if not usable(work):
        return None
    begin = work.offsets[:-1] + work.load("starts")
    end = begin + work.load("counts")
    content = ak.contents.NumpyArray(work.x)

    def call() -> Any:
        return packed_rows(ak.Array(ak.contents.ListArray(ak.index.Index64(begin), ak.index.Index64(end), content)))

    return Form("awkward list by starts and stops, packed", call, rows, "starts and stops in rows prepared untimed")


@peer.form("sequence_concat")
def concat(work: Workload) -> Form | None:
    if not usable(work):
        return None
    first, second = batch(work), lists(work.load("x2"), work.load("offsets2"))
    return Form("awkward concatenate", lambda: packed_rows(ak.concatenate((first, second), axis=1)), rows)


@peer.form("select")
def select(work: Workload) -> Form | None:
    if not usable(work):
        return None
    array, chosen = batch(work), work.load("chosen")
    return Form("awkward [chosen], packed", lambda: packed_rows(array[chosen]), rows)


@peer.form("sequence_expand_as")
def expand(work: Workload) -> Form | None:
    if not usable(work) or work.row_size > 1:
        return None
    array = ak.Array(work.x)
    like = lists(np.zeros(int(work.offsets[-1]), np.int8), work.offsets)
    return Form("awkward broadcast_arrays", lambda: packed_rows(ak.broadcast_arrays(array, like)[0]), rows)


@peer.form("sequence_erase")
def erase(work: Workload) -> Form | None:
    x, offsets = work.x, work.offsets
    array, tokens = batch(work), [int(token) for token in work.parameters["tokens"]]

    def call() -> Any:
        keep = x != tokens[0]
        for token in tokens[1:]:
            keep &= x != token
        return packed_rows(array[lists(keep, offsets)])

    return Form("awkward boolean mask", call, rows, "makes the new offsets too")


@peer.form("sequence_sort")
def sort(work: Workload) -> Form | None:
    if not usable(work) or work.row_size > 1:
        return None
    array = batch(work)
    return Form("awkward sort", lambda: ak.sort(array, axis=1, stable=False), rows)


@peer.form("sequence_argsort")
def argsort(work: Workload) -> Form | None:
    if not usable(work) or work.row_size > 1:
        return None
    array = batch(work)

    def call() -> Any:
        order = ak.argsort(array, axis=1, stable=False)
        return array[order], order

    return Form("awkward argsort", call, lambda result: rows(result[0]))


@peer.form("sequence_topk")
def topk(work: Workload) -> Form | None:
    if not usable(work) or work.row_size > 1:
        return None
    array, k = batch(work), int(work.parameters["k"])
    return Form("awkward sort, slice", lambda: packed_rows(ak.sort(array, axis=1, ascending=False, stable=False)[:, :k]), rows)


@peer.form("embedding_pool")
def embedding(work: Workload) -> Form | None:
    if work.dtype not in ("float32", "float64"):
        return None
    table, ids, offsets = work.load("table"), work.load("ids"), work.offsets
    if len(ids) * table[:1].nbytes > protocol.PADDED_LIMIT:
        return None
    return Form("awkward sum of numpy take", lambda: ak.to_numpy(ak.sum(lists(np.take(table, ids, axis=0), offsets), axis=1)))


if __name__ == "__main__":
    peer.serve(version=f"awkward {ak.__version__}", threads=1)
