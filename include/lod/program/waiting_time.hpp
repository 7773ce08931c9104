// SPDX-License-Identifier: Apache-2.0
/// @file
/// How long somebody may wait for somebody else: who sends to a channel, who receives from one.
#pragma once

#include <lod/core/version.hpp>

#include <chrono>

namespace lod::inline LOD_INTERFACE {

/// A time to wait.
using WaitingTime = std::chrono::steady_clock::duration;
/// For ever.
inline constexpr WaitingTime no_waiting_limit = WaitingTime::max();

}  // namespace lod::inline LOD_INTERFACE
