// SPDX-License-Identifier: Apache-2.0
#include "distributions.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

namespace benchmarks {
namespace {

constexpr std::uint64_t seed = 42;

/// Even over [0, 1).
double uniform(std::mt19937_64& engine) { return static_cast<double>(engine() >> 11) * 0x1p-53; }

std::int64_t between(std::mt19937_64& engine, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(uniform(engine) * static_cast<double>(high - low + 1));
}

double normal(std::mt19937_64& engine) {
  const double radius = std::sqrt(-2 * std::log(1 - uniform(engine)));
  return radius * std::cos(2 * std::numbers::pi * uniform(engine));
}

/// The next length, until there are enough rows; the last sequence is cut.
template <class Next>
std::vector<std::int64_t> up_to(std::int64_t rows, const Next& next) {
  std::vector<std::int64_t> result;
  for (std::int64_t left = rows; left > 0; left -= result.back()) {
    result.push_back(std::min<std::int64_t>(next(), left));
  }
  return result;
}

/// Ranks 1 to `height`, as often as rank^-exponent says, by inverting the integral of the density.
std::int64_t zipf_rank(std::mt19937_64& engine, double exponent, std::int64_t height) {
  const double power = 1 - exponent;
  const double most = std::pow(static_cast<double>(height) + 1, power);
  const double rank = std::pow(1 + uniform(engine) * (most - 1), 1 / power);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(rank), 1, height);
}

}  // namespace

std::vector<std::int64_t> lengths(std::string_view name, std::int64_t rows) {
  std::mt19937_64 engine(seed);
  const auto number = [](std::string_view digits) {
    std::int64_t value = 0;
    const char* const end = digits.data() + digits.size();
    return std::from_chars(digits.data(), end, value).ptr == end ? value : 0;
  };
  if (const std::int64_t mean = name.starts_with('u') ? number(name.substr(1)) : 0; mean > 0) {
    return up_to(rows, [&] { return between(engine, 1, 2 * mean - 1); });
  }
  if (const std::int64_t all = number(name); all > 0) return up_to(rows, [all] { return all; });
  if (name == "zipf11") {
    const auto most = static_cast<double>(std::max<std::int64_t>(rows / 8, 1));
    return up_to(rows,
                 [&] { return static_cast<std::int64_t>(std::min(most, std::pow(1 - uniform(engine), -1 / 1.1))); });
  }
  if (name == "giant") {
    const std::int64_t giant = rows / 10 * 9;
    std::vector<std::int64_t> result = up_to(rows - giant, [] { return 4; });
    result.insert(result.begin() + static_cast<std::ptrdiff_t>(result.size() / 2), giant);
    return result;
  }
  if (name == "empty90") {
    return up_to(rows, [&] { return engine() % 10 > 0 ? 0 : between(engine, 1, 31); });
  }
  if (name == "empty") return std::vector<std::int64_t>(static_cast<std::size_t>(rows), 0);
  if (name == "all1") return std::vector<std::int64_t>(static_cast<std::size_t>(rows), 1);
  if (name == "one") return {rows};
  if (name == "mixed") {
    int k = 0;
    return up_to(rows, [&k] { return ++k % 16 == 0 ? 100 : 3; });
  }
  if (name == "pow2align") return up_to(rows, [] { return 16; });
  if (name == "real-like") {
    return up_to(rows, [&] { return std::max<std::int64_t>(std::llround(std::exp(4.5 + normal(engine))), 1); });
  }
  throw std::invalid_argument("no lengths have the name " + std::string(name));
}

std::vector<std::int64_t> ids(std::string_view name, std::int64_t count, std::int64_t height) {
  std::mt19937_64 engine(seed);
  std::vector<std::int64_t> result(static_cast<std::size_t>(count));
  if (name == "uniform" || name == "sorted") {
    for (auto& id : result) id = between(engine, 0, height - 1);
    if (name == "sorted") std::ranges::sort(result);
  } else if (name == "zipf") {
    // An odd factor without common divisors scatters the ranks: frequent rows of a table do not lie side by side.
    constexpr std::uint64_t factor = 0x9E3779B97F4A7C15;
    for (auto& id : result) {
      const auto rank = static_cast<std::uint64_t>(zipf_rank(engine, 1.05, height));
      id = static_cast<std::int64_t>((rank * factor >> 20) % static_cast<std::uint64_t>(height));
    }
  } else if (name == "reversed") {
    for (std::int64_t i = 0; i < count; ++i) result[static_cast<std::size_t>(i)] = (count - 1 - i) * height / count;
  } else if (name == "same") {
    std::ranges::fill(result, height / 3);
  } else {
    throw std::invalid_argument("no ids have the name " + std::string(name));
  }
  return result;
}

std::int64_t bytes_of(const std::string& size) {
  std::int64_t number = 0;
  const char* const end = size.data() + size.size();
  const std::string unit = std::from_chars(size.data(), end, number).ptr;
  for (const auto& [name, bytes] :
       {std::pair{"B", 1}, std::pair{"KiB", 1 << 10}, std::pair{"MiB", 1 << 20}, std::pair{"GiB", 1 << 30}}) {
    if (unit == name) return number * bytes;
  }
  throw std::invalid_argument("no size: " + size);
}

}  // namespace benchmarks
