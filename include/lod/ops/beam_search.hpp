// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup losses
/// Beam search: in each step the best few continuations of the sentences of each source. After all steps,
/// `beam_search_decode` gives the sentences that were found.
///
///     // A step: one row for each sentence so far, under a level of sources; a column for each candidate.
///     auto beams = lod::beam_search(candidates, scores, {.beam_size = 4, .end_id = 1});
///     steps.push_back(beams.ids);  // the next step takes beams.ids and beams.scores
///     ...
///     auto sentences = lod::beam_search_decode(steps, step_scores, {.end_id = 1});
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace lod::inline LOD_INTERFACE::op {
struct beam_search : elements::Floating, elements::OnCpu {
  static constexpr Text text{
      "ids, scores",
      "A step of a beam search: the best candidates of each source, under the sentences that they "
      "continue."};
};
struct beam_search_and_wait : elements::Floating {
  static constexpr Text text{"ids, scores", "The same as `beam_search`; on a GPU it waits."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `beam_search`.
template <class T, class Device = Cpu>
struct BeamSearchOptions {
  std::int64_t beam_size = 1;  ///< how many candidates each source keeps, at most
  std::int64_t end_id = 0;     ///< the id that ends a sentence
  int level = 0;               ///< the level of the sources; by default the first
  /// Whether scores are those of whole sentences. Otherwise they are probabilities of the next id alone: the score of a
  /// sentence is that before, plus the logarithm.
  bool is_accumulated = true;
  /// The last id of each sentence; without them, no sentence has ended.
  OptionalTensor<std::int64_t, Device> pre_ids = nullptr;
  OptionalTensor<T, Device> pre_scores = nullptr;  ///< the score of each sentence; without them, 0
};

/// The options of `infer_beam_search`: those of `beam_search` that matter, with the tensors described.
struct BeamSearchDescOptions {
  int level = 0;
  const LoDTensorDesc* pre_ids = nullptr;
  const LoDTensorDesc* pre_scores = nullptr;
};

/// The result of `beam_search`: rows of one number under two levels. The first is the level of sources, whose sequences
/// are the sentences of a source before the step; the second is the level of these sentences, whose rows are the
/// candidates that continue them: the sentences of the next step, whose scores take this LoD.
template <class T, class Device = Cpu>
struct Beams {
  LoDTensor<std::int64_t, Device> ids;
  LoDTensor<T, Device> scores;
  LoDTensor<std::int32_t, Device> parents;  ///< for each candidate the row of the sentence that it continues; no levels
};

/// The result of `beam_search`, described.
struct BeamsDesc {
  LoDTensorDesc ids;
  LoDTensorDesc scores;
  LoDTensorDesc parents;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// An id that may continue a sentence.
template <class T>
struct Candidate {
  std::int64_t sentence;   ///< its row
  const std::int64_t* id;  ///< where the id is, in the memory of the executor's device
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

/// What a step chooses from: scores and last ids for the CPU to read, and where the ids are. Tensors that were not
/// given are null.
template <class T>
struct StepChoice {
  const T* scores;
  std::int64_t width;  ///< candidates of a sentence
  const std::int64_t* pre_ids;
  const T* pre_scores;
  std::int64_t end_id;
  bool is_accumulated;
  const std::int64_t* ids_there;
  std::int64_t id_stride;  ///< from the ids of a sentence to those of the next: 0 if all have the same
  const std::int64_t* pre_ids_there;

  bool has_ended(std::int64_t sentence) const noexcept { return pre_ids && pre_ids[sentence] == end_id; }
  /// Adds the candidates of a sentence, in their order.
  void add_to(Beam<T>& beam, std::int64_t sentence) const noexcept {
    using Sum = kernel::Accumulator<T>;
    const T before = pre_scores ? pre_scores[sentence] : T(0);
    if (has_ended(sentence)) {
      beam.add({sentence, pre_ids_there + sentence, before});
      return;
    }
    for (std::int64_t d = 0; d < width; ++d) {
      const T score = scores[sentence * width + d];
      beam.add({sentence, ids_there + sentence * id_stride + d,
                is_accumulated ? score : static_cast<T>(static_cast<Sum>(before) + std::log(static_cast<Sum>(score)))});
    }
  }
  /// Whether these candidates only repeat ends.
  bool is_done(std::span<const Candidate<T>> kept) const noexcept {
    return std::all_of(kept.begin(), kept.end(), [&](const Candidate<T>& one) { return has_ended(one.sentence); });
  }
};

/// Throws ShapeMismatch unless x has one number for each sentence.
template <class View>
void check_numbers(const View& x, std::int64_t sentences, const Subject& what) {
  if (x.rows() != sentences || x.row_size() != 1) {
    throw ShapeMismatch(detail::text({what.text(), ": shape ", to_string(x.shape()),
                                      ", expected one number for each of ", sentences, " sentences"}));
  }
}

template <class Op>
struct BeamStep : Takes<TensorOf<std::int64_t>, Tensor>,
                  WithTyped<BeamSearchOptions>,
                  GivesAll<Beams, TensorOf<std::int64_t>, Tensor, TensorOf<std::int32_t>> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& scores, const Input<E, std::int64_t>& ids,
                  const BeamSearchOptions<T, typename E::device>& options, const To<E, std::int64_t>& out_ids,
                  const To<E, T>& out_scores, const To<E, std::int32_t>& out_parents) {
    detail::check_waits_for_nothing<Op, typename E::device>();
    const char* const name = Declared<Op>::name;
    check(scores, ids, options, name);
    const LoDView& lod = scores.lod_view();
    const int level = detail::resolve_level(options.level, lod.levels(), name);
    constexpr std::int64_t number{sizeof(T)};
    const std::int64_t sentences = scores.rows(), width = scores.row_size(), sources = lod.size(level);
    const auto rows = lod.absolute_offsets(level);
    const auto room_of = [&](std::size_t source) {
      return std::min(options.beam_size, (rows[source + 1] - rows[source]) * std::max<std::int64_t>(width, 1));
    };
    std::int64_t room = 0;
    for (std::size_t source = 0; source + 1 < rows.size(); ++source) room += room_of(source);
    const Workspace::Loan<Candidate<T>> kept(executor.workspace(), room);
    const Workspace::Loan<T> kept_scores(executor.workspace(), room);
    const Workspace::Loan<std::int32_t> parents(executor.workspace(), room);
    NewLevels levels(executor.workspace(), 2, sources + sentences);
    const auto first = levels.add(sources), second = levels.add(sentences);
    std::fill(second.begin(), second.end(), 0);

    Download<E> values(executor, 3,
                       sentences * width * number + sentences * (number + std::int64_t{sizeof(std::int64_t)}));
    const StepChoice<T> choice{values.add(scores.data(), sentences * width),
                               width,
                               options.pre_ids ? values.add(options.pre_ids.data(), sentences) : nullptr,
                               options.pre_scores ? values.add(options.pre_scores.data(), sentences) : nullptr,
                               options.end_id,
                               options.is_accumulated,
                               ids.data(),
                               ids.rows() == 1 ? 0 : width,
                               options.pre_ids.data()};
    values.wait();
    std::int64_t count = 0;
    for (std::size_t source = 0; source + 1 < rows.size(); ++source) {
      first[source + 1] = rows[source + 1] - rows[0];
      Beam<T> beam(kept.data() + count, room_of(source));  // those of done sources are overwritten
      for (std::int64_t row = first[source]; row < first[source + 1]; ++row) choice.add_to(beam, row);
      if (choice.is_done(beam.candidates())) continue;
      beam.group();
      for (const Candidate<T>& one : beam.candidates()) {
        ++second[static_cast<std::size_t>(one.sentence) + 1];
        kept_scores[count] = one.score;
        parents[count++] = static_cast<std::int32_t>(one.sentence);
      }
    }
    for (std::size_t i = 1; i < second.size(); ++i) second[i] += second[i - 1];
    const RowRuns<E, std::int64_t> words(executor, name, count, [&](std::int64_t i) {
      return RowRun<std::int64_t>{kept[i].id, 1};
    });

    const OtherMemory from_ids("ids", ids), from_scores("scores", scores), from_pre_ids("pre_ids", options.pre_ids),
        from_pre_scores("pre_scores", options.pre_scores);
    const auto to_ids = prepare(executor, {name, "selected_ids"}, out_ids, levels, Shape{1},
                                {from_ids, from_scores, from_pre_ids, from_pre_scores});
    const auto to_scores = prepare(executor, {name, "selected_scores"}, out_scores, levels, Shape{1},
                                   {from_ids, from_scores, from_pre_ids, from_pre_scores, {"selected_ids", out_ids}});
    const auto to_parents = prepare(executor, {name, "parents"}, out_parents, PlainRows{count}, Shape(),
                                    {from_ids,
                                     from_scores,
                                     from_pre_ids,
                                     from_pre_scores,
                                     {"selected_ids", out_ids},
                                     {"selected_scores", out_scores}});
    const auto size = static_cast<std::size_t>(count);
    words.copy(1, to_ids.data());
    write_result<E, T>(executor, kept_scores.span().first(size), to_scores.data());
    write_result<E, std::int32_t>(executor, parents.span().first(size), to_parents.data());
  }

 private:
  template <class Scores, class Ids, class Options>
  static void check(const Scores& scores, const Ids& ids, const Options& options, const char* name) {
    check_has_level(scores, {name, "scores"});
    static_cast<void>(detail::resolve_level(options.level, scores.levels(), name));
    const std::int64_t beam_size = options.beam_size;
    if (beam_size < 1) throw OutOfRange(detail::text({name, ": beam_size ", beam_size, ", expected 1 or more"}));
    const std::int64_t sentences = scores.rows();
    if (sentences > std::numeric_limits<std::int32_t>::max()) {
      throw ShapeMismatch(detail::text({name, ": ", sentences, " sentences, expected as many as int32 can number"}));
    }
    if ((ids.rows() != sentences && ids.rows() != 1) || ids.row_size() != scores.row_size()) {
      throw ShapeMismatch(detail::text({name, ": ids: shape ", to_string(ids.shape()), ", expected ",
                                        to_string(scores.shape()), " as the scores, or one such row"}));
    }
    if (options.pre_ids) check_numbers(*options.pre_ids.operator->(), sentences, {name, "pre_ids"});
    if (options.pre_scores) check_numbers(*options.pre_scores.operator->(), sentences, {name, "pre_scores"});
  }
};
template <>
struct Declared<op::beam_search> : BeamStep<op::beam_search> {
  static constexpr const char* name = "beam_search";
};
template <>
struct Declared<op::beam_search_and_wait> : BeamStep<op::beam_search_and_wait> {
  static constexpr const char* name = "beam_search_and_wait";
};

}  // namespace operation

/// One step of a beam search. `scores` has a row for each sentence so far, with the scores of the candidates that may
/// continue it, under a level of sources; `ids` are the candidates, of the same shape, or one row for all sentences,
/// such as the ids of a vocabulary. Of all candidates of a source the `beam_size` with the greatest scores are kept, or
/// all if there are fewer. A sentence whose last id, in `pre_ids`, is `end_id` has ended: it has one candidate,
/// `end_id` with its score in `pre_scores`. If all that would be kept for a source are sentences that had ended before
/// this step, nothing is kept: the source is done, and has no sentences from then on. The results have two levels, as
/// `Beams` says: the sources, sequences of `level`, and their sentences; ids and scores have rows of one number, of
/// shape {1}.
///
/// Candidates are inserted into the beam of their source one by one, in their order: into a full one only if it is not
/// worse than the last, whose place it takes; before the first that is worse. Worse is a lower score or, of equal ones,
/// that of an earlier sentence. So within a sentence the first of equal scores are kept, but one that finds a full beam
/// takes the last place from its equal; and so does a NaN, which is neither worse nor better, and leaves the place to
/// whatever comes next. Candidates of a sentence are in the order of the beam. Semantics: PaddlePaddle's beam_search.
///
/// Sources without sentences stay, without candidates, and so does a batch without sources. Levels of `ids`, `pre_ids`
/// and `pre_scores` are ignored, and so are levels of the scores above and below `level`. float16 and bfloat16 are
/// compared exactly; logarithms of them are computed as float. Time: O(candidates * beam_size), on one thread.
///
/// Throws InvalidLoD if `scores` has no level; OutOfRange for a level that does not exist and for a `beam_size` below
/// 1; ShapeMismatch for arguments of other shapes, and for more sentences than int32 can number. The outputs must not
/// overlap the arguments or each other.
inline constexpr operation::Call<op::beam_search> beam_search{};
inline constexpr operation::CallInto<op::beam_search> beam_search_into{};

/// `beam_search` for any device, for code that is generic over executors; on the CPU it is the same. Since the size of
/// the result depends on the scores, on a GPU this waits for all work that is enqueued, so no graph can be captured
/// from it, and throws as `CudaExecutor::synchronize` does. The scores of all candidates come to the CPU, in one
/// transfer, and it chooses; the ids stay on the GPU.
inline constexpr operation::Call<op::beam_search_and_wait> beam_search_and_wait{};
inline constexpr operation::CallInto<op::beam_search_and_wait> beam_search_and_wait_into{};

namespace operation {

template <class Op>
BeamsDesc infer_beams(const LoDTensorDesc& ids, const LoDTensorDesc& scores, const BeamSearchDescOptions& options) {
  const std::string name = Declared<Op>::name;
  const auto check_numbers = [&](const LoDTensorDesc* x, DataType type, std::int64_t rows, const char* which) {
    if (!x) return;
    const std::string what = name + ": " + which;
    const infer::Batch numbers(*x, what.c_str());
    infer::check_type(numbers.type, type, what.c_str());
    infer::check_row_count(numbers.rows, rows, what.c_str());
    numbers.check_scalar_rows(what.c_str(), "one number for each sentence");
  };
  const std::string of_scores = name + ": scores", of_ids = name + ": ids";
  const infer::Batch candidates = infer::batch_for<Op>(scores, of_scores.c_str());
  static_cast<void>(candidates.level(options.level, of_scores.c_str()));
  const infer::Batch words(ids, of_ids.c_str());
  infer::check_type(words.type, DataType::INT64, of_ids.c_str());
  if (words.rows != 1) infer::check_row_count(words.rows, candidates.rows, of_ids.c_str());
  const std::int64_t width = candidates.row_size(of_scores.c_str()), found = words.row_size(of_ids.c_str());
  if (!infer::agree(found, width)) {
    throw ShapeMismatch(detail::text({of_ids, ": ", found, " candidates of a sentence, expected ", width}));
  }
  check_numbers(options.pre_ids, DataType::INT64, candidates.rows, "pre_ids");
  check_numbers(options.pre_scores, candidates.type, candidates.rows, "pre_scores");
  return {infer::Batch(DataType::INT64, infer::unknown, {1}, 2), infer::Batch(candidates.type, infer::unknown, {1}, 2),
          infer::Batch(DataType::INT32, infer::unknown, {}, 0)};
}

}  // namespace operation

/// The results of `beam_search` and `beam_search_and_wait`, described: see <lod/infer.hpp>.
inline BeamsDesc infer_beam_search(const LoDTensorDesc& ids, const LoDTensorDesc& scores,
                                   const BeamSearchDescOptions& options = {}) {
  return operation::infer_beams<op::beam_search>(ids, scores, options);
}
inline BeamsDesc infer_beam_search_and_wait(const LoDTensorDesc& ids, const LoDTensorDesc& scores,
                                            const BeamSearchDescOptions& options = {}) {
  return operation::infer_beams<op::beam_search_and_wait>(ids, scores, options);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
