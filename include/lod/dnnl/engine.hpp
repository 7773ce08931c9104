// SPDX-License-Identifier: Apache-2.0
/// @file
/// oneDNN's engine, the threads that it has while it works, and how its primitives are described.
#pragma once

#include <lod/core/floating_point_control.hpp>
#include <lod/core/target.hpp>

#include <oneapi/dnnl/dnnl.hpp>

#include <tuple>

namespace lod::inline LOD_INTERFACE::detail {

/// Created at first use and never destroyed: primitives refer to it, and oneDNN itself keeps some.
inline const dnnl::engine* dnnl_engine = nullptr;

}  // namespace lod::inline LOD_INTERFACE::detail

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_by_dnnl {

/// The CPU, as oneDNN calls it.
inline const dnnl::engine& engine() {
  const dnnl::engine* made = __atomic_load_n(&detail::dnnl_engine, __ATOMIC_ACQUIRE);
  if (made) return *made;
  const auto* const mine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  if (__atomic_compare_exchange_n(&detail::dnnl_engine, &made, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return *mine;
  delete mine;
  return *made;
}

/// The layout of an argument in memory.
using Layout = dnnl::memory::desc;

#ifdef __linux__
/// The runtime's omp_get_max_threads and omp_set_num_threads, null in a program without OpenMP: not through <omp.h>, so
/// that they are the same for files that are compiled without it.
extern "C" [[gnu::weak]] int lod_omp_get_max_threads() __asm__("omp_get_max_threads");
extern "C" [[gnu::weak]] void lod_omp_set_num_threads(int) __asm__("omp_set_num_threads");
#endif

/// While it exists, oneDNN works for the calling thread with a given number of threads, and with the standard control
/// word.
class Team {
 public:
  /// `threads` is at least 1.
  explicit Team([[maybe_unused]] int threads) {
#ifdef __linux__
    if (!lod_omp_get_max_threads || !lod_omp_set_num_threads) return;
    before_ = lod_omp_get_max_threads();
    lod_omp_set_num_threads(threads);
#endif
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() {
#ifdef __linux__
    if (before_ > 0) lod_omp_set_num_threads(before_);
#endif
  }

 private:
  int before_ = 0;
  detail::FloatingPointControl control_;
};

/// The description of a primitive of type P that takes its scratch memory from this library. For a gradient, `forward`
/// is the description of the forward primitive.
template <class P, class... Forward, class... Arguments>
typename P::primitive_desc describe(const std::tuple<Arguments...>& arguments, const Forward&... forward) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return std::apply(
      [&](const Arguments&... all) {
#if DNNL_VERSION_MAJOR >= 3
        return typename P::primitive_desc(engine(), all..., forward..., attributes);
#else
        return typename P::primitive_desc(typename P::desc(all...), attributes, engine(), forward...);
#endif
      },
      arguments);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_by_dnnl
