// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup losses
/// The sentences that a beam search has found, from the results of all its steps.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/several.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE::op {
struct beam_search_decode : elements::Floating, elements::OnCpu {
  static constexpr Text text{"ids, scores", "The sentences that the steps of a beam search have found, best first."};
};
struct beam_search_decode_and_wait : elements::Floating {
  static constexpr Text text{"ids, scores", "The same as `beam_search_decode`; on a GPU it waits."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `beam_search_decode`.
struct BeamSearchDecodeOptions {
  std::int64_t end_id = 0;  ///< the id that ends a sentence
};

/// The result of `beam_search_decode`: scalar rows under two levels. The first is the level of sources, whose sequences
/// are the sentences of a source, best first; the second is the level of sentences, whose rows are ids, and the scores
/// that the sentence had up to each id.
template <class T, class Device = Cpu>
struct Sentences {
  LoDTensor<std::int64_t, Device> ids;
  LoDTensor<T, Device> scores;
};

/// The result of `beam_search_decode`, described.
struct SentencesDesc {
  LoDTensorDesc ids;
  LoDTensorDesc scores;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The steps of a beam search, for the CPU to read.
template <class E, class T>
class BeamSteps {
  using Device = typename E::device;

 public:
  BeamSteps(const E& executor, const Views<std::int64_t, Device>& ids, const Views<T, Device>& scores,
            std::int64_t candidates)
      : steps_(ids),
        values_(executor, 2 * count(ids),
                detail::saturated_product(candidates, std::int64_t{sizeof(std::int64_t) + sizeof(T)})),
        ids_(executor.workspace(), count(ids)),
        scores_(executor.workspace(), count(ids)) {
    for (std::int64_t t = 0; t < size(); ++t) {
      const auto at = static_cast<std::size_t>(t);
      ids_[t] = values_.add(ids[at].data(), ids[at].rows());
      scores_[t] = values_.add(scores[at].data(), scores[at].rows());
    }
    values_.wait();
  }

  std::int64_t size() const noexcept { return count(steps_); }
  T score(std::int64_t t, std::int64_t candidate) const noexcept { return scores_[t][candidate]; }
  /// The first candidate of a source in step t, and, for the number of sources, their number.
  std::int64_t begin_of_source(std::int64_t t, std::int64_t source) const {
    const LoDView& lod = steps_[static_cast<std::size_t>(t)].lod_view();
    const auto first = lod.offsets(0), second = lod.offsets(1);
    return second[static_cast<std::size_t>(first[static_cast<std::size_t>(source)] - first[0])] - second[0];
  }
  /// Calls f(id, score) for the words of the sentence that ends with a candidate of step t, last to first, but for ends
  /// that were repeated.
  template <class F>
  void for_each_word(std::int64_t last, std::int64_t candidate, const F& f, std::int64_t end_id) const {
    for (std::int64_t t = last; t >= 0; --t) {
      const std::int64_t id = ids_[t][candidate];
      if (t == last || id != end_id) f(id, scores_[t][candidate]);
      candidate = parent(t, candidate);
    }
  }

 private:
  static std::int64_t count(const Views<std::int64_t, Device>& steps) noexcept {
    return static_cast<std::int64_t>(steps.size());
  }
  /// The sentence that a candidate continues: a candidate of the step before.
  std::int64_t parent(std::int64_t t, std::int64_t candidate) const {
    const auto second = steps_[static_cast<std::size_t>(t)].lod_view().offsets(1);
    return std::upper_bound(second.begin(), second.end(), candidate + second[0]) - second.begin() - 1;
  }

  Views<std::int64_t, Device> steps_;
  Download<E> values_;
  Workspace::Loan<const std::int64_t*> ids_;
  Workspace::Loan<const T*> scores_;
};

/// Throws unless each step continues the one before; returns how many candidates they have in all.
template <class Ids, class Scores>
std::int64_t check_steps(const Ids& ids, const Scores& scores, const char* name) {
  if (ids.empty() || ids.size() != scores.size()) {
    throw ShapeMismatch(detail::text({name, ": ", ids.size(), " steps of ids and ", scores.size(),
                                      " of scores, expected one or more, and as many"}));
  }
  std::int64_t before = -1, all = 0;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const LoDView& lod = ids[t].lod_view();
    if (lod.levels() != 2) {
      throw InvalidLoD(detail::text({name, ": step ", t, " has ", lod.levels(), " levels, expected 2"}));
    }
    const std::int64_t rows = ids[t].rows(), sources = ids[0].lod_view().size(0);
    if (lod.size(0) != sources || (t > 0 && lod.size(1) != before) || ids[t].row_size() != 1 ||
        scores[t].rows() != rows || scores[t].row_size() != 1) {
      throw ShapeMismatch(detail::text({name, ": step ", t, " has ids of shape ", to_string(ids[t].shape()),
                                        ", scores of shape ", to_string(scores[t].shape()), ", ", lod.size(0),
                                        " sources and ", lod.size(1), " sentences, expected one number each, ", sources,
                                        " sources, and as many sentences as the step before has candidates"}));
    }
    before = rows;
    all = detail::saturated_sum(all, rows);
  }
  return all;
}

template <class Op>
struct Decoding : Takes<Several<TensorOf<std::int64_t>>, Several<Tensor>>,
                  With<BeamSearchDecodeOptions>,
                  GivesAll<Sentences, TensorOf<std::int64_t>, Tensor> {
  template <Executor E, class T>
  static void run(const E& executor, const Views<T, typename E::device>& scores,
                  const Views<std::int64_t, typename E::device>& ids, const BeamSearchDecodeOptions& options,
                  const To<E, std::int64_t>& out_ids, const To<E, T>& out_scores) {
    detail::check_waits_for_nothing<Op, typename E::device>();
    const char* const name = Declared<Op>::name;
    const std::int64_t candidates = check_steps(ids, scores, name), sources = ids[0].lod_view().size(0);
    const BeamSteps<E, T> steps(executor, ids, scores, candidates);
    // A sentence: its last step, its candidate there, the number of its ids, and its score.
    struct Found {
      std::int64_t step, candidate, words;
      T score;
    };
    const Workspace::Loan<Found> all(executor.workspace(), candidates);
    const Workspace::Loan<std::int64_t> counts(executor.workspace(), sources);
    std::int64_t sentences = 0, words = 0;
    for (std::int64_t source = 0; source < sources; ++source) {
      Found* const begin = all.data() + sentences;
      Found* end = begin;
      for (std::int64_t t = steps.size(); t-- > 0 && end == begin;) {
        const std::int64_t last = steps.begin_of_source(t, source + 1);
        for (std::int64_t candidate = steps.begin_of_source(t, source); candidate < last; ++candidate) {
          Found found{t, candidate, 0, steps.score(t, candidate)};
          steps.for_each_word(
              t, candidate, [&](std::int64_t, T) { ++found.words; }, options.end_id);
          words += found.words;
          // It is inserted before the first one with a lower score.
          Found* const place = std::find_if(begin, end, [&](const Found& other) { return other.score < found.score; });
          std::copy_backward(place, end, end + 1);
          *place = found;
          ++end;
        }
      }
      counts[source] = end - begin;
      sentences += counts[source];
    }

    NewLevels levels(executor.workspace(), 2, sources + sentences);
    const auto first = levels.add(sources), second = levels.add(sentences);
    for (std::int64_t i = 0; i < sources; ++i) {
      first[static_cast<std::size_t>(i) + 1] = first[static_cast<std::size_t>(i)] + counts[i];
    }
    const Workspace::Loan<std::int64_t> word_ids(executor.workspace(), words);
    const Workspace::Loan<T> word_scores(executor.workspace(), words);
    for (std::int64_t i = 0; i < sentences; ++i) {
      const Found& found = all[i];
      std::int64_t at = second[static_cast<std::size_t>(i)] + found.words;
      second[static_cast<std::size_t>(i) + 1] = at;
      const auto write = [&](std::int64_t id, T score) {
        word_ids[--at] = id;
        word_scores[at] = score;
      };
      steps.for_each_word(found.step, found.candidate, write, options.end_id);
    }
    const OutputName ids_name(name, "sentence_ids"), scores_name(name, "sentence_scores");
    check_apart_from_all(ids_name, out_ids, ids, "the ids of step ");
    check_apart_from_all(ids_name, out_ids, scores, "the scores of step ");
    check_apart_from_all(scores_name, out_scores, ids, "the ids of step ");
    check_apart_from_all(scores_name, out_scores, scores, "the scores of step ");
    const auto to_ids = prepare(executor, ids_name, out_ids, levels, Shape(), {});
    const auto to_scores = prepare(executor, scores_name, out_scores, levels, Shape(), {{"sentence_ids", out_ids}});
    write_result<E, std::int64_t>(executor, word_ids.span(), to_ids.data());
    write_result<E, T>(executor, word_scores.span(), to_scores.data());
  }
};
template <>
struct Declared<op::beam_search_decode> : Decoding<op::beam_search_decode> {
  static constexpr const char* name = "beam_search_decode";
};
template <>
struct Declared<op::beam_search_decode_and_wait> : Decoding<op::beam_search_decode_and_wait> {
  static constexpr const char* name = "beam_search_decode_and_wait";
};

}  // namespace operation

/// The sentences that a beam search has found, from the ids and the scores that all its steps gave, first to last: for
/// each source, the candidates of the last step in which it has any, and for each of them the ids that led there. An
/// end that was repeated while other sentences went on counts once. Sentences of a source are sorted by score, best
/// first; those of equal scores are in the order of the candidates, and so is a NaN, before which no later one comes.
/// Scalar rows under two levels, as `Sentences` says. Semantics: PaddlePaddle's beam_search_decode, which is undefined
/// where sources differ in their number of sentences.
///
/// The steps are two ranges of tensors or views, as many of ids as of scores; the levels are those of the ids. Sources
/// without candidates in any step have no sentences. Time: O(words * log(sentences of a step)) and, to sort, the square
/// of the sentences of a source, on one thread.
///
/// Throws ShapeMismatch if there is no step, if `ids` and `scores` have different numbers of steps, and for a step that
/// does not continue the one before; InvalidLoD for a step that does not have two levels. The outputs must not overlap
/// the steps or each other.
inline constexpr operation::Call<op::beam_search_decode> beam_search_decode{};
inline constexpr operation::CallInto<op::beam_search_decode> beam_search_decode_into{};

/// `beam_search_decode` for any device, for code that is generic over executors; on the CPU it is the same. Since the
/// size of the result depends on the ids, on a GPU this waits for all work that is enqueued, so no graph can be
/// captured from it, and throws as `CudaExecutor::synchronize` does. All steps come to the CPU in one transfer.
inline constexpr operation::Call<op::beam_search_decode_and_wait> beam_search_decode_and_wait{};
inline constexpr operation::CallInto<op::beam_search_decode_and_wait> beam_search_decode_and_wait_into{};

namespace operation {

template <class Op>
SentencesDesc infer_sentences(const std::vector<LoDTensorDesc>& ids, const std::vector<LoDTensorDesc>& scores) {
  const std::string name = Declared<Op>::name;
  if (ids.empty() || ids.size() != scores.size()) {
    throw ShapeMismatch(detail::text({name, ": ", ids.size(), " steps of ids and ", scores.size(),
                                      " of scores, expected one or more, and as many"}));
  }
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const std::string what = detail::text({name, ": step ", t});
    const infer::Batch words(ids[t], what.c_str());
    const infer::Batch numbers = infer::batch_for<Op>(scores[t], what.c_str());
    infer::check_type(words.type, DataType::INT64, what.c_str());
    infer::check_type(numbers.type, scores[0].tensor.data_type, what.c_str());
    if (words.levels != 2) {
      throw InvalidLoD(detail::text({what, " has ", words.levels, " levels, expected 2"}));
    }
    words.check_scalar_rows(what.c_str(), "one number each");
    numbers.check_scalar_rows(what.c_str(), "one number each");
    infer::check_row_count(numbers.rows, words.rows, what.c_str());
  }
  return {infer::Batch(DataType::INT64, infer::unknown, {}, 2),
          infer::Batch(scores[0].tensor.data_type, infer::unknown, {}, 2)};
}

}  // namespace operation

/// The results of `beam_search_decode` and `beam_search_decode_and_wait`, described: see <lod/infer.hpp>.
inline SentencesDesc infer_beam_search_decode(const std::vector<LoDTensorDesc>& ids,
                                              const std::vector<LoDTensorDesc>& scores) {
  return operation::infer_sentences<op::beam_search_decode>(ids, scores);
}
inline SentencesDesc infer_beam_search_decode_and_wait(const std::vector<LoDTensorDesc>& ids,
                                                       const std::vector<LoDTensorDesc>& scores) {
  return operation::infer_sentences<op::beam_search_decode_and_wait>(ids, scores);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
