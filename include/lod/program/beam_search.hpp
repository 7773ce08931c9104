// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup recurrent
/// Beam search: in each step the best few continuations of the sentences of each source; after all steps, the sentences
/// that were found. On the CPU.
///
///     // A step: one row for each sentence so far, under a level of sources; a column for each candidate.
///     auto beams = lod::beam_search(ids, scores, candidate_scores, {.beam_size = 4, .end_id = 1, .ids = candidates});
///     steps.push_back(beams.ids);   // the next step takes beams.ids and beams.scores
///     ...
///     auto sentences = lod::beam_search_decode(steps, step_scores, {.end_id = 1});
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/run_copy.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// The options of `beam_search`.
struct BeamSearchOptions {
  std::int64_t beam_size = 1;  ///< how many candidates each source keeps, at most
  std::int64_t end_id = 0;     ///< the id that ends a sentence
  int level = 0;               ///< the level of the sources
  /// Whether scores are those of whole sentences. Otherwise they are probabilities of the next id alone: the score of a
  /// sentence is that before, plus the logarithm.
  bool is_accumulated = true;
  /// The ids of the candidates, of the shape of the scores; without them, candidate d of each sentence has the id d.
  std::optional<LoDTensorView<const std::int64_t, Cpu>> ids = {};
};

/// The options of `beam_search_decode`.
struct BeamSearchDecodeOptions {
  std::int64_t end_id = 0;  ///< the id that ends a sentence
};

/// The result of `beam_search`: rows of one number under two levels. The first is the level of sources, whose sequences
/// are the sentences of a source before the step; the second is the level of these sentences, whose rows are the
/// candidates that continue them.
template <class T>
struct Beams {
  LoDTensor<std::int64_t> ids;
  LoDTensor<T> scores;
  LoDTensor<std::int32_t> parents;  ///< for each candidate the row of the sentence that it continues; no levels
};

/// The result of `beam_search_decode`: scalar rows under two levels. The first is the level of sources, whose sequences
/// are the sentences of a source, best first; the second is the level of sentences, whose rows are ids, and the scores
/// that the sentence had up to each id.
template <class T>
struct Sentences {
  LoDTensor<std::int64_t> ids;
  LoDTensor<T> scores;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// An id that may continue a sentence; `sentence` is the sentence's row.
template <class T>
struct Candidate {
  std::int64_t sentence;
  std::int64_t id;
  T score;

  friend bool is_worse(const Candidate& a, const Candidate& b) noexcept {
    return a.score < b.score || (a.score == b.score && a.sentence < b.sentence);
  }
};

/// The best candidates so far, in memory for `room` of them, best first.
template <class T>
class Beam {
 public:
  Beam(Candidate<T>* memory, std::int64_t room) noexcept : begin_(memory), end_(memory), room_(room) {}
  void add(const Candidate<T>& one) noexcept {
    if (end_ - begin_ == room_) {
      if (is_worse(one, end_[-1])) return;
      --end_;
    }
    Candidate<T>* const place =
        std::find_if(begin_, end_, [&](const Candidate<T>& other) { return is_worse(other, one); });
    std::copy_backward(place, end_, end_ + 1);
    *place = one;
    ++end_;
  }
  /// Groups the candidates by sentence, in the order of the sentences.
  void group() noexcept {
    const auto is_before = [](const Candidate<T>& a, const Candidate<T>& b) { return a.sentence < b.sentence; };
    for (Candidate<T>* i = begin_; i != end_; ++i) std::rotate(std::upper_bound(begin_, i, *i, is_before), i, i + 1);
  }
  std::span<Candidate<T>> candidates() const noexcept { return {begin_, end_}; }

 private:
  Candidate<T>* begin_;
  Candidate<T>* end_;
  std::int64_t room_;
};

/// Throws ShapeMismatch unless x has `rows` rows of one number each.
template <class View>
void check_numbers(const View& x, std::int64_t rows, const Subject& what) {
  if (x.rows() != rows || x.row_size() != 1) {
    throw ShapeMismatch(detail::text(
        {what.text(), ": shape ", to_string(x.shape()), ", expected one number for each of ", rows, " sentences"}));
  }
}

}  // namespace operation

/// One step of a beam search. `scores` has a row for each sentence so far, with the scores of the candidates that may
/// continue it, under a level of sources; `pre_ids` and `pre_scores` are the last id and the score of each sentence. Of
/// all candidates of a source the `beam_size` with the greatest scores are kept. A sentence that has ended has one
/// candidate, `end_id` with its score. If all sentences kept for a source had ended before this step, nothing is kept:
/// the source is done, and has no sentences from then on.
///
/// Of equal scores, that of the later sentence counts as greater; within a sentence, that of the earlier candidate,
/// except that the last of them takes the last place. Candidates of a sentence are in the order of their scores.
/// Sources without sentences stay, without candidates. Semantics: PaddlePaddle's beam_search. O(candidates *
/// beam_size).
///
/// Throws InvalidLoD if `scores` has no level; OutOfRange for a level that does not exist and for a `beam_size` below
/// 1; ShapeMismatch for arguments of other shapes. The outputs must not overlap the arguments.
template <Executor E, class T>
void beam_search_into(const E& executor, const LoDTensorView<const std::int64_t, Cpu>& pre_ids,
                      const LoDTensorView<const T, Cpu>& pre_scores, const LoDTensorView<const T, Cpu>& scores,
                      const BeamSearchOptions& options, LoDTensor<std::int64_t>& selected_ids,
                      LoDTensor<T>& selected_scores, LoDTensor<std::int32_t>& parents) {
  using operation::Candidate;
  constexpr const char* name = "beam_search";
  operation::check_has_level(scores, {name, "scores"});
  const LoDView& lod = scores.lod_view();
  const int level = detail::resolve_level(options.level, lod.levels(), name);
  if (options.beam_size < 1) {
    throw OutOfRange(detail::text({name, ": beam_size ", options.beam_size, ", expected 1 or more"}));
  }
  const std::int64_t sentences = scores.rows(), width = scores.row_size(), sources = lod.size(level);
  operation::check_numbers(pre_ids, sentences, {name, "pre_ids"});
  operation::check_numbers(pre_scores, sentences, {name, "pre_scores"});
  if (options.ids && (options.ids->rows() != sentences || options.ids->row_size() != width)) {
    throw ShapeMismatch(detail::text({name, ": ids: shape ", to_string(options.ids->shape()), ", expected ",
                                      to_string(scores.shape()), " as the scores"}));
  }
  const std::int64_t* const last = pre_ids.data();
  const std::int64_t* const ids = options.ids ? options.ids->data() : nullptr;
  const auto rows = lod.absolute_offsets(level);
  const auto room_of = [&](std::size_t source) {
    return std::min(options.beam_size, (rows[source + 1] - rows[source]) * std::max<std::int64_t>(width, 1));
  };
  std::int64_t room = 0;
  for (std::size_t source = 0; source + 1 < rows.size(); ++source) room += room_of(source);
  const Workspace::Loan<Candidate<T>> kept(executor.workspace(), room);
  operation::NewLevels levels(executor.workspace(), 2, sources + sentences);
  const auto first = levels.add(sources), second = levels.add(sentences);
  std::fill(second.begin(), second.end(), 0);
  std::int64_t count = 0;
  for (std::size_t source = 0; source + 1 < rows.size(); ++source) {
    first[source + 1] = rows[source + 1] - rows[0];
    operation::Beam<T> beam(kept.data() + count, room_of(source));
    for (std::int64_t row = first[source]; row < first[source + 1]; ++row) {
      if (last[row] == options.end_id) {
        beam.add({row, options.end_id, pre_scores.data()[row]});
        continue;
      }
      for (std::int64_t d = 0; d < width; ++d) {
        const T score = scores.data()[row * width + d];
        beam.add({row, ids ? ids[row * width + d] : d,
                  options.is_accumulated ? score : static_cast<T>(pre_scores.data()[row] + std::log(score))});
      }
    }
    const auto found = beam.candidates();
    if (std::all_of(found.begin(), found.end(), [&](const Candidate<T>& one) {
          return one.id == options.end_id && last[one.sentence] == options.end_id;
        })) {
      continue;
    }
    beam.group();
    for (const Candidate<T>& one : found) ++second[static_cast<std::size_t>(one.sentence) + 1];
    count += static_cast<std::int64_t>(found.size());
  }
  for (std::size_t i = 1; i < second.size(); ++i) second[i] += second[i - 1];

  const auto out_ids =
      operation::fit(operation::OutputName(name, "selected_ids"), selected_ids, levels, Shape{1}, executor.resource());
  const auto out_scores = operation::fit(operation::OutputName(name, "selected_scores"), selected_scores, levels,
                                         Shape{1}, executor.resource());
  const auto out_parents = operation::fit(operation::OutputName(name, "parents"), parents, operation::PlainRows{count},
                                          Shape(), executor.resource());
  for (std::int64_t i = 0; i < count; ++i) {
    out_ids.data()[i] = kept[i].id;
    out_scores.data()[i] = kept[i].score;
    out_parents.data()[i] = static_cast<std::int32_t>(kept[i].sentence);
  }
}
/// The same with the default executor; returns the result.
template <class T>
[[nodiscard]] Beams<T> beam_search(const LoDTensor<std::int64_t>& pre_ids, const LoDTensor<T>& pre_scores,
                                   const LoDTensor<T>& scores, const BeamSearchOptions& options = {}) {
  Beams<T> y;
  beam_search_into<CpuExecutor, T>(default_executor<Cpu>(), pre_ids.view(), pre_scores.view(), scores.view(), options,
                                   y.ids, y.scores, y.parents);
  return y;
}

/// The sentences that a beam search has found, from the results of all its steps, first to last: for each source, the
/// candidates of the last step in which it has any, and for each of them the ids that led there. An end that was
/// repeated while other sentences went on counts once. Sentences of a source are sorted by score, best first; those of
/// equal scores are in the order of the candidates. Sources without candidates have no sentences. Semantics:
/// PaddlePaddle's beam_search_decode, which is undefined where sources differ in their number of sentences.
///
/// Throws ShapeMismatch if there is no step, if `ids` and `scores` have different numbers of steps, and for a step that
/// does not continue the one before; InvalidLoD for a step that does not have two levels. The outputs must not overlap
/// the steps.
template <Executor E, class T>
void beam_search_decode_into(const E& executor, std::span<const LoDTensorView<const std::int64_t, Cpu>> ids,
                             std::span<const LoDTensorView<const T, Cpu>> scores,
                             const BeamSearchDecodeOptions& options, LoDTensor<std::int64_t>& sentence_ids,
                             LoDTensor<T>& sentence_scores) {
  constexpr const char* name = "beam_search_decode";
  if (ids.empty() || ids.size() != scores.size()) {
    throw ShapeMismatch(detail::text({name, ": ", ids.size(), " steps of ids and ", scores.size(),
                                      " of scores, expected one or more, and as many"}));
  }
  std::int64_t before = -1, most = 0;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const LoDView& lod = ids[t].lod_view();
    if (lod.levels() != 2) {
      throw InvalidLoD(detail::text({name, ": step ", t, " has ", lod.levels(), " levels, expected 2"}));
    }
    const std::int64_t rows = ids[t].rows();
    if (lod.size(0) != ids[0].lod_view().size(0) || (t > 0 && lod.size(1) != before) || ids[t].row_size() != 1 ||
        scores[t].rows() != rows || scores[t].row_size() != 1) {
      throw ShapeMismatch(
          detail::text({name, ": step ", t, " has ids of shape ", to_string(ids[t].shape()), ", scores of shape ",
                        to_string(scores[t].shape()), ", ", lod.size(0), " sources and ", lod.size(1),
                        " sentences, expected one number each, ", ids[0].lod_view().size(0),
                        " sources, and as many sentences as the step before "
                        "has candidates"}));
    }
    before = rows;
    most = detail::saturated_sum(most, rows);
  }
  // A sentence: its last step, its candidate there, the number of its ids, and its score.
  struct Found {
    std::int64_t step, candidate, words;
    T score;
  };
  const auto sources = static_cast<std::size_t>(ids[0].lod_view().size(0));
  const Workspace::Loan<Found> all(executor.workspace(), most);
  const Workspace::Loan<std::int64_t> counts(executor.workspace(), static_cast<std::int64_t>(sources));
  const auto candidate_at = [&](std::size_t t, std::int64_t sentence) {
    const auto second = ids[t].lod_view().offsets(1);
    return second[static_cast<std::size_t>(sentence)] - second[0];
  };
  const auto parent_of = [&](std::int64_t t, std::int64_t candidate) {
    const auto second = ids[static_cast<std::size_t>(t)].lod_view().offsets(1);
    return std::upper_bound(second.begin(), second.end(), candidate + second[0]) - second.begin() - 1;
  };
  const auto for_each_word = [&](const Found& found, const auto& f) {
    std::int64_t candidate = found.candidate;
    for (std::int64_t t = found.step; t >= 0; --t) {
      const std::int64_t id = ids[static_cast<std::size_t>(t)].data()[candidate];
      if (t == found.step || id != options.end_id) f(id, scores[static_cast<std::size_t>(t)].data()[candidate]);
      candidate = parent_of(t, candidate);
    }
  };
  std::int64_t sentences = 0;
  for (std::size_t source = 0; source < sources; ++source) {
    const std::int64_t begin = sentences;
    for (std::size_t t = ids.size(); t-- > 0 && sentences == begin;) {
      const auto first = ids[t].lod_view().offsets(0);
      const std::int64_t end = candidate_at(t, first[source + 1] - first[0]);
      for (std::int64_t candidate = candidate_at(t, first[source] - first[0]); candidate < end; ++candidate) {
        Found found{static_cast<std::int64_t>(t), candidate, 0, scores[t].data()[candidate]};
        for_each_word(found, [&](std::int64_t, T) { ++found.words; });
        // It is inserted before the first one with a lower score.
        Found* place = all.data() + begin;
        while (place != all.data() + sentences && !(place->score < found.score)) ++place;
        std::copy_backward(place, all.data() + sentences, all.data() + sentences + 1);
        *place = found;
        ++sentences;
      }
    }
    counts[static_cast<std::int64_t>(source)] = sentences - begin;
  }

  operation::NewLevels levels(executor.workspace(), 2, static_cast<std::int64_t>(sources) + sentences);
  const auto first = levels.add(static_cast<std::int64_t>(sources)), second = levels.add(sentences);
  for (std::size_t i = 0; i < sources; ++i) first[i + 1] = first[i] + counts[static_cast<std::int64_t>(i)];
  for (std::int64_t i = 0; i < sentences; ++i) {
    second[static_cast<std::size_t>(i) + 1] = second[static_cast<std::size_t>(i)] + all[i].words;
  }
  const auto out_ids =
      operation::fit(operation::OutputName(name, "sentence_ids"), sentence_ids, levels, Shape(), executor.resource());
  const auto out_scores = operation::fit(operation::OutputName(name, "sentence_scores"), sentence_scores, levels,
                                         Shape(), executor.resource());
  for (std::int64_t i = 0; i < sentences; ++i) {
    std::int64_t at = second[static_cast<std::size_t>(i) + 1];
    for_each_word(all[i], [&](std::int64_t id, T score) {
      out_ids.data()[--at] = id;
      out_scores.data()[at] = score;
    });
  }
}
/// The same with the default executor; returns the result.
template <class T>
[[nodiscard]] Sentences<T> beam_search_decode(const std::vector<LoDTensor<std::int64_t>>& ids,
                                              const std::vector<LoDTensor<T>>& scores,
                                              const BeamSearchDecodeOptions& options = {}) {
  std::vector<LoDTensorView<const std::int64_t, Cpu>> id_views;
  std::vector<LoDTensorView<const T, Cpu>> score_views;
  id_views.reserve(ids.size());
  score_views.reserve(scores.size());
  for (const auto& one : ids) id_views.push_back(one.view());
  for (const auto& one : scores) score_views.push_back(one.view());
  Sentences<T> y;
  beam_search_decode_into<CpuExecutor, T>(default_executor<Cpu>(), id_views, score_views, options, y.ids, y.scores);
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
