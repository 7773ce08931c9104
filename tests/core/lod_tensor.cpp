// SPDX-License-Identifier: Apache-2.0
#include "support/articles.hpp"
#include "support/counting_resource.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod_tensor.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod_test::articles;
using Numbers = std::vector<std::int64_t>;

static_assert(std::random_access_iterator<LoDTensor<float>::iterator>);
static_assert(std::random_access_iterator<LoDTensor<float>::const_iterator>);
static_assert(std::is_convertible_v<LoDTensor<float>::iterator, LoDTensor<float>::const_iterator>);
static_assert(!std::is_convertible_v<LoDTensor<float>::const_iterator, LoDTensor<float>::iterator>);
static_assert(std::is_trivially_copyable_v<lod::LoDTensorView<float>>);
static_assert(std::is_nothrow_move_constructible_v<LoDTensor<float>>);
static_assert(std::is_same_v<decltype(std::declval<const LoDTensor<float>&>()[0].data()), const float*>);
static_assert(std::is_same_v<decltype(std::declval<LoDTensor<float>&>()[0].data()), float*>);
static_assert(std::is_convertible_v<lod::LoDTensorView<float>, lod::LoDTensorView<const float>>);
static_assert(!std::is_convertible_v<lod::LoDTensorView<const float>, lod::LoDTensorView<float>>);
static_assert(lod::LoDTensorLike<LoDTensor<float>> && lod::LoDTensorLike<lod::LoDTensorView<const float>>);

TEST_CASE("LoDTensor: a copy has its own values, a move takes them") {
  LoDTensor<int> x(articles, {2});
  x.values()[5] = 7;
  LoDTensor<int> copy = x;
  copy.values()[5] = 8;
  CHECK(x.values()[5] == 7);
  CHECK(copy.lod() == articles);
  LoDTensor<int> assigned;
  assigned = copy;
  CHECK(assigned.lod() == articles);
  const auto slice = x.slice({2});
  const int* data = x.data();
  const LoDTensor<int> moved = std::move(x);
  CHECK(moved.data() == data);
  CHECK(moved.lod() == articles);
  CHECK(x.rows() == 0);  // NOLINT: the state after a move is a promise
  CHECK(x.levels() == 0);
  CHECK(slice.shape() == Numbers{5, 2});
  CHECK(slice.data() == moved.data() + 20);
}

TEST_CASE("LoDTensor: shapes in braces, of which {} is that of one scalar row") {
  CHECK(LoDTensor<int>({2, 3}).shape() == Numbers{2, 3});
  CHECK(LoDTensor<int>({0}).shape() == Numbers{0});
  CHECK(LoDTensor<int>({}).shape() == Numbers{1});
  CHECK(LoDTensor<int>(lod::Shape()).shape() == Numbers{1});
  const LoDTensor<int> empty = {};
  CHECK(empty.shape() == Numbers{0});
  // No LoD and rows of no numbers, not a shape and a null pointer.
  const LoDTensor<int> narrow({}, {0});
  CHECK(narrow.shape() == Numbers{0, 0});
  CHECK(narrow.resource() != nullptr);
}

TEST_CASE("LoDTensor: memory is aligned, comes from the resource, and goes back to it") {
  lod_test::CountingResource resource;
  {
    LoDTensor<char> x(articles, {3}, &resource);
    CHECK(reinterpret_cast<std::uintptr_t>(x.data()) % lod::alignment == 0);
    CHECK(resource.allocations == 1);
    x.resize(LoD::from_lengths({{2, 2}}), {3});
    CHECK(resource.allocations == 1);
    x.resize(LoD::from_lengths({{200, 2}}), {3});
    CHECK(resource.allocations == 2);
  }
  CHECK(resource.live == 0);
}

TEST_CASE("LoDTensor: a failed resize changes nothing") {
  lod_test::CountingResource resource;
  LoDTensor<int> x(articles, {}, &resource);
  x.values()[3] = 4;
  resource.fail_from = 1;
  CHECK_THROWS_AS(x.resize(LoD::from_lengths({{1000}}), {7}), std::bad_alloc);
  CHECK(x.lod() == articles);
  CHECK(x.row_shape() == Numbers{});
  CHECK(x.values()[3] == 4);
}

TEST_CASE("LoDTensor: user memory is wrapped, not copied") {
  std::vector<float> memory(30, 1.0F);
  auto x = LoDTensor<float>::wrap(memory, articles, {2});
  CHECK(x.data() == memory.data());
  x.row(0)[1] = 5.0F;
  CHECK(memory[1] == 5.0F);
  CHECK_THROWS_AS(x.resize(articles, {3}), lod::ShapeMismatch);
  CHECK(x.row_shape() == Numbers{2});
  CHECK_THROWS_AS(LoDTensor<float>::wrap(memory, articles, {3}), lod::ShapeMismatch);
}

TEST_CASE("LoDTensor: an owner lives as long as what stands on its memory") {
  auto owner = std::make_shared<std::vector<float>>(15);
  const std::weak_ptr<std::vector<float>> watch = owner;
  const std::span<float> memory = *owner;
  auto x = LoDTensor<float>::wrap(memory, articles, {}, std::move(owner));
  auto y = x.with_lod(LoD());
  x = LoDTensor<float>();
  CHECK(!watch.expired());
  CHECK(y.data() == memory.data());
  y = LoDTensor<float>();
  CHECK(watch.expired());
}

TEST_CASE("LoDTensor: with_lod keeps the values where they are") {
  LoDTensor<int> x(articles, {2});
  const LoD other = LoD::from_lengths({{15}});
  auto shared = x.with_lod(other);
  CHECK(shared.lod() == other);
  CHECK(shared.data() == x.data());
  shared.values()[0] = 3;
  CHECK(x.values()[0] == 3);
  const LoDTensor<const int> constant = std::as_const(x).with_lod(other);
  CHECK(constant.data() == x.data());
  const int* data = x.data();
  const auto taken = std::move(x).with_lod(LoD());
  CHECK(taken.data() == data);
  CHECK(taken.levels() == 0);
}

TEST_CASE("LoDTensor: a LoD for another number of rows is refused, and nothing changes") {
  LoDTensor<int> x(articles, {2});
  CHECK_THROWS_AS(x.with_lod(LoD::from_lengths({{14}})), lod::ShapeMismatch);
  CHECK_THROWS_AS(std::move(x).with_lod(LoD::from_lengths({{14}})), lod::ShapeMismatch);
  CHECK(x.lod() == articles);
  CHECK(x.rows() == 15);
  const std::array<int, 5> five{};
  CHECK_THROWS_AS(LoDTensor<int>::from_values(articles, {2}, {1, 2, 3}), lod::ShapeMismatch);
  const auto listed = LoDTensor<float>::from_values(LoD::from_lengths({{2, 0, 1}}), {2}, {1, 2, 3, 4, 5, 6});
  CHECK(listed[2].values()[1] == 6);
  CHECK(LoDTensor<float>::from_values({}, {}, {}).rows() == 0);
  CHECK_THROWS_AS(LoDTensor<int>::from_values(articles, {2}, five), lod::ShapeMismatch);
}

TEST_CASE("LoDTensor: sizes that overflow are refused") {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(LoDTensor<char>({most, 2}), lod::ShapeMismatch);
  CHECK_THROWS_AS(LoDTensor<double>({most / 4}), lod::ShapeMismatch);
  CHECK_THROWS_AS(LoDTensor<float>(articles, {most}), lod::ShapeMismatch);
  CHECK_THROWS_AS(LoDTensor<float>({-1}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}), lod::ShapeMismatch);
}

TEST_CASE("LoDTensor: rows, sequences and branches out of range") {
  const LoDTensor<int> x(articles, {2});
  CHECK_THROWS_AS(x.row(15), lod::OutOfRange);
  CHECK_THROWS_AS(x[3], lod::OutOfRange);
  CHECK_THROWS_AS(x[-1], lod::OutOfRange);
  CHECK_THROWS_AS(x.slice({0, 3}), lod::OutOfRange);
  CHECK_THROWS_AS(x.between(1, 4), lod::OutOfRange);
  CHECK_THROWS_AS(x.between(2, 1), lod::OutOfRange);
}

// The old name of ranges: what is left of it must give what it gave.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST_CASE("LoDTensor: slice(begin, end), which is deprecated, gives what between(begin, end) gives") {
  LoDTensor<int> x(articles, {2});
  std::iota(x.values().begin(), x.values().end(), 0);
  const auto same = [](const auto& a, const auto& b) {
    return a.data() == b.data() && a.absolute_lod() == b.absolute_lod();
  };
  for (std::int64_t begin = 0; begin <= x.size(); ++begin) {
    for (std::int64_t end = begin; end <= x.size(); ++end) {
      CHECK(same(x.slice(begin, end), x.between(begin, end)));
      CHECK(same(std::as_const(x).slice(begin, end), x.between(begin, end)));
      CHECK(same(x.view().slice(begin, end), x.between(begin, end)));
      CHECK(x.lod_view().slice(begin, end).absolute_lod() == x.between(begin, end).absolute_lod());
      CHECK(x.lod().slice(begin, end) == x.between(begin, end).lod());
      CHECK(x.lod().slice(begin, end, 1) == x.lod().between(begin, end, 1));
    }
  }
  CHECK_THROWS_AS(x.slice(1, 4), lod::OutOfRange);
  CHECK_THROWS_AS(x.lod().slice(2, 1), lod::OutOfRange);
}
#pragma GCC diagnostic pop

TEST_CASE("LoDTensor: nested vectors, with rows that are arrays, and empty ones") {
  const auto x =
      LoDTensor<float>::from_nested(std::vector<std::vector<std::array<int, 2>>>{{{1, 2}}, {}, {{3, 4}, {5, 6}}});
  CHECK(x.lod() == LoD::from_lengths({{1, 0, 2}}));
  CHECK(x.shape() == Numbers{3, 2});
  CHECK(x.row(2)[1] == 6.0F);
  CHECK(LoDTensor<int>::from_nested(std::vector<int>{1, 2}).shape() == Numbers{2});
  CHECK(LoDTensor<int>::from_nested(std::vector<std::vector<int>>{}).lod() == LoD::from_offsets({{0}}));
}

TEST_CASE("LoDTensor: the algorithms of the standard library work on sequences") {
  LoDTensor<int> x(articles, {});
  for (std::size_t i = 0; i < 15; ++i) x.values()[i] = static_cast<int>(i);
  const auto longest = std::ranges::max_element(x, {}, [](const auto& article) { return article.rows(); });
  CHECK(longest - x.begin() == 0);
  CHECK(longest->rows() == 9);
  CHECK(std::ranges::count_if(x[0], [](const auto& sentence) { return sentence.rows() > 2; }) == 2);
  const auto from = std::ranges::lower_bound(x, 9, {}, [](const auto& article) { return article.first_row(); });
  CHECK(from->first_row() == 9);
  CHECK((x.end() - 1)[0].rows() == 5);
  CHECK(x.begin()[2].data() == x[2].data());
  const LoDTensor<int>::const_iterator last = x.end() - 1;
  CHECK(last - x.cbegin() == 2);
  CHECK(x.begin() + 2 == last);
  CHECK(last < x.end());
  CHECK(x.cend() == x.end());
}

TEST_CASE("LoDTensor: iteration covers every row once, in order, on random LoDs") {
  for (std::uint64_t number = 1; number <= 40; ++number) {
    lod_test::Engine engine(number);
    CAPTURE(number);
    const LoD index =
        LoD::from_lengths(lod_test::RandomLoD{.levels = static_cast<int>(number % 4) + 1}.lengths(engine));
    LoDTensor<std::int64_t> x(index, {3});
    std::int64_t next = 0;
    const auto walk = [&](const auto& self, lod::LoDTensorView<std::int64_t> part) -> void {
      if (part.levels() == 0) {
        CHECK(part.data() == x.data() + next * 3);
        CHECK(part.first_row() == next);
        next += part.rows();
        return;
      }
      for (auto child : part) self(self, child);
    };
    walk(walk, x.view());
    CHECK(next == x.rows());
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const auto kept = LoDTensor<std::int64_t>::copy_of(x.between(i, x.size()));
      CHECK(kept.lod() == x.between(i, x.size()).lod());
      CHECK(kept.rows() == x.between(i, x.size()).rows());
    }
  }
}

TEST_CASE("LoDTensorView: values are copied and filled by name; an assignment to what is no variable is refused") {
  using View = LoDTensor<float>::View;
  static_assert(std::is_trivially_copyable_v<View>);
  static_assert(std::is_assignable_v<View&, View> && !std::is_assignable_v<View, View>);
  static_assert(!std::is_assignable_v<View, LoDTensor<float>&>);

  LoDTensor<float> x(LoD::from_lengths({{2, 3, 2}}), {2});
  std::iota(x.values().begin(), x.values().end(), 0.0F);
  x[0].copy_into(x[2]);
  CHECK(x[2].values()[0] == 0);
  CHECK(x[2].values()[3] == 3);
  CHECK_THROWS_WITH_AS(x[0].copy_into(x[1]),
                       "copy_into: the values have the shape {2, 2}, those that are to be overwritten {3, 2}",
                       lod::ShapeMismatch);
  CHECK(x[1].values()[0] == 4);
  // One row further, over itself.
  x.between(0, 2).copy_into(x.between(0, 2));
  const LoD none;
  const auto rows = x.view().with_lod(none);
  LoDTensor<float> plain = x.with_lod(none);
  plain.between(0, 3).copy_into(plain.between(1, 4));
  CHECK(std::ranges::equal(rows.between(0, 4).values(), std::vector<float>{0, 1, 0, 1, 2, 3, 4, 5}));

  x.slice({1}).fill(7);
  CHECK(std::ranges::equal(x.values(), std::vector<float>{0, 1, 0, 1, 7, 7, 7, 7, 7, 7, 0, 1, 2, 3}));
  x.fill(0);
  CHECK(std::ranges::all_of(x.values(), [](float number) { return number == 0; }));
  LoDTensor<float>().fill(1);
  LoDTensor<float> nothing;
  LoDTensor<float>().copy_into(nothing);
}

TEST_CASE("LoDTensor: a copy of a view, and the sequences of each level") {
  LoDTensor<float> x(LoD::from_lengths({{2, 1}, {2, 0, 3}}), {});
  std::iota(x.values().begin(), x.values().end(), 0.0F);
  const LoDTensor<float> last(x.slice({1}));
  CHECK(last.lod() == LoD::from_lengths({{1}, {3}}));
  CHECK(last.values()[0] == 2);
  CHECK(last.data() != x.slice({1}).data());
  static_assert(!std::is_convertible_v<LoDTensor<float>::View, LoDTensor<float>>);
  CHECK(x.size(0) == 2);
  CHECK(x.size(-1) == 3);
  CHECK(x.slice({0}).size(1) == 2);
  CHECK_THROWS_AS(static_cast<void>(x.size(2)), lod::OutOfRange);
  CHECK_THROWS_AS(static_cast<void>(LoDTensor<float>({3}).size(0)), lod::OutOfRange);
}

TEST_CASE("LoDTensor: a LoD for 5 rows fits 5 rows, not 9; a tensor without rows is checked too") {
  for (const LoD& five : {LoD::from_offsets({{0, 2}, {0, 1, 3}, {0, 2, 4, 5}}), LoD::from_offsets({{0, 1, 2, 3, 4, 5}}),
                          LoD::from_offsets({{0, 1, 3, 3, 4, 5}})}) {
    CHECK(LoDTensor<int>({5, 1}).with_lod(five).lod() == five);
    CHECK_THROWS_AS(LoDTensor<int>({9, 1}).with_lod(five), lod::ShapeMismatch);
  }
  CHECK_THROWS_AS(LoDTensor<int>({0, 1}).with_lod(LoD::from_offsets({{0, 3}})), lod::ShapeMismatch);
}
