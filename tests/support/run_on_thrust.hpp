// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs over Thrust, whose operators are compiled once for all tests.
#pragma once

#include "support/close.hpp"
#include "support/same_bits.hpp"
#include <lod/any_tensor.hpp>
#include <lod/program.hpp>
#include <lod/run.hpp>
#include <lod/scope.hpp>

#include <doctest/doctest.h>

#include <concepts>
#include <cstddef>
#include <string>
#include <vector>

namespace lod_test {

/// Whether there is an operator of that type over Thrust: those that tests add are for CPUs.
bool runs_on_thrust(const std::string& type);
/// `lod::run` over the first of Thrust's systems.
std::vector<lod::AnyLoDTensor> run_on_thrust(const lod::ProgramDesc& program, lod::Scope& scope,
                                             const lod::RunOptions& options);

/// Checks that a tensor is what another executor gave: the same bits, but for floating-point numbers, of which sums and
/// exponentials differ in the last ones.
inline void check_close(const lod::AnyLoDTensor& found, const lod::AnyLoDTensor& expected) {
  REQUIRE(found.data_type() == expected.data_type());
  REQUIRE(found.shape() == expected.shape());
  CHECK(found.lod() == expected.lod());
  found.visit([&]<class View>(const View& view) {
    using T = typename View::value_type;
    if constexpr (std::floating_point<T>) {
      const auto other = expected.view<T>().values();
      const double allowed = sizeof(T) == 4 ? 1e-5 : 1e-10;
      for (std::size_t i = 0; i < other.size(); ++i) {
        CAPTURE(i);
        CAPTURE(other[i]);
        CHECK(close(view.values()[i], static_cast<double>(other[i]), allowed));
      }
    } else {
      CHECK(same_bits(found, expected));
    }
  });
}

}  // namespace lod_test
