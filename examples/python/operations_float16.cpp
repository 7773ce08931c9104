// SPDX-License-Identifier: Apache-2.0
#include "operation_calls_inl.hpp"

template lod_python::OperationCalls lod_python::operation_calls<lod::float16>();
