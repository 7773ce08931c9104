// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <vector>

using lod::ChunkScheme;
using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Counts = std::vector<std::int64_t>;

namespace {

using Chunk = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // first row, last row, type

/// The chunks of a sequence, cut before each row at which PaddlePaddle's rules end or begin one.
template <class T>
std::vector<Chunk> chunks_of(const T* labels, std::int64_t rows, ChunkScheme scheme, std::int64_t types) {
  const std::int64_t tags = scheme == ChunkScheme::PLAIN ? 1 : scheme == ChunkScheme::IOBES ? 4 : 2;
  const auto tag_of = [&](std::int64_t row) -> char {
    const std::int64_t label = static_cast<std::int64_t>(labels[row]);
    if (label < 0 || label >= types * tags) return 'O';
    const char* const letters = scheme == ChunkScheme::IOB     ? "BI"
                                : scheme == ChunkScheme::IOE   ? "IE"
                                : scheme == ChunkScheme::IOBES ? "BIES"
                                                               : "P";
    return letters[label % tags];
  };
  std::vector<Chunk> chunks;
  for (std::int64_t row = 0; row < rows; ++row) {
    const char tag = tag_of(row);
    if (tag == 'O') continue;
    const std::int64_t type = static_cast<std::int64_t>(labels[row]) / tags;
    const char before = row == 0 ? 'O' : tag_of(row - 1);
    const bool same = before != 'O' && static_cast<std::int64_t>(labels[row - 1]) / tags == type;
    const bool goes_on = same && before != 'E' && before != 'S' && tag != 'B' && tag != 'S';
    if (goes_on) {
      std::get<1>(chunks.back()) = row;
    } else {
      chunks.emplace_back(row, row, type);
    }
  }
  return chunks;
}

}  // namespace

TEST_CASE("chunk_eval: worked numbers of each scheme, types that do not count, sequences without rows") {
  // Two persons and a place: B-per I-per O B-loc | B-per; the place is found as a person, the last one as two rows.
  const LoD index = LoD::from_lengths({{4, 0, 2}});
  const auto label = LoDTensor<std::int64_t>::from_values(index, {1}, {0, 1, 4, 2, 0, 4});
  const auto inference = LoDTensor<std::int64_t>::from_values(index, {1}, {0, 1, 9, 0, 0, 1});
  for_each_executor([&](const auto& executor) {
    const auto found = lod::chunk_eval(executor, inference, label, {.types = 2});
    CHECK(values_of(found.counts) == Counts{3, 3, 1});
    CHECK(values_of(found.rates) == std::vector<float>{1.0F / 3, 1.0F / 3, 1.0F / 3});
    const Counts persons = {0};
    const auto places = lod::chunk_eval(executor, inference, label, {.types = 2, .excluded = persons});
    CHECK(values_of(places.counts) == Counts{0, 1, 0});
    CHECK(values_of(places.rates) == std::vector<float>{0, 0, 0});
    // I-E pairs: 0 1 is a chunk; so are 2 and 0, which have no last row, and the first of a type follows a last one.
    CHECK(values_of(lod::chunk_eval(executor, label, label, {.scheme = ChunkScheme::IOE, .types = 2}).counts) ==
          Counts{3, 3, 3});
    CHECK(values_of(lod::chunk_eval(executor, inference, label, {.scheme = ChunkScheme::IOBES, .types = 3}).counts) ==
          Counts{4, 5, 2});
    CHECK(values_of(lod::chunk_eval(executor, inference, label, {.scheme = ChunkScheme::PLAIN, .types = 4}).counts) ==
          Counts{5, 4, 3});
    CHECK(values_of(lod::chunk_eval(executor, inference.between(1, 2), label.between(1, 2), {.types = 2}).counts) ==
          Counts{0, 0, 0});
  });
}

TEST_CASE("chunk_eval: agrees with lists of chunks, for slices of every type and depth") {
  for_each_type(Types<std::int8_t, std::int32_t, std::int64_t, std::uint64_t>(), []<class T>(std::type_identity<T>) {
    for_each_random_batch<T>(4, {1}, [](Engine& engine, const LoDTensor<T>& some) {
      const std::int64_t first = random_number(engine, 0, some.size() > 0);
      LoDTensor<T> whole(some.lod(), {}), other(some.lod(), {});
      for (T& number : whole.values()) number = static_cast<T>(random_number(engine, -1, 9));
      for (std::size_t i = 0; i < other.values().size(); ++i) {
        other.values()[i] = static_cast<T>(random_number(engine, 0, 3) > 0 ? whole.values()[i] : T(1));
      }
      const auto a = whole.between(first, whole.size()), b = other.between(first, whole.size());
      for (const ChunkScheme scheme : {ChunkScheme::IOB, ChunkScheme::IOE, ChunkScheme::IOBES, ChunkScheme::PLAIN}) {
        CAPTURE(static_cast<int>(scheme));
        const Counts excluded = {1};
        Counts expected(3);
        const auto offsets = a.lod_view().absolute_offsets(a.levels() - 1);
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
          const std::int64_t begin = offsets[i] - offsets[0], rows = offsets[i + 1] - offsets[i];
          auto found = chunks_of(a.data() + begin, rows, scheme, 2),
               right = chunks_of(b.data() + begin, rows, scheme, 2);
          for (auto* const all : {&found, &right})
            std::erase_if(*all, [](const Chunk& c) { return std::get<2>(c) == 1; });
          expected[0] += static_cast<std::int64_t>(found.size());
          expected[1] += static_cast<std::int64_t>(right.size());
          expected[2] += std::count_if(found.begin(), found.end(), [&](const Chunk& chunk) {
            return std::find(right.begin(), right.end(), chunk) != right.end();
          });
        }
        for_each_executor([&](const auto& executor) {
          const auto y = lod::chunk_eval(executor, a, b, {.scheme = scheme, .types = 2, .excluded = excluded});
          CHECK(values_of(y.counts) == expected);
        });
      }
    });
  });
}

TEST_CASE("chunk_eval: wrong arguments; infer_chunk_eval: what it gives and refuses") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<int> x(LoD::from_lengths({{2, 1}}), {}), other(LoD::from_lengths({{1, 2}}), {}), plain({3}),
      wide(x.lod(), {2});
  LoDTensor<std::int64_t> counts({1});
  LoDTensor<float> rates({1});
  rates.values()[0] = 7;
  const auto refused = [&]<class Error>(std::type_identity<Error>, const auto& a, const auto& b,
                                        const lod::ChunkEvalOptions& options, const char* text) {
    check_throws<Error>([&] { lod::chunk_eval_into(executor, a, b, options, rates, counts); }, text, rates);
  };
  const std::type_identity<lod::InvalidLoD> lod_error;
  refused(lod_error, plain, x, {.types = 1}, "chunk_eval: inference: the tensor has no level");
  refused(lod_error, x, other, {.types = 1}, "chunk_eval: label: other levels");
  refused(std::type_identity<lod::ShapeMismatch>(), x, wide, {.types = 1},
          "rows of shape {2}, expected one label a row");
  refused(std::type_identity<lod::OutOfRange>(), x, x, {}, "chunk_eval: 0 types, expected at least one");
  refused(std::type_identity<lod::OutOfRange>(), x, x, {.scheme = static_cast<ChunkScheme>(4), .types = 1},
          "chunk_eval: ChunkScheme 4");

  using lod::DataType;
  const auto of = described(DataType::INT64, {-1, 1}, 2);
  const lod::ChunkEvalDesc found = lod::infer_chunk_eval(of, of, {.types = 2});
  CHECK(found.rates == described(DataType::FP32, {3}));
  CHECK(found.counts == described(DataType::INT64, {3}));
  CHECK_THROWS_AS(lod::infer_chunk_eval(of, described(DataType::INT32, {-1, 1}, 2), {.types = 2}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_chunk_eval(of, described(DataType::INT64, {-1, 1}), {.types = 2}), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_chunk_eval(of, of, {}), lod::OutOfRange);
}
