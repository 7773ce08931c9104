# SPDX-License-Identifier: Apache-2.0
"""Ragged batches of PyTorch, TensorFlow, awkward and JAX, to LoD tensors and back.

Values are not copied where the other library can take memory that is not its own, and where they lie in the same order:
everywhere but in a PackedSequence, which has them by time steps. So what is written to one is seen in the other. Offsets
are copied, since each library checks its own.

Each function imports its library when it is called. What a library cannot express is a ValueError that says so: PyTorch's
nested tensors have one ragged dimension, a PackedSequence has no empty sequences, and so on. NumPy and Arrow need no
function: `LoDTensor.from_numpy`, `numpy.asarray(x)`, `LoDTensor.from_arrow`, `pyarrow.array(x)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._core import LoDTensor, RankTable, to_time_major

__all__ = [
    "from_awkward", "from_jax", "from_packed_sequence", "from_tensorflow", "from_torch",
    "to_awkward", "to_jax", "to_packed_sequence", "to_tensorflow", "to_torch",
]  # fmt: skip


def _expect_levels(x: LoDTensor, function: str, expected: str, fits: bool) -> None:
    if not fits:
        raise ValueError(f"{function}: {x.levels} levels, expected {expected}")


def to_torch(x: LoDTensor) -> Any:
    """A nested tensor of the layout torch.jagged, on the memory of x; without levels, a plain tensor.

    Throws ValueError for more than one level: nested tensors have one ragged dimension.
    """
    import torch

    _expect_levels(x, "to_torch", "0 or 1: nested tensors have one ragged dimension", x.levels <= 1)
    values = torch.from_dlpack(x)
    if x.levels == 0:
        return values
    return torch.nested.nested_tensor_from_jagged(values, torch.tensor(x.lod[0], dtype=torch.int64))


def from_torch(tensor: Any) -> LoDTensor:
    """A tensor with one level on the memory of a nested tensor; without levels on that of a plain one.

    The ragged dimension must be the one after the batch, and the layout torch.jagged. A nested tensor with holes between
    its sequences, as `torch.nested.narrow` makes them, is copied. Gradients do not pass.
    """
    import torch

    if not tensor.is_nested:
        return LoDTensor.from_dlpack(tensor.detach())
    if tensor.layout != torch.jagged:
        raise ValueError(f"from_torch: a nested tensor of the layout {tensor.layout}, expected torch.jagged")
    sizes = tensor.size()
    if isinstance(sizes[1], int) or any(not isinstance(size, int) for size in sizes[2:]):
        raise ValueError("from_torch: a nested tensor whose ragged dimension is not dimension 1, as if transposed")
    values, offsets, lengths = tensor.values().detach(), tensor.offsets().tolist(), tensor.lengths()
    if lengths is None:
        first, last = offsets[0], offsets[-1]
        return LoDTensor.from_dlpack(values[first:last], [[offset - first for offset in offsets]])
    counts = lengths.tolist()
    rows = [values[begin : begin + count] for begin, count in zip(offsets, counts)]
    return LoDTensor.from_dlpack(torch.cat(rows) if rows else values[:0], lengths=[counts])


def to_packed_sequence(x: LoDTensor) -> Any:
    """A torch.nn.utils.rnn.PackedSequence, which remembers the order of the sequences. Copies.

    Throws ValueError unless x has one level, and for an empty sequence or none, which PackedSequence does not have.
    """
    import torch

    _expect_levels(x, "to_packed_sequence", "1", x.levels == 1)
    if not x.lengths[0] or 0 in x.lengths[0]:
        raise ValueError("to_packed_sequence: an empty sequence, or none, which a PackedSequence does not have")
    table = RankTable(x)
    steps = to_time_major(x, table)
    order = torch.tensor([index for index, _ in table.items], dtype=torch.int64)
    return torch.nn.utils.rnn.PackedSequence(
        torch.from_dlpack(LoDTensor.from_numpy(steps.numpy())), torch.tensor(steps.lengths[0]), order, order.argsort()
    )


def from_packed_sequence(packed: Any) -> LoDTensor:
    """A tensor with one level, its sequences in the order that they had before they were packed. Copies."""
    sizes = packed.batch_sizes.numpy()
    count = int(sizes[0])
    order = np.arange(count) if packed.sorted_indices is None else packed.sorted_indices.numpy()
    lengths = np.zeros(count, dtype=np.int64)
    lengths[order] = (sizes[:, None] > np.arange(count)).sum(axis=0)
    begins = np.cumsum(sizes) - sizes
    index = np.concatenate([begins[:length] + rank for length, rank in zip(lengths, np.argsort(order))])
    return LoDTensor.from_dlpack(packed.data.detach()[index], lengths=[lengths.tolist()])


def to_tensorflow(x: LoDTensor) -> Any:
    """A tf.RaggedTensor with as many ragged dimensions as x has levels; without levels a tf.Tensor."""
    import tensorflow as tf

    values = tf.convert_to_tensor(x.numpy())
    if x.levels == 0:
        return values
    splits = [np.asarray(level, dtype=np.int64) for level in x.lod]
    return tf.RaggedTensor.from_nested_row_splits(values, splits)


def from_tensorflow(ragged: Any) -> LoDTensor:
    """A tensor with a level for each ragged dimension of a tf.RaggedTensor, on the memory of its values.

    That memory is read-only here, as it is there.
    """
    if not hasattr(ragged, "flat_values"):
        return LoDTensor.from_numpy(ragged.numpy())
    splits = [level.numpy().tolist() for level in ragged.nested_row_splits]
    return LoDTensor.from_numpy(ragged.flat_values.numpy(), splits)


def to_awkward(x: LoDTensor) -> Any:
    """An ak.Array on the memory of x: lists for the levels, regular dimensions for the shape of a row."""
    import awkward as ak

    layout = ak.contents.NumpyArray(x.numpy())
    for level in reversed(x.lod):
        layout = ak.contents.ListOffsetArray(ak.index.Index64(np.asarray(level, dtype=np.int64)), layout)
    return ak.Array(layout)


def from_awkward(array: Any) -> LoDTensor:
    """A tensor with a level for each list of variable length, on the memory of the values if these lie one after the other.

    Regular dimensions after the last of these are the shape of a row; those before it are levels too. Throws ValueError
    for what no tensor holds: records, unions, strings, missing values.
    """
    import awkward as ak

    layout = ak.to_layout(array)
    sizes: list[int | None] = []
    inner = layout
    while not inner.is_numpy:
        if inner.is_indexed and not inner.is_option:
            inner = inner.project()
            continue
        if not inner.is_list or inner.parameter("__array__") is not None:
            raise ValueError(f"from_awkward: {inner.form.type}, expected lists of numbers")
        sizes.append(inner.size if inner.is_regular else None)
        inner = inner.content
    levels: list[list[int]] = []
    rows = len(layout)
    for depth, size in enumerate(sizes):
        layout = layout.project() if layout.is_indexed else layout
        if None in sizes[depth:]:
            layout = layout.to_ListOffsetArray64(True)
            levels.append(layout.offsets.data.tolist())
            rows = levels[-1][-1]
            layout = layout.content[:rows]
        else:
            assert size is not None
            layout = layout.content[: size * len(layout)]
    layout = layout.project() if layout.is_indexed else layout
    values = np.asarray(layout.data)
    row_shape = [size for size in sizes[len(levels) :] if size is not None]
    return LoDTensor.from_numpy(values.reshape((rows, *row_shape, *values.shape[1:])), levels)


def to_jax(x: LoDTensor) -> tuple[Any, list[Any]]:
    """The rows of x as a jax.Array, on the memory of x unless that is read-only, and the offsets of each level as
    another, outermost first."""
    import jax.numpy as jnp

    try:
        values = jnp.from_dlpack(x)
    except BufferError:  # JAX asks for a version of DLPack that does not know what is read-only
        values = jnp.asarray(x.numpy())
    return values, [jnp.asarray(np.asarray(level, dtype=np.int32)) for level in x.lod]


def from_jax(values: Any, offsets: Any = ()) -> LoDTensor:
    """A tensor of rows and offsets as `to_jax` returns them, on the memory of the rows, which is read-only."""
    return LoDTensor.from_numpy(np.asarray(values), [np.asarray(level).tolist() for level in offsets])
