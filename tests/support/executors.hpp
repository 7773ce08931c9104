// SPDX-License-Identifier: Apache-2.0
/// @file
/// The executors that every case runs on.
#pragma once

#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace lod_test {

/// A sequence of more elements is shared by threads.
inline constexpr std::int64_t grain = lod::kernel::cpu::grain;
/// Under tools that make all slow, small inputs are shared by threads too.
inline constexpr bool slow = grain < 65536;

/// The numbers of threads that cases are run with; where all is slow, that which shares most.
inline const std::vector<int> thread_counts = slow ? std::vector{7} : std::vector{1, 2, 7};

/// Calls f(executor) for each: results are the same on all of them, to the last bit where a case compares bits.
template <class F>
void for_each_executor(const F& f) {
  for (const int threads : thread_counts) {
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
