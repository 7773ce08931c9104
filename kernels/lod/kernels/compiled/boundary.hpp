// SPDX-License-Identifier: Apache-2.0
/// @file
/// The boundary between compiled kernels and their users: cuda.hpp and cpu.hpp call what kernels/instantiate defines.
///
/// A library is compiled with its own flags, its users with any others. So nothing whose name depends on the flags (see
/// <lod/core/target.hpp>) crosses the boundary: the tags of kernels and the types of their arguments have no flags in
/// their names.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/row_groups.hpp>
#include <lod/ops/sequence_mask.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE {
class CpuExecutor;
class CudaExecutor;
}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::compiled {

/// What a kernel returns.
template <class Tag>
struct ResultOf {
  using type = void;
};
template <>
struct ResultOf<kernel::GroupRows> {
  using type = std::int64_t;
};
template <>
struct ResultOf<kernel::AreIds> {
  using type = bool;
};

// Undefined symbols with these names are kernels that the library does not contain.

/// Enqueues a kernel on a GPU.
template <class Tag, class... Arguments>
[[gnu::used]] typename ResultOf<Tag>::type enqueue(const CudaExecutor& executor, Arguments... arguments);
/// Runs a kernel on CPUs, with the instruction set that `instruction_set()` returns.
template <class Tag, class... Arguments>
[[gnu::used]] typename ResultOf<Tag>::type run(const CpuExecutor& executor, Arguments... arguments);
/// @{
/// Runs it with the named instruction set.
template <class Tag, class... Arguments>
[[gnu::used]] typename ResultOf<Tag>::type run_by_baseline(const CpuExecutor& executor, Arguments... arguments);
template <class Tag, class... Arguments>
[[gnu::used]] typename ResultOf<Tag>::type run_by_avx2(const CpuExecutor& executor, Arguments... arguments);
template <class Tag, class... Arguments>
[[gnu::used]] typename ResultOf<Tag>::type run_by_avx512(const CpuExecutor& executor, Arguments... arguments);
/// @}

/// Whether the libraries have kernels for elements of type T.
template <class T>
inline constexpr bool has_elements =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, float16> || std::same_as<T, bfloat16> ||
    std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t>;

/// Whether the libraries have the element type, if any, of an argument: a pointer to it, or a template of it. Masks may
/// also be of bool.
template <class Tag, class A>
inline constexpr bool takes = true;
template <class Tag, class P>
inline constexpr bool takes<Tag, P*> = has_elements<std::remove_const_t<P>> ||
                                       (std::same_as<Tag, kernel::SequenceMask> && std::same_as<P, bool>);
template <class Tag, class P>
inline constexpr bool takes<Tag, P* const*> = takes<Tag, P*>;
template <class Tag, class P>
inline constexpr bool takes<Tag, P**> = takes<Tag, P*>;
template <class Tag, template <class> class Rows, class T>
inline constexpr bool takes<Tag, Rows<T>> = has_elements<std::remove_const_t<T>>;

/// How an argument of type A is passed: a pointer as a pointer to non-const, anything else as it is.
template <class A>
struct Passed {
  using type = A;
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): it is passed on within the expression
  LOD_TAGGED static const A& pass(const A& argument) noexcept { return argument; }
};
template <class P>
struct Passed<P*> {
  using type = std::remove_const_t<P>*;
  LOD_TAGGED static type pass(P* argument) noexcept { return const_cast<type>(argument); }
};
template <>
struct Passed<std::nullptr_t>;  // the caller must say which type of pointer it means

}  // namespace lod::inline LOD_INTERFACE::compiled
