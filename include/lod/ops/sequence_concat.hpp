// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Concatenation sequence by sequence.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/several.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <vector>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_concat : elements::Any {
  static constexpr Text text{"xs",
                             "Sequence i is that of the first tensor, followed by that of the second, and so on."};
};
struct sequence_concat_grad : elements::Any {
  static constexpr Text text{"dy, lods", "The gradients of `sequence_concat`, one for each argument."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws InvalidLoD unless there are as many levels as the first argument has, and at least one; ShapeMismatch unless
/// they have as many sequences. `name` and `i` identify the argument in the text.
inline void check_levels_as_first(const LoDView& levels, const LoDView& first, const Subject& name, std::size_t i) {
  if (first.levels() == 0) {
    throw InvalidLoD(detail::text({name.text(), i, " has ", levels.levels(), " levels, expected at least one"}));
  }
  if (levels.levels() != first.levels()) {
    throw InvalidLoD(detail::text(
        {name.text(), i, " has ", levels.levels(), " levels, expected ", first.levels(), " as the first has"}));
  }
  if (levels.size() != first.size()) {
    throw ShapeMismatch(detail::text(
        {name.text(), i, " has ", levels.size(), " sequences, expected ", first.size(), " as the first has"}));
  }
}
/// Throws ShapeMismatch unless the rows have the same shape as those of the first argument.
template <class View>
void check_rows_as_first(const View& view, const View& first, const Subject& name, std::size_t i) {
  if (view.row_shape() != first.row_shape()) {
    throw ShapeMismatch(detail::text({name.text(), i, " has rows of shape ", to_string(view.row_shape()), ", expected ",
                                      to_string(first.row_shape()), " as the first has"}));
  }
}

/// For views with one level, whose offsets are `children`.
template <class E, class T>
void concat_rows_into(const E& executor, const char* what, std::span<const Input<E, T>> views,
                      std::span<const std::int64_t* const> children, const To<E, T>& y) {
  const std::int64_t size = views[0].size(), sources = static_cast<std::int64_t>(views.size());
  const std::int64_t row_size = views[0].row_size();
  // Run k is sequence k / sources of argument k % sources. Most often there are two, and a division takes longer than
  // all else that is done for a run.
  const bool are_two = sources == 2;
  const RowRuns<E, T> runs(executor, what, size * sources, [&, are_two](std::int64_t k) {
    const std::int64_t i = are_two ? k / 2 : k / sources;
    const auto source = static_cast<std::size_t>(k - i * sources);
    const std::int64_t* const offsets = children[source] + i;
    return RowRun<T>{views[source].data() + (offsets[0] - children[source][0]) * row_size, offsets[1] - offsets[0]};
  });
  const auto length = [sources, at = runs.offsets().data()](std::int64_t i) {
    return at[(i + 1) * sources] - at[i * sources];
  };
  const LevelOfLengths levels(executor, what, size, length);
  const auto out = prepare(executor, what, y, levels, views[0].row_shape(), {});
  runs.copy(row_size, out.data());
}

template <>
struct Declared<op::sequence_concat> : Takes<Several<Tensor>>, Launches<kernel::RunCopy> {
  static constexpr const char* name = "sequence_concat";
  using Gradient = op::sequence_concat_grad;
  template <Executor E, class T>
  static void run(const E& executor, std::span<const Input<E, T>> views, const To<E, T>& y) {
    if (views.empty()) throw InvalidLoD(detail::text({name, ": nothing given, expected at least one tensor"}));
    for (std::size_t i = 0; i < views.size(); ++i) {
      check_levels_as_first(views[i].lod_view(), views[0].lod_view(), {name, "tensor "}, i);
      check_rows_as_first(views[i], views[0], {name, "tensor "}, i);
    }
    check_apart_from_all(name, y, views);
    const std::int64_t size = views[0].size(), sources = static_cast<std::int64_t>(views.size());
    const Workspace::Loan<const std::int64_t*> children(executor.workspace(), sources);
    for (std::int64_t source = 0; source < sources; ++source) {
      children[source] = views[static_cast<std::size_t>(source)].lod_view().offsets(0).data();
    }
    if (views[0].levels() == 1) return concat_rows_into<E, T>(executor, name, views, children.span(), y);
    // Sequence i of the result consists of a run of each argument, one level below.
    Runs runs(executor.workspace(), views, 1, size * sources);
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t source = 0; source < sources; ++source) {
        const std::int64_t* offsets = children[source];
        runs.add(source, offsets[i] - offsets[0], offsets[i + 1] - offsets[0]);
      }
    }
    NewLevels levels(executor.workspace(), views[0].levels(), size + runs.sequences(name));
    const auto lengths = levels.add(size);
    for (std::size_t i = 0; i + 1 < lengths.size(); ++i) {
      lengths[i + 1] = lengths[i];
      for (const std::int64_t* offsets : children.span()) lengths[i + 1] += offsets[i + 1] - offsets[i];
    }
    runs.descend(levels);
    const auto out = prepare(executor, name, y, levels, views[0].row_shape(), {});
    runs.copy(executor, views, views[0].row_size(), out.data());
  }
};

}  // namespace operation

/// Sequence i of the outermost level: the contents of sequence i of the first argument, then of the second, and so on.
/// Each sequence below stays as it is. All arguments must have the same number of levels, at least one, the same number
/// of outermost sequences, and the same row shape. Semantics: PaddlePaddle's sequence_concat, with any number of
/// levels. (`concat` joins batches instead.)
///
/// The arguments are passed one by one, or as one range of tensors or views. `y` must overlap none of them. Throws
/// InvalidLoD for different numbers of levels, and if there is no level or no argument; ShapeMismatch for different
/// numbers of sequences or row shapes.
inline constexpr operation::Call<op::sequence_concat> sequence_concat{};
inline constexpr operation::CallInto<op::sequence_concat> sequence_concat_into{};

/// The gradients of `sequence_concat`, one for each of its arguments, whose LoDs are `lods`: the rows of dy that came
/// from it, with its levels. The levels of dy are ignored.
///
/// `lods` is a contiguous range of LoDs, or a list of them in braces; `dxs` has one tensor or view for each of them,
/// none of which may overlap dy. Throws InvalidLoD for different numbers of levels, and if there is no level or no LoD;
/// ShapeMismatch for different numbers of sequences, unless dy has the rows of all `lods` together, and for a wrong
/// number of outputs.
template <Executor E, LoDTensorLike DY, class LoDs = std::initializer_list<LoD>, class DXs>
void sequence_concat_grad_into(const E& executor, const DY& dy, const LoDs& lods, DXs&& dxs) {
  using T = value_type_t<DY>;
  const std::span<const LoD> all = lods;
  const auto view = dy.view();
  if (all.empty()) throw InvalidLoD("sequence_concat_grad: no LoD given, expected at least one");
  std::int64_t rows = 0;
  for (std::size_t source = 0; source < all.size(); ++source) {
    const LoD& lod = all[source];
    operation::check_levels_as_first(lod.view(), all[0].view(), {"sequence_concat_grad", "LoD "}, source);
    if (__builtin_add_overflow(rows, lod.rows(), &rows)) {
      throw ShapeMismatch("sequence_concat_grad: the LoDs have more rows than 64 bits count");
    }
  }
  operation::check_row_count(view.rows(), rows, "sequence_concat_grad: dy");
  if (static_cast<std::size_t>(dxs.size()) != all.size()) {
    throw ShapeMismatch(
        detail::text({"sequence_concat_grad: ", dxs.size(), " outputs, expected ", all.size(), ", one for each LoD"}));
  }
  // Where the next part of sequence i begins in dy: at first after all rows of the sequences before it.
  const std::int64_t size = all[0].size(0);
  const Workspace::Loan<std::int64_t> next(executor.workspace(), size);
  for (std::int64_t i = 0; i < size; ++i) next[i] = 0;
  for (const LoD& lod : all) {
    const auto rows_before = lod.view().absolute_offsets(0);
    for (std::int64_t i = 0; i < size; ++i) next[i] += rows_before[static_cast<std::size_t>(i)];
  }
  operation::Outputs<operation::Output<T, typename E::device>> outs(executor.workspace(), all.size());
  auto dx = dxs.begin();
  for (const LoD& lod : all) {
    outs.add(operation::prepare<T>(executor, {"sequence_concat_grad", "an output"}, *dx,
                                   operation::SameLevels{lod.view()}, view.row_shape(), {{"dy", view}}),
             {"an output", *dx});
    ++dx;
  }
  outs.check_apart("sequence_concat_grad");
  const operation::Array<E, const T*> sources(executor, size * static_cast<std::int64_t>(all.size()));
  const T** source = sources.data();
  for (const LoD& lod : all) {
    const auto offsets = lod.view().absolute_offsets(0);
    for (std::int64_t i = 0; i < size; ++i) {
      *source++ = view.data() + next[i] * view.row_size();
      next[i] += offsets[static_cast<std::size_t>(i) + 1] - offsets[static_cast<std::size_t>(i)];
    }
  }
  const T* const* from = sources.on_device();
  for (const auto& out : outs) {
    launch(kernel::RunCopy(), executor, from, operation::segments(executor, out, 0), view.row_size(), out.data());
    from += size;
  }
}
template <Executor E, LoDTensorLike DY, class LoDs = std::initializer_list<LoD>>
[[nodiscard]] std::vector<LoDTensor<value_type_t<DY>, device_t<DY>>> sequence_concat_grad(const E& executor,
                                                                                          const DY& dy,
                                                                                          const LoDs& lods) {
  std::vector<LoDTensor<value_type_t<DY>, device_t<DY>>> dxs;
  for (std::size_t i = 0; i < std::size(lods); ++i) dxs.emplace_back(executor.resource());
  sequence_concat_grad_into(executor, dy, lods, dxs);
  return dxs;
}
template <LoDTensorLike DY, class LoDs = std::initializer_list<LoD>>
[[nodiscard]] auto sequence_concat_grad(const DY& dy, const LoDs& lods) {
  return sequence_concat_grad(default_executor<device_t<DY>>(), dy, lods);
}

namespace operation {

/// The description of joined batches: all their rows, with their common row shape and number of levels.
inline infer::Batch infer_joined(const std::vector<LoDTensorDesc>& xs, const char* what) {
  if (xs.empty()) throw InvalidLoD(detail::text({what, ": nothing given, expected at least one tensor"}));
  infer::Batch y(xs[0], what);
  for (std::size_t i = 1; i < xs.size(); ++i) {
    const infer::Batch x(xs[i], what);
    infer::check_type(x.type, y.type, what);
    if (x.levels != y.levels) {
      throw InvalidLoD(
          detail::text({what, ": tensor ", i, " has ", x.levels, " levels, expected ", y.levels, " as the first has"}));
    }
    y.row_shape = infer::common_row_shape(x.row_shape, y.row_shape, what);
    y.rows = infer::sum(y.rows, x.rows, what);
  }
  return y;
}

}  // namespace operation

/// The result of `sequence_concat`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_concat(const std::vector<LoDTensorDesc>& xs) {
  const infer::Batch y = operation::infer_joined(xs, "sequence_concat");
  y.check_has_level("sequence_concat");
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
