// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which operation takes which elements on which device: a table at compile time.
///
/// Each operation `lod::f` has a tag `lod::op::f`, declared in its header. The tag derives from the kind of elements
/// for which the operation is defined; the back ends say which devices have its kernels. `supports` combines the two,
/// and a call with another element type does not compile: the error says what is supported.
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

/// Those without bool.
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

/// Beside one of them: for operations that are there on the CPU only, since it reads what they compute with. Where a
/// twin's name ends in `_and_wait`, that one is there for every device.
struct OnCpu {
  static constexpr bool on_cpu_only = true;  ///< there are no kernels for GPUs
};

}  // namespace elements

/// The operations as types, for `supports`: `op::sequence_pool` is `sequence_pool`.
namespace op {

/// What a binding to another language says of an operation: a member `text` of its tag.
struct Text {
  const char* arguments;          ///< their names, in their order, without options: "x, type"
  const char* summary = nullptr;  ///< a sentence; null where it is "The gradient of `f`." of f_grad
};

}  // namespace op

/// Whether an operation is there on the CPU only, whatever back ends there are.
template <class Op>
inline constexpr bool on_cpu_only = requires {
  Op::on_cpu_only;
};

/// Whether there are kernels of an operation for tensors on a device. Those for the CPU come with every operation
/// (<lod/cpu.hpp>), those for GPUs with <lod/cuda.cuh> or, where the library lodtensor::cuda is linked, <lod/cuda.hpp>:
/// in a file that has included neither, there are none. A back end specialises this for its device.
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

/// A compile error, unless the operation works in the memory of a device, for those of which a twin waits.
template <class Op, class Device>
LOD_TAGGED constexpr void check_waits_for_nothing() noexcept {
  static_assert(std::same_as<Device, Cpu> || !on_cpu_only<Op>,
                "on a GPU this operation would have to wait for what it computes: its twin does, whose name ends in "
                "_and_wait");
}

}  // namespace detail

}  // namespace lod::inline LOD_INTERFACE
