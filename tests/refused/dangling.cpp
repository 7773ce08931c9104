// SPDX-License-Identifier: Apache-2.0
/// @file
/// Views that would outlive what they show: one for each case, which must not compile without a warning.
#include <lod/any_tensor.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/ops/tensor_array.hpp>
#include <lod/ops/time_major.hpp>
#include <lod/rank_table.hpp>
#include <lod/selected_rows.hpp>
#include <lod/sparse_table.hpp>

#include <vector>

lod::LoDTensor<float> result() { return lod::LoDTensor<float>(lod::LoD::from_lengths({{2, 1}}), {3}); }

int main() {
#if defined(SHAPE_ENDS)
  const std::vector<std::int64_t> dims(result().shape().begin(), result().shape().end());
#elif defined(SLICE)
  const auto first = result().slice({0});
  return static_cast<int>(first.rows());
#elif defined(VALUES)
  const auto values = result().values();
  return static_cast<int>(values.size());
#elif defined(OFFSETS)
  const auto offsets = result().lod().offsets(0);
  return static_cast<int>(offsets.size());
#elif defined(ROWS)
  const auto& rows = lod::SelectedRows<float>({1}, 2, {3}).rows();
  return static_cast<int>(rows.size());
#elif defined(ANY_VIEW)
  const auto view = lod::AnyLoDTensor(result()).view<float>();
  return static_cast<int>(view.rows());
#elif defined(ITEMS)
  const auto items = lod::RankTable(result().lod()).items();
  return static_cast<int>(items.size());
#elif defined(STEP)
  const auto step = lod::TimeMajor<float>(result()).step(0);
  return static_cast<int>(step.rows());
#elif defined(ARRAY_ELEMENT)
  const auto& element = lod::TensorArray<float>()[0];
  return static_cast<int>(element.rows());
#elif defined(OTHER_LEVELS)
  const lod::LoDTensor<float> x = result();
  const auto pairs = x[0].with_lod(lod::LoD::from_lengths({{2}}));
  return static_cast<int>(pairs.size());
#elif defined(TABLE_ROWS)
  const auto value = lod::SparseTable<float>({3}, 2).value();
  return static_cast<int>(value.rows());
#else
  // What is asked of a temporary and used at once is none of these.
  const lod::LoDTensor<float> x = result();
  float sum = 0;
  for (const auto& sequence : result()) sum += sequence.values()[0];
  for (const std::int64_t dim : x.shape()) sum += static_cast<float>(dim);
  const lod::LoDTensor<float> first = lod::LoDTensor<float>::copy_of(result().slice({0}));
  const lod::LoD levels = lod::AnyLoDTensor(x).lod();
  sum += x[0].with_lod(lod::LoD::from_lengths({{2}})).values()[0];
  sum += static_cast<float>(lod::RankTable(levels).items()[0].length);
  return static_cast<int>(sum + first.slice({0}).values()[0] + static_cast<float>(result().slice({1}).rows()));
#endif
}
