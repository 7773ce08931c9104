// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {

template <class U>
std::vector<U> reference_mask(std::span<const std::int64_t> lengths, std::int64_t max_length) {
  std::vector<U> mask;
  for (const std::int64_t length : lengths) {
    for (std::int64_t place = 0; place < max_length; ++place) mask.push_back(static_cast<U>(place < length ? 1 : 0));
  }
  return mask;
}

template <class U>
void check_mask(const LoDTensor<U>& mask, std::span<const std::int64_t> lengths, std::int64_t max_length) {
  CHECK(mask.shape().back() == max_length);
  const auto expected = reference_mask<U>(lengths, max_length);
  CHECK(std::equal(expected.begin(), expected.end(), mask.values().begin(), mask.values().end()));
}

}  // namespace

TEST_CASE("sequence_mask: the cases of PaddlePaddle's tests, for every type") {
  const Numbers numbers = {0, 3, 4, 5, 7, 9};
  const auto lengths = LoDTensor<std::int64_t>::from_values(LoD(), {3}, numbers);
  for_each_type(AllTypes(), [&]<class U>(std::type_identity<U>) {
    for_each_executor([&](const auto& executor) {
      const auto mask = lod::sequence_mask<U>(executor, lengths);
      CHECK(mask.shape() == lod::Shape{2, 3, 9});
      check_mask(mask, numbers, 9);
      check_mask(lod::sequence_mask<U>(executor, lengths, {.max_length = 10}), numbers, 10);
      check_mask(lod::sequence_mask<U>(executor, lengths, {.max_length = 4}), numbers, 4);
    });
  });
}

TEST_CASE("sequence_mask: lengths as a vector, a span, a list in braces, a slice, with levels, and from sequence_pad") {
  const Numbers numbers = {2, 0, 3};
  CHECK(lod::sequence_mask<float>(numbers).shape() == lod::Shape{3, 3});
  CHECK(
      same_bits(lod::sequence_mask(numbers), lod::sequence_mask<std::int64_t>(std::span<const std::int64_t>(numbers))));
  CHECK(same_bits(lod::sequence_mask(numbers), lod::sequence_mask({2, 0, 3})));
  CHECK(lod::sequence_mask<float>({2, 0, 3}, {.max_length = 4}).shape() == lod::Shape{3, 4});
  for_each_executor([&](const auto& executor) {
    LoDTensor<float> y;
    lod::sequence_mask_into(executor, {2, 0, 3}, y);
    CHECK(same_bits(y, lod::sequence_mask<float>(executor, {2, 0, 3})));
  });
  const auto lengths = LoDTensor<std::int64_t>::from_values(LoD::from_lengths({{2, 1}}), {}, numbers);
  const auto mask = lod::sequence_mask<bool>(lengths);
  CHECK(mask.lod() == lengths.lod());
  check_mask(mask, numbers, 3);
  const auto part = lod::sequence_mask<bool>(lengths.slice({0}));
  CHECK(part.lod() == LoD::from_lengths({{2}}));
  check_mask(part, {{2, 0}}, 2);
  check_mask(lod::sequence_mask<int>(lengths[0]), {{2, 0}}, 2);

  LoDTensor<float> ones(LoD::from_lengths({{3, 0, 5, 1}}), {});
  for (float& number : ones.values()) number = 1;
  const auto padded = lod::sequence_pad(ones);
  CHECK(same_bits(lod::sequence_mask<float>(padded.lengths), padded.dense));
}

TEST_CASE("sequence_mask: no lengths, no places") {
  CHECK(lod::sequence_mask(Numbers{}).shape() == lod::Shape{0, 0});
  CHECK(lod::sequence_mask(Numbers{}, {.max_length = 3}).shape() == lod::Shape{0, 3});
  CHECK(lod::sequence_mask(Numbers{0, 0}).shape() == lod::Shape{2, 0});
  CHECK(lod::sequence_mask(Numbers{1, 2}, {.max_length = 0}).shape() == lod::Shape{2, 0});
}

TEST_CASE("sequence_mask: random lengths, by any number of threads; a second call allocates nothing") {
  Engine engine(3);
  for (const std::int64_t longest : {1, 30, 5000}) {
    Numbers lengths;
    for (int i = 0; i < 300; ++i) lengths.push_back(random_number(engine, 0, longest));
    const std::int64_t places = *std::max_element(lengths.begin(), lengths.end());
    for (const int threads : thread_counts) {
      CountingResource resource;
      const lod::CpuExecutor executor(threads, &resource);
      LoDTensor<std::int16_t> y(&resource);
      lod::sequence_mask_into(executor, lengths, y);
      const int before = resource.allocations;
      lod::sequence_mask_into(executor, lengths, y);
      CHECK(resource.allocations == before);
      check_mask(y, lengths, places);
    }
  }
}

TEST_CASE("sequence_mask: bad arguments throw and change nothing") {
  LoDTensor<float> y({2, 3});
  const lod::CpuExecutor executor(1);
  check_throws<lod::OutOfRange>(
      [&] {
        lod::sequence_mask_into(executor, Numbers{1, -1}, y);
      },
      "sequence_mask: length 1 is -1, expected 0 or more", y);
  check_throws<lod::OutOfRange>(
      [&] {
        lod::sequence_mask_into(executor, Numbers{1, 2}, {.max_length = -2}, y);
      },
      "sequence_mask: max_length -2, expected -1 or more", y);
  lod::sequence_mask_into(executor, Numbers{1, 3}, y.view());
  check_mask(y, {{1, 3}}, 3);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::sequence_mask_into(executor, Numbers{1, 2}, y.view());
      },
      ": a view of shape {2, 3} with 0 levels, expected shape {2, 2}", y);
}

TEST_CASE("infer_sequence_mask: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<std::int64_t>(0, {2}, [](Engine&, const lod::LoDTensor<std::int64_t>& x) {
    lod::LoDTensor<std::int64_t> lengths = x;
    for (std::int64_t& length : lengths.values()) length += 3;
    for (const std::int64_t places : {-1, 4}) {
      const lod::MaskOptions options{.max_length = places};
      check_inference(
          lod::sequence_mask<float>(lengths, options),
          [&](const auto& desc) { return lod::infer_sequence_mask(desc, lod::DataType::FP32, options); },
          describe(lengths));
    }
  });
  const auto lengths = described(lod::DataType::INT64, {6, 2}, 1);
  CHECK(lod::infer_sequence_mask(lengths) == described(lod::DataType::INT64, {6, 2, -1}, 1));
  CHECK(lod::infer_sequence_mask(lengths, lod::DataType::BOOL, {.max_length = 9}) ==
        described(lod::DataType::BOOL, {6, 2, 9}, 1));
  CHECK_THROWS_AS(lod::infer_sequence_mask(lengths, lod::DataType::BOOL, {.max_length = -2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_sequence_mask(lengths, lod::DataType::COMPLEX64), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_mask(described(lod::DataType::INT32, {6})),
                       doctest::Contains("sequence_mask: lengths: elements of INT32, expected INT64"),
                       lod::ShapeMismatch);
}
