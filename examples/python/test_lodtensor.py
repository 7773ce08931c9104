# SPDX-License-Identifier: Apache-2.0
"""Tests of tensors in Python. The parts for pyarrow, polars and PyTorch are skipped where these are not installed."""

from __future__ import annotations

import ctypes
import doctest
import gc
import importlib.util
import os
import random
import sys
import tempfile
import threading
import time
import unittest
import weakref
from pathlib import Path
from typing import Any

import numpy as np

import lodtensor as lt
from lodtensor import LoDTensor

HERE = Path(__file__).resolve().parent

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64",
          "float16", "float32", "float64", "complex64", "complex128"]  # fmt: skip
ARROW_DTYPES = DTYPES[1:11]

ARTICLES = [[[1, 2, 3], [4, 5], [6, 7, 8, 9]], [[10]], [[11, 12], [13, 14, 15]]]
LENGTHS = [[3, 1, 2], [3, 2, 4, 1, 2, 3]]
LOD = [[0, 3, 4, 6], [0, 3, 5, 9, 10, 12, 15]]


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def random_batch(draw: random.Random, levels: int) -> list[Any]:
    """Nested lists whose scalar rows count from 0; empty sequences are ordinary."""
    rows = iter(range(10**6))

    def sequence(level: int) -> list[Any]:
        count = draw.randrange(4)
        return [next(rows) if level == 0 else sequence(level - 1) for _ in range(count)]

    return sequence(levels)


def call_without_lock(callback: int, argument: int) -> None:
    """Calls a function of C in a thread of its own, without Python's lock, as another library may do."""
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(callback)
    thread = threading.Thread(target=function, args=(argument,))
    thread.start()
    thread.join()


def content(capsule: object, name: bytes) -> int:
    """The address in a capsule."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


def pointer_at(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0


class Freed:
    """Tells whether an object has been freed without the help of the cycle collector."""

    def __init__(self, what: Any) -> None:
        self.reference = weakref.ref(what)

    def __bool__(self) -> bool:
        return self.reference() is None


class WithoutCollector(unittest.TestCase):
    """Whatever is freed here, is freed by its count of references alone."""

    def setUp(self) -> None:
        gc.disable()
        self.addCleanup(gc.enable)


class NestedLists(unittest.TestCase):
    def test_lists_are_sequences(self) -> None:
        x = LoDTensor(ARTICLES, dtype="int32")
        self.assertEqual(x.lengths, LENGTHS)
        self.assertEqual(x.lod, LOD)
        self.assertEqual(x.tolist(), ARTICLES)
        self.assertEqual((x.shape, x.dtype, x.data_type, x.levels, len(x)), ((15,), np.int32, lt.INT32, 2, 3))

    def test_tuples_and_arrays_are_rows(self) -> None:
        x = LoDTensor([[(1, 2), (3, 4)], [], [np.array([5, 6])]], dtype=lt.FP64)
        self.assertEqual((x.shape, x.lengths), ((3, 2), [[2, 0, 1]]))
        self.assertEqual(x.tolist(), [[[1, 2], [3, 4]], [], [[5, 6]]])

    def test_dtypes_are_those_of_numpy_where_none_is_named(self) -> None:
        for value in (True, 1, 1.5, 1j):
            self.assertEqual(LoDTensor([[value]]).dtype, np.array([value]).dtype)

    def test_random_batches_come_back(self) -> None:
        seed = random.randrange(2**32)
        draw = random.Random(seed)
        for _ in range(200):
            levels = draw.randrange(4)
            batch = random_batch(draw, levels)
            with self.subTest(seed=seed, batch=batch):
                x = LoDTensor(batch, levels=levels, dtype="int64")
                self.assertEqual((x.levels, x.tolist()), (levels, batch))

    def test_batches_without_rows(self) -> None:
        self.assertEqual(LoDTensor([]).shape, (0,))
        self.assertEqual(LoDTensor([[], []]).lod, [[0, 0, 0]])
        self.assertEqual(LoDTensor([[[]], []]).lod, [[0, 1, 1], [0, 0]])
        self.assertEqual(LoDTensor([], levels=2).lod, [[0], [0]])

    def test_uneven_depths_are_refused(self) -> None:
        for nested in ([1, [2]], [[1], [[2]]], [[[]], [1]], [[1], 2]):
            with self.subTest(nested=nested), self.assertRaises(ValueError):
                LoDTensor(nested)
        with self.assertRaises(ValueError):
            LoDTensor([[1]], levels=2)
        with self.assertRaises(ValueError):
            LoDTensor([[]], levels=0)

    def test_lists_without_an_end_are_refused(self) -> None:
        endless: list[Any] = []
        endless.append(endless)
        with self.assertRaises(ValueError):
            LoDTensor(endless)

    def test_values_that_are_no_numbers_are_refused(self) -> None:
        with self.assertRaises(TypeError):
            LoDTensor([["text"]])
        with self.assertRaises(TypeError):
            LoDTensor([[1]], dtype="uint16")
        with self.assertRaisesRegex(TypeError, "BF16"):
            LoDTensor([[1]], dtype=lt.BF16)


class NumPy(WithoutCollector):
    def test_memory_is_shared_for_every_dtype(self) -> None:
        for dtype in DTYPES:
            with self.subTest(dtype=dtype):
                values = np.arange(6).reshape(3, 2).astype(dtype)
                x = LoDTensor.from_numpy(values, lod=[[0, 2, 2, 3]])
                self.assertEqual(x.dtype, values.dtype)
                self.assertEqual(address(x.numpy()), address(values))
                self.assertTrue(np.array_equal(x.numpy(), values))
                self.assertEqual(x[0].numpy().tolist(), values[:2].tolist())

    def test_what_is_written_on_one_side_is_seen_on_the_other(self) -> None:
        values = np.zeros((3, 2))
        x = LoDTensor.from_numpy(values, lengths=[[1, 2]])
        values[0] = 1
        x.numpy()[1] = 2
        x[1].numpy()[1] = 3
        self.assertEqual(x.tolist(), [[[1, 1]], [[2, 2], [3, 3]]])
        self.assertEqual(values.tolist(), [[1, 1], [2, 2], [3, 3]])

    def test_a_read_only_array_stays_so(self) -> None:
        values = np.arange(4.0)
        values.flags.writeable = False
        x = LoDTensor.from_numpy(values, lengths=[[2, 2]])
        self.assertTrue(x.read_only)
        for view in (x.numpy(), x[1].numpy(), np.asarray(x.slice(0))):
            self.assertFalse(view.flags.writeable)
            with self.assertRaises(ValueError):
                view.flags.writeable = True
        self.assertTrue(LoDTensor.from_numpy(b"abc").read_only)

    def test_an_array_with_gaps_is_copied_unless_that_is_forbidden(self) -> None:
        values = np.arange(12.0).reshape(6, 2)[::2]
        x = LoDTensor.from_numpy(values, lengths=[[3]])
        self.assertEqual(x[0].tolist(), values.tolist())
        self.assertFalse(x.read_only)
        for gapped in (values, np.asfortranarray(np.ones((2, 2)))):
            with self.assertRaises(ValueError):
                LoDTensor.from_numpy(gapped, copy=False)
        unaligned = np.frombuffer(b"\0" + np.arange(3.0).tobytes(), dtype=np.uint8)[1:].view(np.float64)
        self.assertEqual(LoDTensor.from_numpy(unaligned).tolist(), [0, 1, 2])
        with self.assertRaises(ValueError):
            LoDTensor.from_numpy(unaligned, copy=False)

    def test_copy_makes_a_copy(self) -> None:
        values = np.arange(3.0)
        x = LoDTensor.from_numpy(values, copy=True)
        self.assertNotEqual(address(x.numpy()), address(values))
        self.assertEqual(x.tolist(), values.tolist())

    def test_arrays_without_elements(self) -> None:
        for shape, lengths in (((0,), [[]]), ((0, 3), [[0, 0]]), ((4, 0), [[1, 3]]), ((0,), None)):
            with self.subTest(shape=shape):
                x = LoDTensor.from_numpy(np.empty(shape), lengths=lengths)
                self.assertEqual((x.shape, x.numpy().shape), (shape, shape))
                for i in range(len(x)):
                    self.assertEqual(x[i].shape[1:], shape[1:])

    def test_levels_may_be_arrays(self) -> None:
        values = np.arange(15)
        for kind in (np.int64, np.int32):
            x = LoDTensor.from_numpy(values, [np.array(level, kind) for level in LOD])
            self.assertEqual(x.lod, LOD)
        with self.assertRaises(TypeError):
            LoDTensor.from_numpy(values, [[0, 15.0]])
        with self.assertRaises(OverflowError):
            LoDTensor.from_numpy(values, [[0, 1 << 64]])
        strided = np.array([0, 9, 7, 9, 15, 9])[::2]
        self.assertEqual(LoDTensor.from_numpy(values, [strided]).lod, [[0, 7, 15]])

    def test_levels_are_the_callers_no_more(self) -> None:
        offsets = np.array([0, 1, 3])
        x = LoDTensor.from_numpy(np.arange(3), [offsets])
        offsets[1] = 100
        self.assertEqual(x.lod, [[0, 1, 3]])

    def test_dtypes_that_tensors_lack_are_refused(self) -> None:
        for array in (np.zeros(2, "uint16"), np.zeros(2, "U3"), np.zeros(2, ">f4"), np.zeros(2, "i4,f4"),
                      np.zeros(2, "longdouble")):  # fmt: skip
            with self.subTest(dtype=array.dtype), self.assertRaises(TypeError):
                LoDTensor.from_numpy(array)
        with self.assertRaises(TypeError):
            LoDTensor.from_numpy([1, 2])
        with self.assertRaises(ValueError):
            LoDTensor.from_numpy(np.array(1.0))
        with self.assertRaises(ValueError):
            LoDTensor.from_numpy(np.zeros((1,) * 9))

    def test_a_tensor_keeps_the_array(self) -> None:
        values = np.arange(3.0)
        freed = Freed(values)
        x = LoDTensor.from_numpy(values, lengths=[[3]])
        del values
        part = x[0]
        del x
        self.assertFalse(freed)
        self.assertEqual(part.tolist(), [0, 1, 2])
        del part
        self.assertTrue(freed)

    def test_an_array_keeps_the_tensor(self) -> None:
        x = LoDTensor([[1.0, 2.0]])
        freed = Freed(x)
        view = x.numpy()[1:]
        del x
        self.assertFalse(freed)
        self.assertEqual(view.tolist(), [2])
        del view
        self.assertTrue(freed)

    def test_what_is_refused_is_not_kept(self) -> None:
        values = np.arange(3.0)
        freed = Freed(values)
        with self.assertRaises(ValueError):
            LoDTensor.from_numpy(values, lengths=[[4]])
        del values
        self.assertTrue(freed)

    def test_levels_are_lists_of_lists(self) -> None:
        for given, expected in (
            ({"lengths": [1, 2]}, r"lengths: .*\[\[2, 3\]\]"),
            ({"lod": [0, 3]}, r"lod: .*\[\[0, 2, 5\]\]"),
        ):
            with self.subTest(given=given), self.assertRaisesRegex(TypeError, expected):
                LoDTensor.from_numpy(np.arange(3.0), **given)

    def test_memoryviews(self) -> None:
        view = memoryview(LoDTensor([[(1, 2), (3, 4)]], dtype="int32"))
        self.assertEqual((view.shape, view.strides, view.format, view.readonly), ((2, 2), (8, 4), "i", False))
        self.assertEqual(view.tolist(), [[1, 2], [3, 4]])

    def test_memory_is_given_back_from_a_thread_of_another_library(self) -> None:
        values = np.arange(3.0)
        freed = Freed(values)
        holder = [LoDTensor.from_numpy(values, lengths=[[3]]).numpy()]
        del values
        thread = threading.Thread(target=holder.clear)
        thread.start()
        thread.join()
        self.assertTrue(freed)


class Slices(unittest.TestCase):
    def setUp(self) -> None:
        self.x = LoDTensor(ARTICLES)

    def test_elements_have_one_level_fewer(self) -> None:
        self.assertEqual([article.tolist() for article in self.x], ARTICLES)
        self.assertEqual(self.x[2].lod, [[0, 2, 5]])
        self.assertEqual(self.x[2].absolute_lod, [[10, 12, 15]])
        self.assertEqual((self.x[2][0].tolist(), self.x[2][0].first_row), ([11, 12], 10))
        self.assertEqual(self.x[0][0][1].tolist(), [2])
        self.assertEqual(self.x[-1].tolist(), ARTICLES[-1])

    def test_ranges_keep_their_levels(self) -> None:
        for begin in (None, 0, 1, 3, 7, -2):
            for end in (None, 0, 2, 3, -1):
                with self.subTest(begin=begin, end=end):
                    self.assertEqual(self.x[begin:end].tolist(), ARTICLES[begin:end])
        self.assertEqual(self.x[1:][1][1:].tolist(), [[13, 14, 15]])
        with self.assertRaises(ValueError):
            self.x[::2]

    def test_slices_of_branches_keep_the_branch(self) -> None:
        self.assertEqual(self.x.slice(2).absolute_lod, [[10, 15], [10, 12, 15]])
        self.assertEqual(self.x.slice(2, 0).absolute_lod, [[10, 12]])
        self.assertEqual(self.x.slice(2, 0).tolist(), [[11, 12]])
        self.assertEqual(self.x.slice().tolist(), ARTICLES)

    def test_slices_share_the_memory(self) -> None:
        whole = self.x.numpy()
        for part in (self.x[2], self.x[2:], self.x.slice(2), self.x[2][0], self.x.slice(2, 0)):
            self.assertEqual(address(part.numpy()), address(whole) + 10 * whole.itemsize)
        self.x[2][0].numpy()[:] = 0
        self.assertEqual(self.x[2].tolist(), [[0, 0], [13, 14, 15]])

    def test_what_is_out_of_range_is_an_index_error(self) -> None:
        for wrong in (lambda: self.x[3], lambda: self.x[-4], lambda: self.x.slice(3), lambda: self.x.slice(0, 3),
                      lambda: self.x.slice(0, 0, 0), lambda: self.x.slice(-1)):  # fmt: skip
            with self.assertRaises(lt.OutOfRange):
                wrong()
        with self.assertRaisesRegex(lt.OutOfRange, "element -4 of 3 sequences"):
            self.x[-4]
        self.assertTrue(issubclass(lt.OutOfRange, IndexError))

    def test_texts_are_the_librarys(self) -> None:
        x = LoDTensor([[[1, 2], [3]], [[4, 5, 6]]], dtype="int32")
        self.assertEqual(repr(x), "LoDTensor INT32 {6}, LoD {{0, 2, 3}, {0, 2, 3, 6}}\n"
                                  "[[[1, 2],\n  [3]],\n [[4, 5, 6]]]")  # fmt: skip
        self.assertEqual(repr(x[1]), "LoDTensorView INT32 {3}, first row 3, absolute LoD {{3, 6}}\n[[4, 5, 6]]")
        for dtype in DTYPES:
            self.assertIn("LoDTensor", repr(LoDTensor([[0], []], dtype=dtype)))


class Errors(unittest.TestCase):
    def test_errors_are_pythons(self) -> None:
        values = np.arange(3)
        for lod in ([[0, 2, 1, 3]], [[1, 3]], [[]], [[0, 1], [0, 2, 3]]):
            with self.subTest(lod=lod), self.assertRaises(lt.InvalidLoD):
                LoDTensor.from_numpy(values, lod)
        with self.assertRaises(lt.ShapeMismatch):
            LoDTensor.from_numpy(values, lengths=[[4]])
        with self.assertRaises(lt.InvalidLoD):
            LoDTensor.from_numpy(values, lengths=[[-1, 4]])
        with self.assertRaises(ValueError):
            LoDTensor.from_numpy(values, [[0, 3]], lengths=[[3]])
        for error in (lt.InvalidLoD, lt.ShapeMismatch, lt.ParseError):
            self.assertTrue(issubclass(error, ValueError))

    def test_parse_errors_say_where(self) -> None:
        with self.assertRaises(lt.ParseError) as caught:
            lt.Variable.from_proto(b"\x0a\x7f")
        self.assertEqual(caught.exception.position, 1)
        self.assertIn("(at byte 1)", str(caught.exception))


class DLPack(WithoutCollector):
    def test_numpy_takes_the_rows(self) -> None:
        for dtype in DTYPES:
            if dtype == "bool" and np.__version__ < "1.25":
                continue  # NumPy's own limit
            with self.subTest(dtype=dtype):
                x = LoDTensor.from_numpy(np.ones((3, 2), dtype), lengths=[[1, 2]])
                array = np.from_dlpack(x[1])
                self.assertEqual((address(array), array.shape), (address(x[1].numpy()), (2, 2)))
                self.assertEqual(array.dtype, np.dtype(dtype))

    def test_numpy_gives_the_rows(self) -> None:
        values = np.arange(6.0).reshape(3, 2)
        x = LoDTensor.from_dlpack(values, lengths=[[1, 2]])
        self.assertEqual(address(x.numpy()), address(values))
        self.assertEqual(x[1].tolist(), values[1:].tolist())
        self.assertFalse(x.read_only)

    def test_owners_are_kept_and_let_go(self) -> None:
        values = np.arange(3.0)
        freed = Freed(values)
        x = LoDTensor.from_dlpack(values)
        del values
        array = np.from_dlpack(x)
        del x
        self.assertFalse(freed)
        self.assertEqual(array.tolist(), [0, 1, 2])
        del array
        self.assertTrue(freed)

    def test_a_capsule_that_nobody_takes_lets_go(self) -> None:
        values = np.arange(3.0)
        freed = Freed(values)
        x = LoDTensor.from_numpy(values)
        capsules = [x.__dlpack__(), x.__dlpack__(max_version=(1, 0))]
        del values, x
        self.assertFalse(freed)
        del capsules
        self.assertTrue(freed)

    def test_deleters_may_be_called_without_pythons_lock(self) -> None:
        values = np.arange(3.0)
        freed = Freed(values)
        capsule = LoDTensor.from_numpy(values).__dlpack__()
        del values
        managed = content(capsule, b"dltensor")
        rename = ctypes.pythonapi.PyCapsule_SetName
        rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
        used = b"used_dltensor"
        rename(capsule, used)
        deleter = pointer_at(managed + 56)  # after the DLTensor and manager_ctx
        self.assertFalse(freed)
        call_without_lock(deleter, managed)
        self.assertTrue(freed)

    def test_a_capsule_is_taken_once(self) -> None:
        capsule = LoDTensor([1.0]).__dlpack__()
        self.assertEqual(LoDTensor.from_dlpack(capsule).tolist(), [1])
        with self.assertRaises(ValueError):
            LoDTensor.from_dlpack(capsule)

    def test_read_only_memory_is_said_to_be(self) -> None:
        x = LoDTensor.from_numpy(b"abc")
        with self.assertRaises(BufferError):
            x.__dlpack__()
        self.assertTrue(LoDTensor.from_dlpack(x.__dlpack__(max_version=(1, 0))).read_only)
        self.assertFalse(LoDTensor.from_dlpack(x.__dlpack__(copy=True)).read_only)

    def test_copies_are_made_where_they_are_asked_for(self) -> None:
        x = LoDTensor([[1.0], [2.0, 3.0]])
        copy = LoDTensor.from_dlpack(x[1].__dlpack__(max_version=(1, 0), copy=True))
        x.numpy()[:] = 0
        self.assertEqual(copy.tolist(), [2, 3])

    def test_other_devices_are_refused(self) -> None:
        x = LoDTensor([1.0])
        self.assertEqual(x.__dlpack_device__(), (1, 0))
        self.assertIsNotNone(x.__dlpack__(dl_device=(1, 0)))
        for wanted in ({"dl_device": (2, 0)}, {"stream": 1}):
            with self.assertRaises(BufferError):
                x.__dlpack__(**wanted)

    def test_objects_without_the_protocol_are_refused(self) -> None:
        with self.assertRaises(AttributeError):
            LoDTensor.from_dlpack([1, 2])
        with self.assertRaises(lt.ShapeMismatch):
            LoDTensor.from_dlpack(np.ones((4, 2))[::2])

    @unittest.skipUnless(has("torch"), "PyTorch is not installed")
    def test_pytorch(self) -> None:
        import torch

        values = torch.arange(6, dtype=torch.bfloat16).reshape(3, 2)
        x = LoDTensor.from_dlpack(values, lengths=[[1, 2]])
        self.assertEqual(x.data_type, lt.BF16)
        self.assertIn("[4, 5]", repr(x))
        back = torch.from_dlpack(x[1])
        self.assertEqual(back.data_ptr(), values[1:].data_ptr())
        back[0, 0] = 9
        self.assertEqual(values.tolist(), [[0, 1], [9, 3], [4, 5]])
        with self.assertRaises(BufferError):
            x.numpy()
        with self.assertRaises(TypeError):
            _ = x.dtype
        pooled = lt.sequence_pool(x, lt.PoolType.SUM)
        self.assertEqual(torch.from_dlpack(pooled).tolist(), [[0, 1], [13, 8]])

    @unittest.skipUnless(has("torch"), "PyTorch is not installed")
    def test_pytorch_keeps_what_it_is_given(self) -> None:
        import torch

        values = np.arange(3.0)
        freed = Freed(values)
        tensor = torch.from_dlpack(LoDTensor.from_numpy(values))
        del values
        self.assertFalse(freed)
        holder = [tensor]
        del tensor
        thread = threading.Thread(target=holder.clear)
        thread.start()
        thread.join()
        self.assertTrue(freed)


class ArrowCapsules(WithoutCollector):
    """With nobody but ourselves at the other end."""

    def test_a_tensor_comes_back_without_a_copy(self) -> None:
        for dtype in ["bool", *ARROW_DTYPES]:
            with self.subTest(dtype=dtype):
                x = LoDTensor.from_numpy(np.ones((15, 2, 3), dtype), LOD)
                y = LoDTensor.from_arrow(x)
                self.assertEqual((y.lod, y.shape, y.dtype), (x.lod, x.shape, x.dtype))
                self.assertEqual(address(y.numpy()), address(x.numpy()))
                self.assertTrue(y.read_only)

    def test_slices(self) -> None:
        x = LoDTensor(ARTICLES)
        for part in (x[1:], x[2], x[0][1], x.slice(2, 0), x[3:], x[1:1]):
            y = LoDTensor.from_arrow(part)
            self.assertEqual((y.lod, y.tolist()), (part.lod, part.tolist()))
            if part.shape[0] > 0:
                self.assertEqual(address(y.numpy()), address(part.numpy()))

    def test_owners_are_kept_and_let_go(self) -> None:
        values = np.arange(3.0)
        freed = Freed(values)
        capsules = LoDTensor.from_numpy(values, lengths=[[3]]).__arrow_c_array__()
        del values
        self.assertFalse(freed)

        class Given:
            def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
                return capsules  # noqa: F821 - deleted below

        y = LoDTensor.from_arrow(Given())
        del capsules
        self.assertFalse(freed)
        self.assertEqual(y.tolist(), [[0, 1, 2]])
        del y
        self.assertTrue(freed)

    def test_release_callbacks_may_be_called_without_pythons_lock(self) -> None:
        values = np.arange(3.0)
        freed = Freed(values)
        capsules = LoDTensor.from_numpy(values, lengths=[[3]]).__arrow_c_array__()
        del values
        array = content(capsules[1], b"arrow_array")
        release = pointer_at(array + 64)  # after five numbers and three pointers
        self.assertFalse(freed)
        call_without_lock(release, array)
        self.assertTrue(freed)
        self.assertEqual(pointer_at(array + 64), 0)

    def test_elements_that_arrow_lacks_are_refused(self) -> None:
        for export in ("__arrow_c_schema__", "__arrow_c_array__"):
            with self.assertRaises(ValueError):
                getattr(LoDTensor([[1j]]), export)()
        with self.assertRaises(AttributeError):
            LoDTensor.from_arrow([1])


@unittest.skipUnless(has("pyarrow"), "pyarrow is not installed")
class PyArrow(WithoutCollector):
    def test_pyarrow_takes_levels_and_rows(self) -> None:
        import pyarrow

        x = LoDTensor(ARTICLES, dtype="float32")
        array = pyarrow.array(x)
        array.validate(full=True)
        self.assertTrue(pyarrow.types.is_large_list(array.type) and pyarrow.types.is_large_list(array.type.value_type))
        self.assertEqual(array.type.value_type.value_type, pyarrow.float32())
        self.assertEqual(array.to_pylist(), ARTICLES)
        self.assertEqual(array.flatten().flatten().buffers()[1].address, address(x.numpy()))
        self.assertEqual(pyarrow.array(x[1:]).to_pylist(), ARTICLES[1:])
        self.assertEqual(pyarrow.array(x.slice(2, 0)).to_pylist(), [[11, 12]])

    def test_pyarrow_gives_lists_of_all_kinds(self) -> None:
        import pyarrow

        row = pyarrow.list_(pyarrow.float64(), 2)
        rows = [[[1.0, 2.0], [3.0, 4.0]], [], [[5.0, 6.0]]]
        for kind in (pyarrow.list_(row), pyarrow.large_list(row)):
            with self.subTest(kind=kind):
                array = pyarrow.array(rows, kind)
                x = LoDTensor.from_arrow(array)
                self.assertEqual((x.shape, x.lod, x.tolist()), ((3, 2), [[0, 2, 2, 3]], rows))
                self.assertEqual(address(x.numpy()), array.values.values.buffers()[1].address)
                self.assertEqual(LoDTensor.from_arrow(array[1:]).tolist(), rows[1:])

    def test_owners_are_kept_and_let_go(self) -> None:
        import pyarrow

        values = np.arange(3.0)
        freed = Freed(values)
        array = pyarrow.array(LoDTensor.from_numpy(values, lengths=[[3]]))
        del values
        x = LoDTensor.from_arrow(array)
        del array
        self.assertFalse(freed)
        holder = [x]
        del x
        thread = threading.Thread(target=holder.clear)
        thread.start()
        thread.join()
        self.assertTrue(freed)

    def test_nulls_are_refused(self) -> None:
        import pyarrow

        with self.assertRaises(lt.InvalidLoD):
            LoDTensor.from_arrow(pyarrow.array([[1], None]))
        with self.assertRaises(ValueError):
            LoDTensor.from_arrow(pyarrow.array([[1, None]]))

    def test_streams_of_one_array_are_taken(self) -> None:
        import pyarrow

        one = pyarrow.chunked_array([[[1, 2], [3]]])
        self.assertEqual(LoDTensor.from_arrow(one).tolist(), [[1, 2], [3]])
        for chunks in ([[[1]], [[2]]], []):
            with self.assertRaises(ValueError):
                LoDTensor.from_arrow(pyarrow.chunked_array(chunks, pyarrow.list_(pyarrow.int64())))


@unittest.skipUnless(has("polars"), "polars is not installed")
class Polars(unittest.TestCase):
    def test_both_ways(self) -> None:
        import polars

        x = LoDTensor(ARTICLES)
        series = polars.Series(x)
        self.assertEqual(series.to_list(), ARTICLES)
        y = LoDTensor.from_arrow(series)
        self.assertEqual((y.lod, y.tolist()), (LOD, ARTICLES))


@unittest.skipUnless(has("nanoarrow"), "nanoarrow is not installed")
class NanoArrow(unittest.TestCase):
    def test_both_ways(self) -> None:
        import nanoarrow

        x = LoDTensor(ARTICLES)
        array = nanoarrow.Array(x)
        self.assertEqual(array.to_pylist(), ARTICLES)
        self.assertEqual(LoDTensor.from_arrow(array).tolist(), ARTICLES)


class Operations(unittest.TestCase):
    def test_pools_are_those_of_numpy(self) -> None:
        x = LoDTensor(ARTICLES, dtype="float64")
        rows = [np.array(sentence) for article in ARTICLES for sentence in article]
        for kind, reference in ((lt.PoolType.SUM, np.sum), (lt.PoolType.AVERAGE, np.mean), (lt.PoolType.MAX, np.max),
                                (lt.PoolType.LAST, lambda row: row[-1])):  # fmt: skip
            pooled = lt.sequence_pool(x, kind)
            self.assertEqual(pooled.lengths, LENGTHS[:1])
            self.assertTrue(np.allclose(pooled.numpy(), [reference(row) for row in rows]))
        self.assertEqual(lt.sequence_pool(x, lt.PoolType.SUM, level=0).tolist(), [45, 10, 65])
        self.assertEqual(lt.sequence_pool(LoDTensor([[], [1]]), lt.PoolType.SUM, pad_value=-7).tolist(), [-7, 1])

    def test_softmax_of_a_slice(self) -> None:
        x = LoDTensor(ARTICLES, dtype="float32")
        y = lt.sequence_softmax(x[2])
        for sequence, given in zip(y, ARTICLES[2]):
            expected = np.exp(given) / np.sum(np.exp(given))
            self.assertTrue(np.allclose(sequence.numpy(), expected, rtol=1e-5))

    def test_padding_and_back(self) -> None:
        x = LoDTensor([[1, 2, 3], [], [4]], dtype="int32")
        dense, lengths = lt.sequence_pad(x, pad_value=-1)
        self.assertEqual(dense.tolist(), [[1, 2, 3], [-1, -1, -1], [4, -1, -1]])
        self.assertEqual(lengths.tolist(), [3, 0, 1])
        self.assertEqual(lt.sequence_unpad(dense, lengths).tolist(), x.tolist())
        self.assertEqual(lt.sequence_unpad(dense, [3, 0, 1]).tolist(), x.tolist())

    def test_reverse(self) -> None:
        self.assertEqual(lt.sequence_reverse(LoDTensor([[1, 2, 3], [4]])).tolist(), [[3, 2, 1], [4]])

    def test_elements_that_an_operation_does_not_take_are_a_type_error(self) -> None:
        with self.assertRaisesRegex(TypeError, "INT64"):
            lt.sequence_softmax(LoDTensor([[1]]))

    def test_wrong_arguments_are_the_librarys_errors(self) -> None:
        with self.assertRaises(lt.InvalidLoD):
            lt.sequence_softmax(LoDTensor([1.0]))
        with self.assertRaises(lt.OutOfRange):
            lt.sequence_softmax(LoDTensor([[1.0]]), level=1)
        with self.assertRaises(lt.ShapeMismatch):
            lt.sequence_pad(LoDTensor([[1.0, 2.0]]), padded_length=1)

    def test_results_do_not_depend_on_threads(self) -> None:
        x = LoDTensor.from_numpy(np.random.default_rng(1).random((1 << 14, 4)), lengths=[[1 << 13, 1 << 13]])
        expected = lt.sequence_softmax(x).numpy()
        results: list[Any] = [None] * 4

        def compute(i: int) -> None:
            results[i] = lt.sequence_softmax(x).numpy()

        threads = [threading.Thread(target=compute, args=(i,)) for i in range(len(results))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            self.assertTrue(np.array_equal(result, expected))

    def test_other_threads_run_while_an_operation_computes(self) -> None:
        x = LoDTensor.from_numpy(np.zeros((1 << 18, 4)), lengths=[[1 << 18]])
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-6)

        def runs_beside() -> bool:
            begin = end = 0.0

            def compute() -> None:
                nonlocal begin, end
                begin = time.perf_counter()
                lt.sequence_softmax(x)
                end = time.perf_counter()

            thread = threading.Thread(target=compute)
            thread.start()
            ticks = []
            while thread.is_alive():
                ticks.append(time.perf_counter())
            quarter = (end - begin) / 4
            return any(begin + quarter < tick < end - quarter for tick in ticks)

        # A busy machine may have had no processor for this thread at the time.
        self.assertTrue(any(runs_beside() for _ in range(20)))


class SelectedRows(unittest.TestCase):
    def test_value_shares_the_memory(self) -> None:
        value = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        g = lt.SelectedRows([4, 0, 4], 10, value)
        self.assertEqual((g.rows, g.height, g.dense_shape, len(g)), ([4, 0, 4], 10, (10, 2), 3))
        self.assertEqual(address(g.value.numpy()), address(value))
        self.assertEqual(repr(g), "SelectedRows FP64 {3, 2}, height 10\n4: [1, 2]\n0: [3, 4]\n4: [5, 6]")
        x = LoDTensor.from_numpy(value, lengths=[[1, 2]])
        self.assertEqual(lt.SelectedRows([7], 8, x[0]).value.tolist(), [[1, 2]])

    def test_repeated_rows_are_added_up(self) -> None:
        g = lt.SelectedRows(np.array([2, 0, 2]), 3, np.array([[1.0], [3.0], [5.0]]))
        merged = lt.merge_add(g)
        self.assertEqual((merged.rows, merged.value.tolist()), ([0, 2], [[3], [6]]))
        self.assertEqual(lt.to_dense(g).tolist(), [[3], [0], [6]])
        self.assertEqual(g.value.tolist(), [[1], [3], [5]])

    def test_wrong_rows_are_refused(self) -> None:
        with self.assertRaises(lt.OutOfRange):
            lt.SelectedRows([3], 3, np.zeros((1, 2)))
        with self.assertRaises(lt.ShapeMismatch):
            lt.SelectedRows([1, 2], 3, np.zeros((1, 2)))


class Files(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "batch.lod"

    def test_variables_come_back(self) -> None:
        x = LoDTensor(ARTICLES, dtype="float32")
        g = lt.SelectedRows([4, 0], 10, np.ones((2, 3)))
        lt.save(self.path, {"words": x, "part": x[2], "gradient": g, "steps": [x[0], x[1]]})
        for found in (lt.load(self.path), lt.File(self.path)):
            self.assertEqual(found["words"].tolist(), ARTICLES)
            self.assertEqual((found["part"].lod, found["part"].tolist()), (x[2].lod, ARTICLES[2]))
            self.assertEqual((found["gradient"].rows, found["gradient"].height), ([4, 0], 10))
            self.assertEqual([step.tolist() for step in found["steps"]], ARTICLES[:2])
            self.assertIn("words", found)
            self.assertNotIn("letters", found)
            with self.assertRaises(KeyError):
                found["letters"]
        self.assertEqual(lt.File(self.path).names(), ["words", "part", "gradient", "steps"])
        self.assertFalse(lt.load(self.path)["words"].read_only)

    def test_values_of_other_types_are_refused(self) -> None:
        for value in (1, [1], np.zeros(3)):
            with self.assertRaises(TypeError):
                lt.save(self.path, {"value": value})
        self.assertEqual(list(self.path.parent.iterdir()), [])

    def test_names_that_are_no_text_are_refused(self) -> None:
        for name in (3, b"x", None):
            with self.assertRaises(TypeError):
                lt.save(self.path, {name: LoDTensor(ARTICLES)})
        self.assertEqual(list(self.path.parent.iterdir()), [])

    def test_names_and_paths_may_be_of_any_bytes(self) -> None:
        path = self.path.parent / "\udcff\n.lod"
        names = ["x\udc80", "", "ü\n", "zero\0byte"]
        lt.save(path, {name: LoDTensor(ARTICLES) for name in names})
        self.assertEqual(os.listdir(os.fsencode(path.parent)), [b"\xff\n.lod"])
        for same in (path, str(path), os.fsencode(path)):
            file = lt.File(same)
            self.assertEqual((file.names(), list(lt.load(same))), (names, names))
            for name in names:
                self.assertIn(name, file)
                self.assertEqual(file[name].tolist(), ARTICLES)
        with self.assertRaises(KeyError) as missing:
            file["y\udc80"]
        self.assertEqual(missing.exception.args, ("y\udc80",))
        with self.assertRaisesRegex(FileNotFoundError, "'/\udc80'"):
            lt.File("/\udc80")
        path.write_bytes(b"\0")
        with self.assertRaisesRegex(lt.ParseError, "\udcff"):
            lt.File(path)
        variable = lt.Variable("v\udc80", dims=[1], initializer=lt.constant(0), block=lt.Block())
        self.assertEqual((variable.name, variable.block.vars, variable.op.outputs),
                         ("v\udc80", ["v\udc80"], ["v\udc80"]))  # fmt: skip
        self.assertIn("'v\udc80'", repr(variable))
        with self.assertRaisesRegex(ValueError, "'v\udc80'"):
            lt.Variable("v\udc80", block=variable.block)

    def test_a_path_with_a_zero_byte_is_refused(self) -> None:
        lt.save(self.path, {"x": LoDTensor(ARTICLES)})
        for uses in (lambda path: lt.save(path, {}), lt.load, lt.File):
            with self.assertRaisesRegex(OSError, "zero byte"):
                uses(str(self.path) + "\0tail")
        self.assertEqual(lt.File(self.path).names(), ["x"])

    def test_tensors_on_a_file_outlive_what_opened_it(self) -> None:
        lt.save(self.path, {"words": LoDTensor(ARTICLES)})
        words = lt.File(self.path)["words"]
        self.path.unlink()
        gc.collect()
        self.assertTrue(words.read_only)
        self.assertEqual(words[2].numpy().tolist(), [11, 12, 13, 14, 15])

    def test_damage_is_a_parse_error(self) -> None:
        lt.save(self.path, {"words": LoDTensor(ARTICLES)})
        lt.File(self.path).verify()
        intact = self.path.read_bytes()
        at = intact.index(np.arange(1, 16).tobytes())
        self.path.write_bytes(intact[:at] + b"\xff" + intact[at + 1:])  # fmt: skip
        for reads in (lambda: lt.load(self.path), lambda: lt.File(self.path).verify()):
            with self.assertRaises(lt.ParseError):
                reads()
        self.path.write_bytes(intact[:-1])
        with self.assertRaises(lt.ParseError):
            lt.File(self.path)

    def test_what_the_system_refuses_is_an_os_error(self) -> None:
        with self.assertRaises(FileNotFoundError):
            lt.File(self.path)
        with self.assertRaises(FileNotFoundError):
            lt.save(self.path / "below", {})


class ReadMe(unittest.TestCase):
    def test_the_session_is_what_happens(self) -> None:
        text = (HERE / "README.md").read_text()
        session = "\n".join("" if line.startswith("```") else line for line in text.splitlines())
        test = doctest.DocTestParser().get_doctest(session, {}, "README.md", str(HERE / "README.md"), 0)
        self.assertGreater(len(test.examples), 10)
        with tempfile.TemporaryDirectory() as folder:  # it writes files
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(folder)
            self.assertEqual(doctest.DocTestRunner(verbose=False).run(test).failed, 0)
            os.chdir(HERE)


if __name__ == "__main__":
    unittest.main()
