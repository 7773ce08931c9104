// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include <lod/beam_search.hpp>
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

// With the names that other files use for something else, beside which this one may be compiled.
namespace beam_search_cases {
namespace {

using Ids = std::vector<std::int64_t>;
using Floats = std::vector<float>;
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

template <class T>
LoDTensor<T> plain(const lod::Shape& row_shape, const std::vector<T>& values) {
  return LoDTensor<T>::from_values(LoD(), row_shape, values);
}

/// A candidate in the most obvious form.
template <class T>
struct Word {
  std::int64_t sentence, id;
  T score;
};
/// The arguments of a step.
template <class T>
struct Step {
  LoDTensor<std::int64_t> ids;
  LoDTensor<T> scores;
  std::optional<LoDTensor<std::int64_t>> pre_ids = {};
  std::optional<LoDTensor<T>> pre_scores = {};
};
struct Search {
  std::int64_t beam_size = 1, end_id = 0;
  int level = 0;
  bool is_accumulated = true;
};
template <class T>
lod::BeamSearchOptions<T> options_of(const Step<T>& step, const Search& search) {
  return {.beam_size = search.beam_size,
          .end_id = search.end_id,
          .level = search.level,
          .is_accumulated = search.is_accumulated,
          .pre_ids = step.pre_ids ? &*step.pre_ids : nullptr,
          .pre_scores = step.pre_scores ? &*step.pre_scores : nullptr};
}

/// The candidates of each source, in order.
template <class T, class Scores>
std::vector<std::vector<Word<T>>> words_of(const Step<T>& step, const Scores& scores, const Search& search) {
  std::vector<std::vector<Word<T>>> all;
  const auto rows = scores.lod().absolute_offsets(search.level);
  for (std::size_t source = 0; source + 1 < rows.size(); ++source) {
    all.emplace_back();
    for (std::int64_t row = rows[source]; row < rows[source + 1]; ++row) {
      const T before = step.pre_scores ? step.pre_scores->data()[row] : T(0);
      if (step.pre_ids && step.pre_ids->data()[row] == search.end_id) {
        all.back().push_back({row, search.end_id, before});
        continue;
      }
      const std::int64_t width = scores.row_size();
      for (std::int64_t d = 0; d < width; ++d) {
        const T score = scores.data()[row * width + d];
        using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
        all.back().push_back({row, step.ids.data()[step.ids.rows() == 1 ? d : row * width + d],
                              search.is_accumulated
                                  ? score
                                  : static_cast<T>(static_cast<Sum>(before) + std::log(static_cast<Sum>(score)))});
      }
    }
  }
  return all;
}

/// Keeps the best ones by sorting all of them: for scores that all differ.
template <class T>
std::vector<Word<T>> best_by_sorting(std::vector<Word<T>> words, const Search& search) {
  std::sort(words.begin(), words.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  words.resize(std::min(words.size(), static_cast<std::size_t>(search.beam_size)));
  return words;
}
/// The same for all scores, as PaddlePaddle does it: one after the other is inserted before the first that is worse.
template <class T>
std::vector<Word<T>> best_by_inserting(const std::vector<Word<T>>& words, const Search& search) {
  const auto is_worse = [](const auto& a, const auto& b) {
    return a.score < b.score || (a.score == b.score && a.sentence < b.sentence);
  };
  std::vector<Word<T>> best;
  for (const Word<T>& word : words) {
    if (best.size() == static_cast<std::size_t>(search.beam_size)) {
      if (is_worse(word, best.back())) continue;
      best.pop_back();
    }
    auto place = best.begin();
    while (place != best.end() && !is_worse(*place, word)) ++place;
    best.insert(place, word);
  }
  return best;
}

/// Checks a result against the words that `best` keeps of each source.
template <class T, class Scores, class Best>
void check_beams(const lod::Beams<T>& found, const Step<T>& step, const Scores& scores, const Search& search,
                 const Best& best) {
  Ids ids, sentences_of;
  std::vector<T> values;
  std::vector<std::int32_t> parents;
  Ids kept(static_cast<std::size_t>(scores.rows()));
  const auto rows = scores.lod().absolute_offsets(search.level);
  for (std::size_t source = 0; source + 1 < rows.size(); ++source)
    sentences_of.push_back(rows[source + 1] - rows[source]);
  for (const auto& words : words_of(step, scores, search)) {
    std::vector<Word<T>> kept_here = best(words, search);
    const bool done = std::all_of(kept_here.begin(), kept_here.end(), [&](const auto& word) {
      return word.id == search.end_id && step.pre_ids && step.pre_ids->data()[word.sentence] == search.end_id;
    });
    if (done) continue;
    std::stable_sort(kept_here.begin(), kept_here.end(),
                     [](const auto& a, const auto& b) { return a.sentence < b.sentence; });
    for (const Word<T>& word : kept_here) {
      ids.push_back(word.id);
      values.push_back(word.score);
      parents.push_back(static_cast<std::int32_t>(word.sentence));
      ++kept[static_cast<std::size_t>(word.sentence)];
    }
  }
  const LoD lod = LoD::from_lengths({sentences_of, kept});
  CHECK(same_bits(found.ids, LoDTensor<std::int64_t>::from_values(lod, {1}, ids)));
  CHECK(same_bits(found.scores, LoDTensor<T>::from_values(lod, {1}, values)));
  CHECK(same_bits(found.parents, plain<std::int32_t>({}, parents)));
}

/// The sentences of the steps in the most obvious form. No score is NaN.
template <class T, class IdSteps, class ScoreSteps>
lod::Sentences<T> obvious_sentences(const IdSteps& ids, const ScoreSteps& scores, std::int64_t end_id) {
  struct Sentence {
    Ids words;
    std::vector<T> scores;
    bool last_of_source = false;
  };
  // For each step and source, the sentences that end with its candidates, from those of the step before.
  std::vector<std::vector<std::vector<Sentence>>> all;
  const std::size_t sources = static_cast<std::size_t>(ids[0].lod().size(0));
  for (std::size_t t = 0; t < ids.size(); ++t) {
    std::vector<std::vector<Sentence>> step(sources);
    std::int64_t sentence = 0, candidate = 0;
    const auto words_of_sentence = ids[t].lod().lengths(1), sentences_of_source = ids[t].lod().lengths(0);
    std::vector<Sentence> before;
    if (t > 0) {
      for (const auto& of_source : all.back()) before.insert(before.end(), of_source.begin(), of_source.end());
    }
    for (std::size_t source = 0; source < sources; ++source) {
      for (std::int64_t i = 0; i < sentences_of_source[source]; ++i, ++sentence) {
        for (std::int64_t k = 0; k < words_of_sentence[static_cast<std::size_t>(sentence)]; ++k, ++candidate) {
          Sentence one = t > 0 ? before[static_cast<std::size_t>(sentence)] : Sentence();
          one.words.push_back(ids[t].data()[candidate]);
          one.scores.push_back(scores[t].data()[candidate]);
          step[source].push_back(std::move(one));
        }
      }
    }
    all.push_back(std::move(step));
  }
  Ids sentences(sources), lengths, words;
  std::vector<T> values;
  for (std::size_t source = 0; source < sources; ++source) {
    std::vector<Sentence> found;
    for (std::size_t t = ids.size(); t-- > 0 && found.empty();) found = all[t][source];
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.scores.back() > b.scores.back(); });
    for (const Sentence& one : found) {
      std::int64_t length = 0;
      for (std::size_t i = 0; i < one.words.size(); ++i) {
        if (one.words[i] == end_id && i + 1 < one.words.size()) continue;
        words.push_back(one.words[i]);
        values.push_back(one.scores[i]);
        ++length;
      }
      lengths.push_back(length);
      ++sentences[source];
    }
  }
  const LoD lod = LoD::from_lengths({sentences, lengths});
  return {LoDTensor<std::int64_t>::from_values(lod, {}, words), LoDTensor<T>::from_values(lod, {}, values)};
}

/// A random step under these levels; a level of sentences is added where there is none below the sources.
template <class T>
Step<T> random_step(Engine& engine, const LoD& lod, std::int64_t width, bool ties) {
  Step<T> step{LoDTensor<std::int64_t>(lod, {width}), LoDTensor<T>(lod, {width})};
  for (std::int64_t& id : step.ids.values()) id = random_number(engine, 0, 9);
  if (ties) {
    for (T& score : step.scores.values()) score = static_cast<T>(static_cast<float>(random_number(engine, -2, 2)));
  } else {
    // All different, and exact in every type but bfloat16 of many.
    std::vector<std::int64_t> numbers(step.scores.values().size());
    std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
    std::shuffle(numbers.begin(), numbers.end(), engine);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      step.scores.values()[i] = static_cast<T>(static_cast<double>(numbers[i]) - 100);
    }
  }
  return step;
}

}  // namespace

TEST_CASE("beam_search: keeps the best candidates of each source") {
  const auto of = [](const Ids& sources, const lod::Shape& row_shape, const Floats& values) {
    const Ids ones(values.size() / static_cast<std::size_t>(row_shape.elements()), 1);
    return LoDTensor<float>::from_values(LoD::from_lengths({sources, ones}), row_shape, values);
  };
  const auto scores = of({2, 2}, {3}, {.5f, .3f, .2f, .6f, .3f, .1f, .9f, .5f, .1f, .7f, .5f, .1f});
  const auto ids = plain<std::int64_t>({3}, {4, 2, 5, 2, 1, 3, 3, 5, 2, 8, 2, 1});
  const auto pre_scores = plain<float>({1}, {.1f, .2f, .3f, .4f});
  const auto living = plain<std::int64_t>({1}, {1, 2, 3, 4}), ended = plain<std::int64_t>({1}, {0, 2, 0, 0});
  const auto two = plain<std::int64_t>({1}, {7, 7}), in_order = plain<std::int64_t>({2}, {0, 1});
  const auto zeros = plain<float>({1}, {0, 0});
  const auto tied = of({2}, {2}, {1, 1, 1, 1});
  for_each_executor([&](const auto& executor) {
    auto y = lod::beam_search(executor, ids, scores, {.beam_size = 2, .pre_ids = living, .pre_scores = pre_scores});
    CHECK(values_of(y.ids) == Ids{4, 2, 3, 8});
    CHECK(values_of(y.scores) == Floats{.5f, .6f, .9f, .7f});
    CHECK(y.ids.shape() == lod::Shape{4, 1});
    CHECK(same_bits(lod::beam_search(executor, ids, scores, {.beam_size = 2}).scores, y.scores));
    // A sentence that has ended stays as it is; a source whose sentences have all ended is done.
    y = lod::beam_search(executor, ids, scores, {.beam_size = 4, .pre_ids = ended, .pre_scores = pre_scores});
    CHECK(values_of(y.ids) == Ids{0, 2, 1, 3});
    CHECK(values_of(y.scores) == Floats{.1f, .6f, .3f, .1f});
    CHECK(y.ids.lod() == LoD::from_lengths({{2, 2}, {1, 3, 0, 0}}));
    y = lod::beam_search(executor, ids, scores, {.beam_size = 4, .pre_ids = ended});
    CHECK(values_of(y.scores) == Floats{0, .6f, .3f, .1f});
    // Probabilities of one step; ties; one row of ids for all sentences.
    const lod::BeamSearchOptions<float> of_step{
        .beam_size = 3, .is_accumulated = false, .pre_ids = two, .pre_scores = zeros};
    y = lod::beam_search(executor, in_order, tied, of_step);
    CHECK(values_of(y.ids) == Ids{0, 0, 1});
    CHECK(values_of(y.parents) == std::vector<std::int32_t>{0, 1, 1});
    CHECK(values_of(y.scores) == Floats{0, 0, 0});
    CHECK(lod::beam_search(executor, in_order, of({}, {2}, {})).ids.levels() == 2);
  });
  const auto y = lod::beam_search(ids, scores, {.beam_size = 2});
  CHECK(same_bits(lod::beam_search_and_wait(ids, scores, {.beam_size = 2}).ids, y.ids));
  for_each_executor([&](const auto& executor) {
    const auto waited = lod::beam_search_and_wait(executor, ids, scores, {.beam_size = 2});
    CHECK(same_bits(waited.ids, y.ids));
    CHECK(same_bits(waited.scores, y.scores));
    CHECK(same_bits(waited.parents, y.parents));
  });
}

TEST_CASE("beam_search: of equal scores the last takes the last place, and a NaN leaves it") {
  const auto of = [](const Floats& scores, std::int64_t beam_size) {
    const auto x =
        LoDTensor<float>::from_values(LoD::from_lengths({{1}}), {static_cast<std::int64_t>(scores.size())}, scores);
    Ids ids(scores.size());
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
    return values_of(
        lod::beam_search(plain({static_cast<std::int64_t>(ids.size())}, ids), x, {.beam_size = beam_size}).ids);
  };
  CHECK(of({1, 1, 1, 1}, 2) == Ids{0, 3});
  CHECK(of({-infinity, -infinity, -infinity, 2}, 2) == Ids{3, 0});
  CHECK(of({-infinity, -infinity, 3, -infinity}, 3) == Ids{2, 0, 3});
  CHECK(of({1, 1, 1, 2, 1, 2}, 3) == Ids{3, 5, 0});
  CHECK(of({3, 2, not_a_number}, 2) == Ids{0, 2});
  CHECK(of({3, 2, not_a_number, 1}, 2) == Ids{0, 3});
  CHECK(of({not_a_number, 2, 1}, 5) == Ids{0, 1, 2});
  CHECK(of({infinity, not_a_number, -infinity}, 1) == Ids{2});
}

TEST_CASE("beam_search: agrees with sorting all candidates of a source, for slices of every type, level and width") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(4, 1, 4, [](Engine& engine, const Lengths& lengths) {
      const LoD lod = LoD::from_lengths(lengths);
      for (const std::int64_t width : {1, 2, 5}) {
        if (lod.rows() * width > 200) continue;  // numbers that bfloat16 tells apart
        const Step<T> whole = random_step<T>(engine, lod, width, false);
        const std::int64_t begin = random_number(engine, 0, lod.size(0) > 0), end = lod.size(0);
        const auto scores = whole.scores.between(begin, end);
        const auto ids = whole.ids.between(begin, end);
        const Step<T> step{LoDTensor<std::int64_t>(ids), LoDTensor<T>(scores)};
        for (const std::int64_t beam_size : {1, 3, 1000}) {
          const Search search{.beam_size = beam_size,
                              .end_id = 3,
                              .level = static_cast<int>(random_number(engine, 0, lod.levels() - 1))};
          for_each_executor([&](const auto& executor) {
            check_beams(lod::beam_search(executor, ids, scores, options_of(step, search)), step, scores, search,
                        best_by_sorting<T>);
          });
        }
      }
    });
  });
}

TEST_CASE("beam_search: agrees with inserting one by one, with ends, ties, infinities and NaNs") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(8, 1, 3, [](Engine& engine, const Lengths& lengths) {
      const LoD lod = LoD::from_lengths(lengths);
      const std::int64_t width = random_number(engine, 0, 6);
      Step<T> step = random_step<T>(engine, lod, width, true);
      for (T& score : step.scores.values()) {
        const std::int64_t kind = random_number(engine, 0, 19);
        if (kind < 3) score = static_cast<T>(kind == 0 ? not_a_number : kind == 1 ? infinity : -infinity);
      }
      step.pre_ids = random_ids(engine, lod, 3, {1});
      step.pre_scores = small_integers<T>(engine, lod, {});
      if (random_number(engine, 0, 1) == 1)
        step.ids = plain<std::int64_t>({width}, Ids(static_cast<std::size_t>(width), 4));
      if (step.ids.rows() == 0 && width == 0) step.ids = LoDTensor<std::int64_t>({1, 0});
      for (const bool is_accumulated : {true, false}) {
        const Search search{.beam_size = random_number(engine, 1, 8),
                            .end_id = random_number(engine, 0, 3),
                            .level = -1,
                            .is_accumulated = is_accumulated};
        const Search counted{search.beam_size, search.end_id, lod.levels() - 1, is_accumulated};
        for_each_executor([&](const auto& executor) {
          check_beams(lod::beam_search(executor, step.ids, step.scores, options_of(step, search)), step, step.scores,
                      counted, best_by_inserting<T>);
        });
      }
    });
  });
}

TEST_CASE("beam_search: sizes beyond all memory, where there are no rows or no elements, overflow nothing") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const LoDTensor<float> none(LoD::from_lengths({{0, 0}}), {most}), narrow(LoD::from_lengths({{2, 0, 1}}), {0});
  const auto last = plain<std::int64_t>({1}, {0, 1, 0});
  for_each_executor([&](const auto& executor) {
    auto y = lod::beam_search(executor, LoDTensor<std::int64_t>({0, most}), none, {.beam_size = most});
    CHECK(y.ids.lod() == LoD::from_lengths({{0, 0}, {}}));
    // Sentences that have ended are their own candidates; all that is left of the first source had ended.
    y = lod::beam_search(executor, LoDTensor<std::int64_t>({3, 0}), narrow, {.beam_size = most, .pre_ids = last});
    CHECK(y.ids.lod() == LoD::from_lengths({{2, 0, 1}, {0, 0, 0}}));
    CHECK(y.parents.shape() == lod::Shape{0});
  });
}

TEST_CASE("beam_search: into outputs of the caller's, where a second call allocates nothing") {
  CountingResource resource;
  const lod::CpuExecutor executor(2, &resource);
  Engine engine(first_seed());
  const Step<double> step = random_step<double>(engine, LoD::from_lengths({{40, 0, 7}}), 30, true);
  LoDTensor<std::int64_t> ids(&resource);
  LoDTensor<double> scores(&resource);
  LoDTensor<std::int32_t> parents(&resource);
  int before = -1;
  for (int call = 0; call < 2; ++call) {
    before = resource.allocations;
    lod::beam_search_into(executor, step.ids, step.scores, {.beam_size = 20}, ids, scores, parents);
  }
  CHECK(resource.allocations == before);
  CHECK(before > 0);
  CHECK(same_bits(ids, lod::beam_search(step.ids, step.scores, {.beam_size = 20}).ids));
  LoDTensor<double> other;
  lod::beam_search_and_wait_into(executor, step.ids, step.scores, {.beam_size = 20}, ids, other, parents);
  CHECK(same_bits(scores, other));
  // Views must have the structure of the result.
  lod::beam_search_into(executor, step.ids, step.scores, {.beam_size = 20}, ids.view(), scores.view(), parents.view());
  CHECK(same_bits(scores, other));
  check_throws<lod::ShapeMismatch>(
      [&] { lod::beam_search_into(executor, step.ids, step.scores, {.beam_size = 19}, ids.view(), scores, parents); },
      "beam_search: selected_ids: a view of shape {40, 1} with 2 levels, expected shape", ids);
}

TEST_CASE("beam_search: throws for other levels, shapes and sizes, with nothing changed") {
  const LoD lod = LoD::from_lengths({{2, 1}});
  const LoDTensor<float> scores(lod, {2});
  const LoDTensor<std::int64_t> ids(lod, {2}), three({3}), two({2, 1});
  const LoDTensor<float> numbers({2});
  auto y = lod::beam_search(ids, scores);
  const auto refuses = [&](const auto& candidates, const auto& of, const lod::BeamSearchOptions<float>& options,
                           auto error, const char* text) {
    for_each_executor([&](const auto& executor) {
      check_throws<decltype(error)>(
          [&] { lod::beam_search_into(executor, candidates, of, options, y.ids, y.scores, y.parents); }, text, y.ids);
    });
  };
  const lod::ShapeMismatch shape("");
  const lod::OutOfRange range("");
  const lod::InvalidLoD levels("");
  refuses(ids, LoDTensor<float>({3, 2}), {}, levels, "beam_search: scores: the tensor has no level");
  refuses(ids, scores, {.level = 1}, range, "beam_search");
  refuses(ids, scores, {.level = -2}, range, "beam_search");
  refuses(ids, scores, {.beam_size = 0}, range, "beam_search: beam_size 0, expected 1 or more");
  refuses(ids, scores, {.beam_size = -5}, range, "beam_size -5");
  refuses(LoDTensor<std::int64_t>({2, 2}), scores, {}, shape,
          "beam_search: ids: shape {2, 2}, expected {3, 2} as the scores, or one such row");
  refuses(three, scores, {}, shape, "beam_search: ids: shape {3}");
  refuses(LoDTensor<std::int64_t>({0, 2}), scores, {}, shape, "ids: shape {0, 2}");
  refuses(ids, scores, {.pre_ids = two}, shape, "pre_ids: shape {2, 1}, expected one number for each of 3 sentences");
  refuses(ids, scores, {.pre_ids = ids}, shape, "pre_ids: shape {3, 2}");
  refuses(ids, scores, {.pre_scores = numbers}, shape, "pre_scores: shape {2}");
  const LoDTensor<float> many(LoD::from_lengths({{std::int64_t{1} << 31}}), {0});
  refuses(LoDTensor<std::int64_t>({1, 0}), many, {}, shape,
          "2147483648 sentences, expected as many as int32 can number");

  auto words = LoDTensor<std::int64_t>(lod, {2});
  LoDTensor<float> of(lod, {2});
  check_throws<std::invalid_argument>(
      [&] { lod::beam_search_into(lod::CpuExecutor(1), words, scores, {}, words, y.scores, y.parents); },
      "beam_search: selected_ids overlaps ids", y.scores);
  check_throws<std::invalid_argument>(
      [&] { lod::beam_search_into(lod::CpuExecutor(1), ids, of, {}, y.ids, of, y.parents); },
      "beam_search: selected_scores overlaps scores", y.ids);
  LoDTensor<std::int64_t> last(lod, {1});
  check_throws<std::invalid_argument>(
      [&] { lod::beam_search_into(lod::CpuExecutor(1), ids, scores, {.pre_ids = last}, last, y.scores, y.parents); },
      "beam_search: selected_ids overlaps pre_ids", y.scores);
}

TEST_CASE("beam_search_decode: follows the candidates back, and puts the best sentence first") {
  const auto step = [](const Lengths& lengths, const Ids& values) {
    return LoDTensor<std::int64_t>::from_values(LoD::from_lengths(lengths), {1}, values);
  };
  const auto scores_of = [](const LoDTensor<std::int64_t>& ids, const std::vector<double>& values) {
    return LoDTensor<double>::from_values(ids.lod(), {1}, values);
  };
  // The second source is done after the second step, where its only sentence ended.
  const std::vector<LoDTensor<std::int64_t>> ids = {
      step({{1, 1}, {2, 1}}, {5, 6, 7}), step({{2, 1}, {1, 1, 1}}, {0, 8, 0}), step({{2, 1}, {1, 1, 0}}, {0, 0})};
  const std::vector<LoDTensor<double>> scores = {scores_of(ids[0], {-1, -2, -3}), scores_of(ids[1], {-4, -2.5, -3.5}),
                                                 scores_of(ids[2], {-4, -3})};
  for_each_executor([&](const auto& executor) {
    const auto y = lod::beam_search_decode(executor, ids, scores);
    CHECK(values_of(y.ids) == Ids{6, 8, 0, 5, 0, 7, 0});
    CHECK(values_of(y.scores) == std::vector<double>{-2, -2.5, -3, -1, -4, -3, -3.5});
    CHECK(y.ids.lod() == LoD::from_lengths({{2, 1}, {3, 2, 2}}));
    CHECK(y.ids.shape() == lod::Shape{7});
    CHECK(same_bits(lod::beam_search_decode_and_wait(executor, ids, scores).scores, y.scores));
  });
  // Another id that ends: then all words count.
  CHECK(lod::beam_search_decode(ids, scores, {.end_id = 9}).ids.rows() == 8);
  CHECK(same_bits(lod::beam_search_decode_and_wait(ids, scores).ids, lod::beam_search_decode(ids, scores).ids));
  // A NaN, which is less than none, comes after those before it.
  const auto one = step({{1}, {4}}, {1, 2, 3, 4});
  const auto y = lod::beam_search_decode(std::array{one}, std::array{scores_of(one, {1, not_a_number, 3, 2})});
  CHECK(values_of(y.ids) == Ids{3, 4, 1, 2});
}

TEST_CASE("beam_search_decode: agrees with writing every sentence out, for searches of every type and length") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (unsigned sample = 0; sample < 40; ++sample) {
      INFO("LOD_TEST_SEED=", first_seed(), ": sample ", sample);
      Engine engine(first_seed() + sample);
      const std::int64_t sources = random_number(engine, 0, 5), beam_size = random_number(engine, 1, 4);
      Ids sentences(static_cast<std::size_t>(sources));
      for (std::int64_t& count : sentences) count = random_number(engine, 0, 2);
      std::vector<LoDTensor<std::int64_t>> ids;
      std::vector<LoDTensor<T>> scores;
      LoD lod = LoD::from_lengths({sentences});
      const std::int64_t steps = random_number(engine, 1, 6);
      for (std::int64_t t = 0; t < steps; ++t) {
        Step<T> step = random_step<T>(engine, lod, 3, true);
        for (std::int64_t& id : step.ids.values()) id = id % 4;
        if (t > 0) {
          step.pre_ids = ids.back();
          step.pre_scores = scores.back();
        }
        auto beams = lod::beam_search(step.ids, step.scores, options_of(step, {.beam_size = beam_size}));
        lod = beams.ids.lod();
        ids.push_back(std::move(beams.ids));
        scores.push_back(std::move(beams.scores));
      }
      const std::int64_t begin = random_number(engine, 0, sources > 0);
      std::vector<lod::LoDTensorView<const std::int64_t>> id_views;
      std::vector<lod::LoDTensorView<const T>> score_views;
      for (std::size_t t = 0; t < ids.size(); ++t) {
        id_views.push_back(std::as_const(ids[t]).between(begin, sources));
        score_views.push_back(std::as_const(scores[t]).between(begin, sources));
      }
      const auto expected = obvious_sentences<T>(id_views, score_views, 0);
      for_each_executor([&](const auto& executor) {
        const auto y = lod::beam_search_decode(executor, id_views, score_views);
        CHECK(same_bits(y.ids, expected.ids));
        CHECK(same_bits(y.scores, expected.scores));
      });
    }
  });
}

TEST_CASE("beam_search_decode: into outputs of the caller's, where a second call allocates nothing") {
  CountingResource resource;
  const lod::CpuExecutor executor(2, &resource);
  const LoD lod = LoD::from_lengths({{100}, Ids(100, 2)});
  const LoDTensor<std::int64_t> step(lod, {1});
  const LoDTensor<float> of_step(lod, {1});
  LoDTensor<std::int64_t> ids(&resource);
  LoDTensor<float> scores(&resource);
  int before = -1;
  for (int call = 0; call < 2; ++call) {
    before = resource.allocations;
    lod::beam_search_decode_into(executor, std::array{step.view()}, std::array{of_step.view()}, {.end_id = 5}, ids,
                                 scores);
  }
  CHECK(resource.allocations == before);
  CHECK(before > 0);
  CHECK(ids.rows() == 200);
  lod::beam_search_decode_and_wait_into(executor, std::array{step}, std::array{of_step}, {}, ids.view(), scores);
  CHECK(ids.lod() == LoD::from_lengths({{200}, Ids(200, 1)}));
}

TEST_CASE("beam_search_decode: throws for steps that do not follow each other, with nothing changed") {
  using Steps = std::vector<LoDTensor<std::int64_t>>;
  using Scores = std::vector<LoDTensor<float>>;
  const auto step = [](const Lengths& lengths) { return LoDTensor<std::int64_t>(LoD::from_lengths(lengths), {1}); };
  const auto of = [](std::int64_t rows) { return LoDTensor<float>({rows, 1}); };
  auto y = lod::beam_search_decode(Steps{step({{1}, {2}})}, Scores{of(2)});
  const auto refuses = [&](const Steps& ids, const Scores& scores, auto error, const char* text) {
    for_each_executor([&](const auto& executor) {
      check_throws<decltype(error)>([&] { lod::beam_search_decode_into(executor, ids, scores, {}, y.ids, y.scores); },
                                    text, y.ids);
    });
  };
  const lod::ShapeMismatch shape("");
  const lod::InvalidLoD levels("");
  refuses({}, {}, shape, "beam_search_decode: 0 steps of ids and 0 of scores, expected one or more, and as many");
  refuses({step({{1}, {2}})}, {}, shape, "1 steps of ids and 0 of scores");
  refuses({step({{2}})}, {of(2)}, levels, "beam_search_decode: step 0 has 1 levels, expected 2");
  refuses({step({{1}, {2}})}, {of(3)}, shape, "step 0 has ids of shape {2, 1}, scores of shape {3, 1}");
  refuses({LoDTensor<std::int64_t>(LoD::from_lengths({{1}, {2}}), {2})}, {of(2)}, shape, "ids of shape {2, 2}");
  refuses({step({{1}, {2}}), step({{1}, {2}})}, {of(2), of(2)}, shape, "step 1 has ids of shape {2, 1}");
  refuses({step({{1}, {2}}), step({{1, 1}, {1, 1}})}, {of(2), of(2)}, shape, "2 sources and 2 sentences");
  Steps ids = {step({{1}, {2}})};
  Scores scores = {of(2)};
  check_throws<std::invalid_argument>(
      [&] { lod::beam_search_decode_into(lod::CpuExecutor(1), ids, scores, {}, ids[0], y.scores); },
      "beam_search_decode: sentence_ids overlaps the ids of step 0", y.scores);
  check_throws<std::invalid_argument>(
      [&] { lod::beam_search_decode_into(lod::CpuExecutor(1), ids, scores, {}, y.ids, scores[0]); },
      "beam_search_decode: sentence_scores overlaps the scores of step 0", y.ids);
}

TEST_CASE("infer_beam_search and infer_beam_search_decode: allow what the operations give") {
  for_each_random_lod(4, 1, 3, [](Engine& engine, const Lengths& lengths) {
    Step<float> step = random_step<float>(engine, LoD::from_lengths(lengths), 3, true);
    step.pre_ids = random_ids(engine, step.scores.lod(), 3, {1});
    step.pre_scores = small_integers<float>(engine, step.scores.lod(), {});
    const auto y = lod::beam_search(step.ids, step.scores, options_of(step, {.beam_size = 2}));
    const auto decoded = lod::beam_search_decode(std::array{y.ids}, std::array{y.scores});
    const auto pre_ids = describe(*step.pre_ids), pre_scores = describe(*step.pre_scores);
    const lod::BeamSearchDescOptions options{.pre_ids = &pre_ids, .pre_scores = &pre_scores};
    for (const bool known : {true, false}) {
      const auto shown = [&](const lod::LoDTensorDesc& desc) { return known ? desc : blank(desc); };
      const auto beams = lod::infer_beam_search(shown(describe(step.ids)), shown(describe(step.scores)), options);
      check_inferred(y.ids, beams.ids);
      check_inferred(y.scores, beams.scores);
      check_inferred(y.parents, beams.parents);
      const auto sentences = lod::infer_beam_search_decode({shown(describe(y.ids))}, {shown(describe(y.scores))});
      check_inferred(decoded.ids, sentences.ids);
      check_inferred(decoded.scores, sentences.scores);
    }
  });
  using lod::DataType;
  const auto ids = described(DataType::INT64, {4, 3}), scores = described(DataType::FP32, {4, 3}, 2);
  CHECK(lod::infer_beam_search_and_wait(ids, scores).parents == described(DataType::INT32, {-1}));
  CHECK(lod::infer_beam_search(described(DataType::INT64, {1, 3}), scores).ids ==
        described(DataType::INT64, {-1, 1}, 2));
  CHECK_THROWS_AS(lod::infer_beam_search(ids, described(DataType::FP32, {4, 3})), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_beam_search(ids, scores, {.level = 2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_beam_search(ids, described(DataType::INT64, {4, 3}, 1)), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_beam_search(scores, scores), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_beam_search(described(DataType::INT64, {2, 3}), scores), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_beam_search(ids, scores, {.pre_ids = &ids}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_beam_search(ids, scores, {.pre_scores = &ids}), lod::ShapeMismatch);

  const auto words = described(DataType::INT64, {5, 1}, 2), numbers = described(DataType::BF16, {5, 1}, 2);
  CHECK(lod::infer_beam_search_decode_and_wait({words}, {numbers}).scores == described(DataType::BF16, {-1}, 2));
  CHECK_THROWS_AS(lod::infer_beam_search_decode({}, {}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_beam_search_decode({words}, {words}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_beam_search_decode({numbers}, {numbers}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_beam_search_decode({ids}, {numbers}), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_beam_search_decode({words}, {described(DataType::FP32, {4, 1})}), lod::ShapeMismatch);
}

}  // namespace beam_search_cases
