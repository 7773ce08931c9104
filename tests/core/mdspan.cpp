// SPDX-License-Identifier: Apache-2.0
// Multidimensional spans over tensors and slices: the same with std::mdspan, that of Kokkos, and the library's own.
#include <lod/lod_tensor.hpp>
#include <lod/mdspan.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

using lod::LoD;
using lod::LoDTensor;
using Index1 = std::array<int, 1>;
using Index2 = std::array<int, 2>;
using Index3 = std::array<int, 3>;

namespace {

const LoD two_levels = LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}});

template <class X>
concept Spannable = requires(X&& x) {
  lod::as_mdspan<2>(std::forward<X>(x));
};

}  // namespace

TEST_CASE("as_mdspan: the rows of a sentence, written in place") {
  LoDTensor<float> x(two_levels, {4});
  const auto a = lod::as_mdspan<2>(x[2][0]);
  CHECK(a.rank() == 2);
  CHECK(a.extent(0) == 2);
  CHECK(a.extent(1) == 4);
  CHECK(a.size() == 8);
  CHECK(!a.empty());
  CHECK(a.stride(0) == 4);
  CHECK(a.stride(1) == 1);
  CHECK(a.data_handle() == x.data() + 10 * 4);
  a[Index2{1, 3}] = 7;
  CHECK(x.row(11)[3] == 7);
}

TEST_CASE("as_mdspan: each element is where row-major order has it") {
  LoDTensor<int> x(LoD::from_lengths({{2, 0, 1}}), {2, 5});
  for (std::size_t i = 0; i < 30; ++i) x.values()[i] = static_cast<int>(i);
  const auto a = lod::as_mdspan<3>(x);
  int expected = 0;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int k = 0; k < 5; ++k) CHECK(a[Index3{i, j, k}] == expected++);
    }
  }
  CHECK(a.stride(0) == 10);
  CHECK(a.stride(1) == 5);
  CHECK(a.stride(2) == 1);
}

TEST_CASE("as_mdspan: rank 2 is the matrix {rows, row size} of any row shape, other ranks are refused") {
  const LoDTensor<int> scalars({3}), matrices({3, 2, 5}), pairs({3, 2});
  CHECK(lod::as_mdspan<2>(scalars).extent(1) == 1);
  CHECK(lod::as_mdspan<1>(scalars).extent(0) == 3);
  CHECK(lod::as_mdspan<1>(scalars)[Index1{2}] == 0);
  CHECK(lod::as_mdspan<2>(matrices).extent(1) == 10);
  CHECK_THROWS_WITH_AS(lod::as_mdspan<3>(pairs),
                       "as_mdspan: rank 3 for rows of shape {2}, expected 2, or 2 for {rows, row size}",
                       lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::as_mdspan<1>(pairs), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::as_mdspan<4>(matrices), lod::ShapeMismatch);
}

TEST_CASE("as_mdspan: writes unless the tensor or its elements are const, and is not of a temporary") {
  LoDTensor<float> x({2, 2});
  const auto writable = lod::as_mdspan<2>(x);
  const auto constant = lod::as_mdspan<2>(std::as_const(x));
  CHECK(std::is_same_v<decltype(writable[Index2{0, 0}]), float&>);
  CHECK(std::is_same_v<decltype(constant[Index2{0, 0}]), const float&>);
  const lod::Mdspan<const float, 2> converted = writable;
  CHECK(converted.data_handle() == x.data());
  CHECK(converted.extent(1) == 2);
  const std::array<const float, 4> values{1, 2, 3, 4};
  const auto borrowed = LoDTensor<const float>::wrap(values, LoD(), {2});
  CHECK(lod::as_mdspan<2>(borrowed)[Index2{1, 1}] == 4);

  CHECK(Spannable<LoDTensor<float>&>);
  CHECK(Spannable<const LoDTensor<float>&>);
  CHECK(!Spannable<LoDTensor<float>>);
}

TEST_CASE("as_mdspan: tensors without rows, or without elements in a row") {
  const LoDTensor<float> none(LoD::from_offsets({{0}}), {2});
  CHECK(lod::as_mdspan<2>(none).extent(0) == 0);
  CHECK(lod::as_mdspan<2>(none).size() == 0);
  CHECK(lod::as_mdspan<2>(none).empty());
  CHECK(lod::as_mdspan<3>(LoDTensor<float>({3, 0, 2}).view()).empty());
  CHECK(lod::Mdspan<float, 2>().empty());
}

TEST_CASE("as_mdspan: elements by their indices one by one, where the span or the language has that") {
  LoDTensor<int> x({2, 3});
  x.row(1)[2] = 5;
  [[maybe_unused]] const auto a = lod::as_mdspan<2>(x);
#ifndef __cpp_lib_mdspan
  CHECK(a(1, 2) == 5);
#endif
#ifdef __cpp_multidimensional_subscript
  CHECK(a[1, 2] == 5);
#endif
  CHECK(lod::as_mdspan<2>(x[1])[Index2{0, 2}] == 5);
}
