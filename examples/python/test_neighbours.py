# SPDX-License-Identifier: Apache-2.0
"""Tests of ragged batches from and for PyTorch, TensorFlow, awkward and JAX, each where it is installed.

PyTorch of PyPI crashes where TensorFlow was imported before it: choose one of them by -k.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import lodtensor as lt
from lodtensor import LoDTensor

SEED = random.randrange(1 << 32)
DTYPES = ["float32", "float64", "int8", "int16", "int32", "int64", "uint8"]


def needs(library: str) -> Callable[[Any], Any]:
    return unittest.skipUnless(importlib.util.find_spec(library), f"{library} is not installed")


def batches(levels: int, may_be_empty: bool = True) -> Iterator[LoDTensor]:
    """Batches of every element type and of rows of several shapes: a slice of each, too, which begins in the middle."""
    draw = random.Random(SEED)
    print(f"seed {SEED}", file=sys.stderr)
    least = 0 if may_be_empty else 1
    for dtype in DTYPES:
        for shape in [(), (3,), (2, 2), *([(0,)] if may_be_empty else [])]:
            lengths = [[draw.randint(least, 4) for _ in range(draw.randint(2, 5))]]
            for _ in range(levels - 1):
                lengths.append([draw.randint(least, 3) for _ in range(sum(lengths[-1]))])
            rows = sum(lengths[-1])
            values = np.arange(rows * int(np.prod(shape)), dtype=dtype).reshape((rows, *shape))
            x = LoDTensor.from_numpy(values, lengths=lengths)
            yield x
            yield x[1:]
    if may_be_empty:
        yield LoDTensor.from_numpy(np.zeros((0, 2)), lengths=[[]] * levels)
        yield LoDTensor.from_numpy(np.zeros((0, 2)), [[0] * (3 if level == 0 else 1) for level in range(levels)])


class Neighbours(unittest.TestCase):
    def assert_same(self, x: LoDTensor, y: LoDTensor) -> None:
        self.assertEqual((x.dtype, x.shape, x.lod), (y.dtype, y.shape, y.lod))
        np.testing.assert_array_equal(x.numpy(), y.numpy())

    def assert_shared(self, x: Any, y: Any) -> None:
        """Of values that are not empty, that both are in the same memory."""
        self.assertTrue(x.size == 0 or np.shares_memory(x, y))

    @needs("torch")
    def test_torch(self) -> None:
        import torch

        for x in batches(1):
            nested = lt.to_torch(x)
            self.assertEqual(nested.layout, torch.jagged)
            self.assertEqual([len(part) for part in nested.unbind()], x.lengths[0])
            self.assert_shared(x.numpy(), nested.values().numpy())
            self.assert_same(x, lt.from_torch(nested))
            self.assert_shared(x.numpy(), lt.from_torch(nested).numpy())
        plain = lt.to_torch(LoDTensor.from_numpy(np.ones((2, 3))))
        self.assertEqual(tuple(plain.shape), (2, 3))
        self.assert_same(LoDTensor.from_numpy(np.ones((2, 3))), lt.from_torch(plain))

    @needs("torch")
    def test_torch_as_torch_makes_them(self) -> None:
        import torch

        parts = [torch.arange(6.0).reshape(3, 2), torch.zeros(0, 2), torch.ones(1, 2, requires_grad=True)]
        made = lt.from_torch(torch.nested.as_nested_tensor(parts, layout=torch.jagged))
        self.assertEqual(made.lengths, [[3, 0, 1]])
        self.assertEqual(made.tolist(), [[[0, 1], [2, 3], [4, 5]], [], [[1, 1]]])
        padded = torch.arange(12.0).reshape(2, 6)
        holes = torch.nested.narrow(padded, 1, torch.tensor([1, 0]), torch.tensor([2, 3]), layout=torch.jagged)
        self.assertEqual(lt.from_torch(holes).tolist(), [[1, 2], [6, 7, 8]])
        halves = [torch.tensor([1.5], dtype=torch.bfloat16), torch.tensor([2.0, 3.0], dtype=torch.bfloat16)]
        bfloat16 = lt.from_torch(torch.nested.as_nested_tensor(halves, layout=torch.jagged))
        self.assertEqual((bfloat16.data_type, bfloat16.lengths), (lt.BF16, [[1, 2]]))
        for one, expected in zip(lt.to_torch(bfloat16).unbind(), halves):
            self.assertTrue(torch.equal(one, expected))

    @needs("torch")
    def test_torch_refuses(self) -> None:
        import torch

        with self.assertRaisesRegex(ValueError, "to_torch: 2 levels, expected 0 or 1"):
            lt.to_torch(LoDTensor([[[1.0]]]))
        with self.assertRaisesRegex(ValueError, "expected torch.jagged"):
            lt.from_torch(torch.nested.nested_tensor([torch.ones(2)], layout=torch.strided))
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged)
        with self.assertRaisesRegex(ValueError, "ragged dimension"):
            lt.from_torch(nested.transpose(1, 2))

    @needs("torch")
    def test_packed_sequence(self) -> None:
        import torch
        from torch.nn.utils import rnn

        for x in batches(1, may_be_empty=False):
            packed = lt.to_packed_sequence(x)
            parts = [torch.from_dlpack(part) for part in x]
            expected = rnn.pack_sequence(parts, enforce_sorted=False)
            self.assertEqual(packed.batch_sizes.tolist(), expected.batch_sizes.tolist())
            for ours, theirs in zip(rnn.unpack_sequence(packed), parts):
                self.assertTrue(torch.equal(ours, theirs))
            self.assert_same(x, lt.from_packed_sequence(packed))
            self.assert_same(x, lt.from_packed_sequence(expected))
        sorted_ones = rnn.pack_sequence([torch.ones(3), torch.zeros(1)])
        self.assertEqual(lt.from_packed_sequence(sorted_ones).tolist(), [[1, 1, 1], [0]])
        for x in (LoDTensor([[1.0], []]), LoDTensor.from_numpy(np.zeros(0), lengths=[[]])):
            with self.assertRaisesRegex(ValueError, "an empty sequence, or none"):
                lt.to_packed_sequence(x)
        with self.assertRaisesRegex(ValueError, "0 levels, expected 1"):
            lt.to_packed_sequence(LoDTensor.from_numpy(np.ones(2)))

    @needs("tensorflow")
    def test_tensorflow(self) -> None:
        for levels in (1, 2, 3):
            for x in batches(levels):
                ragged = lt.to_tensorflow(x)
                self.assertEqual(ragged.ragged_rank, levels)
                self.assertEqual(ragged.to_list(), x.tolist())
                self.assert_same(x, lt.from_tensorflow(ragged))
        plain = LoDTensor.from_numpy(np.arange(6.0).reshape(2, 3))
        self.assert_same(plain, lt.from_tensorflow(lt.to_tensorflow(plain)))

    @needs("awkward")
    def test_awkward(self) -> None:
        import awkward as ak

        for levels in (1, 2, 3):
            for x in batches(levels):
                array = lt.to_awkward(x)
                self.assertEqual(ak.to_list(array), x.tolist())
                self.assert_shared(x.numpy(), np.asarray(ak.flatten(array, axis=None)))
                self.assert_same(x, lt.from_awkward(array))
                self.assert_shared(x.numpy(), lt.from_awkward(array).numpy())
        plain = LoDTensor.from_numpy(np.arange(6.0).reshape(2, 3))
        self.assert_same(plain, lt.from_awkward(lt.to_awkward(plain)))

    @needs("awkward")
    def test_awkward_as_awkward_makes_them(self) -> None:
        import awkward as ak

        array = ak.Array([[[1, 2], []], [], [[3]]])
        for one in (array, array[[2, 0, 1]], array[::-1], array[1:], array[:, ::-1], ak.from_iter([], highlevel=True)):
            if len(one):
                self.assertEqual(lt.from_awkward(one).tolist(), ak.to_list(one))
        boxes = ak.to_regular(ak.Array([[[1, 2], [3, 4]], [], [[5, 6]]]), axis=2)
        self.assertEqual((lt.from_awkward(boxes).lengths, lt.from_awkward(boxes).shape), ([[2, 0, 1]], (3, 2)))
        pairs = ak.to_regular(ak.Array([[[1, 2], [3]], [[], [4]]]), axis=1)
        self.assertEqual(lt.from_awkward(pairs).lengths, [[2, 2], [2, 1, 0, 1]])
        for wrong in (ak.Array(["words"]), ak.Array([[1, None]]), ak.Array([{"x": 1}]), ak.Array([1, [2]])):
            with self.assertRaisesRegex(ValueError, "from_awkward: .*expected lists of numbers"):
                lt.from_awkward(wrong)

    @needs("jax")
    def test_jax(self) -> None:
        for levels in (1, 2):
            for x in batches(levels):
                if x.dtype.itemsize == 8:
                    continue  # JAX makes 32 bits of them unless it is told otherwise
                values, offsets = lt.to_jax(x)
                self.assertEqual([level.tolist() for level in offsets], x.lod)
                self.assert_same(x, lt.from_jax(values, offsets))


if __name__ == "__main__":
    unittest.main()
