// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup reductions
/// Pooling: one row from the rows of each sequence.
#pragma once

#include <lod/core/scalar.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/row_index.hpp>

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_pool : elements::Arithmetic {
  static constexpr Text text{"x, type", "One row for each sequence; the levels above it stay."};
};
struct sequence_pool_grad : elements::Arithmetic {
  static constexpr Text text{
      "dy, lod, type",
      "The gradient of `sequence_pool`, except for MAX and MIN, which need the index of `sequence_max_pool`."};
};
struct sequence_first_step : elements::Arithmetic {
  static constexpr Text text{"x", "The first row of each sequence."};
};
struct sequence_last_step : elements::Arithmetic {
  static constexpr Text text{"x", "The last row of each sequence."};
};
struct sequence_max_pool : elements::Arithmetic {
  static constexpr Text text{"x", "The greatest number of each sequence and column, and the row that has it."};
};
struct sequence_max_pool_grad : elements::Arithmetic {
  static constexpr Text text{"dy, index, lod", "The gradient of `sequence_max_pool`, for the levels of x."};
};
struct sequence_min_pool : elements::Arithmetic {
  static constexpr Text text{"x", "The least number of each sequence and column, and the row that has it."};
};
struct sequence_min_pool_grad : elements::Arithmetic {
  static constexpr Text text{"dy, index, lod", "The gradient of `sequence_min_pool`, for the levels of x."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// How the n rows of a sequence become one, column by column. Semantics: PaddlePaddle's sequence_pool.
enum class PoolType {
  SUM,      ///< the sum
  AVERAGE,  ///< the sum / n
  SQRT,     ///< the sum / sqrt(n)
  MAX,      ///< the greatest; NaN if there is one
  MIN,      ///< the least; NaN if there is one
  FIRST,    ///< the first row
  LAST      ///< the last row
};

/// The options of `sequence_pool` and of operations that pool by one rule, and of their gradients.
struct PoolOptions {
  Scalar pad_value = 0;                  ///< every element of the row of an empty sequence
  int level = -1;                        ///< the level whose sequences are pooled; by default the last
  RowIndex row_index = RowIndex::BATCH;  ///< where an index counts the winning rows from
};

/// The result of `sequence_max_pool` and `sequence_min_pool`.
template <class T, class Device>
struct MaxPool {
  LoDTensor<T, Device> values;
  /// For each element of `values`, the row of x that won, counted from the first row of x; -1 for an empty sequence. No
  /// level. With RowIndex::SEQUENCE counted from the first row of its sequence, with the levels of the values.
  LoDTensor<std::int64_t, Device> index;
};

/// The results of `sequence_max_pool` and `sequence_min_pool`, described.
struct MaxPoolDesc {
  LoDTensorDesc values;
  LoDTensorDesc index;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
struct SequencePool {};
/// SequencePool with SUM, AVERAGE or SQRT of type `Accumulator<T>`: run(executor, x, sequences, row_size, type,
/// pad_value, y), with pad_value and y of that type.
struct SequenceSums {};
struct SequenceMaxPool {};
struct SequencePoolGrad {};
struct SequenceMaxPoolGrad {};
/// run(executor, dy, sequences, row_size, type, y): y[i] = dy[i], divided as the sum of sequence i was, unless the
/// sequence is empty.
struct DividePooled {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws OutOfRange for a number that is not a PoolType.
inline void check_pool_type(PoolType type, const char* what) {
  if (type < PoolType::SUM || type > PoolType::LAST) {
    throw OutOfRange(detail::text({what, ": PoolType ", static_cast<int>(type), ", expected SUM to LAST"}));
  }
}

/// The same for gradients. Also throws std::invalid_argument for MAX and MIN, whose gradients `others` compute.
inline void check_sums_or_steps(PoolType type, const char* what, const char* others) {
  check_pool_type(type, what);
  if (type == PoolType::MAX || type == PoolType::MIN) {
    throw std::invalid_argument(detail::text({what, ": of MAX and MIN, use ", others, " with the index"}));
  }
}

/// Throws std::invalid_argument for types whose result is a row of x, and so has its type.
inline void check_wide_pool_type(PoolType type) {
  if (type > PoolType::SQRT) {
    throw std::invalid_argument(
        detail::text({"sequence_pool: PoolType ", static_cast<int>(type),
                      " into elements of another type than x has, expected SUM, AVERAGE or SQRT"}));
  }
}

/// Pools sequences into elements of type U: T, or the type in which elements of type T are summed.
template <class Op, Executor E, class T, class U>
void pool_into(const E& executor, const Input<E, T>& x, PoolType type, const PoolOptions& options, const To<E, U>& y) {
  using Kernel = std::conditional_t<std::same_as<T, U>, kernel::SequencePool, kernel::SequenceSums>;
  const char* const what = Declared<Op>::name;
  check_pool_type(type, what);
  if constexpr (!std::same_as<T, U>) check_wide_pool_type(type);
  check_has_level(x, what);
  const int level = detail::resolve_level(options.level, x.levels(), what);
  const U pad_value = detail::checked<U>(options.pad_value, what, "pad_value");
  const auto out = prepare(executor, what, y, LevelsAbove{x.lod_view(), level}, x.row_shape(), {{"x", x}});
  launch(Kernel(), executor, x.data(), segments(executor, x, level), x.row_size(), type, pad_value, out.data());
}

template <>
struct Declared<op::sequence_pool> : Takes<Tensor, PoolType>, With<PoolOptions>, Gives<Sums> {
  static constexpr const char* name = "sequence_pool";
  using Gradient = op::sequence_pool_grad;
  template <class T>
  using Kernels = kernel::Instances<kernel::Instance<kernel::SequencePool, T>,
                                    std::conditional_t<kernel::has_wide_sums<T, kernel::Accumulator<T>>,
                                                       kernel::Instance<kernel::SequenceSums, T>, kernel::Instances<>>>;
  template <Executor E, class T, class U>
  static void run(const E& executor, const Input<E, T>& x, PoolType type, const PoolOptions& options,
                  const To<E, U>& y) {
    pool_into<op::sequence_pool, E, T>(executor, x, type, options, y);
  }
};
template <class Op, PoolType type>
struct OneStep : Takes<Tensor>, With<PoolOptions> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const PoolOptions& options, const To<E, T>& y) {
    pool_into<Op, E, T>(executor, x, type, options, y);
  }
};
template <>
struct Declared<op::sequence_first_step> : OneStep<op::sequence_first_step, PoolType::FIRST> {
  static constexpr const char* name = "sequence_first_step";
};
template <>
struct Declared<op::sequence_last_step> : OneStep<op::sequence_last_step, PoolType::LAST> {
  static constexpr const char* name = "sequence_last_step";
};

template <>
struct Declared<op::sequence_pool_grad>
    : Takes<Tensor, LoD, PoolType>, With<PoolOptions>, Launches<kernel::SequencePoolGrad> {
  static constexpr const char* name = "sequence_pool_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const LoD& lod, PoolType type, const PoolOptions& options,
                  const To<E, T>& dx) {
    check_sums_or_steps(type, name, "sequence_max_pool_grad or sequence_min_pool_grad");
    check_has_level(lod, {name, "lod"});
    const int level = detail::resolve_level(options.level, lod.levels(), name);
    check_row_count(dy.rows(), lod.size(level), {name, "dy"});
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{lod.view()}, dy.row_shape(), {{"dy", dy}});
    launch(kernel::SequencePoolGrad(), executor, dy.data(), segments(executor, out, level), dy.row_size(), type,
           out.data());
  }
};

template <class Op, bool minimum>
struct ExtremePool : Takes<Tensor>,
                     With<PoolOptions>,
                     GivesAll<MaxPool, Tensor, TensorOf<std::int64_t>>,
                     Launches<kernel::SequenceMaxPool>,
                     LaunchesOnIds<kernel::RenumberRows> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const PoolOptions& options, const To<E, T>& values,
                  const To<E, std::int64_t>& index) {
    const char* const what = Declared<Op>::name;
    check_has_level(x, what);
    const T pad_value = detail::checked<T>(options.pad_value, what, "pad_value");
    const int level = detail::resolve_level(options.level, x.levels(), what);
    const kernel::Segments sequences = segments(executor, x, level);
    const LevelsAbove above{x.lod_view(), level};
    check_row_index(options.row_index, what);
    const IndexLevels<LevelsAbove> of_index{above, options.row_index};
    const auto to_values = prepare(executor, {what, "values"}, values, above, x.row_shape(), {{"x", x}});
    const auto to_index =
        prepare(executor, {what, "index"}, index, of_index, x.row_shape(), {{"x", x}, {"values", values}});
    launch(kernel::SequenceMaxPool(), executor, x.data(), sequences, x.row_size(), minimum, pad_value, to_values.data(),
           to_index.data());
    if (options.row_index == RowIndex::SEQUENCE) {
      renumber(executor, to_index.data(), {{}, x.row_size()}, sequences, nullptr, kernel::Renumbering::TO_SEQUENCE,
               to_index.data());
    }
  }
};
template <>
struct Declared<op::sequence_max_pool> : ExtremePool<op::sequence_max_pool, false> {
  static constexpr const char* name = "sequence_max_pool";
  using Gradient = op::sequence_max_pool_grad;
};
template <>
struct Declared<op::sequence_min_pool> : ExtremePool<op::sequence_min_pool, true> {
  static constexpr const char* name = "sequence_min_pool";
  using Gradient = op::sequence_min_pool_grad;
};

template <class Op>
struct ExtremePoolGradient : Takes<Tensor, TensorOf<std::int64_t>, LoD>,
                             With<PoolOptions>,
                             Launches<kernel::SequenceMaxPoolGrad> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, std::int64_t>& index, const LoD& lod,
                  const PoolOptions& options, const To<E, T>& dx) {
    const char* const what = Declared<Op>::name;
    check_has_level(lod, {what, "lod"});
    const int level = detail::resolve_level(options.level, lod.levels(), what);
    check_row_count(dy.rows(), lod.size(level), {what, "dy"});
    check_row_count(index.rows(), lod.size(level), {what, "index"});
    check_row_shape(index.row_shape(), dy.row_shape(), {what, "index"});
    check_row_index(options.row_index, {what, "index"});
    if constexpr (on_cpu<E>) {
      const auto bounds = lod.view().absolute_offsets(level);
      const std::int64_t* winner = index.data();
      for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
        const IndexRange range(options.row_index, bounds[i], bounds[i + 1] - bounds[i]);
        for (std::int64_t column = 0; column < dy.row_size(); ++column, ++winner) {
          if (*winner == -1 || range.contains(*winner)) continue;
          const std::string found = detail::text({what, ": index ", *winner, " of sequence ", i, ", expected -1"});
          if (range.length == 0) throw OutOfRange(found + ", the sequence is empty");
          throw OutOfRange(
              detail::text({found, " or a row from ", range.first, " to ", range.first + range.length - 1}));
        }
      }
    }
    const LoDView sequences = lod.view();
    const RowsOfBatch<E> rows(executor, index.data(), index.rows() * dy.row_size(), options.row_index,
                              {{}, dy.row_size()}, segments(executor, sequences, level));
    const auto out =
        prepare(executor, {what, "dx"}, dx, SameLevels{sequences}, dy.row_shape(), {{"dy", dy}, {"index", index}});
    launch(kernel::SequenceMaxPoolGrad(), executor, dy.data(), rows.data(), segments(executor, out, level),
           dy.row_size(), out.data());
  }
};
template <>
struct Declared<op::sequence_max_pool_grad> : ExtremePoolGradient<op::sequence_max_pool_grad> {
  static constexpr const char* name = "sequence_max_pool_grad";
};
template <>
struct Declared<op::sequence_min_pool_grad> : ExtremePoolGradient<op::sequence_min_pool_grad> {
  static constexpr const char* name = "sequence_min_pool_grad";
};

}  // namespace operation

/// One row for each sequence of `level`, pooled from all rows under it: y[i] = pool(the rows of sequence i). Row shape
/// as x; LoD: the levels of x above `level`.
///
/// Floating-point numbers are added in a fixed order, a tree that begins with each sequence, with compensation over
/// long ones: the bits depend neither on threads nor on the rest of the batch, and the error does not grow with the
/// length. float16 and bfloat16 are summed as float, integers as int64. A sum is finite if the true sum is, and a mean
/// of finite numbers is always finite; a sum of negative zeros is a negative zero. SUM of integers wraps around in
/// their type, and a SUM of bools is true if any is: for counts and wider sums see below. AVERAGE and SQRT of integers
/// divide the exact sum and truncate; SQRT is clamped to T. An empty sequence gives `pad_value`. One pass over x, no
/// synchronisation. The output must not overlap x. Throws InvalidLoD if x has no level, OutOfRange for the level, for a
/// `pad_value` that a T cannot hold and for a number that is not a PoolType.
template <Executor E, LoDTensorLike X>
[[nodiscard]] auto sequence_pool(const E& executor, const X& x, PoolType type, const PoolOptions& options = {}) {
  return operation::Call<op::sequence_pool>()(executor, x, type, options);
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_pool(const X& x, PoolType type, const PoolOptions& options = {}) {
  return operation::Call<op::sequence_pool>()(x, type, options);
}
inline constexpr operation::CallInto<op::sequence_pool> sequence_pool_into{};

/// SUM, AVERAGE and SQRT in the type U, in which they are computed: `sequence_pool<std::int64_t>` for bool and for
/// integers of up to 32 bits, `sequence_pool<float>` for float16 and bfloat16. So a SUM of bools is a count, and no sum
/// wraps around. `sequence_pool_into` with a y of that type does the same; `pad_value` is a U. The gradient is
/// `sequence_pool_grad` of dy, which has elements of type U. Throws as above, and std::invalid_argument for other pool
/// types.
template <class U, Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<U, device_t<X>> sequence_pool(const E& executor, const X& x, PoolType type,
                                                      const PoolOptions& options = {}) {
  kernel::check_wide_sums<value_type_t<X>, U>();
  LoDTensor<U, device_t<X>> y(executor.resource());
  sequence_pool_into(executor, x, type, options, y);
  return y;
}
template <class U, LoDTensorLike X>
[[nodiscard]] auto sequence_pool(const X& x, PoolType type, const PoolOptions& options = {}) {
  return sequence_pool<U>(default_executor<device_t<X>>(), x, type, options);
}

/// The first row of each sequence: `sequence_pool` with FIRST.
inline constexpr operation::Call<op::sequence_first_step> sequence_first_step{};
inline constexpr operation::CallInto<op::sequence_first_step> sequence_first_step_into{};
/// The last row of each sequence: `sequence_pool` with LAST.
inline constexpr operation::Call<op::sequence_last_step> sequence_last_step{};
inline constexpr operation::CallInto<op::sequence_last_step> sequence_last_step_into{};

/// `sequence_pool` with MAX, and the row that won: the first of equal ones, or the first NaN. Also throws OutOfRange
/// for a number that is not a RowIndex.
inline constexpr operation::Call<op::sequence_max_pool> sequence_max_pool{};
inline constexpr operation::CallInto<op::sequence_max_pool> sequence_max_pool_into{};

/// `sequence_pool` with MIN, and the row that won.
inline constexpr operation::Call<op::sequence_min_pool> sequence_min_pool{};
inline constexpr operation::CallInto<op::sequence_min_pool> sequence_min_pool_into{};

/// The gradient of `sequence_pool` for the sequences of `lod`, which is that of its x: dx has the rows and levels of
/// `lod`. SUM gives every row of a sequence the sequence's dy, AVERAGE and SQRT divide it likewise, FIRST and LAST give
/// it to one row and 0 to the others. An empty sequence has no rows, so its dy is dropped. `dx` must not overlap dy.
/// Throws InvalidLoD if `lod` has no level, OutOfRange as `sequence_pool`, ShapeMismatch unless dy has one row for each
/// sequence of `level`; std::invalid_argument for MAX and MIN, whose gradients need the index
/// (`sequence_max_pool_grad`, `sequence_min_pool_grad`).
inline constexpr operation::Call<op::sequence_pool_grad> sequence_pool_grad{};
inline constexpr operation::CallInto<op::sequence_pool_grad> sequence_pool_grad_into{};

/// The gradient of `sequence_max_pool`: dx, with the rows and levels of `lod`, has dy at the rows that won, for each
/// column, and 0 elsewhere. Throws InvalidLoD if `lod` has no level, ShapeMismatch if dy or index do not fit,
/// OutOfRange for the level and for an index that is neither -1 nor a row of its sequence; on a GPU, where this is not
/// checked, such an index counts as -1.
inline constexpr operation::Call<op::sequence_max_pool_grad> sequence_max_pool_grad{};
inline constexpr operation::CallInto<op::sequence_max_pool_grad> sequence_max_pool_grad_into{};

/// The gradient of `sequence_min_pool`: the same as that of `sequence_max_pool`, since only the index matters.
inline constexpr operation::Call<op::sequence_min_pool_grad> sequence_min_pool_grad{};
inline constexpr operation::CallInto<op::sequence_min_pool_grad> sequence_min_pool_grad_into{};

namespace operation {

template <class Op>
MaxPoolDesc infer_extreme_pool(const LoDTensorDesc& x, const PoolOptions& options) {
  const infer::Batch values = infer::batch_for<Op>(x, Declared<Op>::name).pooled(options.level, Declared<Op>::name);
  return {values, infer_index(values, options.row_index, Declared<Op>::name)};
}

}  // namespace operation

/// The result of `sequence_pool`, described: see <lod/infer.hpp>; likewise below.
inline LoDTensorDesc infer_sequence_pool(const LoDTensorDesc& x, PoolType type, const PoolOptions& options = {}) {
  operation::check_pool_type(type, "sequence_pool");
  return infer::batch_for<op::sequence_pool>(x, "sequence_pool").pooled(options.level, "sequence_pool");
}
/// The same for `sequence_pool<U>`, with the DataType of U as `sums`. Throws if x has no such sums.
inline LoDTensorDesc infer_sequence_pool(const LoDTensorDesc& x, PoolType type, DataType sums,
                                         const PoolOptions& options = {}) {
  operation::check_wide_pool_type(type);
  return infer::with_wide_sums(infer_sequence_pool(x, type, options), sums, "sequence_pool");
}
inline LoDTensorDesc infer_sequence_first_step(const LoDTensorDesc& x, const PoolOptions& options = {}) {
  return infer::batch_for<op::sequence_first_step>(x, "sequence_first_step")
      .pooled(options.level, "sequence_first_step");
}
inline LoDTensorDesc infer_sequence_last_step(const LoDTensorDesc& x, const PoolOptions& options = {}) {
  return infer::batch_for<op::sequence_last_step>(x, "sequence_last_step").pooled(options.level, "sequence_last_step");
}
inline MaxPoolDesc infer_sequence_max_pool(const LoDTensorDesc& x, const PoolOptions& options = {}) {
  return operation::infer_extreme_pool<op::sequence_max_pool>(x, options);
}
inline MaxPoolDesc infer_sequence_min_pool(const LoDTensorDesc& x, const PoolOptions& options = {}) {
  return operation::infer_extreme_pool<op::sequence_min_pool>(x, options);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
