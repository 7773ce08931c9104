// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/count_allocations.hpp"
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
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace grouped_linear_cases {

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Ids = LoDTensor<std::int64_t>;

Ids ids_of(const std::vector<std::int64_t>& ids) { return Ids::from_values(LoD(), {}, ids); }

/// For each row its group.
template <class X, class Groups>
std::vector<std::int64_t> groups_of_rows(const X& x, int level, const Groups& group_of) {
  const auto offsets = x.lod_view().absolute_offsets(level);
  std::vector<std::int64_t> groups;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    groups.insert(groups.end(), static_cast<std::size_t>(offsets[i + 1] - offsets[i]), group_of.data()[i]);
  }
  return groups;
}

/// Sums of small integers, which are exact.
template <class T>
struct Expected {
  std::vector<T> y, dx, dweights;

  template <class DY, class X>
  Expected(const DY& dy, const X& x, const LoDTensor<T>& weights, const std::vector<std::int64_t>& groups) {
    const std::int64_t terms = x.row_size(), columns = dy.row_size();
    std::vector<double> sums(weights.values().size());
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      const std::int64_t matrix = groups[static_cast<std::size_t>(row)] * terms * columns;
      const auto at = [](const T* numbers, std::int64_t i) { return static_cast<double>(numbers[i]); };
      for (std::int64_t n = 0; n < columns; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < terms; ++k) {
          sum += at(x.data(), row * terms + k) * at(weights.data(), matrix + k * columns + n);
        }
        y.push_back(static_cast<T>(static_cast<float>(sum)));
      }
      for (std::int64_t k = 0; k < terms; ++k) {
        double sum = 0;
        for (std::int64_t n = 0; n < columns; ++n) {
          sum += at(dy.data(), row * columns + n) * at(weights.data(), matrix + k * columns + n);
          sums[static_cast<std::size_t>(matrix + k * columns + n)] +=
              at(dy.data(), row * columns + n) * at(x.data(), row * terms + k);
        }
        dx.push_back(static_cast<T>(static_cast<float>(sum)));
      }
    }
    for (const double sum : sums) dweights.push_back(static_cast<T>(static_cast<float>(sum)));
  }
};

TEST_CASE("grouped_linear: worked numbers, of both levels, a group without rows, and no sequences") {
  const auto x =
      LoDTensor<float>::from_values(LoD::from_lengths({{2, 1}, {1, 0, 2}}), {2}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto weights =
      LoDTensor<float>::from_values(LoD(), {2, 2}, std::vector<float>{1, 0, 0, 1, 9, 9, 9, 9, 1, 2, 10, 20});
  const auto dy = LoDTensor<float>::from_values(LoD(), {2}, std::vector<float>{1, 2, 0, 1, 1, 0});
  for_each_executor([&](const auto& executor) {
    const auto y = lod::grouped_linear(executor, x, weights, ids_of({2, 1, 0}));
    CHECK(y.lod() == x.lod());
    CHECK(y.shape() == lod::Shape{3, 2});
    CHECK(values_of(y) == std::vector<float>{21, 42, 3, 4, 5, 6});
    CHECK(values_of(lod::grouped_linear(executor, x, weights, ids_of({2, 2}), {.level = 0})) ==
          std::vector<float>{21, 42, 43, 86, 65, 130});
    const auto d = lod::grouped_linear_grad(executor, dy, x, weights, ids_of({2, 1, 0}));
    CHECK(d.dx.lod() == x.lod());
    CHECK(values_of(d.dx) == std::vector<float>{5, 50, 0, 1, 1, 0});
    CHECK(d.dweights.shape() == weights.shape());
    CHECK(values_of(d.dweights) == std::vector<float>{5, 3, 6, 4, 0, 0, 0, 0, 1, 2, 2, 4});
    const LoDTensor<float> nothing(LoD::from_lengths({{}}), {2});
    CHECK(lod::grouped_linear(executor, nothing, weights, ids_of({})).shape() == lod::Shape{0, 2});
    CHECK(lod::grouped_linear(executor, nothing, weights.between(0, 0), ids_of({})).shape() == lod::Shape{0, 2});
    const auto none = lod::grouped_linear_grad(executor, dy.between(0, 0), nothing, weights, ids_of({}));
    CHECK(values_of(none.dweights) == std::vector<float>(12));
  });
}

TEST_CASE("grouped_linear and its gradient: agree with sums for slices of every type and depth") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t terms : {0, 1, 7, 33}) {
      for_each_random_lod(slow ? 1 : 3, 1, 3, [&](Engine& engine, const Lengths& lengths) {
        const auto whole = small_integers<T>(engine, LoD::from_lengths(lengths), {terms});
        const auto x = whole.between(random_number(engine, 0, whole.size() > 0), whole.size());
        const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
        for (const std::int64_t columns : {0, 1, 5, 40}) {
          CAPTURE(terms);
          CAPTURE(columns);
          const std::int64_t groups = random_number(engine, 1, 5);
          const auto weights = small_integers<T>(engine, {groups, terms, columns});
          const Ids group_of = random_ids(engine, LoD::from_lengths({{x.size(level)}}), groups);
          const auto dy = small_integers<T>(engine, {x.rows(), columns});
          const Expected<T> expected(dy, x, weights, groups_of_rows(x, level, group_of));
          for_each_executor([&](const auto& executor) {
            const auto y = lod::grouped_linear(executor, x, weights, group_of, {.level = level});
            CHECK(y.lod() == x.lod());
            CHECK(y.row_shape() == lod::Shape{columns});
            CHECK(values_of(y) == expected.y);
            const auto d = lod::grouped_linear_grad(executor, dy, x, weights, group_of, {.level = level});
            CHECK(d.dx.lod() == x.lod());
            CHECK(values_of(d.dx) == expected.dx);
            CHECK(d.dweights.shape() == weights.shape());
            CHECK(values_of(d.dweights) == expected.dweights);
          });
        }
      });
    }
  });
}

TEST_CASE("grouped_linear and its gradient: the bits of linear and of its gradient, for any threads") {
  for_each_type(Types<lod::float16, float, double>(), []<class T>(std::type_identity<T>) {
    struct Sizes {
      std::int64_t giant, terms, columns;
    };
    for (const Sizes& sizes : {Sizes{5000, 3, 2}, Sizes{700, 33, 17}, Sizes{300, 300, 5}, Sizes{100, 20, 270}}) {
      if (slow && sizes.terms * sizes.columns > 500) continue;
      INFO("LOD_TEST_SEED=", first_seed(), ": ", sizes.giant, " x ", sizes.terms, " x ", sizes.columns);
      Engine engine(first_seed());
      const LoD index = giant_among_short(engine, 60, sizes.giant);
      const auto x = real_numbers<T>(engine, index, {sizes.terms}),
                 dy = real_numbers<T>(engine, index, {sizes.columns});
      const auto weights = small_reals<T>(engine, {4, sizes.terms, sizes.columns});
      // Group 2 has no sequence.
      Ids group_of = random_ids(engine, LoD::from_lengths({{index.size(0)}}), 3);
      std::replace(group_of.values().begin(), group_of.values().end(), std::int64_t{2}, std::int64_t{3});
      const auto groups = groups_of_rows(x, 0, group_of);
      LoDTensor<T> y, dx, dweights;
      lod::grouped_linear_into(lod::CpuExecutor(1), x, weights, group_of, y);
      lod::grouped_linear_grad_into(lod::CpuExecutor(1), dy, x, weights, group_of, dx, dweights);
      for (std::int64_t g = 0; g < 4; ++g) {
        CAPTURE(g);
        // The rows of the group as a batch of their own.
        std::vector<T> own, own_dy, own_y, own_dx;
        for (std::int64_t row = 0; row < x.rows(); ++row) {
          if (groups[static_cast<std::size_t>(row)] != g) continue;
          const auto add = [&](std::vector<T>& to, const auto& from) {
            to.insert(to.end(), from.data() + row * from.row_size(), from.data() + (row + 1) * from.row_size());
          };
          add(own, x);
          add(own_dy, dy);
          add(own_y, y);
          add(own_dx, dx);
        }
        const auto rows = LoDTensor<T>::from_values(LoD(), {sizes.terms}, own);
        const auto rows_dy = LoDTensor<T>::from_values(LoD(), {sizes.columns}, own_dy);
        const auto weight = LoDTensor<T>::from_values(LoD(), {sizes.columns}, values_of(weights.between(g, g + 1)));
        CHECK(same_bits(lod::linear(rows, weight), LoDTensor<T>::from_values(LoD(), {sizes.columns}, own_y)));
        const auto d = lod::linear_grad(rows_dy, rows, weight);
        CHECK(same_bits(d.dx, LoDTensor<T>::from_values(LoD(), {sizes.terms}, own_dx)));
        CHECK(values_of(d.dweight) == values_of(dweights.between(g, g + 1)));
      }
      const auto check = [&](const auto& executor) {
        CHECK(same_bits(lod::grouped_linear(executor, x, weights, group_of), y));
        const auto d = lod::grouped_linear_grad(executor, dy, x, weights, group_of);
        CHECK(same_bits(d.dx, dx));
        CHECK(same_bits(d.dweights, dweights));
      };
      for (const int threads : {2, 3}) check(lod::CpuExecutor(threads));
      for_each_executor(check);
    }
  });
}

TEST_CASE("grouped_linear: NaN and infinity stay in their row, and in their group") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const LoD index = LoD::from_lengths({{2, 0, 1}});
  for_each_executor([&](const auto& executor) {
    LoDTensor<float> x(index, {20}), dy(index, {18}), weights({4, 20, 18});
    x.fill(1);
    dy.fill(1);
    weights.fill(1);
    x.data()[0] = nan;
    x.data()[20 + 3] = infinity;
    // Of a group with an empty sequence only, and of one with none.
    std::fill(weights.data() + 20 * 18, weights.data() + 3 * 20 * 18, nan);
    const auto y = lod::grouped_linear(executor, x, weights, ids_of({0, 1, 3}));
    const auto d = lod::grouped_linear_grad(executor, dy, x, weights, ids_of({0, 1, 3}));
    for (std::int64_t n = 0; n < 18; ++n) {
      CAPTURE(n);
      CHECK(std::isnan(y.data()[n]));
      CHECK(y.data()[18 + n] == infinity);
      CHECK(y.data()[2 * 18 + n] == 20);
      CHECK(std::isnan(d.dweights.data()[n]));
      CHECK(d.dweights.data()[3 * 18 + n] == infinity);
      CHECK(d.dweights.data()[4 * 18 + n] == 2);
      for (const std::int64_t g : {1, 2}) CHECK(d.dweights.data()[g * 20 * 18 + n] == 0);
      CHECK(d.dweights.data()[3 * 20 * 18 + n] == 1);
    }
  });
}

TEST_CASE("grouped_linear: rows without elements, and rows of any size where there are none") {
  constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();
  for_each_executor([&](const auto& executor) {
    const LoD lod = LoD::from_lengths({{greatest / 2, 0, greatest / 3}});
    const LoDTensor<float> x(lod, {0}), weights({2, 0, 0});
    CHECK(lod::grouped_linear(executor, x, weights, ids_of({1, 0, 1})).lod() == lod);
    CHECK(lod::grouped_linear_grad(executor, x, x, weights, ids_of({1, 0, 1})).dx.lod() == lod);
    for (const std::int64_t size : {std::int64_t{1} << 57, greatest / 3, greatest}) {
      const LoDTensor<float> wide(LoD::from_lengths({{}}), {size}), narrow(LoD::from_lengths({{}}), {1});
      const LoDTensor<float> to_narrow({0, size, 1});
      CHECK(lod::grouped_linear(executor, wide, to_narrow, ids_of({})).row_size() == 1);
      CHECK(lod::grouped_linear_grad(executor, narrow, wide, to_narrow, ids_of({})).dx.row_size() == size);
    }
  });
}

TEST_CASE("grouped_linear: a second call into the same outputs allocates nothing") {
  if (!counts_allocations) return;
  for (const int threads : {1, 3}) {
    CAPTURE(threads);
    const lod::CpuExecutor executor(threads);
    Engine engine(5);
    const LoD index = giant_among_short(engine, 20, 1500);
    const auto x = real_numbers<float>(engine, index, {40}), dy = real_numbers<float>(engine, index, {30});
    const auto weights = real_numbers<float>(engine, {5, 40, 30});
    const Ids group_of = random_ids(engine, LoD::from_lengths({{index.size(0)}}), 5);
    LoDTensor<float> y, dx, dweights;
    const auto run = [&] {
      lod::grouped_linear_into(executor, x, weights, group_of, y);
      lod::grouped_linear_grad_into(executor, dy, x, weights, group_of, dx, dweights);
    };
    run();
    const std::int64_t before = allocations;
    run();
    CHECK(allocations == before);
  }
}

TEST_CASE("grouped_linear and its gradient: wrong arguments") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> x(LoD::from_lengths({{1, 0, 2}}), {2}), plain({3, 2}), weights({4, 2, 5}), high({4, 3, 5}),
      flat({4}), dy({3, 5}), long_dy({4, 5}), wide_dy({3, 6});
  const Ids right = ids_of({0, 3, 1}), few = ids_of({0, 1}), beyond = ids_of({0, 4, 1}), negative = ids_of({0, 1, -1});
  const Ids wide({3, 2});
  LoDTensor<float> y({1}), dweights;
  y.values()[0] = 7;
  const auto check = [&](const auto& call, const std::string& name) {
    check_throws<lod::InvalidLoD>(call(plain, weights, right), name.c_str(), y);
    check_throws<lod::ShapeMismatch>(call(x, high, right),
                                     (name + ": weights: rows of shape {3, 5}, expected matrices {2, ...}").c_str(), y);
    check_throws<lod::ShapeMismatch>(call(x, flat, right), (name + ": weights: rows of shape {}").c_str(), y);
    check_throws<lod::ShapeMismatch>(call(x, weights, few),
                                     (name + ": group_of: 2 rows, expected 3, one for each sequence").c_str(), y);
    check_throws<lod::ShapeMismatch>(call(x, weights, wide), (name + ": group_of: rows of shape {2}").c_str(), y);
    check_throws<lod::OutOfRange>(call(x, weights, beyond), (name + ": id 4 at position 1, expected 0 to 3").c_str(),
                                  y);
    check_throws<lod::OutOfRange>(call(x, weights, negative), (name + ": id -1 at position 2").c_str(), y);
    CHECK(dweights.rows() == 0);
  };
  check([&](const auto& of, const auto& by,
            const auto& groups) { return [&] { lod::grouped_linear_into(executor, of, by, groups, y); }; },
        "grouped_linear");
  check(
      [&](const auto& of, const auto& by, const auto& groups) {
        return [&] { lod::grouped_linear_grad_into(executor, dy, of, by, groups, y, dweights); };
      },
      "grouped_linear_grad");
  check_throws<lod::OutOfRange>([&] { lod::grouped_linear_into(executor, x, weights, right, {.level = 1}, y); },
                                "grouped_linear", y);
  for (const auto& [other, text] : {std::pair(long_dy, "dy: 4 rows, expected 3"), {wide_dy, "dy: rows of shape {6}"}}) {
    check_throws<lod::ShapeMismatch>(
        [&, &by = other] { lod::grouped_linear_grad_into(executor, by, x, weights, right, y, dweights); }, text, y);
  }
}

TEST_CASE("infer_grouped_linear: what it gives and refuses") {
  using lod::DataType;
  for_each_random_batch<float>(1, {2}, [](Engine& engine, const LoDTensor<float>& x) {
    const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
    const LoDTensor<float> weights({3, 2, 5});
    const Ids group_of({x.size(level)});
    check_inference(
        lod::grouped_linear(x, weights, group_of, {.level = level}),
        [&](const auto& of, const auto& by, const auto& groups) {
          return lod::infer_grouped_linear(of, by, groups, {.level = level});
        },
        describe(x), describe(weights), describe(group_of));
  });
  const auto x = described(DataType::FP32, {-1, 2}, 1), weights = described(DataType::FP32, {3, 2, 5});
  const auto groups = described(DataType::INT64, {-1});
  CHECK(lod::infer_grouped_linear(x, weights, groups) == described(DataType::FP32, {-1, 5}, 1));
  CHECK(lod::infer_grouped_linear(x, weights, described(DataType::INT64, {4, 1})) ==
        described(DataType::FP32, {-1, 5}, 1));
  CHECK_THROWS_AS(lod::infer_grouped_linear(described(DataType::FP32, {-1, 2}), weights, groups), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_grouped_linear(x, weights, groups, {.level = 1}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_grouped_linear(x, described(DataType::FP64, {3, 2, 5}), groups), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_grouped_linear(x, described(DataType::FP32, {3, 4, 5}), groups), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_grouped_linear(x, weights, described(DataType::INT16, {-1})), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_grouped_linear(x, weights, described(DataType::INT64, {-1, 2})), lod::ShapeMismatch);
}

}  // namespace grouped_linear_cases
