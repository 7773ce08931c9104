// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows in CPU kernels: the sequences that they belong to, and their numbers in the type of the computation.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// to[i] = x[i], converted to the type of the computation.
template <class T>
inline void widen(const T* x, std::int64_t count, Accumulator<T>* to) noexcept {
  if constexpr (std::same_as<T, Accumulator<T>>) {
    copy(x, count, to);
  } else {
    convert(x, count, to);
  }
}

/// a + b; integers wrap around.
template <class A>
inline A plus(A a, A b) noexcept {
  if constexpr (std::integral<A>) {
    return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}
/// The same for a number and each number of a vector, on either side.
template <class A>
inline xsimd::batch<A> plus(A a, const xsimd::batch<A>& b) noexcept {
  return a + b;
}
template <class A>
inline xsimd::batch<A> plus(const xsimd::batch<A>& a, A b) noexcept {
  return a + b;
}

/// The sequence that holds a row; `sequences.size` for a row after the last.
inline std::int64_t sequence_of(const Segments& sequences, std::int64_t row) noexcept {
  const std::int64_t* const ends = sequences.offsets + 1;
  return std::upper_bound(ends, ends + sequences.size, sequences.offsets[0] + row) - ends;
}

/// For each row, the number of its sequence.
class RowSequences {
 public:
  RowSequences(const CpuExecutor& executor, const Segments& sequences)
      : numbers_(executor.workspace(), sequences.rows()) {
    parallel_rows(executor, sequences, static_cast<std::int64_t>(sizeof(std::int64_t)),
                  [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t room) {
                    fill(numbers_.data() + sequences.begin(i) + begin, end - begin, i, room);
                  });
  }
  const std::int64_t* data() const noexcept { return numbers_.data(); }

 private:
  Workspace::Loan<std::int64_t> numbers_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
