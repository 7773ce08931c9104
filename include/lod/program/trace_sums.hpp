// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a trace says of each operator, over all of its runs.
#pragma once

#include <lod/core/target.hpp>
#include <lod/program/trace.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

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

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
