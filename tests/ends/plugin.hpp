// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a program calls in a shared library that it loads.
#pragma once

#include <lod/lod.hpp>
#ifdef LOD_TEST_FILES
#  include <lod/io/file.hpp>

#  include <optional>
#endif

/// Works with the program's executor; y is a new tensor, made here.
extern "C" void plugin_work(const lod::CpuExecutor& executor, const lod::LoDTensor<float>& x, lod::LoDTensor<float>& y);

#ifdef LOD_TEST_FILES
/// y and z are loaded, from a file of the library's and from one of PaddlePaddle's in this folder; `file` is the
/// former, open.
extern "C" void plugin_load(const char* folder, lod::LoDTensor<float>& y, lod::LoDTensor<float>& z,
                            std::optional<lod::File>& file);
#endif
