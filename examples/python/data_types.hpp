// SPDX-License-Identifier: Apache-2.0
/// @file
/// The types of elements by the names that Python has for them.
#pragma once

#include <lod/lod.hpp>

#include <pybind11/pybind11.h>

namespace lod_python {

/// The code of the type in the buffer protocol, "f"; null for bfloat16 and 8-bit floating point, which have none.
const char* buffer_format(lod::DataType type) noexcept;

/// The type of the items of a buffer. Throws TypeError for what has no DataType, and for numbers in foreign byte order.
lod::DataType data_type_of_buffer(const Py_buffer& buffer);

/// What a caller names: a DataType, or what NumPy takes for a dtype. Throws TypeError for others.
lod::DataType to_data_type(pybind11::handle type);

/// NumPy's dtype. Throws TypeError for a type that NumPy lacks.
pybind11::object to_dtype(lod::DataType type);

/// DataType, and its values by their own names: lodtensor.FP32.
void bind_data_types(pybind11::module_& module);

}  // namespace lod_python
