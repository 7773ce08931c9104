// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup structure
/// Removing, inserting, flattening and exchanging levels.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/sizes.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/time_major.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lod::inline LOD_INTERFACE::op {
struct remove_level : elements::Any {
  static constexpr Text text{"x, level", "x with one level fewer."};
};
struct remove_level_grad : elements::Any {
  static constexpr Text text{"dy, x_levels", "The gradient of `remove_level`: dy under the levels of x."};
};
struct insert_level : elements::Any {
  static constexpr Text text{"x, level, lod", "x with one more level, whose sequences are as long as `lod` says."};
};
struct insert_level_grad : elements::Any {
  static constexpr Text text{"dy, x_levels", "The gradient of `insert_level`: dy under the levels of x."};
};
struct flatten : elements::Any {
  static constexpr Text text{"x", "x without the levels below `level`."};
};
struct flatten_grad : elements::Any {
  static constexpr Text text{"dy, x_levels", "The gradient of `flatten`: dy under the levels of x."};
};
struct transpose_levels : elements::Any {
  static constexpr Text text{"x", "The two outermost levels exchanged."};
};
struct transpose_levels_grad : elements::Any {
  static constexpr Text text{"dy, x_levels"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `flatten`.
struct FlattenOptions {
  int level = 0;  ///< the last level that stays; by default the first
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The index of the new level in a tensor that has `levels` without it; negative ones count from the last of the
/// result. Throws OutOfRange.
inline int resolve_new_level(int level, int levels) {
  const int resolved = level < 0 ? level + levels + 1 : level;
  if (resolved < 0 || resolved > levels) {
    throw OutOfRange(detail::text({"insert_level: new level ", level, " in a LoD with ", levels, " levels, expected ",
                                   -levels - 1, " to ", levels}));
  }
  return resolved;
}

/// Throws InvalidLoD unless a LoD of `levels` levels can determine the new level `inserted`.
inline void check_inserted_levels(int levels, int inserted) {
  if (levels != 1 && !(levels == 2 && inserted > 0)) {
    throw InvalidLoD(detail::text(
        {"insert_level: lod has ", levels, " levels, expected 1", inserted > 0 ? ", or 2 with those above" : ""}));
  }
}

/// Where the sequences of the level above begin among the new ones of `inserted`, given the children that they have so
/// far: sequence i, or the end of all, begins at child children[i].
inline void write_new_parents(std::span<const std::int64_t> children, const LoD& inserted,
                              std::span<std::int64_t> parents) {
  const auto wrong = [&](std::size_t i) {
    return InvalidLoD(detail::text({"insert_level: the sequences above have a boundary at ", children[i] - children[0],
                                    " (position ", i, "), where lod has none"}));
  };
  if (inserted.levels() == 2) {
    const auto given = inserted.offsets(0), cuts = inserted.offsets(1);
    if (given.size() != children.size()) {
      throw InvalidLoD(detail::text({"insert_level: level 0 of lod has ", given.size() - 1, " sequences, expected ",
                                     children.size() - 1, ", as many as are above the new level"}));
    }
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (cuts[static_cast<std::size_t>(given[i])] != children[i] - children[0]) throw wrong(i);
      parents[i] = given[i];
    }
    return;
  }
  const auto cuts = inserted.offsets(0);
  std::size_t position = 0;
  for (std::size_t i = 0; i < children.size(); ++i) {
    const std::int64_t child = children[i] - children[0];
    while (position < cuts.size() && cuts[position] < child) ++position;
    if (position == cuts.size() || cuts[position] != child) throw wrong(i);
    if (i + 1 == children.size() && i > 0) position = cuts.size() - 1;
    parents[i] = static_cast<std::int64_t>(position);
  }
  if (position + 1 != cuts.size()) {
    throw InvalidLoD(detail::text(
        {"insert_level: lod has ", cuts.size() - 1, " sequences, but there is none above to which they could belong"}));
  }
}

/// The order of the children of the outermost level after the two outermost levels are exchanged: the first children of
/// all sequences, the second ones, and so on.
class TransposedOrder {
 public:
  TransposedOrder(Workspace& workspace, const LoDView& x, const char* what)
      : lengths_(x.offsets(0)),
        longest_(longest(lengths_, what)),
        starts_(workspace, longest_ + 1),
        places_(workspace, lengths_.back() - lengths_.front()) {
    for (std::int64_t& start : starts_.span()) start = 0;
    // How many sequences are longer than t: where step t + 1 begins, not counting the steps before.
    each([&](std::int64_t, std::int64_t t) { ++starts_[t + 1]; });
    for (std::int64_t t = 0; t < longest_; ++t) starts_[t + 1] += starts_[t];
    const Workspace::Loan<std::int64_t> next(workspace, longest_);
    for (std::int64_t t = 0; t < longest_; ++t) next[t] = starts_[t];
    each([&](std::int64_t child, std::int64_t t) { places_[child] = next[t]++; });
  }

  /// The offsets of the new outermost level.
  std::span<const std::int64_t> starts() const noexcept { return starts_.span(); }
  std::int64_t children() const noexcept { return static_cast<std::int64_t>(places_.span().size()); }
  /// The position of a child in the result.
  std::int64_t place(std::int64_t child) const noexcept { return places_[child]; }

 private:
  /// The length of the longest sequence. Throws ShapeMismatch if the children are too many to list.
  static std::int64_t longest(std::span<const std::int64_t> offsets, const char* what) {
    static_cast<void>(detail::checked_count<std::int64_t>(offsets.back() - offsets.front(), what));
    std::int64_t most = 0;
    for (std::size_t i = 1; i < offsets.size(); ++i) {
      if (offsets[i] - offsets[i - 1] > most) most = offsets[i] - offsets[i - 1];
    }
    return most;
  }
  template <class F>
  void each(const F& f) const {
    for (std::size_t i = 1; i < lengths_.size(); ++i) {
      for (std::int64_t child = lengths_[i - 1]; child < lengths_[i]; ++child) {
        f(child - lengths_[0], child - lengths_[i - 1]);
      }
    }
  }

  std::span<const std::int64_t> lengths_;
  std::int64_t longest_;
  Workspace::Loan<std::int64_t> starts_;
  Workspace::Loan<std::int64_t> places_;
};

/// Copies the children of the outermost level of x, in another order, under other outermost offsets.
template <Executor E, class View, class Element, class Y>
void regroup_into(const E& executor, const OutputName& name, const View& x, const char* argument,
                  std::span<const std::int64_t> outermost, const Element& element, Y&& y) {
  const LoDView below = levels_below(x.lod_view(), 0);
  const View children(x.data(), below, &x.row_shape(), x.row_size());
  const std::span<const View> source(&children, 1);
  Runs runs(executor.workspace(), source, 0, below.size());
  for (std::int64_t i = 0; i < below.size(); ++i) runs.add(0, element(i), element(i) + 1);
  NewLevels levels(executor.workspace(), x.levels(),
                   static_cast<std::int64_t>(outermost.size()) - 1 + runs.sequences(name.operation));
  levels.add(outermost);
  runs.descend(levels);
  const auto out = prepare<value_type_t<View>>(executor, name, y, levels, x.row_shape(), {{argument, x}});
  runs.copy(executor, source, x.row_size(), out.data());
}

template <>
struct Declared<op::remove_level> : Takes<Tensor, int> {
  static constexpr const char* name = "remove_level";
  using Gradient = op::remove_level_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, int level, const To<E, T>& y) {
    check_has_level(x, name);
    const LoDView from = x.lod_view();
    const int removed = detail::resolve_level(level, from.levels(), name);
    NewLevels levels(executor.workspace(), from.levels() - 1,
                     NewLevels::sequences_above(from, from.levels()) - from.size(removed), x.rows());
    for (int other = 0; other < from.levels(); ++other) {
      const auto offsets = from.offsets(other);
      if (other + 1 == removed) {
        const auto inner = from.offsets(removed);
        const auto joined = levels.add(from.size(other));
        for (std::size_t i = 0; i < joined.size(); ++i) {
          joined[i] = inner[static_cast<std::size_t>(offsets[i] - offsets[0])] - inner[0];
        }
      } else if (other != removed) {
        levels.add(offsets);
      }
    }
    copy_into(executor, name, x, "x", levels, y);
  }
};

template <>
struct Declared<op::insert_level> : Takes<Tensor, int, LoD> {
  static constexpr const char* name = "insert_level";
  using Gradient = op::insert_level_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, int level, const LoD& lod, const To<E, T>& y) {
    const LoDView from = x.lod_view();
    const int inserted = resolve_new_level(level, from.levels());
    check_inserted_levels(lod.levels(), inserted);
    const std::int64_t children = inserted < from.levels() ? from.size(inserted) : x.rows();
    if (lod.rows() != children) {
      throw InvalidLoD(detail::text(
          {name, ": lod is for ", lod.rows(), " sequences or rows, but ", children, " are below the new level"}));
    }
    NewLevels levels(executor.workspace(), from.levels() + 1,
                     lod.size(-1) + NewLevels::sequences_above(from, from.levels()));
    for (int other = 0; other < inserted; ++other) {
      const auto offsets = from.offsets(other);
      if (other + 1 == inserted) {
        write_new_parents(offsets, lod, levels.add(from.size(other)));
      } else {
        levels.add(offsets);
      }
    }
    levels.add(lod.offsets(-1));
    for (int other = inserted; other < from.levels(); ++other) levels.add(from.offsets(other));
    copy_into(executor, name, x, "x", levels, y);
  }
};

template <>
struct Declared<op::flatten> : Takes<Tensor>, With<FlattenOptions> {
  static constexpr const char* name = "flatten";
  using Gradient = op::flatten_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const FlattenOptions& options, const To<E, T>& y) {
    const LoDView from = x.lod_view();
    const int last = from.levels() == 0 ? -1 : detail::resolve_level(options.level, from.levels(), name);
    NewLevels levels(executor.workspace(), from, std::max(last, 0), last >= 0, last >= 0 ? from.size(last) : 0,
                     x.rows());
    if (last >= 0) levels.add(from.absolute_offsets(last));
    copy_into(executor, name, x, "x", levels, y);
  }
};

template <>
struct Declared<op::remove_level_grad> : RestoredLevels<op::remove_level_grad> {
  static constexpr const char* name = "remove_level_grad";
};
template <>
struct Declared<op::insert_level_grad> : RestoredLevels<op::insert_level_grad> {
  static constexpr const char* name = "insert_level_grad";
};
template <>
struct Declared<op::flatten_grad> : RestoredLevels<op::flatten_grad> {
  static constexpr const char* name = "flatten_grad";
};

template <>
struct Declared<op::transpose_levels> : Takes<Tensor> {
  static constexpr const char* name = "transpose_levels";
  using Gradient = op::transpose_levels_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const To<E, T>& y) {
    check_has_level(x, name);
    const TransposedOrder order(executor.workspace(), x.lod_view(), name);
    const Workspace::Loan<std::int64_t> children(executor.workspace(), order.children());
    for (std::int64_t child = 0; child < order.children(); ++child) children[order.place(child)] = child;
    regroup_into(
        executor, name, x, "x", order.starts(), [&](std::int64_t place) { return children[place]; }, y);
  }
};

template <>
struct Declared<op::transpose_levels_grad> : Takes<Tensor, BatchLevels> {
  static constexpr const char* name = "transpose_levels_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const BatchLevels& x_levels, const To<E, T>& dx) {
    check_has_level(dy, {name, "dy"});
    check_has_level(x_levels.view(), {name, "x"});
    const TransposedOrder order(executor.workspace(), x_levels.view(), name);
    const std::string where = difference(dy.lod_view().offsets(0), order.starts());
    if (!where.empty()) {
      throw ShapeMismatch(detail::text({name, ": the outermost level of dy is not that of x, transposed: ", where}));
    }
    regroup_into(
        executor, {name, "dx"}, dy, "dy", x_levels.view().offsets(0),
        [&](std::int64_t child) { return order.place(child); }, dx);
  }
};

}  // namespace operation

/// x with one level fewer: the contents of the sequences of `level` now belong to the sequences above them, or, for
/// level 0, to no sequence. The values are those of x. `y` may be x's own tensor, but must not overlap x otherwise.
/// Throws OutOfRange for the level, InvalidLoD if x has none.
inline constexpr operation::Call<op::remove_level> remove_level{};
inline constexpr operation::CallInto<op::remove_level> remove_level_into{};

/// x with one more level, which becomes level `level`; -1 makes it the last one. `lod` says how many items its sequence
/// i holds: sequences of the present level `level`, or rows if there are none. The values are those of x.
///
/// If there is a level above, each of its sequences must begin and end with a new one. Empty new sequences at such a
/// boundary belong to the sequence that begins there, and at the very end to the last one; to choose otherwise, give
/// `lod` two levels, whose outer one holds the new sequences of each sequence above.
///
/// `y` may be x's own tensor, but must not overlap x otherwise. Throws OutOfRange for the level; InvalidLoD unless
/// `lod` has one level, or two below another level, and fits the sequences below and above.
inline constexpr operation::Call<op::insert_level> insert_level{};
inline constexpr operation::CallInto<op::insert_level> insert_level_into{};

/// x without the levels below `level`: its sequences hold all the rows that were under them. A tensor without levels
/// stays as it is. The values are those of x. `y` may be x's own tensor, but must not overlap x otherwise. Throws
/// OutOfRange for the level.
inline constexpr operation::Call<op::flatten> flatten{};
inline constexpr operation::CallInto<op::flatten> flatten_into{};

/// The gradients of `remove_level`, `insert_level` and `flatten`: dy under `x_levels`, the levels of x. The levels of
/// dy are ignored. `dx` may be dy's own tensor, but must not overlap dy otherwise. Throws ShapeMismatch unless dy has
/// the rows of x.
inline constexpr operation::Call<op::remove_level_grad> remove_level_grad{};
inline constexpr operation::CallInto<op::remove_level_grad> remove_level_grad_into{};
/// The gradient of `insert_level`: the rows of dy under `x_levels`, the levels of x.
inline constexpr operation::Call<op::insert_level_grad> insert_level_grad{};
inline constexpr operation::CallInto<op::insert_level_grad> insert_level_grad_into{};
/// The gradient of `flatten`: the rows of dy under `x_levels`, the levels of x.
inline constexpr operation::Call<op::flatten_grad> flatten_grad{};
inline constexpr operation::CallInto<op::flatten_grad> flatten_grad_into{};

/// The two outermost levels exchanged: sequence t of the result holds child t of every sequence of x that has one, in
/// the order of these sequences. Children are the contents of the outermost level of x: rows if it is the only one. As
/// many levels as x, and as many outermost sequences as the longest one of x has children. (`to_time_major` has the
/// longest sequences first.)
///
/// Empty sequences leave no trace, so this is not its own inverse in general: the gradient needs the levels of x. `y`
/// must not overlap x. Throws InvalidLoD if x has no level.
inline constexpr operation::Call<op::transpose_levels> transpose_levels{};
inline constexpr operation::CallInto<op::transpose_levels> transpose_levels_into{};

/// The gradient of `transpose_levels`: the children of dy back in the sequences of x, whose levels are `x_levels`; only
/// the outermost matters. dy has the levels of the result. `dx` must not overlap dy. Throws InvalidLoD if there is no
/// level, ShapeMismatch unless the outermost level of dy is that of the result.
inline constexpr operation::Call<op::transpose_levels_grad> transpose_levels_grad{};
inline constexpr operation::CallInto<op::transpose_levels_grad> transpose_levels_grad_into{};

/// The results of `remove_level`, `insert_level`, `flatten` and `transpose_levels`, described: see <lod/infer.hpp>.
/// `lod` describes a tensor that has the level or levels to insert.
inline LoDTensorDesc infer_remove_level(const LoDTensorDesc& x, int level) {
  infer::Batch y(x, "remove_level");
  y.level(level, "remove_level");
  --y.levels;
  return y;
}
inline LoDTensorDesc infer_insert_level(const LoDTensorDesc& x, int level, const LoDTensorDesc& lod) {
  infer::Batch y(x, "insert_level");
  const infer::Batch given(lod, "insert_level: lod");
  const int inserted = operation::resolve_new_level(level, y.levels);
  operation::check_inserted_levels(given.levels, inserted);
  if (inserted == y.levels) {
    if (!infer::agree(given.rows, y.rows)) {
      throw InvalidLoD(detail::text(
          {"insert_level: lod is for ", given.rows, " sequences or rows, but ", y.rows, " are below the new level"}));
    }
    y.rows = infer::known(y.rows, given.rows);
  }
  ++y.levels;
  return y;
}
inline LoDTensorDesc infer_flatten(const LoDTensorDesc& x, const FlattenOptions& options = {}) {
  infer::Batch y(x, "flatten");
  if (y.levels > 0) y.levels = detail::resolve_level(options.level, y.levels, "flatten") + 1;
  return y;
}
inline LoDTensorDesc infer_transpose_levels(const LoDTensorDesc& x) {
  const infer::Batch y(x, "transpose_levels");
  y.check_has_level("transpose_levels");
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
