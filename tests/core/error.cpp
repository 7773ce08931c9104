// SPDX-License-Identifier: Apache-2.0
#include "support/assert.hpp"
#include <lod/core/shape.hpp>
#include <lod/error.hpp>
#include <lod/lod_tensor.hpp>

#include <doctest/doctest.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

static_assert(std::derived_from<lod::InvalidLoD, std::invalid_argument>);
static_assert(std::derived_from<lod::ShapeMismatch, std::invalid_argument>);
static_assert(std::derived_from<lod::OutOfRange, std::out_of_range>);
static_assert(std::derived_from<lod::ParseError, std::runtime_error>);
static_assert(std::derived_from<lod::CudaError, std::runtime_error>);

using lod::Shape;
using Numbers = std::vector<std::int64_t>;

TEST_CASE("ParseError: the text repeats the position") {
  const lod::ParseError error("field 3 is missing", 17);
  CHECK(error.position() == 17);
  CHECK(std::string(error.what()) == "field 3 is missing (at byte 17)");
}

TEST_CASE("CudaError: carries the number of the runtime") { CHECK(lod::CudaError("cudaMalloc", 2).code() == 2); }

TEST_CASE("Error texts: numbers of either sign and any size") {
  CHECK(lod::detail::text({"a ", 1, " b ", std::numeric_limits<std::int64_t>::min(), " c ",
                           std::numeric_limits<std::uint64_t>::max()}) ==
        "a 1 b -9223372036854775808 c 18446744073709551615");
}

TEST_CASE("Error texts: a zero byte in a name ends nothing") {
  CHECK(lod::detail::text({"'", std::string("a\0b\0", 4), "' is not there"}) == "'a\\0b\\0' is not there");
  CHECK(lod::detail::text({std::string(), "", 0}) == "0");
}

TEST_CASE("LOD_ASSERT: an iterator that is read at the end is a broken precondition") {
  const lod::LoDTensor<float> x(lod::LoD::from_lengths({{2, 1}}), {});
  CHECK_THROWS_AS(*x.end(), lod_test::AssertionFailure);
  CHECK_THROWS_AS(x.view().element(-1), lod_test::AssertionFailure);
}

TEST_CASE("Shape: dimensions, their product, and parts") {
  const Shape shape = {15, 640, 480};
  CHECK(shape.size() == 3);
  CHECK(shape[1] == 640);
  CHECK(shape.front() == 15);
  CHECK(shape.back() == 480);
  CHECK(shape.elements() == 15 * 640 * 480);
  CHECK(shape.without_first() == Numbers{640, 480});
  CHECK(shape.without_first(5).empty());
  CHECK(Shape(15, {640, 480}) == shape);
  CHECK(Shape().elements() == 1);
  CHECK(to_string(shape) == "{15, 640, 480}");
  CHECK(to_string(Shape()) == "{}");
}

TEST_CASE("Shape: compares with lists and vectors, also such as are no shape") {
  const Shape shape = {2, 3};
  CHECK(shape == std::initializer_list<std::int64_t>{2, 3});
  CHECK(shape == Numbers{2, 3});
  CHECK(shape != Numbers{2});
  CHECK(shape != Numbers{3, 2});
  CHECK(shape != Numbers{-1, 3});
  CHECK(shape != Numbers(20, 1));
}

TEST_CASE("Shape: what is none is refused with the reason") {
  const std::int64_t big = std::int64_t{1} << 40;
  CHECK_THROWS_WITH_AS(Shape({3, -1}), doctest::Contains("dimension 1 is -1"), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(Shape(Numbers(9, 1)), doctest::Contains("more than 8 dimensions"), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(Shape({big, big}), doctest::Contains("exceeds 64 bits"), lod::ShapeMismatch);
  CHECK_THROWS_AS(Shape({big, 0, big}), lod::ShapeMismatch);
  CHECK(Shape({big, 0}).elements() == 0);
}
