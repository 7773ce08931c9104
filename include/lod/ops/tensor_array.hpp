// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup recurrent
/// Tensor arrays: the steps of a ragged batch as separate tensors, for recurrent networks that are written step by
/// step; steps may be whole sub-sequences. (A network whose steps are rows runs faster on the single block of
/// time_major.hpp.)
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lifetime.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/sizes.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/time_major.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::op {
struct lod_tensor_to_array : elements::Any {
  static constexpr Text text{
      "x, table", "The steps of x: element t has step t of every sequence longer than t, in the order of the table."};
};
struct lod_tensor_to_array_grad : elements::Any {
  static constexpr Text text{"dy, table"};
};
struct array_to_lod_tensor : elements::Any {
  static constexpr Text text{"array, table",
                             "The inverse of `lod_tensor_to_array`: the sequences in their original order."};
};
struct array_to_lod_tensor_grad : elements::Any {
  static constexpr Text text{"dy, table"};
};
struct shrink_rnn_memory : elements::Any {
  static constexpr Text text{"x, table, t", "The states of the sequences that take step t."};
};
struct shrink_rnn_memory_grad : elements::Any {
  static constexpr Text text{"dy, x_levels, table, t"};
};
struct reorder_lod_tensor_by_rank : elements::Any {
  static constexpr Text text{"x, table", "The outermost sequences, or rows, in the table's order."};
};
struct reorder_lod_tensor_by_rank_grad : elements::Any {
  static constexpr Text text{"dy, table", "The gradient: the sequences in the order of x."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// Tensors by index. They need not have the same number of rows; operations on the whole array expect the same row
/// shape and number of levels.
template <class T, class Device = Cpu>
class TensorArray {
 public:
  /// An element.
  using Tensor = LoDTensor<T, Device>;
  /// The element type of the tensors.
  using value_type = T;
  /// Their device.
  using device = Device;

  LOD_TAGGED TensorArray() = default;
  /// Takes the elements.
  LOD_TAGGED explicit TensorArray(std::vector<Tensor> elements) noexcept : elements_(std::move(elements)) {}

  LOD_TAGGED TensorArray(const TensorArray&) = default;
  LOD_TAGGED TensorArray(TensorArray&&) noexcept = default;
  /// A move to itself changes nothing.
  LOD_TAGGED TensorArray& operator=(TensorArray&& other) noexcept {
    if (this == &other) return *this;  // a vector that is moved to itself may lose everything
    elements_ = std::move(other.elements_);
    like_ = std::move(other.like_);
    return *this;
  }
  /// Existing elements keep their memory resources. If it throws, this is unchanged.
  LOD_TAGGED TensorArray& operator=(const TensorArray& other) {
    std::vector<Tensor> elements;
    elements.reserve(other.elements_.size());
    for (const Tensor& element : other.elements_) {
      if (elements.size() < elements_.size()) {
        elements.emplace_back(elements_[elements.size()].resource()) = element;
      } else {
        elements.push_back(element);
      }
    }
    like_ = other.like_;
    elements_ = std::move(elements);
    return *this;
  }
  LOD_TAGGED ~TensorArray() = default;

  /// The number of elements.
  LOD_TAGGED std::int64_t size() const noexcept { return static_cast<std::int64_t>(elements_.size()); }
  /// Element t. Throws OutOfRange.
  LOD_TAGGED Tensor& operator[](std::int64_t t) LOD_LIFETIMEBOUND { return elements_[checked(t)]; }
  LOD_TAGGED const Tensor& operator[](std::int64_t t) const LOD_LIFETIMEBOUND { return elements_[checked(t)]; }
  /// @{
  /// Iterates over the elements.
  LOD_TAGGED auto begin() noexcept { return elements_.begin(); }
  LOD_TAGGED auto end() noexcept { return elements_.end(); }
  LOD_TAGGED auto begin() const noexcept { return elements_.begin(); }
  LOD_TAGGED auto end() const noexcept { return elements_.end(); }
  /// @}

  /// Assigns `tensor` to element t. An array that is too short is extended by tensors without rows. Throws OutOfRange
  /// for a negative t, ShapeMismatch or std::bad_alloc if memory cannot hold that many elements; the array is then
  /// unchanged.
  LOD_TAGGED void write(std::int64_t t, Tensor tensor) {
    if (t < 0) throw OutOfRange(detail::text({"TensorArray: element ", t, ", expected 0 or more"}));
    if (t >= size()) elements_.resize(detail::checked_count<Tensor>(t, "TensorArray") + 1);
    elements_[static_cast<std::size_t>(t)] = std::move(tensor);
  }
  /// Keeps the first `size` elements, or adds tensors without rows whose memory comes from `resource`. Throws
  /// OutOfRange for a negative size, ShapeMismatch or std::bad_alloc as `write` does.
  LOD_TAGGED void resize(std::int64_t size, typename Device::memory_resource* resource = Device::default_resource()) {
    if (size < 0) throw OutOfRange(detail::text({"TensorArray: ", size, " elements, expected 0 or more"}));
    if (size < this->size()) elements_.erase(elements_.begin() + static_cast<std::ptrdiff_t>(size), elements_.end());
    // At least twice as many as before, so that an array that grows step by step is not copied each time.
    const std::size_t needed = detail::checked_count<Tensor>(size, "TensorArray");
    if (needed > elements_.capacity()) elements_.reserve(std::max(needed, 2 * elements_.capacity()));
    while (this->size() < size) elements_.emplace_back(resource);
  }

  /// A tensor without sequences (or rows) that has the row shape and the levels of the elements. If there are no
  /// elements, as for a batch whose sequences are all empty, it determines both.
  LOD_TAGGED Tensor& like() noexcept { return like_; }
  LOD_TAGGED const Tensor& like() const noexcept LOD_LIFETIMEBOUND { return like_; }

 private:
  LOD_TAGGED std::size_t checked(std::int64_t t) const {
    if (t < 0 || t >= size()) {
      throw OutOfRange(detail::text({"TensorArray: element ", t, " of ", size()}));
    }
    return static_cast<std::size_t>(t);
  }

  std::vector<Tensor> elements_;
  Tensor like_;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws ShapeMismatch unless there is one sequence (row) for each sequence of the table.
inline void check_table_size(std::int64_t found, const RankTable& table, const Subject& what) {
  if (found != table.size()) {
    throw ShapeMismatch(detail::text({what.text(), ": ", found, " sequences (rows, where there is no level), expected ",
                                      table.size(), ", as many as the table ranks"}));
  }
}

/// The sequences of a table, joined from their steps: one borrowed tensor or view for each step.
template <Executor E, class T>
class JoinedSteps {
 public:
  using View = LoDTensorView<const T, typename E::device>;

  /// `like` has the structure of the steps, in case there are none. `step` begins the texts of errors, followed by the
  /// number of the step.
  template <class Step>
  JoinedSteps(const E& executor, std::span<const Step> elements, const LoDTensor<T, typename E::device>& like,
              const RankTable& table, const char* what, const Subject& step)
      // There is at least one source, so that there is something to take row shape and levels from.
      : views_(executor.workspace(), elements.empty() ? 1 : static_cast<std::int64_t>(elements.size())),
        runs_((list(elements, like, table, step), executor.workspace()), views(), 0,
              table.lod().view().offsets(table.level()).back()),
        levels_(executor.workspace(), table.lod().view(), table.level() + 1, views_[0].levels(),
                add_runs(executor, table, what)) {
    runs_.descend(levels_);
    rows_.emplace(executor, runs_, views(), row_shape().elements());
  }
  JoinedSteps(const JoinedSteps&) = delete;
  JoinedSteps& operator=(const JoinedSteps&) = delete;

  const NewLevels& levels() const noexcept { return levels_; }
  const Shape& row_shape() const noexcept { return views_[0].row_shape(); }
  /// The views that are read.
  std::span<const View> views() const noexcept { return views_.span(); }
  void copy(T* y) const { rows_->copy(y); }

 private:
  template <class Step>
  void list(std::span<const Step> elements, const LoDTensor<T, typename E::device>& like, const RankTable& table,
            const Subject& step) const {
    const auto count = static_cast<std::int64_t>(elements.size());
    LOD_ASSERT(count == table.steps());
    if (count == 0) ::new (static_cast<void*>(views_.data())) View(like.view());
    for (std::int64_t t = 0; t < count; ++t) {
      const View& view = *::new (static_cast<void*>(&views_[t])) View(elements[static_cast<std::size_t>(t)].view());
      const View& first = views_[0];
      if (view.levels() != first.levels()) {
        throw InvalidLoD(detail::text(
            {step.text(), t, " has ", view.levels(), " levels, expected ", first.levels(), " as the first has"}));
      }
      if (view.row_shape() != first.row_shape()) {
        throw ShapeMismatch(detail::text({step.text(), t, " has rows of shape ", to_string(view.row_shape()),
                                          ", expected ", to_string(first.row_shape()), " as the first has"}));
      }
      if (view.size() != table.active(t)) {
        throw ShapeMismatch(
            detail::text({step.text(), t, " has ", view.size(), " sequences (rows, where it has no level), expected ",
                          table.active(t), ", as many as are longer than ", t}));
      }
    }
  }
  /// Returns the number of sequences of the result at all levels.
  std::int64_t add_runs(const E& executor, const RankTable& table, const char* what) {
    const Workspace::Loan<std::int64_t> ranks(executor.workspace(), table.size());
    for (std::int64_t rank = 0; rank < table.size(); ++rank) ranks[table[rank].index] = rank;
    for (std::int64_t i = 0; i < table.size(); ++i) {
      const std::int64_t length = table[ranks[i]].length;
      for (std::int64_t t = 0; t < length; ++t) runs_.add(t, ranks[i], ranks[i] + 1);
    }
    return runs_.sequences(what);
  }

  Workspace::Loan<View> views_;
  Runs runs_;
  NewLevels levels_;
  std::optional<RunSources<E, T>> rows_;
};

template <class Op>
struct ToArray : Takes<Tensor, RankTable>, Gives<Of<TensorArray>> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const RankTable& table,
                  TensorArray<T, typename E::device>& array) {
    const char* const name = Declared<Op>::name;
    check_ranked(x.lod_view(), table, name);
    const LoDView levels = levels_below(x.lod_view(), table.level());
    const Input<E, T> steps(x.data(), levels, &x.row_shape(), x.row_size());
    const auto offsets = x.lod_view().offsets(table.level());
    for (const auto& element : array) check_apart(name, element, {{"x", x}});
    array.resize(table.steps(), executor.resource());
    rearrange_into(executor, {name, "like()"}, steps, 0, [](std::int64_t i) { return i; }, array.like(), {{"x", x}});
    for (std::int64_t t = 0; t < table.steps(); ++t) {
      const auto step = [&](std::int64_t rank) {
        return offsets[static_cast<std::size_t>(table[rank].index)] - offsets[0] + t;
      };
      rearrange_into(executor, {name, "an element"}, steps, table.active(t), step, array[t], {{"x", x}});
    }
  }
};
template <>
struct Declared<op::lod_tensor_to_array> : ToArray<op::lod_tensor_to_array> {
  static constexpr const char* name = "lod_tensor_to_array";
  using Gradient = op::lod_tensor_to_array_grad;
};
template <>
struct Declared<op::array_to_lod_tensor_grad> : ToArray<op::array_to_lod_tensor_grad> {
  static constexpr const char* name = "array_to_lod_tensor_grad";
};

template <class Op>
struct FromArray : Takes<Of<TensorArray>, RankTable> {
  template <Executor E, class T>
  static void run(const E& executor, const TensorArray<T, typename E::device>& array, const RankTable& table,
                  const To<E, T>& y) {
    const char* const name = Declared<Op>::name;
    if (array.size() != table.steps()) {
      throw ShapeMismatch(detail::text(
          {name, ": ", array.size(), " elements, expected ", table.steps(), ", one for each step of the table"}));
    }
    const JoinedSteps<E, T> steps(executor, std::span(array.begin(), array.end()), array.like(), table, name,
                                  {name, "element "});
    check_apart_from_all(name, y, steps.views(), "element ");
    const auto out = prepare(executor, name, y, steps.levels(), steps.row_shape(), {});
    steps.copy(out.data());
  }
};
template <>
struct Declared<op::array_to_lod_tensor> : FromArray<op::array_to_lod_tensor> {
  static constexpr const char* name = "array_to_lod_tensor";
  using Gradient = op::array_to_lod_tensor_grad;
};
template <>
struct Declared<op::lod_tensor_to_array_grad> : FromArray<op::lod_tensor_to_array_grad> {
  static constexpr const char* name = "lod_tensor_to_array_grad";
};

template <>
struct Declared<op::shrink_rnn_memory> : Takes<Tensor, RankTable, std::int64_t> {
  static constexpr const char* name = "shrink_rnn_memory";
  using Gradient = op::shrink_rnn_memory_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const RankTable& table, std::int64_t t, const To<E, T>& y) {
    const std::int64_t active = detail::with_name(name, [&] { return table.active(t); });
    if (x.size() < active) {
      throw ShapeMismatch(
          detail::text({name, ": x has ", x.size(), " sequences (rows, where it has no level), expected at least ",
                        active, ", as many as are longer than ", t}));
    }
    const auto part = x.between(0, active);
    copy_into(executor, name, part, "x", SameLevels{part.lod_view()}, y);
  }
};

template <>
struct Declared<op::shrink_rnn_memory_grad> : Takes<Tensor, BatchLevels, RankTable, std::int64_t> {
  static constexpr const char* name = "shrink_rnn_memory_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const BatchLevels& x_levels, const RankTable& table,
                  std::int64_t t, const To<E, T>& dx) {
    const LoDView& levels = x_levels.view();
    const std::int64_t active = detail::with_name(name, [&] { return table.active(t); });
    if (levels.size() < active) {
      throw ShapeMismatch(
          detail::text({name, ": x has ", levels.size(), " sequences (rows, where it has no level), expected at least ",
                        active, ", as many as are longer than ", t}));
    }
    check_row_count(dy.rows(), levels.between(0, active).rows(), {name, "dy"});
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{levels}, dy.row_shape(), {in_place("dy", dy)});
    copy_rows(executor, dy, out.data());
    launch(kernel::SetZero(), executor, out.data() + dy.rows() * dy.row_size(),
           (out.rows() - dy.rows()) * dy.row_size());
  }
};

template <>
struct Declared<op::reorder_lod_tensor_by_rank> : Takes<Tensor, RankTable> {
  static constexpr const char* name = "reorder_lod_tensor_by_rank";
  using Gradient = op::reorder_lod_tensor_by_rank_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const RankTable& table, const To<E, T>& y) {
    check_table_size(x.size(), table, name);
    rearrange_into(executor, name, x, table.size(), [&](std::int64_t rank) { return table[rank].index; }, y,
                   {{"x", x}});
  }
};

template <>
struct Declared<op::reorder_lod_tensor_by_rank_grad> : Takes<Tensor, RankTable> {
  static constexpr const char* name = "reorder_lod_tensor_by_rank_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const RankTable& table, const To<E, T>& dx) {
    check_table_size(dy.size(), table, {name, "dy"});
    const Workspace::Loan<std::int64_t> ranks(executor.workspace(), table.size());
    for (std::int64_t rank = 0; rank < table.size(); ++rank) ranks[table[rank].index] = rank;
    rearrange_into(executor, {name, "dx"}, dy, table.size(), [&](std::int64_t i) { return ranks[i]; }, dx,
                   {{"dy", dy}});
  }
};

}  // namespace operation

/// The steps of x: element t holds step t of every sequence longer than t, in the order of the table. A step is an item
/// of the ranked level: a row if that is the last level, otherwise a whole sub-sequence; the levels below the ranked
/// one stay with the steps, those above are dropped (the table keeps them for the inverse). There are as many elements
/// as the longest sequence has steps; empty sequences are in none of them. Semantics: PaddlePaddle's
/// lod_tensor_to_array.
///
/// No element may overlap x. If memory runs out, the elements written before keep their new contents. Throws
/// ShapeMismatch unless x has the levels of the table's LoD down to the ranked one. One copy of the values.
inline constexpr operation::Call<op::lod_tensor_to_array> lod_tensor_to_array{};
inline constexpr operation::CallInto<op::lod_tensor_to_array> lod_tensor_to_array_into{};

/// The inverse of `lod_tensor_to_array`: the sequences in their original order, joined from their steps. LoD: the
/// levels of the table down to the ranked one, then those of the elements, which need not be those of x. Row shape as
/// the elements; if there are none, as `array.like()`. Semantics: PaddlePaddle's array_to_lod_tensor.
///
/// Throws ShapeMismatch unless element t has one sequence (row, if it has no level) for each sequence longer than t,
/// for every step of the table, and all have the same row shape; InvalidLoD for different numbers of levels.
inline constexpr operation::Call<op::array_to_lod_tensor> array_to_lod_tensor{};
inline constexpr operation::CallInto<op::array_to_lod_tensor> array_to_lod_tensor_into{};

/// The gradient of `lod_tensor_to_array`: the inverse permutation, as by `array_to_lod_tensor`.
inline constexpr operation::Call<op::lod_tensor_to_array_grad> lod_tensor_to_array_grad{};
inline constexpr operation::CallInto<op::lod_tensor_to_array_grad> lod_tensor_to_array_grad_into{};
/// The gradient of `array_to_lod_tensor`: dy by steps, as by `lod_tensor_to_array`.
inline constexpr operation::Call<op::array_to_lod_tensor_grad> array_to_lod_tensor_grad{};
inline constexpr operation::CallInto<op::array_to_lod_tensor_grad> array_to_lod_tensor_grad_into{};

/// The states of the sequences that take step t: the first table.active(t) sequences of x, or its rows if it has no
/// level. x is in the order of the table, as the states of a recurrent network are. Levels as x. A copy; `x.between(0,
/// table.active(t))` is a view of the same, without a copy. Semantics: PaddlePaddle's shrink_rnn_memory, also for no
/// active sequence.
///
/// `y` may be x's own tensor, but must not overlap x otherwise. Throws OutOfRange for a negative t, ShapeMismatch if x
/// has fewer sequences.
inline constexpr operation::Call<op::shrink_rnn_memory> shrink_rnn_memory{};
inline constexpr operation::CallInto<op::shrink_rnn_memory> shrink_rnn_memory_into{};

/// The gradient of `shrink_rnn_memory`: dy, followed by zero rows for the sequences that were left out. dx has
/// `x_levels`, the levels of x. The levels of dy are ignored. `dx` may be dy's own tensor, but must not overlap dy
/// otherwise. Throws ShapeMismatch unless dy has the rows of the first table.active(t) sequences of x, OutOfRange for a
/// negative t.
inline constexpr operation::Call<op::shrink_rnn_memory_grad> shrink_rnn_memory_grad{};
inline constexpr operation::CallInto<op::shrink_rnn_memory_grad> shrink_rnn_memory_grad_into{};

/// The sequences of the outermost level of x, or its rows if it has no level, in the order of the table: sequence r of
/// the result is sequence table[r].index of x, with everything below it. The table may rank another tensor of as many
/// sequences. Semantics: PaddlePaddle's reorder_lod_tensor_by_rank, with any number of levels.
///
/// `y` must not overlap x. Throws ShapeMismatch unless x has as many sequences as the table.
inline constexpr operation::Call<op::reorder_lod_tensor_by_rank> reorder_lod_tensor_by_rank{};
inline constexpr operation::CallInto<op::reorder_lod_tensor_by_rank> reorder_lod_tensor_by_rank_into{};

/// The gradient of `reorder_lod_tensor_by_rank`: the sequences of dy, which has the levels of the result, in the order
/// of x. Otherwise as `reorder_lod_tensor_by_rank`.
inline constexpr operation::Call<op::reorder_lod_tensor_by_rank_grad> reorder_lod_tensor_by_rank_grad{};
inline constexpr operation::CallInto<op::reorder_lod_tensor_by_rank_grad> reorder_lod_tensor_by_rank_grad_into{};

/// The results of `lod_tensor_to_array`, `array_to_lod_tensor`, `shrink_rnn_memory` and `reorder_lod_tensor_by_rank`,
/// described: see <lod/infer.hpp>. `ranked` describes a tensor with the LoD of the table, which was made with these
/// options.
inline LoDTensorArrayDesc infer_lod_tensor_to_array(const LoDTensorDesc& x, const LoDTensorDesc& ranked,
                                                    const RankOptions& options = {}) {
  infer::Batch step(x, "lod_tensor_to_array");
  step.levels -= operation::infer_ranked_levels(step, ranked, options, "lod_tensor_to_array");
  step.rows = infer::unknown;
  LoDTensorDesc desc = step;
  return {std::move(desc.tensor), desc.lod_level};
}
inline LoDTensorDesc infer_array_to_lod_tensor(const LoDTensorArrayDesc& array, const LoDTensorDesc& ranked,
                                               const RankOptions& options = {}) {
  infer::Batch y({array.tensor, array.lod_level}, "array_to_lod_tensor");
  const infer::Batch table(ranked, "array_to_lod_tensor: the table");
  const int level = detail::resolve_level(options.level, table.levels, "array_to_lod_tensor");
  y.rows = y.levels == 0 && level + 1 == table.levels ? table.rows : infer::unknown;
  y.levels += level + 1;
  return y;
}
inline LoDTensorDesc infer_shrink_rnn_memory(const LoDTensorDesc& x, std::int64_t t) {
  infer::Batch y(x, "shrink_rnn_memory");
  if (t < 0) throw OutOfRange(detail::text({"shrink_rnn_memory: step ", t, ", expected 0 or more"}));
  y.rows = infer::unknown;
  return y;
}
inline LoDTensorDesc infer_reorder_lod_tensor_by_rank(const LoDTensorDesc& x) {
  return infer::Batch(x, "reorder_lod_tensor_by_rank");
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
