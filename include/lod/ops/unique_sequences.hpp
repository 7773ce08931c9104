// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup structure
/// The different sequences of a batch.
#pragma once

#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/lod_index.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/output.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <cstdint>

namespace lod::op {
struct unique_sequences : elements::Any, elements::OnCpu {};
}  // namespace lod::op

namespace lod::inline LOD_TARGET {

/// What `unique_sequences` gives.
template <class T, class Device = Cpu>
struct UniqueSequences {
  LoDTensor<T, Device> values;             ///< each sequence that occurs once, in the order of their first occurrences
  LoDTensor<std::int64_t, Device> index;   ///< for each sequence of x, which of `values` it is; no level
  LoDTensor<std::int64_t, Device> counts;  ///< for each of `values`, how often it occurs; no level
};

namespace kernel {
/// run(executor, x, sequences, children, row_size, same_levels, first, index): first[u] = the first occurrence of the
/// u-th different sequence, index[i] = which one sequence i is; returns how many there are. Sequences are the same
/// where same_levels(i, j) says so and their rows have the same bits. children[i] to children[i + 1] are what sequence
/// i holds of the next level.
template <class Executor>
struct UniqueSequences : Missing<Executor> {};
}  // namespace kernel

/// The sequences of the outermost level of x, or its rows where it has no level, without repetitions. Two are the same
/// where they have the same lengths at every level below and the same values, bit by bit: 0.0 and -0.0 are different,
/// two NaNs of the same bits are the same. `values` has the levels of x. Time: one pass over the values to number the
/// sequences, and one over those that look alike.
///
/// The outputs must not overlap x. x is `select(values, index)`.
template <Executor E, LoDTensorLike X, class Values, class Index, class Counts>
void unique_sequences_into(const E& executor, const X& x, Values&& values, Index&& index, Counts&& counts) {
  const auto view = x.view();
  const LoDView levels = view.lod_view();
  const std::int64_t size = view.size();
  const operation::OutermostSegments<E> sequences(executor, levels);
  const std::int64_t* children = levels.levels() > 0 ? levels.offsets(0).data() : sequences.get().offsets;
  const Workspace::Loan<std::int64_t> first(executor.workspace(), size), numbers(executor.workspace(), size);
  const std::int64_t different = kernel::UniqueSequences<E>::run(
      executor, view.data(), sequences.get(), children, view.row_size(),
      [&](std::int64_t i, std::int64_t j) { return levels.element(i) == levels.element(j); }, first.data(),
      numbers.data());

  const operation::Rearrangement chosen(executor, view, different, [&](std::int64_t i) { return first[i]; });
  operation::check_output(values, chosen.levels(), view.row_shape());
  operation::check_output(index, operation::PlainRows{size}, {});
  const auto times = operation::prepare(executor, counts, operation::PlainRows{different}, {});
  const auto which = operation::prepare(executor, index, operation::PlainRows{size}, {});
  for (std::int64_t& count : times.values()) count = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    which.data()[i] = numbers[i];
    ++times.data()[numbers[i]];
  }
  chosen.write(values);
}
template <Executor E, LoDTensorLike X>
UniqueSequences<value_type_t<X>, device_t<X>> unique_sequences(const E& executor, const X& x) {
  using Numbers = LoDTensor<std::int64_t, device_t<X>>;
  UniqueSequences<value_type_t<X>, device_t<X>> y{LoDTensor<value_type_t<X>, device_t<X>>(executor.resource()),
                                                  Numbers(executor.resource()), Numbers(executor.resource())};
  unique_sequences_into(executor, x, y.values, y.index, y.counts);
  return y;
}
template <LoDTensorLike X>
auto unique_sequences(const X& x) {
  return unique_sequences(default_executor<device_t<X>>(), x);
}

/// What `unique_sequences` gives, described.
struct UniqueSequencesDesc {
  LoDTensorDesc values;
  LoDTensorDesc index;
  LoDTensorDesc counts;
};

/// What `unique_sequences` gives, described: see <lod/infer.hpp>.
inline UniqueSequencesDesc infer_unique_sequences(const LoDTensorDesc& x) {
  infer::Batch values(x, "unique_sequences");
  const std::int64_t size = values.size();
  values.rows = infer::unknown;
  return {values, infer::Batch(DataType::INT64, size, {}, 0), infer::Batch(DataType::INT64, infer::unknown, {}, 0)};
}

}  // namespace lod::inline LOD_TARGET
