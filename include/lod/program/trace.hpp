// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The trace of a run: how long each operator takes, and the bytes that it works on.
///
///     lod::Trace trace;
///     lod::run(program, scope, {.feed = feed, .trace = &trace});
///     std::cout << trace.table();
///     std::ofstream("trace.json") << trace.json();   // for ui.perfetto.dev, or chrome://tracing
#pragma once

#include <lod/core/target.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// An operator in a trace: its type, and its place (block, number and variables) as error messages give it.
struct TracedOperator {
  std::string type;
  std::string place;
};

/// One run of one operator. With the executor of a GPU, the times are those that the CPU takes to enqueue the work.
struct TraceEvent {
  std::size_t op = 0;                      ///< its number among Trace::operators()
  std::chrono::nanoseconds start = {};     ///< since the trace began
  std::chrono::nanoseconds duration = {};  ///< includes the operators of blocks that it owns
  std::int64_t bytes = 0;                  ///< of all tensors that it has read and written, each once
  std::int32_t lane = 0;                   ///< 1 for an operator that may run at the same time as one of lane 0
};

/// The record of one run, or of several, one after the other. It grows by an event of 40 bytes for each operator that
/// runs; an operator that throws has none. Neither copied nor moved. Runs at the same time must not share it.
class Trace {
 public:
  /// The clock that times are taken from.
  using Clock = std::chrono::steady_clock;

  /// An empty trace, which begins now.
  LOD_TAGGED Trace() : began_(Clock::now()) {}
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  LOD_TAGGED ~Trace() = default;

  /// The operators that have run, in the order of their first run.
  LOD_TAGGED const std::vector<TracedOperator>& operators() const noexcept { return operators_; }
  /// Their runs, in the order in which they ended.
  LOD_TAGGED const std::vector<TraceEvent>& events() const noexcept { return events_; }

  /// A table for people to read: a line for each operator, those that took the longest first, not counting the
  /// operators of blocks that they own. The last line is the total.
  LOD_TAGGED std::string table() const;
  /// The runs as JSON, in the trace event format that Perfetto and chrome://tracing read. A byte of a name that is not
  /// ASCII is written as the character with that number.
  LOD_TAGGED std::string json() const;

  /// Called by the interpreter, from any thread.
  LOD_TAGGED void add(const std::string& type, const std::string& place, Clock::time_point start, Clock::time_point end,
                      std::int64_t bytes, std::int32_t lane) {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = by_place_.try_emplace(place, operators_.size());
    if (is_new) operators_.push_back({type, place});
    events_.push_back({found->second, start - began_, end - start, bytes, lane});
  }

 private:
  Clock::time_point began_;
  std::mutex mutex_;
  std::map<std::string, std::size_t> by_place_;
  std::vector<TracedOperator> operators_;
  std::vector<TraceEvent> events_;
};

namespace detail::inline LOD_TARGET {

/// The totals over all runs of one operator.
struct TraceSum {
  std::size_t op = 0;
  std::int64_t runs = 0;
  std::int64_t bytes = 0;
  std::chrono::nanoseconds time = {};
};

/// The totals of each operator; its time does not include that of operators that ran inside it.
inline std::vector<TraceSum> sums_of(const Trace& trace) {
  std::vector<TraceSum> sums(trace.operators().size());
  std::vector<const TraceEvent*> events;
  for (const TraceEvent& event : trace.events()) events.push_back(&event);
  // An event inside another one begins later, or at the same time and is shorter.
  std::ranges::stable_sort(events, [](const TraceEvent* a, const TraceEvent* b) {
    if (a->lane != b->lane) return a->lane < b->lane;
    return a->start != b->start ? a->start < b->start : a->duration > b->duration;
  });
  std::vector<const TraceEvent*> around;
  for (const TraceEvent* const event : events) {
    TraceSum& sum = sums[event->op];
    sum.op = event->op;
    ++sum.runs;
    sum.bytes += event->bytes;
    sum.time += event->duration;
    while (!around.empty() && (around.back()->lane != event->lane ||
                               around.back()->start + around.back()->duration < event->start + event->duration)) {
      around.pop_back();
    }
    if (!around.empty()) sums[around.back()->op].time -= event->duration;
    around.push_back(event);
  }
  return sums;
}

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

}  // namespace detail::inline LOD_TARGET

LOD_TAGGED inline std::string Trace::table() const {
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

LOD_TAGGED inline std::string Trace::json() const {
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
