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
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

using lod::Im2SequenceOptions;
using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {

/// The patches of all images, and how many each has.
template <class T>
struct Patches {
  std::vector<T> values;
  Numbers lengths;
};

template <lod::LoDTensorLike Images>
Patches<typename Images::value_type> reference_patches(const Images& images, const Im2SequenceOptions& options) {
  using T = typename Images::value_type;
  const auto view = images.view();
  const std::int64_t channels = view.row_shape()[0], height = view.row_shape()[1], width = view.row_shape()[2];
  Patches<T> patches;
  for (std::int64_t i = 0; i < view.rows(); ++i) {
    std::int64_t shown[] = {height, width};
    for (std::size_t dim = 0; !options.real_sizes.empty() && dim < 2; ++dim) {
      const std::int64_t real = options.real_sizes[2 * static_cast<std::size_t>(i) + dim];
      shown[dim] = (real + options.out_strides[dim] - 1) / options.out_strides[dim];
    }
    std::int64_t count = 0;
    const auto& [up, left, down, right] = options.paddings;
    for (std::int64_t top = -up; top + options.kernels[0] <= shown[0] + down; top += options.strides[0]) {
      for (std::int64_t first = -left; first + options.kernels[1] <= shown[1] + right; first += options.strides[1]) {
        ++count;
        for (std::int64_t channel = 0; channel < channels; ++channel) {
          for (std::int64_t y = top; y < top + options.kernels[0]; ++y) {
            for (std::int64_t x = first; x < first + options.kernels[1]; ++x) {
              const bool inside = y >= 0 && y < height && x >= 0 && x < width;
              const std::int64_t pixel = ((i * channels + channel) * height + y) * width + x;
              patches.values.push_back(inside ? view.data()[pixel] : T{});
            }
          }
        }
      }
    }
    patches.lengths.push_back(count);
  }
  return patches;
}

template <class Executor, lod::LoDTensorLike Images>
void check_patches(const Executor& executor, const Images& images, const Im2SequenceOptions& options) {
  const auto y = lod::im2sequence(executor, images, options);
  const auto expected = reference_patches(images, options);
  Lengths lengths = images.view().lod().lengths();
  lengths.push_back(expected.lengths);
  CHECK(y.lod() == LoD::from_lengths(lengths));
  CHECK(y.row_shape() == lod::Shape{images.row_shape()[0] * options.kernels[0] * options.kernels[1]});
  CHECK(std::equal(expected.values.begin(), expected.values.end(), y.values().begin(), y.values().end()));
}

const Im2SequenceOptions geometries[] = {
    {},
    {.kernels = {2, 2}},
    {.kernels = {2, 2}, .strides = {1, 1}, .paddings = {1, 1, 1, 1}},
    {.kernels = {2, 1}, .strides = {2, 1}, .paddings = {2, 1, 2, 1}},
    {.kernels = {3, 2}, .strides = {1, 3}, .paddings = {0, 4, 1, 0}},
    {.kernels = {1, 5}, .strides = {4, 2}, .paddings = {3, 0, 0, 3}},
    {.kernels = {9, 9}},
};

}  // namespace

TEST_CASE("im2sequence: two images of two channels, as in PaddlePaddle's documentation") {
  const auto images = LoDTensor<float>::from_values(
      LoD(), {2, 3, 3}, std::vector<float>{6, 2, 1, 8, 3, 5, 0, 2, 6, 2, 4, 4, 6, 3, 0, 6, 4, 7,
                                           6, 7, 1, 5, 7, 9, 2, 4, 8, 1, 2, 1, 3, 5, 1, 0, 8, 9});
  const auto y = lod::im2sequence(images, {.kernels = {2, 2}});
  CHECK(y.lod() == LoD::from_offsets({{0, 4, 8}}));
  CHECK(y.shape() == lod::Shape{8, 8});
  CHECK(std::vector<float>(y.row(0).begin(), y.row(0).end()) == std::vector<float>{6, 2, 8, 3, 2, 4, 6, 3});
  CHECK(std::vector<float>(y.row(1).begin(), y.row(1).end()) == std::vector<float>{2, 1, 3, 5, 4, 4, 3, 0});
  CHECK(std::vector<float>(y.row(7).begin(), y.row(7).end()) == std::vector<float>{7, 9, 4, 8, 5, 1, 8, 9});
}

TEST_CASE("im2sequence: the cases of PaddlePaddle's tests") {
  Engine engine(1);
  for_each_executor([&](const auto& executor) {
    const auto check = [&](const lod::Shape& shape, const Im2SequenceOptions& options) {
      check_patches(executor, small_integers<float>(engine, shape), options);
    };
    check({1, 3, 4, 10}, geometries[2]);
    check({2, 3, 4, 5}, geometries[3]);
    check({6, 1, 4, 5}, geometries[3]);
    check({6, 2, 3, 3}, geometries[1]);
    const Numbers real_sizes = {8, 10, 5, 8, 5, 8};
    check({3, 1, 4, 5}, {.kernels = {2, 1},
                         .strides = {2, 1},
                         .paddings = {2, 1, 2, 1},
                         .real_sizes = real_sizes,
                         .out_strides = {2, 2}});
    check({3, 2, 6, 5}, {.kernels = {2, 2},
                         .strides = {1, 1},
                         .paddings = {1, 1, 1, 1},
                         .real_sizes = real_sizes,
                         .out_strides = {2, 2}});
  });
}

TEST_CASE("im2sequence: agrees with nested loops for every type, for slices and for films of any depth") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(4, 1, 5, [](Engine& engine, const Lengths& lengths) {
      const LoD frames = LoD::from_lengths(lengths);
      if (frames.rows() > 60) return;
      const lod::Shape image{random_number(engine, 1, 3), random_number(engine, 1, 6), random_number(engine, 1, 6)};
      const auto films = small_integers<T>(engine, frames, image);
      const auto slice = films.between(random_number(engine, 0, films.size() > 0), films.size());
      for (const auto& options : geometries) {
        check_patches(lod::CpuExecutor(2), slice, options);
        check_patches(lod::CpuExecutor(2), small_integers<T>(engine, lod::Shape(2, image)), options);
      }
    });
  });
}

TEST_CASE("im2sequence: no images, no channels, no pixels") {
  for (const auto& shape : std::vector<lod::Shape>{{0, 2, 3, 3}, {2, 0, 3, 3}, {2, 2, 0, 3}, {2, 2, 3, 0}}) {
    for (const auto& options : geometries) {
      const LoDTensor<float> images(shape);
      check_patches(lod::CpuExecutor(2), images, options);
      CHECK(same_bits(lod::im2sequence_grad(lod::im2sequence(images, options), images, options), images));
    }
  }
}

TEST_CASE("im2sequence_grad: agrees with differences, with real sizes too") {
  Engine engine(3);
  const Numbers real_sizes = {7, 5, 0, 4, 8, 9};
  for (auto options : geometries) {
    for (const bool real : {false, true}) {
      auto images = real_numbers<double>(engine, {3, 2, 4, 5});
      options.out_strides = {2, 2};
      options.real_sizes = {};
      if (real) options.real_sizes = real_sizes;
      check_gradient(
          engine, images, [&](const auto& at) { return lod::im2sequence(at, options); },
          [&](const auto& dy) { return lod::im2sequence_grad(dy, images, options); });
    }
  }
  auto films = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 1}}), {1, 3, 3});
  check_gradient(
      engine, films,
      [](const auto& at) {
        return lod::im2sequence(at, {.kernels = {2, 2}});
      },
      [&](const auto& dy) {
        return lod::im2sequence_grad(dy, films, {.kernels = {2, 2}});
      });
}

TEST_CASE("im2sequence_grad: the overlaps of 16-bit numbers are added in float and rounded once") {
  const LoDTensor<lod::float16> images({1, 1, 1, 1});
  const Im2SequenceOptions options{.kernels = {3, 3}, .strides = {1, 1}, .paddings = {2, 2, 2, 2}};
  LoDTensor<lod::float16> dy({9, 9});
  for (auto& number : dy.values()) number = lod::float16(0.25F);
  dy.data()[8] = lod::float16(1024.F);
  // 1024 and eight times a quarter: one of them alone would be lost.
  CHECK(lod::im2sequence_grad(dy, images, options).data()[0] == lod::float16(1026.F));
}

TEST_CASE("im2sequence: the bits do not depend on threads; a second call allocates nothing") {
  Engine engine(3);
  const auto images = real_numbers<float>(engine, {20, 3, 30, 40});
  const auto& options = geometries[4];
  const auto expected = lod::im2sequence(lod::CpuExecutor(1), images, options);
  const auto gradient = lod::im2sequence_grad(lod::CpuExecutor(1), expected, images, options);
  for (const int threads : thread_counts) {
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    LoDTensor<float> y(&resource), dx(&resource);
    const auto call = [&] {
      lod::im2sequence_into(executor, images, options, y);
      lod::im2sequence_grad_into(executor, y, images, options, dx);
    };
    call();
    CHECK(same_bits(y, expected));
    CHECK(same_bits(dx, gradient));
    const int before = resource.allocations;
    call();
    CHECK(resource.allocations == before);
  }
}

TEST_CASE("im2sequence: bad arguments throw and change nothing; views as outputs") {
  const LoDTensor<float> images({2, 1, 3, 3}), flat({2, 9}), four({2, 1, 3, 3, 1});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  const auto refuses = [&]<class Error>(std::type_identity<Error>, const LoDTensor<float>& input,
                                        const Im2SequenceOptions& options, const char* text) {
    check_throws<Error>([&] { lod::im2sequence_into(executor, input, options, y); }, text, y);
    check_throws<Error>([&] { lod::im2sequence_grad_into(executor, flat, input, options, y); }, text, y);
  };
  const std::type_identity<lod::OutOfRange> out_of_range;
  const std::type_identity<lod::ShapeMismatch> mismatch;
  refuses(mismatch, flat, {}, ": images of shape {2, 9}, expected {images, channels, height, width}");
  refuses(mismatch, four, {}, ": images of shape {2, 1, 3, 3, 1}");
  refuses(out_of_range, images, {.kernels = {2, 0}}, ": 0 in kernels, expected 1 to 2^48");
  refuses(out_of_range, images, {.kernels = {INT64_MAX, 1}}, " in kernels, expected 1 to 2^48");
  refuses(out_of_range, images, {.strides = {0, 1}}, ": 0 in strides, expected 1 to 2^48");
  refuses(out_of_range, images, {.paddings = {0, 0, 0, -1}}, ": -1 in paddings, expected 0 to 2^48");
  refuses(out_of_range, images, {.out_strides = {1, 0}}, ": 0 in out_strides, expected 1 to 2^48");
  const Numbers three = {1, 1, 1}, five = {1, 1, 1, 1, 1}, negative = {1, 1, -1, 1}, large = {6, 6, 6, 7};
  refuses(mismatch, images, {.real_sizes = three}, ": 3 numbers in real_sizes, expected 4, a height and a width");
  refuses(mismatch, images, {.real_sizes = five},
          ": 5 numbers in real_sizes, expected 4, a height and a width for each of 2 images");
  refuses(out_of_range, images, {.real_sizes = negative}, ": real size -1 of image 1, expected 0 to 1 * 3");
  refuses(out_of_range, images, {.real_sizes = large, .out_strides = {2, 2}},
          ": real size 7 of image 1, expected 0 to 2 * 3");
  constexpr std::int64_t huge = std::int64_t{1} << 47;
  refuses(mismatch, images, {.paddings = {huge, huge, huge, huge}}, ": more patches than 64 bits count");
  refuses(mismatch, images, {.kernels = {huge, huge}}, "exceeds 64 bits");
  check_throws<lod::ShapeMismatch>([&] { lod::im2sequence_grad_into(executor, flat, images, {}, y); },
                                   "im2sequence_grad: dy: 2 rows, expected 18", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::im2sequence_grad_into(executor, LoDTensor<float>({18, 2}), images, {}, y);
      },
      "im2sequence_grad: dy: rows of shape {2}, expected {1}", y);

  LoDTensor<float> out(LoD::from_lengths({{4, 4}}), {4}), other(LoD::from_lengths({{3, 5}}), {4});
  lod::im2sequence_into(executor, images, {.kernels = {2, 2}}, out.view());
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::im2sequence_into(executor, images, {.kernels = {2, 2}}, other.view());
      },
      ": a view of shape {8, 4} with 1 levels", other);
}

TEST_CASE("infer_im2sequence: allows what the operation gives, and refuses what it does") {
  const lod::Im2SequenceOptions options{.kernels = {2, 3}, .strides = {1, 2}, .paddings = {1, 0, 0, 1}};
  for_each_random_batch<float>(0, {2, 4, 5}, [&](Engine&, const lod::LoDTensor<float>& x) {
    const auto y = lod::im2sequence(x, options);
    check_inference(
        y, [&](const auto& desc) { return lod::infer_im2sequence(desc, options); }, describe(x));
    check_inferred(lod::im2sequence_grad(y, x, options), describe(x));
    const std::vector<std::int64_t> sizes(static_cast<std::size_t>(2 * x.rows()), 3);
    lod::Im2SequenceOptions real = options;
    real.real_sizes = sizes;
    check_inference(
        lod::im2sequence(x, real), [&](const auto& desc) { return lod::infer_im2sequence(desc, real); }, describe(x));
  });
  const auto x = described(lod::DataType::UINT8, {6, 2, 4, 5}, 1);
  CHECK(lod::infer_im2sequence(x, options) == described(lod::DataType::UINT8, {6 * 4 * 2, 12}, 2));
  CHECK(lod::infer_im2sequence(described(lod::DataType::UINT8, {6, 2, 4, -1}, 1), options) ==
        described(lod::DataType::UINT8, {-1, 12}, 2));
  CHECK_THROWS_AS(lod::infer_im2sequence(x, {.kernels = {0, 1}}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_im2sequence(described_list(4)), lod::ShapeMismatch);
  const std::vector<std::int64_t> sizes(4, 3);
  CHECK_THROWS_WITH_AS(lod::infer_im2sequence(x, {.real_sizes = sizes}),
                       doctest::Contains("im2sequence: 4 numbers in real_sizes, expected 12, a height and a width"),
                       lod::ShapeMismatch);
  const std::vector<std::int64_t> odd(13, 3);
  CHECK_THROWS_WITH_AS(lod::infer_im2sequence(x, {.real_sizes = odd}),
                       doctest::Contains("im2sequence: 13 numbers in real_sizes, expected 12, a height and a width"),
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(
      lod::infer_im2sequence(described(lod::DataType::UINT8, {-1, 2, 4, 5}, 0), {.real_sizes = odd}),
      doctest::Contains("im2sequence: 13 numbers in real_sizes, expected a height and a width for each image"),
      lod::ShapeMismatch);
}
