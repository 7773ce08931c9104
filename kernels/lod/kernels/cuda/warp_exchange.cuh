// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the threads of a warp tell each other.
#pragma once

#include <lod/core/target.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

inline constexpr int warp_threads = 32;

/// Exchanges words among neighbouring threads of a warp.
template <int threads>
struct WarpExchange {
  std::uint32_t together;  ///< the mask of these threads
  __device__ std::uint32_t down(std::uint32_t word, int distance) const {
    return __shfl_down_sync(together, word, static_cast<unsigned>(distance), threads);
  }
  __device__ std::uint32_t up(std::uint32_t word) const { return __shfl_up_sync(together, word, 1, threads); }
  __device__ std::uint32_t first(std::uint32_t word) const { return __shfl_sync(together, word, 0, threads); }
  __device__ void meet() const { __syncwarp(together); }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
