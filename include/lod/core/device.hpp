// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// A device names a memory. Who works on that memory is up to an executor (executor.hpp).
#pragma once

#include <lod/core/target.hpp>

#include <cstddef>
#include <memory_resource>

namespace lod::inline LOD_INTERFACE {

/// The memory of the CPU.
struct Cpu {
  /// The source of memory.
  using memory_resource = std::pmr::memory_resource;
  /// The standard library's default, at the time of the call.
  LOD_TAGGED static memory_resource* default_resource() noexcept { return std::pmr::get_default_resource(); }
};

/// The memory of an NVIDIA GPU. Only a name here: allocation and copies come with the CUDA headers.
struct Cuda;

/// Tag: leave the values of a new tensor uninitialised instead of zero.
struct uninitialized_t {
  LOD_TAGGED explicit uninitialized_t() = default;
};
/// The tag.
inline constexpr uninitialized_t uninitialized{};

/// Every block of values begins at a multiple of this many bytes.
inline constexpr std::size_t alignment = 64;

}  // namespace lod::inline LOD_INTERFACE
