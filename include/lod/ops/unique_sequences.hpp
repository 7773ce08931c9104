// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup structure
/// The distinct sequences of a batch.
#pragma once

#include <lod/core/keyed_hash.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/new_offsets.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct unique_sequences : elements::Any, elements::OnCpu {
  static constexpr Text text{
      "x", "The distinct outermost sequences, the index of each sequence among them, and how often each occurs."};
};
struct unique_sequences_and_wait : elements::Any {
  static constexpr Text text{"x", "The same as `unique_sequences`; on a GPU it waits."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The result of `unique_sequences`.
template <class T, class Device = Cpu>
struct UniqueSequences {
  LoDTensor<T, Device> values;             ///< each distinct sequence once, in the order of first occurrence
  LoDTensor<std::int64_t, Device> index;   ///< for each sequence of x, its index in `values`; no level
  LoDTensor<std::int64_t, Device> counts;  ///< for each of `values`, how often it occurs; no level
};

/// The result of `unique_sequences`, described.
struct UniqueSequencesDesc {
  LoDTensorDesc values;
  LoDTensorDesc index;
  LoDTensorDesc counts;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, x, sequences, splits, key, row_size, same_levels, first, index): first[u] = the first occurrence of
/// the u-th distinct sequence, index[i] = the number of the distinct sequence that sequence i equals, both in CPU
/// memory; returns how many distinct sequences there are. Sequences i and j are equal if same_levels(i, j) and their
/// rows have the same bits. splits[i], in CPU memory, is a hash of the levels below sequence i. `key` is the key of the
/// hashes.
struct UniqueSequences {
  static constexpr bool in_headers_only = true;  ///< it calls a function of the caller's
};
/// run(executor, x, sequences, splits, start, factor, row_size, numbers, left): numbers[i] = a hash of the bits of
/// sequence i, its length and splits[i], with a key of this start and factor; left[i] = i.
struct NumberSequences {};
/// run(executor, x, sequences, row_size, numbers, count, left, twins): twins[i] = the first of the `count` sequences in
/// `left` that has the hash of sequence i, for each i in `left`. Then `left` becomes the sequences whose twin has
/// different rows, in order, and twins[sequences.size] their number: 0 unless hashes collide.
struct FindTwins {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// For each sequence of the outermost level, a hash of the lengths at all levels below.
template <Executor E>
class LevelNumbers {
 public:
  LevelNumbers(const E& executor, const LoDView& lod, const detail::HashKey& key) : numbers_(executor, lod.size()) {
    const int below = lod.levels() - 1;
    const Workspace::Loan<const std::int64_t*> offsets(executor.workspace(), below > 0 ? below : 0);
    for (int level = 0; level < below; ++level) offsets[level] = lod.offsets(level + 1).data();
    const std::int64_t* const outermost = below > 0 ? lod.offsets(0).data() : nullptr;
    launch(kernel::ForEachRange(), executor, lod.size(), [&](std::int64_t, std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        std::uint64_t number = key.start;
        if (below > 0) {
          std::int64_t begin = outermost[i] - outermost[0], end = outermost[i + 1] - outermost[0];
          number = key.mix(number, static_cast<std::uint64_t>(end - begin));
          for (const std::int64_t* const of_level : offsets.span()) {
            for (std::int64_t k = begin; k < end; ++k) {
              number = key.mix(number, static_cast<std::uint64_t>(of_level[k + 1] - of_level[k]));
            }
            begin = of_level[begin] - of_level[0];
            end = of_level[end] - of_level[0];
          }
        }
        numbers_[i] = static_cast<std::int64_t>(number);
      }
    });
  }
  const Array<E, std::int64_t>& get() const noexcept { return numbers_; }

 private:
  Array<E, std::int64_t> numbers_;
};

/// The same as kernel::UniqueSequences, for devices: kernels find sequences with the same rows; levels are compared
/// here.
template <Executor E, class T, class SameLevels>
std::int64_t unique_by_twins(const E& executor, const T* x, const kernel::Segments& sequences,
                             const Array<E, std::int64_t>& splits, const detail::HashKey& key, std::int64_t row_size,
                             const SameLevels& same_levels, std::int64_t* first, std::int64_t* index) {
  const std::int64_t size = sequences.size;
  const kernel::Scratch<E, std::int64_t> numbers(executor, size), left(executor, size), found(executor, size + 1);
  const Workspace::Loan<std::int64_t> twins(executor.workspace(), size + 1), next(executor.workspace(), size);
  if (size > 0) {
    launch(kernel::NumberSequences(), executor, x, sequences, splits.on_device(), key.start, key.factor, row_size,
           numbers.data(), left.data());
  }
  for (std::int64_t count = size; count > 0; count = twins[size]) {
    launch(kernel::FindTwins(), executor, x, sequences, row_size, static_cast<const std::int64_t*>(numbers.data()),
           count, left.data(), found.data());
    if constexpr (on_cpu<E>) {
      std::copy_n(found.data(), size + 1, twins.data());
    } else {
      executor.resource()->download(twins.data(), found.data(), twins.span().size_bytes());
      executor.rethrow_faults();
    }
  }
  // Sequences with the same rows and hash but different levels are chained.
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    next[i] = -1;
    std::int64_t other = twins[i];
    while (other != i && !same_levels(other, i)) {
      if (next[other] < 0) next[other] = i;
      other = next[other];
    }
    if (other == i) {
      first[different] = i;
      index[i] = different++;
    } else {
      index[i] = index[other];
    }
  }
  return different;
}

template <class Op>
struct Distinct : Takes<Tensor>,
                  GivesAll<UniqueSequences, Tensor, TensorOf<std::int64_t>, TensorOf<std::int64_t>>,
                  Launches<kernel::NumberSequences, kernel::FindTwins> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const To<E, T>& values, const To<E, std::int64_t>& index,
                  const To<E, std::int64_t>& counts) {
    detail::check_waits_for_nothing<Op, typename E::device>();
    const char* const what = Declared<Op>::name;
    const LoDView levels = x.lod_view();
    const std::int64_t size = x.size();
    const OutermostSegments<E> sequences(executor, levels);
    const detail::HashKey key = detail::HashKey::draw();
    const LevelNumbers<E> splits(executor, levels, key);
    const Workspace::Loan<std::int64_t> first(executor.workspace(), size);
    const Array<E, std::int64_t> which(executor, size);
    const std::int64_t different = launch(
        kernel::UniqueSequences(), executor, x.data(), sequences.get(), splits.get(), key, x.row_size(),
        [&](std::int64_t i, std::int64_t j) { return levels.element(i) == levels.element(j); }, first.data(),
        which.data());
    const Array<E, std::int64_t> times(executor, different);
    std::fill_n(times.data(), different, std::int64_t{0});
    for (std::int64_t i = 0; i < size; ++i) ++times[which[i]];

    const Rearrangement chosen(executor, what, x, different, [&](std::int64_t i) { return first[i]; });
    const auto rows = chosen.rows();
    const auto to_values = prepare(executor, {what, "values"}, values, chosen.levels(), x.row_shape(), {{"x", x}});
    const auto to_index =
        prepare(executor, {what, "index"}, index, PlainRows{size}, {}, {{"x", x}, {"values", values}});
    const auto to_counts = prepare(executor, {what, "counts"}, counts, PlainRows{different}, {},
                                   {{"x", x}, {"values", values}, {"index", index}});
    launch(kernel::CopyValues(), executor, times.on_device(), different, to_counts.data());
    launch(kernel::CopyValues(), executor, which.on_device(), size, to_index.data());
    rows.copy(to_values.data());
  }
};
template <>
struct Declared<op::unique_sequences> : Distinct<op::unique_sequences> {
  static constexpr const char* name = "unique_sequences";
};
template <>
struct Declared<op::unique_sequences_and_wait> : Distinct<op::unique_sequences_and_wait> {
  static constexpr const char* name = "unique_sequences_and_wait";
};

}  // namespace operation

/// The sequences of the outermost level of x, or its rows if it has no level, without repetitions. Two are equal if
/// they have the same lengths at every level below and the same values, bit by bit: 0.0 and -0.0 differ, NaNs with the
/// same bits are equal. `values` has the levels of x. Time: one pass over the levels and the values to hash the
/// sequences, and one over those with equal hashes; nobody can choose sequences that collide, since each call draws a
/// new key for the hashes.
///
/// The outputs must not overlap x. x is `select(values, index)`.
inline constexpr operation::Call<op::unique_sequences> unique_sequences{};
inline constexpr operation::CallInto<op::unique_sequences> unique_sequences_into{};

/// `unique_sequences` for any device, for code that is generic over executors; on the CPU it is the same. Since the
/// sizes of the results depend on the values, on a GPU this waits for all work that is enqueued, so no graph can be
/// captured from it, and throws as `CudaExecutor::synchronize` does.
inline constexpr operation::Call<op::unique_sequences_and_wait> unique_sequences_and_wait{};
inline constexpr operation::CallInto<op::unique_sequences_and_wait> unique_sequences_and_wait_into{};

/// The results of `unique_sequences` and `unique_sequences_and_wait`, described: see <lod/infer.hpp>.
inline UniqueSequencesDesc infer_unique_sequences(const LoDTensorDesc& x) {
  infer::Batch values(x, "unique_sequences");
  const std::int64_t size = values.size();
  values.rows = infer::unknown;
  return {values, infer::Batch(DataType::INT64, size, {}, 0), infer::Batch(DataType::INT64, infer::unknown, {}, 0)};
}
inline UniqueSequencesDesc infer_unique_sequences_and_wait(const LoDTensorDesc& x) { return infer_unique_sequences(x); }

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
