# SPDX-License-Identifier: Apache-2.0
"""Compares the doorways to Arrow and DLPack with pyarrow, nanoarrow and NumPy: exchange_test.py <library of exchange.cpp>

Without pyarrow there is nothing to compare with; tests that need nanoarrow or NumPy are left out without these.
"""

import ctypes
import gc
import itertools
import random
import sys
import unittest

import pyarrow as pa

try:
    import nanoarrow
except ImportError:
    nanoarrow = None
try:
    import numpy
except ImportError:
    numpy = None

LIBRARY = None

# DataType and type of Arrow.
TYPES = {
    "INT8": (21, pa.int8()),
    "INT16": (1, pa.int16()),
    "INT32": (2, pa.int32()),
    "INT64": (3, pa.int64()),
    "UINT8": (20, pa.uint8()),
    "UINT32": (37, pa.uint32()),
    "UINT64": (38, pa.uint64()),
    "FP16": (4, pa.float16()),
    "FP32": (5, pa.float32()),
    "FP64": (6, pa.float64()),
}
BOOL = 0
BF16 = 22


class Struct(ctypes.Structure):
    """Room for an ArrowSchema or an ArrowArray."""

    _fields_ = [("words", ctypes.c_int64 * 10)]

    @property
    def address(self):
        return ctypes.addressof(self)


def check(code):
    if code != 0:
        raise ValueError(LIBRARY.lod_error().decode())


def int64s(numbers):
    return (ctypes.c_int64 * max(1, len(numbers)))(*numbers)


def export(data_type, lengths, row_shape, rows=0):
    """The structs of a tensor, and the addresses of its offsets and values."""
    array, schema = Struct(), Struct()
    addresses = (ctypes.c_void_p * (len(lengths) + 1))()
    check(
        LIBRARY.lod_export(
            data_type,
            len(lengths),
            int64s([len(level) for level in lengths]),
            int64s(list(itertools.chain(*lengths))),
            ctypes.c_int64(rows),
            len(row_shape),
            int64s(row_shape),
            ctypes.byref(array),
            ctypes.byref(schema),
            addresses,
        )
    )
    return array, schema, [address or 0 for address in addresses]


def imported(array, schema):
    """The array of pyarrow, which has looked at every offset and every buffer."""
    result = pa.Array._import_from_c(array.address, schema.address)
    result.validate(full=True)
    return result


def call_with(name, given, *arguments):
    """What a function of the library makes of an array of pyarrow."""
    structs = array, schema, out, out_schema = Struct(), Struct(), Struct(), Struct()
    given._export_to_c(array.address, schema.address)
    array_in, schema_in, array_out, schema_out = map(ctypes.byref, structs)
    try:
        arguments = [ctypes.c_int64(argument) for argument in arguments]
        check(getattr(LIBRARY, name)(array_in, schema_in, *arguments, array_out, schema_out))
    finally:
        pa.DataType._import_from_c(schema.address)  # releases it
    return imported(out, out_schema)


def round_trip(given):
    return call_with("lod_round_trip", given)


def nested(numbers, row_shape):
    """Rows of a row shape, as lists of lists, from numbers in a row."""
    for size in reversed(row_shape):
        numbers = list(numbers)
        numbers = [numbers[i : i + size] for i in range(0, len(numbers), size)]
    return list(numbers)


def cut(items, lengths):
    """What the levels make of rows, from the inside out."""
    for level in reversed(lengths):
        ends = list(itertools.accumulate(level, initial=0))
        items = [items[begin:end] for begin, end in zip(ends, ends[1:])]
    return items


def random_lengths(levels, random_numbers):
    size = random_numbers.randint(0, 5)
    lengths = []
    for _ in range(levels):
        level = [random_numbers.choice([0, 1, 2, 5]) for _ in range(size)]
        lengths.append(level)
        size = sum(level)
    return lengths, size


def buffers(array):
    """The addresses of the buffers that are more than bitmaps, from the outside in."""
    return [buffer.address for buffer in array.buffers() if buffer is not None]


ARTICLES = [[3, 1, 2], [3, 2, 4, 1, 2, 3]]


class ExportTest(unittest.TestCase):
    def test_the_running_example(self):
        array, schema, addresses = export(TYPES["FP32"][0], ARTICLES, [2])
        result = imported(array, schema)
        item = pa.field("item", pa.float32(), nullable=False)
        item = pa.field("item", pa.list_(item, 2), nullable=False)
        item = pa.field("item", pa.large_list(item), nullable=False)
        self.assertEqual(result.type, pa.large_list(item))
        self.assertEqual(result.to_pylist(), cut(nested(map(float, range(30)), [2]), ARTICLES))
        self.assertEqual(buffers(result), addresses)

    def test_every_type(self):
        for name, (data_type, arrow) in TYPES.items():
            with self.subTest(name):
                array, schema, addresses = export(data_type, [[1, 2]], [2])
                result = imported(array, schema)
                self.assertEqual(result.type.value_type.value_type, arrow)
                self.assertEqual(result.flatten().flatten().to_pylist(), list(range(6)))
                self.assertEqual(buffers(result), addresses)

    def test_bool_is_bool8(self):
        array, schema, addresses = export(BOOL, [[1, 2]], [])
        result = imported(array, schema)
        self.assertEqual(buffers(result), addresses)
        values = result.flatten()
        if hasattr(pa, "bool8"):
            self.assertEqual(values.type, pa.bool8())
            values = values.storage
        self.assertEqual(values.to_pylist(), [0, 1, 0])

    def test_bfloat16_is_two_bytes(self):
        array, schema, _ = export(BF16, [], [], rows=3)
        result = imported(array, schema)
        self.assertEqual(result.type, pa.binary(2))
        self.assertEqual(result.to_pylist(), [b"\0\0", b"\x80\x3f", b"\0\x40"])

    def test_every_depth_and_row_shape(self):
        random_numbers = random.Random(1)
        for levels, row_shape in itertools.product(range(5), [[], [3], [2, 3]]):
            for _ in range(5):
                lengths, rows = random_lengths(levels, random_numbers)
                with self.subTest(lengths=lengths, row_shape=row_shape):
                    array, schema, _ = export(TYPES["INT64"][0], lengths, row_shape, rows)
                    size = rows
                    for dim in row_shape:
                        size *= dim
                    expected = cut(nested(range(size), row_shape), lengths)
                    self.assertEqual(imported(array, schema).to_pylist(), expected)

    def test_rows_without_elements(self):
        array, schema, _ = export(TYPES["FP32"][0], [[1, 2]], [0])
        self.assertEqual(imported(array, schema).to_pylist(), [[[]], [[], []]])

    def test_memory_is_given_back(self):
        before = pa.total_allocated_bytes()
        array, schema, _ = export(TYPES["FP32"][0], ARTICLES, [2])
        result = imported(array, schema)
        self.assertEqual(array.words[8], 0)  # moved out of
        self.assertEqual(schema.words[7], 0)
        del result
        gc.collect()
        self.assertEqual(pa.total_allocated_bytes(), before)

    @unittest.skipUnless(nanoarrow, "nanoarrow was not found")
    def test_nanoarrow_finds_nothing_wrong(self):
        from nanoarrow.c_array import allocate_c_array
        from nanoarrow.c_schema import allocate_c_schema

        for lengths, row_shape in [(ARTICLES, [2, 3]), ([], [3]), ([[]], []), ([[0, 0]], [2]), ([[1], [0]], [])]:
            with self.subTest(lengths=lengths, row_shape=row_shape):
                array, schema, _ = export(TYPES["FP32"][0], lengths, row_shape, 4)
                c_schema = allocate_c_schema()
                ctypes.memmove(c_schema._addr(), schema.address, ctypes.sizeof(Struct) - 8)
                c_array = allocate_c_array(c_schema)
                ctypes.memmove(c_array._addr(), array.address, ctypes.sizeof(Struct))
                self.assertTrue(c_array.is_valid())
                view = c_array.view()
                self.assertEqual(view.length, len(nanoarrow.Array(c_array)))
                rows = 4
                for level in lengths:
                    rows = sum(level)
                size = rows
                for dim in row_shape:
                    size *= dim
                expected = cut(nested(map(float, range(size)), row_shape), lengths)
                self.assertEqual(nanoarrow.Array(c_array).to_pylist(), expected)


class ImportTest(unittest.TestCase):
    def same(self, given, expected_type=None):
        result = round_trip(given)
        self.assertEqual(result.to_pylist(), given.to_pylist())
        if expected_type is not None:
            self.assertEqual(result.type, expected_type)
        return result

    def test_large_lists_stay_where_they_are(self):
        given = pa.array([[[1.0, 2.0], []], [], [[3.0]]], pa.large_list(pa.large_list(pa.float64())))
        result = self.same(given)
        self.assertEqual(buffers(result), buffers(given))

    def test_lists_of_fixed_size_stay_where_they_are(self):
        row = pa.list_(pa.list_(pa.int16(), 2), 3)
        given = pa.array([[[[1, 2], [3, 4], [5, 6]]], []], pa.large_list(row))
        result = self.same(given)
        self.assertEqual(buffers(result)[-1], buffers(given)[-1])

    def test_lists_are_widened(self):
        given = pa.array([[[1, 2], []], [], [[3]]], pa.list_(pa.list_(pa.int32())))
        result = self.same(given)
        self.assertTrue(pa.types.is_large_list(result.type.value_type))
        self.assertEqual(buffers(result)[-1], buffers(given)[-1])

    def test_every_type(self):
        for name, (_, arrow) in TYPES.items():
            with self.subTest(name):
                numbers = pa.array([0, 1, 2, 3], pa.int64()).cast(arrow)
                given = pa.LargeListArray.from_arrays([0, 1, 1, 4], numbers)
                self.assertEqual(buffers(self.same(given))[-1], buffers(given)[-1])

    def test_slices_at_every_depth(self):
        random_numbers = random.Random(2)
        for kind in [pa.list_, pa.large_list]:
            for _ in range(60):
                numbers = pa.array(range(40), pa.int64())
                begin = random_numbers.randint(0, 10)
                items = pa.FixedSizeListArray.from_arrays(numbers, 2).slice(begin)
                for _ in range(3):
                    size = random_numbers.randint(1, 6)
                    ends = sorted(random_numbers.randint(0, len(items)) for _ in range(size + 1))
                    factory = pa.ListArray if kind is pa.list_ else pa.LargeListArray
                    offset_type = pa.int32() if kind is pa.list_ else pa.int64()
                    items = factory.from_arrays(pa.array(ends, offset_type), items)
                    begin = random_numbers.randint(0, len(items))
                    items = items.slice(begin, random_numbers.randint(0, len(items) - begin))
                self.same(items)

    def test_exported_slices(self):
        given = pa.array([[[1.0, 2.0], []], [], [[3.0]], [[4.0]]], pa.large_list(pa.large_list(pa.float64())))
        for begin in range(5):
            for end in range(begin, 5):
                result = call_with("lod_slice", given, begin, end)
                self.assertEqual(result.to_pylist(), given.slice(begin, end - begin).to_pylist())
                self.assertEqual(buffers(result)[1], buffers(given)[1])
                if end > 0:
                    self.assertEqual(buffers(result)[2], buffers(given)[2])

    def test_empty_arrays(self):
        for type_ in [
            pa.large_list(pa.float32()),
            pa.list_(pa.list_(pa.float32(), 3)),
            pa.list_(pa.float32(), 3),
            pa.float32(),
        ]:
            with self.subTest(type_):
                self.same(pa.array([], type_))
                self.same(pa.nulls(0, type_))

    def test_booleans(self):
        bits = pa.array([[True], [], [False, True, True]] * 9, pa.large_list(pa.bool_()))
        for given in [bits, bits.slice(4, 11)]:
            result = round_trip(given).flatten()
            storage = result.storage if hasattr(result, "storage") else result
            self.assertEqual([bool(value) for value in storage.to_pylist()], given.flatten().to_pylist())

    @unittest.skipUnless(hasattr(pa, "bool8"), "this pyarrow has no bool8")
    def test_booleans_of_a_byte(self):
        storage = pa.array([0, 1, 1, 0], pa.int8())
        given = pa.ExtensionArray.from_storage(pa.bool8(), storage)
        result = round_trip(given)
        self.assertEqual(result.type, pa.bool8())
        self.assertEqual(buffers(result), buffers(given))

    def test_nulls_that_are_there(self):
        for given, text in [
            (pa.array([[1], None], pa.large_list(pa.int32())), "level 0, position 1: null, expected a sequence"),
            (pa.array([[[1]], [None]], pa.list_(pa.list_(pa.int32()))), "level 1, position 1: null"),
            (pa.array([[1], [2, None]], pa.list_(pa.int32())), "the elements, position 2: null"),
            (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), "dimension 0 of the rows, position 1: null"),
        ]:
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                round_trip(given)

    def test_nulls_out_of_sight(self):
        self.same(pa.array([None, [1], [2]], pa.list_(pa.int32())).slice(1))
        self.same(pa.array([[None], [1], [2, 3]], pa.list_(pa.int32())).slice(1))

    def test_what_is_not_taken(self):
        views = pa.list_view(pa.int32()) if hasattr(pa, "list_view") else pa.map_(pa.int32(), pa.int32())
        for type_ in [views, pa.utf8(), pa.struct([("a", pa.int32())]), pa.uint16(), pa.timestamp("s"), pa.null()]:
            with self.subTest(type_), self.assertRaisesRegex(ValueError, "from_arrow: .*format"):
                round_trip(pa.nulls(0, type_))
        with self.assertRaisesRegex(ValueError, "dictionary-encoded"):
            round_trip(pa.array([1, 1, 2]).dictionary_encode())

    def test_memory_is_given_back(self):
        before = pa.total_allocated_bytes()
        given = pa.array([[1.0] * 1000] * 100, pa.large_list(pa.float64()))
        result = round_trip(given)
        del given
        gc.collect()
        self.assertGreater(pa.total_allocated_bytes(), before)  # the result stands on it
        self.assertEqual(len(result.flatten()), 100_000)
        del result
        with self.assertRaises(ValueError):
            round_trip(pa.array(["text"] * 1000))
        gc.collect()
        self.assertEqual(pa.total_allocated_bytes(), before)


class DLPackArray:
    """An array that the library has given, as NumPy asks for it."""

    def __init__(self, pointer):
        self.pointer = pointer

    def __dlpack__(self, **_):
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype = ctypes.py_object
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new_capsule(self.pointer, b"dltensor", None)

    def __dlpack_device__(self):
        return (1, 0)


class DLPackTest(unittest.TestCase):
    def setUp(self):
        if numpy is None or not hasattr(LIBRARY, "lod_dlpack_round_trip"):
            self.skipTest("NumPy or DLPack was not found")

    def round_trip(self, given):
        capsule = given.__dlpack__()
        get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
        get_pointer.restype = ctypes.c_void_p
        get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        set_name = ctypes.pythonapi.PyCapsule_SetName
        set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
        pointer = get_pointer(capsule, b"dltensor")
        set_name(capsule, USED)
        out = ctypes.c_void_p()
        check(LIBRARY.lod_dlpack_round_trip(ctypes.c_void_p(pointer), ctypes.byref(out)))
        return numpy.from_dlpack(DLPackArray(out.value))

    def test_every_type_and_shape(self):
        for name in ["bool", "i1", "i2", "i4", "i8", "u1", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]:
            for shape in [(6,), (2, 3), (1, 3, 1, 2), (5, 0), (0, 3), (1,)]:
                with self.subTest(name, shape=shape):
                    size = int(numpy.prod(shape))
                    given = (numpy.arange(size) % 2).astype(name).reshape(shape)
                    result = self.round_trip(given)
                    self.assertEqual(result.dtype, given.dtype)
                    self.assertEqual(result.shape, given.shape)
                    self.assertTrue((result == given).all())
                    if size > 0:
                        self.assertEqual(result.ctypes.data, given.ctypes.data)

    def test_what_is_not_compact(self):
        given = numpy.arange(12.0).reshape(3, 4)
        for part in [given.T, given[:, :2], given[::2]]:
            with self.assertRaisesRegex(ValueError, "the stride of dimension"):
                self.round_trip(part)
        self.assertEqual(self.round_trip(given[1:]).ctypes.data, given[1:].ctypes.data)

    def test_types_that_there_are_not(self):
        with self.assertRaisesRegex(ValueError, "no DataType"):
            self.round_trip(numpy.zeros(3, "u2"))

    def test_memory_is_kept(self):
        given = numpy.arange(1000.0)
        references = sys.getrefcount(given)
        result = self.round_trip(given)
        self.assertEqual(sys.getrefcount(given), references + 1)
        del result
        gc.collect()
        self.assertEqual(sys.getrefcount(given), references)


USED = ctypes.c_char_p(b"used_dltensor")  # kept as long as capsules point to it

if __name__ == "__main__":
    LIBRARY = ctypes.CDLL(sys.argv.pop())
    LIBRARY.lod_error.restype = ctypes.c_char_p
    unittest.main()
