// SPDX-License-Identifier: Apache-2.0
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

using lod::LoDTensor;
using namespace lod_test;

namespace {

/// A product of two matrices, as BLAS describes it.
struct Product {
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  double alpha = 1;
  double beta = 0;

  template <class E, class T>
  void run(const E& executor, const LoDTensor<T>& a, const LoDTensor<T>& b, LoDTensor<T>& c) const {
    lod::operation::matrix_product(executor, transpose_a, transpose_b, m, n, k, alpha, a.data(), a.row_size(), b.data(),
                                   b.row_size(), beta, c.data(), c.row_size());
  }
  /// Matrices whose rows are longer than they need be.
  template <class T>
  LoDTensor<T> a(Engine& engine) const {
    return real_numbers<T>(engine, transpose_a ? lod::Shape{k, m + 3} : lod::Shape{m, k + 2});
  }
  template <class T>
  LoDTensor<T> b(Engine& engine) const {
    return real_numbers<T>(engine, transpose_b ? lod::Shape{n, k + 1} : lod::Shape{k, n + 5});
  }
  template <class T>
  LoDTensor<T> c(Engine& engine) const {
    return real_numbers<T>(engine, {m, n + 1});
  }
};

/// How far a number may be from the sum of products in double, in parts of the sum of their magnitudes.
template <class T>
constexpr double product_tolerance() {
  return std::is_same_v<T, double>         ? 1e-14
         : std::is_same_v<T, float>        ? 2e-6
         : std::is_same_v<T, lod::float16> ? 1e-3
                                           : 8e-3;
}

template <class T>
void check_product(const lod::CpuExecutor& executor, const Product& product) {
  INFO("transposed ", product.transpose_a, " ", product.transpose_b, ", m ", product.m, ", n ", product.n, ", k ",
       product.k, ", alpha ", product.alpha, ", beta ", product.beta);
  Engine engine(static_cast<std::uint64_t>(product.m + product.n + product.k));
  const auto a = product.a<T>(engine), b = product.b<T>(engine), before = product.c<T>(engine);
  auto c = before;
  product.run(executor, a, b, c);
  bool all_close = true, rest_unchanged = true;
  const auto in_double = [](const LoDTensor<T>& x) {
    std::vector<double> numbers;
    for (const T number : x.values()) numbers.push_back(static_cast<double>(number));
    return numbers;
  };
  const std::vector<double> lefts = in_double(a), rights = in_double(b);
  // How far apart the factors of a sum are, and the rows or columns that have a sum.
  const std::int64_t left_row = a.row_size(), right_row = b.row_size();
  const std::int64_t left_step = product.transpose_a ? left_row : 1, right_step = product.transpose_b ? 1 : right_row;
  for (std::int64_t i = 0; i < product.m; ++i) {
    for (std::int64_t j = 0; j < product.n; ++j) {
      const double old = product.beta * static_cast<double>(before.data()[i * c.row_size() + j]);
      double sum = old, magnitude = std::abs(old);
      const double* left = lefts.data() + (product.transpose_a ? i : i * left_row);
      const double* right = rights.data() + (product.transpose_b ? j * right_row : j);
      for (std::int64_t p = 0; p < product.k; ++p) {
        const double term = product.alpha * left[p * left_step] * right[p * right_step];
        sum += term;
        magnitude += term < 0 ? -term : term;
      }
      const auto found = static_cast<double>(c.data()[i * c.row_size() + j]);
      all_close = all_close && std::abs(found - sum) <= product_tolerance<T>() * magnitude;
    }
    const std::int64_t behind = i * c.row_size() + product.n;
    rest_unchanged = rest_unchanged && c.data()[behind] == before.data()[behind];
  }
  CHECK(all_close);
  CHECK(rest_unchanged);
}

}  // namespace

TEST_CASE("matrix_product: agrees with three loops for every type, transposed or not, at the edges of all tiles") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const auto check = [&](std::int64_t m, std::int64_t n, std::int64_t k, double alpha = 1, double beta = 0) {
          check_product<T>(lod::CpuExecutor(2), {transpose_a, transpose_b, m, n, k, alpha, beta});
        };
        for (const std::int64_t m : {1, 2, 4, 5, 7, 12, 25}) {
          for (const std::int64_t n : {1, 3, 8, 17, 33, 64}) {
            check(m, n, 9, -0.5, 2);
            check(m, n, 9, 1, 0);  // written, and
            check(m, n, 9, 1, 1);  // added, from the registers
          }
        }
        // Numbers of 16 bits are multiplied as float.
        if (slow && (transpose_a != transpose_b || (sizeof(T) == 2 && transpose_a))) continue;
        check(97, 259, 20);
        check(60, 290, 40, 1, 1);
        check(200, 40, 257, 1, 1);
        check(3, 5, 2000);
        check(5, 270, 300);
        check(30, 20, 1500, 2, -1);
        check(8, 270, 1100);
      }
    }
  });
}

TEST_CASE("matrix_product: matrices without rows, columns or terms") {
  for_each_executor([](const auto& executor) {
    LoDTensor<float> a({1}), c({6});
    for (float& number : c.values()) number = 3;
    const auto run = [&](std::int64_t m, std::int64_t n, std::int64_t k, double beta) {
      lod::operation::matrix_product(executor, false, false, m, n, k, 1, a.data(), k, a.data(), n, beta, c.data(), 3);
      return std::vector<float>(c.values().begin(), c.values().end());
    };
    CHECK(run(0, 3, 1, 0) == std::vector<float>(6, 3));
    CHECK(run(2, 0, 1, 0) == std::vector<float>(6, 3));
    CHECK(run(2, 3, 0, 1) == std::vector<float>(6, 3));
    CHECK(run(2, 3, 0, 0.5) == std::vector<float>(6, 1.5F));
    CHECK(run(2, 3, 0, 0) == std::vector<float>(6, 0));
  });
}

TEST_CASE("matrix_product: what is not read does not matter, NaN of an argument does") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Product product{.m = 3, .n = 2, .k = 2};
  LoDTensor<float> a({3, 2}), b({2, 2}), c({3, 2});
  for (float& number : a.values()) number = 1;
  for (float& number : b.values()) number = 1;
  for (float& number : c.values()) number = nan;
  a.data()[2] = nan;
  product.run(lod::CpuExecutor(1), a, b, c);
  CHECK(c.data()[0] == 2);
  CHECK(std::isnan(c.data()[2]));
  CHECK(std::isnan(c.data()[3]));
  CHECK(c.data()[5] == 2);
}

TEST_CASE("matrix_product: the bits of a row depend neither on threads nor on the other rows") {
  for (const Product& product : {Product{.m = 210, .n = 300, .k = 70}, Product{.m = 40, .n = 70, .k = 3000},
                                 Product{.transpose_a = true, .m = 24, .n = 8, .k = grain},
                                 Product{.transpose_a = true, .transpose_b = true, .m = 40, .n = 260, .k = 1025}}) {
    Engine engine(9);
    const auto a = product.a<float>(engine), b = product.b<float>(engine);
    auto expected = product.c<float>(engine);
    auto found = expected;
    product.run(lod::CpuExecutor(1), a, b, expected);
    for_each_executor([&](const auto& executor) {
      product.run(executor, a, b, found);
      CHECK(same_bits(found, expected));
      // A few rows of it, which may go another way.
      for (const std::int64_t rows : {1, 3, 11}) {
        Product part = product;
        part.m = rows;
        const std::int64_t first = product.m - rows - 2;
        const float* from = a.data() + (product.transpose_a ? first : first * a.row_size());
        LoDTensor<float> c({rows, product.n + 1});
        lod::operation::matrix_product(executor, part.transpose_a, part.transpose_b, part.m, part.n, part.k, 1.0, from,
                                       a.row_size(), b.data(), b.row_size(), 0.0, c.data(), c.row_size());
        bool same = true;
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < product.n; ++j) {
            same = same && c.data()[i * c.row_size() + j] == expected.data()[(first + i) * c.row_size() + j];
          }
        }
        CHECK(same);
      }
    });
  }
}

TEST_CASE("matrix_product: the error does not grow with the number of terms" * doctest::skip(slow)) {
  const std::int64_t k = 17'000'000;
  const Product product{.transpose_b = true, .m = 1, .n = 1, .k = k};
  LoDTensor<float> a({1, k}), c({1, 1});
  for (float& number : a.values()) number = 1;
  product.run(lod::CpuExecutor(1), a, a, c);
  CHECK(c.data()[0] == static_cast<float>(k));  // more than 2^24, where adding 1 has no effect
}

TEST_CASE("matrix_product: a second call allocates nothing") {
  for (const int threads : thread_counts) {
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    for (const Product& product : {Product{.m = 210, .n = 300, .k = 70}, Product{.m = 24, .n = 8, .k = grain}}) {
      Engine engine(2);
      const auto a = product.a<float>(engine), b = product.b<float>(engine);
      auto c = product.c<float>(engine);
      product.run(executor, a, b, c);
      const int before = resource.allocations;
      product.run(executor, a, b, c);
      CHECK(resource.allocations == before);
    }
  }
}
