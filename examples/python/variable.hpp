// SPDX-License-Identifier: Apache-2.0
/// @file
/// Python's Variable.
#pragma once

#include <pybind11/pybind11.h>

namespace lod_python {

/// The classes Variable, Operator, Block and Initializer, and the initializers. After DataType.
void bind_variable(pybind11::module_& module);

}  // namespace lod_python
