// SPDX-License-Identifier: Apache-2.0
#include "support/element_types.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <complex>
#include <cstdint>
#include <type_traits>
#include <vector>

using lod::supports;

static_assert(supports<lod::op::sequence_softmax, float>);
static_assert(supports<lod::op::sequence_softmax, lod::bfloat16>);
static_assert(!supports<lod::op::sequence_softmax, int>);
static_assert(!supports<lod::op::sequence_softmax, long double>);
static_assert(supports<lod::op::sequence_pool, bool>);
static_assert(supports<lod::op::sequence_pool, long long>);
static_assert(!supports<lod::op::sequence_pool, std::complex<float>>);
static_assert(supports<lod::op::select, std::complex<float>>);
static_assert(supports<lod::op::add, std::uint8_t>);
static_assert(!supports<lod::op::add, bool>);
static_assert(!supports<lod::op::add_grad, std::uint8_t>);
static_assert(supports<lod::op::edit_distance, std::int16_t>);
static_assert(supports<lod::op::edit_distance, char>);
static_assert(!supports<lod::op::edit_distance, double>);
static_assert(supports<lod::op::adam, lod::float16>);
static_assert(!supports<lod::op::adam, std::int64_t>);

// Where no back end for GPUs is included, as here, there are no kernels for them (with one: tests/cuda/tensors.cpp);
// whether an operation could have some is known all the same.
static_assert(!supports<lod::op::sequence_pool, float, lod::Cuda>);
static_assert(!supports<lod::op::sequence_erase, std::int64_t, lod::Cuda>);
static_assert(!lod::on_cpu_only<lod::op::sequence_pool> && lod::on_cpu_only<lod::op::sequence_erase>);
static_assert(!lod::on_cpu_only<lod::op::sequence_erase_and_wait>);

// A back end says, operation by operation, what it has; the elements stay those that the operation has a meaning for.
namespace {
struct OtherDevice;
}  // namespace
template <>
inline constexpr bool lod::has_kernels<lod::op::sequence_softmax, OtherDevice> = true;
static_assert(supports<lod::op::sequence_softmax, float, OtherDevice>);
static_assert(!supports<lod::op::sequence_softmax, int, OtherDevice>);
static_assert(!supports<lod::op::sequence_log_softmax, float, OtherDevice>);

TEST_CASE_TEMPLATE("supports: kinds of elements say the same of types and of DataTypes", Kind, lod::elements::Any,
                   lod::elements::Arithmetic, lod::elements::Number, lod::elements::Id, lod::elements::Floating) {
  lod_test::for_each_type(lod_test::AllTypes(), []<class T>(std::type_identity<T>) {
    CHECK(Kind::template includes<T> == Kind::has(lod::data_type_v<T>));
  });
  CHECK(Kind::template includes<std::complex<double>> == Kind::has(lod::DataType::COMPLEX128));
  CHECK(Kind::template includes<std::uint64_t> == Kind::has(lod::DataType::UINT64));
}

TEST_CASE("supports: what is unsigned and of 32 or 64 bits counts as integers do") {
  const auto lod = lod::LoD::from_lengths({{2, 0, 1}});
  lod_test::for_each_type(lod_test::Types<std::uint32_t, std::uint64_t>(), [&]<class T>(std::type_identity<T>) {
    static_assert(supports<lod::op::sequence_pool, T> && supports<lod::op::sequence_cumsum, T> &&
                  supports<lod::op::sequence_sort, T> && supports<lod::op::add, T>);
    const auto x = lod::LoDTensor<T>::from_values(lod, {}, std::vector<T>{3, 1, 2});
    CHECK(lod::sequence_pool(x, lod::PoolType::SUM).values()[0] == 4);
    CHECK(lod::sequence_cumsum(x).values()[1] == 4);
    CHECK(lod::sequence_sort(x).values()[0] == 1);
    CHECK(lod::add(x, x).values()[2] == 4);
  });
}
