// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/close.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include "support/same_bits.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Nested = std::vector<std::vector<float>>;

namespace {

template <class Executor, lod::LoDTensorLike X>
auto softmax(const Executor& executor, const X& x, bool logarithm, int level = -1) {
  return logarithm ? lod::sequence_log_softmax(executor, x, {.level = level})
                   : lod::sequence_softmax(executor, x, {.level = level});
}

/// Both softmaxes of x over the sequences of `level`, against the reference.
template <class Executor, lod::LoDTensorLike X>
void check_softmax(const Executor& executor, const X& x, int level) {
  using T = typename X::value_type;
  const auto view = x.view();
  const auto offsets = view.lod_view().absolute_offsets(level);
  for (const bool logarithm : {false, true}) {
    INFO("level ", level, " of ", view.levels(), ", row size ", view.row_size(), ", logarithm ", logarithm);
    const auto y = softmax(executor, x, logarithm, level);
    CHECK(y.lod() == view.lod());
    REQUIRE(y.shape() == view.shape());
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      const std::int64_t begin = offsets[i] - offsets[0], end = offsets[i + 1] - offsets[0];
      for (std::size_t column = 0; column < static_cast<std::size_t>(view.row_size()); ++column) {
        std::vector<double> numbers;
        for (std::int64_t row = begin; row < end; ++row) {
          numbers.push_back(static_cast<double>(view.row(row)[column]));
        }
        const std::vector<double> expected = reference_softmax(numbers, logarithm);
        bool all_close = true;
        for (std::int64_t row = begin; row < end; ++row) {
          all_close =
              all_close && close(y.row(row)[column], expected[static_cast<std::size_t>(row - begin)], tolerance<T>());
        }
        INFO("sequence ", i, " of ", end - begin, " rows, column ", column);
        CHECK(all_close);
      }
    }
  }
}

}  // namespace

TEST_CASE("sequence_softmax: agrees with nested loops for slices of every type, depth, level and row size") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 2, 3, 7, 8, 17, 64}) {
        const auto x = real_numbers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        for (int level = 0; level < x.levels(); ++level) check_softmax(lod::CpuExecutor(2), slice, level);
      }
    });
  });
}

TEST_CASE("sequence_softmax: batches without sequences, of empty ones only, and rows without elements") {
  for_each_executor([](const auto& executor) {
    for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0, 0}}, {{}, {}}, {{2, 0}, {0, 0}}}) {
      for (const std::int64_t row_size : {0, 1, 3}) {
        const LoDTensor<float> x(LoD::from_lengths(lengths), {row_size});
        CHECK(same_bits(lod::sequence_softmax(executor, x), x));
        CHECK(same_bits(lod::sequence_log_softmax(executor, x), x));
        CHECK(same_bits(lod::sequence_softmax_grad(executor, x, x), x));
      }
    }
    const LoDTensor<float> narrow(LoD::from_lengths({{3, 1}}), {0});
    CHECK(lod::sequence_softmax(executor, narrow).shape() == narrow.shape());
  });
}

TEST_CASE("sequence_softmax: the cases of PaddlePaddle's tests") {
  Engine engine(1);
  for (const auto& lengths :
       std::vector<Lengths>{{{40, 10, 30, 30}}, {{40, 0, 40, 30}}, {{0, 40, 70, 0}}, {{0, 0, 0, 110}}}) {
    check_softmax(lod::CpuExecutor(1), real_numbers<double>(engine, LoD::from_lengths(lengths), {1}), 0);
  }
}

TEST_CASE("sequence_softmax: lengths around those where the kernel takes another path") {
  Engine engine(2);
  for_each_executor([&](const auto& executor) {
    for (const std::int64_t row_size : {1, 3, 7, 8, 130}) {
      std::vector<std::int64_t> lengths = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 511, 512, 513};
      const std::int64_t chunk = lod::kernel::chunk_rows(row_size), full = grain / row_size;
      if (row_size != 8) lengths.insert(lengths.end(), {chunk - 1, chunk, chunk + 1, full, full + 1, 2 * chunk + 1});
      check_softmax(executor, real_numbers<float>(engine, LoD::from_lengths({lengths}), {row_size}), 0);
    }
  });
}

TEST_CASE("sequence_softmax: neither large numbers nor small ones overflow") {
  const auto x = LoDTensor<float>::from_nested(Nested{{1000, 1000}, {-1000, -1000}, {0, -1000}, {3e38F, -3e38F}, {5}});
  CHECK(values_of(lod::sequence_softmax(x)) == std::vector<float>{0.5, 0.5, 0.5, 0.5, 1, 0, 1, 0, 1});
  const auto y = values_of(lod::sequence_log_softmax(x));
  CHECK(y[4] == 0);
  CHECK(y[5] == -1000);  // where the softmax itself is 0
  CHECK(y[6] == 0);
  CHECK(y[7] == -std::numeric_limits<double>::infinity());  // -6e38 is no float
  CHECK(y[8] == 0);
}

TEST_CASE("sequence_softmax: numbers that are all large or all small, beside others, give results that are as exact") {
  // The exponentials of some of these neither overflow nor vanish as they are, those of others only when shifted.
  const std::vector<float> middles = {0, 0, 0, 5, -5, -18, -19, -30, 60, 69, 70, 89, 100, -200, 3e4F};
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    Engine engine(static_cast<std::uint64_t>(row_size));
    std::vector<std::int64_t> lengths;
    for (int i = 0; i < 400; ++i) lengths.push_back(random_number(engine, 0, 40));
    lengths.insert(lengths.end(), {600, 17 * grain / 16 / row_size});
    auto x = real_numbers<float>(engine, LoD::from_lengths({lengths}), {row_size});
    for (auto&& sequence : x) {
      for (std::size_t column = 0; column < static_cast<std::size_t>(row_size); ++column) {
        const float middle = middles[static_cast<std::size_t>(random_number(engine, 0, std::ssize(middles) - 1))];
        for (std::int64_t row = 0; row < sequence.rows(); ++row) sequence.row(row)[column] += middle;
      }
    }
    const auto offsets = x.lod_view().absolute_offsets(0);
    for_each_executor([&](const auto& executor) {
      const auto y = lod::sequence_softmax(executor, x);
      for (std::int64_t i = 0; i < x.size(); ++i) {
        CHECK(same_bits(lod::sequence_softmax(executor, x.between(i, i + 1)), y.between(i, i + 1)));
        const std::int64_t begin = offsets[static_cast<std::size_t>(i)], end = offsets[static_cast<std::size_t>(i) + 1];
        for (std::size_t column = 0; column < static_cast<std::size_t>(row_size); ++column) {
          std::vector<double> numbers;
          for (std::int64_t row = begin; row < end; ++row) numbers.push_back(static_cast<double>(x.row(row)[column]));
          const std::vector<double> expected = reference_softmax(numbers, false);
          bool as_exact = true;
          for (std::int64_t row = begin; row < end; ++row) {
            const double wanted = expected[static_cast<std::size_t>(row - begin)];
            as_exact = as_exact && std::abs(static_cast<double>(y.row(row)[column]) - wanted) <= 2e-6 * wanted;
          }
          INFO("sequence ", i, " of ", end - begin, " rows, column ", column, " of ", row_size);
          CHECK(as_exact);
        }
      }
    });
  }
}

TEST_CASE("sequence_softmax: numbers around those whose exponentials need a shift, in blocks of any order") {
  // The bounds of sums, by the logarithm, and those by which the greatest number tells.
  const float greatest[] = {0, 200, 69, 200, 71, 70, -17, -200, -18, -24, -26, 200, 69.5F};
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 2600; ++i) lengths.push_back(i % 33);
  for (const std::int64_t row_size : {1, 3}) {
    Engine engine(5);
    auto x = real_numbers<float>(engine, LoD::from_lengths({lengths}), {row_size});
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const auto sequence = x[i];
      for (float& number : sequence.values()) number = greatest[i / 200] - std::abs(number);
    }
    const auto y = lod::sequence_softmax(x);
    for (std::int64_t i = 0; i < x.size(); ++i) {
      CHECK(same_bits(lod::sequence_softmax(LoDTensor<float>::copy_of(x.between(i, i + 1))), y.between(i, i + 1)));
    }
  }
}

TEST_CASE("sequence_softmax: one row has all the weight, equal rows have equal parts of it") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    Engine engine(8);
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      for (const std::int64_t length : {1, 2, 4}) {
        const auto rows = real_numbers<T>(engine, LoD::from_lengths({std::vector<std::int64_t>(100, 1)}), {row_size});
        LoDTensor<T> x(LoD::from_lengths({std::vector<std::int64_t>(100, length)}), {row_size});
        for (std::int64_t row = 0; row < x.rows(); ++row) std::ranges::copy(rows.row(row / length), x.row(row).begin());
        const auto is_part = [&](T number) { return number == static_cast<T>(1.F / static_cast<float>(length)); };
        for_each_executor([&](const auto& executor) {
          CHECK(std::ranges::all_of(lod::sequence_softmax(executor, x).values(), is_part));
        });
      }
    }
  });
}

TEST_CASE("sequence_softmax: -inf is a masked row; a column of nothing else gives 0, or stays -inf") {
  const float masked = -std::numeric_limits<float>::infinity();
  const auto x = LoDTensor<float>::from_nested(Nested{{masked, 2, masked, 2}, {masked, masked}, {masked}});
  CHECK(values_of(lod::sequence_softmax(x)) == std::vector<float>{0, 0.5, 0, 0.5, 0, 0, 0});
  const float log_half = std::log(0.5F);
  const auto y = values_of(lod::sequence_log_softmax(x));
  CHECK(y[0] == masked);
  CHECK(y[1] == doctest::Approx(log_half));
  CHECK(std::vector<float>(y.begin() + 4, y.end()) == std::vector<float>{masked, masked, masked});

  // Longer sequences and other row sizes go other ways.
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    for (const std::int64_t rows : {std::int64_t{20}, std::int64_t{600}, 17 * grain / 16}) {
      LoDTensor<float> all(LoD::from_lengths({{rows}}), {row_size});
      for (float& number : all.values()) number = masked;
      CHECK(same_bits(lod::sequence_log_softmax(all), all));
      LoDTensor<float> zero(all.lod(), {row_size});
      CHECK(same_bits(lod::sequence_softmax(all), zero));
    }
  }
}

TEST_CASE("sequence_softmax: NaN and +inf make their column NaN, in their sequence only") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      for (const std::int64_t rows :
           {std::int64_t{1}, std::int64_t{5}, std::int64_t{600}, 17 * grain / 16 / row_size}) {
        Engine engine(7);
        const LoD index = LoD::from_lengths({{rows, rows, rows}});
        auto x = real_numbers<float>(engine, index, {row_size});
        x.row(rows + rows / 2)[static_cast<std::size_t>(row_size) - 1] = bad;
        for (const bool logarithm : {false, true}) {
          const auto y = softmax(lod::CpuExecutor(2), x, logarithm);
          bool as_expected = true;
          for (std::int64_t row = 0; row < 3 * rows; ++row) {
            for (std::int64_t column = 0; column < row_size; ++column) {
              const bool is_nan = std::isnan(y.row(row)[static_cast<std::size_t>(column)]);
              const bool expected = row >= rows && row < 2 * rows && column == row_size - 1;
              as_expected = as_expected && is_nan == expected;
            }
          }
          CHECK(as_expected);
        }
      }
    }
  }
}

TEST_CASE("sequence_softmax: the bits depend neither on threads, nor on the batch, nor on where a sequence lies") {
  for (const std::int64_t row_size : {1, 3, 17}) {
    INFO("row size ", row_size);
    Engine engine(static_cast<std::uint64_t>(row_size));
    const LoD index = giant_among_short(engine, 600, 9 * grain / 4 / row_size + 1200);  // more than two chunks
    const auto x = real_numbers<float>(engine, index, {row_size});
    for (const bool logarithm : {false, true}) {
      const auto grad = [&](const auto& executor, const auto& dy, const auto& y) {
        return logarithm ? lod::sequence_log_softmax_grad(executor, dy, y)
                         : lod::sequence_softmax_grad(executor, dy, y);
      };
      for_each_executor([&](const auto& executor) {
        const auto expected = softmax(working_alone(executor), x, logarithm);
        const auto expected_grad = grad(working_alone(executor), x, expected);
        CHECK(same_bits(softmax(executor, x, logarithm), expected));
        CHECK(same_bits(grad(executor, x, expected), expected_grad));
        for (const std::int64_t begin : {300, 599}) {
          const auto part = x.between(begin, x.size());
          const auto sliced = softmax(executor, part, logarithm);
          CHECK(same_bits(sliced, expected.between(begin, x.size())));
          CHECK(same_bits(grad(executor, part, sliced), expected_grad.between(begin, x.size())));
        }
        CHECK(same_bits(softmax(executor, x.slice({300}), logarithm), expected.between(300, 301)));
      });
    }
  }
}

TEST_CASE("sequence_softmax: the bits of a column do not depend on how many columns go together") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    Engine engine(17);
    const LoD index = LoD::from_lengths({{5, 0, 1, 700, 64, 16, 3}});
    // Wide rows of 16 are read 16 bytes at a time where these are aligned; those of 17 number by number.
    const auto x = real_numbers<T>(engine, index, {16}), dy = real_numbers<T>(engine, index, {16});
    const auto widened = [&](const LoDTensor<T>& narrow) {
      LoDTensor<T> wide(index, {17});
      for (std::int64_t row = 0; row < narrow.rows(); ++row) {
        std::copy_n(narrow.row(row).begin(), 16, wide.row(row).begin());
      }
      return wide;
    };
    const auto same_columns = [](const LoDTensor<T>& narrow, const LoDTensor<T>& wide) {
      bool same = narrow.rows() == wide.rows();
      for (std::int64_t row = 0; same && row < narrow.rows(); ++row) {
        same = std::memcmp(narrow.row(row).data(), wide.row(row).data(), 16 * sizeof(T)) == 0;
      }
      return same;
    };
    const auto wide = widened(x), wide_dy = widened(dy);
    for_each_executor([&](const auto& executor) {
      CHECK(same_columns(lod::sequence_logsumexp(executor, x), lod::sequence_logsumexp(executor, wide)));
      for (const bool logarithm : {false, true}) {
        CAPTURE(logarithm);
        const auto y = softmax(executor, x, logarithm), wide_y = softmax(executor, wide, logarithm);
        CHECK(same_columns(y, wide_y));
        CHECK(same_columns(
            logarithm ? lod::sequence_log_softmax_grad(executor, dy, y) : lod::sequence_softmax_grad(executor, dy, y),
            logarithm ? lod::sequence_log_softmax_grad(executor, wide_dy, wide_y)
                      : lod::sequence_softmax_grad(executor, wide_dy, wide_y)));
      }
    });
  });
}

TEST_CASE("sequence_softmax: in place, on a tensor and on a part of one") {
  for (const std::int64_t row_size : {1, 3, 17}) {
    Engine engine(3);
    const auto x = real_numbers<float>(engine, giant_among_short(engine, 2000, 17 * grain / 16 / row_size), {row_size});
    for_each_executor([&](const auto& executor) {
      auto y = x;
      lod::sequence_softmax_into(executor, y, y);
      CHECK(same_bits(y, lod::sequence_softmax(executor, x)));
      y = x;
      lod::sequence_log_softmax_into(executor, y, y);
      CHECK(same_bits(y, lod::sequence_log_softmax(executor, x)));
      y = x;
      lod::sequence_softmax_into(executor, y.between(500, 1001), y.between(500, 1001));
      CHECK(same_bits(y.between(500, 1001), lod::sequence_softmax(executor, x.between(500, 1001))));
      CHECK(same_bits(y.between(0, 500), x.between(0, 500)));
      CHECK(same_bits(y.between(1001, 2000), x.between(1001, 2000)));

      const auto probabilities = lod::sequence_softmax(executor, x);
      const auto dx = lod::sequence_softmax_grad(executor, x, probabilities);
      auto dy = x;
      lod::sequence_softmax_grad_into(executor, dy, probabilities, dy);
      CHECK(same_bits(dy, dx));
      auto overwritten = probabilities;
      lod::sequence_softmax_grad_into(executor, x, overwritten, overwritten);
      CHECK(same_bits(overwritten, dx));
    });
  }
}

TEST_CASE("sequence_softmax: in place, sequences of lengths around those of vectors, leaves and chunks") {
  Engine engine(4);
  const LoD index =
      LoD::from_lengths({{1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 0, 255, 256, 511, 512, 513, 700}});
  for_each_type(FloatingTypes(), [&]<class T>(std::type_identity<T>) {
    for (const std::int64_t row_size : {1, 2, 5}) {
      const auto x = real_numbers<T>(engine, index, {row_size}), dy = real_numbers<T>(engine, index, {row_size});
      for_each_executor([&](const auto& executor) {
        for (const bool logarithm : {false, true}) {
          const auto y = softmax(executor, x, logarithm);
          auto in_place = x;
          const auto grad_into = [&](const auto& a, const auto& b, auto& to) {
            logarithm ? lod::sequence_log_softmax_grad_into(executor, a, b, to)
                      : lod::sequence_softmax_grad_into(executor, a, b, to);
          };
          logarithm ? lod::sequence_log_softmax_into(executor, in_place, in_place)
                    : lod::sequence_softmax_into(executor, in_place, in_place);
          CHECK(same_bits(in_place, y));
          LoDTensor<T> dx;
          grad_into(dy, y, dx);
          auto over_dy = dy;
          grad_into(over_dy, y, over_dy);
          CHECK(same_bits(over_dy, dx));
          auto over_y = y;
          grad_into(dy, over_y, over_y);
          CHECK(same_bits(over_y, dx));
          // Slices, too, end where others begin.
          for (const std::int64_t i : {6, 11, 14}) {
            LoDTensor<T> part;
            grad_into(dy.between(i, i + 1), y.between(i, i + 1), part);
            CHECK(same_bits(part, dx.between(i, i + 1)));
          }
        }
      });
    }
  });
}

TEST_CASE("sequence_softmax_grad, sequence_log_softmax_grad: agree with differences") {
  Engine engine(12);
  const LoD index = LoD::from_lengths({{2, 0, 1}, {2, 0, 3}, {1, 3, 0, 4, 2}});
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    auto x = real_numbers<double>(engine, index, {row_size});
    for (int level = 0; level < 3; ++level) {
      INFO("row size ", row_size, ", level ", level);
      check_gradient(
          engine, x, [&](const auto& at) { return lod::sequence_softmax(at, {.level = level}); },
          [&](const auto& dy) {
            return lod::sequence_softmax_grad(dy, lod::sequence_softmax(x, {.level = level}), {.level = level});
          });
      check_gradient(
          engine, x, [&](const auto& at) { return lod::sequence_log_softmax(at, {.level = level}); },
          [&](const auto& dy) {
            return lod::sequence_log_softmax_grad(dy, lod::sequence_log_softmax(x, {.level = level}), {.level = level});
          });
    }
  }
}

TEST_CASE("sequence_softmax_grad: every type, one long sequence among short ones") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t row_size : {1, 5, 17}) {
      Engine engine(6);
      const LoD index = giant_among_short(engine, 60, 17 * grain / 16 / row_size);
      const auto dy = real_numbers<T>(engine, index, {row_size});
      const auto y = lod::sequence_softmax(real_numbers<T>(engine, index, {row_size}));
      const auto dx = lod::sequence_softmax_grad(lod::CpuExecutor(2), dy, y);
      const auto offsets = index.offsets(0);
      bool all_close = true;
      for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
        double sum = 0;
        for (std::int64_t row = offsets[i]; row < offsets[i + 1]; ++row) {
          sum += static_cast<double>(dy.row(row)[0]) * static_cast<double>(y.row(row)[0]);
        }
        for (std::int64_t row = offsets[i]; row < offsets[i + 1]; ++row) {
          const double expected = (static_cast<double>(dy.row(row)[0]) - sum) * static_cast<double>(y.row(row)[0]);
          all_close = all_close && close(dx.row(row)[0], expected, tolerance<T>());
        }
      }
      CHECK(all_close);
    }
  });
}

TEST_CASE("sequence_softmax: bad arguments throw and change nothing") {
  const LoD index = LoD::from_lengths({{2, 1}});
  const LoDTensor<float> x(index, {2}), plain({3, 2});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_softmax_into(executor, plain, y); },
                                "sequence_softmax: the tensor has no level, expected at least one", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_log_softmax_into(executor, plain, y); },
                                "sequence_log_softmax: the tensor has no level", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_softmax_into(executor, x, {.level = 1}, y); },
                                "level 1 of a LoD with 1 levels", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_softmax_grad_into(executor, x, plain, y); },
                                "sequence_softmax_grad: y: the tensor has no level", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_softmax_grad_into(executor, plain.between(0, 2), x, y); },
                                   "sequence_softmax_grad: dy: 2 rows, expected 3", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::sequence_log_softmax_grad_into(executor, LoDTensor<float>({3, 4}), x, y);
      },
      "sequence_log_softmax_grad: dy: rows of shape {4}, expected {2}", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_softmax_grad_into(executor, plain, x, {.level = -2}, y); },
                                "level -2 of a LoD with 1 levels", y);
}

TEST_CASE("sequence_softmax: a view as the output must have the shape and the levels of the result") {
  Engine engine(2);
  const auto x = real_numbers<float>(engine, LoD::from_lengths({{2, 1, 3}}), {2});
  const lod::CpuExecutor executor(1);
  LoDTensor<float> y(x.lod(), {2});
  lod::sequence_softmax_into(executor, x.between(1, 3), y.between(1, 3));
  CHECK(same_bits(y.between(1, 3), lod::sequence_softmax(x.between(1, 3))));
  CHECK(y.row(1)[1] == 0);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_softmax_into(executor, x.between(1, 3), y.between(0, 2)); },
                                   "expected shape {4, 2} and the levels of the result", y);
}

TEST_CASE("infer_sequence_softmax: allows what the operations give, and refuses what they do") {
  for_each_random_batch<float>(1, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const lod::SoftmaxOptions options{.level = level};
      const auto y = lod::sequence_softmax(x, options);
      check_inference(
          y, [&](const auto& desc) { return lod::infer_sequence_softmax(desc, options); }, describe(x));
      check_inference(
          lod::sequence_log_softmax(x, options),
          [&](const auto& desc) { return lod::infer_sequence_log_softmax(desc, options); }, describe(x));
      check_inferred(lod::sequence_softmax_grad(y, y, options), describe(x));
    }
  });
  const auto x = described(lod::DataType::FP64, {15, -1}, 2);
  CHECK(lod::infer_sequence_softmax(x) == x);
  CHECK(lod::infer_sequence_log_softmax(x) == x);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_softmax(described(lod::DataType::FP32, {15}, 0)),
                       doctest::Contains("sequence_softmax: the tensor has no level"), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_softmax(x, {.level = -3}), lod::OutOfRange);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_log_softmax(described(lod::DataType::BOOL, {15}, 1)),
                       doctest::Contains("sequence_log_softmax: elements of BOOL"), lod::ShapeMismatch);
}
