// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The structs of Arrow's C data interface and of its C device data interface, and a class that owns them.
///
/// The structs are an ABI: their members are those that the Arrow specification names and explains, and the include
/// guards are those that it prescribes, so that other libraries' declarations may be included before or after these.
#pragma once

#include <lod/core/target.hpp>

#include <stdint.h>

#include <concepts>
#include <cstdint>

/// @cond
extern "C" {

#ifndef ARROW_C_DATA_INTERFACE
#  define ARROW_C_DATA_INTERFACE

#  define ARROW_FLAG_DICTIONARY_ORDERED 1
#  define ARROW_FLAG_NULLABLE 2
#  define ARROW_FLAG_MAP_KEYS_SORTED 4

// The type of an array, as a tree.
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

// The buffers of an array, as a tree of the same form.
struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

#endif  // ARROW_C_DATA_INTERFACE

#ifndef ARROW_C_DEVICE_DATA_INTERFACE
#  define ARROW_C_DEVICE_DATA_INTERFACE

typedef std::int32_t ArrowDeviceType;

#  define ARROW_DEVICE_CPU 1
#  define ARROW_DEVICE_CUDA 2
#  define ARROW_DEVICE_CUDA_HOST 3
#  define ARROW_DEVICE_OPENCL 4
#  define ARROW_DEVICE_VULKAN 7
#  define ARROW_DEVICE_METAL 8
#  define ARROW_DEVICE_VPI 9
#  define ARROW_DEVICE_ROCM 10
#  define ARROW_DEVICE_ROCM_HOST 11
#  define ARROW_DEVICE_EXT_DEV 12
#  define ARROW_DEVICE_CUDA_MANAGED 13
#  define ARROW_DEVICE_ONEAPI 14
#  define ARROW_DEVICE_WEBGPU 15
#  define ARROW_DEVICE_HEXAGON 16

// An array whose buffers are in the memory of a device, and an event after which they may be read.
struct ArrowDeviceArray {
  struct ArrowArray array;
  std::int64_t device_id;
  ArrowDeviceType device_type;
  void* sync_event;
  std::int64_t reserved[3];
};

#endif  // ARROW_C_DEVICE_DATA_INTERFACE

}  // extern "C"
/// @endcond

namespace lod::inline LOD_INTERFACE {

namespace detail::inline LOD_TARGET {

/// The struct that has the release callback.
template <class Struct>
auto& base_of(Struct& of) noexcept {
  if constexpr (std::same_as<std::remove_const_t<Struct>, ArrowDeviceArray>) {
    return of.array;
  } else {
    return of;
  }
}

}  // namespace detail::inline LOD_TARGET

/// ArrowArray or ArrowDeviceArray.
template <class X>
concept ArrowArrayStruct = std::same_as<X, ArrowArray> || std::same_as<X, ArrowDeviceArray>;
/// The three structs with a release callback.
template <class X>
concept ArrowStruct = std::same_as<X, ArrowSchema> || ArrowArrayStruct<X>;

/// Owns one of the structs: its release callback is called once, unless the struct has been moved out before. The
/// struct is stored in the handle; other libraries fill it, or move out of it, through its address:
///
///     lod::ArrowHandle<ArrowArray> array;
///     other_library_export(array.get());     // fills it
///     other_library_import(array.get());     // moves out of it: nothing is left to release
template <ArrowStruct Struct>
class ArrowHandle {
 public:
  /// An empty handle: the struct is marked as released.
  LOD_TAGGED ArrowHandle() noexcept = default;
  /// Moves the struct at `from` in, and marks that one as released, as the specification requires.
  LOD_TAGGED explicit ArrowHandle(Struct* from) noexcept : struct_(*from) { detail::base_of(*from).release = nullptr; }
  /// The source is left empty.
  LOD_TAGGED ArrowHandle(ArrowHandle&& other) noexcept : ArrowHandle(other.get()) {}
  /// The same, and releases what this handle owned before.
  LOD_TAGGED ArrowHandle& operator=(ArrowHandle&& other) noexcept {
    if (this != &other) {
      reset();
      other.move_to(&struct_);
    }
    return *this;
  }
  LOD_TAGGED ~ArrowHandle() { reset(); }

  /// Whether there is something to release.
  LOD_TAGGED explicit operator bool() const noexcept { return detail::base_of(struct_).release != nullptr; }
  /// @{
  /// The struct.
  LOD_TAGGED Struct* get() noexcept { return &struct_; }
  LOD_TAGGED const Struct& operator*() const noexcept { return struct_; }
  LOD_TAGGED const Struct* operator->() const noexcept { return &struct_; }
  /// @}
  /// Moves the struct to `to`, overwriting its contents; this handle is left empty.
  LOD_TAGGED void move_to(Struct* to) noexcept {
    *to = struct_;
    detail::base_of(struct_).release = nullptr;
  }
  /// Releases the struct, if there is one.
  LOD_TAGGED void reset() noexcept {
    auto& base = detail::base_of(struct_);
    if (base.release) base.release(&base);
    base.release = nullptr;
  }

 private:
  Struct struct_{};
};

}  // namespace lod::inline LOD_INTERFACE
