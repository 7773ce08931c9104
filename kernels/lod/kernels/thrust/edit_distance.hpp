// SPDX-License-Identifier: Apache-2.0
/// @file
/// Edit distances over Thrust: one row of the table at a time, a body for each sequence.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/ops/edit_distance.hpp>
#include <lod/staging.hpp>
#include <lod/thrust_executor.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

/// The edits from the `a_length` ids of a to the `b_length` of b. `row` is for b_length + 1 numbers.
template <class T>
LOD_HOST_DEVICE std::int64_t distance(const T* a, std::int64_t a_length, const T* b, std::int64_t b_length,
                                      std::int64_t* row) {
  // What both begin and end with costs no edit.
  while (a_length > 0 && b_length > 0 && *a == *b) {
    ++a;
    ++b;
    --a_length;
    --b_length;
  }
  while (a_length > 0 && b_length > 0 && a[a_length - 1] == b[b_length - 1]) {
    --a_length;
    --b_length;
  }
  // row[n] is the distance between what has been seen of a and the first n rows of b.
  for (std::int64_t n = 0; n <= b_length; ++n) row[n] = n;
  for (std::int64_t k = 0; k < a_length; ++k) {
    const T id = a[k];
    std::int64_t replaced = k, here = k + 1;  // above row[n] to the left, and to the left of it
    row[0] = here;
    for (std::int64_t n = 0; n < b_length; ++n) {
      const std::int64_t above = row[n + 1];
      here = least(replaced + (b[n] != id ? 1 : 0), least(here, above) + 1);
      row[n + 1] = here;
      replaced = above;
    }
  }
  return row[b_length];
}

struct EditDistance {
  template <class E, class T>
  static void run(const E& executor, const T* a, const Segments& a_sequences, const T* b, const Segments& b_sequences,
                  bool normalized, float* y) {
    // Sequence i has a row of the table from b_sequences.begin(i) + i on.
    const Scratch<E, std::int64_t> loan(executor, b_sequences.rows() + b_sequences.size);
    std::int64_t* const rows = loan.data();
    for_each(executor, a_sequences.size, [=] LOD_HOST_DEVICE(std::int64_t i) {
      const std::int64_t first = b_sequences.begin(i), length = b_sequences.length(i);
      const std::int64_t edits =
          distance(a + a_sequences.begin(i), a_sequences.length(i), b + first, length, rows + first + i);
      if (!normalized) {
        y[i] = static_cast<float>(edits);
      } else if (length == 0) {
        y[i] = edits == 0 ? 0.F : 1.F;
      } else {
        y[i] = static_cast<float>(static_cast<double>(edits) / static_cast<double>(length));
      }
    });
  }
};

}  // namespace bulk

template <class Policy>
struct EditDistance<ThrustExecutor<Policy>> : bulk::EditDistance {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET
