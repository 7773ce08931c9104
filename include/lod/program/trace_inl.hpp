// SPDX-License-Identifier: Apache-2.0
/// @file
/// Traces as tables and as JSON.
#pragma once

#include <lod/core/target.hpp>
#include <lod/program/trace.hpp>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// A few numbers, formatted as by printf.
template <class... Numbers>
std::string line(const char* format, Numbers... numbers) {
  char text[200];
  const int size = std::snprintf(text, sizeof text, format, numbers...);
  return std::string(text, size < 0 ? 0 : std::min(static_cast<std::size_t>(size), sizeof text - 1));
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
    return detail::line("%12.3f %6.1f%% %8lld %14lld  ", time / 1e6, whole > 0 ? 100 * time / whole : 0,
                        static_cast<long long>(sum.runs), static_cast<long long>(sum.bytes));
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
    text += "{\"ph\":\"X\",\"pid\":1," + detail::line("\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,", event.lane + 1,
                                                      static_cast<double>(event.start.count()) / 1e3,
                                                      static_cast<double>(event.duration.count()) / 1e3);
    text += "\"name\":" + detail::quoted(op.type) + ",\"args\":{\"operator\":" + detail::quoted(op.place) +
            detail::line(",\"bytes\":%lld}}", static_cast<long long>(event.bytes));
    before = ",\n";
  }
  return text += "]}\n";
}

}  // namespace lod::inline LOD_INTERFACE
