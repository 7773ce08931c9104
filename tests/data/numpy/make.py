# SPDX-License-Identifier: Apache-2.0
# Writes the files of this folder, with NumPy.
import datetime
import pathlib

import numpy as np

folder = pathlib.Path(__file__).parent


def save(name, array, **options):
    np.save(folder / f"{name}.npy", array, **options)


matrix = np.arange(12, dtype="<f4").reshape(3, 4)
save("row_major", matrix)
save("fortran_order", np.asfortranarray(matrix))
save("big_endian_fortran_order", np.asfortranarray(np.arange(24, dtype=">f8").reshape(2, 3, 4)))
save("scalar", np.int64(7))
save("no_rows", np.zeros((0, 4), dtype="<c8"))
for version in [(2, 0), (3, 0)]:
    with open(folder / f"version_{version[0]}.npy", "wb") as file:
        np.lib.format.write_array(file, matrix, version=version)

save("refused_object", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
save("refused_fields", np.array([(1, 2.0)], dtype=[("id", "<i4"), ("weight", "<f4")]))
save("refused_text", np.array(["lod", "tensor"]))
save("refused_uint16", np.array([1, 2], dtype="<u2"))
save("refused_date", np.array([datetime.date(2017, 10, 23)], dtype="<M8[D]"))

# Two levels over 5 rows of the shape {2}, a plain array, row-sparse values.
batch = {
    "words": np.arange(10, dtype="<f4").reshape(5, 2),
    "words.lod0": np.array([0, 2, 2, 3]),
    "words.lod1": np.array([0, 2, 3, 5]),
    "labels": np.array([True, False, True]),
    "g": np.array([[1, 2], [3, 4], [5, 6]], dtype="<f8"),
    "g.rows": np.array([4, 0, 4]),
    "g.height": np.int64(10),
}
np.savez(folder / "batch.npz", **batch)
np.savez_compressed(folder / "batch_compressed.npz", **batch)
