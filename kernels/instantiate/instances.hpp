// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the compiled libraries contain: the kernels that the declarations of operations name (`operation::Launches`).
/// Each of the source files in this folder instantiates them for one element type, of `CudaLibrary` or of `CpuLibrary`.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/compiled/boundary.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/operations.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// The function that users call for a kernel with these arguments.
template <class Library, class Tag, class R, class... A>
constexpr bool is_there(R (*)(const typename Library::executor&, A...)) {
  return Library::template instantiate<Tag, typename compiled::Passed<std::decay_t<A>>::type...>();
}
/// The same for a kernel with these template arguments, unless it is one for the other library or for elements that the
/// libraries do not have.
template <class Library, class T, class Tag, class... Types>
constexpr bool is_there(Instance<Tag, Types...>) {
  if constexpr (Library::template has<Tag> && compiled::takes<Tag, T*>) {
    return is_there<Library, Tag>(Library::template function<Tag, Types...>());
  }
  return true;
}
template <class Library, class T, class... Each>
constexpr bool is_there(Instances<Each...>) {
  return (is_there<Library, T>(Each()) && ...);
}

/// The kernels of an operation for elements of type T.
template <class Library, class T, class Op>
constexpr bool is_there() {
  using Declared = operation::Declared<Op>;
  bool all = true;
  if constexpr (Op::template includes<T> &&
                requires { typename std::type_identity<typename Declared::template Kernels<T>>; }) {
    all = is_there<Library, T>(typename Declared::template Kernels<T>());
  }
  if constexpr (std::same_as<T, std::int64_t> && requires { typename Declared::IdKernels; }) {
    all = is_there<Library, T>(typename Declared::IdKernels()) && all;
  }
  return all;
}
/// All kernels for elements of type T.
template <class Library, class T, class... Ops>
constexpr bool instantiate(operation::List<Ops...>) {
  return (is_there<Library, T, Ops>() && ...);
}
template <class Library, class T>
constexpr bool instantiate() {
  return instantiate<Library, T>(AllOperations());
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
