// SPDX-License-Identifier: Apache-2.0
/// @file
/// Traces as tables and as JSON.
#pragma once

#include <lod/core/target.hpp>
#include <lod/program/trace.hpp>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// A few numbers, formatted as by printf; no fractions, whose separator would be the locale's.
template <class... Numbers>
std::string line(const char* format, Numbers... numbers) {
  char text[200];
  const int size = std::snprintf(text, sizeof text, format, numbers...);
  return std::string(text, size < 0 ? 0 : std::min(static_cast<std::size_t>(size), sizeof text - 1));
}

/// A number that is not negative, with so many digits after the point, whatever the locale.
inline std::string fixed(double number, int digits) {
  char text[400];
  return {text, std::to_chars(text, text + sizeof text, number, std::chars_format::fixed, digits).ptr};
}
/// A time in microseconds, exactly.
inline std::string microseconds(std::chrono::nanoseconds time) {
  const auto count = static_cast<long long>(time.count());
  return line("%lld.%03lld", count / 1000, count % 1000);
}

inline std::string quoted(std::string_view words) {
  std::string text = "\"";
  for (const char letter : words) {
    const auto number = static_cast<unsigned char>(letter);
    if (number < 0x20 || number >= 0x7F) {
      text += line("\\u%04x", static_cast<unsigned>(number));
    } else {
      if (letter == '"' || letter == '\\') text += '\\';
      text += letter;
    }
  }
  return text += '"';
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE {

LOD_PROGRAMS_INLINE std::string Trace::table() const {
  std::vector<detail::TraceSum> sums = detail::sums_of(*this);
  std::ranges::stable_sort(sums, [](const auto& a, const auto& b) { return a.time > b.time; });
  detail::TraceSum all;
  for (const detail::TraceSum& sum : sums) {
    all.runs += sum.runs;
    all.bytes += sum.bytes;
    all.time += sum.time;
  }
  const auto numbers = [&](const detail::TraceSum& sum) {
    const auto time = static_cast<double>(sum.time.count()), whole = static_cast<double>(all.time.count());
    return detail::line("%12s %6s%% %8lld %14lld  ", detail::fixed(time / 1e6, 3).c_str(),
                        detail::fixed(whole > 0 ? 100 * time / whole : 0, 1).c_str(), static_cast<long long>(sum.runs),
                        static_cast<long long>(sum.bytes));
  };
  std::string text = "        ms    share     runs          bytes  operator\n";
  for (const detail::TraceSum& sum : sums) text += numbers(sum) + operators_[sum.op].place + "\n";
  return text += numbers(all) + "all\n";
}

LOD_PROGRAMS_INLINE std::string Trace::json() const {
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  const char* before = "\n";
  for (const TraceEvent& event : events_) {
    const TracedOperator& op = operators_[event.op];
    text += before;
    text += "{\"ph\":\"X\",\"pid\":1," + detail::line("\"tid\":%d,\"ts\":%s,\"dur\":%s,", event.lane + 1,
                                                      detail::microseconds(event.start).c_str(),
                                                      detail::microseconds(event.duration).c_str());
    text += "\"name\":" + detail::quoted(op.type) + ",\"args\":{\"operator\":" + detail::quoted(op.place) +
            detail::line(",\"bytes\":%lld}}", static_cast<long long>(event.bytes));
    before = ",\n";
  }
  return text += "]}\n";
}

}  // namespace lod::inline LOD_INTERFACE
