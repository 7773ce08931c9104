// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls of all operations of the library's list, by a table for each type of elements.
#pragma once

#include <lod/lod.hpp>

#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace lod_python {

class Values;

/// A parameter of an operation.
struct Parameter {
  std::string name;
  std::string hint;     ///< its type in stubs
  std::string initial;  ///< the value that it has if none is given, as Python writes it; empty if one has to be given
};
/// What an operation takes and gives.
struct Signature {
  std::string name;
  std::string summary;
  std::vector<Parameter> arguments;
  std::size_t typed;  ///< which of the arguments has elements of the type that the operation is called for, if one has
  std::vector<Parameter> options;
  std::string result;
};

/// An operation for elements of one type; null where it takes none of these.
struct OperationCall {
  pybind11::object (*call)(Values& values) = nullptr;
  Signature (*describe)() = nullptr;  ///< for one type of each operation
};
/// In the order of lod::AllOperations.
using OperationCalls = std::array<OperationCall, lod::AllOperations::size>;

/// All calls for elements of type T. Instantiated in operations_*.cpp.
template <class T>
OperationCalls operation_calls();
/// The same but for operations that take any type and are among byte_calls: for types that are used less, of which
/// there are many, which compile for a quarter less without them.
template <class T>
OperationCalls operation_calls_but_moves();
/// Calls of the operations that only move rows, for elements of any type: rows of their bytes.
OperationCalls byte_calls();

}  // namespace lod_python
