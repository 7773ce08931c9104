// SPDX-License-Identifier: Apache-2.0
#include "operation_calls_inl.hpp"

#include <cstdint>

lod_python::OperationCalls lod_python::byte_calls() {
  return calls_of<std::uint8_t>([]<class Op>() { return is_one_of<Op>(OfBytes()); });
}
