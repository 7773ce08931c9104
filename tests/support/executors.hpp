// SPDX-License-Identifier: Apache-2.0
/// @file
/// The executors that every case runs on.
#pragma once

#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>

namespace lod_test {

/// A sequence of more elements is shared by threads.
inline constexpr std::int64_t grain = lod::kernel::cpu::grain;

/// Calls f(executor) for each: results are the same on all of them, to the last bit where a case compares bits. Under
/// tools that make all slow, and share small inputs therefore, only for that which shares most.
template <class F>
void for_each_executor(const F& f) {
  for (int threads : {1, 2, 7}) {
    if (grain < 65536 && threads < 7) continue;
    CAPTURE(threads);
    f(lod::CpuExecutor(threads));
  }
}

/// The same bits, NaNs included.
template <class A, class B>
bool same_bits(const A& a, const B& b) {
  const auto x = a.view(), y = b.view();
  return x.shape() == y.shape() && x.lod_view() == y.lod_view() &&
         (x.values().empty() || std::memcmp(x.data(), y.data(), x.values().size_bytes()) == 0);
}

}  // namespace lod_test
