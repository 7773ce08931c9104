// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/repeatable.hpp"
#include "support/row_sparse.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory_resource>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

using lod::LoDTensor;
using lod::SelectedRows;
using Numbers = std::vector<std::int64_t>;

namespace {
template <class T>
SelectedRows<T> random_rows(std::mt19937_64& random, std::int64_t count, std::int64_t height, std::int64_t row_size) {
  Numbers rows;
  std::uniform_int_distribution<std::int64_t> id(0, height - 1);
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(id(random));
  return SelectedRows<T>(rows, height,
                         lod_test::small_integers<T>(random, lod::LoD::from_lengths({{count}}), {row_size}));
}
/// The dense sum, row after row, as a plain loop has it. Exact: the values are small whole numbers.
template <class T>
std::vector<double> naive_dense(const std::vector<const SelectedRows<T>*>& sources) {
  std::vector<double> dense(static_cast<std::size_t>(sources[0]->height() * sources[0]->row_size()));
  for (const auto* g : sources) {
    for (std::size_t i = 0; i < g->rows().size(); ++i) {
      for (std::int64_t c = 0; c < g->row_size(); ++c) {
        dense[static_cast<std::size_t>(g->rows()[i] * g->row_size() + c)] +=
            static_cast<double>(g->value().row(static_cast<std::int64_t>(i))[static_cast<std::size_t>(c)]);
      }
    }
  }
  return dense;
}
}  // namespace

TEST_CASE("merge_add: the field's cases, always ascending") {
  const auto merged = lod::merge_add(lod_test::rows_of_one({0, 5, 5, 4, 19}, 20, {1, 2, 3, 4, 1}));
  CHECK(merged.rows() == Numbers{0, 4, 5, 19});
  CHECK(lod_test::numbers_of(merged.value()) == std::vector<double>{1, 4, 5, 1});
  const auto sums = lod::merge_add(lod_test::rows_of_one({0, 4, 4, 7}, 10, {1, 1, 1, 1}));
  CHECK(sums.rows() == Numbers{0, 4, 7});
  CHECK(lod_test::numbers_of(sums.value()) == std::vector<double>{1, 2, 1});
  // Without duplicates too: the order must not depend on whether there is one.
  const SelectedRows<float> a({1, 3, 5, 7, 9}, 10, {3});
  const SelectedRows<float> b({8, 0, 2, 6, 4}, 10, {3});
  CHECK(lod::merge_add(a, b).rows() == Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(lod::merge_add(a, SelectedRows<float>({0, 2, 4, 6, 8}, 10, {3})).rows() ==
        Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(lod::merge_add(SelectedRows<float>({7, 0, 4}, 10, {3})).rows() == Numbers{0, 4, 7});
}

TEST_CASE("merge_add: two lists with the same three ids, rows of any shape") {
  SelectedRows<double> a({5, 2, 5, 3, 5}, 10, {2, 3}), b({2, 5, 3, 5, 3}, 10, {2, 3});
  for (double& value : a.value().values()) value = 1;
  for (double& value : b.value().values()) value = 10;
  const auto merged = lod::merge_add(a, b);
  CHECK(merged.rows() == Numbers{2, 3, 5});
  CHECK(merged.row_shape() == Numbers{2, 3});
  CHECK(merged.value().row(0)[5] == 11);
  CHECK(merged.value().row(1)[0] == 21);
  CHECK(merged.value().row(2)[3] == 23);
  // A first source without rows does not make the result empty.
  CHECK(lod::merge_add(SelectedRows<double>({}, 10, {2, 3}), a).rows() == Numbers{2, 3, 5});
}

TEST_CASE("merge_add: without rows there are none, also in an output that had some") {
  const SelectedRows<float> none({}, 10, {3});
  SelectedRows<float> out({1, 2}, 5, {2});
  lod::merge_add_into(lod::CpuExecutor(1), none, out);
  CHECK(out.rows().empty());
  CHECK(out.height() == 10);
  CHECK(lod::to_dense(none).shape() == Numbers{10, 3});
  CHECK(lod::merge_add(none, SelectedRows<float>({4}, 10, {3})).rows() == Numbers{4});
  CHECK(lod::merge_add(SelectedRows<float>({}, 0, {3})).rows().empty());
}

TEST_CASE_TEMPLATE("merge_add and to_dense: random rows against a plain loop", T, float, double, lod::float16,
                   lod::bfloat16, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t) {
  for (std::uint64_t number = 1; number <= 6; ++number) {
    lod_test::Engine engine(number);
    CAPTURE(number);
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      // The ids of a height of 5000 take two digits of the sort.
      const std::int64_t height = number % 2 ? 7 : 5000;
      const auto a = random_rows<T>(engine, 40, height, row_size);
      const auto b = random_rows<T>(engine, 25, height, row_size);
      const auto expected = naive_dense<T>({&a, &b});
      lod_test::for_each_executor([&](const auto& executor) {
        const auto merged = lod::merge_add(executor, a, b);
        for (std::size_t i = 1; i < merged.rows().size(); ++i) CHECK(merged.rows()[i - 1] < merged.rows()[i]);
        const auto dense = lod::to_dense(executor, merged);
        REQUIRE(dense.values().size() == expected.size());
        std::size_t different = 0;
        for (std::size_t i = 0; i < expected.size(); ++i)
          different += dense.values()[i] != static_cast<T>(static_cast<int>(expected[i]));
        CHECK(different == 0);
        CHECK(lod_test::same_bits(lod::to_dense(executor, lod::merge_add(executor, a)), lod::to_dense(executor, a)));
      });
    }
  }
}

TEST_CASE("merge_add: the same bits for any number of threads") {
  lod_test::Engine engine(9);
  const auto value = lod_test::real_numbers<float>(engine, lod::LoD::from_lengths({{20000}}), {16});
  Numbers rows;
  std::uniform_int_distribution<std::int64_t> id(0, 600);
  for (int i = 0; i < 20000; ++i) rows.push_back(i % 3 ? id(engine) : 5);
  const SelectedRows<float> g(rows, 1000, value);
  const auto expected = lod::merge_add(lod::CpuExecutor(1), g);
  lod_test::for_each_executor(
      [&](const auto& executor) { CHECK(lod_test::same_bits(lod::merge_add(executor, g).value(), expected.value())); });
}

TEST_CASE("merge_add: ids of any width, counts around the parts that threads take, groups across them") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::int64_t part = lod_test::grain / 16;  // entries that are worth a thread
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{2}, std::int64_t{15}, std::int64_t{16},
                                   std::int64_t{17}, part - 1, part, part + 1, 2 * part, 3 * part + 1}) {
    for (const std::int64_t height : {std::int64_t{1}, std::int64_t{3}, std::int64_t{5000}, std::int64_t{1} << 33,
                                      (std::int64_t{1} << 50) + 1, most}) {
      CAPTURE(count);
      CAPTURE(height);
      lod_test::Engine engine(static_cast<std::uint64_t>(count));
      std::uniform_int_distribution<std::int64_t> any(0, height - 1);
      // Few ids that occur often, and others; digits in which all agree; the largest id.
      const std::int64_t often = any(engine), high = height / 2;
      Numbers ids;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t id = any(engine);
        ids.push_back(i % 3 == 0 ? often : i % 5 == 0 ? height - 1 : i % 2 == 0 ? high + id % (height - high) : id);
      }
      Numbers positions(ids.size());
      std::iota(positions.begin(), positions.end(), 0);
      const SelectedRows<std::int64_t> g(ids, height, LoDTensor<std::int64_t>::from_values({}, {}, positions));
      Numbers unique = ids, order = positions;
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)];
      });
      std::sort(unique.begin(), unique.end());
      unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
      for (const int threads : lod_test::thread_counts) {
        CAPTURE(threads);
        Numbers found(ids.size()), names(ids.size()), offsets(ids.size() + 1);
        const std::int64_t size = launch(lod::kernel::GroupRows(), lod::CpuExecutor(threads), ids.data(), count, height,
                                         found.data(), names.data(), offsets.data());
        REQUIRE(size == static_cast<std::int64_t>(unique.size()));
        names.resize(unique.size());
        CHECK(found == order);
        CHECK(names == unique);
        CHECK(offsets[0] == 0);
        CHECK(offsets[unique.size()] == count);
        std::size_t wrong = 0;
        for (std::size_t k = 0; k < unique.size(); ++k) {
          for (std::int64_t i = offsets[k]; i < offsets[k + 1]; ++i) {
            const std::int64_t position = order[static_cast<std::size_t>(i)];
            wrong += ids[static_cast<std::size_t>(position)] != unique[k];
          }
        }
        CHECK(wrong == 0);
        CHECK(lod::merge_add(lod::CpuExecutor(threads), g).rows() == unique);
      }
    }
  }
}

TEST_CASE("merge_add: ids that ascend or descend already, and those that do but for one step") {
  const std::int64_t part = lod_test::grain / 16, count = 2 * part + 3;  // entries that are worth a thread
  Numbers positions(static_cast<std::size_t>(count));
  std::iota(positions.begin(), positions.end(), 0);
  const auto check = [&](const Numbers& ids) {
    std::map<std::int64_t, std::int64_t> sums;
    for (std::size_t i = 0; i < ids.size(); ++i) sums[ids[i]] += positions[i];
    const SelectedRows<std::int64_t> g(ids, count + 1, LoDTensor<std::int64_t>::from_values({}, {}, positions));
    lod_test::for_each_executor([&](const auto& executor) {
      const auto merged = lod::merge_add(executor, g);
      std::map<std::int64_t, std::int64_t> found;
      for (std::size_t i = 0; i < merged.rows().size(); ++i) found[merged.rows()[i]] = merged.value().values()[i];
      CHECK(std::is_sorted(merged.rows().begin(), merged.rows().end()));
      CHECK(merged.rows().size() == sums.size());
      CHECK(found == sums);
    });
  };
  Numbers ascending;
  for (std::int64_t i = 0; i < count; ++i) ascending.push_back(i / 3 * 2);
  for (const std::int64_t step : {std::int64_t{0}, std::int64_t{1}, part - 1, part, part + 1, count / 2, count - 1}) {
    CAPTURE(step);
    Numbers ids = ascending;
    if (step > 0) ids[static_cast<std::size_t>(step - 1)] = ascending.back() + 1;  // from here it goes down
    check(ids);
    std::reverse_copy(positions.begin(), positions.end(), ids.begin());
    if (step > 0) ids[static_cast<std::size_t>(step)] = ids[static_cast<std::size_t>(step - 1)];  // not down, but equal
    check(ids);
  }
}

TEST_CASE_TEMPLATE("merge_add: the sums of a column do not depend on how wide its row is", T, float, double,
                   lod::bfloat16, std::int64_t) {
  constexpr std::int64_t count = 700, widest = 67;
  lod_test::Engine engine(4);
  const auto all = lod_test::real_numbers<float>(engine, lod::LoD::from_lengths({{count}}), {widest});
  for (const std::int64_t height : {std::int64_t{1}, std::int64_t{2}, std::int64_t{300}}) {
    Numbers rows;
    std::uniform_int_distribution<std::int64_t> id(0, height - 1);
    for (std::int64_t i = 0; i < (height == 1 ? 500 : count); ++i) rows.push_back(id(engine));
    const auto narrowed = [&](std::int64_t row_size) {
      LoDTensor<T> value(lod::Shape{static_cast<std::int64_t>(rows.size()), row_size});
      for (std::int64_t i = 0; i < value.rows(); ++i) {
        for (std::int64_t c = 0; c < row_size; ++c) {
          value.row(i)[static_cast<std::size_t>(c)] = static_cast<T>(all.row(i)[static_cast<std::size_t>(c)] * 100);
        }
      }
      return SelectedRows<T>(rows, height, std::move(value));
    };
    lod_test::for_each_executor([&](const auto& executor) {
      const auto expected = lod::merge_add(executor, narrowed(widest));
      for (const std::int64_t row_size : {8, 9, 15, 16, 17, 32, 33, 48, 64, 65}) {
        CAPTURE(row_size);
        const auto merged = lod::merge_add(executor, narrowed(row_size));
        REQUIRE(merged.rows() == expected.rows());
        std::size_t different = 0;
        for (std::int64_t i = 0; i < merged.value().rows(); ++i) {
          different += std::memcmp(merged.value().row(i).data(), expected.value().row(i).data(),
                                   static_cast<std::size_t>(row_size) * sizeof(T)) != 0;
        }
        CHECK(different == 0);
      }
    });
  }
}

TEST_CASE_TEMPLATE("merge_add: the bits of sequence_pool, whatever the row size", T, float, double, std::int64_t) {
  lod_test::Engine engine(6);
  for (const std::int64_t row_size : {1, 2, 3, 4, 7, 8, 16, 17, 32, 64, 128}) {
    CAPTURE(row_size);
    // One row, a few, some that fill a leaf and one that needs more, in turns.
    std::vector<std::int64_t> lengths;
    for (int round = 0; round < 6; ++round) lengths.insert(lengths.end(), {1, 2, 3, 4, 5, 1, 1, 7, 512, 513, 1, 30});
    const auto x = lod_test::real_numbers<T>(engine, lod::LoD::from_lengths({lengths}), {row_size});
    Numbers ids;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      ids.insert(ids.end(), static_cast<std::size_t>(lengths[i]), static_cast<std::int64_t>(3 * i));
    }
    const SelectedRows<T> g(ids, 1000, LoDTensor<T>(x));
    lod_test::for_each_executor([&](const auto& executor) {
      const auto sums = lod::sequence_pool(executor, x, lod::PoolType::SUM);
      CHECK(lod_test::same_bits(lod::merge_add(executor, g).value(), sums));
    });
  }
}

TEST_CASE("merge_add: a large result of rows that are alone, from one and from two sources") {
  for (const std::int64_t row_size : {64, 72}) {
    const std::int64_t count = 256 * lod_test::grain / (4 * row_size) + 3;  // more than the caches are taken to hold
    lod_test::Engine engine(3);
    const auto value = lod_test::real_numbers<float>(engine, lod::LoD::from_lengths({{count}}), {row_size});
    Numbers rows(static_cast<std::size_t>(count));
    std::iota(rows.begin(), rows.end(), 7);
    std::shuffle(rows.begin(), rows.end(), engine);
    const SelectedRows<float> g(rows, count + 10, value), none({}, count + 10, {row_size});
    const auto piece = [&](std::int64_t begin, std::int64_t end) {
      const auto numbers = value.values().subspan(static_cast<std::size_t>(begin * row_size),
                                                  static_cast<std::size_t>((end - begin) * row_size));
      return SelectedRows<float>(
          Numbers(rows.begin() + begin, rows.begin() + end), count + 10,
          LoDTensor<float>::from_values({}, {row_size}, std::vector<float>(numbers.begin(), numbers.end())));
    };
    const auto first = piece(0, count / 2), second = piece(count / 2, count);
    for (const int threads : lod_test::thread_counts) {
      CAPTURE(threads);
      const lod::CpuExecutor executor(threads);
      const auto merged = lod::merge_add(executor, g);
      REQUIRE(merged.value().rows() == count);
      std::size_t different = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        different += std::memcmp(merged.value().row(rows[i] - 7).data(), value.row(static_cast<std::int64_t>(i)).data(),
                                 static_cast<std::size_t>(row_size) * sizeof(float)) != 0;
      }
      CHECK(different == 0);
      CHECK(lod_test::same_bits(lod::merge_add(executor, first, none, second).value(), merged.value()));
    }
  }
}

TEST_CASE("merge_add, merge_average: the sources one by one, as a range, or as a span of pointers") {
  lod_test::Engine engine(10);
  std::vector<SelectedRows<float>> sources;
  for (const std::int64_t count : {20, 0, 7}) sources.push_back(random_rows<float>(engine, count, 9, 3));
  const SelectedRows<float>&a = sources[0], &b = sources[1], &c = sources[2];
  const std::span<const SelectedRows<float>> view(sources), none;
  const std::array array{a, b, c};
  const SelectedRows<float>* const addresses[] = {&a, &b, &c};
  const std::span<const SelectedRows<float>* const> pointers(addresses);
  lod_test::for_each_executor([&](const auto& executor) {
    const auto check = [&](const SelectedRows<float>& found, const SelectedRows<float>& expected) {
      CHECK(found.rows() == expected.rows());
      CHECK(lod_test::same_bits(found.value(), expected.value()));
    };
    const auto sum = lod::merge_add(executor, a, b, c), average = lod::merge_average(executor, a, b, c);
    check(lod::merge_add(executor, sources), sum);
    check(lod::merge_add(executor, view), sum);
    check(lod::merge_add(executor, array), sum);
    check(lod::merge_average(executor, sources), average);
    check(lod::merge_average(executor, view), average);
    SelectedRows<float> out;
    const auto check_into = [&](const auto& call, const SelectedRows<float>& expected) {
      out = SelectedRows<float>();
      call();
      check(out, expected);
    };
    check_into([&] { lod::merge_add_into(executor, a, b, c, out); }, sum);
    check_into([&] { lod::merge_add_into(executor, sources, out); }, sum);
    check_into([&] { lod::merge_add_into(executor, view, out); }, sum);
    check_into([&] { lod::merge_add_into(executor, pointers, out); }, sum);
    check_into([&] { lod::merge_average_into(executor, a, b, c, out); }, average);
    check_into([&] { lod::merge_average_into(executor, sources, out); }, average);
    check_into([&] { lod::merge_average_into(executor, view, out); }, average);
    check_into([&] { lod::merge_average_into(executor, pointers, out); }, average);
    CHECK_THROWS_WITH_AS(lod::merge_add(executor, none),
                         "merge_add: nothing given, expected at least one row-sparse tensor", lod::ShapeMismatch);
    CHECK_THROWS_AS(lod::merge_average(executor, none), lod::ShapeMismatch);
  });
  CHECK(lod::merge_add(sources).rows() == lod::merge_add(a, c).rows());
  CHECK(lod::merge_add(view).rows() == lod::merge_add(a, c).rows());
  CHECK(lod::merge_average(sources).rows() == lod::merge_add(a, c).rows());
}

TEST_CASE("merge_add: tensors that do not fit together are refused") {
  const SelectedRows<float> a({1}, 10, {3});
  CHECK_THROWS_AS(lod::merge_add(a, SelectedRows<float>({1}, 11, {3})), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::merge_add(a, SelectedRows<float>({1}, 10, {2})), lod::ShapeMismatch);
}

TEST_CASE("merge_average: divided by how often the row is there, not by the number of sources") {
  const SelectedRows<float> ones({4, 0, 7, 4}, 10,
                                 LoDTensor<float>::from_values({}, {}, std::vector<float>{1, 1, 1, 3}));
  const auto average = lod::merge_average(ones);
  CHECK(average.rows() == Numbers{0, 4, 7});
  CHECK(average.value().values()[0] == 1);
  CHECK(average.value().values()[1] == 2);
  // PaddlePaddle divides by the one source, and gives 1, 2, 1.
  const auto equal = lod::merge_average(lod_test::rows_of_one({0, 4, 4, 7}, 10, {1, 1, 1, 1}));
  CHECK(equal.rows() == Numbers{0, 4, 7});
  CHECK(lod_test::numbers_of(equal.value()) == std::vector<double>{1, 1, 1});
  const SelectedRows<float> more({7, 2}, 10, LoDTensor<float>::from_values({}, {}, std::vector<float>{5, 8}));
  const auto both = lod::merge_average(ones, more);
  CHECK(both.rows() == Numbers{0, 2, 4, 7});
  CHECK(both.value().values()[1] == 8);
  CHECK(both.value().values()[3] == 3);
  CHECK(lod::merge_average(SelectedRows<float>({}, 10, {3})).rows().empty());
  const SelectedRows<int> whole({1, 1}, 2, LoDTensor<int>::from_values({}, {}, std::vector<int>{-2, -5}));
  CHECK(lod::merge_average(whole).value().values()[0] == -3);
  CHECK_THROWS_WITH_AS(lod::merge_average(ones, SelectedRows<float>({}, 9, {})), "merge_average: height 9, expected 10",
                       lod::ShapeMismatch);
}

TEST_CASE("merge_add_grad, merge_average_grad: agree with differences, for two sources one behind the other") {
  lod_test::Engine engine(3);
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    auto value = lod_test::real_numbers<double>(engine, {7, row_size});
    const Numbers rows = {3, 0, 3, 5, 0, 3, 2};
    const auto sources = [&] {
      return std::array{SelectedRows<double>({3, 0, 3, 5}, 6, LoDTensor<double>::copy_of(value.between(0, 4))),
                        SelectedRows<double>({0, 3, 2}, 6, LoDTensor<double>::copy_of(value.between(4, 7)))};
    };
    const Numbers merged = {0, 2, 3, 5};
    const auto gradient = [&](const auto& dy) { return SelectedRows<double>(merged, 6, LoDTensor<double>(dy)); };
    lod_test::check_gradient(
        engine, value, [&](const auto&) { return lod::merge_add(sources()[0], sources()[1]).value(); },
        [&](const auto& dy) { return lod::merge_add_grad(gradient(dy), rows).value(); });
    lod_test::check_gradient(
        engine, value, [&](const auto&) { return lod::merge_average(sources()[0], sources()[1]).value(); },
        [&](const auto& dy) { return lod::merge_average_grad(gradient(dy), rows).value(); });
  }
  const SelectedRows<double> dy({2, 3}, 6, {});
  CHECK(lod::merge_add_grad(SelectedRows<double>({}, 6, {}), Numbers{}).rows().empty());
  CHECK(lod::merge_add_grad(dy, {3, 2, 3}).rows() == Numbers{3, 2, 3});
  CHECK_THROWS_AS(lod::merge_add_grad(dy, {3, 6}), lod::OutOfRange);
  CHECK_THROWS_WITH_AS(lod::merge_add_grad(dy, {3, 3}),
                       "merge_add_grad: the ids of dy, expected those of the rows, ascending and each of them once",
                       lod::ShapeMismatch);
}

TEST_CASE("from_dense: the rows listed, and its gradient") {
  lod_test::Engine engine(4);
  auto x = lod_test::real_numbers<double>(engine, {4, 3});
  const auto g = lod::from_dense(x, {2, 0, 2});
  CHECK(g.rows() == Numbers{2, 0, 2});
  CHECK(g.height() == 4);
  CHECK(g.value().row(2)[1] == x.row(2)[1]);
  lod_test::check_gradient(
      engine, x, [&](const auto& at) { return lod::from_dense(at, g.rows()).value(); },
      [&](const auto& dy) { return lod::to_dense(SelectedRows<double>(g.rows(), 4, LoDTensor<double>(dy))); });
  SelectedRows<double> out({1}, 3, {});
  lod_test::for_each_executor([&](const auto& executor) {
    CHECK_THROWS_WITH_AS(lod::from_dense_into(executor, x, {4}, out),
                         doctest::Contains("from_dense: id 4 at position 0, expected 0 to "), lod::OutOfRange);
  });
  CHECK(out.rows() == Numbers{1});
}

TEST_CASE("to_dense_grad: the rows listed") {
  const auto dy = LoDTensor<float>::from_values({}, {}, std::vector<float>{1, 2, 3});
  const Numbers rows = {2, 0, 2};
  const auto dg = lod::to_dense_grad(dy, rows);
  CHECK(dg.value().values()[0] == 3);
  CHECK(dg.value().values()[1] == 1);
  const Numbers bad = {3};
  CHECK_THROWS_AS(lod::to_dense_grad(dy, bad), lod::OutOfRange);
}

TEST_CASE("merge_add, to_dense: the same bits for any number of threads; a second call allocates nothing") {
  lod_test::Engine engine(2);
  const auto g = lod_test::rows_mostly_one<float>(engine, 40000, 3000, 5);
  const auto x = lod_test::real_numbers<float>(engine, {3000, 5});
  struct Results {
    SelectedRows<float> sum, average, sum_gradient, average_gradient, listed, gradient;
    LoDTensor<float> dense;
    explicit Results(std::pmr::memory_resource* resource)
        : sum(resource),
          average(resource),
          sum_gradient(resource),
          average_gradient(resource),
          listed(resource),
          gradient(resource),
          dense(resource) {}
  };
  lod_test::check_repeatable<Results>(
      [&](const auto& executor, Results& r) {
        lod::merge_add_into(executor, g, r.sum);
        lod::merge_average_into(executor, g, r.average);
        lod::merge_add_grad_into(executor, r.sum, g.rows(), r.sum_gradient);
        lod::merge_average_grad_into(executor, r.average, g.rows(), r.average_gradient);
        lod::from_dense_into(executor, x, g.rows(), r.listed);
        lod::to_dense_into(executor, g, r.dense);
        lod::to_dense_grad_into(executor, r.dense, g.rows(), r.gradient);
      },
      [](const Results& a, const Results& b) {
        CHECK(lod_test::same_bits(a.sum.value(), b.sum.value()));
        CHECK(lod_test::same_bits(a.average.value(), b.average.value()));
        CHECK(lod_test::same_bits(a.sum_gradient.value(), b.sum_gradient.value()));
        CHECK(lod_test::same_bits(a.average_gradient.value(), b.average_gradient.value()));
        CHECK(lod_test::same_bits(a.listed.value(), b.listed.value()));
        CHECK(lod_test::same_bits(a.gradient.value(), b.gradient.value()));
        CHECK(lod_test::same_bits(a.dense, b.dense));
      });
}

TEST_CASE(
    "infer_merge_add, infer_to_dense, infer_from_dense: allow what the operations give, and refuse what they do") {
  using namespace lod_test;
  const lod::SelectedRows<float> g({4, 0, 4}, 10, {8}), none({}, 10, {8});
  for (const auto& desc : {describe(g), blank(describe(g))}) {
    for (const auto* second : {&g, &none}) {
      CHECK_NOTHROW(lod::check(lod::merge_add(g, *second), lod::infer_merge_add({desc, describe(*second)})));
    }
    CHECK_NOTHROW(lod::check(lod::merge_average(g, g), lod::infer_merge_average({desc, desc})));
    check_inferred(lod::to_dense(g), lod::infer_to_dense(desc));
    CHECK_NOTHROW(lod::check(lod::from_dense(lod::to_dense(g), g.rows()), lod::infer_from_dense({desc})));
  }
  CHECK(lod::infer_merge_add({{lod::DataType::FP32, {-1, 8}}, {lod::DataType::FP32, {10, -1}}}) ==
        lod::TensorDesc{lod::DataType::FP32, {10, 8}});
  CHECK_THROWS_AS(lod::infer_merge_add({}), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_merge_add({describe(g), {lod::DataType::FP32, {9, 8}}}),
                       doctest::Contains("merge_add: height 9, expected 10 as the first has"), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_merge_add({describe(g), {lod::DataType::FP32, {10, 7}}}),
                       doctest::Contains("merge_add: rows of shape {7}, expected {8}"), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_to_dense({lod::DataType::COMPLEX64, {10, 8}}), lod::ShapeMismatch);
}

TEST_CASE("merge_add, merge_average, to_dense: bad arguments throw and change nothing") {
  using lod_test::check_throws;
  const lod::CpuExecutor executor(1);
  const std::span<const SelectedRows<float>* const> none;
  SelectedRows<float> out({1}, 3, {});
  LoDTensor<float> wrong({2, 2});
  check_throws<lod::ShapeMismatch>([&] { lod::merge_add_into(executor, none, out); },
                                   "merge_add: nothing given, expected at least one", out.value());
  check_throws<lod::ShapeMismatch>([&] { lod::merge_average_into(executor, none, out); },
                                   "merge_average: nothing given", out.value());
  check_throws<lod::ShapeMismatch>([&] { lod::to_dense_into(executor, out, wrong.view()); }, ": a view of shape {2, 2}",
                                   wrong);
}
