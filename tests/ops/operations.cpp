// SPDX-License-Identifier: Apache-2.0
/// @file
/// The list of all operations.
#include <lod/ops.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::vector<std::string_view> names_of_operations() {
  std::vector<std::string_view> names;
  lod::operation::for_each_operation(lod::AllOperations(),
                                     [&]<class Op>() { names.push_back(lod::operation::name_of<Op>); });
  return names;
}

template <class Op>
concept HasGradient = requires {
  typename lod::operation::Declared<Op>::Gradient;
};

}  // namespace

static_assert(lod::operation::name_of<lod::op::add> == "add");
static_assert(lod::operation::name_of<lod::op::embedding_pool_weights_grad> == "embedding_pool_weights_grad");

TEST_CASE("AllOperations has each operation once, in the order of their names") {
  const std::vector<std::string_view> names = names_of_operations();
  CHECK(names.size() == lod::AllOperations::size);
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("AllOperations: a declared operation has the name of its tag, and so has its gradient") {
  const std::vector<std::string_view> names = names_of_operations();
  lod::operation::for_each_operation(lod::AllOperations(), [&]<class Op>() {
    const std::string name(lod::operation::name_of<Op>);
    CAPTURE(name);
    if constexpr (requires { lod::operation::Declared<Op>::name; }) CHECK(lod::operation::Declared<Op>::name == name);
    if constexpr (HasGradient<Op>) {
      const std::string gradient(lod::operation::name_of<typename lod::operation::Declared<Op>::Gradient>);
      CHECK(gradient == name + "_grad");
      CHECK(std::ranges::binary_search(names, gradient));
    }
  });
}
