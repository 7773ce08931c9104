// SPDX-License-Identifier: Apache-2.0
/// @file
/// The descriptions of variables and of operators.
#pragma once

#include "text.hpp"

#include <pybind11/pybind11.h>

#include <span>
#include <string>
#include <vector>

namespace lod_python {

/// Names of the library as Python's.
std::vector<Text> to_texts(std::span<const std::string> names);
/// Names of Python's as the library's.
std::vector<std::string> to_names(const std::vector<Text>& texts);

/// The classes VarType, VarDesc and Operator. After DataType and LoDTensor.
void bind_descriptions(pybind11::module_& module);

}  // namespace lod_python
