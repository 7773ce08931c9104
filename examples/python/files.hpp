// SPDX-License-Identifier: Apache-2.0
/// @file
/// The library's files.
#pragma once

#include <pybind11/pybind11.h>

namespace lod_python {

/// `save`, `load` and the class File.
void bind_files(pybind11::module_& module);

}  // namespace lod_python
