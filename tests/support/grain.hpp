// SPDX-License-Identifier: Apache-2.0
/// @file
/// From how many elements on threads share a sequence, which says whether the tests run under a tool that makes all
/// slow.
#pragma once

#include <lod/kernels/sum_tree.hpp>

#include <cstdint>

namespace lod_test {

/// A sequence of more elements is shared by threads.
inline constexpr std::int64_t grain = lod::kernel::grain;
/// Under tools that make all slow, small inputs are shared by threads too.
inline constexpr bool slow = grain < 65536;

}  // namespace lod_test
