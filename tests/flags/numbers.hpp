// SPDX-License-Identifier: Apache-2.0
/// @file
/// NaN, infinities and zeros with signs in operations and outside of them: the body of two files that are compiled with
/// different flags.
#pragma once

#include <lod/io/json.hpp>
#include <lod/io/text.hpp>
#include <lod/lod.hpp>

#include <bit>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace {

// Read at run time, and by their bits: a compiler must not know what the numbers are.
volatile std::uint64_t infinity_bits = 0x7ff0000000000000, nan_bits = 0x7ff8000000000001, zero_bits = 0;

template <class T>
[[gnu::noinline]] T infinity() {
  return static_cast<T>(std::bit_cast<double>(std::uint64_t{infinity_bits}));
}
template <class T>
[[gnu::noinline]] T not_a_number() {
  return static_cast<T>(std::bit_cast<double>(std::uint64_t{nan_bits}));
}
template <class T>
[[gnu::noinline]] T negative_zero() {
  return static_cast<T>(std::bit_cast<double>(zero_bits | std::uint64_t{1} << 63));
}
std::uint64_t bits(double number) { return std::bit_cast<std::uint64_t>(number); }
std::uint64_t magnitude(double number) { return bits(number) & ~(std::uint64_t{1} << 63); }
template <class T>
bool is_nan(T number) {
  return magnitude(static_cast<double>(number)) > infinity_bits;
}
template <class T>
lod::LoDTensor<T> sequence(const std::vector<T>& numbers) {
  return lod::LoDTensor<T>::from_values(lod::LoD::from_lengths({{static_cast<std::int64_t>(numbers.size())}}), {},
                                        numbers);
}

/// The number of the first check that fails. Checks of numbers go by their bits, so that they are right in each file.
template <class T>
int first_wrong() {
  const T nan = not_a_number<T>(), inf = infinity<T>();
  const lod::CpuExecutor executor(2);
  const auto values = [](const auto& x) { return std::vector<T>(x.values().begin(), x.values().end()); };
  const auto is = [](T number, double expected) { return bits(static_cast<double>(number)) == bits(expected); };
  int check = 0;
  const auto holds = [&](bool condition) {
    ++check;
    return condition;
  };
  for (const int length : {3, 40}) {
    std::vector<T> numbers(static_cast<std::size_t>(length), static_cast<T>(1));
    numbers[1] = nan;
    numbers.back() = static_cast<T>(3);
    const auto x = sequence(numbers);
    if constexpr (std::is_same_v<T, float>) {
      if (!holds(is_nan(values(lod::sequence_pool(executor, x, lod::PoolType::MAX))[0]))) return check;
      const auto sorted = values(lod::sequence_sort(executor, x));
      if (!holds(is(sorted[0], 1) && is(sorted[sorted.size() - 2], 3) && is_nan(sorted.back()))) return check;
      if (!holds(is_nan(values(lod::sequence_cumsum(executor, x)).back()))) return check;
    }
    if (!holds(is_nan(values(lod::sequence_softmax(executor, x))[0]))) return check;
    if (!holds(is_nan(values(lod::sequence_logsumexp(executor, x))[0]))) return check;
    numbers[1] = inf;
    const auto y = sequence(numbers);
    if (!holds(magnitude(values(lod::sequence_logsumexp(executor, y))[0]) == infinity_bits)) return check;
    numbers[1] = -inf;
    if (!holds(is(values(lod::sequence_softmax(executor, sequence(numbers)))[1], 0))) return check;
  }
  // Outside of operations.
  if (!holds(lod::Scalar(not_a_number<double>()).to<std::int32_t>() == 0)) return check;
  if (!holds(lod::Scalar(-infinity<double>()).to<std::int64_t>() == std::numeric_limits<std::int64_t>::min())) {
    return check;
  }
  if (!holds(is_nan(lod::Scalar(not_a_number<double>()).to<T>()))) return check;
  if (!holds(is_nan(lod::float16(not_a_number<double>())) && is_nan(lod::bfloat16(not_a_number<double>())))) {
    return check;
  }
  if (!holds(magnitude(lod::float16(infinity<double>())) == infinity_bits)) return check;
  if (!holds(lod::float16(1 + 0x1p-11 + 0x1p-40).bits() == 0x3c01)) return check;
  const auto special = sequence<T>({nan, inf, -inf, negative_zero<T>()});
  const std::string json = lod::to_json(special);
  if (!holds(json.find("\"NaN\",\"Infinity\",\"-Infinity\",-0") != std::string::npos)) return check;
  const auto back = values(lod::from_json<T>(json, 1));
  if (!holds(is_nan(back[0]) && magnitude(back[1]) == infinity_bits && bits(back[3]) >> 63 == 1)) return check;
  std::ostringstream text;
  text << special;
  if (!holds(text.str().find("nan, inf, -inf, -0") != std::string::npos)) return check;
  return 0;
}

int first_wrong_of_all_types() {
  if (const int check = first_wrong<float>()) return 100 + check;
  if (const int check = first_wrong<double>()) return 200 + check;
  return 0;
}

}  // namespace

#define LOD_TEST_QUOTE(text) #text
#define LOD_TEST_TEXT(macro) LOD_TEST_QUOTE(macro)
