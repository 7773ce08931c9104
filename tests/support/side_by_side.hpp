// SPDX-License-Identifier: Apache-2.0
/// @file
/// Columns of tensors, joined and taken apart, for references of operations that have several numbers side by side.
#pragma once

#include <lod/lod_tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lod_test {

/// The rows of the tensors side by side; LoD as the first.
template <class T>
lod::LoDTensor<T> side_by_side(const std::vector<lod::LoDTensor<T>>& parts) {
  std::int64_t width = 0;
  for (const auto& part : parts) width += part.row_size();
  lod::LoDTensor<T> joined(lod::Shape{parts[0].rows(), width});
  for (std::int64_t i = 0; i < joined.rows(); ++i) {
    auto to = joined.row(i).begin();
    for (const auto& part : parts) to = std::ranges::copy(part.row(i), to).out;
  }
  return joined.with_lod(parts[0].lod());
}

/// `width` columns from `first` on; no rows of none.
template <class T>
lod::LoDTensor<T> some_columns(const lod::LoDTensorView<const T>& x, std::int64_t first, std::int64_t width) {
  if (x.rows() == 0) return {};
  lod::LoDTensor<T> y(lod::Shape{x.rows(), width});
  for (std::int64_t i = 0; i < y.rows(); ++i) std::copy_n(x.row(i).begin() + first, width, y.row(i).begin());
  return y;
}

/// The numbers of several tensors, one after the other, and back.
template <class T>
lod::LoDTensor<T> numbers_in_a_row(const std::vector<const lod::LoDTensor<T>*>& parts) {
  std::vector<T> all;
  for (const auto* part : parts) all.insert(all.end(), part->values().begin(), part->values().end());
  lod::LoDTensor<T> y(lod::Shape{static_cast<std::int64_t>(all.size())});
  std::ranges::copy(all, y.values().begin());
  return y;
}
template <class T>
void from_numbers_in_a_row(const lod::LoDTensorView<const T>& all, const std::vector<lod::LoDTensor<T>*>& parts) {
  const T* from = all.data();
  for (auto* part : parts) {
    std::copy_n(from, part->values().size(), part->data());
    from += part->values().size();
  }
}

}  // namespace lod_test
