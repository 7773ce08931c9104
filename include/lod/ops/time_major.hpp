// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup recurrent
/// Time-major blocks: step 0 of every sequence, then step 1 of all that have one, and so on. A fast recurrent network
/// loops over these: each step is contiguous, and the active sequences are always the first ones.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lifetime.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/new_offsets.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace lod::inline LOD_INTERFACE::op {
struct to_time_major : elements::Any {
  static constexpr Text text{
      "x, table", "x by time steps: level 0 is the steps, each with a row (or sub-sequence) of every active sequence."};
};
struct to_time_major_grad : elements::Any {
  static constexpr Text text{"dz, table"};
};
struct from_time_major : elements::Any {
  static constexpr Text text{"z, table", "The inverse of `to_time_major`: the sequences in their original order."};
};
struct from_time_major_grad : elements::Any {
  static constexpr Text text{"dy, table", "The gradient of `from_time_major`: dy by steps."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

namespace detail {
/// Where step t begins among all steps of all sequences: steps() + 1 numbers.
LOD_TAGGED inline void write_step_offsets(const RankTable& table, std::span<std::int64_t> offsets) {
  offsets[0] = 0;
  for (std::int64_t t = 0; t < table.steps(); ++t) {
    offsets[static_cast<std::size_t>(t) + 1] = offsets[static_cast<std::size_t>(t)] + table.active(t);
  }
}
}  // namespace detail

/// The rows of a ragged batch in time-major order. `values()` has the level of the steps, whose elements are the active
/// sequences, and the levels below the ranked one: `step(t)` is a view of the step's element of each active sequence,
/// in rank order. If the ranked level is the last one, that is one row each: [active(t), row shape...].
template <class T, class Device = Cpu>
class TimeMajor {
 public:
  using value_type = T;   ///< the type of the elements
  using device = Device;  ///< the device whose memory holds them

  LOD_TAGGED TimeMajor() = default;
  /// No steps yet; memory for them will come from the resource.
  LOD_TAGGED explicit TimeMajor(typename Device::memory_resource* resource) : values_(resource) {}
  /// One zero row for each step of each sequence: room for the states of a recurrent network.
  LOD_TAGGED TimeMajor(const RankTable& table, const Shape& row_shape) {
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(table.steps()) + 1);
    detail::write_step_offsets(table, {offsets.data(), offsets.size()});
    values_ = LoDTensor<T, Device>(LoD::from_offsets({std::move(offsets)}), row_shape);
  }
  /// Takes values whose level 0 is the steps.
  LOD_TAGGED explicit TimeMajor(LoDTensor<T, Device> values) noexcept : values_(std::move(values)) {}

  /// The number of steps.
  LOD_TAGGED std::int64_t steps() const noexcept { return values_.levels() > 0 ? values_.size() : 0; }
  /// Step t as a view. Throws OutOfRange.
  LOD_TAGGED LoDTensorView<T, Device> step(std::int64_t t) LOD_LIFETIMEBOUND { return values_[t]; }
  LOD_TAGGED LoDTensorView<const T, Device> step(std::int64_t t) const LOD_LIFETIMEBOUND { return values_[t]; }
  /// The rows of all steps; level 0 is the steps.
  LOD_TAGGED LoDTensor<T, Device>& values() noexcept LOD_LIFETIMEBOUND { return values_; }
  LOD_TAGGED const LoDTensor<T, Device>& values() const noexcept LOD_LIFETIMEBOUND { return values_; }

 private:
  LoDTensor<T, Device> values_;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// A reordering of the elements (sequences, or rows if there is no level) of `from`, each with everything below it.
template <Executor E>
class ElementOrder {
 public:
  ElementOrder(const E& executor, const LoDView& from)
      : from_(from),
        begins_(executor.workspace(), from.levels() > 0 ? from.size() : 0),
        ends_(executor.workspace(), from.levels() > 0 ? from.size() : 0),
        rows_(executor, from.rows()) {}

  /// Which element of `from` is element i of the result: must be written for each i.
  std::int64_t& operator[](std::int64_t i) const noexcept { return from_.levels() > 0 ? begins_[i] : rows_[i]; }

  /// Adds the reordered levels to `levels`, and returns the reordered rows, counted from the first of `from`. To be
  /// called once.
  const Array<E, std::int64_t>& rows(NewLevels& levels) const {
    if (from_.levels() == 0) return rows_;
    for (std::int64_t i = 0; i < from_.size(); ++i) ends_[i] = begins_[i] + 1;
    for (int level = 0; level < from_.levels(); ++level) add_level(level, levels);
    std::int64_t* next = rows_.data();
    for (std::int64_t i = 0; i < from_.size(); ++i) {
      for (std::int64_t row = begins_[i]; row < ends_[i]; ++row) *next++ = row;
    }
    return rows_;
  }

 private:
  /// Adds the lengths of the sequences of this level that each element holds, and goes on to what these hold.
  void add_level(int level, NewLevels& levels) const {
    std::int64_t size = 0;
    for (std::int64_t i = 0; i < from_.size(); ++i) size += ends_[i] - begins_[i];
    std::int64_t* out = levels.add(size).data();
    const std::int64_t* const offsets = from_.offsets(level).data();
    for (std::int64_t i = 0; i < from_.size(); ++i) {
      const std::int64_t begin = begins_[i], end = ends_[i], shift = *out - offsets[begin];
      for (std::int64_t sequence = begin; sequence < end; ++sequence) *++out = offsets[sequence + 1] + shift;
      begins_[i] = offsets[begin] - offsets[0];
      ends_[i] = offsets[end] - offsets[0];
    }
  }

  LoDView from_;
  Workspace::Loan<std::int64_t> begins_, ends_;  // of each element: its sequences of the level that comes next
  Array<E, std::int64_t> rows_;
};

/// Throws ShapeMismatch unless x, which the text calls `name`, has the levels of the table's LoD down to the ranked
/// one; those below are ignored.
inline void check_ranked(const LoDView& x, const RankTable& table, const char* what, const char* name = "x") {
  const int levels = table.level() + 1;
  const LoDView ranked = table.lod().view();
  if (x.levels() < levels || ranked.levels() < levels || !LoDView::equal_levels(x, ranked, levels)) {
    std::string where;
    if (x.levels() < levels) where = detail::text({x.levels(), " levels, expected at least ", levels});
    if (ranked.levels() < levels) where = "it was moved from, and ranks none";
    for (int level = 0; where.empty() && level < levels; ++level) {
      const std::string found = difference(x.offsets(level), ranked.offsets(level));
      if (!found.empty()) where = detail::text({"level ", level, ": ", found});
    }
    throw ShapeMismatch(detail::text({what, ": the levels of ", name, " are not those that the table ranks: ", where}));
  }
}

/// The part of a LoD under the sequences of `level`: the contents of their elements.
inline LoDView levels_below(const LoDView& whole, int level) {
  LoDView below = whole;
  // One level down at a time: all sequences of the level, as the elements of one.
  for (int above = 0; above <= level; ++above) below = below.all_children();
  return below;
}

template <class Op>
struct ToTimeMajor : Takes<Tensor, RankTable>, Gives<Of<TimeMajor>> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const RankTable& table,
                  TimeMajor<T, typename E::device>& z) {
    const char* const name = Declared<Op>::name;
    check_ranked(x.lod_view(), table, name);
    const int level = table.level();
    const LoDView elements = levels_below(x.lod_view(), level);
    const auto offsets = x.lod_view().offsets(level);
    NewLevels levels(executor.workspace(), elements.levels() + 1,
                     table.steps() + NewLevels::sequences_above(elements, elements.levels()));
    const std::span<std::int64_t> steps = levels.add(table.steps());
    detail::write_step_offsets(table, steps);
    ElementOrder<E> order(executor, elements);
    launch(kernel::ForEachRange(), executor, elements.size(), [&](std::int64_t, std::int64_t begin, std::int64_t end) {
      std::int64_t t = std::upper_bound(steps.begin(), steps.end(), begin) - steps.begin() - 1;
      for (std::int64_t i = begin; i < end; ++t) {
        const std::int64_t first = steps[static_cast<std::size_t>(t)];
        const std::int64_t stop = std::min(end, steps[static_cast<std::size_t>(t) + 1]);
        for (; i < stop; ++i) order[i] = offsets[static_cast<std::size_t>(table[i - first].index)] - offsets[0] + t;
      }
    });
    const Array<E, std::int64_t>& rows = order.rows(levels);
    const auto out = prepare(executor, name, z.values(), levels, x.row_shape(), {{"x", x}});
    launch(kernel::GatherRows(), executor, x.data(), rows.on_device(), x.rows(), x.row_size(), std::int64_t{-1},
           out.data());
  }
};
template <>
struct Declared<op::to_time_major> : ToTimeMajor<op::to_time_major> {
  static constexpr const char* name = "to_time_major";
  using Gradient = op::to_time_major_grad;
};
template <>
struct Declared<op::from_time_major_grad> : ToTimeMajor<op::from_time_major_grad> {
  static constexpr const char* name = "from_time_major_grad";
};

template <class Op>
struct FromTimeMajor : Takes<Of<TimeMajor>, RankTable> {
  template <Executor E, class T>
  static void run(const E& executor, const TimeMajor<T, typename E::device>& z, const RankTable& table,
                  const To<E, T>& y) {
    const char* const name = Declared<Op>::name;
    const auto view = z.values().view();
    const Workspace::Loan<std::int64_t> steps(executor.workspace(), table.steps() + 1);
    detail::write_step_offsets(table, steps.span());
    const std::string where = view.levels() > 0 ? difference(view.lod_view().offsets(0), steps.span()) : "none";
    if (!where.empty()) {
      throw ShapeMismatch(detail::text({name, ": the steps of z are not those of the table: ", where}));
    }

    const LoDView whole = table.lod().view();
    const LoDView elements = levels_below(view.lod_view(), 0);
    NewLevels levels(executor.workspace(), whole, table.level() + 1, elements.levels(),
                     NewLevels::sequences_above(elements, elements.levels()));
    const auto offsets = whole.offsets(table.level());
    ElementOrder<E> order(executor, elements);
    launch(kernel::ForEachRange(), executor, table.size(), [&](std::int64_t, std::int64_t begin, std::int64_t end) {
      for (std::int64_t rank = begin; rank < end; ++rank) {
        const std::int64_t first = offsets[static_cast<std::size_t>(table[rank].index)];
        for (std::int64_t t = 0; t < table[rank].length; ++t) order[first + t] = steps[t] + rank;
      }
    });
    const Array<E, std::int64_t>& rows = order.rows(levels);
    const auto out = prepare(executor, name, y, levels, view.row_shape(), {{"z", view}});
    launch(kernel::GatherRows(), executor, view.data(), rows.on_device(), view.rows(), view.row_size(),
           std::int64_t{-1}, out.data());
  }
};
template <>
struct Declared<op::from_time_major> : FromTimeMajor<op::from_time_major> {
  static constexpr const char* name = "from_time_major";
  using Gradient = op::from_time_major_grad;
};
template <>
struct Declared<op::to_time_major_grad> : FromTimeMajor<op::to_time_major_grad> {
  static constexpr const char* name = "to_time_major_grad";
};

}  // namespace operation

/// x in time-major order, by the rank table of one of its levels. Levels above the ranked one are dropped (the table
/// keeps them for the inverse), levels below stay with their step. Empty sequences take part in no step. Throws
/// ShapeMismatch unless x has the levels of the table's LoD down to the ranked one. One pass over the values, and a
/// list of row numbers in scratch memory.
inline constexpr operation::Call<op::to_time_major> to_time_major{};
inline constexpr operation::CallInto<op::to_time_major> to_time_major_into{};

/// The inverse of `to_time_major`: the sequences in their original order. LoD: the levels of the table down to the
/// ranked one, then those of z below its steps, which need not be those of x. Throws ShapeMismatch unless each step of
/// z has as many elements as the table has active sequences.
inline constexpr operation::Call<op::from_time_major> from_time_major{};
inline constexpr operation::CallInto<op::from_time_major> from_time_major_into{};

/// The gradient of `to_time_major`: the inverse permutation, as by `from_time_major`.
inline constexpr operation::Call<op::to_time_major_grad> to_time_major_grad{};
inline constexpr operation::CallInto<op::to_time_major_grad> to_time_major_grad_into{};
/// The gradient of `from_time_major`: dy in time-major order.
inline constexpr operation::Call<op::from_time_major_grad> from_time_major_grad{};
inline constexpr operation::CallInto<op::from_time_major_grad> from_time_major_grad_into{};

namespace operation {

/// The number of levels down to the ranked one. Throws ShapeMismatch unless x may have those of the table.
inline int infer_ranked_levels(const infer::Batch& x, const LoDTensorDesc& ranked, const RankOptions& options,
                               const char* what) {
  const infer::Batch table(ranked, what);
  const int levels = detail::resolve_level(options.level, table.levels, what) + 1;
  const bool same_rows = x.levels > levels || table.levels > levels || infer::agree(x.rows, table.rows);
  if (x.levels < levels || !same_rows) {
    throw ShapeMismatch(detail::text({what, ": the levels of x are not those that the table ranks"}));
  }
  return levels;
}

}  // namespace operation

/// The results of `to_time_major` and `from_time_major`, described: see <lod/infer.hpp>. A time-major block is
/// described by its `values()`; `ranked` describes a tensor with the LoD of the table, which was made with these
/// options.
inline LoDTensorDesc infer_to_time_major(const LoDTensorDesc& x, const LoDTensorDesc& ranked,
                                         const RankOptions& options = {}) {
  infer::Batch z(x, "to_time_major");
  z.levels -= operation::infer_ranked_levels(z, ranked, options, "to_time_major") - 1;
  return z;
}
inline LoDTensorDesc infer_from_time_major(const LoDTensorDesc& z, const LoDTensorDesc& ranked,
                                           const RankOptions& options = {}) {
  infer::Batch y(z, "from_time_major");
  const infer::Batch table(ranked, "from_time_major: the table");
  if (y.levels == 0) throw ShapeMismatch("from_time_major: the steps of z are not those of the table");
  y.levels += detail::resolve_level(options.level, table.levels, "from_time_major");
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
