// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup losses
/// Linear-chain conditional random fields over the tags of a sequence's rows: the likelihood of a path of tags, and the
/// best path.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/supports.hpp>

#include <cstdint>
#include <string>

namespace lod::inline LOD_INTERFACE::op {
struct crf_decoding : elements::Floating {
  static constexpr Text text{
      "emission, transition",
      "The tags of the best path through each sequence, by the transitions that `linear_chain_crf` learns."};
};
struct linear_chain_crf : elements::Floating {
  static constexpr Text text{
      "emission, transition, labels",
      "For each sequence the log of the probability of its labels in a conditional random field."};
};
struct linear_chain_crf_grad : elements::Floating {
  static constexpr Text text{"dy, emission, transition, labels"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The gradients of `linear_chain_crf`.
template <class T, class Device>
struct LinearChainCrfGrad {
  LoDTensor<T, Device> demission;    ///< levels and row shape as the emission
  LoDTensor<T, Device> dtransition;  ///< shape as the transition
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// The rows of a transition before those of the tags: the start weights and the stop weights.
inline constexpr std::int64_t crf_ends = 2;
/// run(executor, emission, sequences, tags, transition, y)
struct CrfDecoding {};
/// run(executor, emission, sequences, tags, transition, labels, y)
struct LinearChainCrf {};
/// run(executor, dy, emission, sequences, tags, transition, labels, demission, dtransition)
struct LinearChainCrfGrad {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::infer {

/// The batch of an emission, whose shape must agree with that of the transition. Throws as `operation::check_crf`.
template <class Op>
LOD_TAGGED Batch crf_batch(const LoDTensorDesc& emission, const LoDTensorDesc& transition, const std::string& name) {
  const std::string emission_name = name + ": emission", transition_name = name + ": transition";
  const Batch batch = batch_for<Op>(emission, emission_name.c_str());
  const Batch weights(transition, transition_name.c_str());
  check_type(weights.type, batch.type, transition_name.c_str());
  batch.check_has_level(emission_name.c_str());
  std::int64_t tags = batch.row_size(emission_name.c_str());
  if (tags == 0) throw ShapeMismatch(emission_name + ": rows without elements, expected one tag at least");
  const std::int64_t columns = weights.row_size(transition_name.c_str());
  const bool fits = agree(columns, tags);
  tags = known(tags, columns);
  if (!fits || !agree(weights.rows, sum(tags, kernel::crf_ends, transition_name.c_str()))) {
    throw ShapeMismatch(detail::text({transition_name, ": shape ", to_string(transition.tensor.dims),
                                      ", expected {tags + 2, tags}, with ", tags, " tags"}));
  }
  return batch;
}

}  // namespace lod::inline LOD_INTERFACE::infer

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws InvalidLoD if the emission has no level, ShapeMismatch unless there is a tag and the transition fits.
template <class Emission, class Transition>
void check_crf(const Emission& emission, const Transition& transition, const char* name) {
  check_has_level(emission, {name, "emission"});
  const std::int64_t tags = emission.row_size();
  if (tags == 0) {
    throw ShapeMismatch(detail::text({name, ": emission: rows of shape ", to_string(emission.row_shape()),
                                      ", expected a number for each tag, and one tag at least"}));
  }
  if (transition.rows() - kernel::crf_ends != tags || transition.row_size() != tags) {
    throw ShapeMismatch(detail::text(
        {name, ": transition: shape ", to_string(transition.shape()), ", expected {", tags, " + 2, ", tags, "}"}));
  }
}

template <>
struct Declared<op::crf_decoding>
    : Takes<Tensor, Tensor>, Gives<TensorOf<std::int64_t>>, Launches<kernel::CrfDecoding> {
  static constexpr const char* name = "crf_decoding";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& emission, const Input<E, T>& transition,
                  const To<E, std::int64_t>& y) {
    check_crf(emission, transition, name);
    const auto out = prepare(executor, name, y, SameLevels{emission.lod_view()}, Shape(),
                             {{"emission", emission}, {"transition", transition}});
    launch(kernel::CrfDecoding(), executor, emission.data(), segments(executor, emission, emission.levels() - 1),
           emission.row_size(), transition.data(), out.data());
  }
};

template <>
struct Declared<op::linear_chain_crf> : Takes<Tensor, Tensor, Ids>, Launches<kernel::LinearChainCrf> {
  static constexpr const char* name = "linear_chain_crf";
  using Gradient = op::linear_chain_crf_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& emission, const Input<E, T>& transition,
                  const IdsInput<E>& labels, const To<E, T>& y) {
    check_crf(emission, transition, name);
    check_labels(labels, emission, name);
    const CheckedIds<E> checked(executor, labels, emission.row_size(), name);
    const int level = emission.levels() - 1;
    const auto out = prepare(executor, name, y, LevelsAbove{emission.lod_view(), level}, Shape(),
                             {{"emission", emission}, {"transition", transition}, {"labels", labels}});
    launch(kernel::LinearChainCrf(), executor, emission.data(), segments(executor, emission, level),
           emission.row_size(), transition.data(), checked.data(), out.data());
  }
};

template <>
struct Declared<op::linear_chain_crf_grad> : Takes<Tensor, Tensor, Tensor, Ids>,
                                             GivesAll<LinearChainCrfGrad, Tensor, Tensor>,
                                             Launches<kernel::LinearChainCrfGrad> {
  static constexpr const char* name = "linear_chain_crf_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& emission, const Input<E, T>& transition,
                  const IdsInput<E>& labels, const To<E, T>& demission, const To<E, T>& dtransition) {
    check_crf(emission, transition, name);
    check_labels(labels, emission, name);
    const int level = emission.levels() - 1;
    check_row_count(dy.rows(), emission.lod_view().size(level), {name, "dy"});
    check_row_shape(dy.row_shape(), Shape(), {name, "dy"});
    const CheckedIds<E> checked(executor, labels, emission.row_size(), name);
    const auto out =
        prepare(executor, {name, "demission"}, demission, SameLevels{emission.lod_view()}, emission.row_shape(),
                {{"dy", dy}, {"emission", emission}, {"transition", transition}, {"labels", labels}});
    const auto out_transition = prepare(
        executor, {name, "dtransition"}, dtransition, PlainRows{transition.rows()}, transition.row_shape(),
        {{"dy", dy}, {"emission", emission}, {"transition", transition}, {"labels", labels}, {"demission", demission}});
    launch(kernel::LinearChainCrfGrad(), executor, dy.data(), emission.data(), segments(executor, emission, level),
           emission.row_size(), transition.data(), checked.data(), out.data(), out_transition.data());
  }
};

}  // namespace operation

/// The best path of tags for each sequence of the last level: one scalar a row, its tag; LoD as the emission. The score
/// of a path is the sum of the emissions of its tags, emission[t][tag], and of its transitions. `transition` has the
/// shape {tags + 2, tags}: row 0 has the weight of each tag as the first of a sequence, row 1 its weight as the last,
/// and row i + 2 the weights of the transitions from tag i to each tag. Semantics: PaddlePaddle's crf_decoding without
/// labels, and with any number of levels.
///
/// Of paths with the same score, the one with the smallest last tag wins, then with the smallest tag before it, and so
/// on. -inf forbids a tag or a transition, +inf counts as the greatest finite number; if every path is forbidden, the
/// tags are arbitrary valid ones. The best score is subtracted at each row, so that a long sequence is as exact as a
/// short one; float16 and bfloat16 are computed as float. A sequence whose scores leave the range of numbers on the
/// way, or that has no path, is computed again with scaled ones, by one thread, which takes longer. After a NaN
/// emission, the remaining tags of the sequence are 0; with a NaN transition, all tags are 0 except perhaps the first.
/// An empty sequence has an empty path. Cost: tags^2 steps for each row, and scratch memory for one number for each row
/// and tag. The output must not overlap the arguments. Throws InvalidLoD if the emission has no level, ShapeMismatch if
/// it has no tag or the transition does not have its shape.
inline constexpr operation::Call<op::crf_decoding> crf_decoding{};
inline constexpr operation::CallInto<op::crf_decoding> crf_decoding_into{};

/// For each sequence of the last level, the logarithm of the probability of its labels among all paths: the score of
/// the labels' path, as `crf_decoding` defines it, minus the logarithm of the sum of exp(score) over all paths. Scalar
/// rows; LoD: the levels of the emission above the last. PaddlePaddle's operator of this name returns the negative of
/// it, a loss; the layout of the transition is the same. `labels` has a tag for each row; its levels are ignored.
///
/// Computed with logarithms that are kept near 0, so that numbers of any magnitude and long sequences neither overflow
/// nor lose digits, sequences on the edge of the range as by `crf_decoding`; float16 and bfloat16 are computed as
/// float. No result is greater than 0. An empty sequence gives 0, since it has exactly one path. -inf forbids a tag or
/// a transition: forbidden labels give -inf; +inf counts as the greatest finite number; NaN propagates. The bits depend
/// neither on threads nor on the rest of the batch. Cost: tags^2 steps for each row. The output must not overlap the
/// arguments. Throws as `crf_decoding`, ShapeMismatch unless there is a label for each row, and OutOfRange for a label
/// that is not a tag; on a GPU, the next call that waits for the executor throws it.
inline constexpr operation::Call<op::linear_chain_crf> linear_chain_crf{};
inline constexpr operation::CallInto<op::linear_chain_crf> linear_chain_crf_into{};

/// The gradients of `linear_chain_crf`, times the sequence's number in dy: for each row and tag, 1 if it is the label,
/// else 0, minus its probability; for each transition, how often the labels take it, minus its expected number. The
/// levels of dy are ignored. A sequence whose paths are all forbidden expects no tag and no transition. Sums over rows
/// have a fixed order: the bits do not depend on threads. Scratch memory: three numbers for each row and tag. The
/// outputs must not overlap the arguments. If memory runs out, their contents are lost. Throws as `linear_chain_crf`,
/// and ShapeMismatch unless dy has one number for each sequence.
inline constexpr operation::Call<op::linear_chain_crf_grad> linear_chain_crf_grad{};
inline constexpr operation::CallInto<op::linear_chain_crf_grad> linear_chain_crf_grad_into{};

/// The result of `crf_decoding`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_crf_decoding(const LoDTensorDesc& emission, const LoDTensorDesc& transition) {
  infer::Batch y = infer::crf_batch<op::crf_decoding>(emission, transition, "crf_decoding");
  y.type = DataType::INT64;
  y.row_shape.clear();
  return y;
}
/// The result of `linear_chain_crf`, described.
inline LoDTensorDesc infer_linear_chain_crf(const LoDTensorDesc& emission, const LoDTensorDesc& transition,
                                            const LoDTensorDesc& labels) {
  const infer::Batch batch = infer::crf_batch<op::linear_chain_crf>(emission, transition, "linear_chain_crf");
  const infer::Batch tags(labels, "linear_chain_crf: labels");
  infer::check_ids(tags.type, "linear_chain_crf: labels");
  infer::check_row_count(tags.rows, batch.rows, "linear_chain_crf: labels");
  tags.check_scalar_rows("linear_chain_crf: labels", "the number of a tag");
  infer::Batch y = batch.pooled(-1, "linear_chain_crf: emission");
  y.row_shape.clear();
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
