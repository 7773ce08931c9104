// SPDX-License-Identifier: Apache-2.0
/// @file
/// Whether kernels for GPUs are interpreted.
#pragma once

namespace lod_test {

/// Whether they run from their PTX on the CPU, which takes thousands of times as long as on a GPU: repetitions that
/// tell nothing about kernels are left out there. A program's main file or runtime says it.
#ifdef LOD_TEST_EMULATED_GPU
constexpr bool kernels_are_interpreted() noexcept { return false; }
#else
bool kernels_are_interpreted() noexcept;
#endif

}  // namespace lod_test
