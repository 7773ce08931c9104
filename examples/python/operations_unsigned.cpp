// SPDX-License-Identifier: Apache-2.0
#include "operation_calls_inl.hpp"

#include <cstdint>

template lod_python::OperationCalls lod_python::operation_calls_but_moves<std::uint32_t>();
template lod_python::OperationCalls lod_python::operation_calls_but_moves<std::uint64_t>();
