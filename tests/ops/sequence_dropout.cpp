// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

TEST_CASE("sequence_dropout: keeps what a generator says that counts, whatever the type and the executor") {
  // SplitMix64, as its author's program has it: the state goes on by a constant, and is mixed.
  const auto next = [](std::uint64_t& state) {
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  };
  for_each_type(FloatingTypes(), [&]<class T>(std::type_identity<T>) {
    for_each_random_batch<T>(2, {1, 3, 17}, [&](Engine& engine, const LoDTensor<T>& whole) {
      const auto x = whole.between(random_number(engine, 0, whole.size() > 0), whole.size());
      const auto offsets = x.lod_view().absolute_offsets(x.levels() - 1);
      for (const bool by_sequence : {false, true}) {
        const std::uint64_t seed = engine();
        std::vector<T> expected;
        // Number n of a key is the first of the state key + n.
        std::uint64_t state = seed * 0x9e3779b97f4a7c15;
        const std::uint64_t key = next(state);
        const auto keeps = [&](std::uint64_t n) {
          std::uint64_t of_number = (key + n) * 0x9e3779b97f4a7c15;
          return static_cast<double>(next(of_number) >> 11) * 0x1p-53 >= 0.75;
        };
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
          for (auto at = (offsets[i] - offsets[0]) * x.row_size(); at < (offsets[i + 1] - offsets[0]) * x.row_size();
               ++at) {
            const bool is_kept = keeps(by_sequence ? i : static_cast<std::uint64_t>(at));
            expected.push_back(is_kept ? static_cast<T>(4 * static_cast<float>(x.data()[at])) : T{});
          }
        }
        const lod::DropoutOptions options{.probability = 0.75, .seed = seed, .whole_sequences = by_sequence};
        for_each_executor([&](const auto& executor) {
          const auto y = lod::sequence_dropout(executor, x, options);
          CHECK(y.lod() == x.lod());
          CHECK(values_of(y) == expected);
          CHECK(same_bits(lod::sequence_dropout_grad(executor, x, x.lod_view(), options), y));
        });
      }
    });
  });
}

TEST_CASE("sequence_dropout: drops as many as it should, others with another seed; certain cases, and NaN") {
  LoDTensor<float> x({100000});
  std::fill(x.values().begin(), x.values().end(), 1.0F);
  const auto y = lod::sequence_dropout(x, {.probability = 0.1, .seed = 5});
  const auto kept = std::count(y.values().begin(), y.values().end(), static_cast<float>(1 / (1 - 0.1)));
  CHECK(kept + std::count(y.values().begin(), y.values().end(), 0.0F) == 100000);
  CHECK(std::abs(static_cast<double>(kept) - 90000) < 500);  // five standard deviations
  const auto other = lod::sequence_dropout(x, {.probability = 0.1, .seed = 6});
  std::int64_t same = 0;
  for (std::size_t i = 0; i < 100000; ++i) same += y.values()[i] == other.values()[i];
  CHECK(std::abs(static_cast<double>(same) - 82000) < 650);
  CHECK(same_bits(lod::sequence_dropout(x, {.probability = 0}), x));
  x.values()[7] = std::numeric_limits<float>::quiet_NaN();
  lod::sequence_dropout_into(lod::CpuExecutor(2), x, {.probability = 1}, x);
  CHECK(std::count(x.values().begin(), x.values().end(), 0.0F) == 100000);
}

TEST_CASE("sequence_dropout and its gradient: wrong arguments; infer_sequence_dropout: what it gives and refuses") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2}), plain({3, 2});
  LoDTensor<float> y({1});
  y.values()[0] = 7;
  for (const double wrong : {-0.5, 1.5, std::nan("")}) {
    check_throws<lod::OutOfRange>([&] { lod::sequence_dropout_into(executor, x, {.probability = wrong}, y); },
                                  "sequence_dropout: probability ", y);
  }
  check_throws<lod::OutOfRange>([&] { lod::sequence_dropout_into(executor, x, {.probability = -5e-324}, y); },
                                "sequence_dropout: probability -5e-324, expected 0 to 1", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_dropout_into(executor, plain, {.whole_sequences = true}, y); },
                                "sequence_dropout: the tensor has no level", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_dropout_grad_into(executor, y, x.lod(), y); },
                                   "sequence_dropout_grad: dy: 1 rows, expected 3", y);
  const auto of = described(lod::DataType::FP32, {-1, 2});
  CHECK(lod::infer_sequence_dropout(of) == of);
  CHECK_THROWS_AS(lod::infer_sequence_dropout(of, {.whole_sequences = true}), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_dropout(of, {.probability = 2}), lod::OutOfRange);
}
