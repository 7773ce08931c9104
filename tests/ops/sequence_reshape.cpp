// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

/// Reshapes x, whose lengths are given, and back.
template <class Executor, lod::LoDTensorLike X>
void check_reshape(const Executor& executor, const X& x, Lengths lengths, std::int64_t new_row_size) {
  INFO("row size ", x.row_size(), ", new row size ", new_row_size);
  const auto y = lod::sequence_reshape(executor, x, new_row_size);
  for (std::int64_t& length : lengths.back()) length = length * x.row_size() / new_row_size;
  CHECK(y.lod() == LoD::from_lengths(lengths));
  CHECK(y.row_shape() == lod::Shape{new_row_size});
  const auto view = x.view();
  CHECK(std::equal(y.values().begin(), y.values().end(), view.values().begin(), view.values().end()));
  CHECK(same_bits(lod::sequence_reshape_grad(executor, y, view.lod(), view.row_shape()), x));
}

}  // namespace

TEST_CASE("sequence_reshape: the cases of PaddlePaddle's tests") {
  Engine engine(1);
  for_each_executor([&](const auto& executor) {
    const auto check = [&](const std::vector<std::int64_t>& lengths, std::int64_t row_size, std::int64_t new_row_size) {
      check_reshape(executor, small_integers<float>(engine, LoD::from_lengths({lengths}), {row_size}), {lengths},
                    new_row_size);
    };
    check({4, 1, 3, 3}, 24, 12);
    check({4, 2, 2, 4}, 12, 24);
    check({4, 2, 2, 4}, 12, 12);
    check({0, 6, 0, 2, 4}, 12, 24);
    check({0, 2, 8, 2, 0}, 12, 24);
  });
}

TEST_CASE("sequence_reshape: slices of every type, depth and row size") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {row_size, 4});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        for (const std::int64_t parts : {1, 2, 4}) {
          check_reshape(lod::CpuExecutor(2), slice, slice.lod().lengths(), row_size * parts);
        }
      }
    });
  });
}

TEST_CASE("sequence_reshape: batches without sequences, of empty ones only, and rows without elements") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}}) {
    check_reshape(lod::CpuExecutor(1), LoDTensor<float>(LoD::from_lengths(lengths), {3}), lengths, 5);
  }
  check_reshape(lod::CpuExecutor(1), LoDTensor<float>(LoD::from_lengths({{2, 1}}), {0}), {{2, 1}}, 5);
}

TEST_CASE("sequence_reshape_grad: agrees with differences") {
  Engine engine(5);
  auto x = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 1}, {2, 0, 4}}), {3});
  check_gradient(
      engine, x, [](const auto& at) { return lod::sequence_reshape(at, 2); },
      [&](const auto& dy) { return lod::sequence_reshape_grad(dy, x.lod(), {3}); });
}

TEST_CASE("sequence_reshape: bad arguments throw and change nothing") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 0}, {2, 1}}), {4}), plain({3, 2});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_reshape_into(executor, plain, 2, y); },
                                "sequence_reshape: the tensor has no level, expected at least one", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_reshape_into(executor, x, 0, y); },
                                "sequence_reshape: new_row_size 0, expected 1 or more", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_reshape_into(executor, x, 8, y); },
                                   "sequence 1 of level 1 has 4 values, expected a multiple of new_row_size, 8", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_reshape_grad_into(executor, x, LoD(), {4}, y); },
                                "sequence_reshape_grad: lod: the tensor has no level", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_reshape_grad_into(executor, x, x.lod(), {3}, y); },
                                   "sequence_reshape_grad: dy: 12 values, expected 9, as x has", y);
}

TEST_CASE("sequence_reshape: a view as the output must have the shape and the levels of the result") {
  Engine engine(2);
  const auto x = small_integers<float>(engine, LoD::from_lengths({{2, 1}}), {2});
  const lod::CpuExecutor executor(1);
  LoDTensor<float> y(LoD::from_lengths({{4, 2}}), {1}), other(LoD::from_lengths({{3, 3}}), {1});
  lod::sequence_reshape_into(executor, x, 1, y.view());
  CHECK(same_bits(y, lod::sequence_reshape(x, 1)));
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_reshape_into(executor, x, 1, other.view()); },
                                   ": a view of shape {6, 1} with 1 levels", other);
}

TEST_CASE("infer_sequence_reshape: allows what the operation gives, and knows the rows where they follow") {
  for_each_random_batch<float>(1, {2, 3}, [](Engine&, const lod::LoDTensor<float>& x) {
    const auto y = lod::sequence_reshape(x, 2);
    check_inference(
        y, [](const auto& desc) { return lod::infer_sequence_reshape(desc, 2); }, describe(x));
    check_inferred(lod::sequence_reshape_grad(y, x.lod(), x.row_shape()), describe(x));
  });
  CHECK(lod::infer_sequence_reshape(described(lod::DataType::FP32, {4, 6}, 2), 8) ==
        described(lod::DataType::FP32, {3, 8}, 2));
  CHECK(lod::infer_sequence_reshape(described(lod::DataType::FP32, {4, -1}, 2), 8) ==
        described(lod::DataType::FP32, {-1, 8}, 2));
  CHECK_THROWS_AS(lod::infer_sequence_reshape(described(lod::DataType::FP32, {4, 6}), 8), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_reshape(described(lod::DataType::FP32, {4, 6}, 1), 0), lod::OutOfRange);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_reshape(described(lod::DataType::FP32, {4, 6}, 1), 7),
                       doctest::Contains("24 values, expected a multiple of new_row_size, 7"), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_reshape(described(lod::DataType::FP32, {std::int64_t{1} << 62, 4}, 1), 7),
                       doctest::Contains("exceeds 64 bits"), lod::ShapeMismatch);
}
