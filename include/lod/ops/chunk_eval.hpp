// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup losses
/// How well chunks are found, such as the names in a text that is labelled word by word.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>
#include <lod/ops/supports.hpp>

#include <cstdint>
#include <limits>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct chunk_eval : elements::Id {
  static constexpr Text text{
      "inference, label",
      "Precision, recall and F1 of the chunks that the labels of `inference` mark, and their counts."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// How a chunk's rows are tagged. Tags are numbered in the order given here.
enum class ChunkScheme {
  IOB,    ///< the first row, the rows after it
  IOE,    ///< the rows before the last, the last row
  IOBES,  ///< the first row, the rows inside, the last row, the only row
  PLAIN,  ///< one tag: adjacent rows of the same type are one chunk
};

/// The options of `chunk_eval`.
struct ChunkEvalOptions {
  ChunkScheme scheme = ChunkScheme::IOB;
  std::int64_t types = 0;                       ///< the number of types of chunks
  std::span<const std::int64_t> excluded = {};  ///< types whose chunks are not counted; in CPU memory
};

/// The result of `chunk_eval`.
template <class T, class Device = Cpu>
struct ChunkEval {
  LoDTensor<float, Device> rates;          ///< precision, recall, F1
  LoDTensor<std::int64_t, Device> counts;  ///< inferred chunks, labelled chunks, chunks that are both
};
/// The result of `chunk_eval`, described.
struct ChunkEvalDesc {
  LoDTensorDesc rates;
  LoDTensorDesc counts;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// The numbers of tags; -1 for one that a scheme does not have.
struct ChunkTags {
  std::int64_t count;
  std::int64_t begin, inside, end, single;

  LOD_TAGGED static constexpr ChunkTags of(ChunkScheme scheme) noexcept {
    if (scheme == ChunkScheme::IOB) return {2, 0, 1, -1, -1};
    if (scheme == ChunkScheme::IOE) return {2, -1, 0, 1, -1};
    if (scheme == ChunkScheme::IOBES) return {4, 0, 1, 2, 3};
    return {1, -1, -1, -1, -1};
  }
};
/// How chunks are labelled (type * tags.count + tag), and which types are not counted.
struct ChunkLabels {
  ChunkTags tags;
  std::int64_t types;
  const std::int64_t* excluded;
  std::int64_t excluded_count;

  /// Whether the chunks of a type count.
  LOD_TAGGED LOD_HOST_DEVICE bool counts(std::int64_t type) const noexcept {
    for (std::int64_t i = 0; i < excluded_count; ++i) {
      if (excluded[i] == type) return false;
    }
    return true;
  }
};
/// run(executor, inference, label, sequences, labels, counts): the three counts of each sequence.
struct CountChunks {};
/// run(executor, counts, rates): the rates over all sequences.
struct ChunkRates {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// How to read the labels of chunks, without the excluded types. Throws OutOfRange for invalid options.
inline kernel::ChunkLabels chunk_labels(const ChunkEvalOptions& options) {
  if (options.scheme < ChunkScheme::IOB || options.scheme > ChunkScheme::PLAIN) {
    throw OutOfRange(
        detail::text({"chunk_eval: ChunkScheme ", static_cast<int>(options.scheme), ", expected IOB to PLAIN"}));
  }
  if (options.types < 1 || options.types > std::numeric_limits<std::int64_t>::max() / 4) {
    throw OutOfRange(detail::text({"chunk_eval: ", options.types, " types, expected at least one"}));
  }
  return {kernel::ChunkTags::of(options.scheme), options.types, nullptr,
          static_cast<std::int64_t>(options.excluded.size())};
}

template <>
struct Declared<op::chunk_eval> : Takes<Tensor, Tensor>,
                                  With<ChunkEvalOptions>,
                                  GivesAll<ChunkEval, TensorOf<float>, TensorOf<std::int64_t>>,
                                  Launches<kernel::CountChunks>,
                                  LaunchesOnIds<kernel::ChunkRates> {
  static constexpr const char* name = "chunk_eval";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& inference, const Input<E, T>& label,
                  const ChunkEvalOptions& options, const To<E, float>& rates, const To<E, std::int64_t>& counts) {
    kernel::ChunkLabels labels = chunk_labels(options);
    check_has_level(inference, {name, "inference"});
    check_labels(label, inference, name);
    check_labels(inference, inference, name);
    if (inference.lod_view() != label.lod_view()) {
      throw InvalidLoD(detail::text({name, ": label: other levels, expected those of the inference"}));
    }
    const OnDevice<E, std::int64_t> excluded(executor, options.excluded);
    labels.excluded = excluded.data();
    const auto out_rates =
        prepare(executor, {name, "rates"}, rates, PlainRows{3}, Shape(), {{"inference", inference}, {"label", label}});
    const auto out_counts = prepare(executor, {name, "counts"}, counts, PlainRows{3}, Shape(),
                                    {{"inference", inference}, {"label", label}, {"rates", rates}});
    const kernel::Segments sequences = segments(executor, inference, inference.levels() - 1);
    const kernel::Scratch<E, std::int64_t> each(executor, detail::saturated_product(3, sequences.size));
    launch(kernel::CountChunks(), executor, inference.data(), label.data(), sequences, labels, each.data());
    sum_columns(executor, static_cast<const std::int64_t*>(each.data()), sequences.size, 3, out_counts.data());
    launch(kernel::ChunkRates(), executor, static_cast<const std::int64_t*>(out_counts.data()), out_rates.data());
  }
};

}  // namespace operation

/// Counts, over all sequences of the last level, the chunks that `inference` marks, those that `label` marks, and the
/// correct ones, which both mark with the same rows and type. The rates, in float, are precision (correct / inferred),
/// recall (correct / labelled) and F1, their harmonic mean; each is 0 where it would be 0 / 0. Both results are plain
/// tensors of three scalars. Semantics: PaddlePaddle's chunk_eval.
///
/// Labels are integers of row size 1. The label of a row in a chunk is type * tags + tag, where `scheme` says which
/// tags there are; any other number, negative ones included, is outside all chunks. Label sequences that the scheme
/// does not allow are read as PaddlePaddle reads them: a chunk without a first row begins where its type begins. A
/// chunk ends with its sequence. One pass, in which each thread takes whole sequences. The outputs must not overlap the
/// arguments. Throws InvalidLoD if `inference` has no level or `label` has other levels, ShapeMismatch for a wrong
/// number of rows or row size, OutOfRange for invalid options.
inline constexpr operation::Call<op::chunk_eval> chunk_eval{};
inline constexpr operation::CallInto<op::chunk_eval> chunk_eval_into{};

/// The result of `chunk_eval`, described: see <lod/infer.hpp>.
inline ChunkEvalDesc infer_chunk_eval(const LoDTensorDesc& inference, const LoDTensorDesc& label,
                                      const ChunkEvalOptions& options) {
  operation::chunk_labels(options);
  const infer::Batch inferred = infer::batch_for<op::chunk_eval>(inference, "chunk_eval: inference");
  const infer::Batch expected(label, "chunk_eval: label");
  infer::check_type(expected.type, inferred.type, "chunk_eval: label");
  inferred.check_has_level("chunk_eval: inference");
  expected.check_has_level("chunk_eval: label");
  inferred.check_scalar_rows("chunk_eval: inference", "one label a row");
  expected.check_scalar_rows("chunk_eval: label", "one label a row");
  infer::check_row_count(expected.rows, inferred.rows, "chunk_eval: label");
  return {{{DataType::FP32, {3}}}, {{DataType::INT64, {3}}}};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
