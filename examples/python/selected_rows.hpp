// SPDX-License-Identifier: Apache-2.0
/// @file
/// Python's SelectedRows.
#pragma once

#include <pybind11/pybind11.h>

namespace lod_python {

/// The class SelectedRows, on lod::AnySelectedRows. After LoDTensor.
void bind_selected_rows(pybind11::module_& module);

}  // namespace lod_python
