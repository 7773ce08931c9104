// SPDX-License-Identifier: Apache-2.0
/// @file
/// The boundary between compiled kernels and their users: cuda.hpp and cpu.hpp call what kernels/instantiate defines.
///
/// The names of operations and their types depend on the flags that a file is compiled with: see <lod/core/target.hpp>.
/// A library is compiled with its own flags, its users with any others. So nothing with such a name crosses the
/// boundary: kernels and types have names of their own here, and values of such types are passed as their bytes.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/compiled/kernels.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/operations.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE {
class CpuExecutor;
class CudaExecutor;
}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::compiled {

/// The names of kernels and types between the library and its users.
namespace name {

#define LOD_NAME(kernel) struct kernel;
LOD_SHARED_KERNELS(LOD_NAME)
LOD_CUDA_ONLY_KERNELS(LOD_NAME)
LOD_FILTERS(LOD_NAME)
#undef LOD_NAME

/// The first step of a filter.
template <class Filter>
struct Count;

struct ChannelMatrices;
struct ContextWindow;
struct ImagePatches;
template <class T>
struct LookUp;
template <class T>
struct LookUpGrad;
template <class T>
struct NumberedRows;
struct Segments;

struct Add;
struct Clipped;
struct ClippedGrad;
struct Divide;
struct Multiply;
struct Negate;
struct NegatedQuotient;
struct Scaled;
template <int op>
struct Scattered;
struct Subtract;

struct AdagradRule;
struct AdamRule;
struct CenteredRmspropRule;
struct FtrlRule;
struct MomentumRule;
struct RmspropRule;
struct SgdRule;

}  // namespace name

/// The bytes of a value.
template <class Name, std::size_t size, std::size_t alignment>
struct Value {
  alignas(alignment) std::byte bytes[size];
};

/// What a kernel returns.
template <class Kernel>
struct ResultOf {
  using type = void;
};
template <>
struct ResultOf<name::GroupRows> {
  using type = std::int64_t;
};

// Undefined symbols with these names are kernels that the library does not contain.

/// Enqueues a kernel on a GPU.
template <class Kernel, class... Arguments>
[[gnu::used]] typename ResultOf<Kernel>::type enqueue(const CudaExecutor& executor, Arguments... arguments);
/// Runs a kernel on CPUs, with the instruction set that `instruction_set()` returns.
template <class Kernel, class... Arguments>
[[gnu::used]] typename ResultOf<Kernel>::type run(const CpuExecutor& executor, Arguments... arguments);
/// @{
/// Runs it with the named instruction set.
template <class Kernel, class... Arguments>
[[gnu::used]] typename ResultOf<Kernel>::type run_by_baseline(const CpuExecutor& executor, Arguments... arguments);
template <class Kernel, class... Arguments>
[[gnu::used]] typename ResultOf<Kernel>::type run_by_avx2(const CpuExecutor& executor, Arguments... arguments);
template <class Kernel, class... Arguments>
[[gnu::used]] typename ResultOf<Kernel>::type run_by_avx512(const CpuExecutor& executor, Arguments... arguments);
/// @}

/// Whether the libraries have kernels for elements of type T.
template <class T>
inline constexpr bool has_elements =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, float16> || std::same_as<T, bfloat16> ||
    std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t>;

}  // namespace lod::inline LOD_INTERFACE::compiled

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {
namespace kernel {

/// From a type to its name and back.
template <class Type>
struct NameOf {};
template <class Name>
struct TypeOf;

#define LOD_NAMED(scope, named)          \
  template <>                            \
  struct NameOf<scope::named> {          \
    using name = compiled::name::named;  \
  };                                     \
  template <>                            \
  struct TypeOf<compiled::name::named> { \
    using type = scope::named;           \
  };
#define LOD_NAMED_TEMPLATE(scope, named)    \
  template <class T>                        \
  struct NameOf<scope::named<T>> {          \
    using name = compiled::name::named<T>;  \
  };                                        \
  template <class T>                        \
  struct TypeOf<compiled::name::named<T>> { \
    using type = scope::named<T>;           \
  };
LOD_NAMED(kernel, ChannelMatrices)
LOD_NAMED(kernel, ContextWindow)
LOD_NAMED(kernel, ImagePatches)
LOD_NAMED_TEMPLATE(kernel, LookUp)
LOD_NAMED_TEMPLATE(kernel, LookUpGrad)
LOD_NAMED_TEMPLATE(kernel, NumberedRows)
LOD_NAMED(kernel, Segments)
LOD_NAMED(operation, Add)
LOD_NAMED(operation, Clipped)
LOD_NAMED(operation, ClippedGrad)
LOD_NAMED(operation, Divide)
LOD_NAMED(operation, Multiply)
LOD_NAMED(operation, Negate)
LOD_NAMED(operation, NegatedQuotient)
LOD_NAMED(operation, Scaled)
LOD_NAMED(operation, Subtract)
LOD_NAMED(operation, AdagradRule)
LOD_NAMED(operation, AdamRule)
LOD_NAMED(operation, CenteredRmspropRule)
LOD_NAMED(operation, FtrlRule)
LOD_NAMED(operation, MomentumRule)
LOD_NAMED(operation, RmspropRule)
LOD_NAMED(operation, SgdRule)
#undef LOD_NAMED_TEMPLATE
#undef LOD_NAMED
template <ScatterOp op>
struct NameOf<operation::Scattered<op>> {
  using name = compiled::name::Scattered<static_cast<int>(op)>;
};
template <int op>
struct TypeOf<compiled::name::Scattered<op>> {
  using type = operation::Scattered<static_cast<ScatterOp>(op)>;
};

/// How an argument of type A is passed: a pointer as a pointer to non-const, a value whose type has a name as its
/// bytes, anything else as it is.
template <class A>
struct Passed {
  using type = A;
  static A pass(const A& argument) noexcept { return argument; }
};
template <class A>
  requires(requires { typename NameOf<A>::name; })
struct Passed<A> {
  using type = compiled::Value<typename NameOf<A>::name, sizeof(A), alignof(A)>;
  static type pass(const A& argument) noexcept { return std::bit_cast<type>(argument); }
};
template <class P>
struct Passed<P*> {
  using type = std::remove_const_t<P>*;
  static type pass(P* argument) noexcept { return const_cast<type>(argument); }
};
template <>
struct Passed<std::nullptr_t>;  // the caller must say which type of pointer it means

/// Whether the libraries have the type of elements, if any, that an argument points to. Masks may also be of bool.
template <class Name, class A>
inline constexpr bool has_elements = true;
template <class Name, class P>
inline constexpr bool has_elements<Name, P*> = compiled::has_elements<std::remove_const_t<P>> ||
                                               (std::same_as<Name, compiled::name::SequenceMask> &&
                                                std::same_as<P, bool>);
template <class Name, class P>
inline constexpr bool has_elements<Name, P* const*> = has_elements<Name, P*>;
template <class Name, class P>
inline constexpr bool has_elements<Name, P**> = has_elements<Name, P*>;
template <class Name, class T>
inline constexpr bool has_elements<Name, LookUp<T>> = compiled::has_elements<T>;
template <class Name, class T>
inline constexpr bool has_elements<Name, LookUpGrad<T>> = compiled::has_elements<T>;
template <class Name, class T>
inline constexpr bool has_elements<Name, NumberedRows<T>> = compiled::has_elements<T>;

}  // namespace kernel
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
