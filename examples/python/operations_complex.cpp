// SPDX-License-Identifier: Apache-2.0
#include "operation_calls_inl.hpp"

#include <complex>

template lod_python::OperationCalls lod_python::operation_calls_but_moves<std::complex<float>>();
template lod_python::OperationCalls lod_python::operation_calls_but_moves<std::complex<double>>();
