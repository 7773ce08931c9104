// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which operation takes which elements on which device, at compile time.
///
/// Each operation `lod::f` has a tag `lod::op::f`, declared in its header. The tag derives from the kind of elements
/// for which the operation is defined; back ends say for which devices there are kernels. `supports` combines the two.
/// A call with any other element type does not compile, and the error says what is supported.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/device.hpp>
#include <lod/core/target.hpp>

#include <concepts>
#include <type_traits>

namespace lod::inline LOD_INTERFACE {

/// Kinds of elements.
namespace elements {

/// For operations that only move elements.
struct Any {
  static constexpr const char* words = "elements of any type";  ///< what is supported
  /// Whether T is of this kind.
  template <class T>
  static constexpr bool includes = std::is_trivially_copyable_v<T>;
  /// Whether elements of the type are of this kind.
  LOD_TAGGED static constexpr bool has(DataType) noexcept { return true; }
  /// No compile error: tensors have no other elements.
  template <class Op, class T>
  LOD_TAGGED static constexpr void check() noexcept {}
};

/// bool, integers and floating-point numbers: for operations that compute the same way with all of them.
struct Arithmetic {
  static constexpr const char* words = "bool, integers, float16, bfloat16, float, double";  ///< what is supported
  /// Whether T is of this kind.
  template <class T>
  static constexpr bool includes =
      std::integral<T> || std::same_as<T, float> || std::same_as<T, double> || detail::Half<T>;
  /// Whether elements of the type are of this kind.
  LOD_TAGGED static constexpr bool has(DataType type) noexcept {
    return type != DataType::COMPLEX64 && type != DataType::COMPLEX128 && type != DataType::FP8_E4M3FN &&
           type != DataType::FP8_E5M2;
  }
  /// A compile error if T is not of this kind. Compilers also name the operation.
  template <class Op, class T>
  LOD_TAGGED static constexpr void check() noexcept {
    static_assert(includes<T>,
                  "this operation takes bool, integers, float16, bfloat16, float and double as elements only");
  }
};

/// Integers and floating-point numbers, without bool.
struct Number {
  static constexpr const char* words = "integers, float16, bfloat16, float, double";  ///< what is supported
  /// Whether T is of this kind.
  template <class T>
  static constexpr bool includes = Arithmetic::includes<T> && !std::same_as<T, bool>;
  /// Whether elements of the type are of this kind.
  LOD_TAGGED static constexpr bool has(DataType type) noexcept {
    return Arithmetic::has(type) && type != DataType::BOOL;
  }
  /// A compile error if T is not of this kind. Compilers also name the operation.
  template <class Op, class T>
  LOD_TAGGED static constexpr void check() noexcept {
    static_assert(includes<T>,
                  "this operation takes numbers as elements only: integers, float16, bfloat16, float, double");
  }
};

/// Ids: integers, and bool.
struct Id {
  static constexpr const char* words = "bool, integers";  ///< what is supported
  /// Whether T is of this kind.
  template <class T>
  static constexpr bool includes = std::integral<T>;
  /// Whether elements of the type are of this kind.
  LOD_TAGGED static constexpr bool has(DataType type) noexcept {
    return Arithmetic::has(type) && type != DataType::FP16 && type != DataType::BF16 && type != DataType::FP32 &&
           type != DataType::FP64;
  }
  /// A compile error if T is not of this kind. Compilers also name the operation.
  template <class Op, class T>
  LOD_TAGGED static constexpr void check() noexcept {
    static_assert(includes<T>, "this operation takes ids as elements only: integers or bool");
  }
};

/// Floating-point numbers.
struct Floating {
  static constexpr const char* words = "float16, bfloat16, float, double";  ///< what is supported
  /// Whether T is of this kind.
  template <class T>
  static constexpr bool includes = std::same_as<T, float> || std::same_as<T, double> || detail::Half<T>;
  /// Whether elements of the type are of this kind.
  LOD_TAGGED static constexpr bool has(DataType type) noexcept {
    return type == DataType::FP16 || type == DataType::BF16 || type == DataType::FP32 || type == DataType::FP64;
  }
  /// A compile error if T is not of this kind. Compilers also name the operation.
  template <class Op, class T>
  LOD_TAGGED static constexpr void check() noexcept {
    static_assert(includes<T>, "this operation takes floating-point elements only: float16, bfloat16, float, double");
  }
};

/// Added to one of these kinds: for operations that exist on the CPU only, since the CPU must read the values. If an
/// operation has a twin whose name ends in `_and_wait`, the twin exists for every device.
struct OnCpu {
  static constexpr bool on_cpu_only = true;  ///< there are no kernels for GPUs
};

}  // namespace elements

/// The operations as types, for `supports`: `op::sequence_pool` is `sequence_pool`.
namespace op {

/// The documentation of an operation for bindings to other languages: a member `text` of its tag.
struct Text {
  const char* arguments;          ///< the names of the arguments, in order, without options: "x, type"
  const char* summary = nullptr;  ///< a sentence; null if it is "The gradient of `f`." for f_grad
};

}  // namespace op

/// Whether an operation exists on the CPU only, whatever the back ends.
template <class Op>
inline constexpr bool on_cpu_only = requires {
  Op::on_cpu_only;
};

/// Whether an operation has kernels for tensors on a device. Every operation has them for the CPU (<lod/cpu.hpp>).
/// Kernels for GPUs come with <lod/cuda.cuh> or, with the library lodtensor::cuda, <lod/cuda.hpp>; a file that includes
/// neither has none. A back end specialises this for its device.
template <class Op, class Device>
inline constexpr bool has_kernels = std::same_as<Device, Cpu>;

/// Whether an operation takes tensors of elements of type T on a device: `supports<op::sequence_softmax, float>`. T is
/// the type of its first tensor; for `embedding` that of the table, for `sequence_mask` that of the result.
template <class Op, class T, class Device = Cpu>
inline constexpr bool supports = (has_kernels<Op, Device> && Op::template includes<T>);

namespace detail {

/// A compile error at the call of an operation unless it takes elements of type T.
template <class Op, class T>
LOD_TAGGED constexpr void check_elements() noexcept {
  Op::template check<Op, T>();
}

/// For operations whose twin waits: a compile error unless the operation works in the memory of the device.
template <class Op, class Device>
LOD_TAGGED constexpr void check_waits_for_nothing() noexcept {
  static_assert(std::same_as<Device, Cpu> || !on_cpu_only<Op>,
                "on a GPU this operation would have to wait for what it computes: its twin does, whose name ends in "
                "_and_wait");
}

}  // namespace detail

}  // namespace lod::inline LOD_INTERFACE
