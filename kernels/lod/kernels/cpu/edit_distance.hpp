// SPDX-License-Identifier: Apache-2.0
/// @file
/// Edit distances on the CPU: one row of the table at a time.
#pragma once

#include <lod/kernels/cpu/parallel.hpp>
#include <lod/ops/edit_distance.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <>
struct EditDistance<InlineCpu> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* a, const Segments& a_sequences, const T* b,
                  const Segments& b_sequences, bool normalized, float* y) {
    const std::int64_t longest = std::min(a_sequences.max_rows, b_sequences.max_rows);
    const cpu::ThreadScratch<std::int64_t> scratch(executor, longest + 1);
    // A row of a costs a row of the table.
    const std::int64_t row_bytes = (b_sequences.max_rows + 1) * static_cast<std::int64_t>(sizeof(std::int64_t));
    cpu::parallel_sequences(executor, a_sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t edits = distance(rows_of(a, a_sequences, i), rows_of(b, b_sequences, i), scratch(thread));
        y[i] = edit_distance_of(edits, b_sequences.length(i), normalized);
      }
    });
  }

 private:
  template <class T>
  static std::span<const T> rows_of(const T* x, const Segments& sequences, std::int64_t i) noexcept {
    return {x + sequences.begin(i), static_cast<std::size_t>(sequences.length(i))};
  }

  /// `row` is for one number more than the shorter sequence has rows.
  template <class T>
  static std::int64_t distance(std::span<const T> a, std::span<const T> b, std::int64_t* row) noexcept {
    if (a.size() < b.size()) std::swap(a, b);
    while (!b.empty() && a.front() == b.front()) {
      a = a.subspan(1);
      b = b.subspan(1);
    }
    while (!b.empty() && a.back() == b.back()) {
      a = a.first(a.size() - 1);
      b = b.first(b.size() - 1);
    }
    // row[n] is the distance between what has been seen of a and the first n rows of b.
    for (std::size_t n = 0; n <= b.size(); ++n) row[n] = static_cast<std::int64_t>(n);
    for (const T id : a) {
      std::int64_t replaced = row[0]++;
      for (std::size_t n = 0; n < b.size(); ++n) {
        const std::int64_t here = std::min(replaced + (b[n] != id), std::min(row[n], row[n + 1]) + 1);
        replaced = std::exchange(row[n + 1], here);
      }
    }
    return row[b.size()];
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET
