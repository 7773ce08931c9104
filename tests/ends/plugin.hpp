// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a program calls in a shared library that it loads.
#pragma once

#include <lod/lod.hpp>

/// Works with the program's executor; y is a new tensor, made here.
extern "C" void plugin_work(const lod::CpuExecutor& executor, const lod::LoDTensor<float>& x, lod::LoDTensor<float>& y);
