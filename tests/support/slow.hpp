// SPDX-License-Identifier: Apache-2.0
/// @file
/// Whether a tool makes all slow. Then cases try a part of what they try otherwise, which release builds try whole.
#pragma once

#include <lod/kernels/sum_tree.hpp>

#include <cstdint>

namespace lod_test {

/// A sequence of more elements is shared by threads.
inline constexpr std::int64_t grain = lod::kernel::grain;
/// Under tools that make all slow, small inputs are shared by threads too.
inline constexpr bool slow = grain < 65536;

}  // namespace lod_test
