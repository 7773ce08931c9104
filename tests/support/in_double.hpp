// SPDX-License-Identifier: Apache-2.0
/// @file
/// Results of any element type against what the same operation gives in double.
#pragma once

#include "support/random_batch.hpp"
#include <lod/executor.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/ops/output.hpp>
#include <lod/selected_rows.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lod_test {

/// The numbers of x as U.
template <class U, lod::LoDTensorLike X>
lod::LoDTensor<U> as(const X& x) {
  const auto view = x.view();
  auto y = view.levels() > 0 ? lod::LoDTensor<U>(view.lod(), view.row_shape()) : lod::LoDTensor<U>(view.shape());
  for (std::size_t i = 0; i < y.values().size(); ++i) y.values()[i] = static_cast<U>(view.values()[i]);
  return y;
}

/// A row-sparse tensor with the rows of x.
template <lod::LoDTensorLike X>
lod::SelectedRows<lod::value_type_t<X>> listed(const X& x, const std::vector<std::int64_t>& ids, std::int64_t height) {
  return {ids, height, lod::LoDTensor<lod::value_type_t<X>>::copy_of(x.view())};
}

/// Slices of a batch with empty sequences, and of a plain tensor.
template <class T>
struct Given {
  lod::LoDTensor<T> whole, more;
  lod::LoDTensorView<const T> x, rows, eight;  // x has 9 rows; `rows` one for each of its sequences
  lod::LoD index;

  Given(Engine& engine, std::int64_t row_size)
      : whole(small_integers<T>(engine, lod::LoD::from_lengths({{1, 2, 0, 2}, {3, 4, 0, 1, 4}}), {row_size})),
        more(small_integers<T>(engine, {12, row_size})),
        x(std::as_const(whole).between(1, 4)),
        rows(std::as_const(more).between(2, 6)),
        eight(std::as_const(more).between(3, 11)),
        index(x.lod()) {}
};

/// f(executor, x) must give what it gives of x in double, cut to an integer where the type is one: to the last bit, or
/// within a relative error.
template <lod::LoDTensorLike X, class F>
void check_in_double(const char* name, const X& x, const F& f, double error = 0) {
  using T = lod::value_type_t<X>;
  CAPTURE(name);
  const lod::LoDTensor<T> found = f(lod::CpuExecutor(2), x);
  const lod::LoDTensor<double> expected = f(lod::CpuExecutor(1), as<double>(x));
  CHECK(found.lod() == expected.lod());
  REQUIRE(found.shape() == expected.shape());
  const auto same = [&](T a, double b) {
    if constexpr (std::integral<T>) {
      return a == static_cast<T>(static_cast<std::int64_t>(b));
    } else {
      return error > 0 ? std::abs(static_cast<double>(a) - b) <= error * std::max(1.0, std::abs(b))
                       : a == static_cast<T>(b);
    }
  };
  CHECK(std::equal(found.values().begin(), found.values().end(), expected.values().begin(), same));
}

}  // namespace lod_test
