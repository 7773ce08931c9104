# SPDX-License-Identifier: Apache-2.0
"""FBGEMM's jagged operators and its table-batched embedding on the CPU."""

from __future__ import annotations

import contextlib
import warnings
from importlib import metadata
from typing import Any

import protocol
from protocol import Form, Workload

peer = protocol.start("fbgemm")
try:
    import numpy as np
    import torch

    with contextlib.redirect_stdout(None):
        import fbgemm_gpu  # noqa: F401  (registers torch.ops.fbgemm)
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
        from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
            ComputeDevice,
            OptimType,
            SplitTableBatchedEmbeddingBagsCodegen,
        )
    from torch import Tensor
except (ImportError, OSError) as error:
    peer.missing(error)

warnings.filterwarnings("ignore")
torch.set_num_threads(peer.threads)
torch.set_grad_enabled(False)
ops = torch.ops.fbgemm

FLOATS = ("float32", "float64", "float16", "bfloat16")


def tensor(array: Any, dtype: str = "") -> Tensor:
    """The array as a tensor that shares its memory. NumPy has no bfloat16, so that comes as two bytes of something."""
    if dtype == "bfloat16" and array.dtype.itemsize == 2:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array))


def rows_of(work: Workload, name: str = "x") -> Tensor:
    """The rows as [rows, row size], which is what most of the operators take."""
    x = tensor(work.load(name), work.dtype)
    return x.unsqueeze(1) if x.dim() == 1 else x


def to_numpy(result: Any) -> Any:
    if isinstance(result, Tensor):
        return (result.float() if result.dtype == torch.bfloat16 else result).numpy()
    return [to_numpy(part) for part in result]


@peer.form("sequence_pool", "sequence_expand_as_grad")
def segment_sum(work: Workload) -> Form | None:
    """segment_sum_csr sums scalars only."""
    if work.row_size > 1 or work.variant in ("AVERAGE", "MAX"):
        return None
    x, offsets = rows_of(work).view(-1), tensor(work.offsets)
    return Form("fbgemm segment_sum_csr", lambda: ops.segment_sum_csr(1, offsets, x))


@peer.form("sequence_softmax")
def softmax(work: Workload) -> Form | None:
    x, offsets, longest = rows_of(work), tensor(work.offsets), work.longest
    return Form("fbgemm jagged_softmax", lambda: ops.jagged_softmax(x, offsets, longest)[0])


@peer.form("sequence_pad")
def pad(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    x, offsets, length = rows_of(work), [tensor(work.offsets)], [work.padded_length]
    if work.row_size == 1:
        x = x.view(-1)
        name = "jagged_1d_to_dense"
        return Form(f"fbgemm {name}", lambda: ops.jagged_1d_to_dense(x, offsets[0], length[0], 0))
    return Form("fbgemm jagged_to_padded_dense", lambda: ops.jagged_to_padded_dense(x, offsets, length, 0.0))


@peer.form("sequence_unpad")
def unpad(work: Workload) -> Form | None:
    if not work.padded_fits():
        return None
    offsets, total = [tensor(work.offsets)], int(work.offsets[-1])
    dense = tensor(work.padded, work.dtype).view(work.sequences, work.padded_length, -1)
    return Form("fbgemm dense_to_jagged", lambda: ops.dense_to_jagged(dense, offsets, total)[0])


@peer.form("select")
def index_select(work: Workload) -> Form | None:
    x, lengths, chosen = rows_of(work), tensor(work.lengths), tensor(work.load("chosen"))
    total = int(lengths[chosen].sum())
    return Form("fbgemm jagged_index_select", lambda: ops.jagged_index_select(x, lengths, chosen, total)[0])


@peer.form("select")
def permute_select(work: Workload) -> Form | None:
    if work.row_size > 1:
        return None
    x, lengths, chosen = rows_of(work).view(-1), tensor(work.lengths), tensor(work.load("chosen")).int()
    total = int(lengths[chosen.long()].sum())
    return Form(
        "fbgemm permute_1D_sparse_data",
        lambda: ops.permute_1D_sparse_data(chosen, lengths, x, None, total)[1],
        note="sequence numbers converted to int32 untimed",
    )


@peer.form("sequence_concat")
def concat(work: Workload) -> Form | None:
    """The second batch behind the first, then the sequences of both by turns."""
    x, x2 = rows_of(work), rows_of(work, "x2")
    lengths, lengths2 = tensor(work.lengths), tensor(np.diff(work.load("offsets2")))
    turns = torch.arange(2 * len(lengths)).view(2, -1).t().reshape(-1).contiguous()
    total = len(x) + len(x2)
    rows = torch.empty((total, x.shape[1]), dtype=x.dtype)
    if work.row_size == 1:
        x, x2, rows = x.view(-1), x2.view(-1), rows.view(-1)
        narrow = turns.int()

        def call() -> Tensor:
            torch.cat((x, x2), out=rows)
            return ops.permute_1D_sparse_data(narrow, torch.cat((lengths, lengths2)), rows, None, total)[1]

        return Form("fbgemm cat, permute_1D_sparse_data", call)

    def call() -> Tensor:
        torch.cat((x, x2), out=rows)
        return ops.jagged_index_select(rows, torch.cat((lengths, lengths2)), turns, total)[0]

    return Form("fbgemm cat, jagged_index_select", call)


@peer.form("sequence_erase")
def erase(work: Workload) -> Form | None:
    x, lengths = tensor(work.x), tensor(work.lengths)
    tokens = [int(token) for token in work.parameters["tokens"]]
    table = torch.tensor(tokens, dtype=x.dtype)
    keep, hit = torch.empty(len(x), dtype=torch.bool), torch.empty(len(x), dtype=torch.bool)

    def mask() -> Tensor:
        if len(tokens) > 4:
            return torch.isin(x, table, invert=True)
        torch.ne(x, tokens[0], out=keep)
        for token in tokens[1:]:
            keep.logical_and_(torch.ne(x, token, out=hit))
        return keep

    def call() -> Any:
        return ops.masked_select_jagged_1d(x, lengths, mask())

    note = "the mask is torch's; makes the new lengths too"
    return Form("fbgemm masked_select_jagged_1d", call, lambda result: to_numpy(result[0]), note)


@peer.form("embedding_pool")
def table_batched(work: Workload) -> Form | None:
    """The forward pass of the table-batched embedding, with one table."""
    # Its tables have rows of a multiple of four elements.
    if work.dtype != "float32" or work.row_size % 4:
        return None
    table = rows_of(work, "table")
    ids, offsets = tensor(work.load("ids")), tensor(work.offsets)
    module = SplitTableBatchedEmbeddingBagsCodegen(
        [(*table.shape, EmbeddingLocation.HOST, ComputeDevice.CPU)],
        optimizer=OptimType.EXACT_SGD,
        pooling_mode=PoolingMode.SUM,
    )
    module.split_embedding_weights()[0].copy_(table)
    return Form("fbgemm table-batched embedding", lambda: module(ids, offsets))


if __name__ == "__main__":
    peer.serve(
        version=f"fbgemm-gpu-cpu {metadata.version('fbgemm-gpu-cpu')}, torch {torch.__version__.split('+')[0]}",
        blas="",
        to_numpy=to_numpy,
    )
