// SPDX-License-Identifier: Apache-2.0
/// @file
/// All operations of the library.
#pragma once

#include <pybind11/pybind11.h>

namespace lod_python {

/// Functions of the module. They compute without Python's lock, so that other threads of Python run beside them.
void bind_operations(pybind11::module_& module);

}  // namespace lod_python
