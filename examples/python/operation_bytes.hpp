// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors of any type of elements as tensors of their bytes, and back: for operations that only move rows.
#pragma once

#include <lod/lod.hpp>

#include <pybind11/pybind11.h>

namespace lod_python {

/// A value in which each tensor with elements of `type` is one of UINT8, on the same memory, with one dimension more.
pybind11::object as_bytes(const pybind11::object& value, lod::DataType type);
/// The same the other way round.
pybind11::object from_bytes(const pybind11::object& value, lod::DataType type);

}  // namespace lod_python
