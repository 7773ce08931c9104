// SPDX-License-Identifier: Apache-2.0
#include "operation_calls_inl.hpp"

#include <cstdint>

template lod_python::OperationCalls lod_python::operation_calls_but_moves<bool>();
template lod_python::OperationCalls lod_python::operation_calls_but_moves<std::int8_t>();
template lod_python::OperationCalls lod_python::operation_calls_but_moves<std::int16_t>();
template lod_python::OperationCalls lod_python::operation_calls_but_moves<std::uint8_t>();
