// SPDX-License-Identifier: Apache-2.0
#if __has_include(<xtensor/xadapt.hpp>) || __has_include(<xtensor/containers/xadapt.hpp>)
#  include <lod/xtensor.hpp>

#  include <doctest/doctest.h>

#  include <cstdint>
#  include <utility>
#  include <vector>

using lod::LoD;
using lod::LoDTensor;

TEST_CASE("as_xtensor: the rows of a sentence, written in place") {
  LoDTensor<float> x(LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}}), {4});
  auto a = lod::as_xtensor<2>(x[2][0]);
  CHECK(a.shape(0) == 2);
  CHECK(a.shape(1) == 4);
  a(1, 3) = 7;
  CHECK(x.row(11)[3] == 7);
  const auto constant = lod::as_xtensor<2>(std::as_const(x));
  CHECK(constant(11, 3) == 7);
  CHECK_THROWS_AS(lod::as_xtensor<3>(x), lod::ShapeMismatch);
}

TEST_CASE("from_xtensor: an expression, with and without a LoD") {
  LoDTensor<float> x(LoD::from_lengths({{1, 2}}), {2});
  for (std::size_t i = 0; i < 6; ++i) x.values()[i] = static_cast<float>(i);
  const auto a = lod::as_xtensor<2>(x);
  const auto y = lod::from_xtensor<float>(x.lod(), a * 2.0F);
  CHECK(y.lod() == x.lod());
  CHECK(y.shape() == x.shape());
  CHECK(y.row(2)[1] == 10);
  CHECK(lod::from_xtensor<double>(a).levels() == 0);
  CHECK_THROWS_AS(lod::from_xtensor<float>(LoD::from_lengths({{4}}), a + 1.0F), lod::ShapeMismatch);
  const LoDTensor<float> none(LoD::from_offsets({{0}}), {2});
  CHECK(lod::from_xtensor<float>(none.lod(), lod::as_xtensor<2>(none) + 1.0F).rows() == 0);
}
#endif
