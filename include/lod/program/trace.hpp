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
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
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
  LOD_PROGRAMS std::string table() const;
  /// The runs as JSON, in the trace event format that Perfetto and chrome://tracing read. A byte of a name that is not
  /// ASCII is written as the character with that number.
  LOD_PROGRAMS std::string json() const;

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

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// The totals over all runs of one operator.
struct TraceSum {
  std::size_t op = 0;
  std::int64_t runs = 0;
  std::int64_t bytes = 0;
  std::chrono::nanoseconds time = {};
};

/// The totals of each operator; its time does not include that of operators that ran inside it. A template, so that
/// only those that need it compile it.
template <class Trace>
std::vector<TraceSum> sums_of(const Trace& trace) {
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

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

// What the bodies use; and the bodies.
#ifndef LOD_PROGRAMS_ARE_COMPILED
#  include <cstdio>
#  include <string_view>
#endif
#ifndef LOD_PROGRAMS_ARE_COMPILED
#  include <lod/program/trace_inl.hpp>
#endif
