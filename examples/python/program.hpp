// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs: their descriptions, the values of their variables, and what runs them.
#pragma once

#include <pybind11/pybind11.h>

namespace lod_python {

/// The class Program on which Python's stands, and the optimizers. After VarDesc and Operator.
void bind_program(pybind11::module_& module);

}  // namespace lod_python
