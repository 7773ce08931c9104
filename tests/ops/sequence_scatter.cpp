// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {

LoDTensor<std::int64_t> random_columns(Engine& engine, const LoD& lod, std::int64_t columns) {
  return random_ids(engine, lod, columns, {1});
}

/// Small integers: the sums are exact.
template <class T, lod::LoDTensorLike Ids, lod::LoDTensorLike Updates>
std::vector<T> reference_scatter(const LoDTensor<T>& x, const Ids& ids, const Updates& updates, int level) {
  std::vector<Wide<T>> sums(x.values().begin(), x.values().end());
  const auto offsets = ids.view().lod_view().absolute_offsets(level);
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    for (std::int64_t k = offsets[i] - offsets[0]; k < offsets[i + 1] - offsets[0]; ++k) {
      const auto at = static_cast<std::int64_t>(i) * x.row_size() + ids.view().data()[k];
      sums[static_cast<std::size_t>(at)] += static_cast<Wide<T>>(updates.view().data()[k]);
    }
  }
  std::vector<T> y;
  for (const Wide<T> sum : sums) y.push_back(static_cast<T>(sum));
  return y;
}

template <class Executor, class T, lod::LoDTensorLike Ids, lod::LoDTensorLike Updates>
void check_scatter(const Executor& executor, const LoDTensor<T>& x, const Ids& ids, const Updates& updates,
                   int level = 0) {
  INFO("level ", level);
  const auto y = lod::sequence_scatter(executor, x, ids, updates, {.level = level});
  CHECK(y.lod() == x.lod());
  CHECK(y.row_shape() == x.row_shape());
  const auto expected = reference_scatter(x, ids, updates, level);
  CHECK(std::equal(expected.begin(), expected.end(), y.values().begin(), y.values().end()));
}

}  // namespace

TEST_CASE("sequence_scatter: each sequence adds to its row, repeated ids too") {
  const auto x = LoDTensor<int>::from_values(LoD(), {3}, std::vector<int>{1, 1, 1, 2, 2, 2, 3, 3, 3});
  const auto ids = LoDTensor<std::int64_t>::from_nested(std::vector<Numbers>{{0, 2, 0}, {}, {1}});
  const auto updates = LoDTensor<int>::from_nested(std::vector<int>{10, 20, 30, 40});
  const auto y = lod::sequence_scatter(x, ids, updates);
  CHECK(std::vector<int>(y.values().begin(), y.values().end()) == std::vector<int>{41, 1, 21, 2, 2, 2, 3, 43, 3});
  const auto gradients = lod::sequence_scatter_grad(y, ids);
  CHECK(same_bits(gradients.dx, y));
  CHECK(same_bits(gradients.dupdates,
                  LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{41, 21, 41}, {}, {43}})));
}

TEST_CASE("sequence_scatter: the cases of PaddlePaddle's tests") {
  Engine engine(1);
  for_each_executor([&](const auto& executor) {
    for (const auto& lengths : std::vector<Numbers>{
             {30, 50, 40}, {60, 60, 0}, {0, 60, 60}, {60, 0, 60}, {120, 0, 0}, {0, 120, 0}, {0, 0, 120}}) {
      const auto x = small_integers<float>(engine, {3, 6});
      const LoD index = LoD::from_lengths({lengths});
      check_scatter(executor, x, random_columns(engine, index, 6), small_integers<float>(engine, index, {1}));
    }
  });
}

TEST_CASE("sequence_scatter: agrees with nested loops for slices of every type, depth and level") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(4, 1, 5, [](Engine& engine, const Lengths& lengths) {
      const LoD index = LoD::from_lengths(lengths);
      for (const std::int64_t columns : {1, 3, 8, 17}) {
        const auto ids = random_columns(engine, index, columns);
        const auto updates = small_integers<T>(engine, {index.rows()});
        const std::int64_t begin = random_number(engine, 0, ids.size() > 0);
        const auto slice = ids.between(begin, ids.size());
        const auto first = updates.between(updates.rows() - slice.rows(), updates.rows());
        for (int level = 0; level < ids.levels(); ++level) {
          const auto x = small_integers<T>(engine, {slice.lod_view().size(level), columns});
          check_scatter(lod::CpuExecutor(2), x, slice, first, level);
        }
      }
    });
  });
}

TEST_CASE("sequence_scatter: no sequences, empty ones only, rows with a shape and levels of their own") {
  Engine engine(1);
  for_each_executor([&](const auto& executor) {
    for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}}) {
      const LoD index = LoD::from_lengths(lengths);
      const auto x = small_integers<float>(engine, {index.size(0), 3});
      const auto updates = small_integers<float>(engine, {0});
      check_scatter(executor, x, random_columns(engine, index, 3), updates);
      CHECK(lod::sequence_scatter_grad(executor, x, random_columns(engine, index, 3)).dupdates.lod() == index);
    }
    const LoD index = LoD::from_lengths({{2, 0, 3}});
    const auto x = small_integers<float>(engine, LoD::from_lengths({{1, 2}}), {2, 5});
    check_scatter(executor, x, random_columns(engine, index, 10), small_integers<float>(engine, {5}));
  });
}

TEST_CASE("sequence_scatter: 16-bit numbers are added in float and rounded once") {
  LoDTensor<lod::float16> x({1, 2}), updates({4096});
  for (auto& update : updates.values()) update = lod::float16(0.5F);
  const LoDTensor<std::int64_t> ids(LoD::from_lengths({{4096}}), {});
  x.data()[0] = lod::float16(4096.F);
  CHECK(lod::sequence_scatter(x, ids, updates).data()[0] == lod::float16(6144.F));  // 4096 + 0.5 is 4096 in 16 bits
}

TEST_CASE("sequence_scatter: in place, by any number of threads; a second call allocates nothing") {
  Engine engine(3);
  const LoD index = giant_among_short(engine, 3000, 30000);
  const auto ids = random_columns(engine, index, 50);
  const auto x = real_numbers<float>(engine, {3000, 50});
  const auto updates = real_numbers<float>(engine, {index.rows()});
  const auto expected = lod::sequence_scatter(lod::CpuExecutor(1), x, ids, updates);
  const auto gradients = lod::sequence_scatter_grad(lod::CpuExecutor(1), x, ids);
  for (const int threads : thread_counts) {
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    LoDTensor<float> y(&resource), dx(&resource), dupdates(&resource);
    const auto call = [&] {
      lod::sequence_scatter_into(executor, x, ids, updates, y);
      lod::sequence_scatter_grad_into(executor, x, ids, dx, dupdates);
    };
    call();
    CHECK(same_bits(y, expected));
    CHECK(same_bits(dx, x));
    CHECK(same_bits(dupdates, gradients.dupdates));
    const int before = resource.allocations;
    call();
    CHECK(resource.allocations == before);
    auto changed = x;
    lod::sequence_scatter_into(executor, changed, ids, updates, changed);
    CHECK(same_bits(changed, expected));
  }
}

TEST_CASE("sequence_scatter_grad: agrees with differences") {
  for_each_random_lod(8, 1, 3, [](Engine& engine, const Lengths& lengths) {
    const LoD index = LoD::from_lengths(lengths);
    if (index.rows() > 60) return;
    for (int level = 0; level < index.levels(); ++level) {
      const std::int64_t columns = std::array{1, 3, 8, 17}[static_cast<std::size_t>(random_number(engine, 0, 3))];
      auto x = real_numbers<double>(engine, {index.size(level), columns});
      auto updates = real_numbers<double>(engine, index, {1});
      const auto ids = random_columns(engine, index, columns);
      const auto scatter = [&](const auto&) { return lod::sequence_scatter(x, ids, updates, {.level = level}); };
      const auto gradients = [&](const auto& dy) { return lod::sequence_scatter_grad(dy, ids, {.level = level}); };
      check_gradient(engine, x, scatter, [&](const auto& dy) { return gradients(dy).dx; });
      check_gradient(engine, updates, scatter, [&](const auto& dy) { return gradients(dy).dupdates; });
    }
  });
}

TEST_CASE("sequence_scatter: bad arguments throw and change nothing, in place too") {
  LoDTensor<float> x({2, 3});
  const LoDTensor<float> updates({3});
  const lod::CpuExecutor executor(1);
  const auto scatter = [&](const LoDTensor<std::int64_t>& ids, const LoDTensor<float>& numbers, int level = -1) {
    return [&, level] { lod::sequence_scatter_into(executor, x, ids, numbers, {.level = level}, x); };
  };
  const auto ids = LoDTensor<std::int64_t>::from_nested(std::vector<Numbers>{{0, 2}, {1}});
  const LoDTensor<std::int64_t> plain({3}), wide(ids.lod(), {2}), one(LoD::from_lengths({{3}}), {});
  check_throws<lod::InvalidLoD>(scatter(plain, updates), "sequence_scatter: ids: the tensor has no level", x);
  check_throws<lod::OutOfRange>(scatter(ids, updates, 1), "level 1 of a LoD with 1 levels", x);
  check_throws<lod::ShapeMismatch>(scatter(wide, updates),
                                   "sequence_scatter: ids: rows of shape {2}, expected one id a row", x);
  check_throws<lod::ShapeMismatch>(scatter(one, updates),
                                   "sequence_scatter: 2 rows of x, expected 1, one for each sequence of the ids", x);
  check_throws<lod::ShapeMismatch>(scatter(ids, LoDTensor<float>({2})),
                                   "sequence_scatter: updates of shape {2}, expected 3 numbers, one for each id", x);
  check_throws<lod::ShapeMismatch>(scatter(ids, LoDTensor<float>({3, 2})), "updates of shape {3, 2}", x);
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{3}, INT64_MAX}) {
    auto broken = ids;
    broken.data()[2] = bad;
    check_throws<lod::OutOfRange>(scatter(broken, updates), "at position 2, expected 0 to 2", x);
    LoDTensor<float> dx, dupdates({1});
    check_throws<lod::OutOfRange>([&] { lod::sequence_scatter_grad_into(executor, x, broken, dx, dupdates); },
                                  "sequence_scatter_grad: id ", dupdates);
  }

  LoDTensor<float> y({2, 3}), other({3, 3});
  lod::sequence_scatter_into(executor, x, ids, updates, y.view());
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_scatter_into(executor, x, ids, updates, other.view()); },
                                   ": a view of shape {3, 3} with 0 levels", other);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_scatter_grad_into(executor, x, ids, y, other.view()); },
                                   ": a view of shape {3, 3} with 0 levels", y);
}

TEST_CASE("infer_sequence_scatter: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<float>(1, {}, [](Engine& engine, const lod::LoDTensor<float>& updates) {
    const auto x = small_integers<float>(engine, {updates.lod().size(-1), 5});
    const lod::LoDTensor<std::int64_t> ids(updates.lod(), {});
    const auto y = lod::sequence_scatter(x, ids, updates);
    check_inference(
        y, [](const auto& a, const auto& b, const auto& c) { return lod::infer_sequence_scatter(a, b, c); },
        describe(x), describe(ids), describe(updates));
    const auto gradients = lod::sequence_scatter_grad(y, ids);
    check_inferred(gradients.dx, describe(x));
    check_inferred(gradients.dupdates, describe(updates));
  });
  const auto x = described(lod::DataType::FP32, {6, 5}), ids = described(lod::DataType::INT64, {15}, 1);
  const auto updates = described(lod::DataType::FP32, {15});
  CHECK(lod::infer_sequence_scatter(x, ids, updates) == x);
  CHECK_THROWS_AS(lod::infer_sequence_scatter(x, described_list(15), updates), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_scatter(x, updates, updates), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_sequence_scatter(x, ids, ids), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_sequence_scatter(x, ids, updates, {.level = 1}), lod::OutOfRange);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_scatter(x, ids, described(lod::DataType::FP32, {14})),
                       doctest::Contains("sequence_scatter: updates: 14 rows, expected 15"), lod::ShapeMismatch);
}
