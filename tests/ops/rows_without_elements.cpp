// SPDX-License-Identifier: Apache-2.0
// Rows without elements take no memory, so there may be as many as 64 bits count; and rows may have as many elements
// where there are none. What operations do then takes time by sequences and elements, and none of their sizes
// overflows (which the sanitizers see).
#include "support/executors.hpp"
#include "support/same_bits.hpp"
#include "support/time_limit.hpp"
#include <lod/io/json.hpp>
#include <lod/io/text.hpp>
#include <lod/lod.hpp>
#include <lod/nested.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using lod::Shape;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {

constexpr std::int64_t greatest_size = std::numeric_limits<std::int64_t>::max();

/// body(lod, row_shape) for batches of huge numbers of such rows, of one to three levels.
template <class Body>
void for_each_huge_batch(const Body& body) {
  const TimeLimit limit;
  for (const std::int64_t rows : {std::int64_t{1} << 33, std::int64_t{1} << 46, std::int64_t{1} << 62, greatest_size}) {
    const std::int64_t half = rows / 2;
    for (const LoD& lod : {LoD::from_lengths({{half - 5, 0, 5, rows - half}}),
                           LoD::from_lengths({{2, 0, 1, 1}, {half - 7, 0, rows - half, 7}}),
                           LoD::from_lengths({{1, 0, 1, 0}, {3, 2}, {half - 7, 0, rows - half, 7, 0}})}) {
      for (const Shape& row_shape : {Shape{0}, Shape{0, 0}}) {
        CAPTURE(rows);
        CAPTURE(lod.levels());
        body(lod, row_shape);
      }
    }
  }
}

template <class F>
void for_each_cpu_executor(const F& f) {
  for (const int threads : {1, 7}) {
    CAPTURE(threads);
    f(lod::CpuExecutor(threads));
  }
}

/// Whether a result is the batch as it came.
template <class Y>
bool is_batch(const Y& y, const LoD& lod, const Shape& row_shape) {
  return y.lod() == lod && y.rows() == lod.rows() && y.row_shape() == row_shape;
}

}  // namespace

TEST_CASE("for_each_sequence, map_sequences: call for each sequence, however many rows it has") {
  for_each_huge_batch([](const LoD& lod, const Shape& row_shape) {
    if (row_shape.size() > 1 || lod.levels() == 2) return;
    const LoDTensor<float> x(lod, row_shape);
    for_each_executor([&](const auto& executor) {
      for (int level = 0; level < lod.levels(); ++level) {
        std::atomic<std::int64_t> calls = 0, rows = 0;
        lod::for_each_sequence(executor, x, level, [&](const auto& sequence) {
          ++calls;
          rows += sequence.rows();
        });
        CHECK(calls == lod.size(level));
        CHECK(rows == lod.rows());
      }
      const auto copies =
          lod::map_sequences(executor, x, [](const auto& part) { return LoDTensor<float>::copy_of(part); });
      CHECK(is_batch(copies, lod, row_shape));
    });
  });
}

TEST_CASE("Operations that move rows: without elements return at once") {
  for_each_huge_batch([](const LoD& lod, const Shape& row_shape) {
    const LoDTensor<float> x(lod, row_shape), plain(Shape(lod.rows(), row_shape));
    const std::int64_t top = lod.size(0), rows = lod.rows();
    const auto is_x = [&](const auto& y) { return is_batch(y, lod, row_shape); };
    const Numbers all = {0, 1, 2, 3}, zeros(static_cast<std::size_t>(top), 0), lengths = lod.lengths(0);
    const std::vector<bool> every(static_cast<std::size_t>(top), true);
    for_each_executor([&](const auto& e) {
      CHECK(is_x(lod::sequence_reverse(e, x)));
      CHECK(is_x(lod::sequence_cumsum(e, x)));
      CHECK(is_x(lod::sequence_cumsum(e, x, {.exclusive = true, .reverse = true, .level = -1})));
      CHECK(is_x(lod::concat(e, lod::split(e, x, 3))));
      CHECK(lod::concat(e, lod::split(e, plain, 3)).rows() == rows);
      CHECK(lod::split(e, plain, 2)[0].rows() == rows / 2);
      CHECK(is_x(lod::filter_grad(e, lod::filter(e, x, every), lod, every)));
      CHECK(is_x(lod::lod_append_grad(e, plain, rows).with_lod(lod)));
      CHECK(is_x(lod::sequence_slice_grad(e, lod::sequence_slice(e, x, zeros, lengths), lod, zeros, lengths)));
      CHECK(lod::unique_sequences_and_wait(e, x).values.size() == (lod.levels() == 3 ? 3 : top));  // two are empty
      CHECK(lod::sequence_expand_as(e, LoDTensor<float>(Shape(lod.size(-1), row_shape)), lod).rows() == rows);
      CHECK(lod::embedding(e, plain, LoDTensor<std::int64_t>({3})).rows() == 3);
      CHECK(lod::to_dense(e, lod::SelectedRows<float>({4, 0, 4}, rows, row_shape)).rows() == rows);
    });
    for_each_cpu_executor([&](const auto& e) {
      CHECK(is_x(lod::select_grad(e, lod::select(e, x, all), lod, all)));
      CHECK(is_x(lod::insert_level(e, lod::remove_level(e, x, 0), 0, LoD::from_lengths({lengths}))));
    });
  });
}

TEST_CASE("Operations that compute: without elements return at once") {
  for_each_huge_batch([](const LoD& lod, const Shape& row_shape) {
    const LoDTensor<float> x(lod, row_shape), row(row_shape), top(Shape(lod.size(0), row_shape));
    const auto is_x = [&](const auto& y) { return is_batch(y, lod, row_shape); };
    const auto is_top = [&](const auto& y) { return y.levels() == 0 && y.shape() == top.shape(); };
    for_each_executor([&](const auto& e) {
      for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::MAX, PoolType::FIRST, PoolType::LAST}) {
        CHECK(is_top(lod::sequence_pool(e, x, type, {.level = 0})));
        if (type != PoolType::MAX) CHECK(is_x(lod::sequence_pool_grad(e, top, lod, type, {.level = 0})));
      }
      const auto best = lod::sequence_max_pool(e, x, {.level = 0});
      CHECK(is_x(lod::sequence_max_pool_grad(e, best.values, best.index, lod, {.level = 0})));
      CHECK(is_x(lod::add(e, x, x)));
      const LoDTensor<std::int64_t> whole(lod, row_shape), one(row_shape);
      CHECK(is_x(lod::div(e, whole, whole)));
      CHECK(is_x(lod::div(e, whole, one)));
      CHECK(is_x(lod::mul(e, x, row)));
      CHECK(is_x(lod::mul(e, x, top, {.level = 0})));
      CHECK(is_x(lod::mul_grad(e, x, x, top, {.level = 0}).x));
      CHECK(is_x(lod::sequence_softmax_grad(e, x, lod::sequence_softmax(e, x))));
      CHECK(is_top(lod::sequence_logsumexp(e, x, {.level = 0})));
      CHECK(is_x(lod::sequence_logsumexp_grad(e, top, x, {.level = 0})));
      CHECK(is_x(lod::row_conv(e, x, LoDTensor<float>(Shape(2, row_shape)))));
      CHECK(is_x(lod::sequence_conv(e, x, LoDTensor<float>(Shape{0, 0})).with_lod(lod)) == (row_shape.size() == 1));
      LoDTensor<float> y(Shape(lod.rows(), row_shape)), states(y);
      lod::adam(e, y, states, LoDTensor<float>(states), lod::SelectedRows<float>({4, 0}, lod.rows(), row_shape),
                {.step = 1});
    });
  });
}

TEST_CASE("Operations: rows of any size, where there are none, overflow nothing") {
  const TimeLimit limit;
  for (const std::int64_t size : {std::int64_t{1} << 57, std::int64_t{1} << 60, greatest_size / 3, greatest_size}) {
    CAPTURE(size);
    const LoDTensor<float> x(LoD::from_lengths({{}}), {size}), plain({0, size});
    for_each_executor([&](const auto& e) {
      CHECK(lod::sequence_pool(e, x, PoolType::SUM).row_size() == size);
      CHECK(lod::sequence_max_pool(e, x).index.row_size() == size);
      CHECK(lod::sequence_pool_grad(e, plain, x.lod(), PoolType::AVERAGE).row_size() == size);
      CHECK(lod::sequence_cumsum(e, x).row_size() == size);
      CHECK(lod::sequence_reverse(e, x).row_size() == size);
      CHECK(lod::sequence_softmax(e, x).row_size() == size);
      CHECK(lod::sequence_softmax_grad(e, x, x).row_size() == size);
      CHECK(lod::sequence_logsumexp(e, x).row_size() == size);
      CHECK(lod::sequence_pad(e, x, {.padded_length = 1}).dense.rows() == 0);
      CHECK(lod::unique_sequences_and_wait(e, x).values.size() == 0);
      CHECK(lod::merge_add(e, lod::SelectedRows<float>({}, 0, {size})).row_size() == size);
      CHECK(lod::to_dense(e, lod::SelectedRows<float>({}, 0, {size})).rows() == 0);
      CHECK(lod::concat(e, x, x).row_size() == size);
      CHECK(lod::add(e, x, x).row_size() == size);
    });
  }
}

TEST_CASE("Options of extreme size: are refused, or overflow nothing") {
  const TimeLimit limit;
  const LoDTensor<float> x(LoD::from_lengths({{3, 0}}), {}), none(LoD::from_lengths({{0, 0}}), {});
  const LoDTensor<float> wide(LoD::from_lengths({{3, 0}}), {2}), filter({6, 2});
  const LoDTensor<std::int64_t> ids(LoD::from_lengths({{3, 0}}), {}), no_ids(LoD::from_lengths({{0, 0}}), {});
  for_each_executor([&](const auto& e) {
    for (const std::int64_t size : {greatest_size, greatest_size - 1, greatest_size / 2, std::int64_t{1} << 61}) {
      CAPTURE(size);
      CHECK_THROWS_AS(lod::sequence_pad(e, x, {.padded_length = size}), lod::ShapeMismatch);
      CHECK_THROWS_AS(lod::sequence_mask<float>(e, Numbers{1, 2}, {.max_length = size}), lod::ShapeMismatch);
      CHECK(lod::sequence_mask<float>(e, Numbers{}, {.max_length = size}).rows() == 0);
      CHECK_THROWS_AS(lod::sequence_enumerate(e, ids, size), lod::ShapeMismatch);
      CHECK(lod::sequence_enumerate(e, no_ids, size).rows() == 0);
      CHECK(lod::sequence_topk(e, x, size).values.rows() == 3);
      CHECK_THROWS_AS(lod::sequence_reshape(e, x, size), lod::ShapeMismatch);
      for (const std::int64_t start : {size, -size}) {
        const lod::ConvOptions<float, typename std::remove_cvref_t<decltype(e)>::device> window = {
            .context_length = 3, .context_start = start};
        CHECK_THROWS_AS(lod::sequence_conv(e, wide, filter, window), lod::OutOfRange);
      }
      const LoDTensor<float> image({1, 1, 3, 3});
      CHECK_THROWS(lod::im2sequence(e, image, {.kernels = {size, size}}));
      CHECK_THROWS(lod::im2sequence(e, image, {.kernels = {1, 1}, .paddings = {size, size, size, size}}));
      CHECK_THROWS(lod::im2sequence(e, image, {.kernels = {1, 1}, .strides = {size, size}}));
      CHECK_THROWS_AS(lod::sequence_expand(e, x, LoD::from_lengths({{size, 0}})), lod::ShapeMismatch);
    }
  });
}

TEST_CASE("Texts, JSON and comparisons of huge numbers of rows: return at once, or say why there is no text") {
  for_each_huge_batch([](const LoD& lod, const Shape& row_shape) {
    const LoDTensor<float> x(lod, row_shape), plain(Shape(lod.rows(), row_shape));
    const lod::SelectedRows<float> rows({4, 0}, lod.rows(), row_shape);
    std::ostringstream text;
    text << x << x.view() << plain << plain.between(1, lod.rows()) << rows << lod;
    CHECK(text.str().size() < 5000);
    CHECK(draw(x).size() + draw(plain).size() + draw(x.between(0, 2)).size() < 5000);
    CHECK_THROWS_AS(lod::to_json(x), lod::ShapeMismatch);
    CHECK_THROWS_AS(lod::to_json(plain), lod::ShapeMismatch);
    const auto back = lod::from_json<float>(lod::to_json(x, lod::JsonForm::OBJECT));
    CHECK(is_batch(back, lod, row_shape));
    CHECK(same_bits(back, x));
    if (lod.rows() >= std::int64_t{1} << 62) {
      CHECK_THROWS_AS(lod.row_ids(-1), lod::ShapeMismatch);
      CHECK_THROWS_AS(lod::RankTable(lod, {.level = -1}), lod::ShapeMismatch);
      using Nested = std::vector<std::array<float, 0>>;
      if (row_shape.size() == 1) CHECK_THROWS_AS(lod::to_nested<Nested>(plain), lod::ShapeMismatch);
    }
  });
  const TimeLimit limit;
  const LoDTensor<float> lists({1, std::int64_t{1} << 40, 2, 0});
  std::ostringstream text;
  text << lists;
  CHECK(text.str().size() < 5000);
  CHECK_THROWS_AS(lod::to_json(lists), lod::ShapeMismatch);
}

TEST_CASE("split: into more parts than memory can hold is refused") {
  const TimeLimit limit;
  const LoDTensor<float> x({3});
  for (const std::int64_t count : {greatest_size, std::int64_t{1} << 60}) {
    CHECK_THROWS_AS(lod::split(x, count), lod::ShapeMismatch);
    CHECK_THROWS_AS(lod::split(LoD::from_lengths({{1, 2}}), count), lod::ShapeMismatch);
    CHECK_THROWS_AS(lod::infer_split({{lod::DataType::FP32, {3}}, 0}, count), lod::ShapeMismatch);
    lod::TensorArray<float> array;
    CHECK_THROWS_AS(array.resize(count), lod::ShapeMismatch);
    CHECK_THROWS_AS(array.write(count, LoDTensor<float>()), lod::ShapeMismatch);
    CHECK(array.size() == 0);
  }
  std::vector<LoDTensor<float>> parts(2);
  CHECK_THROWS_AS(lod::split_into(lod::CpuExecutor(1), x, std::int64_t{1} << 40, parts), lod::ShapeMismatch);
}
