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
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

/// One number after the other.
template <class T, class Op>
std::vector<T> scanned(const lod::LoDTensorView<const T>& x, const Op& op, bool reverse, int level) {
  const auto offsets = x.lod_view().absolute_offsets(level);
  const std::int64_t row_size = x.row_size();
  std::vector<T> y(x.data(), x.data() + x.rows() * row_size);
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const std::int64_t first = offsets[i] - offsets[0], rows = offsets[i + 1] - offsets[i];
    for (std::int64_t k = 1; k < rows; ++k) {
      for (std::int64_t column = 0; column < row_size; ++column) {
        const std::int64_t row = first + (reverse ? rows - 1 - k : k), before = reverse ? row + 1 : row - 1;
        const auto at = static_cast<std::size_t>(row * row_size + column);
        y[at] = op(y[static_cast<std::size_t>(before * row_size + column)], y[at]);
      }
    }
  }
  return y;
}

/// h = a * before + b, as a function of what is before.
struct Step {
  double a, b;
};
/// Of rows that come first, and those after them: not commutative.
Step both(const Step& first, const Step& then) { return {first.a * then.a, then.a * first.b + then.b}; }

std::int64_t least(std::int64_t a, std::int64_t b) { return std::min(a, b); }

}  // namespace

TEST_CASE("scan_sequences: worked numbers, forth and back") {
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{3, 1, 2}, {}, {4, 5}});
  const auto keep_first = [](int a, int) { return a; };
  for_each_executor([&](const auto& executor) {
    const auto y = lod::scan_sequences(executor, x, std::plus<int>());
    CHECK(y.lod() == x.lod());
    CHECK(values_of(y) == std::vector<int>{3, 4, 6, 4, 9});
    CHECK(values_of(lod::scan_sequences(executor, x, std::multiplies<int>(), {.reverse = true})) ==
          std::vector<int>{6, 2, 2, 20, 5});
    CHECK(values_of(lod::scan_sequences(executor, x, keep_first)) == std::vector<int>{3, 3, 3, 4, 4});
    CHECK(values_of(lod::scan_sequences(executor, x, keep_first, {.reverse = true})) ==
          std::vector<int>{2, 2, 2, 5, 5});
    CHECK(lod::scan_sequences(executor, x.between(1, 2), std::plus<int>()).shape() == lod::Shape{0});
    const LoDTensor<int> empty(LoD::from_lengths({{2, 1}}), {0});
    CHECK(lod::scan_sequences(executor, empty, std::plus<int>()).shape() == lod::Shape{3, 0});
  });
  CHECK(values_of(lod::scan_sequences(x, std::plus<int>())) == std::vector<int>{3, 4, 6, 4, 9});
}

TEST_CASE("scan_sequences: agrees with one number after the other, at every level of slices, of every width") {
  for_each_type(Types<std::int64_t, std::int32_t, float>(), [&]<class T>(std::type_identity<T>) {
    const auto smaller = [](T a, T b) { return std::min(a, b); };
    for (const std::int64_t row_size : {1, 2, 7, 16, 33}) {
      for_each_random_lod(3, 1, 3, [&](Engine& engine, const Lengths& lengths) {
        const auto whole = small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto x = std::as_const(whole).view().between(random_number(engine, 0, whole.size() > 0), whole.size());
        const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
        for_each_executor([&](const auto& executor) {
          for (const bool reverse : {false, true}) {
            const lod::ScanOptions options = {.reverse = reverse, .level = level};
            const auto y = lod::scan_sequences(executor, x, smaller, options);
            CHECK(y.lod() == x.lod());
            CHECK(values_of(y) == scanned<T>(x, smaller, reverse, level));
            CHECK(values_of(lod::scan_sequences(executor, x, std::plus<T>(), options)) ==
                  scanned<T>(x, std::plus<T>(), reverse, level));
          }
        });
      });
    }
  });
}

TEST_CASE("scan_sequences: functions that do not commute, of structures, in giants and around the size of a leaf") {
  Engine engine(4);
  const std::int64_t leaf = lod::kernel::leaf_rows;
  const LoD around = LoD::from_lengths({{leaf - 1, 0, leaf, leaf + 1, 1, 2 * leaf, 2 * leaf + 1}});
  for (const LoD& lod : {around, giant_among_short(engine, 9, grain)}) {
    const auto a = small_reals<double>(engine, {lod.rows(), 2});
    const auto b = real_numbers<double>(engine, lod, {2});
    LoDTensor<Step> steps(lod, {2});
    for (std::size_t i = 0; i < b.values().size(); ++i) steps.values()[i] = {a.values()[i], b.values()[i]};
    for_each_executor([&](const auto& executor) {
      for (const bool reverse : {false, true}) {
        const auto y = lod::scan_sequences(executor, steps, both, {.reverse = reverse});
        const auto h = lod::sequence_linear_scan(executor, a, b, {.reverse = reverse});
        const auto alone = lod::scan_sequences(working_alone(executor), steps, both, {.reverse = reverse});
        bool all = true;
        for (std::size_t i = 0; i < h.values().size(); ++i) {
          all = all && std::fabs(y.values()[i].b - h.values()[i]) < 1e-12;
          all = all && y.values()[i].b == alone.values()[i].b;
        }
        CHECK(all);
      }
    });
  }
}

TEST_CASE("scan_sequences: an exception reaches the caller, and the next call works") {
  Engine engine(5);
  const auto x = small_integers<std::int64_t>(engine, giant_among_short(engine, 50, 4 * grain), {});
  for (const int threads : thread_counts) {
    const lod::CpuExecutor executor(threads);
    CHECK_THROWS_AS(
        lod::scan_sequences(executor, x,
                            [](std::int64_t, std::int64_t) -> std::int64_t { throw std::runtime_error("no"); }),
        std::runtime_error);
    CHECK(values_of(lod::scan_sequences(executor, x, least)) == scanned<std::int64_t>(x.view(), least, false, 0));
  }
}

TEST_CASE("scan_sequences: in place, without memory the second time, and wrong arguments change nothing") {
  on_counting_executors([&](const auto& check, const lod::CpuExecutor& executor, CountingResource& resource) {
    Engine engine(7);
    const auto x = small_integers<float>(engine, giant_among_short(engine, 50, grain / 64), {300});
    LoDTensor<float> y(&resource);
    check("scan_sequences", [&] { lod::scan_sequences_into(executor, x, std::plus<float>(), {.reverse = true}, y); });
    auto z = x;
    lod::scan_sequences_into(executor, z, std::plus<float>(), {.reverse = true}, z);
    CHECK(same_bits(y, z));
    z = x;
    lod::scan_sequences_into(executor, z, std::plus<float>(), z.view());
    CHECK(same_bits(z, lod::scan_sequences(executor, x, std::plus<float>())));
  });
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> plain({4, 3}), x(LoD::from_lengths({{4}}), {3});
  LoDTensor<float> y({1});
  y.values()[0] = 7;
  const std::plus<float> plus;
  check_throws<lod::InvalidLoD>([&] { lod::scan_sequences_into(executor, plain, plus, y); },
                                "scan_sequences: the tensor has no level", y);
  check_throws<lod::OutOfRange>([&] { lod::scan_sequences_into(executor, x, plus, {.level = -2}, y); },
                                "scan_sequences: level -2", y);
  check_throws<lod::ShapeMismatch>([&] { lod::scan_sequences_into(executor, x, plus, y.view()); },
                                   "scan_sequences: ", y);
}
