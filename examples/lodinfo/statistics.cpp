// SPDX-License-Identifier: Apache-2.0
#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <type_traits>

namespace lodinfo {

namespace {

/// @{
/// An element as one of the types of a Number.
template <std::integral T>
auto number_of(T value) {
  using Wide = std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>;
  return static_cast<Wide>(value);
}
template <std::floating_point T>
T number_of(T value) {
  return value;
}
template <std::floating_point T>
T number_of(const std::complex<T>& value) {
  return std::abs(value);
}
inline float number_of(lod::float16 value) { return value; }
inline float number_of(lod::bfloat16 value) { return value; }
/// @}

template <class T>
ValueStatistics statistics_of(std::span<const T> values) {
  using N = decltype(number_of(T()));
  ValueStatistics all{.count = static_cast<std::int64_t>(values.size())};
  N min{}, max{};
  std::int64_t finite = 0;
  // Welford's method, which does not cancel where the mean is large, and a range in which no square overflows.
  long double mean = 0, squares = 0;
  for (const T& value : values) {
    const N number = number_of(value);
    all.zeros += number == N{};
    if constexpr (std::is_floating_point_v<N>) {
      all.nans += std::isnan(number);
      all.infinities += std::isinf(number);
      if (!std::isfinite(number)) continue;
    }
    min = finite == 0 ? number : std::min(min, number);
    max = finite == 0 ? number : std::max(max, number);
    const long double difference = static_cast<long double>(number) - mean;
    mean += difference / static_cast<long double>(++finite);
    squares += difference * (static_cast<long double>(number) - mean);
  }
  if (finite > 0) {
    all.finite = {min, max, static_cast<double>(mean),
                  static_cast<double>(std::sqrt(squares / static_cast<long double>(finite)))};
  }
  return all;
}

/// The lengths from the least to the greatest, each on its own where they are few; else those of as many binary digits
/// together, since lengths tend to be spread over orders of magnitude.
std::vector<LengthStatistics::Bar> empty_histogram(std::int64_t min, std::int64_t max) {
  constexpr std::int64_t few = 12;
  std::vector<LengthStatistics::Bar> bars;
  if (max - min < few) {
    for (std::int64_t length = min; length <= max; ++length) bars.push_back({length, length, 0});
    return bars;
  }
  for (std::int64_t first = 0; first <= max;) {
    const std::int64_t last = first == 0 ? 0 : first + (first - 1);
    if (last >= min) bars.push_back({std::max(first, min), std::min(last, max), 0});
    if (last >= max) break;
    first = last + 1;
  }
  return bars;
}

}  // namespace

bool has_numbers(lod::DataType type) { return type != lod::DataType::FP8_E4M3FN && type != lod::DataType::FP8_E5M2; }

ValueStatistics statistics_of_values(const lod::AnyLoDTensor& x) {
  return x.visit([](const auto& view) { return statistics_of(view.values()); });
}

LengthStatistics statistics_of_lengths(std::span<const std::int64_t> offsets) {
  std::vector<std::int64_t> lengths(offsets.size() - 1);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = offsets[i + 1] - offsets[i];
  LengthStatistics all{.count = static_cast<std::int64_t>(lengths.size())};
  if (lengths.empty()) return all;

  std::sort(lengths.begin(), lengths.end());
  all.min = lengths.front();
  all.max = lengths.back();
  all.empty = std::upper_bound(lengths.begin(), lengths.end(), 0) - lengths.begin();
  all.mean = static_cast<double>(offsets.back() - offsets.front()) / static_cast<double>(all.count);
  const std::size_t middle = lengths.size() / 2;
  const std::int64_t below = lengths[lengths.size() % 2 == 0 ? middle - 1 : middle];
  all.median = static_cast<double>(below) + static_cast<double>(lengths[middle] - below) / 2;

  all.histogram = empty_histogram(all.min, all.max);
  auto from = lengths.begin();
  for (LengthStatistics::Bar& bar : all.histogram) {
    const auto to = std::upper_bound(from, lengths.end(), bar.last);
    bar.count = to - from;
    from = to;
  }
  return all;
}

}  // namespace lodinfo
