// SPDX-License-Identifier: Apache-2.0
/// @file
/// A Thrust system that is another one, chosen at run time: cases are compiled once for all of them. The bodies of
/// kernels go to the chosen system as a pointer to what calls them.
#pragma once

#include "support/grain.hpp"
#include "support/sort_by_key.hpp"
#include <lod/thrust.hpp>

#include <thrust/copy.h>
#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/system/cpp/execution_policy.h>
#include <thrust/transform_reduce.h>
#ifdef _OPENMP
#  include <thrust/system/omp/execution_policy.h>
#endif
#ifdef LOD_TEST_TBB
#  include <thrust/system/tbb/execution_policy.h>
#endif

#include <algorithm>
#include <cstdint>

namespace lod_test {

struct AnySystem : thrust::execution_policy<AnySystem> {
  enum Kind { CPP, OMP, TBB };
  explicit AnySystem(Kind chosen = CPP) noexcept : kind(chosen) {}
  Kind kind;

  /// call(policy) for the policy of the chosen system.
  template <class Call>
  auto visit(const Call& call) const {
#ifdef _OPENMP
    if (kind == OMP) return call(thrust::omp::par);
#endif
#ifdef LOD_TEST_TBB
    if (kind == TBB) return call(thrust::tbb::par);
#endif
    return call(thrust::cpp::par);
  }
};
using ThrustExecutor = lod::ThrustExecutor<AnySystem>;

/// Those that are there, with their names.
struct NamedSystem {
  const char* name;
  AnySystem::Kind kind;
};
inline constexpr NamedSystem systems[] = {
    {"Thrust, CPP", AnySystem::CPP},
#ifdef _OPENMP
    {"Thrust, OMP", AnySystem::OMP},
#endif
#ifdef LOD_TEST_TBB
    {"Thrust, TBB", AnySystem::TBB},
#endif
};

// What Thrust finds by the type of the policy.

using Index = thrust::counting_iterator<std::int64_t>;

struct ErasedBody {
  void (*call)(const void*, std::int64_t);
  const void* body;
  void operator()(std::int64_t i) const { call(body, i); }
};
inline void run_body(const AnySystem& system, std::int64_t first, std::int64_t count, const ErasedBody& body) {
  system.visit([&](const auto& policy) { thrust::for_each_n(policy, Index(first), count, body); });
}
template <class Size, class Body>
Index for_each_n(thrust::execution_policy<AnySystem>& policy, Index first, Size count, Body body) {
  const auto call = [](const void* erased, std::int64_t i) { (*static_cast<const Body*>(erased))(i); };
  run_body(thrust::detail::derived_cast(policy), *first, count, {call, &body});
  return first + count;
}

/// Where all is slow, many elements are sorted by the standard library, which gives the same.
template <class It>
bool is_sorted_by_thrust(It first, It last) {
  return !slow || last - first <= 64;
}
template <class Keys, class Values, class Less>
void stable_sort_by_key(thrust::execution_policy<AnySystem>& policy, Keys first, Keys last, Values values, Less less) {
  if (!is_sorted_by_thrust(first, last)) {
    lod_test::sort_by_key(first, last, values, less);
    return;
  }
  thrust::detail::derived_cast(policy).visit(
      [&](const auto& chosen) { thrust::stable_sort_by_key(chosen, first, last, values, less); });
}
template <class Keys, class Less>
void stable_sort(thrust::execution_policy<AnySystem>& policy, Keys first, Keys last, Less less) {
  if (!is_sorted_by_thrust(first, last)) {
    std::stable_sort(first, last, less);
    return;
  }
  thrust::detail::derived_cast(policy).visit(
      [&](const auto& chosen) { thrust::stable_sort(chosen, first, last, less); });
}
template <class In, class Out, class Plus>
Out inclusive_scan(thrust::execution_policy<AnySystem>& policy, In first, In last, Out out, Plus plus) {
  return thrust::detail::derived_cast(policy).visit(
      [&](const auto& chosen) { return thrust::inclusive_scan(chosen, first, last, out, plus); });
}

template <class In, class Transform, class T, class Reduce>
T transform_reduce(thrust::execution_policy<AnySystem>& policy, In first, In last, Transform transform, T start,
                   Reduce reduce) {
  return thrust::detail::derived_cast(policy).visit(
      [&](const auto& chosen) { return thrust::transform_reduce(chosen, first, last, transform, start, reduce); });
}
template <class In, class Stencil, class Out, class Predicate>
Out copy_if(thrust::execution_policy<AnySystem>& policy, In first, In last, Stencil stencil, Out out,
            Predicate predicate) {
  return thrust::detail::derived_cast(policy).visit(
      [&](const auto& chosen) { return thrust::copy_if(chosen, first, last, stencil, out, predicate); });
}

}  // namespace lod_test
