// SPDX-License-Identifier: Apache-2.0
// Tensors as nested containers, and back.
#include "support/random_lod.hpp"
#include <lod/float16.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/nested.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using Numbers = std::vector<std::int64_t>;
using Row = std::vector<int>;
using Sentences = std::vector<Row>;
using Articles = std::vector<Sentences>;

namespace {

/// Whether to_nested<Nested>(x) compiles.
template <class Nested, class X>
concept Nestable = requires(const X& x) {
  lod::to_nested<Nested>(x);
};

}  // namespace

TEST_CASE("to_nested: gives back what from_nested took") {
  const Articles written{{{1, 2}, {3}}, {{4, 5, 6}}};
  const auto x = LoDTensor<int>::from_nested(written);
  CHECK(lod::to_nested<Articles>(x) == written);
  CHECK(lod::to_nested<Articles>(x.view()) == written);
}

TEST_CASE("to_nested: slices, elements and ranges of sequences") {
  const auto x = LoDTensor<int>::from_nested(Articles{{{1, 2}, {3}}, {{4, 5, 6}}, {{7}, {8, 9}}});
  CHECK(lod::to_nested<Articles>(x.slice({2})) == Articles{{{7}, {8, 9}}});
  CHECK(lod::to_nested<Articles>(x.between(1, 3)) == Articles{{{4, 5, 6}}, {{7}, {8, 9}}});
  CHECK(lod::to_nested<Sentences>(x[2]) == Sentences{{7}, {8, 9}});
  CHECK(lod::to_nested<Sentences>(x.slice({2, 1})) == Sentences{{8, 9}});
  CHECK(lod::to_nested<Row>(x[2][1]) == Row{8, 9});
}

TEST_CASE("to_nested: empty sequences, and none at all, are empty containers") {
  const Articles written{{}, {{}, {1}, {}}, {{}}};
  CHECK(lod::to_nested<Articles>(LoDTensor<int>::from_nested(written)) == written);
  CHECK(lod::to_nested<Articles>(LoDTensor<int>::from_nested(Articles{})).empty());
  CHECK(lod::to_nested<Row>(LoDTensor<int>()).empty());
  CHECK(lod::to_nested<std::vector<std::array<int, 3>>>(LoDTensor<int>({0, 3})).empty());
}

TEST_CASE("to_nested: rows with a shape are arrays, of arrays where it has more dimensions") {
  LoDTensor<float> x(LoD::from_lengths({{1, 0, 2}}), {2, 3});
  for (std::size_t i = 0; i < 18; ++i) x.values()[i] = static_cast<float>(i);
  using Matrix = std::array<std::array<float, 3>, 2>;
  const auto nested = lod::to_nested<std::vector<std::vector<Matrix>>>(x);
  CHECK(nested ==
        std::vector<std::vector<Matrix>>{{Matrix{{{0, 1, 2}, {3, 4, 5}}}},
                                         {},
                                         {Matrix{{{6, 7, 8}, {9, 10, 11}}}, Matrix{{{12, 13, 14}, {15, 16, 17}}}}});
  CHECK(LoDTensor<float>::from_nested(nested).shape() == x.shape());

  const LoDTensor<float> without_elements(LoD::from_lengths({{2}}), {0});
  CHECK(lod::to_nested<std::vector<std::vector<std::array<float, 0>>>>(without_elements)[0].size() == 2);
}

TEST_CASE("to_nested: any container with push_back, and any number that the elements convert to") {
  const auto x = LoDTensor<lod::float16>::from_nested(std::vector<std::vector<float>>{{1.5F, 2}, {}, {-3}});
  CHECK(lod::to_nested<std::list<std::deque<double>>>(x) == std::list<std::deque<double>>{{1.5, 2}, {}, {-3}});
  CHECK(lod::to_nested<Sentences>(x) == Sentences{{1, 2}, {}, {-3}});
  const auto words = LoDTensor<bool>::from_nested(std::vector<std::vector<bool>>{{true, false}, {}, {true}});
  CHECK(lod::to_nested<std::vector<std::vector<bool>>>(words) ==
        std::vector<std::vector<bool>>{{true, false}, {}, {true}});
}

TEST_CASE("to_nested: containers for other levels or another row shape are refused") {
  const auto x = LoDTensor<int>::from_nested(Sentences{{1, 2}, {3}});
  CHECK_THROWS_WITH_AS(lod::to_nested<Articles>(x), "to_nested: containers for 2 levels, but there are 1",
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::to_nested<Row>(x), "to_nested: containers for 0 levels, but there are 1",
                       lod::ShapeMismatch);
  using Pairs = std::vector<std::vector<std::array<int, 2>>>;
  CHECK_THROWS_WITH_AS(lod::to_nested<Pairs>(x), "to_nested: containers for rows of shape {2}, but they have {}",
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::to_nested<Sentences>(LoDTensor<int>(x.lod(), {1})),
                       "to_nested: containers for rows of shape {}, but they have {1}", lod::ShapeMismatch);
  CHECK(Nestable<Row, LoDTensor<int>>);
  CHECK(!Nestable<int, LoDTensor<int>>);
  CHECK(!Nestable<Row, LoD>);
}

TEST_CASE("to_nested: random batches come back as they were") {
  lod_test::for_each_random_lod(12, 0, 3, [](lod_test::Engine& engine, const lod_test::Lengths& lengths) {
    const auto x = lod_test::counted_rows(lengths, lod_test::random_number(engine, 0, 5));
    const auto check = [&](auto nested) {
      using Nested = decltype(nested);
      const auto back = LoDTensor<std::int64_t>::from_nested(lod::to_nested<Nested>(x));
      REQUIRE(back.lod() == x.lod());
      REQUIRE(lod::to_nested<Nested>(back) == lod::to_nested<Nested>(x));
      REQUIRE(std::vector(back.values().begin(), back.values().end()) ==
              std::vector(x.values().begin(), x.values().end()));
    };
    switch (x.levels()) {
      case 0:
        return check(Numbers());
      case 1:
        return check(std::vector<Numbers>());
      case 2:
        return check(std::vector<std::vector<Numbers>>());
      default:
        return check(std::vector<std::vector<std::vector<Numbers>>>());
    }
  });
}
