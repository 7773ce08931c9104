// SPDX-License-Identifier: Apache-2.0
/// @file
/// How long a thread may wait for another one, for instance to send to a channel or to receive from one.
#pragma once

#include <lod/core/version.hpp>

#include <chrono>

namespace lod::inline LOD_INTERFACE {

/// How long to wait, at most.
using WaitingTime = std::chrono::steady_clock::duration;
/// No limit: waits for ever.
inline constexpr WaitingTime no_waiting_limit = WaitingTime::max();

}  // namespace lod::inline LOD_INTERFACE
