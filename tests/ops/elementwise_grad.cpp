// SPDX-License-Identifier: Apache-2.0
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/random_batch.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

/// Checks the gradients by both arguments. f and grad are an operation and its gradient.
template <class F, class Grad>
void check_both(Engine& engine, const F& f, const Grad& grad) {
  const LoD index = LoD::from_lengths({{2, 0, 1}, {2, 0, 3}});
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    auto x = real_numbers<double>(engine, index, {row_size});
    const auto check = [&](LoDTensor<double> y, const lod::ElementwiseOptions& options) {
      for (double& value : y.values()) value = value < 0 ? value - 1 : value + 1;  // away from 0
      check_gradient(
          engine, x, [&](const auto& at) { return f(at, y, options); },
          [&](const auto& dz) { return grad(dz, x, y, options).x; });
      check_gradient(
          engine, y, [&](const auto& at) { return f(x, at, options); },
          [&](const auto& dz) { return grad(dz, x, y, options).y; });
    };
    check(real_numbers<double>(engine, index, {row_size}), {});
    check(real_numbers<double>(engine, {row_size}), {});
    check(real_numbers<double>(engine, {1, row_size}), {});
    check(real_numbers<double>(engine, {3, row_size}), {});
    check(real_numbers<double>(engine, {3, row_size}), {.level = 0});
    check(real_numbers<double>(engine, index.levels_above(1), {row_size}), {.level = 1});
  }
  auto x = real_numbers<double>(engine, {4, 2}), y = real_numbers<double>(engine, {4, 2});
  for (double& value : y.values()) value = std::abs(value) + 1;
  check_gradient(
      engine, y, [&](const auto& at) { return f(x, at, lod::ElementwiseOptions{}); },
      [&](const auto& dz) { return grad(dz, x, y, lod::ElementwiseOptions{}).y; });
}

}  // namespace

TEST_CASE("add_grad: agrees with differences, for every form of the second argument") {
  Engine engine(1);
  check_both(
      engine, [](const auto& x, const auto& y, const auto& options) { return lod::add(x, y, options); },
      [](const auto& dz, const auto& x, const auto& y, const auto& options) {
        return lod::add_grad(dz, x, y, options);
      });
}
TEST_CASE("sub_grad: agrees with differences, for every form of the second argument") {
  Engine engine(2);
  check_both(
      engine, [](const auto& x, const auto& y, const auto& options) { return lod::sub(x, y, options); },
      [](const auto& dz, const auto& x, const auto& y, const auto& options) {
        return lod::sub_grad(dz, x, y, options);
      });
}
TEST_CASE("mul_grad: agrees with differences, for every form of the second argument") {
  Engine engine(3);
  check_both(
      engine, [](const auto& x, const auto& y, const auto& options) { return lod::mul(x, y, options); },
      [](const auto& dz, const auto& x, const auto& y, const auto& options) {
        return lod::mul_grad(dz, x, y, options);
      });
}
TEST_CASE("div_grad: agrees with differences, for every form of the second argument") {
  Engine engine(4);
  check_both(
      engine, [](const auto& x, const auto& y, const auto& options) { return lod::div(x, y, options); },
      [](const auto& dz, const auto& x, const auto& y, const auto& options) {
        return lod::div_grad(dz, x, y, options);
      });
}
