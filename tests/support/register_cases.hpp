// SPDX-License-Identifier: Apache-2.0
/// @file
/// Test cases that hold for many operations: one for each, whose name begins with that of the operation.
#pragma once

#include <lod/ops/operations.hpp>

#include <doctest/doctest.h>

#include <string>

namespace lod_test {

/// Registers a case "<operation>: <Property::name>", which is Property::check<Op>(), for each operation for which
/// Property::holds_for<Op>.
template <class Property>
bool register_cases(const char* file, unsigned line) {
  lod::operation::for_each_operation(lod::AllOperations(), [&]<class Op>() {
    if constexpr (Property::template holds_for<Op>) {
      // doctest keeps the address of the name.
      static const std::string name = std::string(lod::operation::name_of<Op>) + ": " + Property::name;
      const doctest::detail::TestSuite suite{};
      doctest::detail::regTest(doctest::detail::TestCase(&Property::template check<Op>, file, line, suite) *
                               name.c_str());
    }
  });
  return true;
}

}  // namespace lod_test
