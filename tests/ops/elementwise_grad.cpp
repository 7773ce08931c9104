// SPDX-License-Identifier: Apache-2.0
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
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
void check_both(const F& f, const Grad& grad) {
  for_each_random_lod(8, 0, 3, [&](Engine& engine, const Lengths& lengths) {
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      auto x = lengths.empty() ? real_numbers<double>(engine, {random_number(engine, 0, 5), row_size})
                               : real_numbers<double>(engine, LoD::from_lengths(lengths), {row_size});
      if (x.rows() > 12) return;
      const auto check = [&](LoDTensor<double> y, const lod::ElementwiseOptions& options) {
        for (double& value : y.values()) value = value < 0 ? value - 1 : value + 1;  // away from 0
        check_gradient(
            engine, x, [&](const auto& at) { return f(at, y, options); },
            [&](const auto& dz) { return grad(dz, x, y, options).x; });
        check_gradient(
            engine, y, [&](const auto& at) { return f(x, at, options); },
            [&](const auto& dz) { return grad(dz, x, y, options).y; });
      };
      check(x, {});
      check(real_numbers<double>(engine, {row_size}), {});
      check(real_numbers<double>(engine, {1, row_size}), {});
      for (int level = 0; level < x.levels(); ++level) {
        check(real_numbers<double>(engine, {x.lod().size(level), row_size}), {.level = level});
        check(lod::sequence_first_step(x, {.level = level}), {.level = level});
      }
    }
  });
}

}  // namespace

TEST_CASE("add_grad: agrees with differences, for every form of the second argument") {
  check_both([](const auto& x, const auto& y, const auto& options) { return lod::add(x, y, options); },
             [](const auto& dz, const auto& x, const auto& y, const auto& options) {
               return lod::add_grad(dz, x, y, options);
             });
}
TEST_CASE("sub_grad: agrees with differences, for every form of the second argument") {
  check_both([](const auto& x, const auto& y, const auto& options) { return lod::sub(x, y, options); },
             [](const auto& dz, const auto& x, const auto& y, const auto& options) {
               return lod::sub_grad(dz, x, y, options);
             });
}
TEST_CASE("mul_grad: agrees with differences, for every form of the second argument") {
  check_both([](const auto& x, const auto& y, const auto& options) { return lod::mul(x, y, options); },
             [](const auto& dz, const auto& x, const auto& y, const auto& options) {
               return lod::mul_grad(dz, x, y, options);
             });
}
TEST_CASE("div_grad: agrees with differences, for every form of the second argument") {
  check_both([](const auto& x, const auto& y, const auto& options) { return lod::div(x, y, options); },
             [](const auto& dz, const auto& x, const auto& y, const auto& options) {
               return lod::div_grad(dz, x, y, options);
             });
}
