// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Joining and splitting batches along the top level. (sequence_concat.hpp joins sequence by sequence instead;
/// lod_batch.hpp does the same for LoDs without values.)
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_batch.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/sizes.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/select.hpp>
#include <lod/ops/sequence_concat.hpp>
#include <lod/ops/several.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <span>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE::op {
struct concat : elements::Any {
  static constexpr Text text{"xs",
                             "The batches one after the other: the sequences of the first, then of the second, ..."};
};
struct concat_grad : elements::Any {
  static constexpr Text text{"dy, x_levels", "The gradients of `concat`: the rows of dy for each of its arguments."};
};
struct split_at : elements::Any {
  static constexpr Text text{"x, boundaries", "x cut before these outermost sequences, or rows."};
};
struct split : elements::Any {
  static constexpr Text text{"x, count", "x cut into `count` tensors, as even in rows as whole sequences allow."};
};
struct split_grad : elements::Any {
  static constexpr Text text{"dys", "The gradient of `split` and `split_at`: the gradients of the parts, joined."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <class Op>
struct Joining : Takes<Several<Tensor>> {
  template <Executor E, class T>
  static void run(const E& executor, std::span<const Input<E, T>> views, const To<E, T>& y) {
    const char* const what = Declared<Op>::name;
    if (views.empty()) throw InvalidLoD(detail::text({what, ": nothing given, expected at least one tensor"}));
    const auto sources = static_cast<std::int64_t>(views.size());
    for (std::size_t i = 0; i < views.size(); ++i) {
      if (views[i].levels() != views[0].levels()) {
        throw InvalidLoD(detail::text({what, ": tensor ", i, " has ", views[i].levels(), " levels, expected ",
                                       views[0].levels(), " as the first has"}));
      }
      check_rows_as_first(views[i], views[0], {what, "tensor "}, i);
    }
    check_apart_from_all(what, y, views);
    Runs runs(executor.workspace(), views, 0, sources);
    for (std::int64_t source = 0; source < sources; ++source) {
      runs.add(source, 0, views[static_cast<std::size_t>(source)].size());
    }
    const std::int64_t sequences =
        runs.sequences(what);  // throws if the sum exceeds 64 bits, before anything is added up
    std::int64_t size = 0;
    for (const auto& view : views) size += view.size();
    NewLevels levels(executor.workspace(), views[0].levels(), sequences, size);
    runs.descend(levels);
    const auto out = prepare(executor, what, y, levels, views[0].row_shape(), {});
    runs.copy(executor, views, views[0].row_size(), out.data());
  }
};
template <>
struct Declared<op::concat> : Joining<op::concat> {
  static constexpr const char* name = "concat";
  using Gradient = op::concat_grad;
};
template <>
struct Declared<op::split_grad> : Joining<op::split_grad> {
  static constexpr const char* name = "split_grad";
};

/// Calls f(part, begin, end) for each part between boundaries, in order.
template <class F>
void for_each_part(std::span<const std::int64_t> boundaries, std::int64_t size, const F& f) {
  for (std::size_t part = 0; part <= boundaries.size(); ++part) {
    f(part, part > 0 ? boundaries[part - 1] : 0, part < boundaries.size() ? boundaries[part] : size);
  }
}

inline void check_part_count(std::int64_t found, std::int64_t expected, const char* what) {
  if (found != expected) throw ShapeMismatch(detail::text({what, ": ", found, " outputs, expected ", expected}));
}

/// Copies parts of x, each to an output of its own.
template <class E, class View, class Parts>
void cut_into(const E& executor, const View& x, std::span<const std::int64_t> boundaries, Parts&& parts,
              const char* what) {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < boundaries.size(); ++i) {
    if (boundaries[i] < before || boundaries[i] > x.size()) {
      throw OutOfRange(detail::text(
          {what, ": boundary ", boundaries[i], " at position ", i, ", expected ", before, " to ", x.size()}));
    }
    before = boundaries[i];
  }
  check_part_count(static_cast<std::int64_t>(parts.size()), static_cast<std::int64_t>(boundaries.size()) + 1, what);
  const auto given = parts.begin();
  Outputs<Output<value_type_t<View>, typename E::device>> outs(executor.workspace(), boundaries.size() + 1);
  for_each_part(boundaries, x.size(), [&](std::size_t part, std::int64_t begin, std::int64_t end) {
    auto& y = given[static_cast<std::ptrdiff_t>(part)];
    outs.add(prepare<value_type_t<View>>(executor, {what, "an output"}, y, SameLevels{x.between(begin, end).lod_view()},
                                         x.row_shape(), {{"x", x}, {"boundaries", boundaries}}),
             {"an output", y});
  });
  outs.check_apart(what);
  for_each_part(boundaries, x.size(), [&](std::size_t part, std::int64_t begin, std::int64_t end) {
    copy_rows(executor, x.between(begin, end), outs.begin()[part].data());
  });
}

template <class E, class T, class Device>
std::vector<LoDTensor<T, Device>> new_tensors(const E& executor, std::int64_t count, const char* what) {
  std::vector<LoDTensor<T, Device>> tensors;
  if (count > 0) tensors.reserve(detail::checked_count<LoDTensor<T, Device>>(count, what));
  for (std::int64_t i = 0; i < count; ++i) tensors.emplace_back(executor.resource());
  return tensors;
}

/// What `concat` joins, with or without an executor before it.
template <class... Xs>
concept Joinable = requires(const Call<op::concat>& join, const Xs&... xs) {
  join(xs...);
};

}  // namespace operation

/// The batches one after the other: the sequences of every level of the first, then those of the second, and so on; the
/// rows if they have no level. All must have the same number of levels and the same row shape.
///
/// The arguments are passed one by one, or as one range of tensors or views. `y` must overlap none of them. Throws
/// InvalidLoD for different numbers of levels, and if there are no arguments; ShapeMismatch for different row shapes.
template <class... Xs>
  requires operation::Joinable<Xs...>
[[nodiscard]] auto concat(const Xs&... xs) { return operation::Call<op::concat>()(xs...); }
inline constexpr operation::CallInto<op::concat> concat_into{};

/// The gradients of `concat`, one for each of its arguments, whose levels are `x_levels`: the rows of dy that came from
/// it. The levels of dy are ignored.
///
/// `x_levels` is a range of types that convert to BatchLevels, or a list of them in braces; `dxs` has one tensor or
/// view for each. None of these may overlap dy. Throws ShapeMismatch unless dy has as many rows as all arguments
/// together, and for a wrong number of outputs.
template <Executor E, LoDTensorLike DY, class Levels = std::initializer_list<BatchLevels>, class DXs>
void concat_grad_into(const E& executor, const DY& dy, const Levels& x_levels, DXs&& dxs) {
  const auto view = dy.view();
  std::int64_t rows = 0;
  const char* hint = "";
  for (const BatchLevels levels : x_levels) {
    if (__builtin_add_overflow(rows, levels.view().rows(), &rows)) {
      throw ShapeMismatch("concat_grad: the batches have more rows than 64 bits count");
    }
    if (*levels.hint()) hint = levels.hint();
  }
  operation::check_row_count(view.rows(), rows, "concat_grad: dy", hint);
  if (static_cast<std::size_t>(dxs.size()) != static_cast<std::size_t>(x_levels.size())) {
    throw ShapeMismatch(
        detail::text({"concat_grad: ", dxs.size(), " outputs, expected ", x_levels.size(), ", one for each batch"}));
  }
  using Output = operation::Output<value_type_t<DY>, typename E::device>;
  operation::Outputs<Output> outs(executor.workspace(), static_cast<std::size_t>(x_levels.size()));
  auto dx = dxs.begin();
  for (const BatchLevels levels : x_levels) {
    outs.add(
        operation::prepare<value_type_t<DY>>(executor, {"concat_grad", "an output"}, *dx,
                                             operation::SameLevels{levels.view()}, view.row_shape(), {{"dy", view}}),
        {"an output", *dx});
    ++dx;
  }
  outs.check_apart("concat_grad");
  const LoD no_level;
  const auto plain = view.with_lod(no_level);
  rows = 0;
  for (const auto& out : outs) {
    operation::copy_rows(executor, plain.between(rows, rows + out.rows()), out.data());
    rows += out.rows();
  }
}
template <Executor E, LoDTensorLike DY, class Levels = std::initializer_list<BatchLevels>>
[[nodiscard]] auto concat_grad(const E& executor, const DY& dy, const Levels& x_levels) {
  auto dxs = operation::new_tensors<E, value_type_t<DY>, device_t<DY>>(
      executor, static_cast<std::int64_t>(x_levels.size()), "concat_grad");
  concat_grad_into(executor, dy, x_levels, dxs);
  return dxs;
}
template <LoDTensorLike DY, class Levels = std::initializer_list<BatchLevels>>
[[nodiscard]] auto concat_grad(const DY& dy, const Levels& x_levels) {
  return concat_grad(default_executor<device_t<DY>>(), dy, x_levels);
}

/// The batch cut before the given top-level sequences (rows, where there is no level): boundaries.size() + 1 tensors
/// with the levels of x, some perhaps without sequences. Copies; `x.between(begin, end)` views a part without a copy.
///
/// `boundaries` are int64: a range, a list in braces or a tensor. `parts` has one tensor or view for each part; none
/// may overlap x or the boundaries. Throws OutOfRange unless the boundaries ascend from 0 to the number of sequences,
/// ShapeMismatch for a wrong number of outputs.
template <Executor E, LoDTensorLike X, class Parts>
void split_at_into(const E& executor, const X& x, const operation::IdList& boundaries, Parts&& parts) {
  operation::cut_into(executor, x.view(), boundaries, parts, "split_at");
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] auto split_at(const E& executor, const X& x, const operation::IdList& boundaries) {
  auto parts = operation::new_tensors<E, value_type_t<X>, device_t<X>>(
      executor, static_cast<std::int64_t>(boundaries.size()) + 1, "split_at");
  split_at_into(executor, x, boundaries, parts);
  return parts;
}
template <LoDTensorLike X>
[[nodiscard]] auto split_at(const X& x, const operation::IdList& boundaries) {
  return split_at(default_executor<device_t<X>>(), x, boundaries);
}

/// The batch cut along its top level into `count` tensors, always that many, as even in *rows* as whole sequences
/// allow: each cut is at the boundary nearest to its even share, the earlier one of two. Otherwise as `split_at`.
/// Throws OutOfRange for a count under 1, ShapeMismatch for a count that memory cannot hold.
template <Executor E, LoDTensorLike X, class Parts>
void split_into(const E& executor, const X& x, std::int64_t count, Parts&& parts) {
  const auto view = x.view();
  if (count >= 1) operation::check_part_count(static_cast<std::int64_t>(parts.size()), count, "split");
  const Workspace::Loan<std::int64_t> boundaries(executor.workspace(), count > 1 ? count - 1 : 0);
  std::int64_t next = 0;
  detail::even_cuts(
      view.size(), count, [&](std::int64_t i) { return operation::rows_before(view.lod_view(), i); },
      [&](std::int64_t boundary) { boundaries[next++] = boundary; });
  operation::cut_into(executor, view, boundaries.span(), parts, "split");
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] auto split(const E& executor, const X& x, std::int64_t count) {
  auto parts = operation::new_tensors<E, value_type_t<X>, device_t<X>>(executor, count, "split");
  split_into(executor, x, count, parts);
  return parts;
}
template <LoDTensorLike X>
[[nodiscard]] auto split(const X& x, std::int64_t count) {
  return split(default_executor<device_t<X>>(), x, count);
}

/// The gradient of `split` and `split_at`: the gradients of the parts, one after the other, as joined by `concat`.
inline constexpr operation::Call<op::split_grad> split_grad{};
inline constexpr operation::CallInto<op::split_grad> split_grad_into{};

/// The results of `concat`, `split_at` and `split`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_concat(const std::vector<LoDTensorDesc>& xs) {
  return operation::infer_joined(xs, "concat");
}
inline std::vector<LoDTensorDesc> infer_split_at(const LoDTensorDesc& x, const std::vector<std::int64_t>& boundaries) {
  infer::Batch part(x, "split_at");
  const std::int64_t size = part.size();
  std::int64_t before = 0;
  for (std::size_t i = 0; i < boundaries.size(); ++i) {
    if (boundaries[i] < before || (size != infer::unknown && boundaries[i] > size)) {
      throw OutOfRange(
          detail::text({"split_at: boundary ", boundaries[i], " at position ", i, ", expected ", before, " to ",
                        size == infer::unknown ? "the number of sequences" : std::to_string(size)}));
    }
    before = boundaries[i];
  }
  if (boundaries.empty()) return {part};
  std::vector<LoDTensorDesc> parts;
  operation::for_each_part(boundaries, size, [&](std::size_t, std::int64_t begin, std::int64_t end) {
    part.rows = part.levels == 0 && end != infer::unknown ? end - begin : infer::unknown;
    parts.push_back(part);
  });
  return parts;
}
inline std::vector<LoDTensorDesc> infer_split(const LoDTensorDesc& x, std::int64_t count) {
  infer::Batch part(x, "split");
  if (count < 1) throw OutOfRange(detail::text({"split: into ", count, " parts, expected 1 or more"}));
  if (count > 1) part.rows = infer::unknown;
  return std::vector<LoDTensorDesc>(detail::checked_count<LoDTensorDesc>(count, "split"), part);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
