// SPDX-License-Identifier: Apache-2.0
// Products of bfloat16 by oneDNN: what a DnnlExecutor computes, that it has the bits that it promises, and that all
// else is a CpuExecutor's. Where oneDNN has no instructions for it, as with ONEDNN_MAX_CPU_ISA=AVX2, products are, too.
#include "support/check_throws.hpp"
#include "support/count_allocations.hpp"
#include "support/counting_resource.hpp"
#include "support/grain.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include <lod/dnnl.hpp>
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <thread>
#include <vector>

using lod::bfloat16;
using lod::LoD;
using lod::LoDTensor;
using lod_test::Engine;
using lod_test::same_bits;
using Tensor = LoDTensor<bfloat16>;

namespace {

/// Numbers whose sums round, of any size in a row.
Tensor rounding_numbers(Engine& engine, const LoD& lod, std::int64_t row_size) {
  Tensor x(lod, {row_size});
  for (bfloat16& value : x.values()) {
    const auto number = static_cast<float>(lod_test::random_number(engine, -1000, 1000)) / 999.0f;
    value = static_cast<bfloat16>(number * number * number);
  }
  return x;
}
Tensor rounding_numbers(Engine& engine, std::int64_t rows, std::int64_t row_size) {
  Tensor x({rows, row_size});
  const Tensor numbers = rounding_numbers(engine, LoD::from_lengths({{rows}}), row_size);
  std::ranges::copy(numbers.values(), x.values().begin());
  return x;
}

/// Whether each number is within the error of a sum of so many terms of magnitude one from that of another sum.
bool are_close(const Tensor& a, const Tensor& b, std::int64_t terms) {
  bool close = a.shape() == b.shape();
  for (std::size_t i = 0; close && i < a.values().size(); ++i) {
    const auto x = static_cast<float>(a.values()[i]), y = static_cast<float>(b.values()[i]);
    close = std::abs(x - y) <= std::abs(x) / 100 + 1e-6f * static_cast<float>(terms);
  }
  return close;
}

/// Terms and columns: one of each, odd numbers, several leaves and tiles, and the ends of both.
constexpr std::array<std::array<std::int64_t, 2>, 9> product_sizes{
    {{1, 1}, {3, 1}, {1, 5}, {33, 17}, {64, 64}, {257, 255}, {1024, 33}, {1030, 7}, {2049, 1025}}};
/// Whether products with such weights take too long for all numbers of rows: unoptimised, and without instructions for
/// them, a hundred times as long.
constexpr bool takes_long(std::int64_t terms, std::int64_t columns) {
  return lod_test::slow && terms * columns > 100000;
}

}  // namespace

TEST_CASE("a DnnlExecutor's linear gives exact sums, for every number of rows, with and without a bias") {
  Engine engine(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  for (const auto& size : product_sizes) {
    const std::int64_t terms = size[0], columns = size[1];
    CAPTURE(terms);
    CAPTURE(columns);
    const auto weight = lod_test::small_integers<bfloat16>(engine, {terms, columns});
    const auto bias = lod_test::small_integers<bfloat16>(engine, {columns});
    for (const std::int64_t rows : {0, 1, 2, 15, 16, 17, 31, 63, 64, 65, 130}) {
      if (takes_long(terms, columns) && rows != 17) continue;
      if (lod_test::slow && rows > 17 && rows != 65) continue;
      CAPTURE(rows);
      const auto x = lod_test::small_integers<bfloat16>(engine, {rows, terms});
      for (const int threads : {1, 3}) {
        CAPTURE(threads);
        // Integers, so that the order of sums does not matter: a few thousand terms up to 16 each.
        const lod::CpuExecutor cpu(1);
        const lod::DnnlExecutor executor(threads);
        CHECK(same_bits(lod::linear(executor, x, weight), lod::linear(cpu, x, weight)));
        CHECK(same_bits(lod::linear(executor, x, weight, {.bias = bias}), lod::linear(cpu, x, weight, {.bias = bias})));
      }
    }
  }
}

TEST_CASE("a DnnlExecutor's linear gives a row the same bits, whatever the other rows, their number and the threads") {
  Engine engine(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  for (const auto& size : product_sizes) {
    const std::int64_t terms = size[0], columns = size[1];
    CAPTURE(terms);
    CAPTURE(columns);
    const bool is_long = takes_long(terms, columns);
    const std::int64_t most = is_long ? 40 : 400;
    const Tensor x = rounding_numbers(
        engine, LoD::from_lengths({std::vector<std::int64_t>(static_cast<std::size_t>(most), 1)}), terms);
    const Tensor weight = rounding_numbers(engine, terms, columns), bias = rounding_numbers(engine, 1, columns);
    const lod::DnnlExecutor one(1), three(3);
    const Tensor all = lod::linear(one, x, weight), with_bias = lod::linear(one, x, weight, {.bias = bias});
    CHECK(same_bits(lod::linear(three, x, weight), all));
    std::vector<std::int64_t> numbers_of_rows{1, 17};
    if (!is_long) {
      numbers_of_rows = {97, 128, 200, most};
      const std::int64_t step = terms * columns > 100000 ? 16 : 1;
      for (std::int64_t rows = 1; rows <= 70; rows += step) numbers_of_rows.push_back(rows);
    }
    for (const std::int64_t rows : numbers_of_rows) {
      CAPTURE(rows);
      const std::int64_t begin = lod_test::random_number(engine, 0, most - rows);
      const auto some = x.between(begin, begin + rows);
      for (const auto& executor : {one, three}) {
        CHECK(same_bits(lod::linear(executor, some, weight), all.between(begin, begin + rows)));
        CHECK(same_bits(lod::linear(executor, some, weight, {.bias = bias}), with_bias.between(begin, begin + rows)));
      }
    }
    CHECK(are_close(all, lod::linear(lod::CpuExecutor(1), x, weight), terms));
  }
}

TEST_CASE("a DnnlExecutor's products of matrices: transposed, with distances between rows, factors and sums") {
  Engine engine(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  const lod::CpuExecutor cpu(1);
  const lod::DnnlExecutor executor(2);
  for (const auto& size : std::array<std::array<std::int64_t, 3>, 6>{
           {{1, 1, 1}, {5, 3, 7}, {70, 33, 65}, {130, 520, 40}, {20, 9, 1100}, {3, 4, 0}}}) {
    const std::int64_t m = size[0], n = size[1], k = size[2];
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    for (int form = 0; form < 32; ++form) {
      const bool transpose_a = (form & 1) != 0, transpose_b = (form & 2) != 0, wide = (form & 4) != 0;
      const double alpha = (form & 8) != 0 ? 0.5 : 1, beta = (form & 16) != 0 ? (form & 4) != 0 ? 1 : 2 : 0;
      CAPTURE(form);
      const std::int64_t more = wide ? 3 : 0;
      const std::int64_t lda = (transpose_a ? m : k) + more, ldb = (transpose_b ? k : n) + more, ldc = n + more;
      const auto a = lod_test::small_integers<bfloat16>(engine, {(transpose_a ? k : m) + 1, lda});
      const auto b = lod_test::small_integers<bfloat16>(engine, {(transpose_b ? n : k) + 1, ldb});
      auto c = lod_test::small_integers<bfloat16>(engine, {m + 1, ldc});
      // What is not read may be anything.
      if (beta == 0) std::ranges::fill(c.values(), std::numeric_limits<bfloat16>::quiet_NaN());
      auto expected = c;
      const auto multiply = [&](const auto& by, Tensor& to) {
        lod::operation::matrix_product<std::remove_cvref_t<decltype(by)>, bfloat16>(
            by, transpose_a, transpose_b, m, n, k, alpha, a.data(), lda, b.data(), ldb, beta, to.data(), ldc);
      };
      multiply(executor, c);
      multiply(cpu, expected);
      CHECK(same_bits(c, expected));
    }
  }
}

TEST_CASE("a DnnlExecutor's grouped_linear and jagged_dense_bmm have the bits of linear, in any order of groups") {
  Engine engine(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  const std::vector<std::int64_t> lengths{0, 3, 70, 1, 0, lod_test::slow ? 130 : 600, 5, 16, 64, 65, 2, 0, 1};
  const LoD lod = LoD::from_lengths({lengths});
  const std::int64_t sequences = lod.size(0);
  for (const auto& size : std::array<std::array<std::int64_t, 2>, 3>{{{33, 17}, {64, 600}, {1100, 20}}}) {
    const std::int64_t terms = size[0], columns = size[1];
    CAPTURE(terms);
    const Tensor x = rounding_numbers(engine, lod, terms);
    Tensor weights({4, terms, columns}), dense({sequences, terms, columns});
    std::ranges::copy(rounding_numbers(engine, 4 * terms, columns).values(), weights.values().begin());
    std::ranges::copy(rounding_numbers(engine, sequences * terms, columns).values(), dense.values().begin());
    LoDTensor<std::int64_t> groups({sequences});
    for (std::int64_t& group : groups.values()) group = lod_test::random_number(engine, 0, 3);
    groups.values().back() = 3;
    for (const int threads : {1, 3}) {
      const lod::DnnlExecutor executor(threads);
      const Tensor grouped = lod::grouped_linear(executor, x, weights, groups);
      const Tensor of_each = lod::jagged_dense_bmm(executor, x, dense);
      CHECK(grouped.lod() == lod);
      const auto matrix = [&](const Tensor& of, std::int64_t i) {
        Tensor one({terms, columns});
        std::copy_n(of.row(i).data(), terms * columns, one.data());
        return one;
      };
      for (std::int64_t i = 0; i < sequences; ++i) {
        CAPTURE(i);
        const auto rows = x.between(i, i + 1);
        CHECK(same_bits(grouped.between(i, i + 1), lod::linear(executor, rows, matrix(weights, groups.data()[i]))));
        CHECK(same_bits(of_each.between(i, i + 1), lod::linear(executor, rows, matrix(dense, i))));
      }
    }
    // Gradients with respect to rows, by transposed matrices.
    const lod::DnnlExecutor executor(2);
    const lod::CpuExecutor cpu(2);
    const Tensor dy = rounding_numbers(engine, lod, columns);
    const auto d = lod::grouped_linear_grad(executor, dy, x, weights, groups);
    const auto own = lod::grouped_linear_grad(cpu, dy, x, weights, groups);
    CHECK(are_close(d.dx, own.dx, columns));
    CHECK(same_bits(d.dweights, own.dweights));
    CHECK(are_close(lod::jagged_dense_bmm_grad(executor, dy, x, dense).dx,
                    lod::jagged_dense_bmm_grad(cpu, dy, x, dense).dx, columns));
  }
  // No rows, and rows without numbers.
  const lod::DnnlExecutor executor(2);
  const LoDTensor<std::int64_t> none({0}), first({2});
  CHECK(lod::grouped_linear(executor, Tensor(LoD::from_lengths({std::vector<std::int64_t>{}}), {3}), Tensor({1, 3, 2}),
                            none)
            .shape() == lod::Shape{0, 2});
  CHECK(same_bits(lod::grouped_linear(executor, Tensor(LoD::from_lengths({{2, 1}}), {0}), Tensor({1, 0, 2}), first),
                  Tensor(LoD::from_lengths({{2, 1}}), {2})));
}

TEST_CASE("a DnnlExecutor's gradients and recurrent networks agree with a CpuExecutor's") {
  Engine engine(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  const lod::DnnlExecutor executor(2);
  const lod::CpuExecutor cpu(2);
  const LoD lod = LoD::from_lengths({{5, 0, 130, 1}});
  constexpr std::int64_t terms = 24, columns = 32, rows = 136;
  const Tensor x = rounding_numbers(engine, lod, terms), dy = rounding_numbers(engine, lod, columns);
  const Tensor weight = rounding_numbers(engine, terms, columns);
  const auto d = lod::linear_grad(executor, dy, x, weight), own = lod::linear_grad(cpu, dy, x, weight);
  CHECK(are_close(d.dx, own.dx, columns));
  CHECK(are_close(d.dweight, own.dweight, rows));
  CHECK(same_bits(d.dbias, own.dbias));
  const lod::LstmWeights<bfloat16> weights{.input = rounding_numbers(engine, terms, 4 * columns),
                                           .recurrent = rounding_numbers(engine, columns, 4 * columns)};
  const Tensor by_dnnl = lod::lstm(executor, x, weights).hidden, by_cpu = lod::lstm(cpu, x, weights).hidden;
  CHECK(by_dnnl.lod() == by_cpu.lod());
  for (std::size_t i = 0; i < by_cpu.values().size(); ++i) {
    CHECK(std::abs(static_cast<float>(by_dnnl.values()[i]) - static_cast<float>(by_cpu.values()[i])) < 0.1f);
  }
}

TEST_CASE("a DnnlExecutor's products keep infinity and NaN to their rows and columns") {
  constexpr std::int64_t terms = 37, columns = 19, rows = 20;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Tensor x({rows, terms}), weight({terms, columns});
  x.fill(static_cast<bfloat16>(1.0f));
  weight.fill(static_cast<bfloat16>(1.0f));
  x.row(3)[36] = static_cast<bfloat16>(infinity);
  x.row(7)[0] = std::numeric_limits<bfloat16>::quiet_NaN();
  weight.row(36)[5] = bfloat16{};
  const Tensor y = lod::linear(lod::DnnlExecutor(1), x, weight);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto found = static_cast<float>(y.row(row)[static_cast<std::size_t>(column)]);
      CAPTURE(row);
      CAPTURE(column);
      if (row == 7 || (row == 3 && column == 5)) {
        CHECK(std::isnan(found));
      } else if (row == 3) {
        CHECK(found == infinity);
      } else {
        CHECK(found == static_cast<float>(column == 5 ? terms - 1 : terms));
      }
    }
  }
}

TEST_CASE("a DnnlExecutor counts subnormal numbers of bfloat16 as 0 in products that oneDNN computes, all shapes") {
  const lod::DnnlExecutor executor(2);
  for (const auto& size : product_sizes) {
    const std::int64_t terms = size[0], columns = size[1];
    CAPTURE(terms);
    CAPTURE(columns);
    Tensor x(LoD::from_lengths({{2, 1}}), {terms}), weight({terms, columns}), dy(x.lod(), {columns});
    x.row(1)[0] = static_cast<bfloat16>(0x1p-130f);
    dy.row(1)[0] = static_cast<bfloat16>(0x1p-130f);
    weight.fill(static_cast<bfloat16>(1.0f));
    const auto check = [](const Tensor& y) {
      const float expected = lod::dnnl_instructions().bfloat16 ? 0.0f : 0x1p-130f;
      for (const bfloat16 number : y.row(1)) CHECK(static_cast<float>(number) == expected);
    };
    check(lod::linear(executor, x, weight));
    check(lod::linear_grad(executor, dy, x, weight).dx);
    Tensor weights({2, terms, columns});
    weights.fill(static_cast<bfloat16>(1.0f));
    check(lod::grouped_linear(executor, x, weights, LoDTensor<std::int64_t>({2})));
    check(lod::jagged_dense_bmm(executor, x, weights));
    check(lod::grouped_linear_grad(executor, dy, x, weights, LoDTensor<std::int64_t>({2})).dx);
  }
}

TEST_CASE("a DnnlExecutor's other types, operations and processors have a CpuExecutor's bits") {
  Engine engine(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  const lod::CpuExecutor cpu(2);
  const lod::DnnlExecutor executor(cpu);
  CHECK(executor.threads() == 2);
  CHECK(&executor.workspace() == &cpu.workspace());
  const LoD lod = LoD::from_lengths({{4, 0, 90}});
  const auto x = lod_test::real_numbers<float>(engine, lod, {33});
  const auto weight = lod_test::real_numbers<float>(engine, LoD::from_lengths({{33}}), {40});
  CHECK(same_bits(lod::linear(executor, x, weight), lod::linear(cpu, x, weight)));
  CHECK(same_bits(lod::sequence_softmax(executor, x), lod::sequence_softmax(cpu, x)));
  CHECK(same_bits(lod::sequence_pool(executor, x, lod::PoolType::SUM), lod::sequence_pool(cpu, x, lod::PoolType::SUM)));
  CHECK(same_bits(lod::sequence_pad(executor, x).dense, lod::sequence_pad(cpu, x).dense));
  const auto ids = lod_test::small_integers<std::int64_t>(engine, LoD::from_lengths({{50, 0, 3}}), {});
  CHECK(same_bits(lod::sequence_erase(executor, ids, {1, 2}), lod::sequence_erase(cpu, ids, {1, 2})));
  CHECK(same_bits(lod::sequence_reverse(executor, x), lod::sequence_reverse(cpu, x)));
  const Tensor of = rounding_numbers(engine, lod, 33), by = rounding_numbers(engine, 33, 40);
  if (!lod::dnnl_instructions().bfloat16) {
    CHECK(same_bits(lod::linear(executor, of, by), lod::linear(cpu, of, by)));
  }
}

TEST_CASE("a DnnlExecutor may be used by several threads at a time, and by copies of it") {
  Engine engine(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  const Tensor x = rounding_numbers(engine, LoD::from_lengths({{300}}), 64), weight = rounding_numbers(engine, 64, 96);
  const lod::DnnlExecutor executor(2);
  const Tensor expected = lod::linear(lod::DnnlExecutor(1), x, weight);
  std::array<bool, 4> same{};
  std::vector<std::thread> threads;
  for (bool& one : same) {
    threads.emplace_back([&one, &x, &weight, &expected, copy = executor] {
      one = true;
      for (int i = 0; i < 20; ++i) one = one && same_bits(lod::linear(copy, x, weight), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const bool one : same) CHECK(one);
}

TEST_CASE("a DnnlExecutor takes no memory on a second call, and errors and a lack of memory change nothing") {
  Engine engine(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  const LoD lod = LoD::from_lengths({{70, 0, 200, 31}});
  for (const std::int64_t terms : {40, 1100}) {
    CAPTURE(terms);
    const Tensor x = rounding_numbers(engine, lod, terms), weight = rounding_numbers(engine, terms, 24);
    Tensor weights({2, terms, 24});
    LoDTensor<std::int64_t> groups({4});
    groups.values()[2] = 1;
    lod_test::CountingResource resource;
    const lod::DnnlExecutor executor(2, &resource);
    Tensor y(&resource), z(&resource);
    const auto call = [&](const lod::DnnlExecutor& by) {
      lod::linear_into(by, x, weight, y);
      lod::grouped_linear_into(by, x, weights, groups, z);
    };
    call(executor);
    const int allocations = resource.allocations;
    const std::int64_t bytes = lod_test::allocated_bytes;
    call(executor);
    CHECK(resource.allocations == allocations);
    // Another number of rows is no other shape.
    const auto fewer = x.between(0, 3);
    LoDTensor<bfloat16> of_fewer(fewer.lod(), {24});
    const std::int64_t before = lod_test::allocated_bytes;
    lod::linear_into(executor, fewer, weight, of_fewer);
    // oneDNN itself takes some, and returns it.
    if (lod_test::counts_allocations && lod::dnnl_instructions().bfloat16) {
      CHECK(before - bytes < 100000);
      CHECK(lod_test::allocated_bytes - before < 100000);
    }
    lod_test::check_throws<lod::ShapeMismatch>([&] { lod::linear_into(executor, x, weights, y); },
                                               "linear: weight: 2 rows, expected", y);
    for (int allowed = 0; allowed < 12; ++allowed) {
      lod_test::CountingResource failing;
      failing.fail_from = allowed;
      const Tensor kept = y;
      Tensor to = y;
      try {
        lod::linear_into(lod::DnnlExecutor(2, &failing), x, weight, to);
      } catch (const std::bad_alloc&) {
      }
      CHECK(same_bits(to, kept));
    }
  }
}
