// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/repeatable.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

/// One number after the other.
template <class U, class T, class Op>
std::vector<U> reduced(const lod::LoDTensorView<const T>& x, U initial, const Op& op, int level) {
  const auto offsets = x.lod_view().absolute_offsets(level);
  std::vector<U> result;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    for (std::int64_t column = 0; column < x.row_size(); ++column) {
      U all = initial;
      for (std::int64_t row = offsets[i] - offsets[0]; row < offsets[i + 1] - offsets[0]; ++row) {
        all = op(all, static_cast<U>(x.data()[row * x.row_size() + column]));
      }
      result.push_back(all);
    }
  }
  return result;
}

struct Greater {
  LOD_HOST_DEVICE double operator()(double a, double b) const { return a < b ? b : a; }
};
/// The least and the greatest number.
struct Range {
  float least, greatest;
  explicit operator bool() const { return least <= greatest; }
};

}  // namespace

TEST_CASE("reduce_sequences: worked numbers, by functions of several kinds and types") {
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{1, 2, 4}, {}, {3, 5}});
  for_each_executor([&](const auto& executor) {
    const auto bits = lod::reduce_sequences(executor, x, 0U, [](unsigned a, unsigned b) { return a | b; });
    static_assert(std::is_same_v<decltype(bits), const LoDTensor<unsigned>>);
    CHECK(bits.lod() == LoD());
    CHECK(values_of(bits) == std::vector<unsigned>{7, 0, 7});
    CHECK(values_of(lod::reduce_sequences(executor, x, 2.0, std::multiplies<double>())) ==
          std::vector<double>{16, 2, 30});
    CHECK(values_of(lod::reduce_sequences(executor, x, -1.0, Greater())) == std::vector<double>{4, -1, 5});
    CHECK(values_of(lod::reduce_sequences(executor, x.between(1, 2), 9, std::plus<int>())) == std::vector<int>{9});
    CHECK(lod::reduce_sequences(executor, x.between(0, 0), 9, std::plus<int>()).shape() == lod::Shape{0});
    const LoDTensor<int> empty(LoD::from_lengths({{2, 1}}), {0});
    CHECK(lod::reduce_sequences(executor, empty, 9, std::plus<int>()).shape() == lod::Shape{2, 0});
  });
  CHECK(values_of(lod::reduce_sequences(x, 0, std::plus<int>())) == std::vector<int>{7, 0, 8});
}

TEST_CASE("reduce_sequences: agrees with one number after the other, at every level of slices, of every width") {
  const auto least = [](std::int64_t a, std::int64_t b) { return std::min(a, b); };
  for_each_type(Types<std::int8_t, std::int32_t, std::int64_t, float>(), [&]<class T>(std::type_identity<T>) {
    for (const std::int64_t row_size : {1, 2, 7, 16, 33}) {
      for_each_random_lod(3, 1, 3, [&](Engine& engine, const Lengths& lengths) {
        const auto whole = small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto x = std::as_const(whole).view().between(random_number(engine, 0, whole.size() > 0), whole.size());
        const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
        for_each_executor([&](const auto& executor) {
          const auto y = lod::reduce_sequences(executor, x, std::int64_t{3}, least, {.level = level});
          CHECK(y.levels() == level);
          CHECK(y.row_shape() == x.row_shape());
          CHECK(values_of(y) == reduced<std::int64_t>(x, 3, least, level));
          const auto sums =
              lod::reduce_sequences(executor, x, std::int64_t{1}, std::plus<std::int64_t>(), {.level = level});
          CHECK(values_of(sums) == reduced<std::int64_t>(x, 1, std::plus<std::int64_t>(), level));
        });
      });
    }
  });
}

TEST_CASE("reduce_sequences: a giant, lengths around a leaf; the bits depend neither on threads nor on the batch") {
  Engine engine(3);
  const std::int64_t leaf = lod::kernel::leaf_rows;
  const LoD around = LoD::from_lengths({{leaf - 1, 0, leaf, leaf + 1, 1, 2, 3, 7, 8, 9, 3 * leaf + 5}});
  const auto ends = [](const auto& executor, const auto& x, bool check_values) {
    const auto y = lod::reduce_sequences(executor, x, 0.5F, std::plus<float>());
    CHECK(same_bits(y, lod::reduce_sequences(working_alone(executor), x, 0.5F, std::plus<float>())));
    if (check_values) {
      const auto expected = reduced<float>(std::as_const(x).view(), 0.5F, std::plus<float>(), 0);
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(y.values()[i] == expected[i]);
    }
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const auto alone = lod::reduce_sequences(executor, x.between(i, i + 1), 0.5F, std::plus<float>());
      CHECK(same_bits(alone, y.between(i, i + 1)));
    }
  };
  for (const std::int64_t row_size : {1, 3, 20}) {
    const auto exact = small_integers<float>(engine, around, {row_size});
    const auto x = real_numbers<float>(engine, giant_among_short(engine, 20, grain / row_size), {row_size});
    for_each_executor([&](const auto& executor) {
      ends(executor, exact, true);
      ends(executor, x, false);
    });
  }
}

TEST_CASE("reduce_sequences: elements may be structures") {
  Engine engine(4);
  const auto x = real_numbers<float>(engine, giant_among_short(engine, 9, 3000), {2});
  LoDTensor<Range> ranges(x.lod(), {2});
  std::transform(x.values().begin(), x.values().end(), ranges.data(), [](float number) {
    return Range{number, number};
  });
  const float infinity = std::numeric_limits<float>::infinity();
  for_each_executor([&](const auto& executor) {
    const auto y =
        lod::reduce_sequences(executor, ranges, Range{infinity, -infinity}, [](const Range& a, const Range& b) {
          return Range{std::min(a.least, b.least), std::max(a.greatest, b.greatest)};
        });
    const auto least = lod::reduce_sequences(executor, x, infinity, [](float a, float b) { return std::min(a, b); });
    const auto most = lod::reduce_sequences(executor, x, -infinity, [](float a, float b) { return std::max(a, b); });
    for (std::size_t i = 0; i < y.values().size(); ++i) {
      CHECK(y.values()[i].least == least.values()[i]);
      CHECK(y.values()[i].greatest == most.values()[i]);
    }
  });
}

TEST_CASE("reduce_sequences: an exception reaches the caller, and the next call works") {
  Engine engine(5);
  const auto x = small_integers<std::int64_t>(engine, giant_among_short(engine, 50, 4 * grain), {});
  for (const int threads : thread_counts) {
    const lod::CpuExecutor executor(threads);
    CHECK_THROWS_AS(
        lod::reduce_sequences(executor, x, std::int64_t{0},
                              [](std::int64_t, std::int64_t) -> std::int64_t { throw std::runtime_error("no"); }),
        std::runtime_error);
    CHECK(values_of(lod::reduce_sequences(executor, x, std::int64_t{0}, std::plus<std::int64_t>())) ==
          reduced<std::int64_t>(x.view(), 0, std::plus<std::int64_t>(), 0));
  }
}

TEST_CASE("reduce_sequences: without memory the second time, and wrong arguments change nothing") {
  on_counting_executors([&](const auto& check, const lod::CpuExecutor& executor, CountingResource& resource) {
    Engine engine(7);
    const auto x = small_integers<float>(engine, giant_among_short(engine, 50, grain / 64), {300});
    LoDTensor<float> y(&resource);
    check("reduce_sequences",
          [&] { lod::reduce_sequences_into(executor, x, 0.F, std::plus<float>(), {.level = 0}, y); });
    LoDTensor<float> z({50, 300});
    lod::reduce_sequences_into(executor, x, 0.F, std::plus<float>(), z.view());
    CHECK(same_bits(y, z));
  });
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> plain({4, 3}), x(LoD::from_lengths({{4}}), {3});
  LoDTensor<float> y({1});
  y.values()[0] = 7;
  const std::plus<float> plus;
  check_throws<lod::InvalidLoD>([&] { lod::reduce_sequences_into(executor, plain, 0.F, plus, y); },
                                "reduce_sequences: the tensor has no level", y);
  check_throws<lod::OutOfRange>([&] { lod::reduce_sequences_into(executor, x, 0.F, plus, {.level = 1}, y); },
                                "reduce_sequences: level 1", y);
  check_throws<lod::ShapeMismatch>([&] { lod::reduce_sequences_into(executor, x, 0.F, plus, y.view()); },
                                   "reduce_sequences: ", y);
  LoDTensor<float> w(LoD::from_lengths({{4}}), {3});
  check_throws<std::invalid_argument>([&] { lod::reduce_sequences_into(executor, w, 0.F, plus, w); },
                                      "reduce_sequences: the output overlaps x", w);
}
