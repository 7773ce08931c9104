// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks that operations give the same bits on all executors, and that a second call allocates nothing.
#pragma once

#include "support/count_allocations.hpp"
#include "support/counting_resource.hpp"
#include "support/executors.hpp"
#include <lod/executor.hpp>

#include <doctest/doctest.h>

#include <cstdint>

namespace lod_test {

/// Calls f, and checks that it allocates nothing, neither from the resource nor by operator new.
template <class F>
void check_no_allocation(const CountingResource& resource, const F& f) {
  const std::int64_t before = allocations;
  const int from_resource = resource.allocations;
  f();
  const std::int64_t made = allocations - before;
  CHECK(made == 0);
  CHECK(resource.allocations == from_resource);
}

/// Calls body(check, executor, resource) for executors that work alone and together; check(name, call) makes a first
/// call and checks that a second one allocates nothing. What body made of the resource must be gone at its end.
template <class Body>
void on_counting_executors(const Body& body) {
  for (const int threads : thread_counts) {
    CAPTURE(threads);
    CountingResource resource;
    {
      const lod::CpuExecutor executor(threads, &resource);
      const auto check = [&](const char* name, const auto& call) {
        CAPTURE(name);
        call();
        check_no_allocation(resource, call);
      };
      body(check, executor, resource);
      CHECK(resource.live > 0);
    }
    CHECK(resource.live == 0);
  }
}

/// Calls run(executor, results) twice on each executor, with Results(&resource): the second call must allocate nothing,
/// and check_same(results, expected) compares with what one thread gave.
template <class Results, class Run, class CheckSame>
void check_repeatable(const Run& run, const CheckSame& check_same) {
  CountingResource first;
  Results expected(&first);
  const lod::CpuExecutor alone(1, &first);
  run(alone, expected);
  run(alone, expected);
  for (const int threads : thread_counts) {
    CAPTURE(threads);
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    Results results(&resource);
    run(executor, results);
    check_no_allocation(resource, [&] { run(executor, results); });
    check_same(results, expected);
  }
}

}  // namespace lod_test
