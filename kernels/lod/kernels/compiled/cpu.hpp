// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels for CPUs from the compiled library; from the headers for elements that it does not have.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/compiled/boundary.hpp>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// Runs a kernel of the library.
template <class Tag, class... A>
  requires(!requires { Tag::in_headers_only; } && (compiled::takes<Tag, A> && ...))
auto launch(Tag, const CpuExecutor& executor, const A&... arguments) {
  return compiled::run<Tag, typename compiled::Passed<A>::type...>(executor, compiled::Passed<A>::pass(arguments)...);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
