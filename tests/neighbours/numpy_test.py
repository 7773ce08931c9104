# SPDX-License-Identifier: Apache-2.0
"""numpy_test.py <copy_numpy> [npz]: NumPy writes files, copy_numpy loads and saves them, NumPy loads the copies."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

program, with_npz = sys.argv[1], "npz" in sys.argv[2:]
dtypes = ["?", "i1", "i2", "i4", "i8", "u1", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
shapes = [(), (1,), (7,), (0,), (3, 4), (0, 4), (4, 0), (2, 3, 4), (5, 1, 2, 3), (1, 1, 1, 1, 1, 1, 1, 2)]


def random_array(generator, dtype, shape):
    dtype = np.dtype(dtype)
    if dtype.kind in "fc":
        numbers = generator.normal(size=shape)
        if dtype.kind == "c":
            numbers = numbers + 1j * generator.normal(size=shape)
        return np.asarray(numbers).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(generator.integers(0, 2, size=shape)).astype(dtype)
    limits = np.iinfo(dtype)
    native = dtype.newbyteorder("=")
    numbers = generator.integers(limits.min, limits.max, size=shape, dtype=native, endpoint=True)
    return np.asarray(numbers).astype(dtype)


class NumPyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.generator = np.random.default_rng(20171023)

    def copy(self, *names):
        paths = [str(self.folder / (prefix + name)) for name in names for prefix in ("", "copy_of_")]
        subprocess.run([program, *paths], check=True)

    def check_same(self, found, expected):
        # An array without dimensions is one scalar row.
        expected = np.atleast_1d(expected)
        self.assertEqual(found.dtype, expected.dtype.newbyteorder("="))
        self.assertEqual(found.shape, expected.shape)
        self.assertTrue(found.flags.c_contiguous)
        self.assertEqual(found.tobytes(), expected.astype(found.dtype).tobytes())

    def test_arrays_of_every_dtype_shape_and_order(self):
        arrays = {}
        for dtype in dtypes:
            for order in "<>":
                for shape in shapes:
                    array = random_array(self.generator, np.dtype(dtype).newbyteorder(order), shape)
                    for layout in "CF":
                        name = f"{len(arrays)}.npy"
                        arrays[name] = np.asarray(array, order=layout)
                        np.save(self.folder / name, arrays[name])
        self.copy(*arrays)
        for name, array in arrays.items():
            with self.subTest(dtype=array.dtype, shape=array.shape):
                self.check_same(np.load(self.folder / f"copy_of_{name}"), array)

    def test_saves_the_bytes_that_numpy_saves(self):
        arrays = {f"{i}.npy": random_array(self.generator, dtypes[i % len(dtypes)], shape)
                  for i, shape in enumerate(shapes + [(123456, 3)]) if shape != ()}
        for name, array in arrays.items():
            np.save(self.folder / name, array)
        self.copy(*arrays)
        for name in arrays:
            self.assertEqual((self.folder / name).read_bytes(), (self.folder / f"copy_of_{name}").read_bytes())

    def test_copies_can_be_mapped(self):
        array = random_array(self.generator, "f8", (100, 3))
        np.save(self.folder / "x.npy", array)
        self.copy("x.npy")
        self.check_same(np.load(self.folder / "copy_of_x.npy", mmap_mode="r"), array)

    @unittest.skipUnless(with_npz, "without npz")
    def test_archives_of_arrays_stored_and_compressed(self):
        arrays = {f"{dtype} {shape}": random_array(self.generator, dtype, shape)
                  for dtype in dtypes for shape in shapes}
        arrays["Wörter/λ"] = random_array(self.generator, "f4", (300000,))
        for name, save in [("stored.npz", np.savez), ("compressed.npz", np.savez_compressed)]:
            save(self.folder / name, **arrays)
            self.copy(name)
            with np.load(self.folder / f"copy_of_{name}") as copies:
                self.assertEqual(sorted(copies), sorted(arrays))
                for key, array in arrays.items():
                    with self.subTest(key=key):
                        self.check_same(copies[key], array)

    @unittest.skipUnless(with_npz, "without npz")
    def test_levels_and_row_sparse_values_by_the_names_of_their_arrays(self):
        batch = {
            "words": random_array(self.generator, "f4", (5, 2)),
            "words.lod0": np.array([0, 2, 2, 3]),
            "words.lod1": np.array([0, 2, 3, 5]),
            "none": random_array(self.generator, "f4", (0, 3)),
            "none.lod0": np.array([0]),
            "g": random_array(self.generator, "f8", (3, 2)),
            "g.rows": np.array([4, 0, 4]),
            "g.height": np.int64(10),
        }
        np.savez(self.folder / "batch.npz", **batch)
        self.copy("batch.npz")
        with np.load(self.folder / "copy_of_batch.npz") as copies:
            self.assertEqual(sorted(copies), sorted(batch))
            for key, array in batch.items():
                self.check_same(np.atleast_1d(copies[key]), array)
            self.assertEqual(copies["g.height"].shape, ())

    @unittest.skipUnless(with_npz, "without npz")
    def test_an_archive_of_nothing(self):
        np.savez(self.folder / "empty.npz")
        self.copy("empty.npz")
        with np.load(self.folder / "copy_of_empty.npz") as copies:
            self.assertEqual(list(copies), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
