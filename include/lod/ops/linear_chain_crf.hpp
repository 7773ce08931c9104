// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup losses
/// Conditional random fields over the tags of the rows of a sequence: the best path.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/supports.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct crf_decoding : elements::Floating {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::kernel {
/// The rows of a transition before those of the tags: the weights of the start, and those of the stop.
inline constexpr std::int64_t crf_ends = 2;
/// run(executor, emission, sequences, tags, transition, y)
struct CrfDecoding {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::infer {

/// The batch of an emission whose shape may agree with that of the transition. Throws as `operation::check_crf`.
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

/// Throws InvalidLoD if the emission has no level, ShapeMismatch unless there is a tag and the transition has its
/// shape.
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

}  // namespace operation

/// The best path through the tags of each sequence of the last level: for each row its tag, a scalar; LoD as the
/// emission. A path scores the emissions of its tags, emission[t][tag], and the transitions between them: transition
/// has the shape {tags + 2, tags}, its row 0 has the weight of each tag as the first of a sequence, row 1 that as the
/// last, and row i + 2 those from tag i to each tag. Semantics: PaddlePaddle's crf_decoding without labels, and with
/// any number of levels.
///
/// Of paths with the same score, the one whose last tag is the smallest, then the one before it, and so on. -inf
/// forbids a tag or a transition, +inf counts as the greatest finite number; where every path is forbidden, tags are
/// any that exist. The best score is subtracted at each row, so that a long sequence is as exact as a short one;
/// float16 and bfloat16 are computed as float. From a NaN among the emissions on, the tags of its sequence are 0; with
/// a NaN among the transitions, all but perhaps the first one. An empty sequence has an empty path. Cost: rows * tags^2
/// steps; scratch memory for a number of each row and tag. The output must not overlap the arguments. Throws InvalidLoD
/// if the emission has no level, ShapeMismatch if it has no tag or the transition another shape.
inline constexpr operation::Call<op::crf_decoding> crf_decoding{};
inline constexpr operation::CallInto<op::crf_decoding> crf_decoding_into{};

/// The result of `crf_decoding`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_crf_decoding(const LoDTensorDesc& emission, const LoDTensorDesc& transition) {
  infer::Batch y = infer::crf_batch<op::crf_decoding>(emission, transition, "crf_decoding");
  y.type = DataType::INT64;
  y.row_shape.clear();
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
